//! State of a tracer that must not be shared with a forked child.

use std::sync::Arc;

use crate::config::Config;
use crate::counters::Counters;
use crate::sampling::sampler::Sampler;
use crate::span_queue::SpanQueue;

/// State of one process. The first spans start the sender's thread, so that a tracer may be created before a fork.
#[derive(Debug)]
pub(crate) struct ProcessState {
    pub(crate) config: Arc<Config>,
    pub(crate) service: Arc<str>,
    pub(crate) counters: Counters,
    pub(crate) sampler: Sampler,
    pub(crate) queue: SpanQueue,
    generation: u32,
}

impl ProcessState {
    pub(crate) fn new(config: Arc<Config>) -> Self {
        Self {
            service: (*config.service).into(),
            counters: Counters::default(),
            sampler: Sampler::default(),
            queue: SpanQueue::new(&config),
            generation: grete_sys::fork::generation(),
            config,
        }
    }

    /// Returns whether the state was inherited from the parent process. Its locks may then be held by threads that do
    /// not exist here.
    pub(crate) fn is_inherited(&self) -> bool {
        self.generation != grete_sys::fork::generation()
    }
}
