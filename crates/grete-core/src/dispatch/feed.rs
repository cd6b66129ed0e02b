//! A lane's fetched data on its way to rows. The worker that runs the lane owns its feed and decodes without a lock.

use std::collections::VecDeque;
use std::sync::Arc;

use grete_wire::records::{AbortedFilter, BatchHeader, Columns, Compression, Decoder, RecordError, check_crc, walk};

use super::batch::{Batch, ColumnsPool};
use super::parcel::Parcel;
use super::sieve::{Passed, Sieve, Sifted};
use crate::fetch::{Chunk, Times};
use crate::ids::TopicPartition;
use crate::time::Nanos;

/// Decoded bytes after which decoding pauses, whatever the row count: bounds what a job keeps alive.
const DECODE_BYTES: usize = 16 << 20;

/// Queued chunks, and rows decoded but not yet handed out.
#[derive(Debug, Default)]
pub struct Feed {
    chunks: VecDeque<Queued>,
    /// Records in the chunks, as their headers claim; counted for lanes that wait for more only.
    records: usize,
    /// Bytes of the front chunk that are behind us.
    walked: usize,
    /// Where the last batch behind us ends; `None` at the chunk's start.
    reached: Option<i64>,
    filter: Option<AbortedFilter>,
    /// Rows that did not fit the last job.
    rest: Option<Rest>,
    broken: Option<FeedError>,
}

#[derive(Debug)]
struct Queued {
    chunk: Chunk,
    records: usize,
    since: Nanos,
}

#[derive(Debug)]
struct Rest {
    batch: Batch,
    parcel: Arc<Parcel>,
    since: Nanos,
}

/// What [`Feed::fill`] came to.
#[derive(Debug)]
pub(super) enum Filled {
    /// Rows for a job.
    Batch(Batch, Arc<Parcel>),
    /// No rows, but progress: everything below that offset holds nothing for us.
    Skipped(i64),
    /// The next row is too young, until then (milliseconds since the epoch).
    NotDue(i64),
    /// Nothing was queued.
    Nothing,
}

/// What filling changed besides.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    /// Bytes that decompression added to what is held.
    pub(super) charged: usize,
    /// Held bytes to release.
    pub(super) released: usize,
    pub(super) passed: Passed,
}

/// A batch that cannot be decoded. The feed behind it is of no use.
#[derive(Debug, Clone)]
pub(super) struct FeedError {
    /// Fetch again from here.
    pub(super) offset: i64,
    pub(super) error: RecordError,
}

/// What one job may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) rows: usize,
    pub(super) bytes: usize,
    /// Fill the job up from what is queued, though decoded rows are left.
    pub(super) full: bool,
}

impl Feed {
    /// `records`: as many as the chunk's headers claim, if somebody wants to know.
    pub(super) fn push(&mut self, chunk: Chunk, records: usize, since: Nanos) {
        self.records += records;
        self.chunks.push_back(Queued { chunk, records, since });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.rest.is_none() && self.broken.is_none()
    }

    /// Since when the first of it waits.
    pub(super) fn since(&self) -> Option<Nanos> {
        let rest = self.rest.as_ref().map(|rest| rest.since);
        rest.or_else(|| self.chunks.front().map(|queued| queued.since))
    }

    /// Timestamp of the first record that waits, as far as it is known: what is decoded tells, else a batch's header.
    pub(super) fn oldest(&self) -> Option<i64> {
        if let Some(rest) = &self.rest {
            return Some(rest.batch.first_timestamp()).filter(|timestamp| *timestamp >= 0);
        }
        let Queued { chunk, .. } = self.chunks.front()?;
        let behind = || {
            let bytes = chunk.frame.get(chunk.range.start + self.walked..chunk.range.end).unwrap_or_default();
            Times::of(bytes).oldest.or_else(|| self.chunks.get(1)?.chunk.times.oldest)
        };
        if self.walked == 0 { chunk.times.oldest } else { behind() }
    }

    /// About how many records wait.
    pub(super) fn records(&self) -> usize {
        self.records + self.rest.as_ref().map_or(0, |rest| rest.batch.rows.len())
    }

