//! Lease of a job: a worker takes it, prepares its rows, runs the handler and completes it.

use std::sync::Arc;

use grete_wire::records::Decoder;

use super::ids::{ClientId, LaneId, UnitId};
use super::job::state::JobState;
use super::job::{JobKind, JobOutcome};
use super::retry::failure::FailureHistory;
use super::route_config::{Pool, RouteConfig};
use super::rows::batch_memory::BatchMemory;
use super::rows::decode_queue::{DecodeEffects, DecodeOutcome, DecodeQueue, DecodeQueueError, DecodeSource, RowLimits};
use super::rows::decoded_batch::ColumnPool;
use super::rows::filter::RowFilter;
use super::rows::key_partitioner::partition_by_key;
use super::rows::row_slice::RowSlice;
use crate::ids::TopicPartition;

/// Job that is leased to a worker.
#[derive(Debug)]
pub struct Lease {
    /// Lane of the job.
    pub lane: LaneId,
    /// Slot within the lane; 0 for jobs of the whole lane.
    pub slot: u32,
    /// Handler instance that runs the job, among those of the lane: the slot, or, without a fixed number of slots, the
    /// lowest number that no other job in flight has.
    pub instance: u32,
    /// Client of the lane.
    pub client: ClientId,
    /// Topic and partition.
    pub tp: TopicPartition,
    /// Settings of the route.
    pub policy: Arc<RouteConfig>,
    /// Hook that the job runs.
    pub kind: JobKind,
    /// Number of runs of the first unmarked offset, this run included.
    pub attempt: u32,
    /// Rows and marks, shared with the lane while the job runs.
    pub shared: Arc<JobState>,
    /// Latest known high watermark; -1 if unknown.
    pub high_watermark: i64,
    /// For [`JobKind::DeadLetter`]: failure history for the record's headers.
    pub failure_history: Option<Arc<FailureHistory>>,
    /// Index in the job table.
    pub(super) job: usize,
    /// Decode queue of the lane; `None` if the rows are decoded already.
    pub(super) decode_queue: Option<Box<DecodeQueue>>,
    pub(super) rows: Option<RowSlice>,
    /// Rows beyond this job's limits.
    pub(super) leftover: Vec<RowSlice>,
    /// Memory account of the decoded batch that contains the job's rows.
    pub(super) memory: Option<Arc<BatchMemory>>,
    pub(super) filter: RowFilter,
    /// Most rows that the rate or the decode window allows.
    pub(super) max_rows: usize,
    /// Rows that the rate limit has granted; 0: none.
    pub(super) granted: usize,
    /// Bytes to release at the job's end, whatever its outcome.
    pub(super) release: usize,
    /// The handler has been called already. The job comes back to a worker because it has failed: the handler raised,
    /// or a record that it produced was not written.
    pub returned: bool,
}

/// Result of [`Lease::prepare`]. Pass it to [`super::Dispatch::on_prepared`] before the job runs or ends.
#[derive(Debug)]
pub struct PrepareResult {
    pub(super) change: DecodeEffects,
    /// Timestamp of the first record left in the decode queue, if known.
    pub(super) left_ms: Option<i64>,
    /// `Some`: there is nothing to run. Complete the lease with this outcome, and take another job.
    pub outcome: Option<JobOutcome>,
}

impl Lease {
    /// Returns the unit of the job.
    pub fn unit(&self) -> UnitId {
        UnitId { lane: self.lane, slot: self.slot }
    }

    /// Returns the pool that runs the job.
    pub fn pool(&self) -> Pool {
        self.policy.pool
    }

    /// Prepares the rows on the worker, without a lock: decodes, partitions by key, gathers.
    ///
    /// `max_rows` replaces the route's limit; `None`: the route's limit holds.
    pub fn prepare(&mut self, decoder: &mut Decoder, pool: &ColumnPool, max_rows: Option<usize>) -> PrepareResult {
        let mut change = DecodeEffects::default();
        let outcome = match self.rows.take() {
            Some(mut piece) => {
                self.memory = Some(Arc::clone(&piece.memory));
                if let Some(max) = max_rows.filter(|max| *max < piece.len()) {
                    let head = piece.split_to(max.max(1));
                    self.leftover.push(std::mem::replace(&mut piece, head));
                }
                self.set_rows(piece);
                None
            }
            None => self.decode(decoder, pool, max_rows, &mut change),
        };
        self.release += change.released;
        let left_ms = self.decode_queue.as_deref().and_then(DecodeQueue::oldest);
        PrepareResult { change, left_ms, outcome }
    }

    fn set_rows(&mut self, piece: RowSlice) {
        let parcel = Arc::clone(&piece.memory);
        let mut batch = piece.into_batch();
        if parcel.bytes() > self.policy.max_bytes {
            let rows = batch.rows.len();
            let fitting = batch.rows_within(rows, self.policy.max_bytes);
            if fitting < rows {
                let head = batch.split_to(fitting);
                let more = RowSlice::contiguous(std::mem::replace(&mut batch, head), parcel);
                self.leftover.push(more);
            }
        }
        self.shared.set_batch(batch);
    }

    fn decode(
        &mut self,
        decoder: &mut Decoder,
        pool: &ColumnPool,
        max_rows: Option<usize>,
        change: &mut DecodeEffects,
    ) -> Option<JobOutcome> {
        let feed = self.decode_queue.as_mut()?;
        let source =
            DecodeSource { tp: &self.tp, high_watermark: self.high_watermark, pool, acknowledges: self.policy.queue };
        let spreads = self.kind == JobKind::Decode;
        let limits = RowLimits {
            rows: if spreads {
                self.max_rows
            } else {
                max_rows.unwrap_or(self.policy.max_messages).min(self.max_rows).max(1)
            },
            bytes: self.policy.max_bytes,
            full: !spreads && self.policy.max_wait > 0,
        };
        match feed.decode_up_to(&source, limits, &self.filter, decoder, change) {
            Ok(DecodeOutcome::Rows(batch, parcel)) if spreads => {
                Some(JobOutcome::Decoded(partition_by_key(batch, parcel, &self.policy)))
            }
            Ok(DecodeOutcome::Rows(batch, parcel)) => {
                self.shared.set_batch(batch);
                self.memory = Some(parcel);
                None
            }
            Ok(DecodeOutcome::Skipped(next_offset)) => Some(JobOutcome::Skipped { next_offset }),
            Ok(DecodeOutcome::NotDue(until_ms)) => Some(JobOutcome::NotDue { until_ms }),
            Ok(DecodeOutcome::Nothing) => Some(JobOutcome::Nothing),
            Err(DecodeQueueError { offset, error }) => Some(JobOutcome::Corrupt { offset, error }),
        }
    }
}
