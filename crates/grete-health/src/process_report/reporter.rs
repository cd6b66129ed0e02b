//! Thread that gives a report of the process to a sink once an interval.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::{JobStack, ProcessReport};
use crate::checks;
use crate::collector::HealthCollector;
use crate::error::HealthError;
use crate::ticker::Ticker;

/// Bytes per second of an interval that a report may take.
const BYTES_PER_SECOND: f64 = 2048.0;
/// Limits of a report's length in bytes, whatever the interval is.
const MIN_BYTES: usize = 4096;
const MAX_BYTES: usize = 64 * 1024;

/// Destination of reports. It must not wait.
pub trait ReportSink: Send {
    /// Takes a report. Returns false if it is dropped.
    fn send(&mut self, report: &[u8]) -> bool;
}

/// Thread "grete-reports", which needs no interpreter.
#[derive(Debug)]
pub struct ProcessReporter {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// State that the thread shares with its owner. The lock is held for a read or a write.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    stop: bool,
    stacks: Vec<JobStack>,
}

impl ProcessReporter {
    /// Starts the thread, which sends the first report at once. `facts`: JSON object that each report repeats.
    ///
    /// # Errors
    /// [`HealthError::Os`] if the system has no thread to give.
    pub fn start(
        facts: String,
        interval: Duration,
        collector: Arc<HealthCollector>,
        sink: impl ReportSink + 'static,
    ) -> Result<Self, HealthError> {
        let shared = Arc::new(Shared::default());
        let ticker = Ticker::new(Instant::now(), interval);
        let mut reports = Reports { facts, interval, collector, sink, ticker, seq: 0, dropped: 0, buffer: Vec::new() };
        let run = {
            let shared = Arc::clone(&shared);
            move || reports.run(&shared)
        };
        let thread = Builder::new().name("grete-reports".into()).spawn(run);
        let thread = thread.map_err(|error| HealthError::Os { what: "starting the thread of reports", error })?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Sets the stacks of the next reports, in place of those set before.
    pub fn set_stacks(&self, stacks: Vec<JobStack>) {
        self.shared.lock().stacks = stacks;
    }

    /// Sends the last report, which says that the process has stopped, and joins the thread. Idempotent.
    pub fn close(&self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join(); // a panic has been reported by its hook
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `due` or the stop. Returns whether to stop, and the present stacks.
    fn wait(&self, due: Instant) -> (bool, Vec<JobStack>) {
        let mut state = self.lock();
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if state.stop || left.is_zero() {
                return (state.stop, state.stacks.clone());
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

struct Reports<S> {
    facts: String,
    interval: Duration,
    collector: Arc<HealthCollector>,
    sink: S,
    ticker: Ticker,
    seq: u64,
    dropped: u64,
    buffer: Vec<u8>,
}

impl<S: ReportSink> Reports<S> {
    fn run(&mut self, shared: &Shared) {
        loop {
            let (stopped, stacks) = shared.wait(self.ticker.due());
            let now = Instant::now();
            let (tick, slept) = self.ticker.tick(now);
            self.collector.tick(tick, slept, now);
            self.report(now, stopped, &stacks);
            if stopped {
                return;
            }
        }
    }

    fn report(&mut self, now: Instant, stopped: bool, stacks: &[JobStack]) {
        let (metrics, snapshot) = (self.collector.metrics_at(now), self.collector.snapshot(now));
        let checked = checks::check_liveness(&snapshot, self.collector.limits());
        let report = ProcessReport {
            facts: &self.facts,
            seq: self.seq,
            interval: self.interval,
            stopped,
            uptime: self.collector.uptime(now),
            report: &snapshot.report,
            metrics: &metrics,
            problems: &checked.problems,
            lanes: self.collector.lanes(),
            stacks,
            dropped: self.dropped,
        };
        self.seq += 1;
        self.buffer = super::encode(&report, self.max_bytes(), std::mem::take(&mut self.buffer));
        if !self.sink.send(&self.buffer) {
            self.dropped += 1;
        }
    }

    fn max_bytes(&self) -> usize {
        let bytes = BYTES_PER_SECOND * self.interval.as_secs_f64();
        (bytes as usize).clamp(MIN_BYTES, MAX_BYTES)
    }
}
