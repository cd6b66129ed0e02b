//! Decode queue of a lane: fetched data to decode into rows. The worker that runs the lane owns the queue and decodes
//! without a lock.

use std::collections::VecDeque;
use std::sync::Arc;

use grete_wire::records::{
    AbortedTransactionFilter, BatchHeader, Columns, Compression, Decoder, RecordError, check_crc, iter_batches,
};

use super::batch_memory::BatchMemory;
use super::decoded_batch::{ColumnPool, DecodedBatch};
use super::filter::{FilterResult, RowFilter, SkippedRows};
use crate::fetch::{CompletedFetch, TimestampRange, acquired};
use crate::ids::TopicPartition;
use crate::share::{AckType, Acknowledgement};
use crate::time::Nanos;

/// Decoded bytes after which decoding pauses, whatever the number of rows. Limits the memory that one job keeps alive.
const DECODE_BYTES: usize = 16 << 20;

/// Queued fetches, and rows that are decoded and not yet handed out.
#[derive(Debug, Default)]
pub struct DecodeQueue {
    chunks: VecDeque<QueuedFetch>,
    /// Records in the queued fetches, as batch headers declare; counted only for routes with `max_wait`.
    records: usize,
    /// Bytes of the first fetch that are decoded.
    consumed_bytes: usize,
    /// Next offset after the last decoded batch of the first fetch; `None` at the start of that fetch.
    consumed_offset: Option<i64>,
    aborted_filter: Option<AbortedTransactionFilter>,
    /// Rows that did not fit into the last job.
    remainder: Option<Remainder>,
    error: Option<DecodeQueueError>,
    /// Acknowledgements of records of a share group that no handler gets.
    acks: Vec<Acknowledgement>,
    /// Acquired offsets of the first fetch below this one were decoded, or have no record. No offset is below 0.
    acquired_through: i64,
}

#[derive(Debug)]
struct QueuedFetch {
    chunk: CompletedFetch,
    records: usize,
    since: Nanos,
}

#[derive(Debug)]
struct Remainder {
    batch: DecodedBatch,
    memory: Arc<BatchMemory>,
    since: Nanos,
}

/// Result of [`DecodeQueue::decode_up_to`].
#[derive(Debug)]
pub(in crate::dispatch) enum DecodeOutcome {
    /// Rows for a job.
    Rows(DecodedBatch, Arc<BatchMemory>),
    /// No rows, but progress: no record below this offset is left to process.
    Skipped(i64),
    /// The next row is too young until this time, in milliseconds since the epoch.
    NotDue(i64),
    /// Nothing was queued.
    Nothing,
}

/// Side effects of decoding.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(in crate::dispatch) struct DecodeEffects {
    /// Bytes that decompression added.
    pub(in crate::dispatch) charged: usize,
    /// Bytes to release.
    pub(in crate::dispatch) released: usize,
    pub(in crate::dispatch) skipped: SkippedRows,
}

/// Error of a batch that cannot be decoded. The queued data behind that batch is useless.
#[derive(Debug, Clone)]
pub(in crate::dispatch) struct DecodeQueueError {
    /// Offset from which to fetch again.
    pub(in crate::dispatch) offset: i64,
    pub(in crate::dispatch) error: RecordError,
}

/// Limits of one job's rows.
#[derive(Debug, Clone, Copy)]
pub(in crate::dispatch) struct RowLimits {
    pub(in crate::dispatch) rows: usize,
    pub(in crate::dispatch) bytes: usize,
    /// Decode more to fill the job, although decoded rows are left.
    pub(in crate::dispatch) full: bool,
}

impl DecodeQueue {
    /// Adds fetched data. `records`: number of records that its batch headers declare, if the route needs that number;
    /// else 0.
    pub(in crate::dispatch) fn push(&mut self, chunk: CompletedFetch, records: usize, since: Nanos) {
        if self.chunks.capacity() == 0 {
            self.chunks.reserve_exact(1); // most queues hold one fetch, and there may be thousands of queues
        }
        self.records += records;
        self.chunks.push_back(QueuedFetch { chunk, records, since });
    }

