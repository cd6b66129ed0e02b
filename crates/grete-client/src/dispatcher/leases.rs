//! Leases of workers: a worker takes a job, and completes it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use grete_proto::dispatch::{Decision, Failure, Lease, Pool};
use grete_proto::time::Nanos;
use grete_sys::WakeReason;

use super::job::{Job, JobToken, NextJob, Outcome};
use super::state::{LeasedJob, State};
use super::worker_context::WorkerContext;
use super::{Dispatcher, WaitMode};
use crate::error::ClientError;

impl Dispatcher {
    /// Completes `done`, then waits for the next job. A `timeout` of `None` waits without a limit.
    ///
    /// # Errors
    /// [`ClientError::Forked`] in a forked child of the process that created the dispatcher.
    pub fn next(
        &self,
        worker: &mut WorkerContext,
        done: Option<&JobToken>,
        timeout: Option<Duration>,
    ) -> Result<NextJob, ClientError> {
        self.check_fork()?;
        let mut now = self.now();
        let deadline = timeout.map(|t| now.saturating_add(u64::try_from(t.as_nanos()).unwrap_or(Nanos::MAX)));
        let mut state = self.lock();
        if let Some(token) = done {
            self.finish(&mut state, now, token, Outcome::Done);
            state = self.flush_outputs(state, now);
        }
        state.dispatch.set_wall_clock_offset(self.wall_clock_offset_ms(now));
        loop {
            let ended = self.inner.released.load(Ordering::Relaxed)
                || state.workers.is_some_and(|workers| worker.number > workers);
            if ended {
                return Ok(self.return_without_job(state, NextJob::Stopped));
            }
            if let Some((id, lease)) = state.dispatch.take_failed_job(worker.pool) {
                return Ok(NextJob::Job(lease_job(&mut state, id, lease)));
            }
            if let Some(mut lease) = state.dispatch.take(now, &worker.name, worker.pool) {
                // Other ready lanes are for other waiters.
                self.unlock_and_wake(state);
                let prepared = lease.prepare(&mut worker.decoder, &self.inner.columns, worker.max_messages);
                state = self.lock();
                now = self.now();
                state.dispatch.on_prepared(now, &lease, &prepared);
                match prepared.outcome {
                    None => return Ok(NextJob::Job(lease_new_job(&mut state, lease))),
                    Some(finished) => {
                        let (client, _) = state.dispatch.complete(now, lease, finished);
                        state.wake_client(client);
                        continue;
                    }
                }
            }
            if state.dispatch.is_stopped() {
                drop(state);
                self.wake_all();
                return Ok(NextJob::Stopped);
            }
            let interruptible = self.inner.wait == WaitMode::Interruptible;
            // A low-level consumer's `poll` reports a failure; the workers of an App are stopped by the App.
            let failed = interruptible && self.fatal().is_some();
            if failed || deadline.is_some_and(|deadline| deadline <= now) {
                return Ok(self.return_without_job(state, NextJob::TimedOut));
            }
            let reason;
            (state, reason) = if interruptible {
                self.wait_interruptibly(state, now, deadline)
            } else {
                self.park(state, worker, now, deadline)
            };
            now = self.now();
            if reason == WakeReason::Interrupted {
                return Ok(self.return_without_job(state, NextJob::Interrupted));
            }
        }
    }

    /// Completes a job without taking another one. Returns the decision about a failure; `None`: no failure.
    ///
    /// # Errors
    /// [`ClientError::Forked`] in a forked child of the process that created the dispatcher.
    pub fn complete(&self, token: &JobToken, outcome: Outcome) -> Result<Option<Decision>, ClientError> {
        self.check_fork()?;
        let mut state = self.lock();
        let failed = matches!(outcome, Outcome::Failed(_));
        let now = self.now();
        let decision = self.finish(&mut state, now, token, outcome);
        let state = self.flush_outputs(state, now);
        let stopped = state.dispatch.is_stopped();
        self.unlock_and_wake(state);
        if stopped {
            self.wake_all();
        }
        Ok(decision.or(failed.then_some(Decision::Fenced)))
    }

    /// Completes a failed job and returns the decision about its records.
    ///
    /// # Errors
    /// [`ClientError::Forked`] in a forked child of the process that created the dispatcher.
    pub fn fail_job(&self, token: &JobToken, failure: Failure) -> Result<Decision, ClientError> {
        // The token of a job that has already ended names no job, so a late result does not count.
        Ok(self.complete(token, Outcome::Failed(failure))?.unwrap_or(Decision::Fenced))
    }

    /// Ends a job. The token of a job that has already ended names no job.
    fn finish(&self, state: &mut State, now: Nanos, token: &JobToken, outcome: Outcome) -> Option<Decision> {
        let LeasedJob { lease, ended: over } = state.leases.remove(&token.id)?;
        over.store(true, Ordering::Release);
        let decision = state.complete(now, token.id, lease, outcome);
        // A failed job has freed what it had staged.
        if let Some(word) = token.staging_budget().and_then(|budget| budget.take_waiters()) {
            grete_sys::futex::futex_wake_all(word);
        }
        if token.pool == Pool::EventLoop
            && let Some(looping) = self.async_queue()
        {
            self.report_unblocked(looping.job_ended(now, token.id));
        }
        decision
    }

    /// Returns from [`Dispatcher::next`] without a job. If this thread was woken for a job, another thread is woken for
    /// it.
    fn return_without_job(&self, state: MutexGuard<'_, State>, next: NextJob) -> NextJob {
        self.unlock_and_wake(state);
        next
    }
}

fn lease_new_job(state: &mut State, lease: Lease) -> Job {
    state.last_job += 1;
    let id = state.last_job;
    lease_job(state, id, lease)
}

fn lease_job(state: &mut State, id: u64, lease: Lease) -> Job {
    let ended = Arc::default();
    let job = Job::new(id, &lease, Arc::clone(&ended));
    state.leases.insert(id, LeasedJob { lease, ended });
    job
}
