//! Share groups: the consumer acquires records instead of fetching from positions, and acknowledges them instead of
//! committing offsets.
//!
//! A partition has no position here. Its lane gets position 0 at once, which only says that records may be handed out.

use super::{ConsumerAction, ConsumerCore, ConsumerLogEvent, ConsumerReply, PendingAction};
use crate::cluster::ClusterEvent;
use crate::dispatch::OffsetMap;
use crate::fetch::RawFetchStats;
use crate::group::GroupConfig;
use crate::ids::PartitionHandle;
use crate::request::Channel;
use crate::share::{ShareAcquirer, ShareAction, ShareEvent, ShareStats};
use crate::time::{Nanos, SECOND};

/// Time without heartbeats after which a member of a share group would give everything up: never. Locks, not the
/// membership, decide which records it may process.
const NO_SESSION: Nanos = 365 * 24 * 3600 * SECOND;

/// Changes the settings of a group to those of a share group.
pub(super) fn adapt(group: &mut GroupConfig) {
    group.session_timeout = NO_SESSION;
}

impl ConsumerCore {
    /// Returns whether the consumer is a member of a share group.
    pub fn is_shared(&self) -> bool {
        self.share.is_some()
    }

    pub(super) fn share(&mut self, now: Nanos, event: ShareEvent) {
        let Some(share) = &mut self.share else { return };
        let member_id = self.group.as_ref().filter(|group| group.generation() > 0);
        let member_id = member_id.map_or("", |group| group.member_id());
        share.step(now, event, member_id, &self.cluster, &mut self.partitions, &mut self.share_actions);
        self.pending_actions.extend(self.share_actions.drain(..).map(PendingAction::Share));
    }

    /// Lets records of a new partition be handed out.
    pub(super) fn start_shared(&mut self, slot: PartitionHandle, out: &mut Vec<ConsumerAction>) {
        let generation = self.partitions.fetch_generation(slot);
        let recovered_marks = OffsetMap::default();
        out.push(ConsumerAction::Position { slot, offset: 0, generation, committed: false, recovered_marks });
        self.plan = true;
    }

    /// Ends the sessions once the group is left and all lanes have drained: what their jobs have acknowledged goes with
    /// the last requests.
    pub(super) fn close_shared(&mut self, now: Nanos) {
        if self.left && self.revocations.draining.is_empty() {
            self.share(now, ShareEvent::Close);
        }
    }

    /// Answers the callers that wait for acknowledgements, once all are settled.
    pub(super) fn reply_flushed(&mut self, out: &mut Vec<ConsumerAction>) {
        if !self.flushes.is_empty() && self.share.as_ref().is_none_or(ShareAcquirer::is_settled) {
            let waiting = std::mem::take(&mut self.flushes);
            out.extend(waiting.into_iter().map(|id| ConsumerAction::Reply(id, ConsumerReply::Commit(Vec::new()))));
        }
    }

    pub(super) fn on_share(&mut self, now: Nanos, action: ShareAction, out: &mut Vec<ConsumerAction>) {
        match action {
            ShareAction::Send(outgoing) => self.cluster(now, ClusterEvent::Send(outgoing)),
            ShareAction::NeedNode(node) => self.cluster(now, ClusterEvent::NeedNode(node, Channel::Fetch)),
            ShareAction::Data(chunk) => out.push(ConsumerAction::Push(chunk)),
            ShareAction::RefreshMetadata => self.cluster(now, ClusterEvent::RefreshMetadata),
            ShareAction::LeaderHint { tp, leader, epoch, endpoint } => {
                if let Some((host, port)) = endpoint {
                    self.cluster.learn_node(leader, &host, i32::from(port));
                }
                self.cluster.update_leader(&tp, leader, epoch);
                self.plan = true;
            }
            ShareAction::Failed { slot, error } => self.on_partition_failed(now, slot, error, out),
            ShareAction::Recovered { slot } => self.on_partition_healthy(now, slot, out),
            ShareAction::AwaitsAcknowledgements(awaits) => out.push(ConsumerAction::AwaitsAcknowledgements(awaits)),
            ShareAction::Closed => self.finish(out),
            ShareAction::LogEvent(event) => out.push(ConsumerAction::LogEvent(ConsumerLogEvent::Share(event))),
        }
    }

    /// Returns the counters of the acquirer; `None`: the group is no share group.
    #[must_use]
    pub fn share_stats(&self) -> Option<ShareStats> {
        self.share.as_ref().map(|share| share.stats())
    }

    pub(super) fn share_fetch_stats(stats: ShareStats) -> RawFetchStats {
        RawFetchStats {
            fetches: stats.fetches,
            bytes: stats.bytes,
            records: stats.acquired,
            ..RawFetchStats::default()
        }
    }
}
