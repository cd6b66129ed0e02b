//! What a process has: its configuration, and all that must not be shared with a forked child.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::chunk::Chunk;
use crate::config::{Config, Format};
use crate::context::SpanContext;
use crate::counters::{Counters, Reason, Statistics};
use crate::queue::{Pushed, Queue};
use crate::sampler::Sampler;
use crate::trace::Trace;
use crate::{sender, sys};

/// What belongs to one process. The thread that sends is started by the first spans, so that a tracer may be made before a
/// fork.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) config: Arc<Config>,
    pub(crate) service: Arc<str>,
    pub(crate) counters: Counters,
    pub(crate) sampler: Sampler,
    pub(crate) queue: Queue,
    generation: u32,
}

impl Core {
    fn new(config: Arc<Config>) -> Self {
        Self {
            service: (*config.service).into(),
            counters: Counters::default(),
            sampler: Sampler::default(),
            queue: Queue::new(&config),
            generation: sys::generation(),
            config,
        }
    }

    /// Whether this is a parent's, that a child has inherited: its locks may be held by threads that are not here.
    pub(crate) fn is_inherited(&self) -> bool {
        self.generation != sys::generation()
    }

    /// Takes finished spans, or drops and counts them.
    pub(crate) fn push(self: &Arc<Self>, chunk: Chunk) {
        let spans = chunk.spans.len();
        if chunk.priority <= 0 && self.config.format != Format::Datadog {
            self.counters.drop_spans(Reason::Unsampled, spans);
            return;
        }
        match self.queue.push(chunk) {
            Pushed::Taken => {}
            Pushed::First if sender::start(self).is_ok() => {}
            // The system has no thread just now. What waits is bounded, and the next spans try again.
            Pushed::First => self.queue.not_started(),
            Pushed::Full => self.counters.drop_spans(Reason::Full, spans),
            Pushed::Closed => self.counters.drop_spans(Reason::Closed, spans),
        }
    }
}

/// Begins spans and sends them. In a forked child it goes on with nothing of the parent's: no span, no connection, no count.
#[derive(Debug)]
pub struct Tracer {
    config: Arc<Config>,
    core: Mutex<Arc<Core>>,
}

impl Tracer {
    /// A tracer that has neither a thread nor a connection yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let config = Arc::new(config);
        Self { core: Mutex::new(Arc::new(Core::new(Arc::clone(&config)))), config }
    }

    /// What it was made with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// This process's part.
    ///
    /// The lock is held for the copy of a pointer, never by the sender's thread. Whoever forks a process that uses a tracer in
    /// several threads without a lock around both (as Python's is) might find it held.
    fn core(&self) -> Arc<Core> {
        Arc::clone(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Core>> {
        let mut core = self.core.lock().unwrap_or_else(PoisonError::into_inner);
        if core.is_inherited() {
            // Forgotten, not freed: freeing takes locks that may be held by nobody.
            std::mem::forget(std::mem::replace(&mut *core, Arc::new(Core::new(Arc::clone(&self.config)))));
        }
        core
    }

    /// The trace in which a span with that parent stands, and the parent's id: the same trace where the parent is one of this
    /// tracer's, in this process.
    #[must_use]
    pub fn trace(&self, service: Option<&str>, parent: Option<(&Arc<Trace>, u64)>) -> (Arc<Trace>, u64) {
        match parent {
            Some((trace, id)) if trace.is_of(&self.lock()) => (Arc::clone(trace), id),
            Some((trace, id)) => (Trace::begin(self.core(), service, Some(trace.context(id))), id),
            None => (Trace::begin(self.core(), service, None), 0),
        }
    }

    /// A trace that goes on here.
    #[must_use]
    pub fn continued(&self, service: Option<&str>, parent: SpanContext) -> (Arc<Trace>, u64) {
        let id = parent.span_id;
        (Trace::begin(self.core(), service, Some(parent)), id)
    }

    /// Headers were met that say nothing that can be understood.
    pub fn count_broken_headers(&self, count: u32) {
        if count > 0 {
            self.core().counters.broken_headers.fetch_add(u64::from(count), Relaxed);
        }
    }

    /// What has become of spans.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let core = self.core();
        let (spans, bytes) = core.queue.held();
        core.counters.read(spans, bytes)
    }

    /// Waits until all spans whose traces are finished are sent or dropped; false if that took longer.
    pub fn flush(&self, timeout: Duration) -> bool {
        self.core().queue.flush(timeout)
    }

    /// Takes no more spans, sends what is there, and ends the thread; false if that took longer (what is left is dropped, then).
    pub fn close(&self, timeout: Duration) -> bool {
        let core = self.core();
        core.queue.stop(timeout);
        core.queue.ended()
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let core = self.core.get_mut().unwrap_or_else(PoisonError::into_inner);
        if core.is_inherited() {
            std::mem::forget(Arc::clone(core)); // one count too many, so that nobody frees it
        } else {
            core.queue.stop(self.config.timeout);
        }
    }
}
