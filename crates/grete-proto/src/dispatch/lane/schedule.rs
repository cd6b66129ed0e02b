//! Jobs of a lane: entries in the ready queue, jobs in flight, and conditions that hold back all jobs.

use crate::dispatch::ids::LaneId;
use crate::dispatch::job::JobKind;
use crate::dispatch::queue::timers::{Timer, Timers};
use crate::optional::OptionalNanos;
use crate::time::Nanos;

/// Entries and jobs of a lane.
#[derive(Debug, Default)]
pub(in crate::dispatch) struct LaneSchedule {
    pub(super) queued: QueuedKinds,
    /// Jobs in flight, of all kinds.
    jobs: u32,
    /// The job in flight is a hook of the whole lane.
    exclusive: bool,
    paused: bool,
    paused_until: OptionalNanos,
    /// Earlier lane of the same partition that must end first.
    predecessor: Option<LaneId>,
    /// No rows are decoded until all decoded ones are done.
    barrier: bool,
}

/// Entries of a lane in the ready queue, without those of its units.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct QueuedKinds {
    pub(super) unkeyed: bool,
    pub(super) decode: bool,
    pub(super) hook: bool,
}

impl QueuedKinds {
    pub(super) fn any(self) -> bool {
        self.unkeyed || self.decode || self.hook
    }
}

impl LaneSchedule {
    pub(super) fn new(predecessor: Option<LaneId>) -> Self {
        Self { predecessor, ..Self::default() }
    }

    /// Returns whether jobs of records may run, as far as the whole lane is concerned.
    pub(super) fn is_open(&self) -> bool {
        !self.exclusive && !self.paused && self.predecessor.is_none()
    }

    pub(in crate::dispatch) fn set_barrier(&mut self, barrier: bool) {
        self.barrier = barrier;
    }

    pub(super) fn has_barrier(&self) -> bool {
        self.barrier
    }

    // ---- jobs in flight

    pub(in crate::dispatch) fn has_jobs(&self) -> bool {
        self.jobs > 0
    }

    pub(in crate::dispatch) fn on_job_started(&mut self, kind: JobKind) {
        self.jobs += 1;
        self.exclusive |= kind.is_lane_hook();
    }

    pub(in crate::dispatch) fn on_job_ended(&mut self, kind: JobKind) {
        self.jobs = self.jobs.saturating_sub(1);
        self.exclusive &= !kind.is_lane_hook();
    }

    // ---- pause by the user

    pub(in crate::dispatch) fn is_paused(&self) -> bool {
        self.paused
    }

    /// Returns the end of the user's pause; `None`: no pause, or a pause without end.
    pub(in crate::dispatch) fn paused_until(&self) -> Option<Nanos> {
        self.paused_until.get().filter(|_| self.paused)
    }

    /// Starts a pause until `until`; `None`: without end.
    pub(in crate::dispatch) fn pause(&mut self, timers: &mut Timers, lane: LaneId, until: Option<Nanos>) {
        self.paused = true;
        timers.set(Timer::Pause(lane), &mut self.paused_until, until);
    }

    pub(in crate::dispatch) fn resume(&mut self, timers: &mut Timers, lane: LaneId) {
        self.paused = false;
        timers.set(Timer::Pause(lane), &mut self.paused_until, None);
    }

    pub(in crate::dispatch) fn on_pause_timer(&mut self) {
        self.paused_until = OptionalNanos::NONE;
    }

    pub(super) fn clear_pause_timer(&mut self, timers: &mut Timers, lane: LaneId) {
        timers.set(Timer::Pause(lane), &mut self.paused_until, None);
    }

    // ---- earlier lane of the same partition

    pub(in crate::dispatch) fn has_predecessor(&self) -> bool {
        self.predecessor.is_some()
    }

    /// Records the end of a lane. Returns whether this lane waited for that one.
    pub(in crate::dispatch) fn on_lane_removed(&mut self, lane: LaneId) -> bool {
        self.predecessor.take_if(|predecessor| *predecessor == lane).is_some()
    }
}
