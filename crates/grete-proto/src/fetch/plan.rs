//! Planning of a session: which of its partitions to fetch now, and from which offsets.
//!
//! Whatever [`decide`] reads must note its changes with [`PartitionTable::touch`], or ask for another look
//! ([`EntryPlan::again`]): a partition whose change is missed is never fetched again. Builds for tests compare each plan
//! with a walk over all partitions (`full_walk`).

use crate::partition::table::{FetchState, PartitionTable};
use crate::position::PositionEvent;
use crate::time::{Nanos, earliest};

use super::config::FetchConfig;
use super::event::FetchAction;
use super::partition::PartitionFetchState;
use super::session::{EntryPlan, FetchSession, PartitionParams, SessionPartition};

/// First Fetch version that checks the epoch of the last fetched record (KIP-595).
const FIRST_WITH_DIVERGENCE: i16 = 12;

/// Decision about one partition, for the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// Nothing, until the partition changes.
    Hold,
    /// Wait until bytes are released.
    AwaitRelease,
    /// Wait until this time.
    BackOff(Nanos),
    /// Validate the position, because Fetch requests of this version cannot.
    Validate,
    /// Fetch with these fields.
    Fetch(PartitionParams),
}

impl Decision {
    pub(super) fn plan(self) -> EntryPlan {
        let mut plan = EntryPlan::default();
        match self {
            Self::Hold | Self::Validate => {}
            Self::AwaitRelease => plan.awaits_release = true,
            Self::BackOff(_) => plan.again = true,
            Self::Fetch(params) => plan.params = Some(params),
        }
        plan
    }
}

/// Returns whether any partition is, or will soon be, fetched from this node.
pub(super) fn is_needed(session: &FetchSession, lanes: &[PartitionFetchState], partitions: &PartitionTable) -> bool {
    session.entries.iter().any(|entry| {
        entry.is_here
            && matches!(partitions.state(entry.slot), FetchState::Resolving | FetchState::Fetching)
            && lanes.get(entry.slot.index()).is_some_and(|lane| !lane.paused)
    })
}

/// Decides what to do with a partition that is fetched from the session's node.
pub(super) fn decide(
    now: Nanos,
    entry: &SessionPartition,
    lane: &PartitionFetchState,
    config: &FetchConfig,
    version: i16,
    partitions: &PartitionTable,
) -> Decision {
    let slot = entry.slot;
    let queued = partitions.queued_bytes(slot);
    if partitions.state(slot) != FetchState::Fetching || lane.paused {
        return Decision::Hold;
    }
    if lane.is_over_queue_limit(queued, config.partition_queue_limit()) || (lane.draining && queued > 0) {
        return Decision::AwaitRelease;
    }
    let leader_epoch = partitions.leader_epoch(slot);
    if let Some(until) = lane.backoff_until(now, (partitions.source(slot), leader_epoch)) {
        return Decision::BackOff(until);
    }
    let last_fetched_epoch = partitions.last_fetched_epoch(slot);
    let older = last_fetched_epoch >= 0 && last_fetched_epoch < leader_epoch;
    if version < FIRST_WITH_DIVERGENCE && older && lane.failure().validated != leader_epoch {
        // A truncation must not overtake queued data: see `on_position_invalid`.
        return if queued == 0 { Decision::Validate } else { Decision::AwaitRelease };
    }
    Decision::Fetch(PartitionParams {
        current_leader_epoch: leader_epoch,
        fetch_offset: partitions.fetch_offset(slot),
        last_fetched_epoch: if version < FIRST_WITH_DIVERGENCE { -1 } else { last_fetched_epoch },
        max_bytes: lane.partition_bytes(config),
    })
}

/// Plans the entries that may have changed: whether to fetch each of them now, and from which offset. Returns the
/// earliest time at which a backoff ends, and the number of entries.
pub(super) fn plan_session(
    now: Nanos,
    session: &mut FetchSession,
    lanes: &mut [PartitionFetchState],
    config: &FetchConfig,
    version: i16,
    partitions: &mut PartitionTable,
    out: &mut Vec<FetchAction>,
) -> (Option<Nanos>, usize) {
    let mut waits_until = None;
    let slot_limit = config.partition_queue_limit();
    let planned = session.plan(version, |entry| {
        let slot = entry.slot;
        let Some(lane) = lanes.get_mut(slot.index()).filter(|_| entry.is_here) else {
            return EntryPlan::default();
        };
        let decision = decide(now, entry, lane, config, version, partitions);
        let queued = partitions.queued_bytes(slot);
        lane.update_queue_limit(queued, slot_limit);
        lane.draining &= queued > 0;
        lane.awaits_release = decision == Decision::AwaitRelease;
        match decision {
            Decision::BackOff(until) => waits_until = earliest(waits_until, Some(until)),
            Decision::Validate => {
                lane.failure_mut().validated = partitions.leader_epoch(slot);
                partitions.set_state(slot, FetchState::Resolving);
                out.push(FetchAction::Position(PositionEvent::Validate { slot }));
            }
            Decision::Hold | Decision::AwaitRelease | Decision::Fetch(_) => {}
        }
        decision.plan()
    });
    (waits_until, planned)
}
