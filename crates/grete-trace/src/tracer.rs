//! Tracer: creates traces, and replaces state that a forked child has inherited.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::config::Config;
use crate::context::SpanContext;
use crate::counters::Statistics;
use crate::local_trace::LocalTrace;
use crate::process_state::ProcessState;

/// Creates traces and sends their spans. A forked child starts with empty state: it has none of the parent's spans,
/// connections or counts.
#[derive(Debug)]
pub struct Tracer {
    config: Arc<Config>,
    core: Mutex<Arc<ProcessState>>,
}

impl Tracer {
    /// Creates a tracer, yet without a thread or connection.
    pub fn new(config: Config) -> Self {
        let config = Arc::new(config);
        Self { core: Mutex::new(Arc::new(ProcessState::new(Arc::clone(&config)))), config }
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the state of this process.
    ///
    /// The lock is held for the copy of a pointer, and never by the sender's thread. A process that uses a tracer in
    /// several threads, and forks without a lock around both (Python has the GIL), might find the lock held in the
    /// child.
    fn core(&self) -> Arc<ProcessState> {
        Arc::clone(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Arc<ProcessState>> {
        let mut core = self.core.lock().unwrap_or_else(PoisonError::into_inner);
        if core.is_inherited() {
            // Leaked, not freed: freeing takes locks that may be held by threads that do not exist here.
            std::mem::forget(std::mem::replace(&mut *core, Arc::new(ProcessState::new(Arc::clone(&self.config)))));
        }
        core
    }

    /// Returns the trace for a span with that parent, and the parent's id. It is the parent's own trace if this tracer
    /// created that in this process.
    #[must_use]
    pub fn trace(&self, service: Option<&str>, parent: Option<(&Arc<LocalTrace>, u64)>) -> (Arc<LocalTrace>, u64) {
        match parent {
            Some((trace, id)) if trace.belongs_to(&self.lock()) => (Arc::clone(trace), id),
            Some((trace, id)) => (LocalTrace::start(self.core(), service, Some(trace.context(id))), id),
            None => (LocalTrace::start(self.core(), service, None), 0),
        }
    }

    /// Continues a trace of another process. Returns the trace and the parent's id.
    pub fn continue_trace(&self, service: Option<&str>, parent: SpanContext) -> (Arc<LocalTrace>, u64) {
        let id = parent.span_id;
        (LocalTrace::start(self.core(), service, Some(parent)), id)
    }

    /// Counts malformed headers.
    pub fn count_broken_headers(&self, count: u32) {
        if count > 0 {
            self.core().counters.broken_headers.fetch_add(u64::from(count), Relaxed);
        }
    }

    /// Returns the statistics.
    pub fn statistics(&self) -> Statistics {
        let core = self.core();
        let (spans, bytes) = core.queue.pending();
        core.counters.snapshot(spans, bytes)
    }

    /// Waits until all spans of finished traces are sent or dropped; `false`: not within `timeout`.
    pub fn flush(&self, timeout: Duration) -> bool {
        self.core().queue.flush(timeout)
    }

    /// Refuses further spans, sends the queued ones, and ends the thread; `false`: it took longer, and the rest is
    /// dropped.
    pub fn close(&self, timeout: Duration) -> bool {
        let core = self.core();
        core.queue.close(timeout);
        core.queue.wait_closed()
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let core = self.core.get_mut().unwrap_or_else(PoisonError::into_inner);
        if core.is_inherited() {
            std::mem::forget(Arc::clone(core)); // a leaked reference, so that the state is never freed
        } else {
            core.queue.close(self.config.timeout);
        }
    }
}
