//! Interface between the server and the sans-IO machine that it drives.

use crate::cluster::{Action, Cluster, Event};
use crate::effects::Change;
use crate::ids::Millis;

/// Sans-IO machine that the server steps.
pub trait Machine: Send + 'static {
    /// Handles one event and pushes the requested actions to `actions`.
    fn step(&mut self, now: Millis, event: Event, actions: &mut Vec<Action>);

    /// Returns the time by which the server must step with [`Event::Tick`]; `None`: no deadline.
    fn deadline(&self) -> Option<Millis>;

    /// Applies a stored change, before the first step.
    fn restore(&mut self, change: &Change);

    /// Returns changes that restore the present durable state.
    fn snapshot(&self) -> Vec<Change>;
}
impl Machine for Cluster {
    fn step(&mut self, now: Millis, event: Event, actions: &mut Vec<Action>) {
        Self::step(self, now, event, actions);
    }

    fn deadline(&self) -> Option<Millis> {
        Self::deadline(self)
    }

    fn restore(&mut self, change: &Change) {
        Self::restore(self, change);
    }

    fn snapshot(&self) -> Vec<Change> {
        Self::snapshot(self)
    }
}
