//! Comparison of a plan with a walk over all partitions, in builds for tests.

use std::cell::RefCell;

use crate::partition::table::PartitionTable;
use crate::time::Nanos;

use super::config::FetchConfig;
use super::partition::{PartitionFetchState, SessionPlace};
use super::plan::{Decision, decide};
use super::session::{FetchNeed, FetchSession};

thread_local! {
    /// Index of the latest change of each entry, plus one; 0: none. Kept for its capacity, because a step without
    /// allocations is tested with this check.
    static LATEST_CHANGES: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Panics if the next request of the session would not be the one that a walk over all partitions leads to, because a
/// change was not noted: such a partition might never be fetched again.
///
/// `number`: index of the session.
pub(super) fn check(
    now: Nanos,
    number: usize,
    session: &FetchSession,
    lanes: &[PartitionFetchState],
    config: &FetchConfig,
    version: i16,
    partitions: &PartitionTable,
) {
    let mut latest = LATEST_CHANGES.take();
    latest.clear();
    latest.resize(session.entries.len(), 0);
    for (number, change) in (1..).zip(&session.changes) {
        if let Some(place) = latest.get_mut(change.at as usize) {
            *place = number;
        }
    }
    let (mut here, mut wanted, mut without_id, mut awaiting) = (0, 0, 0, 0);
    for ((index, entry), number_of_change) in session.entries.iter().enumerate().zip(&latest) {
        let change = number_of_change.checked_sub(1).and_then(|at| session.changes.get(at));
        let tp = partitions.name(entry.slot);
        let mut decision = Decision::Hold;
        if entry.is_here {
            here += 1;
            let lane = lanes.get(entry.slot.index());
            let lane = lane.unwrap_or_else(|| panic!("{tp} has a session and no fetch state"));
            let place = SessionPlace {
                session: u32::try_from(number).unwrap_or(u32::MAX),
                entry: u32::try_from(index).unwrap_or(u32::MAX),
            };
            assert_eq!(lane.place, place, "a change of {tp} would be noted elsewhere");
            decision = decide(now, entry, lane, config, version, partitions);
            let is_awaiting = decision == Decision::AwaitRelease;
            assert_eq!(lane.awaits_release, is_awaiting, "{tp} was not planned again: {decision:?}");
        }
        assert_ne!(decision, Decision::Validate, "{tp} was not planned again, so its position is not validated");
        let plan = decision.plan();
        let planned = match change {
            Some(change) => change.params,
            None => entry.in_session.then_some(entry.sent_params),
        };
        assert_eq!(
            planned,
            plan.params,
            "{tp} was not planned again: {decision:?}, state {:?}",
            partitions.state(entry.slot)
        );
        if plan.params.is_some() && change.is_none() {
            let generation = partitions.fetch_generation(entry.slot);
            assert_eq!(entry.generation, generation, "{tp} was not planned again, so responses with data are refused");
        }
        assert!(entry.is_dirty || !plan.again, "{tp} is not planned again after its backoff");
        assert_eq!(entry.need, plan.need(), "{tp} was not planned again: {decision:?}");
        let is_wanted = entry.need == FetchNeed::Wanted;
        wanted += usize::from(is_wanted);
        without_id += usize::from(is_wanted && session.topic(entry).is_none_or(|topic| topic.id == 0));
        awaiting += usize::from(plan.awaits_release);
    }
    LATEST_CHANGES.set(latest);
    session.check_counts(here, wanted, without_id, awaiting);
    let is_here = |slot| partitions.source(slot) == session.node;
    assert_eq!(
        here,
        partitions.live().iter().filter(|slot| is_here(**slot)).count(),
        "node {} has others",
        session.node
    );
}
