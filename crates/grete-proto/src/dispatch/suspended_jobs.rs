//! Jobs whose handler has returned while records that it produced are not yet acknowledged.
//!
//! Such a job is suspended. Its lease waits here, and its unit stays busy, so order holds and a leaving lane waits for
//! the job. No worker waits with the job. The job ends when the last of its outputs is settled. If all outputs are
//! written, the job is done, without a worker. Otherwise the job goes back to a worker, which learns from
//! [`Lease::returned`] that the job has failed, and why. A job whose handler raised is suspended in the same way, so
//! that records which it had finished before count first.
//!
//! Marks wait for outputs, too: marks of running jobs and of ended jobs. Marks of running jobs are checked whenever
//! offsets are collected. All held marks are checked when the batch that they wait for is settled.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::Dispatch;
use super::ids::{ClientId, LaneId};
use super::job::JobOutcome;
use super::job::state::JobState;
use super::lane::LaneFailure;
use super::lease::Lease;
use super::outbox::{LaneEvent, LaneEventKind, TrialRequest};
use super::retry::failure::{Decision, Failure, FailureKind};
use super::route_config::Pool;
use crate::producer::{BatchPromise, StagedOutputs};
use crate::time::Nanos;

/// Failure reason of a lane whose marks were dropped.
pub(super) const UNDELIVERED: &str = "undelivered";

/// Result of the end of a handler's call.
#[derive(Debug)]
pub enum FinishResult {
    /// The job has ended: the lane's client, and the decision after a failure.
    Completed(ClientId, Option<Decision>),
    /// The job waits for the records that it has produced.
    Suspended,
}

/// Batches of outputs on which the caller must act.
#[derive(Debug, Default)]
pub struct DeliveryActions {
    /// Batches whose settlement the caller must report to [`Dispatch::on_batch_settled`].
    pub watch: Vec<Arc<BatchPromise>>,
    /// Batches to send without linger, because jobs wait for them.
    pub flush: Vec<Arc<BatchPromise>>,
}

impl DeliveryActions {
    /// Returns whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.watch.is_empty() && self.flush.is_empty()
    }
}

#[derive(Debug, Default)]
pub(super) struct SuspendedJobs {
    jobs: HashMap<u64, SuspendedJob>,
    /// Jobs and marks that wait for a batch, by the address of its promise. The address is unique while the promise is
    /// in this map.
    waiting: HashMap<usize, BatchWaiters>,
    /// Failed jobs to hand back to a worker, by pool.
    failed_jobs: [VecDeque<u64>; Pool::ALL.len()],
    outgoing: DeliveryActions,
}

#[derive(Debug)]
struct SuspendedJob {
    lease: Lease,
    /// Number of the job's outputs. Outputs that a thread left behind by the job produces later are not waited for.
    outputs: u64,
    raised: bool,
    /// The job waits for a trial of its staged records, and for no batch.
    is_trial: bool,
}

#[derive(Debug)]
struct BatchWaiters {
    receipt: Arc<BatchPromise>,
    jobs: Vec<u64>,
    marks: Vec<(LaneId, Arc<JobState>)>,
}

impl SuspendedJobs {
    pub(super) fn has_failed_jobs(&self, pool: Pool) -> bool {
        self.failed_jobs.get(pool.index()).is_some_and(|back| !back.is_empty())
    }

    fn waiters_of(&mut self, receipt: &Arc<BatchPromise>) -> &mut BatchWaiters {
        let key = Arc::as_ptr(receipt) as usize;
        let outgoing = &mut self.outgoing.watch;
        self.waiting.entry(key).or_insert_with(|| {
            outgoing.push(Arc::clone(receipt));
            BatchWaiters { receipt: Arc::clone(receipt), jobs: Vec::new(), marks: Vec::new() }
        })
    }
}

impl Dispatch {
    /// Ends the handler's call. `job` is the caller's number for the job, never used twice.
    pub fn finish(&mut self, now: Nanos, job: u64, lease: Lease, finished: JobOutcome) -> FinishResult {
        if matches!(finished, JobOutcome::Done)
            && !lease.returned
            && let Some(outputs) = self.trial_of(&lease)
        {
            self.suspend_for_trial(now, job, lease, outputs);
            return FinishResult::Suspended;
        }
        // The lease is large and nearly every job completes here, so it is moved once its way is known.
        if matches!(finished, JobOutcome::Done) && !lease.returned && awaits_outputs(&lease, false) {
            self.suspend(now, job, lease, false);
            return FinishResult::Suspended;
        }
        let (client, decision) = self.complete(now, lease, finished);
        FinishResult::Completed(client, decision)
    }

    /// Suspends a job whose handler raised, until the records that it produced before are settled. The job is then
    /// handed back.
    ///
    /// # Errors
    /// The lease, if there is nothing to wait for.
    #[expect(clippy::result_large_err, reason = "the lease goes back to where it came from")]
    pub fn suspend_raised(&mut self, now: Nanos, job: u64, lease: Lease) -> Result<(), Lease> {
        if lease.returned || !awaits_outputs(&lease, true) {
            return Err(lease);
        }
        self.suspend(now, job, lease, true);
        Ok(())
    }

