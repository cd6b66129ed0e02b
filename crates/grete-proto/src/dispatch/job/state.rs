//! State that a job and its lane share while the job runs: rows, marks, progress.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::dispatch::job::staging::{Counts, EndedStaging, JobStaging, StageError, StageResult};
use crate::dispatch::offsets::job_outputs::{HoldResult, JobOutputs, Mark, UndeliveredOutput};
use crate::dispatch::offsets::shared_tracker::{MarkError, SharedTracker};
use crate::dispatch::route_config::{Concurrency, OffsetPolicy, RouteConfig};
use crate::dispatch::rows::decoded_batch::DecodedBatch;
use crate::producer::{BatchPromise, StagedRecord, StagingBudget};
use crate::share::AckType;

/// Rows, marks and outputs of a job.
#[derive(Debug)]
pub struct JobState {
    pub(in crate::dispatch) tracker: Arc<SharedTracker>,
    offset_policy: OffsetPolicy,
    /// Other jobs process the same partition, so this job may mark its own rows only.
    is_shard: bool,
    rows: Mutex<JobRows>,
    /// Number of leading rows that the handler has completed.
    completed_rows: AtomicUsize,
    /// The handler stopped after `completed_rows`, because the lane is leaving.
    yielded: AtomicBool,
    /// Records that the job has produced. Created with the first such record, so a job that produces nothing pays
    /// nothing.
    outputs: OnceLock<JobOutputs>,
    /// `Some`: the job is exactly once. What it produces waits here for its end.
    staging: Option<JobStaging>,
}

#[derive(Debug, Default)]
struct JobRows {
    batch: Option<DecodedBatch>,
    /// Offsets of the job's rows, kept where marks may come after the job's end.
    finished_offsets: Box<[i64]>,
}

impl JobState {
    pub(in crate::dispatch) fn new(
        tracker: &Arc<SharedTracker>,
        policy: &RouteConfig,
        staging: Option<JobStaging>,
    ) -> Self {
        Self {
            tracker: Arc::clone(tracker),
            offset_policy: policy.offsets,
            is_shard: policy.concurrency != Concurrency::Partition,
            rows: Mutex::default(),
            completed_rows: AtomicUsize::new(0),
            yielded: AtomicBool::new(false),
            outputs: OnceLock::new(),
            staging,
        }
    }

    fn lock(&self) -> MutexGuard<'_, JobRows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the rows, from decoding until the job's end; else `None`.
    pub fn batch(&self) -> Option<DecodedBatch> {
        self.lock().batch.clone()
    }

    /// Calls `look` with the rows, without a clone; `None`: there are none.
    pub(in crate::dispatch) fn with_batch<R>(&self, look: impl FnOnce(&DecodedBatch) -> R) -> Option<R> {
        self.lock().batch.as_ref().map(look)
    }

    pub(in crate::dispatch) fn set_batch(&self, batch: DecodedBatch) {
        self.lock().batch = Some(batch);
    }

    /// Takes the rows at the job's end.
    pub(in crate::dispatch) fn take_batch(&self) -> Option<DecodedBatch> {
        let mut rows = self.lock();
        let batch = rows.batch.take()?;
        if self.is_shard && self.offset_policy == OffsetPolicy::Manual {
            rows.finished_offsets = batch.offsets().into();
        }
        Some(batch)
    }

    /// Returns the first and the last offset of the rows; `None`: there are none.
    pub fn offsets(&self) -> Option<(i64, i64)> {
        let rows = self.lock();
        let offsets = rows.batch.as_ref()?.offsets();
        offsets.first().copied().zip(offsets.last().copied())
    }

    /// Reports the first `rows` rows as done: they are not delivered again if the job fails. (With
    /// [`OffsetPolicy::Manual`] this has no effect.)
    pub fn set_completed_rows(&self, rows: usize) {
        self.completed_rows.store(rows, Ordering::Release);
    }

