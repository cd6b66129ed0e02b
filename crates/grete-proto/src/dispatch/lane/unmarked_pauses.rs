//! Pauses of a lane that waits for marks, and how often they are reported.

use crate::dispatch::ids::LaneId;
use crate::dispatch::queue::timers::{Timer, Timers};
use crate::optional::OptionalNanos;
use crate::time::Nanos;

/// Pauses of a lane that waits for marks.
///
/// A lane whose marks come late pauses many times a second, hence the reports of several pauses together.
#[derive(Debug, Default)]
pub(in crate::dispatch) struct UnmarkedPauses(Option<Box<Pauses>>);

/// Pauses of a lane that has paused.
#[derive(Debug, Default)]
struct Pauses {
    /// A pause has begun, and not enough was marked since.
    pausing: bool,
    /// Pauses that began since the last report.
    count: u64,
    reported_at: Option<Nanos>,
    timer: OptionalNanos,
}

impl UnmarkedPauses {
    pub(in crate::dispatch) fn is_pausing(&self) -> bool {
        self.0.as_ref().is_some_and(|pauses| pauses.pausing)
    }

    pub(in crate::dispatch) fn begin(&mut self) {
        let pauses = self.0.get_or_insert_default();
        pauses.pausing = true;
        pauses.count = pauses.count.saturating_add(1);
    }

    pub(in crate::dispatch) fn end(&mut self) {
        if let Some(pauses) = &mut self.0 {
            pauses.pausing = false;
        }
    }

    /// Takes the number of pauses since the last report, to report it now. `None`: the last report is less than `every`
    /// ago, and the timer is set for the next one.
    pub(in crate::dispatch) fn take_report(
        &mut self,
        timers: &mut Timers,
        lane: LaneId,
        now: Nanos,
        every: Nanos,
    ) -> Option<u64> {
        let pauses = self.0.get_or_insert_default();
        let next = pauses.reported_at.map(|reported| reported.saturating_add(every)).filter(|next| *next > now);
        if next.is_some() {
            timers.set(Timer::Unmarked(lane), &mut pauses.timer, next);
            return None;
        }
        pauses.reported_at = Some(now);
        Some(std::mem::take(&mut pauses.count))
    }

    /// Returns whether pauses are not reported yet.
    pub(in crate::dispatch) fn on_timer(&mut self) -> bool {
        let Some(pauses) = &mut self.0 else { return false };
        pauses.timer = OptionalNanos::NONE;
        pauses.count > 0
    }

    pub(super) fn clear_timer(&mut self, timers: &mut Timers, lane: LaneId) {
        if let Some(pauses) = &mut self.0 {
            timers.set(Timer::Unmarked(lane), &mut pauses.timer, None);
        }
    }
}