    fn suspend(&mut self, now: Nanos, job: u64, lease: Lease, raised: bool) {
        let Some(outputs) = lease.shared.outputs() else { return };
        let count = outputs.count();
        self.now = self.now.max(now);
        self.jobs.set_handled(lease.job, self.now);
        self.schedule_stall_check(&lease);
        self.suspended.outgoing.flush.extend(outputs.pending_batches());
        self.suspended.jobs.insert(job, SuspendedJob { lease, outputs: count, raised, is_trial: false });
        self.poll_suspended(job, false);
    }

    /// Returns the staged records of a job that ends after a trial; `None`: it ends at once.
    fn trial_of(&mut self, lease: &Lease) -> Option<StagedOutputs> {
        let staging = lease.shared.staging().filter(|_| !lease.shared.is_fenced() && !lease.shared.has_yielded())?;
        let (first, _) = lease.shared.offsets()?;
        let needs_trial = self.outputs_of(lease.client)?.needs_trial(lease.lane, first);
        needs_trial.then(|| staging.copies()).flatten()
    }

    fn suspend_for_trial(&mut self, now: Nanos, job: u64, lease: Lease, outputs: StagedOutputs) {
        self.now = self.now.max(now);
        self.jobs.set_handled(lease.job, self.now);
        self.schedule_stall_check(&lease);
        if let Some(entry) = self.client_mut(lease.client) {
            entry.outbox.trials.push(TrialRequest { job, outputs: Arc::new(outputs) });
            entry.wake_pending = true;
        }
        self.suspended.jobs.insert(job, SuspendedJob { lease, outputs: 0, raised: false, is_trial: true });
    }

    /// Completes a job that waits for a trial.
    pub(super) fn end_suspended_trial(&mut self, job: u64, outcome: JobOutcome) {
        if let Some(waiting) = self.suspended.jobs.remove(&job) {
            self.complete(self.now, waiting.lease, outcome);
        }
    }

    /// Hands a job that waits for a trial back to a worker, as failed.
    pub(super) fn fail_suspended_trial(&mut self, job: u64, fail: impl FnOnce(&JobState)) {
        let Some(waiting) = self.suspended.jobs.get(&job) else { return };
        fail(&waiting.lease.shared);
        let pool = waiting.lease.pool();
        if let Some(back) = self.suspended.failed_jobs.get_mut(pool.index()) {
            back.push_back(job);
        }
    }

    /// Completes a suspended job, or hands it back to a worker, if its outputs are settled.
    fn poll_suspended(&mut self, job: u64, producer_closed: bool) {
        let Some(waiting) = self.suspended.jobs.get(&job) else { return };
        if waiting.is_trial {
            // A fenced job has nothing to wait for; the others wait for the end of the trial.
            let fenced = waiting.lease.shared.is_fenced();
            if fenced {
                self.end_suspended_trial(job, JobOutcome::Done);
            }
            return;
        }
        let shared = Arc::clone(&waiting.lease.shared);
        let next = shared.release_marks(producer_closed);
        let Some(outputs) = shared.outputs() else { return };
        let fenced = shared.is_fenced();
        if let Some(next) = next.filter(|_| outputs.is_open(waiting.outputs) && !fenced) {
            return self.suspended.waiters_of(&next).jobs.push(job);
        }
        let failed = waiting.raised || (outputs.undelivered(waiting.outputs).is_some() && !fenced);
        if failed {
            let pool = waiting.lease.pool();
            if let Some(back) = self.suspended.failed_jobs.get_mut(pool.index()) {
                back.push_back(job);
            }
        } else if let Some(waiting) = self.suspended.jobs.remove(&job) {
            self.complete(self.now, waiting.lease, JobOutcome::Done);
        }
    }

    /// Continues jobs and marks that wait for this batch, after some or all of its records were settled.
    ///
    /// Jobs may have ended without a worker. The caller then asks [`Dispatch::take_pending_wake`] of all clients, and
    /// [`Dispatch::take_delivery_actions`].
    pub fn on_batch_settled(&mut self, now: Nanos, receipt: &Arc<BatchPromise>) {
        self.now = self.now.max(now);
        let Some(waiting) = self.suspended.waiting.remove(&(Arc::as_ptr(receipt) as usize)) else { return };
        self.resume_waiters(waiting, false);
    }

    /// Ends all suspended jobs, after the producer has closed: outputs that are not settled by now never will be. No
    /// handler is notified.
    pub fn on_producer_closed(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        let waiting: Vec<BatchWaiters> = self.suspended.waiting.drain().map(|(_, waiting)| waiting).collect();
        waiting.into_iter().for_each(|waiting| self.resume_waiters(waiting, true));
        let trials = self.suspended.jobs.iter().filter(|(_, job)| job.is_trial).map(|(id, _)| *id);
        for job in trials.collect::<Vec<_>>() {
            let later = Failure::new(FailureKind::RetryLater(0), "", "");
            self.end_suspended_trial(job, JobOutcome::Failed(later));
        }
        for pool in Pool::ALL {
            while let Some((_, lease)) = self.take_failed_job(pool) {
                let failure = Failure::new(FailureKind::RetryLater(0), "", "");
                self.complete(self.now, lease, JobOutcome::Failed(failure));
            }
        }
    }

