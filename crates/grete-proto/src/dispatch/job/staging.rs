//! Records and marks of a running exactly-once job.
//!
//! A job's records and marks count together, when the job ends. A job that fails keeps what it has finished: records
//! that it had reported as done, or marked, with what it produced up to there. The rest is dropped, and produced again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::dispatch::offsets::job_outputs::{Mark, UndeliveredOutput};
use crate::producer::{BatchPromise, StagedOutputs, StagedRecord, StagedRecords, StagingBudget};

/// Reason why a record is not staged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageError {
    /// There is no room. `has_ended`: jobs have ended whose records a commit frees.
    Full {
        /// Whether a commit makes room.
        has_ended: bool,
    },
    /// The job has ended.
    Ended,
}

/// Result of an attempt to stage a record: its promise and its index there, if wanted.
pub type StageResult = Result<Option<(Arc<BatchPromise>, u32)>, StageError>;

/// Records and marks of one job, shared by the thread that runs the job and the dispatcher.
#[derive(Debug)]
pub(in crate::dispatch) struct JobStaging {
    budget: Arc<StagingBudget>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Records, and the number of the job's rows that were done before each.
    records: StagedRecords,
    progress: Vec<usize>,
    /// Promises, and the number of records before the first record of each.
    promises: Vec<(usize, Arc<BatchPromise>)>,
    /// Index of the last record in the last promise; `None`: the next record gets a new promise.
    promised: Option<u32>,
    /// Marks, with the number of records before each.
    marks: Vec<(usize, Mark)>,
    has_ended: bool,
    undelivered: Option<UndeliveredOutput>,
}

/// Records and marks of a job that has ended, as far as they count.
#[derive(Debug, Default)]
pub(in crate::dispatch) struct EndedStaging {
    /// Records by the offsets of the rows that they belong to, both included; `None`: no row.
    pub(in crate::dispatch) groups: Vec<(Option<(i64, i64)>, StagedOutputs)>,
    pub(in crate::dispatch) marks: Vec<Mark>,
}

/// Extent to which a job's work counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::dispatch) enum Counts {
    All,
    /// Rows that were reported as done, and marks.
    Finished,
    Nothing,
}