    /// Whether it knows already that what comes next is broken.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Chunks that arrived while this feed was away go behind what it still holds.
    pub(super) fn append(&mut self, mut later: Feed) {
        self.records += later.records;
        self.chunks.append(&mut later.chunks);
    }

    /// Drops everything; returns the held bytes that this gives back.
    pub(super) fn clear(&mut self) -> usize {
        let walked = if self.chunks.is_empty() { 0 } else { self.walked };
        let chunks: usize = self.chunks.iter().map(|queued| queued.chunk.bytes).sum();
        let decoded = self.rest.as_ref().map_or(0, |rest| rest.parcel.finish(rest.batch.rows.len()));
        *self = Self::default();
        chunks.saturating_sub(walked) + decoded
    }

    /// Rows for one job, decoded by as many record batches as it takes. CRC, decompression and the filter for aborted
    /// transactions happen here, on the worker, without a lock.
    ///
    /// # Errors
    /// When a batch does not pass; rows before it are handed out first.
    pub(super) fn fill(
        &mut self,
        source: &Source<'_>,
        limits: Limits,
        sieve: &Sieve,
        decoder: &mut Decoder,
        change: &mut Change,
    ) -> Result<Filled, FeedError> {
        let mut skipped = None;
        loop {
            let more = limits.full && self.rest.as_ref().is_some_and(|rest| rest.batch.rows.len() < limits.rows);
            if (self.rest.is_none() || more) && self.broken.is_none() && !self.chunks.is_empty() {
                match self.decode(source, limits, decoder, change) {
                    Ok(next_offset) => skipped = next_offset.or(skipped),
                    Err(error) => self.broken = Some(error),
                }
            }
            let Some(rest) = self.rest.as_mut() else {
                // What was passed over is told before what is broken behind it.
                return match (skipped, self.broken.take()) {
                    (None, Some(error)) => Err(error),
                    (Some(next_offset), broken) => {
                        self.broken = broken;
                        Ok(Filled::Skipped(next_offset))
                    }
                    (None, None) => Ok(Filled::Nothing),
                };
            };
            let due = sieve.due(&rest.batch);
            if due.rows == 0 {
                return Ok(match (skipped, due.next_at_ms) {
                    (Some(next_offset), _) => Filled::Skipped(next_offset),
                    (None, until) => Filled::NotDue(until.unwrap_or_default()),
                });
            }
            let mut rows = due.rows.min(limits.rows.max(1));
            if rest.parcel.bytes() > limits.bytes {
                rows = rest.batch.fitting(rows, limits.bytes);
            }
            let head = rest.batch.split_to(rows);
            let parcel = Arc::clone(&rest.parcel);
            if rest.batch.rows.is_empty() {
                self.rest = None;
            }
            let (next_offset, rows) = (head.next_offset, head.rows.len());
            match sieve.sift(head, &mut change.passed) {
                Sifted::All(batch) => return Ok(Filled::Batch(batch, parcel)),
                Sifted::Some(batch) => {
                    change.released += parcel.finish(rows - batch.rows.len());
                    return Ok(Filled::Batch(batch, parcel));
                }
                Sifted::None => {
                    change.released += parcel.finish(rows);
                    skipped = Some(next_offset);
                }
            }
        }
    }

