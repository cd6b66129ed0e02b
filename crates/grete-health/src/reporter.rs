//! Writes a report once an interval.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::beat::Beat;
use crate::board::Board;
use crate::canary::Watch;
use crate::error::HealthError;
use crate::examiner::Examiner;
use crate::exposition;
use crate::frame::{self, Stamp};
use crate::pipe::{Pipe, Sent};
use crate::report::{Report, Source};
use crate::sys;
use crate::wait::{Stop, Woken};

/// Exit status of a process whose supervisor is gone.
const ORPHANED: i32 = 3;

/// Ends the process with status 3, without asking anybody: what is it to do without a supervisor?
pub fn leave_orphaned() {
    sys::exit_now(ORPHANED)
}

/// Metrics that are posted with each report.
pub struct Posting {
    /// Where.
    pub board: Arc<Board>,
    /// Who knows them.
    pub examiner: Arc<Examiner>,
}

/// A thread "grete-health" that writes a report to a pipe once an interval, and when it is nudged.
#[derive(Debug)]
pub struct Reporter {
    stop: Arc<Stop>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Reporter {
    /// The first report is written at once; with each, `posting` gets all metrics. `orphaned` is called, in the thread, when nobody reads from the pipe any more: as
    /// soon as that happens, and not only when the next report is due.
    ///
    /// # Errors
    /// When the system has no descriptor or thread to give.
    pub fn start(
        pipe: Pipe,
        interval: Duration,
        source: Arc<dyn Source>,
        canary: Option<Watch>,
        posting: Option<Posting>,
        orphaned: impl FnOnce() + Send + 'static,
    ) -> Result<Self, HealthError> {
        let stop = Arc::new(Stop::new()?);
        let beat = Beat::new(Instant::now(), interval);
        let round = Round { pipe, beat, source, canary, posting, seq: 0, buffer: Vec::new(), text: Vec::new() };
        let run = {
            let stop = Arc::clone(&stop);
            move || round.run(&stop, orphaned)
        };
        let thread = Builder::new().name("grete-health".into()).spawn(run);
        let thread = thread.map_err(|error| HealthError::Os { what: "starting the health thread", error })?;
        Ok(Self { stop, thread: Mutex::new(Some(thread)) })
    }

    /// A report is written at once, from any thread: something has changed that others wait for.
    pub fn nudge(&self) {
        self.stop.nudge();
    }

    /// Ends the thread and waits for that, which is not for long. A second call does nothing.
    pub fn close(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            self.stop.stop();
            let _ = thread.join(); // a panic has been reported by its hook
        }
    }
}

struct Round {
    pipe: Pipe,
    beat: Beat,
    source: Arc<dyn Source>,
    canary: Option<Watch>,
    posting: Option<Posting>,
    seq: u64,
    buffer: Vec<u8>,
    text: Vec<u8>,
}

impl Round {
    fn run(mut self, stop: &Stop, orphaned: impl FnOnce()) {
        loop {
            match stop.wait(self.pipe.as_fd(), self.beat.due()) {
                Woken::Due | Woken::Nudged => {}
                Woken::Stopped | Woken::Lost => return,
                // Of another descriptor in the pipe's place it says nothing.
                Woken::HungUp if !self.pipe.is_there() => return,
                Woken::HungUp => return orphaned(),
            }
            let now = Instant::now();
            // What comes between two beats leaves beats and canary as they are.
            let gil_wait = if now < self.beat.due() { self.gil_wait(now) } else { self.beat(now) };
            match self.report(now, gil_wait) {
                Sent::Yes | Sent::Dropped => {}
                Sent::HungUp => return orphaned(),
                // The supervisor sees that the pipe is closed, and knows what to do.
                Sent::Lost => return,
            }
        }
    }

    fn gil_wait(&self, now: Instant) -> Duration {
        self.canary.as_ref().map_or(Duration::ZERO, |canary| canary.wait(now))
    }

    /// Takes the beat; how long the GIL was waited for since the one before.
    fn beat(&mut self, now: Instant) -> Duration {
        let (beat, slept) = self.beat.take(now);
        if let Some(canary) = self.canary.as_ref().filter(|_| slept) {
            canary.forgive(beat);
        }
        let wait = self.gil_wait(now);
        if let Some(canary) = &self.canary {
            // A wait counts from its beat, not from when we woke for it: else it would reach a limit of so many beats just
            // before that many, or just after, by chance.
            canary.ask(beat);
        }
        wait
    }

    fn report(&mut self, now: Instant, gil_wait: Duration) -> Sent {
        let stamp = Stamp { seq: self.seq, uptime: self.beat.elapsed(now), gil_wait, dropped: self.pipe.dropped() };
        self.seq += 1;
        // First: whoever has this report finds no older metrics.
        if let Some(posting) = &self.posting {
            self.text = exposition::write(posting.examiner.metrics(), std::mem::take(&mut self.text));
            posting.board.post(&self.text);
        }
        let mut report = Report::default();
        self.source.read(&mut report);
        self.buffer = frame::encode(&stamp, &report, std::mem::take(&mut self.buffer));
        self.pipe.send(&self.buffer)
    }
}
