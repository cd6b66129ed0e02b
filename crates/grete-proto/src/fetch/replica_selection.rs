//! Reading from followers (KIP-392). A leader names a replica in the consumer's rack, and the partition is fetched from
//! that follower until
//! - the leader changes ([`PartitionTable::refresh`]),
//! - [`FetchConfig::read_replica_max_age`](super::FetchConfig::read_replica_max_age) is over: the leader is asked again,
//! - the follower refuses the partition, has a corrupt batch, or does not answer: the leader is the fall-back, and its
//!   word counts in all that concerns the position.
//!
//! A leader names a follower as long as the follower is in sync, whether or not this client reaches that broker. A
//! follower that has failed is therefore avoided for a while: requests to a leader that names the follower leave out the
//! rack, and the leader sends the records itself.

use grete_wire::ApiKey;
use grete_wire::error_code::ErrorCode;

use super::event::FetchAction;
use super::fetcher::Fetcher;
use crate::cluster::view::ClusterView;
use crate::ids::{NodeId, PartitionHandle};
use crate::partition::log_event::FetchLogEvent;
use crate::partition::table::PartitionTable;
use crate::request::{Channel, NO_NODE};
use crate::time::{Nanos, SECOND};

/// Time for which a follower is avoided that does not answer: a restart of a broker takes about as long.
const AVOID_UNREACHABLE: Nanos = 30 * SECOND;

impl Fetcher {
    /// Reads partitions from the followers that leaders have named in this step, and asks leaders again whose word is
    /// old.
    pub(super) fn update_read_replicas(
        &mut self,
        now: Nanos,
        view: &impl ClusterView,
        partitions: &mut PartitionTable,
        out: &mut Vec<FetchAction>,
    ) {
        for (session, slot, node) in std::mem::take(&mut self.replicas.named) {
            let Some(leader) = self.sessions.get(session).map(|session| session.node) else { continue };
            if leader != partitions.leader(slot) {
                // A follower that names another one: only leaders know.
                self.leave_failed_replica(now, slot, ErrorCode::NOT_LEADER_OR_FOLLOWER, partitions, out);
                continue;
            }
            let avoided = self.replicas.avoided.get(&node).copied().filter(|until| now < *until);
            // A broker that the metadata does not list has no address, and may not exist.
            let hidden = match view.has_broker(node) {
                true => avoided,
                false => {
                    self.needs_metadata = true;
                    Some(now.saturating_add(self.config.retry_backoff_max))
                }
            };
            if let (Some(until), Some(session)) = (hidden, self.sessions.get_mut(session)) {
                // A selector of the cluster's own may name followers without a rack; then nothing helps but to wait.
                let is_in_vain = self.config.rack.is_empty() || now < session.rack_hidden_until;
                session.rack_hidden_until = session.rack_hidden_until.max(until);
                if is_in_vain {
                    self.back_off_partition(now, slot, ErrorCode::REPLICA_NOT_AVAILABLE, leader, partitions, out);
                }
                continue;
            }
            let until = now.saturating_add(self.config.read_replica_max_age);
            partitions.set_read_replica(slot, node);
            self.replicas.until.insert(slot, until);
            self.replicas.next_end = Some(self.replicas.next_end.map_or(until, |next| next.min(until)));
        }
        if self.replicas.next_end.is_none() {
            return;
        }
        self.leave_unreachable_replicas(now, view, partitions);
        if self.replicas.next_end.is_some_and(|end| end <= now) {
            self.replicas.until.retain(|slot, until| {
                let stays = now < *until;
                if !stays {
                    partitions.set_read_replica(*slot, NO_NODE);
                }
                stays
            });
            self.replicas.next_end = self.replicas.until.values().copied().min();
        }
    }

    /// Returns the time for which a follower's answer is awaited before the leaders are read. A follower without new
    /// records rightly takes `fetch.max.wait.ms`.
    fn replica_timeout(&self) -> Nanos {
        (self.config.request_timeout / 2).max(self.longest_answer())
    }

    /// Returns the next time at which a follower has not answered for too long; `None`: no follower is read.
    pub(super) fn next_late_replica(&self, now: Nanos) -> Option<Nanos> {
        self.replicas.next_end?;
        let timeout = self.replica_timeout();
        self.sessions.iter().filter_map(|session| session.late_at(timeout)).filter(|late_at| *late_at > now).min()
    }

    /// Leaves followers to which a connection was requested in vain, and those that have not answered for too long.
    fn leave_unreachable_replicas(&mut self, now: Nanos, view: &impl ClusterView, partitions: &mut PartitionTable) {
        for at in 0..self.sessions.len() {
            let Some(session) = self.sessions.get(at) else { continue };
            let node = session.node;
            let waited = session.connect_retry_at > 0 && now >= session.connect_retry_at && !session.is_idle();
            let is_late = session.late_at(self.replica_timeout()).is_some_and(|late_at| now >= late_at);
            let is_avoided = self.replicas.avoided.get(&node).is_some_and(|until| now < *until);
            if !is_avoided && is_late || waited && view.api_version(node, Channel::Fetch, ApiKey::Fetch).is_none() {
                self.leave_replica(now, node, partitions);
            }
        }
    }

    /// Reads all partitions of a follower that does not answer from their leaders, and avoids the follower.
    pub(super) fn leave_replica(&mut self, now: Nanos, node: NodeId, partitions: &mut PartitionTable) {
        let mut left = 0_usize;
        self.replicas.until.retain(|slot, _| {
            let is_read = partitions.read_replica(*slot) == node;
            if is_read {
                left += 1;
                partitions.set_read_replica(*slot, NO_NODE);
            }
            !is_read
        });
        if left > 0 {
            self.replicas.avoid(now, node, AVOID_UNREACHABLE);
            self.notices.push(FetchLogEvent::ReplicaUnreachable { node, partitions: left });
        }
    }

    /// Reads a partition from its leader after its follower has failed. Returns whether a follower was its source.
    ///
    /// `code`: error of the follower; `NONE`: its records are corrupt.
    pub(super) fn leave_failed_replica(
        &mut self,
        now: Nanos,
        slot: PartitionHandle,
        code: ErrorCode,
        partitions: &mut PartitionTable,
        out: &mut Vec<FetchAction>,
    ) -> bool {
        let node = partitions.read_replica(slot);
        if !partitions.set_read_replica(slot, NO_NODE) {
            return false;
        }
        self.replicas.until.remove(&slot);
        self.replicas.avoid(now, node, self.config.retry_backoff_max);
        let tp = partitions.name(slot);
        out.push(FetchAction::LogEvent(FetchLogEvent::ReplicaRefused { tp, node, code }));
        true
    }

    /// Forgets a partition that is not assigned any more.
    pub(super) fn forget_read_replica(&mut self, slot: PartitionHandle) {
        self.replicas.until.remove(&slot);
    }
}
