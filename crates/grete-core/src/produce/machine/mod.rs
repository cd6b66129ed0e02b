//! Sends batches, in order, until what became of them is known.

use super::accumulator::SharedAccumulator;
use super::config::ProduceConfig;
use super::event::{ProduceAction, ProduceEvent, ProduceStats};
use crate::rng::Rng;
use crate::time::Nanos;
use crate::view::ClusterView;

/// See the module.
#[derive(Debug)]
pub struct ProduceMachine {
    stats: ProduceStats,
}

impl ProduceMachine {
    /// A machine that has sent nothing.
    #[must_use]
    pub fn new(config: ProduceConfig, accumulator: SharedAccumulator, rng: Rng) -> Self {
        let _ = (config, accumulator, rng);
        Self { stats: ProduceStats::default() }
    }

    /// When the next `Tick` is due, if nothing happens before.
    #[must_use]
    pub fn deadline(&self) -> Option<Nanos> {
        None
    }

    /// Counts since the start.
    #[must_use]
    pub fn stats(&self) -> ProduceStats {
        self.stats
    }

    /// Takes one event, appends what has to be done.
    pub fn step(&mut self, now: Nanos, event: ProduceEvent, view: &impl ClusterView, out: &mut Vec<ProduceAction>) {
        let _ = (now, event, view, out);
    }
}
