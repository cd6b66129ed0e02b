//! The jobs in flight, and when one of them becomes worth telling about.

use super::ClientId;
use super::job::{JobKind, Running};
use super::lane::LaneId;
use super::stall::Stall;
use crate::time::{Nanos, earlier};

/// Running jobs by number; numbers are used again.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    jobs: Vec<Option<Running>>,
    free: Vec<usize>,
}

impl Jobs {
    pub(super) fn add(&mut self, running: Running) -> usize {
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

    pub(super) fn remove(&mut self, number: usize) -> Option<Running> {
        let running = self.jobs.get_mut(number)?.take()?;
        self.free.push(number);
        Some(running)
    }

    /// Its rows are ready: its time runs from now on.
    pub(super) fn begin(&mut self, number: usize, now: Nanos) {
        if let Some(Some(running)) = self.jobs.get_mut(number) {
            running.since = now;
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Running> {
        self.jobs.iter().flatten()
    }

    pub(super) fn of(&self, lane: LaneId) -> impl Iterator<Item = &Running> {
        self.all().filter(move |running| running.unit.lane == lane)
    }

    /// Jobs of this client that have passed a limit, each told once per limit; and when the next one may.
    pub(super) fn stalls(&mut self, now: Nanos, client: ClientId) -> (Vec<Stall>, Option<Nanos>) {
        let (mut stalls, mut next) = (Vec::new(), None);
        let theirs = |running: &&mut Running| running.client == client && running.kind != JobKind::Decode;
        for running in self.jobs.iter_mut().flatten().filter(theirs) {
            let policy = &running.policy;
            let stalled = due(running.since, policy.stall_after, running.told.0);
            let overdue = due(running.since, policy.handler_timeout, running.told.1);
            let passed = (stalled.is_some_and(|at| at <= now), overdue.is_some_and(|at| at <= now));
            next = earlier(next, earlier(stalled.filter(|_| !passed.0), overdue.filter(|_| !passed.1)));
            running.told = (running.told.0 | passed.0, running.told.1 | passed.1);
            for overdue in [passed.0.then_some(false), passed.1.then_some(true)].into_iter().flatten() {
                stalls.push(Stall {
                    unit: running.unit,
                    tp: running.tp.clone(),
                    policy: running.policy.clone(),
                    kind: running.kind,
                    worker: running.worker.clone(),
                    running_for: now.saturating_sub(running.since),
                    offsets: running.shared.offsets(),
                    overdue,
                });
            }
        }
        (stalls, next)
    }
}

/// When a job passes a limit that it has not been told about.
fn due(since: Nanos, limit: Option<Nanos>, told: bool) -> Option<Nanos> {
    limit.filter(|_| !told).map(|limit| since.saturating_add(limit))
}
