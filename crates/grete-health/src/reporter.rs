//! Thread that sends a report once an interval.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::collector::{HealthCollector, HealthSource};
use crate::error::HealthError;
use crate::gil_probe::GilProbeHandle;
use crate::metrics::prometheus;
use crate::report::Report;
use crate::report::frame;
use crate::report::frame::ReporterInfo;
use crate::report::pipe::{Pipe, SendOutcome};
use crate::shm::text_segment::SharedText;
use crate::stop_event::{StopEvent, WakeReason};
use crate::thread_fds::ThreadFds;
use crate::ticker::Ticker;

/// Exit status of a process whose supervisor is gone.
const EXIT_ORPHANED: i32 = 3;

/// Ends the process at once with status 3: without a supervisor nothing restarts or stops it.
pub fn exit_orphaned() {
    grete_sys::exit_now(EXIT_ORPHANED)
}

/// Metrics that are published with each report.
pub struct MetricsPublisher {
    /// Segment that the supervisor reads.
    pub shared_text: Arc<SharedText>,
    /// Collector of the metrics.
    pub collector: Arc<HealthCollector>,
}

/// Thread "grete-health" that writes a report to a pipe once an interval, and after [`Reporter::report_now`].
#[derive(Debug)]
pub struct Reporter {
    stop: Arc<StopEvent>,
    thread_fds: Arc<ThreadFds>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Reporter {
    /// Starts the thread, which writes the first report at once and publishes all metrics with each report. The thread
    /// calls `orphaned` when the pipe has no reader any more: as soon as that happens, and not only when the next
    /// report is due.
    ///
    /// # Errors
    /// [`HealthError::Os`] if the system has no descriptor or thread to give.
    pub fn start(
        pipe: Pipe,
        interval: Duration,
        source: Arc<dyn HealthSource>,
        probe: Option<GilProbeHandle>,
        posting: Option<MetricsPublisher>,
        orphaned: impl FnOnce() + Send + 'static,
    ) -> Result<Self, HealthError> {
        let stop = Arc::new(StopEvent::new()?);
        let own_fds: Vec<_> = stop.fds().into_iter().chain(pipe.as_fd()).collect();
        let thread_fds = Arc::new(ThreadFds::new(own_fds.len()));
        own_fds.iter().for_each(|end| thread_fds.register(end));
        let ticker = Ticker::new(Instant::now(), interval);
        let mut report_loop = ReportLoop {
            pipe,
            ticker,
            source,
            gil_probe: probe,
            publisher: posting,
            seq: 0,
            buffer: Vec::new(),
            text: Vec::new(),
        };
        let run = {
            let (stop, doors) = (Arc::clone(&stop), Arc::clone(&thread_fds));
            move || {
                report_loop.run(&stop, orphaned);
                if let Some(end) = report_loop.pipe.as_fd() {
                    doors.unregister(&end);
                }
            }
        };
        let thread = Builder::new().name("grete-health".into()).spawn(run);
        let thread = thread.map_err(|error| HealthError::Os { what: "starting the health thread", error })?;
        Ok(Self { stop, thread_fds, thread: Mutex::new(Some(thread)) })
    }

    /// Writes a report at once, from any thread: for a change that others wait for.
    pub fn report_now(&self) {
        self.stop.wake();
    }

    /// Ends the thread and joins it, which takes little time. Idempotent.
    pub fn close(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            self.stop.set();
            let _ = thread.join(); // a panic has been reported by its hook
        }
    }

    /// Closes, in a forked child (which has no such thread), its copies of the descriptors. Otherwise the supervisor
    /// would not see the pipe's end when the reporting process ends. Takes no lock.
    pub fn close_in_child(&self) {
        self.thread_fds.close_in_child();
    }
}

struct ReportLoop {
    pipe: Pipe,
    ticker: Ticker,
    source: Arc<dyn HealthSource>,
    gil_probe: Option<GilProbeHandle>,
    publisher: Option<MetricsPublisher>,
    seq: u64,
    buffer: Vec<u8>,
    text: Vec<u8>,
}

impl ReportLoop {
    fn run(&mut self, stop: &StopEvent, orphaned: impl FnOnce()) {
        loop {
            match stop.wait(self.pipe.as_fd(), self.ticker.due()) {
                WakeReason::TimedOut | WakeReason::Notified => {}
                WakeReason::Stopped | WakeReason::InvalidFd => return,
                // The hang-up may be that of another file under the pipe's descriptor number.
                WakeReason::ReaderClosed if !self.pipe.is_open() => return,
                WakeReason::ReaderClosed => return orphaned(),
            }
            let now = Instant::now();
            // A report between two ticks leaves the ticker and the GIL probe alone.
            let gil_wait = if now < self.ticker.due() { self.gil_wait(now) } else { self.tick(now) };
            match self.report(now, gil_wait) {
                SendOutcome::Sent | SendOutcome::Dropped => {}
                SendOutcome::ReaderClosed => return orphaned(),
                // The supervisor sees that the pipe is closed, and reacts.
                SendOutcome::InvalidFd => return,
            }
        }
    }

    fn gil_wait(&self, now: Instant) -> Duration {
        self.gil_probe.as_ref().map_or(Duration::ZERO, |probe| probe.max_wait(now))
    }

    /// Takes the tick. Returns how long the GIL was waited for since the tick before.
    fn tick(&mut self, now: Instant) -> Duration {
        let (tick, slept) = self.ticker.tick(now);
        if let Some(probe) = self.gil_probe.as_ref().filter(|_| slept) {
            probe.discount(tick);
        }
        let wait = self.gil_wait(now);
        if let Some(probe) = &self.gil_probe {
            // A wait counts from the tick and not from this thread's wake-up. Otherwise a wait would reach a limit of n
            // intervals just before or just after n ticks, by chance.
            probe.sample(tick);
        }
        wait
    }

    fn report(&mut self, now: Instant, gil_wait: Duration) -> SendOutcome {
        let info =
            ReporterInfo { seq: self.seq, uptime: self.ticker.elapsed(now), gil_wait, dropped: self.pipe.dropped() };
        self.seq += 1;
        // Metrics come first, so that they are at least as new as the report.
        if let Some(publisher) = &self.publisher {
            self.text = prometheus::write(publisher.collector.metrics(), std::mem::take(&mut self.text));
            publisher.shared_text.publish(&self.text);
        }
        let mut report = Report::default();
        self.source.read(&mut report);
        self.buffer = frame::encode(&info, &report, std::mem::take(&mut self.buffer));
        self.pipe.send(&self.buffer)
    }
}
