//! A lane's fetched data on its way to rows. The worker that runs the lane owns its feed and decodes without a lock.

use std::collections::VecDeque;

use grete_wire::records::{AbortedFilter, BatchHeader, Columns, Compression, Decoder, RecordError, check_crc, walk};

use super::batch::{Batch, ColumnsPool};
use crate::fetch::Chunk;
use crate::ids::TopicPartition;

/// Decoded bytes after which one job is full, whatever the row count: bounds what a job keeps alive.
const JOB_BYTES: usize = 16 << 20;

/// Queued chunks, and rows decoded but not yet handed out.
#[derive(Debug, Default)]
pub struct Feed {
    chunks: VecDeque<Chunk>,
    /// Bytes of the front chunk that are behind us.
    walked: usize,
    /// Where the last batch behind us ends; `None` at the chunk's start.
    reached: Option<i64>,
    filter: Option<AbortedFilter>,
    /// Unmarked rows of a job that failed: they come first.
    retry: Option<(Batch, usize)>,
    /// Rows that did not fit the last job, and the queued bytes to release with the last of them.
    rest: Option<(Batch, usize)>,
    broken: Option<FeedError>,
}

/// What [`Feed::fill`] came to.
#[derive(Debug)]
pub enum Filled {
    /// Rows for a job.
    Batch {
        /// The rows.
        batch: Batch,
        /// Bytes that decompression added to what is held.
        charged: usize,
        /// Held bytes to release after the job: they come with the last rows of what was decoded together.
        released: usize,
    },
    /// No rows, but progress: everything below `next_offset` holds nothing for us.
    Skipped {
        /// The offset to go on from.
        next_offset: i64,
        /// Queued bytes to release.
        released: usize,
    },
    /// Nothing was queued.
    Nothing,
}

/// A batch that cannot be decoded. The feed behind it is of no use.
#[derive(Debug, Clone)]
pub struct FeedError {
    /// Fetch again from here.
    pub offset: i64,
    /// Why.
    pub error: RecordError,
}

impl Feed {
    pub(super) fn push(&mut self, chunk: Chunk) {
        self.chunks.push_back(chunk);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.retry.is_none() && self.rest.is_none() && self.broken.is_none()
    }

    /// Puts a failed job's rows in front, with the bytes that it would have released.
    pub(super) fn retry(&mut self, batch: Batch, release: usize) {
        self.retry = Some((batch, release));
    }

    /// Chunks that arrived while this feed was away go behind what it still holds.
    pub(super) fn append(&mut self, mut later: Feed) {
        self.chunks.append(&mut later.chunks);
    }

    /// Drops everything; returns the queued bytes that it held.
    pub(super) fn clear(&mut self) -> usize {
        let walked = if self.chunks.is_empty() { 0 } else { self.walked };
        let chunks: usize = self.chunks.iter().map(|chunk| chunk.bytes).sum();
        let decoded: usize = self.rest.iter().chain(&self.retry).map(|(_, release)| *release).sum();
        *self = Self::default();
        chunks.saturating_sub(walked) + decoded
    }

    /// Rows for one job: at most `max_rows`, decoded by as many record batches as it takes. CRC, decompression and the
    /// filter for aborted transactions happen here, on the worker, without a lock.
    ///
    /// # Errors
    /// When a batch does not pass; rows before it are handed out first.
    pub fn fill(
        &mut self,
        tp: &TopicPartition,
        high_watermark: i64,
        max_rows: usize,
        decoder: &mut Decoder,
        pool: &ColumnsPool,
    ) -> Result<Filled, FeedError> {
        if let Some((batch, release)) = self.retry.take() {
            return Ok(rows(batch, 0, release));
        }
        if let Some((mut rest, release)) = self.rest.take() {
            let head = rest.split_to(max_rows);
            if rest.rows.is_empty() {
                return Ok(rows(head, 0, release));
            }
            self.rest = Some((rest, release));
            return Ok(rows(head, 0, 0));
        }
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        self.decode(tp, high_watermark, max_rows, decoder, pool)
    }

    fn decode(
        &mut self,
        tp: &TopicPartition,
        high_watermark: i64,
        max_rows: usize,
        decoder: &mut Decoder,
        pool: &ColumnsPool,
    ) -> Result<Filled, FeedError> {
        let mut columns = pool.take();
        let (mut released, mut charged, mut decoded, mut next, mut leader_epoch) = (0, 0, 0, None, -1);
        while columns.len() < max_rows && decoded < JOB_BYTES {
            let Some(chunk) = self.chunks.front() else { break };
            let start = chunk.range.start + self.walked;
            let bytes = chunk.frame.get(start..chunk.range.end).unwrap_or_default();
            let Some(Ok((header, range))) = walk(bytes).next() else {
                // The network thread queued whole batches only, so this is the chunk's end.
                next = Some(chunk.next_offset);
                released += chunk.bytes.saturating_sub(self.walked);
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
                    if next.is_none() {
                        pool.give(columns);
                        return Err(error);
                    }
                    self.broken = Some(error);
                    break;
                }
            }
            released += range.end;
            next = Some(header.next_offset().max(chunk.fetch_offset));
            self.reached = next;
            self.walked += range.end;
            leader_epoch = header.leader_epoch;
        }
        let Some(next_offset) = next else {
            pool.give(columns);
            return Ok(Filled::Nothing);
        };
        if columns.is_empty() {
            pool.give(columns);
            return Ok(Filled::Skipped { next_offset, released });
        }
        released += charged;
        let all = 0..columns.len();
        let mut batch = Batch {
            columns: pool.share(columns),
            rows: all,
            topic: tp.topic.clone(),
            partition: tp.partition,
            high_watermark,
            next_offset,
            leader_epoch,
        };
        let head = batch.split_to(max_rows);
        if batch.rows.is_empty() {
            return Ok(rows(head, charged, released));
        }
        self.rest = Some((batch, released));
        Ok(rows(head, charged, 0))
    }
}

fn rows(batch: Batch, charged: usize, released: usize) -> Filled {
    Filled::Batch { batch, charged, released }
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