    /// Returns the number of leading rows that are done.
    pub fn completed_rows(&self) -> usize {
        self.completed_rows.load(Ordering::Acquire)
    }

    /// Returns whether the job is fenced, so that its marks and progress do not count any more.
    pub fn is_fenced(&self) -> bool {
        self.tracker.is_fenced()
    }

    /// Returns whether the lane is leaving, so that rows that are not started are better left to its next owner.
    ///
    /// Always false at most once: there the rows are committed already, and no owner would receive them.
    #[inline]
    pub fn is_leaving(&self) -> bool {
        self.tracker.is_leaving() && self.offset_policy != OffsetPolicy::AtMostOnce
    }

    /// Returns whether the handler must stop between two rows, because the lane is leaving.
    ///
    /// After `true` the job runs no further row. Its end as [`JobOutcome::Done`](crate::dispatch::JobOutcome::Done)
    /// then covers only the rows reported by [`JobState::set_completed_rows`].
    #[inline]
    pub fn should_yield(&self) -> bool {
        let leaving = self.is_leaving();
        if leaving {
            self.yielded.store(true, Ordering::Release);
        }
        leaving
    }

    /// Returns whether [`JobState::should_yield`] has returned true.
    pub fn has_yielded(&self) -> bool {
        self.yielded.load(Ordering::Acquire)
    }

    /// Marks the rows with offsets in `first..=last`. Returns how many were not marked before.
    ///
    /// Marks work after the job's end, too. In a lane without slots, the rows may belong to earlier jobs. After this
    /// call, ask [`JobState::take_resumed`]. A mark waits for the records that the job produced before it: see
    /// [`JobState::on_produced`].
    ///
    /// # Errors
    /// - [`MarkError::Fenced`] if the lane was lost or abandoned, or its position was moved by a seek.
    /// - [`MarkError::Undelivered`] if a record that the job produced before the mark was not written.
    pub fn mark(&self, first: i64, last: i64) -> Result<u64, MarkError> {
        if !self.is_shard {
            return self.apply_or_hold(Mark::Range(first, last));
        }
        let rows = self.lock();
        let offsets = rows.batch.as_ref().map_or(&*rows.finished_offsets, DecodedBatch::offsets);
        let start = offsets.partition_point(|offset| *offset < first);
        let end = offsets.partition_point(|offset| *offset <= last);
        let meant = offsets.get(start..end).unwrap_or_default();
        self.apply_or_hold(Mark::Rows(meant.into()))
    }

    /// Marks the rows with exactly these offsets, ascending; otherwise like [`JobState::mark`].
    ///
    /// With [`OffsetPolicy::Manual`] the offsets may be any rows of the lane that were handed out. A handler that kept
    /// a record of an earlier job has no other job to mark it with.
    ///
    /// # Errors
    /// The same as [`JobState::mark`].
    pub fn mark_rows(&self, offsets: &[i64]) -> Result<u64, MarkError> {
        if !self.is_shard || self.offset_policy == OffsetPolicy::Manual {
            return self.apply_or_hold(Mark::Rows(offsets.into()));
        }
        let rows = self.lock();
        let own = rows.batch.as_ref().map_or(&*rows.finished_offsets, DecodedBatch::offsets);
        let meant = offsets.iter().copied().filter(|offset| own.binary_search(offset).is_ok()).collect();
        self.apply_or_hold(Mark::Rows(meant))
    }

    /// Acknowledges records of a share group that were handed out and are not acknowledged, whatever job has them. Returns
    /// how many there were.
    ///
    /// # Errors
    /// [`MarkError::Fenced`] if the lane was lost.
    pub fn acknowledge(&self, offsets: &[i64], kind: AckType) -> Result<u64, MarkError> {
        let finished = self.tracker.with(|tracker| {
            let records = tracker.acquired()?;
            Some(offsets.iter().map(|offset| records.finish_open(*offset, *offset, kind)).sum::<usize>())
        })?;
        Ok(finished.unwrap_or(0) as u64)
    }