    fn resume_waiters(&mut self, waiting: BatchWaiters, producer_closed: bool) {
        for (lane, shared) in waiting.marks {
            if let Some(next) =
                shared.release_marks(producer_closed).filter(|_| shared.outputs().is_some_and(|o| o.has_held_marks()))
            {
                self.suspended.waiters_of(&next).marks.push((lane, Arc::clone(&shared)));
            }
            if shared.take_resumed() {
                self.enqueue_decode(lane);
            }
            self.emit_dropped_marks(lane, &shared);
        }
        waiting.jobs.into_iter().for_each(|job| self.poll_suspended(job, producer_closed));
        // The promise is held up to here: its address is a valid key only while the promise exists.
        drop(waiting.receipt);
    }

    /// Reports marks that were dropped after their job had ended. No retry brings their records again, so the lane is
    /// set to failed. (A job in flight fails itself, and its records are retried.)
    fn emit_dropped_marks(&mut self, id: LaneId, shared: &Arc<JobState>) {
        let in_flight = self.jobs.of_lane(id).any(|running| Arc::ptr_eq(&running.shared, shared));
        let dropped = shared.outputs().filter(|_| !in_flight && !shared.is_fenced()).map_or(0, |o| o.take_dropped());
        let now = self.now;
        let Some(lane) = self.lane_mut(id).filter(|_| dropped > 0) else { return };
        let first = lane.offsets.tracker().with(|tracker| tracker.first_open()).ok().flatten();
        let error = "a record that was produced before marks was not written, so these marks do not count, and nothing behind them is \
                     committed; seek to the committed offset, or restart, to process these records again";
        if lane.failure.is_none() {
            lane.failure = Some(Box::new(LaneFailure { reason: UNDELIVERED, error: error.into(), since: now }));
        }
        let (client, tp, policy) = (lane.spec.client, lane.spec.tp.clone(), Arc::clone(&lane.spec.policy));
        self.emit_lane_event(
            client,
            LaneEvent { lane: id, tp, policy, kind: LaneEventKind::MarksDropped { marks: dropped, first } },
        );
    }

    /// Registers a job whose marks wait for its outputs: its marks are checked when the next batch is settled. Then ask
    /// [`Dispatch::take_delivery_actions`].
    pub fn watch_held_marks(&mut self, lane: LaneId, shared: &Arc<JobState>) {
        let Some(next) = shared.release_marks(false) else { return };
        if !shared.outputs().is_some_and(super::offsets::job_outputs::JobOutputs::has_held_marks) {
            return;
        }
        let marks = &mut self.suspended.waiters_of(&next).marks;
        if !marks.iter().any(|(_, known)| Arc::ptr_eq(known, shared)) {
            marks.push((lane, Arc::clone(shared)));
        }
    }

    /// Takes the batches to watch and to send since the last call. If a batch is settled already, call
    /// [`Dispatch::on_batch_settled`] at once.
    pub fn take_delivery_actions(&mut self) -> DeliveryActions {
        std::mem::take(&mut self.suspended.outgoing)
    }

    /// Takes a suspended job that has failed, to hand it to a worker; `None`: there is none.
    pub fn take_failed_job(&mut self, pool: Pool) -> Option<(u64, Lease)> {
        let back = self.suspended.failed_jobs.get_mut(pool.index())?;
        while let Some(job) = back.pop_front() {
            if let Some(waiting) = self.suspended.jobs.remove(&job) {
                let mut lease = waiting.lease;
                lease.returned = true;
                return Some((job, lease));
            }
        }
        None
    }

    /// Ends the lane's suspended jobs: the lane was fenced, so these jobs have nothing to wait for.
    pub(super) fn release_suspended(&mut self, id: LaneId) {
        let jobs = self.suspended.jobs.iter().filter(|(_, job)| job.lease.lane == id);
        let mut jobs: Vec<u64> = jobs.map(|(job, _)| *job).collect();
        jobs.sort_unstable();
        for job in jobs {
            let queued = self.suspended.failed_jobs.iter().flatten().any(|back| *back == job);
            if !queued {
                self.poll_suspended(job, false);
            }
        }
    }
}

/// Releases the marks of a job whose handler has ended, and returns whether the job waits for records that it produced.
/// `raised`: the handler raised, so the job fails whatever became of records that are settled.
fn awaits_outputs(lease: &Lease, raised: bool) -> bool {
    let Some(outputs) = lease.shared.outputs().filter(|_| !lease.shared.is_fenced()) else { return false };
    let count = outputs.count();
    lease.shared.release_marks(false);
    outputs.is_open(count) || (!raised && outputs.undelivered(count).is_some())
}
