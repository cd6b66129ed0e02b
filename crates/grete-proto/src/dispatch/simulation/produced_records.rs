//! Records produced by handlers, and the jobs and marks that wait for them, as a naive model.

use std::sync::Arc;

use super::checks::lane_oracle::Stage;
use super::handler::{Pace, Style};
use super::process::{Job, Process};
use super::scenario::chance;
use super::simulator::{SimEvent, Simulator};
use crate::dispatch::{Failure, FailureKind, FinishResult, JobKind, JobOutcome, JobState, LaneId, Lease, OffsetPolicy};
use crate::producer::BatchPromise;
use crate::producer::test_util::{batch_promise, complete_part};
use crate::time::{MILLI, Nanos, SECOND};

/// Number of topics to produce to.
const TARGETS: u64 = 3;

/// Batch of produced records for one partition.
#[derive(Debug)]
pub struct ProducedBatch {
    pub receipt: Arc<BatchPromise>,
    target: u64,
    /// Whether each record was written; `None`: not yet known.
    written: Vec<Option<bool>>,
    /// The batch accepts no more records.
    closed: bool,
    /// The dispatcher waits for the batch's settlement.
    watched: bool,
}

/// Outputs of one job, and the rows that wait for them.
#[derive(Debug)]
pub struct ProducedRecords {
    pub shared: Arc<JobState>,
    lane: LaneId,
    partition: usize,
    /// Outputs: batch, index in the batch, and source row.
    made: Vec<(usize, usize, i64)>,
    /// Rows that are done once this many outputs are written.
    held: Vec<(usize, HeldMarks)>,
    /// Index of the first failed output.
    failed: Option<usize>,
}

#[derive(Debug)]
enum HeldMarks {
    Marked(Vec<i64>),
    /// The function has completed the last of these rows.
    Progress(Vec<i64>),
}

/// Delivery status of a job's outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryStatus {
    /// All outputs so far are written, or there are none.
    Clear,
    Open,
    Failed,
}

/// Job whose handler has returned.
#[derive(Debug)]
pub struct SuspendedJob {
    pub job: SuspendedJobInfo,
    /// Failure that the handler raised.
    raised: Option<Failure>,
    /// Start of the wait.
    since: Nanos,
    stalled: u32,
    pub void: bool,
}

/// Data of a job without its lease.
#[derive(Debug)]
pub struct SuspendedJobInfo {
    pub lane: LaneId,
    pub slot: u32,
    kind: JobKind,
    rows: Vec<i64>,
    shared: Arc<JobState>,
    policy: Arc<crate::dispatch::RouteConfig>,
}

impl Process {
    fn outputs_of(&mut self, shared: &Arc<JobState>) -> Option<&mut ProducedRecords> {
        self.outputs.iter_mut().find(|outputs| Arc::ptr_eq(&outputs.shared, shared))
    }

    pub fn delivery_status(&mut self, shared: &Arc<JobState>) -> DeliveryStatus {
        let Some(index) = self.outputs.iter().position(|outputs| Arc::ptr_eq(&outputs.shared, shared)) else {
            return DeliveryStatus::Clear;
        };
        self.outputs[index].delivery_status(&self.batches)
    }

    /// Returns whether a suspended job keeps the lane waiting.
    pub fn waits(&self, lane: LaneId) -> bool {
        self.waiting.values().any(|waiting| waiting.job.lane == lane)
    }

    /// Holds marks until the outputs before them are written.
    pub fn hold_marks(&mut self, shared: &Arc<JobState>, rows: Vec<i64>) {
        let outputs = self.outputs_of(shared).expect("a job that has produced");
        outputs.held.push((outputs.made.len(), HeldMarks::Marked(rows)));
    }

    pub fn hold_progress(&mut self, shared: &Arc<JobState>, rows: Vec<i64>) {
        let outputs = self.outputs_of(shared).expect("a job that has produced");
        outputs.held.push((outputs.made.len(), HeldMarks::Progress(rows)));
    }

    /// Drops held progress at the job's end: its rows are not its own any more, and only marks still wait.
    pub fn drop_progress(&mut self, shared: &Arc<JobState>) {
        if let Some(outputs) = self.outputs_of(shared) {
            outputs.held.retain(|(_, held)| matches!(held, HeldMarks::Marked(_)));
        }
    }

    /// Handles the dispatcher's delivery actions.
    pub fn take_outgoing(&mut self, now: Nanos) {
        loop {
            let outgoing = self.dispatch.take_delivery_actions();
            if outgoing.is_empty() {
                return;
            }
            for receipt in outgoing.watch {
                let batch = self.batches.iter_mut().find(|batch| Arc::ptr_eq(&batch.receipt, &receipt));
                let batch = batch.expect("a known batch");
                if receipt.is_complete() {
                    self.dispatch.on_batch_settled(now, &receipt);
                } else {
                    batch.watched = true;
                }
            }
        }
    }
}

