//! Acknowledgements that cannot be delivered.

use super::acquirer::ShareAcquirer;
use super::event::{ShareAction, ShareLogEvent};
use super::partition::SharePartition;
use crate::cluster::view::ClusterView;
use crate::request::NO_NODE;
use crate::time::{Nanos, earliest};

impl ShareAcquirer {
    /// Drops acknowledgements that are not delivered: at once if the topic is gone, else when their locks have ended.
    pub(super) fn drop_undeliverable(&mut self, now: Nanos, view: &impl ClusterView, out: &mut Vec<ShareAction>) {
        self.undelivered = false;
        for (key, partition) in &mut self.partitions {
            if !partition.has_acks() {
                continue;
            }
            if partition.node == NO_NODE {
                self.needs_metadata |= partition.undelivered_since.is_none();
                partition.undelivered_since.get_or_insert(now);
            }
            let Some(since) = partition.undelivered_since else { continue };
            let ends = since.saturating_add(self.lock);
            let topic = &*partition.tp.topic;
            let is_gone = match view.topic_id(topic) {
                Some(id) if id == key.0 => partition.slot.is_none() && view.missing_at(topic).is_some(),
                Some(_) => true,
                None => false,
            };
            if is_gone || ends <= now {
                self.stats.locks_lost += lose_acks(partition, out);
                self.seen = None;
            } else {
                self.undelivered = true;
                self.wake = earliest(self.wake, Some(ends));
            }
        }
    }

    /// Drops the acknowledgements of a session's partitions, which cannot be delivered.
    pub(super) fn drop_acks(&mut self, at: usize, out: &mut Vec<ShareAction>) {
        let Some(session) = self.sessions.get(at) else { return };
        for key in &session.led {
            let Some(partition) = self.partitions.get_mut(key) else { continue };
            self.stats.locks_lost += lose_acks(partition, out);
        }
        self.seen = None;
    }
}

/// Drops the acknowledgements of a partition, and says so. Returns the number of records.
fn lose_acks(partition: &mut SharePartition, out: &mut Vec<ShareAction>) -> u64 {
    let first = partition.first_ack();
    let records = partition.drop_acks();
    if let Some(first) = first {
        let tp = partition.tp.clone();
        out.push(ShareAction::LogEvent(ShareLogEvent::LocksLost { tp, records, first, uncertain: false }));
    }
    records as u64
}
