//! Timers of lanes, units and routes.

use std::collections::BTreeSet;

use crate::dispatch::ids::LaneId;
use crate::optional::OptionalNanos;
use crate::time::Nanos;

/// Kind of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::dispatch) enum Timer {
    /// The backoff of a slot after a failure ends.
    Unit(LaneId, u32),
    /// Data of the decode queue is old enough, or has waited for `max_wait`.
    Decode(LaneId),
    /// The user's pause ends.
    Pause(LaneId),
    /// The lane may have been idle for the tick interval.
    Tick(LaneId),
    /// The lane's pauses for marks may be reported again.
    Unmarked(LaneId),
    /// The route may hand out records again.
    Rate(u32),
}

/// Timers that are set. Without any that leads to records, only ticks happen from now on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PendingTimers {
    /// Time of the next timer of any kind; `None`: no timer is set.
    pub next: Option<Nanos>,
    /// Units that wait for the backoff after a failure.
    pub backoffs: usize,
    /// Other timers that lead to records: delays, pauses with an end, rate limits, waits for more records.
    pub others: usize,
}

/// Set timers, ordered by time. Each timer is set at most once.
#[derive(Debug, Default)]
pub(in crate::dispatch) struct Timers {
    set: BTreeSet<(Nanos, Timer)>,
}

impl Timers {
    /// Sets the timer to `at` (`None`: clears it). `current` holds the timer's previous time and is updated.
    pub(in crate::dispatch) fn set(&mut self, alarm: Timer, current: &mut OptionalNanos, at: Option<Nanos>) {
        let at = OptionalNanos::from(at).get();
        if current.get() == at {
            return;
        }
        if let Some(old) = current.replace(at) {
            self.set.remove(&(old, alarm));
        }
        if let Some(at) = at {
            self.set.insert((at, alarm));
        }
    }

    pub(in crate::dispatch) fn next(&self) -> Option<Nanos> {
        self.set.first().map(|(at, _)| *at)
    }

    pub(in crate::dispatch) fn pending(&self) -> PendingTimers {
        let mut pending = PendingTimers { next: self.next(), ..PendingTimers::default() };
        for (_, timer) in &self.set {
            match timer {
                Timer::Unit(..) => pending.backoffs += 1,
                Timer::Decode(_) | Timer::Pause(_) | Timer::Rate(_) => pending.others += 1,
                Timer::Tick(_) | Timer::Unmarked(_) => {}
            }
        }
        pending
    }

    pub(in crate::dispatch) fn pop(&mut self, now: Nanos) -> Option<(Nanos, Timer)> {
        self.set.first().filter(|(at, _)| *at <= now)?;
        self.set.pop_first()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_not_among_the_timers_that_lead_to_records() {
        let lane = LaneId { index: 0, generation: 0 };
        let mut timers = Timers::default();
        for (at, timer) in (5..).zip([Timer::Tick(lane), Timer::Unit(lane, 3), Timer::Decode(lane), Timer::Rate(1)]) {
            let mut unset = OptionalNanos::NONE;
            timers.set(timer, &mut unset, Some(at));
        }
        assert_eq!(timers.pending(), PendingTimers { next: Some(5), backoffs: 1, others: 2 });
        while timers.pop(8).is_some() {}
        assert_eq!(timers.pending(), PendingTimers::default());
    }
}
