//! Reports about jobs, lanes and the event loop.

mod loop_status;
mod snapshot;
pub(crate) mod stall_events;
mod status;

pub use loop_status::{BlockingJob, EventLoopStatus};
pub use snapshot::DispatcherSnapshot;
pub use status::{FailureReport, LaneReport, RunningJob, WaitReport};

use super::Dispatcher;
use super::job::JobCounts;
use super::virtual_time::wall_seconds;

impl Dispatcher {
    /// Returns the jobs in flight.
    pub fn running(&self) -> Vec<RunningJob> {
        let now = self.now();
        let running = self.lock().dispatch.in_flight_jobs();
        running.into_iter().map(|job| RunningJob::new(job, now)).collect()
    }

    /// Returns the job counters since the dispatcher was created.
    pub fn counts(&self) -> JobCounts {
        let now = self.now();
        JobCounts::from_stats(self.lock().dispatch.route_stats(now))
    }

    /// Returns the status of each lane.
    pub fn lanes(&self) -> Vec<LaneReport> {
        let now = self.now();
        let mut state = self.lock();
        state.dispatch.route_stats(now); // marks up to now count as progress
        let statuses = state.dispatch.lane_statuses(None);
        drop(state);
        let wall = wall_seconds();
        statuses.into_iter().map(|lane| LaneReport::new(lane, now, wall)).collect()
    }

    /// Returns the bytes of batches that users kept after their jobs.
    pub fn pinned_bytes(&self) -> usize {
        self.inner.columns.pinned_bytes()
    }
}
