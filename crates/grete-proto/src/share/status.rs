//! Reasons why no records of partitions are acquired.

use grete_wire::ErrorCode;
use grete_wire::api::ApiKey;

use super::acquirer::{IDLE_WAIT, ShareAcquirer, key_of};
use crate::cluster::view::ClusterView;
use crate::ids::PartitionHandle;
use crate::partition::fetch_wait::FetchFacts;
use crate::partition::table::{FetchState, PartitionTable};
use crate::request::{Channel, NO_NODE};
use crate::time::{Nanos, SECOND};

/// Longest time between a request and its answer. A broker waits for [`IDLE_WAIT`] at most.
const SLOW_ANSWER: Nanos = IDLE_WAIT + 5 * SECOND;

impl ShareAcquirer {
    /// Returns whether something may keep records of a partition from coming, so that [`Self::facts`] are of interest.
    #[must_use]
    pub fn is_hindered(&self, now: Nanos) -> bool {
        let mut sessions = self.sessions.iter().filter(|session| !session.led.is_empty());
        self.leaderless.is_some()
            || !self.refused.is_empty()
            || sessions.any(|session| session.connect_retry_at > 0 || session.refusal(now, SLOW_ANSWER).is_some())
    }

    /// Returns what is known of an assigned partition and of its leader.
    pub(crate) fn facts(
        &self,
        now: Nanos,
        slot: PartitionHandle,
        view: &impl ClusterView,
        table: &PartitionTable,
    ) -> FetchFacts {
        let key = key_of(slot, table);
        let leader = Some(table.leader(slot)).filter(|node| *node != NO_NODE);
        let session = leader.and_then(|node| self.sessions.iter().find(|session| session.node == node));
        // A leader of which nothing is wanted needs no connection.
        let is_missed = |node| {
            session.is_some_and(|session| session.connect_retry_at > 0)
                && view.api_version(node, Channel::Fetch, ApiKey::ShareFetch).is_none()
        };
        let refused: Option<ErrorCode> = session.and_then(|session| session.refusal(now, SLOW_ANSWER));
        let total = table.queued_total();
        FetchFacts {
            state: FetchState::Fetching,
            paused: self.partitions.get(&key).is_some_and(|partition| partition.paused),
            topic_missing: table.topic_partition(slot).is_some_and(|tp| view.missing_at(&tp.topic).is_some()),
            source: leader,
            memory: (total >= self.config.queued_bytes).then_some((total, self.config.queued_bytes)),
            connected: leader.is_some_and(|node| !is_missed(node)),
            refused: self.refused.get(&key).copied().or(refused),
            throttled: leader.is_some_and(|node| view.is_muted(node, now)),
            ..FetchFacts::default()
        }
    }
}
