//! Outputs of a job (the records that it has produced), and the marks that wait for them.
//!
//! A mark counts only when every record that the job produced before that mark is written. Outputs are numbered in the
//! order of production; a mark carries the number of outputs before it. An output that was not written, or whose result
//! is unknown, fails the job at that point. Marks before that output count, marks after it do not.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::producer::BatchPromise;

/// Number of runs beyond which `add` polls the leading runs again.
const MIN_POLL_RUNS: usize = 1024;

/// Record that a job produced and that was not written, or whose result is unknown.
#[derive(Debug, Clone)]
pub struct UndeliveredOutput {
    /// Promise of the record's batch; not settled if the producer has closed before the result.
    pub promise: Arc<BatchPromise>,
    /// Index of the record in the batch.
    pub index: u32,
    /// Offset of the record that the job processed when it produced this one, if known.
    pub source: Option<i64>,
}

/// Outputs of one job, shared by the thread that runs the job and by the threads that check its marks.
#[derive(Debug, Default)]
pub(in crate::dispatch) struct JobOutputs {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Number of outputs so far.
    count: u64,
    /// Outputs from the first open one on.
    runs: VecDeque<Run>,
    /// Number of runs at which `add` polls the leading runs again.
    look_at: usize,
    /// Held marks with the number of outputs before each, ascending.
    held_marks: VecDeque<(u64, Mark)>,
    failed: Option<FailedOutput>,
    /// Marks behind the failed output, dropped since the last `take_dropped`.
    dropped: u64,
}

/// Consecutive outputs in one batch, with the same source.
#[derive(Debug)]
struct Run {
    receipt: Arc<BatchPromise>,
    first: u32,
    count: u32,
    /// Number of the job's rows that were done when these outputs were produced.
    progress: usize,
    source: Option<i64>,
    /// Number of outputs up to the end of this run.
    end: u64,
}

#[derive(Debug)]
struct FailedOutput {
    undelivered: UndeliveredOutput,
    progress: usize,
    /// Number of outputs before the failed one.
    at: u64,
}

/// Records that a job has marked as done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::dispatch) enum Mark {
    /// All records from the first to the last offset, both included.
    Range(i64, i64),
    /// Records with exactly these offsets, ascending.
    Rows(Box<[i64]>),
}

/// Result of holding a mark.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::dispatch) enum HoldResult {
    /// All outputs before the mark are written: apply it.
    Apply(Mark),
    /// The mark is held until they are written.
    Held,
    /// One output before the mark was not written: the mark does not count.
    Failed,
}

impl JobOutputs {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds `count` outputs: the records of the batch from index `first` on. The job produced them while it processed
    /// the record at `source`, after `progress` of its rows.
    pub(in crate::dispatch) fn add(
        &self,
        receipt: &Arc<BatchPromise>,
        first: u32,
        count: u32,
        progress: usize,
        source: Option<i64>,
    ) {
        let mut state = self.lock();
        state.count += u64::from(count);
        if state.failed.is_some() {
            return; // outputs after a failed one are produced again
        }
        let end = state.count;
        if let Some(last) = state.runs.back_mut()
            && Arc::ptr_eq(&last.receipt, receipt)
            && last.first.checked_add(last.count) == Some(first)
            && (last.progress, last.source) == (progress, source)
        {
            last.count += count;
            last.end = end;
            return;
        }
        if state.runs.len() >= state.look_at.max(MIN_POLL_RUNS) {
            state.poll(false);
            state.look_at = 2 * state.runs.len();
        }
        state.runs.push_back(Run { receipt: Arc::clone(receipt), first, count, progress, source, end });
    }

    /// Returns the number of outputs so far.
    pub(in crate::dispatch) fn count(&self) -> u64 {
        self.lock().count
    }

    /// Checks the outputs. Returns the marks that count now, and the batch whose settlement to wait for next.
    /// `producer_closed`: outputs that are not settled now never will be.
    pub(in crate::dispatch) fn poll(&self, producer_closed: bool) -> (Vec<Mark>, Option<Arc<BatchPromise>>) {
        let mut state = self.lock();
        state.poll(producer_closed);
        (state.release_marks(), state.runs.front().map(|run| Arc::clone(&run.receipt)))
    }

    /// Returns whether one of the first `count` outputs is still open. (After a failure none is: later outputs do not
    /// matter.)
    pub(in crate::dispatch) fn is_open(&self, count: u64) -> bool {
        let state = self.lock();
        state.runs.front().is_some_and(|run| run.end - u64::from(run.count) < count)
    }

    /// Returns the first output that was not written, if it is among the first `count` outputs.
    pub(in crate::dispatch) fn undelivered(&self, count: u64) -> Option<UndeliveredOutput> {
        let state = self.lock();
        state.failed.as_ref().filter(|failed| failed.at < count).map(|failed| failed.undelivered.clone())
    }