    pub(in crate::dispatch) fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.remainder.is_none() && self.error.is_none()
    }

    /// Returns since when the first queued data waits; `None`: the queue is empty.
    pub(in crate::dispatch) fn since(&self) -> Option<Nanos> {
        let rest = self.remainder.as_ref().map(|rest| rest.since);
        rest.or_else(|| self.chunks.front().map(|queued| queued.since))
    }

    /// Returns the timestamp of the first queued record, from the decoded record or else from its batch's header;
    /// `None`: unknown.
    pub(in crate::dispatch) fn oldest(&self) -> Option<i64> {
        if let Some(rest) = &self.remainder {
            return Some(rest.batch.first_timestamp()).filter(|timestamp| *timestamp >= 0);
        }
        let QueuedFetch { chunk, .. } = self.chunks.front()?;
        let behind = || {
            let bytes = chunk.frame.get(chunk.range.start + self.consumed_bytes..chunk.range.end).unwrap_or_default();
            TimestampRange::from_batches(bytes).oldest.or_else(|| self.chunks.get(1)?.chunk.timestamps.oldest)
        };
        if self.consumed_bytes == 0 { chunk.timestamps.oldest } else { behind() }
    }

    /// Returns about how many records are queued.
    pub(in crate::dispatch) fn records(&self) -> usize {
        self.records + self.remainder.as_ref().map_or(0, |rest| rest.batch.rows.len())
    }

    /// Returns whether the next batch is known to be corrupt.
    pub(in crate::dispatch) fn has_error(&self) -> bool {
        self.error.is_some()
    }

    /// Appends data that arrived while a job had this queue.
    pub(in crate::dispatch) fn append(&mut self, mut later: DecodeQueue) {
        self.records += later.records;
        self.acks.append(&mut later.acks);
        self.chunks.append(&mut later.chunks);
    }

    /// Takes the acknowledgements of records that no handler gets.
    pub(in crate::dispatch) fn take_acks(&mut self) -> Vec<Acknowledgement> {
        std::mem::take(&mut self.acks)
    }

    /// Drops everything. Returns the released bytes.
    pub(in crate::dispatch) fn clear(&mut self) -> usize {
        let walked = if self.chunks.is_empty() { 0 } else { self.consumed_bytes };
        let chunks: usize = self.chunks.iter().map(|queued| queued.chunk.bytes).sum();
        let decoded = self.remainder.as_ref().map_or(0, |rest| rest.memory.release_rows(rest.batch.rows.len()));
        *self = Self::default();
        chunks.saturating_sub(walked) + decoded
    }

    /// Returns rows for one job, decoded from as many record batches as needed. The worker checks CRCs, decompresses
    /// and filters aborted transactions here, without a lock.
    ///
    /// # Errors
    /// [`DecodeQueueError`] if a batch is corrupt; rows before it are handed out first.
    pub(in crate::dispatch) fn decode_up_to(
        &mut self,
        source: &DecodeSource<'_>,
        limits: RowLimits,
        filter: &RowFilter,
        decoder: &mut Decoder,
        change: &mut DecodeEffects,
    ) -> Result<DecodeOutcome, DecodeQueueError> {
        let mut skipped = None;
        loop {
            let more = limits.full && self.remainder.as_ref().is_some_and(|rest| rest.batch.rows.len() < limits.rows);
            if (self.remainder.is_none() || more) && self.error.is_none() && !self.chunks.is_empty() {
                match self.decode(source, limits, decoder, change) {
                    Ok(next_offset) => skipped = next_offset.or(skipped),
                    Err(error) => self.error = Some(error),
                }
            }
            let Some(rest) = self.remainder.as_mut() else {
                // Skipped offsets are returned before the error of a batch behind them.
                return match (skipped, self.error.take()) {
                    (None, Some(error)) => Err(error),
                    (Some(next_offset), broken) => {
                        self.error = broken;
                        Ok(DecodeOutcome::Skipped(next_offset))
                    }
                    (None, None) => Ok(DecodeOutcome::Nothing),
                };
            };
            let due = filter.matured(&rest.batch);
            if due.rows == 0 {
                return Ok(match (skipped, due.next_at_ms) {
                    (Some(next_offset), _) => DecodeOutcome::Skipped(next_offset),
                    (None, until) => DecodeOutcome::NotDue(until.unwrap_or_default()),
                });
            }
            let mut rows = due.rows.min(limits.rows.max(1));
            if rest.memory.bytes() > limits.bytes {
                rows = rest.batch.rows_within(rows, limits.bytes);
            }
            let head = rest.batch.split_to(rows);
            let parcel = Arc::clone(&rest.memory);
            if rest.batch.rows.is_empty() {
                self.remainder = None;
            }
            let (next_offset, rows) = (head.next_offset, head.rows.len());
            let offsets = if source.acknowledges { head.offsets().to_vec() } else { Vec::new() };
            match filter.apply(head, &mut change.skipped) {
                FilterResult::All(batch) => return Ok(DecodeOutcome::Rows(batch, parcel)),
                FilterResult::Partial(batch) => {
                    let gone = offsets.iter().filter(|offset| batch.offsets().binary_search(offset).is_err());
                    self.acks.extend(gone.map(|offset| Acknowledgement::one(*offset, AckType::Reject)));
                    change.released += parcel.release_rows(rows - batch.rows.len());
                    return Ok(DecodeOutcome::Rows(batch, parcel));
                }
                FilterResult::Empty => {
                    let gone = offsets.iter().map(|offset| Acknowledgement::one(*offset, AckType::Reject));
                    self.acks.extend(gone);
                    change.released += parcel.release_rows(rows);
                    skipped = Some(next_offset);
                }
            }
        }
    }

    /// Decodes into `remainder`. Returns the next offset if there were no rows.
    fn decode(
        &mut self,
        source: &DecodeSource<'_>,
        limits: RowLimits,
        decoder: &mut Decoder,
        change: &mut DecodeEffects,
    ) -> Result<Option<i64>, DecodeQueueError> {
        let since = self.since().unwrap_or_default();
        let (mut columns, mut released) = (source.pool.take(), 0);
        if let Some(rest) = self.remainder.take() {
            let rows: Vec<u32> = rest.batch.rows.clone().filter_map(|row| u32::try_from(row).ok()).collect();
            rest.batch.columns.gather_into(&rows, &mut columns);
            released = rest.memory.absorb();
        }
        let left = columns.len();
        let (mut charged, mut decoded, mut next, mut leader_epoch) = (0, 0, None, -1);
        while columns.len() < limits.rows && decoded < limits.bytes.min(DECODE_BYTES) {
            let Some(QueuedFetch { chunk, records, .. }) = self.chunks.front_mut() else { break };
            let start = chunk.range.start + self.consumed_bytes;
            let bytes = chunk.frame.get(start..chunk.range.end).unwrap_or_default();
            let Some(Ok((header, range))) = iter_batches(bytes).next() else {
                // The network thread queues whole batches only, so this is the end of the fetched data.
                self.acks.extend(acquired_acks(chunk, self.acquired_through, i64::MAX, &[], AckType::Release));
                self.acquired_through = 0;
                next = Some(chunk.next_offset);
                released += chunk.bytes.saturating_sub(self.consumed_bytes);
                self.records = self.records.saturating_sub(*records);
                self.chunks.pop_front();
                self.consumed_bytes = 0;
                self.consumed_offset = None;
                self.aborted_filter = None;
                continue;
            };
            let filter = self
                .aborted_filter
                .get_or_insert_with(|| AbortedTransactionFilter::new(chunk.aborted_transactions.clone()));
            let batch = start + range.start..start + range.end;
            let rows_before = columns.len();
            match decode_batch(chunk, batch, &header, filter, decoder, &mut columns) {
                Ok(unpacked) => {
                    if chunk.acquired.is_some() {
                        retain_acquired(chunk, rows_before, source.pool, &mut columns);
                        let through = header.next_offset();
                        let rows = columns.offsets.get(rows_before..).unwrap_or_default();
                        self.acks.extend(acquired_acks(chunk, self.acquired_through, through, rows, AckType::Gap));
                        self.acquired_through = self.acquired_through.max(through);
                    }
                    charged += unpacked;
                    decoded += unpacked.max(range.len());
                }
                Err(error) => {
                    // The base offset of the batch is not used: the checksum does not cover it.
                    let error = DecodeQueueError { offset: self.consumed_offset.unwrap_or(chunk.fetch_offset), error };
                    if next.is_none() && left == 0 {
                        source.pool.give(columns);
                        return Err(error);
                    }
                    self.error = Some(error);
                    break;
                }
            }
            let counted = declared_record_count(&header).min(*records);
            *records -= counted;
            self.records = self.records.saturating_sub(counted);
            released += range.end;
            next = Some(header.next_offset().max(chunk.fetch_offset));
            self.consumed_offset = next;
            self.consumed_bytes += range.end;
            leader_epoch = header.leader_epoch;
        }
        change.charged += charged;
        if columns.is_empty() {
            change.released += released;
            source.pool.give(columns);
            return Ok(next);
        }
        if source.acknowledges {
            sort_by_offset(source.pool, &mut columns);
        }
        let next_offset = next.or_else(|| columns.offsets.last().map(|last| last + 1)).unwrap_or_default();
        let all = 0..columns.len();
        let parcel = Arc::new(BatchMemory::new(all.len(), released + charged));
        let batch = DecodedBatch {
            columns: source.pool.share(columns),
            rows: all,
            topic: source.tp.topic.clone(),
            partition: source.tp.partition,
            high_watermark: source.high_watermark,
            next_offset,
            leader_epoch,
        };
        self.remainder = Some(Remainder { batch, memory: parcel, since });
        Ok(None)
    }
}

