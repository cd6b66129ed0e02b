//! A job: one call of a hook. What is lent to the worker, what it may mark, how it ends.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use grete_wire::records::{Decoder, RecordError};

use super::ClientId;
use super::batch::{Batch, ColumnsPool};
use super::failure::{Failure, Trouble};
use super::feed::{Feed, FeedError, Filled};
use super::lane::LaneId;
use super::route::{Pool, RoutePolicy};
use super::unit::UnitId;
use crate::ids::TopicPartition;
use crate::time::Nanos;

/// Which hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobKind {
    /// Records to process.
    Consume,
    /// One record that has failed for good.
    DeadLetter,
    /// The partition leaves; `lost`: it is gone already.
    Revoked {
        /// Taken away without a chance to commit.
        lost: bool,
    },
    /// The process ends.
    Shutdown,
    /// The end of the partition has been reached.
    Eof,
    /// The lane has been idle for a while.
    Tick,
    /// Queued data to be decoded and spread over the lane's slots; no hook: a worker never sees its rows.
    Decode,
}

impl JobKind {
    /// Whether it touches records, which may be another member's once the session is over.
    #[must_use]
    pub fn needs_session(self) -> bool {
        matches!(self, Self::Consume | Self::DeadLetter | Self::Decode)
    }

    /// In lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Consume => "consume",
            Self::DeadLetter => "dead_letter",
            Self::Revoked { .. } => "revoked",
            Self::Shutdown => "shutdown",
            Self::Eof => "eof",
            Self::Tick => "tick",
            Self::Decode => "decode",
        }
    }
}

/// A job on loan to a worker.
#[derive(Debug)]
pub struct Lease {
    /// Whose job.
    pub lane: LaneId,
    /// Which of the lane's slots; 0 for jobs of the whole lane.
    pub slot: u32,
    /// Whose lane.
    pub client: ClientId,
    /// The partition.
    pub tp: TopicPartition,
    /// The route's settings.
    pub policy: Arc<RoutePolicy>,
    /// Which hook.
    pub kind: JobKind,
    /// Runs of the first unmarked offset, this one included; known once the rows are.
    pub attempt: u32,
    /// What is queued, for the worker to decode.
    pub feed: Feed,
    /// Rows and marks, shared with the lane while the job runs.
    pub shared: Arc<JobShared>,
    /// End of the partition as last told.
    pub high_watermark: i64,
    /// Queued bytes to release when this job is over.
    pub release: usize,
    /// The first unmarked offset of the last failure, and how often it has failed.
    pub failed: Option<(i64, u32)>,
    /// For [`JobKind::DeadLetter`]: what to say in the headers.
    pub trouble: Option<Arc<Trouble>>,
}

/// What [`Lease::prepare`] came to: tell [`super::Dispatch::prepared`], before the job runs or ends.
#[derive(Debug)]
pub struct Prepared {
    /// Bytes that decompression added.
    pub(super) charged: usize,
    /// There is nothing to run: complete the lease with this, and take another.
    pub finished: Option<Finished>,
}

impl Lease {
    /// Whose job.
    #[must_use]
    pub fn unit(&self) -> UnitId {
        UnitId { lane: self.lane, slot: self.slot }
    }

    /// Who runs it.
    #[must_use]
    pub fn pool(&self) -> Pool {
        self.policy.pool
    }

    /// Gets the rows ready, on the worker and without a lock: decodes, spreads keys, gathers. `max_rows` is the caller's own
    /// limit, if it has one, in place of the route's.
    pub fn prepare(&mut self, decoder: &mut Decoder, pool: &ColumnsPool, max_rows: Option<usize>) -> Prepared {
        if self.kind != JobKind::Consume {
            return Prepared { charged: 0, finished: None };
        }
        let max = max_rows.unwrap_or(self.policy.max_messages).max(1);
        match self.feed.fill(&self.tp, self.high_watermark, max, decoder, pool) {
            Ok(Filled::Batch { batch, charged, released }) => {
                self.set_batch(batch, released);
                Prepared { charged, finished: None }
            }
            Ok(Filled::Skipped { next_offset, released }) => {
                self.release += released;
                Prepared { charged: 0, finished: Some(Finished::Skipped { next_offset }) }
            }
            Ok(Filled::Nothing) => Prepared { charged: 0, finished: Some(Finished::Nothing) },
            Err(FeedError { offset, error }) => {
                Prepared { charged: 0, finished: Some(Finished::Corrupt { offset, error }) }
            }
        }
    }

    /// Takes over the rows that the feed came to.
    pub fn set_batch(&mut self, batch: Batch, release: usize) {
        self.release += release;
        let first = batch.offsets().first().copied();
        self.attempt = match self.failed {
            Some((offset, count)) if Some(offset) == first => count + 1,
            _ => 1,
        };
        self.shared.lock().batch = Some(batch);
    }
}

