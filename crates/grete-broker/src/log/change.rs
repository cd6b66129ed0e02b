//! Durable changes of a log, and snapshots, which are changes that rebuild the log.

use std::collections::VecDeque;
use std::sync::Arc;

use grete_wire::records::{BatchHeader, EndTransactionMarker};
use serde::{Deserialize, Serialize};

use super::batches::{Batches, Segment, StoredBatch};
use super::leader_epochs::LeaderEpochs;
use super::producer_state::Producers;
use super::transactions::Transactions;
use super::{Codecs, PartitionLog};
use crate::ids::Millis;

/// Durable change of a log. The changes of a log, restored in the same order, give an equal log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum LogChange {
    /// A batch or a marker was appended.
    Append {
        /// Time of the append.
        now: Millis,
        /// Whether the batch begins a segment.
        new_segment: bool,
        /// Batch with all fields that the leader writes.
        #[serde(with = "bytes")]
        batch: Arc<Vec<u8>>,
    },
    /// The log start offset advanced, through DeleteRecords or retention.
    LogStart(
        /// New log start offset.
        i64,
    ),
    /// A leader epoch began at the end of the log.
    LeaderEpoch(
        /// Epoch.
        i32,
    ),
    /// The states of producers expired.
    ProducersExpired(
        /// Producer ids.
        Vec<i64>,
    ),
    /// The log was compacted.
    Compacted {
        /// First offset that compaction has not read.
        end: i64,
        /// Base offsets of the batches that compaction removed.
        removed: Vec<i64>,
        /// Batches that compaction wrote anew, each in the place of the batch with the same base offset.
        #[serde(with = "batches")]
        rewritten: Vec<Arc<Vec<u8>>>,
    },
    /// First change of a snapshot: everything but the batches.
    Snapshot(
        /// State without the batches.
        Box<LogState>,
    ),
    /// Batch of a snapshot.
    Stored(
        /// Batch.
        #[serde(with = "bytes")]
        Arc<Vec<u8>>,
    ),
}

/// State of a log without its batches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogState {
    log_start: i64,
    log_end: i64,
    first_dirty: i64,
    segments: VecDeque<Segment>,
    epochs: LeaderEpochs,
    producers: Producers,
    transactions: Transactions,
}

impl PartitionLog {
    /// Applies a change that was stored before. A batch without a valid header is ignored; the journal's checksums
    /// exclude such a batch.
    pub fn restore(&mut self, change: LogChange, codecs: &mut Codecs) {
        match change {
            LogChange::Append { now, new_segment, batch } => {
                let Ok(header) = BatchHeader::parse(&batch) else { return };
                let marker = if header.is_control() { read_marker(&batch, &header, codecs) } else { None };
                self.apply_append(&header, batch, marker, now, new_segment);
            }
            LogChange::LogStart(offset) => self.apply_log_start(offset),
            LogChange::LeaderEpoch(epoch) => {
                self.epochs.assign(epoch, self.log_end);
            }
            LogChange::ProducersExpired(ids) => self.producers.remove(&ids),
            LogChange::Compacted { end, removed, rewritten } => self.apply_compaction(end, &removed, &rewritten),
            LogChange::Snapshot(state) => *self = Self::from_state(*state),
            LogChange::Stored(batch) => {
                if let Ok(header) = BatchHeader::parse(&batch) {
                    self.batches.push_stored(StoredBatch::new(&header, batch));
                }
            }
        }
    }

    /// Returns changes that rebuild the log, instead of all changes so far. The first change replaces the log that
    /// restores it.
    pub fn snapshot(&self) -> impl Iterator<Item = LogChange> {
        let state = LogState {
            log_start: self.log_start,
            log_end: self.log_end,
            first_dirty: self.first_dirty,
            segments: self.batches.segments().clone(),
            epochs: self.epochs.clone(),
            producers: self.producers.clone(),
            transactions: self.transactions.clone(),
        };
        let batches = self.batches.iter().map(|batch| LogChange::Stored(Arc::clone(&batch.bytes)));
        std::iter::once(LogChange::Snapshot(Box::new(state))).chain(batches)
    }

    pub(super) fn from_state(state: LogState) -> Self {
        let mut batches = Batches::default();
        batches.set_segments(state.segments);
        Self {
            log_start: state.log_start,
            log_end: state.log_end,
            first_dirty: state.first_dirty,
            batches,
            epochs: state.epochs,
            producers: state.producers,
            transactions: state.transactions,
        }
    }
}

/// Decodes the marker in a control batch.
fn read_marker(batch: &[u8], header: &BatchHeader, codecs: &mut Codecs) -> Option<EndTransactionMarker> {
    let records = codecs.reader.read(batch, header).ok()?;
    EndTransactionMarker::from_record(header, &records.iter().next()?.ok()?)
}

/// Encoding of a batch: as bytes, which serde would otherwise encode one by one.
mod bytes {
    use std::fmt;
    use std::sync::Arc;

    use serde::de::{Deserializer, Error, Visitor};
    use serde::ser::Serializer;

    pub fn serialize<S: Serializer>(bytes: &Arc<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Vec<u8>>, D::Error> {
        deserializer.deserialize_bytes(Bytes)
    }

    struct Bytes;

    impl Visitor<'_> for Bytes {
        type Value = Arc<Vec<u8>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the bytes of a record batch")
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
            Ok(Arc::new(bytes.to_vec()))
        }

        fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Self::Value, E> {
            Ok(Arc::new(bytes))
        }
    }
}

/// Encoding of several batches.
mod batches {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Batch(#[serde(with = "super::bytes")] Arc<Vec<u8>>);

    pub fn serialize<S: Serializer>(batches: &[Arc<Vec<u8>>], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(batches.iter().map(|batch| Batch(Arc::clone(batch))))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Arc<Vec<u8>>>, D::Error> {
        Ok(Vec::<Batch>::deserialize(deserializer)?.into_iter().map(|batch| batch.0).collect())
    }
}