    /// Returns how many of the `progress` completed rows count as done.
    pub(in crate::dispatch) fn delivered_rows(&self, progress: usize) -> usize {
        let mut state = self.lock();
        state.poll(false);
        let limit = match (&state.failed, state.runs.front()) {
            (Some(failed), _) => Some(failed.progress),
            (None, front) => front.map(|run| run.progress),
        };
        limit.map_or(progress, |limit| limit.min(progress))
    }

    /// Holds the mark if outputs before it are open.
    pub(in crate::dispatch) fn hold_mark(&self, mark: Mark) -> HoldResult {
        let mut state = self.lock();
        if state.failed.is_some() {
            return HoldResult::Failed;
        }
        if state.runs.is_empty() {
            return HoldResult::Apply(mark);
        }
        let before = state.count;
        state.held_marks.push_back((before, mark));
        HoldResult::Held
    }

    /// Returns the batches with open outputs. A batch may occur more than once.
    pub(in crate::dispatch) fn pending_batches(&self) -> Vec<Arc<BatchPromise>> {
        let state = self.lock();
        let mut batches: Vec<Arc<BatchPromise>> = Vec::new();
        for run in &state.runs {
            // Most repetitions are adjacent; the others do no harm.
            if batches.last().is_none_or(|last| !Arc::ptr_eq(last, &run.receipt)) {
                batches.push(Arc::clone(&run.receipt));
            }
        }
        batches
    }

    /// Returns the number of open outputs.
    pub(in crate::dispatch) fn pending_count(&self) -> u64 {
        let state = self.lock();
        state.runs.front().map_or(0, |run| state.count - (run.end - u64::from(run.count)))
    }

    /// Returns how many marks were dropped because of a failure since the last call.
    pub(in crate::dispatch) fn take_dropped(&self) -> u64 {
        std::mem::take(&mut self.lock().dropped)
    }

    /// Returns whether marks are held.
    pub(in crate::dispatch) fn has_held_marks(&self) -> bool {
        !self.lock().held_marks.is_empty()
    }
}

impl State {
    /// Drops leading outputs that are written, up to the first output that is open or has failed.
    fn poll(&mut self, producer_closed: bool) {
        while let Some(run) = self.runs.front_mut() {
            let index = match run.state(producer_closed) {
                RunState::Open(index) => {
                    // If a batch was split, some of its records may be written.
                    run.count -= index - run.first;
                    run.first = index;
                    return;
                }
                RunState::Written => {
                    self.runs.pop_front();
                    continue;
                }
                RunState::Failed(index) => index,
            };
            let at = run.end - u64::from(run.count) + u64::from(index - run.first);
            let undelivered = UndeliveredOutput { promise: Arc::clone(&run.receipt), index, source: run.source };
            self.failed = Some(FailedOutput { undelivered, progress: run.progress, at });
            self.runs.clear();
        }
    }

    /// Takes the marks whose outputs are all written. Marks behind a failed output are dropped.
    fn release_marks(&mut self) -> Vec<Mark> {
        let written = match (&self.failed, self.runs.front()) {
            (Some(failed), _) => failed.at,
            (None, Some(run)) => run.end - u64::from(run.count),
            (None, None) => u64::MAX,
        };
        let count = self.held_marks.partition_point(|(before, _)| *before <= written);
        let released = self.held_marks.drain(..count).map(|(_, mark)| mark).collect();
        if self.failed.is_some() {
            self.dropped += self.held_marks.len() as u64;
            self.held_marks.clear();
        }
        released
    }
}

enum RunState {
    /// Index of the first open record.
    Open(u32),
    Written,
    /// Index of the first failed record.
    Failed(u32),
}

