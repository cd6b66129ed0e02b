//! Polls the end offsets of partitions that are not fetched (failed, paused, held back, or without room in the memory
//! budget), because their lag still grows.

use std::collections::HashSet;

use super::{ConsumerAction, ConsumerCore};
use crate::admin::{AdminError, OffsetSpec, Operation, OperationsEvent};
use crate::ids::{PartitionHandle, TopicPartition};
use crate::partition::table::FetchState;
use crate::request::NO_NODE;
use crate::time::{Nanos, SECOND};

/// Time limit of one query; a later answer would be outdated.
const END_OFFSETS_TIMEOUT: Nanos = 10 * SECOND;

/// Poller of end offsets: one query at a time, for all partitions that are not fetched.
#[derive(Debug, Default)]
pub(super) struct EndOffsetPoller {
    pending: Option<(u32, Vec<(PartitionHandle, TopicPartition)>)>,
    next_poll: Nanos,
}

impl EndOffsetPoller {
    /// Makes the next query due at once, after a partition stopped being fetched.
    pub(super) fn expedite(&mut self, now: Nanos) {
        self.next_poll = now;
    }

    /// Returns whether `id` is the id of the query in flight.
    pub(super) fn is_pending(&self, id: u32) -> bool {
        self.pending.as_ref().is_some_and(|(asked, _)| *asked == id)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_none()
    }
}

impl ConsumerCore {
    /// Sends a query when one is due. Costs nothing while all partitions are fetched.
    pub(super) fn poll_end_offsets(&mut self, now: Nanos, out: &mut Vec<ConsumerAction>) {
        let Some(healing) = self.config.partition_recovery.as_ref().filter(|_| self.closing.is_none()) else { return };
        if !self.end_offsets.is_idle() || now < self.end_offsets.next_poll {
            return;
        }
        self.end_offsets.next_poll = now.saturating_add(healing.ends_every);
        // Over the budget nothing is fetched, whatever the sessions hold: a stuck partition would hide the lag of others.
        let has_memory = self.partitions.queued_total() < self.config.fetch.queued_bytes;
        let served = if has_memory { self.fetch.fetched_partitions() } else { HashSet::new() };
        let waits = |slot: &PartitionHandle| {
            let fetched = served.contains(slot) && self.partitions.state(*slot) == FetchState::Fetching;
            (!fetched || self.failures.contains(*slot)) && self.partitions.leader(*slot) != NO_NODE
        };
        let slots = self.partitions.live().iter().copied().filter(waits);
        let queried: Vec<_> =
            slots.filter_map(|slot| Some((slot, self.partitions.topic_partition(slot)?.clone()))).collect();
        if queried.is_empty() {
            return;
        }
        let starts = queried.iter().map(|(_, tp)| (tp.clone(), OffsetSpec::Latest)).collect();
        let id = self.commits.internal_id();
        self.end_offsets.pending = Some((id, queried));
        let operation = Operation::ListOffsets { specs: starts, read_committed: self.config.position.read_committed };
        self.step_queries(now, OperationsEvent::Submit { id, operation, timeout: END_OFFSETS_TIMEOUT }, out);
    }

    /// Processes the end offsets, in the order of the query. The end offset of a failed partition becomes unknown on an
    /// error.
    pub(super) fn on_end_offsets(&mut self, ends: Vec<Result<i64, AdminError>>, out: &mut Vec<ConsumerAction>) {
        let Some((_, queried)) = self.end_offsets.pending.take() else { return };
        for ((slot, _), end) in queried.into_iter().zip(ends) {
            if !self.partitions.is_live(slot) {
                continue;
            }
            match end {
                Ok(end) => {
                    // With open transactions a read_committed answer is the last stable offset, not the high watermark.
                    let known = self.partitions.high_watermark(slot).max(end);
                    let high_watermark = if self.config.position.read_committed { known } else { end };
                    out.push(ConsumerAction::HighWatermark { slot, high_watermark, readable_end: end });
                }
                Err(_) if self.failures.contains(slot) => {
                    out.push(ConsumerAction::HighWatermark { slot, high_watermark: -1, readable_end: -1 });
                }
                Err(_) => {} // the partition is fetched again soon, or fails soon
            }
        }
    }
}