impl ProducedRecords {
    fn delivery_status(&self, batches: &[ProducedBatch]) -> DeliveryStatus {
        if self.failed.is_some() {
            return DeliveryStatus::Failed;
        }
        for (batch, index, _) in &self.made {
            match batches[*batch].written[*index] {
                Some(true) => {}
                Some(false) => return DeliveryStatus::Failed,
                None => return DeliveryStatus::Open,
            }
        }
        DeliveryStatus::Clear
    }

    /// Returns the rows that are done by now, and which of them a function has completed.
    fn release(&mut self, batches: &[ProducedBatch]) -> Vec<HeldMarks> {
        let ends = self.made.iter().position(|(batch, index, _)| batches[*batch].written[*index] != Some(true));
        let written = ends.unwrap_or(self.made.len());
        let state = ends.and_then(|end| batches[self.made[end].0].written[self.made[end].1]);
        self.failed = self.failed.or(ends.filter(|_| state == Some(false)));
        let limit = self.failed.map_or(written, |failed| failed.min(written));
        let (now, later): (Vec<_>, Vec<_>) = self.held.drain(..).partition(|(before, _)| *before <= limit);
        if self.failed.is_none() {
            self.held = later;
        }
        now.into_iter().map(|(_, held)| held).collect()
    }

    /// Returns the row whose output was not written.
    fn culprit(&self) -> Option<i64> {
        self.failed.map(|failed| self.made[failed].2)
    }
}

impl Simulator {
    /// Produces a record while the handler processes `row`.
    pub fn produce(&mut self, process: usize, id: u64, row: i64) {
        let target = self.rng.below(TARGETS);
        let now = self.now;
        let style = {
            let job = &self.processes[process].jobs[&id];
            let partition = self.processes[process].lanes[&job.lease.lane].partition;
            self.scenario.routes[self.partitions[partition].route].style
        };
        let process_ = &mut self.processes[process];
        let job = &process_.jobs[&id];
        let (shared, lane) = (Arc::clone(&job.lease.shared), job.lease.lane);
        if job.lease.policy.offsets == OffsetPolicy::AtMostOnce || process_.closed {
            return;
        }
        let partition = process_.lanes[&lane].partition;
        let open = process_.batches.iter().position(|batch| batch.target == target && !batch.closed);
        let index = open.unwrap_or_else(|| {
            let receipt = batch_promise("out", target as i32);
            process_.batches.push(ProducedBatch {
                receipt,
                target,
                written: Vec::new(),
                closed: false,
                watched: false,
            });
            process_.batches.len() - 1
        });
        let batch = &mut process_.batches[index];
        let place = batch.written.len();
        batch.written.push(None);
        batch.closed = batch.written.len() >= 20;
        let knows = style != Style::Columns && style != Style::ColumnsMarks;
        shared.on_produced(&batch.receipt, place as u32, 1, knows.then_some(row));
        if process_.outputs_of(&shared).is_none() {
            let shared = Arc::clone(&shared);
            process_.outputs.push(ProducedRecords {
                shared,
                lane,
                partition,
                made: Vec::new(),
                held: Vec::new(),
                failed: None,
            });
        }
        process_.outputs_of(&shared).expect("just made").made.push((index, place, row));
        if open.is_none() {
            let wait = match (self.pace, self.rng.below(40)) {
                (Pace::Rough, 0) => self.rng.below(30) * SECOND,
                (Pace::Rough, 1..=9) => self.rng.below(3000) * MILLI,
                _ => self.rng.below(50) * MILLI,
            };
            self.post(now + wait, SimEvent::Settle { process, batch: index });
        }
    }

    /// Settles a batch, or a part of it.
    pub fn settle(&mut self, process: usize, index: usize) {
        let rough = self.pace == Pace::Rough;
        let process_ = &mut self.processes[process];
        if !process_.alive || process_.closed {
            return; // no thread is notified any more
        }
        let batch = &mut process_.batches[index];
        batch.closed = true;
        let first = batch.written.iter().position(Option::is_none).expect("something is open");
        let left = batch.written.len() - first;
        let part =
            if left > 1 && chance(&mut self.rng, 20) { 1 + self.rng.below(left as u64 - 1) as usize } else { left };
        let written = !(rough && chance(&mut self.rng, 6));
        batch.written[first..first + part].fill(Some(written));
        complete_part(&batch.receipt, first as u32, part as u32, written, part == left);
        if part < left {
            let wait = self.rng.below(200) * MILLI;
            self.post(self.now + wait, SimEvent::Settle { process, batch: index });
        }
        self.trace(|| format!("process {process} batch {index}: {part} of {left} records, written: {written}"));
        self.release(process);
        let now = self.now;
        let process_ = &mut self.processes[process];
        let batch = &mut process_.batches[index];
        if std::mem::take(&mut batch.watched) {
            let receipt = Arc::clone(&batch.receipt);
            process_.dispatch.on_batch_settled(now, &receipt);
            process_.take_outgoing(now);
        }
        self.poll_network(process);
        self.pump(process);
    }

