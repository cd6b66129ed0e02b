//! State of idempotent and transactional producers in a partition (KIP-98, KIP-890).

use std::collections::{BTreeMap, VecDeque};

use grete_wire::ErrorCode;
use grete_wire::records::{BatchHeader, EndTransactionMarker};
use serde::{Deserialize, Serialize};

use super::validate::{AppendError, AppendResult};
use crate::ids::Millis;

/// Batches of a producer that are remembered to recognize repeated requests: as many as a producer has in flight.
const CACHED_BATCHES: usize = 5;
/// First version of the feature `transaction.version` in which each transaction has an epoch of its own (KIP-890).
const FIRST_VERSION_WITH_EPOCHS: i16 = 2;

/// Facts about a Produce request that the log cannot know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendChecks {
    /// Version of the Produce request.
    pub produce_version: i16,
    /// Whether the transaction coordinator has the partition in the producer's ongoing transaction. Only the first
    /// batch of a transaction needs it.
    pub transaction_verified: bool,
    /// Whether the producer follows version 2 of the feature `transaction.version`, in which an unknown producer begins
    /// with the sequence number 0.
    pub epoch_bump: bool,
}

/// State of a producer, for DescribeProducers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerState {
    /// Producer id.
    pub producer_id: i64,
    /// Epoch of the last batch or marker.
    pub producer_epoch: i16,
    /// Sequence number of the last record; -1: none is remembered.
    pub last_sequence: i32,
    /// Timestamp of the last batch or marker in ms since 1970; -1: none.
    pub last_timestamp: i64,
    /// Epoch of the coordinator that wrote the last marker; -1: none.
    pub coordinator_epoch: i32,
    /// First offset of the ongoing transaction; `None`: there is none.
    pub transaction_start: Option<i64>,
}

/// Batch that a producer may send again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CachedBatch {
    pub base_offset: i64,
    pub timestamp: i64,
    base_sequence: i32,
    last_sequence: i32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    epoch: i16,
    coordinator_epoch: i32,
    last_timestamp: i64,
    transaction_start: Option<i64>,
    batches: VecDeque<CachedBatch>,
    /// Offset of the last record; -1: none is remembered.
    last_offset: i64,
}

impl Entry {
    fn new(epoch: i16) -> Self {
        Self {
            epoch,
            coordinator_epoch: -1,
            last_timestamp: -1,
            transaction_start: None,
            batches: VecDeque::new(),
            last_offset: -1,
        }
    }

    fn set_epoch(&mut self, epoch: i16) {
        if self.epoch != epoch {
            self.batches.clear();
            (self.epoch, self.last_offset) = (epoch, -1);
        }
    }

    fn last_sequence(&self) -> i32 {
        self.batches.back().map_or(-1, |batch| batch.last_sequence)
    }
}

/// Verification of a transaction that has no batch in the log yet.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Verification {
    since: Millis,
    epoch: i16,
    lowest_sequence: i32,
    epoch_bump: bool,
}

/// Producers by id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Producers {
    entries: BTreeMap<i64, Entry>,
    #[serde(skip)]
    verifications: BTreeMap<i64, Verification>,
}

impl Producers {
    /// Returns the stored batch that `header` repeats.
    pub fn duplicate(&self, header: &BatchHeader) -> Option<&CachedBatch> {
        let entry = self.entries.get(&header.producer_id).filter(|entry| entry.epoch == header.producer_epoch)?;
        let (first, last) = (header.base_sequence, last_sequence(header));
        entry.batches.iter().find(|batch| (batch.base_sequence, batch.last_sequence) == (first, last))
    }

