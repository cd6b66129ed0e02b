//! Puts together what is known of a process: what its source knows, and what only the system and the canary do.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::canary::Watch;
use crate::metrics::Metrics;
use crate::process;
use crate::report::Source;

/// Knows all that can be told of this process. Made after the last fork.
pub struct Examiner {
    source: Arc<dyn Source>,
    canary: OnceLock<Watch>,
    start_time: Option<f64>,
}

impl Examiner {
    /// Without a canary.
    #[must_use]
    pub fn new(source: Arc<dyn Source>) -> Self {
        Self { source, canary: OnceLock::new(), start_time: process::start_time() }
    }

    /// From now on it knows how long the interpreter's lock is waited for. The first one stays.
    pub fn watch(&self, canary: Watch) {
        let _ = self.canary.set(canary);
    }

    /// All that is known now.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::default();
        self.source.metrics(&mut metrics);
        process::look(&mut metrics.process);
        metrics.process.start_time = self.start_time;
        metrics.process.gil_wait = self.canary.get().map(|canary| canary.wait(Instant::now()).as_secs_f64());
        metrics
    }
}
