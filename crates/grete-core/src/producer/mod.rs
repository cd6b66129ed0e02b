//! A whole producer without I/O: cluster and produce machine, stepped as one.

mod config;
mod event;

pub use config::ProducerCoreConfig;
pub use event::{ProducerAction, ProducerEvent, ProducerNotice};

use crate::cluster::{Cluster, ClusterAction};
use crate::produce::{ProduceAction, ProduceMachine, ProduceStats, SharedAccumulator};
use crate::rng::Rng;
use crate::time::{Nanos, earlier};

/// See the module.
#[derive(Debug)]
pub struct ProducerCore {
    cluster: Cluster,
    produce: ProduceMachine,
    cluster_actions: Vec<ClusterAction>,
    produce_actions: Vec<ProduceAction>,
}

impl ProducerCore {
    /// Connects to nothing until it is stepped.
    #[must_use]
    pub fn new(config: ProducerCoreConfig, accumulator: SharedAccumulator, mut rng: Rng) -> Self {
        Self {
            cluster: Cluster::new(config.cluster, rng.split()),
            produce: ProduceMachine::new(config.produce, accumulator, rng.split()),
            cluster_actions: Vec::new(),
            produce_actions: Vec::new(),
        }
    }

    /// One event, and all that follows from it.
    pub fn step(&mut self, now: Nanos, event: ProducerEvent, out: &mut Vec<ProducerAction>) {
        let _ = (now, event, out);
        self.cluster_actions.clear();
        self.produce_actions.clear();
    }

    /// When to step with `Tick` at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Nanos> {
        earlier(self.cluster.deadline(), self.produce.deadline())
    }

    /// Counts since the start.
    #[must_use]
    pub fn stats(&self) -> ProduceStats {
        self.produce.stats()
    }
}