    /// Marks rows whose outputs are all written, and completes jobs that waited for nothing else.
    fn release(&mut self, process: usize) {
        let Self { processes, partitions, .. } = self;
        let Process { outputs, batches, lanes, .. } = &mut processes[process];
        for outputs in outputs {
            let was = outputs.failed;
            let released = outputs.release(batches);
            let fates = &mut partitions[outputs.partition].outcomes;
            if was.is_none() && outputs.failed.is_some() {
                // The failed output belongs to this row, whichever record the failure names.
                for (batch, place, row) in &outputs.made {
                    let fate = fates.get_mut(row).expect("a known record");
                    fate.undelivered |= batches[*batch].written[*place] == Some(false);
                }
            }
            let seat = lanes.get_mut(&outputs.lane).expect("a known lane");
            // Marks of a lane that has left do not count, whether the lane knows it or not.
            if outputs.shared.is_fenced() || seat.oracle.void || seat.oracle.stage == Stage::Gone {
                continue;
            }
            for held in released {
                let passed = match &held {
                    HeldMarks::Marked(rows) => &rows[..],
                    HeldMarks::Progress(rows) => &rows[rows.len() - 1..],
                };
                passed.iter().for_each(|row| fates.get_mut(row).expect("a known record").completed += 1);
                let (HeldMarks::Marked(rows) | HeldMarks::Progress(rows)) = held;
                seat.oracle.mark(rows);
            }
        }
        // Jobs that waited for nothing else are done.
        let done = self.processes[process].waiting.iter().filter(|(_, waiting)| waiting.raised.is_none());
        let done: Vec<(u64, Arc<JobState>)> = done.map(|(id, job)| (*id, Arc::clone(&job.job.shared))).collect();
        for (id, shared) in done {
            if self.processes[process].delivery_status(&shared) == DeliveryStatus::Clear {
                let waiting = self.processes[process].waiting.remove(&id).expect("it waits");
                self.complete_suspended(process, waiting.job, &JobOutcome::Done, waiting.void);
            }
        }
    }

    /// Ends the handler's call. Suspends the job if it must wait for its outputs.
    pub fn finish_handler(&mut self, process: usize, id: u64, job: Job, finished: JobOutcome) {
        let now = self.now;
        let process_ = &mut self.processes[process];
        let standing = process_.delivery_status(&job.lease.shared);
        let waits = match &finished {
            JobOutcome::Done => standing != DeliveryStatus::Clear,
            JobOutcome::Failed(failure) => standing == DeliveryStatus::Open && failure.kind != FailureKind::Fatal,
            _ => false,
        };
        if !waits || job.lease.shared.is_fenced() {
            return self.complete_job(process, job, finished);
        }
        self.check_stall_reports(process, &job);
        let process_ = &mut self.processes[process];
        let Job { lease, rows, void, .. } = job;
        assert!(!void, "{} waits for what does not count", lease.tp);
        let rest = SuspendedJobInfo {
            lane: lease.lane,
            slot: lease.slot,
            kind: lease.kind,
            rows,
            shared: Arc::clone(&lease.shared),
            policy: Arc::clone(&lease.policy),
        };
        let raised = match finished {
            JobOutcome::Failed(failure) => {
                assert!(process_.dispatch.suspend_raised(now, id, lease).is_ok(), "it has nothing to wait for");
                Some(failure)
            }
            finished => {
                let ended = process_.dispatch.finish(now, id, lease, finished);
                assert!(matches!(ended, FinishResult::Suspended), "{ended:?}");
                None
            }
        };
        let lane = rest.lane;
        process_.waiting.insert(id, SuspendedJob { job: rest, raised, since: now, stalled: 0, void: false });
        self.trace(|| format!("process {process} job {id} of {lane:?} waits for its outputs"));
        let process_ = &mut self.processes[process];
        process_.take_outgoing(now);
        self.poll_network(process);
    }