    /// Checks whether a producer may append a batch, which is no duplicate.
    pub fn check_batch(&self, header: &BatchHeader, checks: AppendChecks) -> AppendResult<()> {
        let (id, epoch, sequence) = (header.producer_id, header.producer_epoch, header.base_sequence);
        let entry = self.entries.get(&id);
        if let Some(entry) = entry.filter(|entry| epoch < entry.epoch) {
            let message = format!(
                "producer {id} has epoch {}, the batch has {epoch}: a newer producer has taken over; \
                close this one",
                entry.epoch
            );
            return Err(AppendError::new(ErrorCode::INVALID_PRODUCER_EPOCH, message));
        }
        let ongoing = entry.is_some_and(|entry| entry.transaction_start.is_some());
        let begins = header.is_transactional() && !(ongoing && entry.is_some_and(|entry| entry.epoch == epoch));
        if begins && !checks.transaction_verified {
            let message = format!(
                "producer {id} has no ongoing transaction with this partition; add the partition to \
                a transaction first"
            );
            return Err(AppendError::new(ErrorCode::INVALID_TXN_STATE, message));
        }
        let out_of_order = |expected: i32| {
            let message = format!(
                "producer {id} sent the sequence number {sequence}, {expected} is the next one; an \
                earlier batch is missing"
            );
            AppendError::new(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, message)
        };
        let verification = self.verifications.get(&id);
        if let Some(known) = verification.filter(|known| sequence > known.lowest_sequence) {
            return Err(out_of_order(known.lowest_sequence));
        }
        // The request that began the verification decides.
        let epoch_bump = verification.map_or(begins && checks.epoch_bump, |known| known.epoch_bump);
        match entry {
            // The state may have expired, so that any sequence number is accepted, except for transactions of their own
            // epoch, which begin with 0.
            None if epoch_bump && sequence != 0 => return Err(out_of_order(0)),
            None => {}
            Some(entry) if epoch_bump && entry.batches.is_empty() && sequence != 0 => {
                return Err(out_of_order(0));
            }
            Some(entry) if entry.epoch != epoch && sequence != 0 => return Err(out_of_order(0)),
            Some(entry) if entry.epoch == epoch && sequence != next_sequence(entry.last_sequence()) => {
                return Err(out_of_order(next_sequence(entry.last_sequence())));
            }
            Some(_) => {}
        }
        if ongoing && !header.is_transactional() {
            let message = format!("producer {id} sent a batch outside of its ongoing transaction; end the transaction");
            return Err(AppendError::new(ErrorCode::INVALID_TXN_STATE, message));
        }
        Ok(())
    }

    /// Records an appended batch, with the offset that the leader assigned. Returns whether a transaction begins.
    pub fn append_batch(&mut self, header: &BatchHeader) -> bool {
        let epoch = header.producer_epoch;
        if header.is_transactional() {
            self.verifications.remove(&header.producer_id);
        }
        let entry = self.entries.entry(header.producer_id).or_insert_with(|| Entry::new(epoch));
        entry.set_epoch(epoch);
        if entry.batches.len() == CACHED_BATCHES {
            entry.batches.pop_front();
        }
        entry.batches.push_back(CachedBatch {
            base_offset: header.base_offset,
            timestamp: header.max_timestamp,
            base_sequence: header.base_sequence,
            last_sequence: last_sequence(header),
        });
        entry.last_timestamp = header.max_timestamp;
        entry.last_offset = header.last_offset();
        let begins = header.is_transactional() && entry.transaction_start.is_none();
        if begins {
            entry.transaction_start = Some(header.base_offset);
        }
        begins
    }

    /// Checks whether a coordinator may write a marker. `transaction_version`: version of the feature
    /// `transaction.version` that the transaction follows.
    pub fn check_marker(&self, marker: &EndTransactionMarker, transaction_version: i16) -> Result<(), ErrorCode> {
        let Some(entry) = self.entries.get(&marker.producer_id) else { return Ok(()) };
        let epochs = transaction_version >= FIRST_VERSION_WITH_EPOCHS;
        // A marker of the current epoch without a transaction is one that the coordinator writes again.
        let late = epochs && marker.producer_epoch == entry.epoch && entry.transaction_start.is_some();
        if marker.producer_epoch < entry.epoch || late {
            return Err(ErrorCode::INVALID_PRODUCER_EPOCH);
        }
        if marker.coordinator_epoch < entry.coordinator_epoch {
            return Err(ErrorCode::TRANSACTION_COORDINATOR_FENCED);
        }
        Ok(())
    }

