//! Hooks of a whole lane: the hook at its end, and the ticks while it is idle.

use crate::dispatch::ids::LaneId;
use crate::dispatch::job::JobKind;
use crate::dispatch::queue::timers::{Timer, Timers};
use crate::dispatch::route_config::RouteConfig;
use crate::optional::OptionalNanos;
use crate::time::{MILLI, Nanos};

/// State of a lane's hooks.
#[derive(Debug)]
pub(in crate::dispatch) struct LaneHooks {
    /// A handler instance exists, so the lane's end runs a hook.
    has_instance: bool,
    /// The lane ends without a hook (a low-level client removed it).
    skip_end_hook: bool,
    /// End of the last job.
    idle_since: Nanos,
    tick_timer: OptionalNanos,
}

impl LaneHooks {
    pub(super) fn new(now: Nanos) -> Self {
        Self { has_instance: false, skip_end_hook: false, idle_since: now, tick_timer: OptionalNanos::NONE }
    }

    /// Records the end of a job. `ran`: the handler was called.
    pub(in crate::dispatch) fn on_job_ended(&mut self, now: Nanos, kind: JobKind, ran: bool) {
        self.idle_since = now;
        // After the hook of the lane's end the handler instance is gone, whether the hook failed or not.
        self.has_instance = (self.has_instance || ran) && !kind.is_end_hook();
    }

    /// Returns whether the lane's end must still run a hook.
    pub(super) fn is_end_hook_due(&self, policy: &RouteConfig) -> bool {
        self.has_instance && policy.hooks && !self.skip_end_hook
    }

    pub(in crate::dispatch) fn skip_end_hook(&mut self) {
        self.skip_end_hook = true;
    }

    /// Returns when the next tick is due if the lane stays idle; `None`: the route has no ticks.
    pub(in crate::dispatch) fn tick_at(&self, policy: &RouteConfig) -> Option<Nanos> {
        policy.tick.map(|every| self.idle_since.saturating_add(every.max(MILLI)))
    }

    pub(in crate::dispatch) fn has_tick_timer(&self) -> bool {
        self.tick_timer.get().is_some()
    }

    pub(in crate::dispatch) fn set_tick_timer(&mut self, timers: &mut Timers, lane: LaneId, at: Option<Nanos>) {
        timers.set(Timer::Tick(lane), &mut self.tick_timer, at);
    }

    pub(in crate::dispatch) fn on_tick_timer(&mut self) {
        self.tick_timer = OptionalNanos::NONE;
    }
}