impl Run {
    fn state(&self, producer_closed: bool) -> RunState {
        let records = self.first..self.first.saturating_add(self.count);
        if self.receipt.is_complete() && !self.receipt.has_failures() {
            return RunState::Written; // the common case: one check for the whole batch
        }
        for index in records {
            match self.receipt.result(index) {
                Some(settled) if settled.error.is_some() => return RunState::Failed(index),
                Some(_) => {}
                None if producer_closed => return RunState::Failed(index),
                None => return RunState::Open(index),
            }
        }
        RunState::Written
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::producer::test_util::complete_part;

    fn receipt() -> Arc<BatchPromise> {
        crate::producer::test_util::batch_promise("out", 0)
    }

    fn span(at: i64) -> Mark {
        Mark::Range(at, at)
    }

    #[test]
    fn a_mark_waits_for_the_outputs_before_it_and_for_no_others() {
        let outputs = JobOutputs::default();
        assert_eq!(outputs.hold_mark(span(0)), HoldResult::Apply(span(0)), "nothing was produced");
        let (first, second) = (receipt(), receipt());
        outputs.add(&first, 0, 1, 0, Some(1));
        assert_eq!(outputs.hold_mark(span(1)), HoldResult::Held);
        outputs.add(&second, 0, 1, 1, Some(2));
        assert_eq!(outputs.hold_mark(span(2)), HoldResult::Held);
        let (marks, next) = outputs.poll(false);
        assert!(marks.is_empty() && next.is_some_and(|next| Arc::ptr_eq(&next, &first)));
        // The second output is written first: its mark still waits for the first output.
        complete_part(&second, 0, 1, true, true);
        assert!(outputs.poll(false).0.is_empty() && outputs.delivered_rows(2) == 0);
        complete_part(&first, 0, 1, true, true);
        let (marks, next) = outputs.poll(false);
        assert_eq!((marks, next.is_none()), (vec![span(1), span(2)], true));
        assert!(!outputs.has_held_marks() && outputs.pending_count() == 0 && outputs.delivered_rows(2) == 2);
    }

    #[test]
    fn marks_behind_a_failure_do_not_count() {
        let outputs = JobOutputs::default();
        let batch = receipt();
        for at in 0..3 {
            outputs.add(&batch, at, 1, at as usize, Some(i64::from(at)));
            assert_eq!(outputs.hold_mark(span(i64::from(at))), HoldResult::Held);
        }
        complete_part(&batch, 0, 1, true, false);
        complete_part(&batch, 1, 1, false, false);
        complete_part(&batch, 2, 1, true, true);
        assert_eq!(outputs.poll(false).0, vec![span(0)]);
        let undelivered = outputs.undelivered(3).map(|undelivered| (undelivered.index, undelivered.source));
        assert_eq!(undelivered, Some((1, Some(1))));
        assert!(outputs.undelivered(1).is_none(), "the job's end came before that output");
        assert_eq!((outputs.hold_mark(span(3)), outputs.delivered_rows(3)), (HoldResult::Failed, 1));
        assert_eq!((outputs.take_dropped(), outputs.take_dropped()), (2, 0));
    }

    #[test]
    fn a_producer_that_has_ended_settles_nothing_any_more() {
        let outputs = JobOutputs::default();
        outputs.add(&receipt(), 0, 2, 0, None);
        assert!(outputs.is_open(2) && outputs.poll(false).1.is_some());
        assert!(outputs.poll(true).1.is_none());
        assert!(!outputs.is_open(2) && outputs.undelivered(2).is_some_and(|undelivered| undelivered.index == 0));
    }

    #[test]
    fn runs_that_are_written_do_not_pile_up() {
        let outputs = JobOutputs::default();
        for _ in 0..10 * MIN_POLL_RUNS {
            let batch = receipt();
            outputs.add(&batch, 0, 1, 0, None);
            complete_part(&batch, 0, 1, true, true);
        }
        assert!(outputs.lock().runs.len() <= MIN_POLL_RUNS);
    }

    proptest! {
        /// Compares with a naive model: a list of outputs and a list of marks.
        #[test]
        fn as_a_naive_list(steps in prop::collection::vec((0..4_u8, 0..12_usize, any::<bool>()), 1..80)) {
            let outputs = JobOutputs::default();
            let mut batches: Vec<(Arc<BatchPromise>, Option<bool>)> = Vec::new();
            let (mut held, mut released, mut counted): (Vec<(usize, i64)>, Vec<i64>, Vec<i64>) = Default::default();
            let mut next = 0;
            for (what, at, good) in steps {
                match what {
                    0 => {
                        let batch = receipt();
                        outputs.add(&batch, 0, 1, 0, None);
                        batches.push((batch, None));
                    }
                    1 => {
                        next += 1;
                        match outputs.hold_mark(span(next)) {
                            HoldResult::Apply(_) => counted.push(next),
                            HoldResult::Held | HoldResult::Failed => {}
                        }
                        held.push((batches.len(), next));
                    }
                    _ => {
                        let Some((batch, state)) = batches.get_mut(at) else { continue };
                        if state.is_none() {
                            *state = Some(good || what == 2);
                            complete_part(batch, 0, 1, good || what == 2, true);
                        }
                    }
                }
                counted.extend(outputs.poll(false).0.iter().map(|mark| match mark {
                    Mark::Range(first, _) => *first,
                    Mark::Rows(rows) => rows[0],
                }));
                let written = batches.iter().position(|(_, state)| *state != Some(true)).unwrap_or(batches.len());
                let (now, later): (Vec<_>, Vec<_>) = held.into_iter().partition(|(before, _)| *before <= written);
                released.extend(now.iter().map(|(_, mark)| *mark));
                held = later;
                prop_assert_eq!(&counted, &released);
                let failed = batches.get(written).is_some_and(|(_, state)| *state == Some(false));
                prop_assert_eq!(outputs.undelivered(u64::MAX).is_some(), failed);
                prop_assert_eq!(outputs.is_open(u64::MAX), written < batches.len() && !failed);
            }
        }
    }
}