    /// Records a marker. Returns the first offset of the transaction that it ends; `None`: the producer has none.
    pub fn append_marker(&mut self, marker: &EndTransactionMarker, timestamp: i64) -> Option<i64> {
        let epoch = marker.producer_epoch;
        self.verifications.remove(&marker.producer_id);
        let entry = self.entries.entry(marker.producer_id).or_insert_with(|| Entry::new(epoch));
        entry.set_epoch(epoch);
        entry.coordinator_epoch = marker.coordinator_epoch;
        entry.last_timestamp = timestamp;
        entry.transaction_start.take()
    }

    /// Returns whether the producer has an ongoing transaction, of any epoch.
    pub fn has_transaction(&self, producer_id: i64) -> bool {
        self.entries.get(&producer_id).is_some_and(|entry| entry.transaction_start.is_some())
    }

    /// Returns whether the producer has an ongoing transaction of this epoch.
    pub fn has_begun(&self, producer_id: i64, epoch: i16) -> bool {
        let is_begun = |entry: &Entry| entry.transaction_start.is_some() && entry.epoch == epoch;
        self.entries.get(&producer_id).is_some_and(is_begun)
    }

    /// Remembers the lowest sequence number whose transaction was to be verified, and whether the producer of the first
    /// request follows version 2 of the feature `transaction.version`.
    pub fn begin_verification(&mut self, now: Millis, producer_id: i64, epoch: i16, sequence: i32, epoch_bump: bool) {
        let begun = Verification { since: now, epoch, lowest_sequence: sequence, epoch_bump };
        let known = self.verifications.entry(producer_id).or_insert(begun);
        if epoch > known.epoch || (epoch == known.epoch && sequence < known.lowest_sequence) {
            (known.epoch, known.lowest_sequence) = (epoch, sequence);
        }
    }

    /// Forgets the verifications that began `expiration_ms` ago.
    pub fn expire_verifications(&mut self, now: Millis, expiration_ms: i64) {
        self.verifications.retain(|_, known| now.saturating_sub(known.since) < expiration_ms);
    }

    /// Returns whether the log needs a batch to remember the last state of its producer: compaction then leaves its
    /// header.
    pub fn is_last_of_producer(&self, header: &BatchHeader) -> bool {
        self.entries.get(&header.producer_id).is_some_and(|entry| {
            if entry.last_offset >= 0 {
                header.last_offset() == entry.last_offset
            } else {
                header.is_control() && header.producer_epoch == entry.epoch
            }
        })
    }

    /// Returns the ids of producers without an ongoing transaction that have been silent for `expiration_ms`.
    pub fn expired(&self, now: Millis, expiration_ms: i64) -> Vec<i64> {
        let expired = self.entries.iter().filter(|(_, entry)| {
            entry.transaction_start.is_none() && now.saturating_sub(entry.last_timestamp) >= expiration_ms
        });
        expired.map(|(&id, _)| id).collect()
    }

    pub fn remove(&mut self, ids: &[i64]) {
        for id in ids {
            self.entries.remove(id);
        }
    }

    /// Returns the bytes of memory that the state takes, roughly.
    pub fn heap_bytes(&self) -> usize {
        self.entries.len() * (size_of::<Entry>() + CACHED_BATCHES * size_of::<CachedBatch>())
            + self.verifications.len() * size_of::<Verification>()
    }

    /// Returns all producers, by id.
    pub fn iter(&self) -> impl Iterator<Item = ProducerState> {
        self.entries.iter().map(|(&producer_id, entry)| ProducerState {
            producer_id,
            producer_epoch: entry.epoch,
            last_sequence: entry.last_sequence(),
            last_timestamp: entry.last_timestamp,
            coordinator_epoch: entry.coordinator_epoch,
            transaction_start: entry.transaction_start,
        })
    }
}

/// Returns the sequence number after `last`; after the largest one comes 0.
fn next_sequence(last: i32) -> i32 {
    last.checked_add(1).unwrap_or(0)
}

/// Returns the sequence number of the last record.
fn last_sequence(header: &BatchHeader) -> i32 {
    let last = i64::from(header.base_sequence) + i64::from(header.last_offset_delta);
    i32::try_from(last).unwrap_or_else(|_| (last - (i64::from(i32::MAX) + 1)) as i32)
}
