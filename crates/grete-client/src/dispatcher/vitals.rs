//! Everything about jobs and lanes that tells how a process does, as of one moment.

use grete_core::dispatch::{Pool, Tally};

use super::{Counts, Dispatcher, LaneReport, RunningJob, wall_seconds};

/// One look at a dispatcher.
#[derive(Debug, Clone)]
pub struct Vitals {
    /// How each lane does.
    pub lanes: Vec<LaneReport>,
    /// Jobs under way.
    pub running: Vec<RunningJob>,
    /// What happened so far, by handler.
    pub tallies: Vec<Tally>,
    /// How many workers there are to be; `None`: nobody has said so yet.
    pub workers: Option<u32>,
    /// Something is ready, and no worker has come for it yet. What a rate, a delay or a lost session holds back is not.
    pub work_waits: bool,
    /// No more records are handed out.
    pub quiet: bool,
    /// A stop is under way.
    pub stopping: bool,
}

impl Vitals {
    /// What happened so far, in all.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts::of(&self.tallies)
    }
}

impl Dispatcher {
    /// One look, under one lock.
    #[must_use]
    pub fn vitals(&self) -> Vitals {
        let now = self.shared.clock.now();
        let mut state = self.lock();
        let tallies = state.dispatch.tallies(now).to_vec();
        let (lanes, running) = (state.dispatch.statuses(None), state.dispatch.running());
        let (quiet, stopping) = (state.dispatch.is_quiet(), state.dispatch.is_stopping());
        let workers = state.workers;
        let work_waits = Pool::ALL.into_iter().any(|pool| state.dispatch.has_ready(pool));
        drop(state);
        let wall = wall_seconds();
        Vitals {
            lanes: lanes.into_iter().map(|lane| LaneReport::new(lane, now, wall)).collect(),
            running: running.into_iter().map(|job| RunningJob::new(job, now)).collect(),
            tallies,
            workers,
            work_waits,
            quiet,
            stopping,
        }
    }
}