    /// Returns how often a record of a share group was delivered, this delivery included; `None`: it is acknowledged, or
    /// belongs to no share group.
    pub fn deliveries(&self, offset: i64) -> Option<u32> {
        let found = self.tracker.with(|tracker| {
            let is_open = tracker.is_open(offset);
            tracker.acquired().filter(|_| is_open).map(|records| records.deliveries(offset))
        });
        found.ok().flatten()
    }

    fn apply_or_hold(&self, mark: Mark) -> Result<u64, MarkError> {
        if let Some(staging) = &self.staging {
            let open = self.tracker.with(|tracker| tracker.count_open(&mark))?;
            return match staging.hold_mark(mark) {
                Ok(()) => Ok(open as u64),
                Err(mark) => self.apply(&mark), // after the job's end
            };
        }
        let Some(outputs) = self.outputs.get() else { return self.apply(&mark) };
        self.release_marks(false);
        let open = self.tracker.with(|tracker| tracker.count_open(&mark))?;
        match outputs.hold_mark(mark) {
            HoldResult::Apply(mark) => self.apply(&mark),
            HoldResult::Held => Ok(open as u64),
            HoldResult::Failed => Err(MarkError::Undelivered),
        }
    }

    fn apply(&self, mark: &Mark) -> Result<u64, MarkError> {
        Ok(self.tracker.with(|tracker| tracker.apply(mark))? as u64)
    }

    /// Records that the job has produced `count` records: those of the promise's batch from index `first` on.
    ///
    /// Marks from now on wait until these records are written, and so does the job's end. `source`: offset of the
    /// record that the job processes, if known. An at-most-once job commits before its records are processed, so it has
    /// nothing that could wait.
    pub fn on_produced(&self, receipt: &Arc<BatchPromise>, first: u32, count: u32, source: Option<i64>) {
        if self.offset_policy != OffsetPolicy::AtMostOnce && count > 0 {
            let outputs = self.outputs.get_or_init(JobOutputs::default);
            outputs.add(receipt, first, count, self.completed_rows(), source);
        }
    }

    /// Returns the batches with records of the job that are not settled, as of the last poll.
    #[must_use]
    pub fn pending_batches(&self) -> Vec<Arc<BatchPromise>> {
        self.outputs().map(JobOutputs::pending_batches).unwrap_or_default()
    }

    /// Returns how many records of the job are not settled, as of the last poll.
    pub fn pending_outputs(&self) -> u64 {
        self.outputs.get().map_or(0, JobOutputs::pending_count)
    }

    /// Returns the first record of the job that was not written; `None`: there is none.
    pub fn undelivered(&self) -> Option<UndeliveredOutput> {
        match &self.staging {
            Some(staging) => staging.undelivered(),
            None => self.outputs.get()?.undelivered(u64::MAX),
        }
    }

    /// Returns whether the job is exactly once: its records are staged.
    #[inline]
    pub fn is_exactly_once(&self) -> bool {
        self.staging.is_some()
    }

    /// Returns the memory for staged records; `None`: the job is not exactly once.
    pub fn staging_budget(&self) -> Option<&Arc<StagingBudget>> {
        self.staging.as_ref().map(JobStaging::budget)
    }

    /// Stages a record of an exactly-once job. `promised`: the caller wants the promise of the record's outcome, and its
    /// index.
    ///
    /// # Errors
    /// Why the record is not staged.
    pub fn stage(&self, record: &StagedRecord<'_>, promised: bool) -> StageResult {
        match &self.staging {
            Some(staging) => staging.stage(record, self.completed_rows(), promised),
            None => Err(StageError::Ended),
        }
    }

