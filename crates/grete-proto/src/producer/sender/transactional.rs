//! Batches of a transactional producer: partitions join the transaction first, and all batches end with it.

use std::sync::Arc;

use grete_wire::records::EncodedBatch;

use super::Sender;
use super::drop_summary::DropCause;
use super::event::SenderAction;
use crate::ids::ProducerIdAndEpoch;
use crate::ids::{PartitionId, TopicPartition};
use crate::producer::accumulator::lock;
use crate::producer::transaction::TransactionCause;
use crate::time::Nanos;

impl Sender {
    /// Returns whether all batches are complete and no response is pending.
    pub(in crate::producer) fn is_settled(&self) -> bool {
        self.requests.is_empty() && lock(&self.accumulator).is_complete()
    }

    /// Returns whether sequence numbers of some partition were lost, so that only a new epoch can continue.
    pub(in crate::producer) fn has_sequence_gap(&self) -> bool {
        self.partitions.iter().any(|lane| lane.needs_renumbering || lane.needs_new_epoch)
    }

    /// Returns whether the sender may finish: a transaction cannot end before the responses to its batches.
    pub(super) fn requests_may_be_dropped(&self) -> bool {
        self.config.transactional_id.is_none() || self.requests.is_empty()
    }

    /// Marks a batch as part of the transaction, if the producer has transactions.
    pub(super) fn in_transaction(&self, mut batch: EncodedBatch) -> EncodedBatch {
        if self.config.transactional_id.is_some() {
            batch.set_transactional();
        }
        batch
    }

    /// Returns whether the transaction has the partition. If not, the partition is requested once.
    pub(super) fn is_added(&mut self, id: PartitionId) -> bool {
        let transaction = self.transaction;
        let Some(lane) = self.partitions.get_mut(id.0 as usize) else { return false };
        if lane.added_in != transaction && lane.asked_in != transaction {
            lane.asked_in = transaction;
            self.wanted.push(lane.tp.clone());
            self.asked.insert(lane.tp.clone(), id);
        }
        lane.added_in == transaction
    }

    pub(super) fn on_partitions_added(&mut self, now: Nanos, partitions: &[TopicPartition]) {
        for tp in partitions {
            let Some(id) = self.asked.remove(tp) else { continue };
            if let Some(lane) = self.partitions.get_mut(id.0 as usize) {
                lane.added_in = self.transaction;
            }
            self.enqueue(now, id);
        }
    }

    /// Continues under another producer id or epoch. No batch is in flight, because transactions have ended before.
    pub(super) fn on_identity(&mut self, now: Nanos, identity: ProducerIdAndEpoch, explicit: bool) {
        self.producer_ids.current = Some(identity);
        self.adds_partitions = explicit;
        for lane in self.partitions.iter_mut().filter(|lane| lane.needs_renumbering || lane.needs_new_epoch) {
            lane.adopt_producer_id(identity);
        }
        self.enqueue_all(now);
    }

    /// Completes all batches as aborted. Responses to batches in flight are still awaited.
    pub(super) fn on_aborted(&mut self, now: Nanos, cause: &Arc<TransactionCause>, out: &mut Vec<SenderAction>) {
        self.wanted.clear();
        self.asked.clear();
        self.drop_all(now, &DropCause::Aborted(Arc::clone(cause)), out);
        // Partitions that waited for `PartitionsAdded` are ready without a batch. The next transaction announces them
        // again, when it has a batch for them.
        lock(&self.accumulator).forget_ready();
        for lane in &mut self.partitions {
            lane.ready = false;
        }
    }

    /// Emits what the transaction manager must know of this step.
    pub(super) fn emit_transaction(&mut self, out: &mut Vec<SenderAction>) {
        if !self.wanted.is_empty() {
            out.push(SenderAction::PartitionsWanted(std::mem::take(&mut self.wanted)));
        }
        if let Some(cause) = self.transaction_failure.take() {
            out.push(SenderAction::BatchFailed(cause));
        }
    }
}
