//! Table of the jobs in flight, and detection of jobs that run longer than their limits.

use std::sync::Arc;

use super::{InFlightJob, JobKind, PassedLimits};
use crate::dispatch::ids::{ClientId, LaneId, UnitId};
use crate::dispatch::route_config::{Pool, RouteConfig};
use crate::ids::TopicPartition;
use crate::time::{Nanos, earliest};

/// Job that has passed a limit of its route; reported once per job and limit.
#[derive(Debug, Clone)]
pub struct StalledJob {
    /// Unit that runs the job.
    pub unit: UnitId,
    /// Handler instance that runs the job; see [`crate::dispatch::Lease::instance`].
    pub instance: u32,
    /// Topic and partition.
    pub tp: TopicPartition,
    /// Settings of the route.
    pub policy: Arc<RouteConfig>,
    /// Hook that the job runs.
    pub kind: JobKind,
    /// Name of the worker.
    pub worker: String,
    /// Time since the job started, or, if `awaiting`, since its handler returned.
    pub running_for: Nanos,
    /// First and last offset of the job's rows; `None`: it has no rows.
    pub offsets: Option<(i64, i64)>,
    /// The job has passed `handler_timeout`, not only `stall_after`.
    pub overdue: bool,
    /// The handler has returned, and the job waits for the records that it produced.
    pub awaiting: bool,
    /// Records that the job has produced and that are not settled.
    pub open_outputs: u64,
}

/// Jobs in flight by number; numbers are reused.
#[derive(Debug, Default)]
pub(in crate::dispatch) struct JobTable {
    jobs: Vec<Option<InFlightJob>>,
    free: Vec<usize>,
    /// Number of jobs in flight, by pool.
    by_pool: [usize; Pool::ALL.len()],
}

impl JobTable {
    pub(in crate::dispatch) fn add(&mut self, running: InFlightJob) -> usize {
        if let Some(count) = self.by_pool.get_mut(running.policy.pool.index()) {
            *count += 1;
        }
        match self.free.pop() {
            Some(number) => {
                if let Some(place) = self.jobs.get_mut(number) {
                    *place = Some(running);
                }
                number
            }
            None => {
                self.jobs.push(Some(running));
                self.jobs.len() - 1
            }
        }
    }

    pub(in crate::dispatch) fn remove(&mut self, number: usize) -> Option<InFlightJob> {
        let running = self.jobs.get_mut(number)?.take()?;
        self.free.push(number);
        if let Some(count) = self.by_pool.get_mut(running.policy.pool.index()) {
            *count -= 1;
        }
        Some(running)
    }

    /// Records that the job's rows are ready: its run time, or its wait for an event loop, starts now.
    pub(in crate::dispatch) fn set_prepared(&mut self, number: usize, now: Nanos) {
        if let Some(Some(running)) = self.jobs.get_mut(number) {
            running.since = now;
        }
    }

    /// Records that the job's handler has returned: from now on the job waits for the records that it produced.
    pub(in crate::dispatch) fn set_handled(&mut self, number: usize, now: Nanos) {
        if let Some(Some(running)) = self.jobs.get_mut(number) {
            running.handled_at = Some(now);
            running.reported = PassedLimits::default();
        }
    }

    /// Records that the event loop runs the job: its run time starts now.
    pub(in crate::dispatch) fn set_started(&mut self, number: usize, now: Nanos) {
        if let Some(Some(running)) =
            self.jobs.get_mut(number).filter(|job| job.as_ref().is_some_and(|job| !job.started))
        {
            running.since = now;
            running.started = true;
        }
    }

    /// Returns the number of jobs in flight of a pool, decode jobs included.
    pub(in crate::dispatch) fn count(&self, pool: Pool) -> usize {
        self.by_pool.get(pool.index()).copied().unwrap_or(0)
    }

    pub(in crate::dispatch) fn all(&self) -> impl Iterator<Item = &InFlightJob> {
        self.jobs.iter().flatten()
    }

    pub(in crate::dispatch) fn of_lane(&self, lane: LaneId) -> impl Iterator<Item = &InFlightJob> {
        self.all().filter(move |running| running.unit.lane == lane)
    }

    /// Returns this client's jobs that have passed a limit, each once per limit, and the time at which the next job
    /// may.
    pub(in crate::dispatch) fn take_stalled(
        &mut self,
        now: Nanos,
        client: ClientId,
    ) -> (Vec<StalledJob>, Option<Nanos>) {
        let (mut stalls, mut next) = (Vec::new(), None);
        let theirs =
            |running: &&mut InFlightJob| running.client == client && running.kind != JobKind::Decode && running.started;
        for running in self.jobs.iter_mut().flatten().filter(theirs) {
            let policy = &running.policy;
            let since = running.handled_at.unwrap_or(running.since);
            let stalled = due(since, policy.stall_after, running.reported.stall);
            // A handler that has returned is not late: the brokers are.
            let timeout = policy.handler_timeout.filter(|_| running.handled_at.is_none());
            let overdue = due(since, timeout, running.reported.timeout);
            let passed = PassedLimits {
                stall: stalled.is_some_and(|at| at <= now),
                timeout: overdue.is_some_and(|at| at <= now),
            };
            next = earliest(next, earliest(stalled.filter(|_| !passed.stall), overdue.filter(|_| !passed.timeout)));
            running.reported.stall |= passed.stall;
            running.reported.timeout |= passed.timeout;
            for overdue in [passed.stall.then_some(false), passed.timeout.then_some(true)].into_iter().flatten() {
                stalls.push(StalledJob {
                    unit: running.unit,
                    instance: running.instance,
                    tp: running.tp.clone(),
                    policy: running.policy.clone(),
                    kind: running.kind,
                    worker: running.worker.clone(),
                    running_for: now.saturating_sub(since),
                    offsets: running.shared.offsets(),
                    overdue,
                    awaiting: running.handled_at.is_some(),
                    open_outputs: running.shared.pending_outputs(),
                });
            }
        }
        (stalls, next)
    }
}

/// Returns when a job passes a limit that was not reported yet; `None`: never.
fn due(since: Nanos, limit: Option<Nanos>, reported: bool) -> Option<Nanos> {
    limit.filter(|_| !reported).map(|limit| since.saturating_add(limit))
}