    /// Handles a suspended job that has failed and goes back to a worker.
    pub fn take_failed_job(&mut self, process: usize, id: u64, lease: Lease) {
        let (now, at_ms) = (self.now, self.wall_ms());
        let process_ = &mut self.processes[process];
        let waiting = process_.waiting.remove(&id).expect("a job that waits");
        assert!(lease.returned);
        let standing = process_.delivery_status(&lease.shared);
        let undelivered = lease.shared.undelivered();
        let failure = match (standing, undelivered) {
            (DeliveryStatus::Failed, Some(undelivered)) if !waiting.void => {
                let culprit = process_.outputs_of(&lease.shared).and_then(|outputs| outputs.culprit());
                assert!(undelivered.source.is_none_or(|source| Some(source) == culprit), "{undelivered:?}");
                let message = "out[0]: it was not written".to_owned();
                let class = "DeliveryError".to_owned();
                Failure { kind: FailureKind::Retriable, failed_offset: undelivered.source, class, message, at_ms }
            }
            (standing, undelivered) => {
                let raised = waiting.raised.clone();
                let void = waiting.void;
                raised.unwrap_or_else(|| {
                    assert!(void, "{} comes back: {standing:?} {undelivered:?}", lease.tp);
                    Failure::new(FailureKind::Retriable, "DeliveryError", "")
                })
            }
        };
        let job = Job {
            lease,
            rows: waiting.job.rows,
            run: None,
            prepared: None,
            void: waiting.void,
            since: now,
            began: now,
            reported_stalls: 0,
        };
        self.complete_job(process, job, JobOutcome::Failed(failure));
    }

    /// Ends the lane's suspended jobs, because the lane is fenced. Called before the dispatcher fences the lane.
    pub fn fence_suspended(&mut self, process: usize, lane: LaneId) {
        let ids = self.processes[process].waiting.iter().filter(|(_, waiting)| waiting.job.lane == lane);
        let ids: Vec<u64> = ids.map(|(id, _)| *id).collect();
        for id in ids {
            let process_ = &mut self.processes[process];
            let shared = Arc::clone(&process_.waiting[&id].job.shared);
            let open = process_.delivery_status(&shared) == DeliveryStatus::Open;
            let waiting = process_.waiting.get_mut(&id).expect("it waits");
            waiting.void = true;
            if open && waiting.raised.is_none() {
                let waiting = process_.waiting.remove(&id).expect("it waits");
                self.complete_suspended(process, waiting.job, &JobOutcome::Done, true);
            }
        }
    }

    /// Closes the producer of a stopping process before all records are written.
    pub fn close_producer(&mut self, process: usize) {
        let now = self.now;
        let process_ = &mut self.processes[process];
        process_.closed = true;
        let waiting = std::mem::take(&mut process_.waiting);
        for waiting in waiting.into_values() {
            let failure = Failure::new(FailureKind::RetryLater(0), "", "");
            self.complete_suspended(process, waiting.job, &JobOutcome::Failed(failure), waiting.void);
        }
        let process_ = &mut self.processes[process];
        process_.dispatch.on_producer_closed(now);
        assert!(process_.dispatch.take_delivery_actions().is_empty(), "there will be no news");
        self.poll_network(process);
    }

    /// Completes a suspended job without a worker.
    fn complete_suspended(&mut self, process: usize, job: SuspendedJobInfo, finished: &JobOutcome, void: bool) {
        let now = self.now;
        let process_ = &mut self.processes[process];
        let returned = matches!(finished, JobOutcome::Done) && !job.shared.has_yielded() && !void;
        process_.queue.ended(now, job.lane);
        process_.expected_stats.ends(&job.policy, job.kind, &job.shared, finished);
        process_.drop_progress(&job.shared);
        let seat = process_.lanes.get_mut(&job.lane).expect("a known lane");
        let (partition, policy) = (seat.partition, Arc::clone(&seat.policy));
        if job.kind != JobKind::Consume {
            return seat.oracle.end_hook();
        }
        seat.oracle.end(job.slot, returned, &policy);
        self.on_handler_returned(process, partition, job.lane, &job.shared, &job.rows, returned);
    }

    pub fn check_suspended_stall(&mut self, process: usize, stall: &crate::dispatch::StalledJob) {
        let now = self.now;
        let process_ = &mut self.processes[process];
        let mut waiting = process_.waiting.values_mut();
        let waiting =
            waiting.find(|waiting| waiting.job.lane == stall.unit.lane && waiting.job.slot == stall.unit.slot);
        let waiting = waiting.unwrap_or_else(|| panic!("{stall:?} of no job"));
        let limit = stall.policy.stall_after;
        assert!(limit.is_some_and(|limit| now >= waiting.since + limit), "{stall:?} since {}", waiting.since);
        assert!(!stall.overdue, "{stall:?}: its handler has returned");
        waiting.stalled += 1;
        assert_eq!(waiting.stalled, 1, "{stall:?} again");
        process_.expected_stats.on_stalled(stall);
    }
}