    /// Fails the job because of a staged record that no broker takes. `record`: index of the record in the job.
    pub(in crate::dispatch) fn set_refused(&self, record: usize, promise: Arc<BatchPromise>, index: u32) {
        let Some(staging) = &self.staging else { return };
        let (done, progress) = (self.completed_rows(), staging.progress_of(record));
        // A handler that works row by row has produced the record in the row behind those that were done.
        let source = self.with_batch(|batch| batch.offsets().get(progress).copied()).flatten();
        staging.set_undelivered(UndeliveredOutput { promise, index, source: source.filter(|_| done > 0) });
        self.set_completed_rows(done.min(progress));
    }

    pub(in crate::dispatch) fn staging(&self) -> Option<&JobStaging> {
        self.staging.as_ref()
    }

    /// Ends the staging of an exactly-once job, before its rows are taken; `None`: it is not exactly once. `failed`: the
    /// rest of its rows runs again. `yielded`: the job stopped between two rows.
    pub(in crate::dispatch) fn end_staging(&self, failed: bool, yielded: bool) -> Option<EndedStaging> {
        let staging = self.staging.as_ref()?;
        let counts = match (self.is_fenced(), failed && !yielded) {
            (true, _) => Counts::Nothing,
            (false, true) => Counts::Finished,
            (false, false) => Counts::All,
        };
        let done = self.completed_rows();
        let rows = self.lock();
        let own = rows.batch.as_ref().filter(|_| self.offset_policy == OffsetPolicy::Auto);
        let own = own.map(DecodedBatch::offsets).unwrap_or_default();
        let covered = if failed || yielded { own.get(..done.min(own.len())).unwrap_or_default() } else { own };
        let mut ended = staging.end(counts, done, covered, self.is_shard);
        drop(rows);
        // A mark may name more than the rows that were handed out and are not done.
        let known = self.tracker.with(|tracker| (tracker.committable(), tracker.handed_out_end()));
        for mark in &ended.marks {
            let _ = self.apply(mark); // fenced: these marks do not count any more
        }
        if let Ok((Some((base, _)), Some(end))) = known {
            for (first, last) in ended.groups.iter_mut().filter_map(|(rows, _)| rows.as_mut()) {
                (*first, *last) = ((*first).max(base.min(*last)), (*last).min(end - 1));
            }
        }
        Some(ended)
    }

    pub(in crate::dispatch) fn outputs(&self) -> Option<&JobOutputs> {
        self.outputs.get()
    }

    /// Applies marks whose outputs are written. Returns the batch whose settlement to wait for next. `producer_closed`:
    /// nothing more will be settled.
    pub(in crate::dispatch) fn release_marks(&self, producer_closed: bool) -> Option<Arc<BatchPromise>> {
        let (marks, next) = self.outputs.get()?.poll(producer_closed);
        for mark in marks {
            let _ = self.apply(&mark); // fenced: these marks do not count any more
        }
        next
    }

    /// Returns whether a mark has ended the lane's wait for marks, and clears that flag. If so, call
    /// [`Dispatch::on_marks_resumed`](crate::dispatch::Dispatch::on_marks_resumed).
    #[must_use]
    pub fn take_resumed(&self) -> bool {
        self.tracker.take_resumed()
    }

    /// Marks the rows that the handler has reported as completed.
    pub(in crate::dispatch) fn apply_progress(&self) {
        let mut rows = self.completed_rows();
        if let Some(outputs) = self.outputs.get() {
            self.release_marks(false);
            rows = outputs.delivered_rows(rows);
        }
        if rows == 0 || self.offset_policy != OffsetPolicy::Auto {
            return;
        }
        let state = self.lock();
        let Some(batch) = &state.batch else { return };
        let offsets = batch.offsets();
        let done = offsets.get(..rows.min(offsets.len())).unwrap_or_default();
        // Progress of a fenced job does not count, and no caller needs to know.
        let _ = self.tracker.with(|tracker| tracker.mark_offsets(done));
    }
}