/// How a job ended.
#[derive(Debug)]
pub enum Finished {
    /// It returned: all its rows are processed.
    Done,
    /// It raised.
    Failed(Failure),
    /// There were no rows for us; the offset to go on from.
    Skipped {
        /// Behind what holds nothing for us.
        next_offset: i64,
    },
    /// There was nothing queued.
    Nothing,
    /// A batch did not pass.
    Corrupt {
        /// Fetch again from here.
        offset: i64,
        /// Why.
        error: RecordError,
    },
    /// The first record is too young for the route's `delay`.
    NotDue {
        /// When it is due, in milliseconds since the epoch.
        until_ms: i64,
    },
}

/// The lane has gone to somebody else, or was sought: what the job did no longer counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fenced;

/// Rows and marks of the job in flight.
#[derive(Debug, Default)]
pub struct JobShared {
    state: Mutex<JobState>,
    /// Rows at the front that the handler is done with.
    progress: AtomicUsize,
    fenced: AtomicBool,
}

#[derive(Debug, Default)]
pub(super) struct JobState {
    pub(super) batch: Option<Batch>,
    /// One flag a row, made at the first mark.
    marks: Vec<bool>,
    /// Rows at the front that are all marked.
    prefix: usize,
}

impl JobShared {
    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, JobState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows, once they are decoded.
    #[must_use]
    pub fn batch(&self) -> Option<Batch> {
        self.lock().batch.clone()
    }

    /// The first `rows` rows are done: they are not presented again if the job fails.
    pub fn progress(&self, rows: usize) {
        self.progress.store(rows, Ordering::Release);
    }

    /// The first rows that are done.
    #[must_use]
    pub fn progressed(&self) -> usize {
        self.progress.load(Ordering::Acquire)
    }

    /// Whether what the job does still counts.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::Acquire)
    }

    /// Nothing that the job does counts from now on.
    pub(super) fn fence(&self) {
        self.fenced.store(true, Ordering::Release);
    }

    /// Marks the rows with offsets in `first..=last`. Returns how many were not marked before.
    ///
    /// # Errors
    /// When the lane was abandoned, lost or sought.
    pub fn mark(&self, first: i64, last: i64) -> Result<u64, Fenced> {
        if self.is_fenced() {
            return Err(Fenced);
        }
        let mut state = self.lock();
        let JobState { batch: Some(batch), marks, prefix } = &mut *state else { return Ok(0) };
        let offsets = batch.offsets();
        marks.resize(offsets.len(), false);
        let start = offsets.partition_point(|offset| *offset < first);
        let end = offsets.partition_point(|offset| *offset <= last);
        let mut new = 0;
        for mark in marks.get_mut(start..end.max(start)).unwrap_or_default() {
            new += u64::from(!*mark);
            *mark = true;
        }
        while marks.get(*prefix).copied().unwrap_or(false) {
            *prefix += 1;
        }
        Ok(new)
    }
}

impl JobState {
    /// The offset to go on from if only what is marked counts; `None` when nothing is.
    pub(super) fn committable(&self) -> Option<(i64, i32)> {
        let batch = self.batch.as_ref()?;
        if self.prefix == 0 {
            return None;
        }
        let offset = batch.offsets().get(self.prefix).copied().unwrap_or(batch.next_offset);
        Some((offset, batch.leader_epoch))
    }

    /// The rows that are not marked, for the next attempt; `None` when all are.
    pub(super) fn unmarked(&self) -> Option<Batch> {
        let batch = self.batch.as_ref()?;
        let rows = batch.rows.len();
        if self.prefix >= rows {
            return None;
        }
        let mut rest = batch.clone();
        rest.rows.start += self.prefix;
        let later = self.marks.get(self.prefix..).unwrap_or_default();
        if later.iter().any(|mark| *mark) {
            // Marks with gaps: the next attempt gets a copy of the views (not of the bytes) of the open rows.
            let open = later.iter().zip(rest.rows.clone()).filter(|(mark, _)| !**mark);
            let open: Vec<u32> = open.filter_map(|(_, row)| u32::try_from(row).ok()).collect();
            let columns = batch.columns.gather(&open);
            rest.rows = 0..columns.len();
            rest.columns = batch.columns.same_pool(columns);
        }
        Some(rest)
    }
}

/// A job in flight, for reports.
#[derive(Debug, Clone)]
pub struct Running {
    /// The partition.
    pub tp: TopicPartition,
    /// Whose job.
    pub unit: UnitId,
    /// The route's settings.
    pub policy: Arc<RoutePolicy>,
    /// Runs of the first unmarked offset, this one included, as far as it is known before the rows are.
    pub attempt: u32,
    /// Which hook.
    pub kind: JobKind,
    /// The worker's name.
    pub worker: String,
    /// When it began.
    pub since: Nanos,
    /// Rows and marks.
    pub shared: Arc<JobShared>,
}