    /// Decodes into `rest`. Returns where to go on if there were no rows.
    fn decode(
        &mut self,
        source: &Source<'_>,
        limits: Limits,
        decoder: &mut Decoder,
        change: &mut Change,
    ) -> Result<Option<i64>, FeedError> {
        let since = self.since().unwrap_or_default();
        let (mut columns, mut released) = (source.pool.take(), 0);
        if let Some(rest) = self.rest.take() {
            let rows: Vec<u32> = rest.batch.rows.clone().filter_map(|row| u32::try_from(row).ok()).collect();
            rest.batch.columns.gather_into(&rows, &mut columns);
            released = rest.parcel.take_over();
        }
        let left = columns.len();
        let (mut charged, mut decoded, mut next, mut leader_epoch) = (0, 0, None, -1);
        while columns.len() < limits.rows && decoded < limits.bytes.min(DECODE_BYTES) {
            let Some(Queued { chunk, records, .. }) = self.chunks.front_mut() else { break };
            let start = chunk.range.start + self.walked;
            let bytes = chunk.frame.get(start..chunk.range.end).unwrap_or_default();
            let Some(Ok((header, range))) = walk(bytes).next() else {
                // The network thread queued whole batches only, so this is the chunk's end.
                next = Some(chunk.next_offset);
                released += chunk.bytes.saturating_sub(self.walked);
                self.records = self.records.saturating_sub(*records);
                self.chunks.pop_front();
                self.walked = 0;
                self.reached = None;
                self.filter = None;
                continue;
            };
            let filter = self.filter.get_or_insert_with(|| AbortedFilter::new(chunk.aborted.clone()));
            let batch = start + range.start..start + range.end;
            match decode_one(chunk, batch, &header, filter, decoder, &mut columns) {
                Ok(unpacked) => {
                    charged += unpacked;
                    decoded += unpacked.max(range.len());
                }
                Err(error) => {
                    // Not where the batch says that it begins: no checksum covers that.
                    let error = FeedError { offset: self.reached.unwrap_or(chunk.fetch_offset), error };
                    if next.is_none() && left == 0 {
                        source.pool.give(columns);
                        return Err(error);
                    }
                    self.broken = Some(error);
                    break;
                }
            }
            let counted = claimed(&header).min(*records);
            *records -= counted;
            self.records = self.records.saturating_sub(counted);
            released += range.end;
            next = Some(header.next_offset().max(chunk.fetch_offset));
            self.reached = next;
            self.walked += range.end;
            leader_epoch = header.leader_epoch;
        }
        change.charged += charged;
        if columns.is_empty() {
            change.released += released;
            source.pool.give(columns);
            return Ok(next);
        }
        let next_offset = next.or_else(|| columns.offsets.last().map(|last| last + 1)).unwrap_or_default();
        let all = 0..columns.len();
        let parcel = Arc::new(Parcel::new(all.len(), released + charged));
        let batch = Batch {
            columns: source.pool.share(columns),
            rows: all,
            topic: source.tp.topic.clone(),
            partition: source.tp.partition,
            high_watermark: source.high_watermark,
            next_offset,
            leader_epoch,
        };
        self.rest = Some(Rest { batch, parcel, since });
        Ok(None)
    }
}

/// How many records a chunk's headers claim. They are not proven yet: this is for waiting only, and waits end by time.
pub(super) fn claimed_records(chunk: &Chunk) -> usize {
    let batches = walk(chunk.frame.get(chunk.range.clone()).unwrap_or_default()).map_while(Result::ok);
    batches.map(|(header, _)| claimed(&header)).fold(0, usize::saturating_add)
}

fn claimed(header: &BatchHeader) -> usize {
    usize::try_from(header.record_count).unwrap_or(0)
}

/// Where rows come from, and where their columns do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) tp: &'a TopicPartition,
    pub(super) high_watermark: i64,
    pub(super) pool: &'a ColumnsPool,
}

/// Appends one batch's records, if they are for us; returns how many bytes it unpacked to (0 if it was not packed).
///
/// The filter believes a batch's producer and a marker's key only after the checksum has vouched for them.
fn decode_one(
    chunk: &Chunk,
    batch: std::ops::Range<usize>,
    header: &BatchHeader,
    filter: &mut AbortedFilter,
    decoder: &mut Decoder,
    columns: &mut Columns,
) -> Result<usize, RecordError> {
    let bytes = chunk.frame.get(batch.clone()).unwrap_or_default();
    if header.is_control() || (header.is_transactional() && !chunk.aborted.is_empty()) {
        check_crc(bytes, header)?;
    }
    if !filter.admits(header, bytes)? {
        return Ok(0);
    }
    let buffers = columns.buffers.len();
    decoder.decode(&chunk.frame, batch, header, chunk.fetch_offset, columns)?;
    let packed = header.compression() != Ok(Compression::None);
    let unpacked = columns.buffers.get(buffers..).unwrap_or_default().iter().map(|slab| slab.len()).sum();
    Ok(if packed { unpacked } else { 0 })
}
