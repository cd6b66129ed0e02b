//! Between those who finish spans and the one thread that sends them.
//!
//! What is under way counts until it is settled, so that the bounds are those of all that is held. The thread sleeps without
//! a deadline while there is nothing to send; the first chunk wakes it, and it waits an interval for others, unless half of
//! the room is taken or somebody is in a hurry.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::chunk::Chunk;
use crate::config::Config;

/// How much is held, at most.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    spans: usize,
    bytes: usize,
    interval: Duration,
}

#[derive(Debug)]
pub(crate) struct Queue {
    bounds: Bounds,
    state: Mutex<State>,
    /// For the sender: something has come, or somebody is in a hurry.
    work: Condvar,
    /// For those who wait for the sender.
    settled: Condvar,
}

#[derive(Debug, Default)]
struct State {
    chunks: VecDeque<Chunk>,
    spans: usize,
    bytes: usize,
    /// When the oldest of the chunks came.
    since: Option<Instant>,
    /// Chunks that have ever come in, and that are settled.
    entered: u64,
    left: u64,
    /// Somebody waits for the chunk of this number, and all before it.
    hurry: u64,
    started: bool,
    /// Closed, and when nobody waits for the rest any more.
    until: Option<Instant>,
    ended: bool,
}

/// What became of a chunk that came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    Taken,
    /// It is the first one: a thread is needed.
    First,
    Full,
    Closed,
}

