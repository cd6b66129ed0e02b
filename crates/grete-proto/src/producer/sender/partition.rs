//! State of one partition: retries, batches in flight and sequence numbers.

use std::collections::VecDeque;

use super::batch::SendBatch;
use super::sequence_arithmetic;
use crate::ids::{NodeId, ProducerIdAndEpoch, TopicPartition};
use crate::request::NO_NODE;
use crate::time::{Nanos, SECOND};

/// Batches per producer and partition that a broker remembers, and so the maximum number in flight (KIP-98).
pub(super) const BROKER_DEDUP_WINDOW: usize = 5;

/// Idle time after which a broker may have forgotten the producer. The default of `producer.id.expiration.ms` is one
/// day; this limit is far below it.
const PRODUCER_STATE_EXPIRY: Nanos = 600 * SECOND;

#[derive(Debug)]
pub(super) struct PartitionState {
    pub tp: TopicPartition,
    /// Topic id; 0: unknown. A new id means that the topic was recreated.
    pub topic_id: u128,
    /// Leader of the partition; `NO_NODE`: none.
    pub leader: NodeId,
    /// The accumulator has a batch to send.
    pub ready: bool,
    /// The partition is in its leader's queue.
    pub queued: bool,
    /// The partition is in the backoff heap.
    pub backing_off: bool,
    pub not_before: Nanos,
    pub failures: u32,
    /// Batches to retry, in order.
    pub retry: VecDeque<SendBatch>,
    /// A retry is pending or unresolved: one batch in flight at a time.
    pub one_at_a_time: bool,
    /// Keys of the batches in flight, in the order of sending.
    pub in_flight: Vec<(u64, u32)>,
    /// Node that the batches in flight were sent to.
    pub in_flight_node: NodeId,
    /// Producer id and epoch of the sequence numbers.
    pub producer_id: ProducerIdAndEpoch,
    /// Sequence number of the next record.
    pub next_sequence: i32,
    /// Sequence number after the last acknowledged record.
    pub acked_sequence: i32,
    /// The topic has accepted a batch of this producer id and epoch. Until then, one batch is in flight at a time: a
    /// leader without state of the producer accepts any sequence number. A second batch could therefore overtake a
    /// first one that is refused.
    pub proven: bool,
    /// Time of the last acknowledgment.
    pub last_ack_at: Nanos,
    /// Some sequence numbers will never be used. The following batches get new ones, once no batch is ambiguous.
    pub needs_renumbering: bool,
    /// First batch whose sequence numbers certainly were not used and never will be: no later batch can be written.
    pub first_unwritten: Option<(u64, u32)>,
    /// It is unknown whether some sequence numbers were used: only a new epoch can continue.
    pub needs_new_epoch: bool,
    /// Numbers of the last transactions that were asked to add the partition, and that have the partition; 0: none.
    pub asked_in: u64,
    pub added_in: u64,
}

impl PartitionState {
    pub fn new(tp: TopicPartition) -> Self {
        Self {
            tp,
            topic_id: 0,
            leader: NO_NODE,
            ready: false,
            queued: false,
            backing_off: false,
            not_before: 0,
            failures: 0,
            retry: VecDeque::new(),
            one_at_a_time: false,
            in_flight: Vec::new(),
            in_flight_node: NO_NODE,
            producer_id: ProducerIdAndEpoch::NONE,
            next_sequence: 0,
            acked_sequence: 0,
            proven: false,
            last_ack_at: 0,
            needs_renumbering: false,
            first_unwritten: None,
            needs_new_epoch: false,
            asked_in: 0,
            added_in: 0,
        }
    }

    /// Returns whether there is a batch to send.
    pub fn has_work(&self) -> bool {
        self.ready || !self.retry.is_empty()
    }

    /// Returns whether some batch may have been written, or may still be, without a known outcome.
    pub fn is_ambiguous(&self) -> bool {
        !self.in_flight.is_empty() || self.retry.iter().any(SendBatch::is_ambiguous)
    }