impl JobStaging {
    pub(in crate::dispatch) fn new(budget: &Arc<StagingBudget>) -> Self {
        Self { budget: Arc::clone(budget), state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::dispatch) fn budget(&self) -> &Arc<StagingBudget> {
        &self.budget
    }

    /// Stages a record after `progress` rows. `promised`: the caller wants a promise of the record's outcome.
    pub(in crate::dispatch) fn stage(&self, record: &StagedRecord<'_>, progress: usize, promised: bool) -> StageResult {
        let mut state = self.lock();
        if state.has_ended {
            return Err(StageError::Ended);
        }
        if !self.budget.take(record.bytes()) {
            return Err(StageError::Full { has_ended: self.budget.ended() > 0 });
        }
        let promise = promised.then(|| state.promise(record.topic, progress));
        state.records.push(record);
        state.progress.push(progress);
        Ok(promise)
    }

    /// Holds a mark until the job ends. Returns false if the job has ended: apply it.
    pub(in crate::dispatch) fn hold_mark(&self, mark: Mark) -> Result<(), Mark> {
        let mut state = self.lock();
        if state.has_ended {
            return Err(mark);
        }
        let before = state.records.len();
        state.marks.push((before, mark));
        // Records behind the mark may have another fate.
        state.promised = None;
        Ok(())
    }

    /// Returns copies of the records for a trial; `None`: there are none.
    pub(in crate::dispatch) fn copies(&self) -> Option<StagedOutputs> {
        let state = self.lock();
        (!state.records.is_empty()).then(|| StagedOutputs::for_trial(&state.records))
    }

    /// Sets the record that no broker takes: the job has failed.
    pub(in crate::dispatch) fn set_undelivered(&self, undelivered: UndeliveredOutput) {
        self.lock().undelivered = Some(undelivered);
    }

    pub(in crate::dispatch) fn undelivered(&self) -> Option<UndeliveredOutput> {
        self.lock().undelivered.clone()
    }

    /// Returns how many rows the job had reported as done before it produced a record. `record`: index of the record.
    pub(in crate::dispatch) fn progress_of(&self, record: usize) -> usize {
        self.lock().progress.get(record).copied().unwrap_or(0)
    }

    /// Ends the job. `done`: number of rows that the handler has reported as done. `offsets`: of the rows that count.
    /// `splits`: other jobs of the partition run beside this one, so that its rows are committed one by one.
    pub(in crate::dispatch) fn end(&self, counts: Counts, done: usize, offsets: &[i64], splits: bool) -> EndedStaging {
        let mut shared = self.lock();
        let mut state = std::mem::replace(&mut *shared, State { has_ended: true, ..State::default() });
        shared.undelivered = state.undelivered.take();
        drop(shared);
        let kept = match counts {
            Counts::All => state.records.len(),
            Counts::Finished => {
                let marked = state.marks.last().map_or(0, |(before, _)| *before);
                marked.max(state.progress.partition_point(|progress| *progress < done))
            }
            Counts::Nothing => 0,
        };
        if kept < state.records.len() {
            let dropped = state.records.split_off(kept);
            state.progress.truncate(kept);
            let first = state.promises.partition_point(|(start, _)| *start < kept);
            let promises = state.promises.split_off(first).into_iter().map(|(_, promise)| promise).collect();
            drop(StagedOutputs::new(dropped, promises, &self.budget));
        }
        let marks: Vec<Mark> = match counts {
            Counts::Nothing => Vec::new(),
            Counts::All | Counts::Finished => state.marks.drain(..).map(|(_, mark)| mark).collect(),
        };
        let mut groups = Vec::new();
        if done > 0 && splits {
            // The handler works row by row: each row has its own records.
            let mut promises = state.promises.into_iter().peekable();
            let mut start = 0;
            for row in state.progress.chunk_by(PartialEq::eq) {
                let end = start + row.len();
                let mut of_promises = Vec::new();
                while let Some((_, promise)) = promises.next_if(|(first, _)| *first < end) {
                    of_promises.push(promise);
                }
                let offset = row.first().and_then(|progress| offsets.get(*progress)).or(offsets.last());
                let of_row = state.records.copy(start..end);
                groups.push((offset.map(|at| (*at, *at)), StagedOutputs::new(of_row, of_promises, &self.budget)));
                start = end;
            }
        } else if !state.records.is_empty() {
            let promises = state.promises.into_iter().map(|(_, promise)| promise).collect();
            let rows = rows_of(offsets, &marks);
            groups.push((rows, StagedOutputs::new(state.records, promises, &self.budget)));
        }
        EndedStaging { groups, marks }
    }
}

/// Returns the first and the last offset of the rows and the marks.
fn rows_of(offsets: &[i64], marks: &[Mark]) -> Option<(i64, i64)> {
    let marked = marks.iter().filter_map(|mark| match mark {
        Mark::Range(first, last) => Some((*first, *last)),
        Mark::Rows(rows) => rows.first().copied().zip(rows.last().copied()),
    });
    let own = offsets.first().copied().zip(offsets.last().copied());
    own.into_iter().chain(marked).reduce(|all, next| (all.0.min(next.0), all.1.max(next.1)))
}

impl State {
    /// Returns a promise for the next record: that of the record before, if both have the same topic and the same row.
    fn promise(&mut self, topic: &Arc<str>, progress: usize) -> (Arc<BatchPromise>, u32) {
        let is_same_row = self.progress.last() == Some(&progress);
        match (self.promises.last(), self.promised) {
            (Some((_, last)), Some(index)) if is_same_row && Arc::ptr_eq(last.topic(), topic) => {
                self.promised = Some(index + 1);
                (Arc::clone(last), index + 1)
            }
            _ => {
                let promise = Arc::new(BatchPromise::staged(Arc::clone(topic)));
                self.promises.push((self.records.len(), Arc::clone(&promise)));
                self.promised = Some(0);
                (promise, 0)
            }
        }
    }
}

impl Drop for JobStaging {
    fn drop(&mut self) {
        // A job whose lane is gone, or that was never completed.
        drop(self.end(Counts::Nothing, 0, &[], false));
    }
}