/// Returns how many records the batch headers of fetched data declare. The headers are not verified yet: the number is
/// only used to wait for more data, and such waits end by time.
pub(in crate::dispatch) fn declared_records(chunk: &CompletedFetch) -> usize {
    let batches = iter_batches(chunk.frame.get(chunk.range.clone()).unwrap_or_default()).map_while(Result::ok);
    batches.map(|(header, _)| declared_record_count(&header)).fold(0, usize::saturating_add)
}

fn declared_record_count(header: &BatchHeader) -> usize {
    usize::try_from(header.record_count).unwrap_or(0)
}

/// Source of rows, and the pool of their columns.
#[derive(Debug, Clone, Copy)]
pub(in crate::dispatch) struct DecodeSource<'a> {
    pub(in crate::dispatch) tp: &'a TopicPartition,
    pub(in crate::dispatch) high_watermark: i64,
    pub(in crate::dispatch) pool: &'a ColumnPool,
    /// Rows that are left out are acknowledged, because a share group has acquired them.
    pub(in crate::dispatch) acknowledges: bool,
}

/// Sorts rows by offset. A share group gives a record that was released again behind later ones, and all that looks for a
/// row of a batch relies on ascending offsets.
fn sort_by_offset(pool: &ColumnPool, columns: &mut Columns) {
    if columns.offsets.is_sorted() {
        return;
    }
    let mut order: Vec<u32> = (0..columns.len()).filter_map(|row| u32::try_from(row).ok()).collect();
    order.sort_by_key(|row| columns.offsets.get(*row as usize).copied());
    let mut sorted = pool.take();
    columns.gather_into(&order, &mut sorted);
    pool.give(std::mem::replace(columns, sorted));
}

