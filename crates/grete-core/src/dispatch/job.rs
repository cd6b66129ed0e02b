//! A job: one call of a hook. What is lent to the worker, what it may mark, how it ends.

use std::sync::{Arc, Mutex, PoisonError};

use grete_wire::records::RecordError;

use super::ClientId;
use super::batch::Batch;
use super::feed::Feed;
use super::lane::LaneId;
use crate::ids::TopicPartition;
use crate::time::Nanos;

/// Which hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobKind {
    /// Records to process.
    Consume,
    /// The partition leaves; `lost`: it is gone already.
    Revoked {
        /// Taken away without a chance to commit.
        lost: bool,
    },
    /// The process ends.
    Shutdown,
}

/// A job on loan to a worker.
#[derive(Debug)]
pub struct Lease {
    /// Whose job.
    pub lane: LaneId,
    /// Whose lane.
    pub client: ClientId,
    /// The partition.
    pub tp: TopicPartition,
    /// The route's number, as the client named it.
    pub route: u32,
    /// The route's limit.
    pub max_messages: usize,
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
}

impl Lease {
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
    /// It raised: the unmarked rows come again after a wait.
    Failed,
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
}

/// Rows and marks of the job in flight.
#[derive(Debug, Default)]
pub struct JobShared {
    state: Mutex<JobState>,
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

    /// Marks the rows with offsets in `first..=last`. Returns how many were not marked before.
    pub fn mark(&self, first: i64, last: i64) -> u64 {
        let mut state = self.lock();
        let JobState { batch: Some(batch), marks, prefix } = &mut *state else { return 0 };
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
        new
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
    /// The route's number.
    pub route: u32,
    /// Which hook.
    pub kind: JobKind,
    /// The worker's name.
    pub worker: String,
    /// When it began.
    pub since: Nanos,
    /// Rows and marks.
    pub shared: Arc<JobShared>,
}
