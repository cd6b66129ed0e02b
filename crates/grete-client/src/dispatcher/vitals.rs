//! Everything about jobs and lanes that tells how a process does, as of one moment.

use super::{Counts, Dispatcher, LaneReport, RunningJob};

/// One look at a dispatcher.
#[derive(Debug, Clone)]
pub struct Vitals {
    /// How each lane does.
    pub lanes: Vec<LaneReport>,
    /// Jobs under way.
    pub running: Vec<RunningJob>,
    /// What happened so far.
    pub counts: Counts,
    /// How many workers there are to be; `None`: nobody has said so yet.
    pub workers: Option<u32>,
    /// No more records are handed out.
    pub quiet: bool,
    /// A stop is under way.
    pub stopping: bool,
}

impl Dispatcher {
    /// One look, under one lock.
    #[must_use]
    pub fn vitals(&self) -> Vitals {
        let now = self.shared.clock.now();
        let state = self.lock();
        let (lanes, running) = (state.dispatch.statuses(None), state.dispatch.running());
        let (quiet, stopping) = (state.dispatch.is_quiet(), state.dispatch.is_stopping());
        let (counts, workers) = (state.counts, state.workers);
        drop(state);
        Vitals {
            lanes: lanes.into_iter().map(|lane| LaneReport::new(lane, now)).collect(),
            running: running.into_iter().map(|job| RunningJob::new(job, now)).collect(),
            counts,
            workers,
            quiet,
            stopping,
        }
    }
}
