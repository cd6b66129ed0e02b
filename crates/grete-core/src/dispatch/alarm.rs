//! What becomes due by time alone.

use std::collections::BTreeSet;

use super::lane::LaneId;
use crate::time::Nanos;

/// Why to look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alarm {
    /// A slot's wait after a failure is over.
    Unit(LaneId, u32),
    /// Waiting data are old enough.
    Feed(LaneId),
    /// The user's pause is over.
    Pause(LaneId),
    /// The lane may have been idle for long enough.
    Tick(LaneId),
    /// The route may hand out records again.
    Rate(u32),
}

/// Alarms by time; each is set once at most.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    set: BTreeSet<(Nanos, Alarm)>,
}

impl Alarms {
    /// Sets it for `at` in place of `*current`.
    pub(super) fn set(&mut self, alarm: Alarm, current: &mut Option<Nanos>, at: Option<Nanos>) {
        if *current == at {
            return;
        }
        if let Some(old) = std::mem::replace(current, at) {
            self.set.remove(&(old, alarm));
        }
        if let Some(at) = at {
            self.set.insert((at, alarm));
        }
    }

    pub(super) fn next(&self) -> Option<Nanos> {
        self.set.first().map(|(at, _)| *at)
    }

    pub(super) fn pop(&mut self, now: Nanos) -> Option<(Nanos, Alarm)> {
        self.set.first().filter(|(at, _)| *at <= now)?;
        self.set.pop_first()
    }
}
