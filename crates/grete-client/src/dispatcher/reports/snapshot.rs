//! Snapshot of all jobs and lanes at one point in time.

use grete_proto::dispatch::{Pool, RouteStats};

use super::{EventLoopStatus, LaneReport, RunningJob};
use crate::dispatcher::virtual_time::wall_seconds;
use crate::dispatcher::{Dispatcher, JobCounts};

/// Snapshot of a dispatcher.
#[derive(Debug, Clone)]
pub struct DispatcherSnapshot {
    /// Status of each lane.
    pub lanes: Vec<LaneReport>,
    /// Jobs in flight.
    pub running: Vec<RunningJob>,
    /// Counters by handler.
    pub route_stats: Vec<RouteStats>,
    /// Target number of workers; `None`: not set yet.
    pub workers: Option<u32>,
    /// Status of the event loop; `None`: there is none.
    pub event_loop: Option<EventLoopStatus>,
    /// Whether a lane is ready that no worker has taken yet. A lane held back by a rate limit, a delay or a lost
    /// session is not ready.
    pub has_unclaimed_work: bool,
    /// Whether the dispatcher is quiet: no more records are handed out.
    pub quiet: bool,
    /// Whether the dispatcher is stopping.
    pub stopping: bool,
}

impl DispatcherSnapshot {
    /// Returns the counters of all handlers together.
    pub fn counts(&self) -> JobCounts {
        JobCounts::from_stats(&self.route_stats)
    }
}

impl Dispatcher {
    /// Takes a snapshot under one lock.
    pub fn snapshot(&self) -> DispatcherSnapshot {
        let now = self.now();
        let mut state = self.lock();
        let tallies = state.dispatch.route_stats(now).to_vec();
        let (lanes, running) = (state.dispatch.lane_statuses(None), state.dispatch.in_flight_jobs());
        let (quiet, stopping) = (state.dispatch.is_quiet(), state.dispatch.is_stopping());
        let workers = state.workers;
        let work_waits = Pool::ALL.into_iter().any(|pool| state.dispatch.has_ready(pool));
        drop(state);
        let wall = wall_seconds();
        DispatcherSnapshot {
            lanes: lanes.into_iter().map(|lane| LaneReport::new(lane, now, wall)).collect(),
            running: running.into_iter().map(|job| RunningJob::new(job, now)).collect(),
            route_stats: tallies,
            workers,
            event_loop: self.event_loop_status(),
            has_unclaimed_work: work_waits,
            quiet,
            stopping,
        }
    }
}