    /// Returns whether an earlier batch is unresolved. If so, the broker must report this batch as out of order.
    pub fn has_earlier_unresolved(&self, key: (u64, u32)) -> bool {
        self.in_flight.iter().any(|&other| other < key) || self.retry.front().is_some_and(|piece| piece.key() < key)
    }

    /// Assigns the next sequence number to a batch, with the producer id and epoch; -1 for a producer without idempotence.
    pub fn assign_sequence(&mut self, piece: &mut SendBatch, idempotent: bool) {
        let ProducerIdAndEpoch { id, epoch } = self.producer_id;
        let base = if idempotent { self.next_sequence } else { -1 };
        self.next_sequence = sequence_arithmetic::wrapping_add(self.next_sequence, piece.batch.count());
        piece.batch.set_producer_info(id, epoch, base);
        piece.sequence = Some(base);
    }

    /// Queues a batch for retry, in order.
    pub fn requeue(&mut self, piece: SendBatch) {
        self.one_at_a_time = true;
        let at = self.retry.partition_point(|other| other.key() < piece.key());
        self.retry.insert(at, piece);
    }

    /// Sets the topic id. A recreated topic has no state of the producer, whatever its predecessor still responds.
    pub fn set_topic_id(&mut self, topic_id: u128) {
        if topic_id != 0 && topic_id != self.topic_id {
            self.topic_id = topic_id;
            self.proven = false;
        }
    }

    /// Returns the maximum number of new batches in flight, for an idempotent producer.
    pub fn max_new_in_flight(&mut self, now: Nanos) -> usize {
        if self.in_flight.is_empty() && now.saturating_sub(self.last_ack_at) >= PRODUCER_STATE_EXPIRY {
            self.proven = false;
        }
        if self.proven { BROKER_DEDUP_WINDOW } else { 1 }
    }

    /// Records that the batch will not be sent again.
    pub fn on_batch_failed(&mut self, piece: &SendBatch) {
        self.needs_renumbering = true;
        if piece.is_ambiguous() {
            self.needs_new_epoch = true;
        } else {
            self.first_unwritten = Some(self.first_unwritten.map_or(piece.key(), |gap| gap.min(piece.key())));
        }
    }

    /// Records that the batch was written.
    pub fn acknowledge(&mut self, now: Nanos, piece: &SendBatch) {
        self.last_ack_at = now;
        self.failures = 0;
        self.proven |= piece.topic_id == self.topic_id;
        let Some(base) = piece.sequence else { return };
        let end = sequence_arithmetic::wrapping_add(base, piece.batch.count());
        if sequence_arithmetic::is_later(end, self.acked_sequence) {
            self.acked_sequence = end;
        }
    }

    /// Clears the ambiguity of a split batch's other parts. One part was written under the sequence numbers it had in
    /// the whole. A broker with the whole batch would have reported that part as out of order, so the broker does not
    /// have the whole. The other parts are certain again, except for attempts of their own.
    pub fn clear_ambiguity(&mut self, written: &SendBatch) {
        for piece in self.retry.iter_mut().filter(|piece| piece.number == written.number) {
            piece.ambiguous_ranges.retain(|whole| !whole.contains(&written.first_index));
        }
    }

    /// Restarts the sequence numbers under a new id or epoch. Requires that no batch is ambiguous.
    pub fn adopt_producer_id(&mut self, identity: ProducerIdAndEpoch) {
        self.producer_id = identity;
        self.acked_sequence = 0;
        self.proven = false;
        self.renumber();
    }

    /// Assigns new sequence numbers to refused batches, from the last acknowledged one on. Requires that no batch is
    /// ambiguous.
    pub fn renumber(&mut self) {
        self.next_sequence = self.acked_sequence;
        (self.needs_renumbering, self.first_unwritten, self.needs_new_epoch) = (false, None, false);
        for piece in &mut self.retry {
            piece.sequence = None;
        }
    }
}
