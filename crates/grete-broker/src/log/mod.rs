//! Log of a partition, in memory: batches, states of producers, transactions, retention and compaction. Each mutation
//! returns the [`LogChange`] to store; [`PartitionLog::restore`] applies the change after a restart.
//!
//! The rules are those of Apache Kafka 4.3, with these differences:
//!
//! - Records that cannot be decompressed are refused with `INVALID_RECORD`, as are offset deltas that do not ascend;
//!   Kafka answers `UNKNOWN_SERVER_ERROR`, and accepts such deltas in batches that are not compressed.
//! - Each refusal has a message, and lists 1,000 records at most.
//! - DeleteRecords frees whole batches at once. Segments are boundaries only; compaction does not merge them.
//! - `compression.type` uses the default level of the codec.

mod append;
mod batches;
mod change;
mod codecs;
mod compaction;
mod config;
mod leader_epochs;
mod producer_state;
mod read;
mod retention;
mod stored_records;
#[cfg(test)]
mod tests;
mod timestamps;
mod transactions;
mod validate;

pub use append::Appended;
pub use change::{LogChange, LogState};
pub use codecs::Codecs;
pub use config::LogConfig;
pub use producer_state::{AppendChecks, ProducerState};
pub use read::ReadResult;
pub use stored_records::StoredRecord;
pub use timestamps::TimestampOffset;
pub use validate::{AppendError, AppendResult, check_request, first_sequence, transactional_producers};

use batches::Batches;
use leader_epochs::LeaderEpochs;
use producer_state::Producers;
use transactions::Transactions;

use crate::ids::Millis;

/// Log of a partition. There is one copy, so that the high watermark is the end of the log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PartitionLog {
    log_start: i64,
    log_end: i64,
    /// First offset that compaction has not read.
    first_dirty: i64,
    batches: Batches,
    epochs: LeaderEpochs,
    producers: Producers,
    transactions: Transactions,
}

impl PartitionLog {
    /// Creates an empty log that begins at offset 0.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the offset of the first record, even if compaction removed that record.
    #[must_use]
    pub fn log_start_offset(&self) -> i64 {
        self.log_start
    }

    /// Returns the offset after the last record.
    #[must_use]
    pub fn high_watermark(&self) -> i64 {
        self.log_end
    }

    /// Returns the offset up to which all transactions are decided.
    #[must_use]
    pub fn last_stable_offset(&self) -> i64 {
        self.transactions.first_ongoing().map_or(self.log_end, |first| first.max(self.log_start))
    }

    /// Returns whether any producer has an ongoing transaction.
    #[must_use]
    pub fn has_ongoing_transactions(&self) -> bool {
        self.transactions.first_ongoing().is_some()
    }

    /// Returns whether a producer has an ongoing transaction.
    #[must_use]
    pub fn has_ongoing_transaction(&self, producer_id: i64) -> bool {
        self.producers.has_transaction(producer_id)
    }

    /// Returns whether the log has records of the producer's ongoing transaction, of this epoch.
    #[must_use]
    pub fn has_begun_transaction(&self, producer_id: i64, epoch: i16) -> bool {
        self.producers.has_begun(producer_id, epoch)
    }

    /// Remembers that the coordinator is asked about the first batch of a transaction. Until a batch of a transaction is
    /// appended, the log refuses batches of the producer with a larger sequence number, so that batches of a refused
    /// request and those behind it are not reordered. The memory does not outlive a restart, as in Kafka.
    /// `epoch_bump`: see [`AppendChecks::epoch_bump`]; the first request decides.
    pub fn begin_verification(&mut self, now: Millis, producer_id: i64, epoch: i16, sequence: i32, epoch_bump: bool) {
        self.producers.begin_verification(now, producer_id, epoch, sequence, epoch_bump);
    }

    /// Returns the states of producers by id, for DescribeProducers.
    pub fn producers(&self) -> impl Iterator<Item = ProducerState> {
        self.producers.iter()
    }

    /// Begins a leader epoch, when a broker becomes the leader. Returns the change to store; `None`: the epoch has
    /// begun before.
    pub fn begin_leader_epoch(&mut self, epoch: i32) -> Option<LogChange> {
        self.epochs.assign(epoch, self.log_end).then_some(LogChange::LeaderEpoch(epoch))
    }

    /// Returns the largest epoch that is not above `epoch`, and its end offset, as OffsetForLeaderEpoch answers; -1
    /// and -1: unknown.
    #[must_use]
    pub fn end_offset_for_epoch(&self, epoch: i32) -> (i32, i64) {
        self.epochs.end_offset(epoch, self.log_end)
    }

    /// Returns the length of all batches, as DescribeLogDirs reports the length.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.batches.size()
    }

    /// Returns the number of batches.
    #[must_use]
    pub fn batch_count(&self) -> usize {
        self.batches.len()
    }

    /// Returns the bytes of memory that the log takes: batches with their overhead, and states.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.batches.heap_bytes() + self.producers.heap_bytes() + self.transactions.heap_bytes()
    }
}