impl Queue {
    pub(crate) fn new(config: &Config) -> Self {
        let bounds = Bounds { spans: config.max_spans, bytes: config.max_bytes, interval: config.interval };
        Self { bounds, state: Mutex::default(), work: Condvar::new(), settled: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Never waits for anything but a few instructions of another thread.
    pub(crate) fn push(&self, chunk: Chunk) -> Pushed {
        let (spans, bytes) = (chunk.spans.len(), chunk.bytes());
        let mut state = self.lock();
        if state.until.is_some() {
            return Pushed::Closed;
        }
        if state.spans + spans > self.bounds.spans || state.bytes.saturating_add(bytes) > self.bounds.bytes {
            return Pushed::Full;
        }
        let was = state.crowded(&self.bounds);
        state.spans += spans;
        state.bytes += bytes;
        state.entered += 1;
        let first = state.chunks.is_empty();
        if first {
            state.since = Some(Instant::now());
        }
        state.chunks.push_back(chunk);
        let wake = first || (!was && state.crowded(&self.bounds));
        let start = !std::mem::replace(&mut state.started, true);
        drop(state);
        if wake {
            self.work.notify_one(); // a system call each time, so not for every chunk
        }
        if start { Pushed::First } else { Pushed::Taken }
    }

    /// No thread could be started for what was pushed: the next push is to try again.
    pub(crate) fn not_started(&self) {
        self.lock().started = false;
    }

    /// For the sender: everything that is there, once it is due. None: closed, and there is nothing left.
    pub(crate) fn take(&self) -> Option<VecDeque<Chunk>> {
        let mut state = self.lock();
        loop {
            let wait = match state.since {
                None if state.until.is_some() => return None,
                None => None,
                Some(since) => {
                    let rest = self.bounds.interval.saturating_sub(since.elapsed());
                    let urgent = state.until.is_some() || state.hurry > state.left || state.crowded(&self.bounds);
                    if urgent || rest.is_zero() {
                        state.since = None;
                        return Some(std::mem::take(&mut state.chunks));
                    }
                    Some(rest)
                }
            };
            state = self.wait(&self.work, state, wait);
        }
    }

    /// For the sender: leaves the agent alone for a while, unless somebody gets into a hurry.
    pub(crate) fn pause(&self, time: Duration) {
        let end = Instant::now() + time;
        let mut state = self.lock();
        let hurry = state.hurry;
        while state.until.is_none() && state.hurry == hurry {
            let rest = end.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return;
            }
            state = self.wait(&self.work, state, Some(rest));
        }
    }

    /// For the sender: chunks of so many spans and bytes are no longer held.
    pub(crate) fn settle(&self, chunks: usize, spans: usize, bytes: usize) {
        let mut state = self.lock();
        state.left += chunks as u64;
        state.spans = state.spans.saturating_sub(spans);
        state.bytes = state.bytes.saturating_sub(bytes);
        drop(state);
        self.settled.notify_all();
    }

    /// Since when, if so, it is closed: how long the sender still has.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        self.lock().until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// For the sender: it goes.
    pub(crate) fn end(&self) {
        self.lock().ended = true;
        self.settled.notify_all();
    }

    /// Waits until all that has come so far is settled; false if it was not in time.
    pub(crate) fn flush(&self, timeout: Duration) -> bool {
        let end = Instant::now().checked_add(timeout);
        let mut state = self.lock();
        let wanted = state.entered;
        if state.left >= wanted {
            return true;
        }
        // A number above all that were wanted before, so that each flush ends a pause.
        state.hurry = wanted.max(state.hurry + 1);
        self.work.notify_one();
        while state.left < wanted && !state.ended {
            let rest = end.map(|end| end.saturating_duration_since(Instant::now()));
            if rest.is_some_and(|rest| rest.is_zero()) {
                return false;
            }
            state = self.wait(&self.settled, state, rest);
        }
        true
    }

    /// Takes nothing more, and gives the sender so long to send what is there.
    pub(crate) fn stop(&self, time: Duration) {
        let mut state = self.lock();
        let now = Instant::now();
        let until = now.checked_add(time).unwrap_or(now + Duration::from_secs(86_400));
        state.until = Some(state.until.map_or(until, |before| before.min(until)));
        if !state.started {
            state.ended = true;
        }
        drop(state);
        self.work.notify_one();
    }

    /// Waits for the sender's end after [`Queue::stop`]; false if it took longer.
    pub(crate) fn ended(&self) -> bool {
        let mut state = self.lock();
        while !state.ended {
            let rest = state.until.map(|until| until.saturating_duration_since(Instant::now()));
            if rest.is_none_or(|rest| rest.is_zero()) {
                return false;
            }
            state = self.wait(&self.settled, state, rest);
        }
        true
    }

    /// Spans and bytes that are held.
    pub(crate) fn held(&self) -> (usize, usize) {
        let state = self.lock();
        (state.spans, state.bytes)
    }

    fn wait<'a>(&self, on: &Condvar, state: MutexGuard<'a, State>, time: Option<Duration>) -> MutexGuard<'a, State> {
        match time {
            Some(time) => on.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0,
            None => on.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

impl State {
    fn crowded(&self, bounds: &Bounds) -> bool {
        self.spans > bounds.spans / 2 || self.bytes > bounds.bytes / 2
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::span::Span;

    fn chunk(spans: usize) -> Chunk {
        let span = Span::new("service".into(), "name", None, "");
        Chunk {
            span_bytes: spans * span.bytes(),
            spans: vec![span; spans],
            head: 0,
            priority: 1,
            rate: None,
            origin: "".into(),
            tracestate: "".into(),
            tags: [].into(),
        }
    }

    fn queue(spans: usize, bytes: usize) -> Queue {
        let mut config = Config::new("s", crate::agent::Agent::read("http://agent", 1).expect("an agent"));
        config.interval = Duration::from_secs(3600);
        Queue::new(&Config { max_spans: spans, max_bytes: bytes, ..config })
    }

    #[test]
    fn what_does_not_fit_is_refused_until_something_is_settled() {
        let queue = queue(10, usize::MAX);
        assert_eq!(
            [queue.push(chunk(4)), queue.push(chunk(4)), queue.push(chunk(4))],
            [Pushed::First, Pushed::Taken, Pushed::Full]
        );
        let taken = queue.take().expect("crowded, so that nothing is waited for");
        assert_eq!((taken.len(), queue.push(chunk(3))), (2, Pushed::Full), "what is under way counts");
        queue.settle(2, 8, taken.iter().map(Chunk::bytes).sum());
        assert_eq!((queue.push(chunk(10)), queue.push(chunk(1))), (Pushed::Taken, Pushed::Full));
    }

    #[test]
    fn bytes_are_bounded_too() {
        let bytes = chunk(4).bytes();
        let queue = queue(1000, 2 * bytes);
        assert_eq!(
            [queue.push(chunk(4)), queue.push(chunk(4)), queue.push(chunk(1))],
            [Pushed::First, Pushed::Taken, Pushed::Full]
        );
        assert_eq!(queue.held(), (8, 2 * bytes));
    }

    #[test]
    fn a_flush_waits_for_what_came_before_it_and_hurries_the_sender() {
        let queue = &queue(1000, usize::MAX);
        assert!(queue.flush(Duration::ZERO), "nothing is to be waited for");
        queue.push(chunk(1));
        assert!(!queue.flush(Duration::ZERO));
        thread::scope(|scope| {
            let flush = scope.spawn(|| queue.flush(Duration::from_secs(60)));
            let taken = queue.take().expect("somebody is in a hurry");
            queue.settle(taken.len(), 1, 0);
            assert!(flush.join().expect("a flush"));
        });
    }

    #[test]
    fn a_pause_ends_when_somebody_is_in_a_hurry() {
        let queue = &queue(1000, usize::MAX);
        queue.push(chunk(1));
        thread::scope(|scope| {
            let pause = scope.spawn(|| queue.pause(Duration::from_secs(3600)));
            while !pause.is_finished() {
                assert!(!queue.flush(Duration::from_millis(1)));
            }
        });
        queue.stop(Duration::from_secs(60));
        queue.pause(Duration::from_secs(3600));
    }

    #[test]
    fn after_the_end_nothing_is_taken_and_nobody_waits() {
        let idle = queue(10, usize::MAX);
        idle.stop(Duration::from_secs(60));
        assert!(idle.ended() && idle.take().is_none());
        assert_eq!(idle.push(chunk(1)), Pushed::Closed);
        let busy = queue(10, usize::MAX);
        busy.push(chunk(1));
        busy.stop(Duration::ZERO);
        assert!(!busy.ended());
        assert_eq!(busy.take().map(|chunks| chunks.len()), Some(1));
        busy.settle(1, 1, 0);
        assert!(busy.take().is_none());
        busy.end();
        assert!(busy.ended() && busy.flush(Duration::from_secs(60)));
    }
}
