//! Status of partitions: those that are fetched, and the errors of the others.

use std::collections::HashSet;

use grete_wire::error_code::ErrorCode;

use grete_wire::api::ApiKey;

use super::fetcher::Fetcher;
use super::session::FetchSession;
use crate::cluster::view::ClusterView;
use crate::ids::{NodeId, PartitionHandle};
use crate::partition::fetch_wait::FetchFacts;
use crate::partition::table::PartitionTable;
use crate::request::{Channel, NO_NODE};
use crate::time::{MILLI, Nanos, SECOND};

/// Longest time of an answer, besides `fetch.max.wait.ms`. A broker that takes longer may have records of which the client
/// does not know.
const SLOW_ANSWER: Nanos = 5 * SECOND;

impl Fetcher {
    /// Returns whether a broker takes long to answer, so that [`Self::facts`] are of interest.
    #[must_use]
    pub fn is_hindered(&self, now: Nanos) -> bool {
        self.sessions.iter().any(|session| self.is_late(now, session))
    }

    fn is_late(&self, now: Nanos, session: &FetchSession) -> bool {
        session.late_at(self.longest_answer()).is_some_and(|late_at| now >= late_at)
    }

    /// Returns the longest time that a broker takes to answer if nothing is wrong.
    pub(super) fn longest_answer(&self) -> Nanos {
        SLOW_ANSWER.saturating_add(u64::try_from(self.config.max_wait_ms).unwrap_or(0) * MILLI)
    }

    /// Returns the partitions that a broker has in a session, as far as the client knows: their data is on its way, or
    /// will come with the next change.
    #[must_use]
    pub fn fetched_partitions(&self) -> HashSet<PartitionHandle> {
        let healthy = self.sessions.iter().filter(|session| !session.failing);
        let known = healthy.flat_map(|session| &session.entries).filter(|entry| entry.is_here && entry.in_session);
        let held = |slot: PartitionHandle| {
            self.partition_states
                .get(slot.index())
                .is_some_and(|lane| lane.paused || lane.over_queue_limit || lane.draining)
        };
        known.map(|entry| entry.slot).filter(|slot| !held(*slot)).collect()
    }

    /// Returns whether a corrupt batch was fetched again and its content is not checked yet.
    pub fn is_verifying_refetch(&self, slot: PartitionHandle) -> bool {
        self.partition_states.get(slot.index()).is_some_and(|lane| lane.failure().verifying_refetch)
    }

    /// Returns whether a broker has the partition in a session without any failure.
    pub fn is_healthy(&self, slot: PartitionHandle) -> bool {
        let Some(lane) = self.partition_states.get(slot.index()) else { return false };
        let failure = lane.failure();
        let well = !lane.is_failing() && !failure.verifying_refetch && failure.max_bytes == 0;
        let session =
            self.sessions.get(lane.place.session as usize).filter(|session| !session.failing && session.epoch > 0);
        let entry = session.and_then(|session| session.entries.get(lane.place.entry as usize));
        well && entry.is_some_and(|entry| entry.slot == slot && entry.is_here && entry.in_session)
    }

    /// Returns what decides whether data of the partition comes, as far as the fetcher knows: all but the lookup of the
    /// start position, and the group.
    pub(crate) fn facts(
        &self,
        now: Nanos,
        slot: PartitionHandle,
        view: &impl ClusterView,
        partitions: &PartitionTable,
    ) -> FetchFacts {
        let held = self.partition_states.get(slot.index());
        let source = Some(partitions.source(slot)).filter(|node| *node != NO_NODE);
        let (queued, total) = (partitions.queued_bytes(slot), partitions.queued_total());
        let limit = self.config.partition_queue_limit();
        let over_limit =
            held.is_some_and(|lane| lane.is_over_queue_limit(queued, limit) || (lane.draining && queued > 0));
        let session = source.and_then(|node| self.sessions.iter().find(|session| session.node == node));
        let failure = held.map(|lane| lane.failure()).filter(|failure| failure.failures > 0);
        let unanswered =
            session.filter(|session| session.failing || self.is_late(now, session)).map(|_| ErrorCode::NONE);
        let (end, stable) = (partitions.high_watermark(slot), partitions.last_stable_offset(slot));
        let stands =
            self.config.read_committed && (0..end).contains(&stable) && partitions.fetch_offset(slot) >= stable;
        let refused = failure.map(|failure| failure.last_error).or(unanswered);
        FetchFacts {
            state: partitions.state(slot),
            paused: held.is_some_and(|lane| lane.paused),
            // The lookup by name is left out where its result does not count.
            topic_missing: (source.is_none() || refused.is_some())
                && partitions.topic_partition(slot).is_some_and(|tp| view.missing_at(&tp.topic).is_some()),
            source,
            lookup: None,
            member_state: "",
            queue_limit: over_limit.then_some((queued, limit)),
            memory: (total >= self.config.queued_bytes).then_some((total, self.config.queued_bytes)),
            connected: source.is_some_and(|node| view.api_version(node, Channel::Fetch, ApiKey::Fetch).is_some()),
            refused,
            throttled: source.is_some_and(|node| view.is_muted(node, now)),
            last_stable_offset: stands.then_some(stable),
        }
    }

    /// Returns the node that returns no data, and the error code of its last response (`NONE`: no response). `None`:
    /// the partition is healthy, or its state is not known yet.
    pub fn last_error(&self, slot: PartitionHandle, partitions: &PartitionTable) -> Option<(NodeId, ErrorCode)> {
        let node = partitions.source(slot);
        // A partition that this client holds back is no broker's fault.
        let lane = self.partition_states.get(slot.index()).filter(|lane| !lane.paused && !lane.over_queue_limit)?;
        if lane.failure().failures > 0 {
            return Some((node, lane.failure().last_error));
        }
        let failing = self.sessions.iter().any(|session| session.node == node && session.failing);
        failing.then_some((node, ErrorCode::NONE))
    }
}
