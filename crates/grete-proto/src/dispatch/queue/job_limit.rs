//! Limit of the jobs that a route runs at once.

use std::collections::VecDeque;

use super::ready_queue::QueueEntry;
use crate::dispatch::route_config::Pool;

/// Number of running jobs of a route, and the queue entries that wait until fewer run.
///
/// An entry that is released has a place until a worker takes it. It may then have nothing left to run, and its place
/// goes to the next entry. Otherwise a worker would sleep although an entry waits and a place is free.
#[derive(Debug)]
pub(in crate::dispatch) struct JobLimit {
    /// Number of the route.
    route: u32,
    /// Most jobs at once; `None`: no limit.
    most: Option<u32>,
    running: u32,
    /// Released entries in the ready queue.
    released: u32,
    /// Entries that wait, in the order in which workers have met them.
    held: VecDeque<(Pool, QueueEntry)>,
}

impl JobLimit {
    pub(in crate::dispatch) fn new(route: u32, most: Option<u32>) -> Self {
        Self { route, most: most.map(|most| most.max(1)), running: 0, released: 0, held: VecDeque::new() }
    }

    /// Returns whether no further job may start.
    pub(in crate::dispatch) fn is_reached(&self) -> bool {
        self.most.is_some_and(|most| self.running + self.released >= most)
    }

    /// Makes an entry wait until [`JobLimit::release`] returns it.
    pub(in crate::dispatch) fn hold(&mut self, pool: Pool, entry: QueueEntry) {
        self.held.push_back((pool, entry));
    }

    pub(in crate::dispatch) fn on_job_started(&mut self) {
        self.running += 1;
    }

    pub(in crate::dispatch) fn on_job_ended(&mut self) {
        self.running = self.running.saturating_sub(1);
    }

    /// Records that a worker has taken a released entry out of the ready queue.
    pub(in crate::dispatch) fn on_released_taken(&mut self) {
        self.released = self.released.saturating_sub(1);
    }

    /// Returns the entries that wait.
    pub(in crate::dispatch) fn held(&self) -> impl Iterator<Item = &QueueEntry> {
        self.held.iter().map(|(_, entry)| entry)
    }

    /// Returns the entry that has waited longest, if one more job may start.
    pub(in crate::dispatch) fn release(&mut self) -> Option<(Pool, QueueEntry)> {
        if self.is_reached() {
            return None;
        }
        let (pool, mut entry) = self.held.pop_front()?;
        self.released += 1;
        entry.released_by = Some(self.route);
        Some((pool, entry))
    }
}