/// Drops the rows from `from` on that a share group has not acquired for this member.
fn retain_acquired(chunk: &CompletedFetch, from: usize, pool: &ColumnPool, columns: &mut Columns) {
    let Some(acquired) = &chunk.acquired else { return };
    let is_kept = |row: &usize| {
        *row < from || columns.offsets.get(*row).is_some_and(|offset| acquired::contains(acquired, *offset))
    };
    let kept: Vec<u32> = (0..columns.len()).filter(is_kept).filter_map(|row| u32::try_from(row).ok()).collect();
    if kept.len() < columns.len() {
        let mut rest = pool.take();
        columns.gather_into(&kept, &mut rest);
        pool.give(std::mem::replace(columns, rest));
    }
}

/// Returns acknowledgements of the acquired offsets of `from..through` that are not in `rows`.
fn acquired_acks(chunk: &CompletedFetch, from: i64, through: i64, rows: &[i64], kind: AckType) -> Vec<Acknowledgement> {
    let ranges = chunk.acquired.iter().flat_map(|acquired| acquired.iter());
    let due = ranges.flat_map(|range| range.first.max(from)..=range.last.min(through.saturating_sub(1)));
    due.filter(|offset| rows.binary_search(offset).is_err()).map(|offset| Acknowledgement::one(offset, kind)).collect()
}

/// Appends the records of one batch, if they are visible. Returns the decompressed size in bytes; 0: the batch is not
/// compressed.
///
/// The filter relies on a batch's producer and on a marker's key only after the checksum was verified.
fn decode_batch(
    chunk: &CompletedFetch,
    batch: std::ops::Range<usize>,
    header: &BatchHeader,
    filter: &mut AbortedTransactionFilter,
    decoder: &mut Decoder,
    columns: &mut Columns,
) -> Result<usize, RecordError> {
    let bytes = chunk.frame.get(batch.clone()).unwrap_or_default();
    if header.is_control() || (header.is_transactional() && !chunk.aborted_transactions.is_empty()) {
        check_crc(bytes, header)?;
    }
    if !filter.is_visible(header, bytes)? {
        return Ok(0);
    }
    let buffers = columns.buffers.len();
    decoder.decode(&chunk.frame, batch, header, chunk.fetch_offset, columns)?;
    let packed = header.compression() != Ok(Compression::None);
    let unpacked = columns.buffers.get(buffers..).unwrap_or_default().iter().map(|slab| slab.len()).sum();
    Ok(if packed { unpacked } else { 0 })
}
