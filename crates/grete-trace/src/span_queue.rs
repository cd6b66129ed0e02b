//! Bounded queue between the threads that finish spans and the sender's thread.
//!
//! Chunks that are being sent count until they are completed, so that the limits bound all memory held. The sender
//! sleeps without a deadline while the queue is empty. The first chunk wakes it, and it waits an interval for more,
//! unless half of the room is used or a flush is requested.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::chunk::Chunk;
use crate::config::Config;

/// Limits of the queue.
#[derive(Debug, Clone, Copy)]
struct QueueLimits {
    spans: usize,
    bytes: usize,
    interval: Duration,
}

#[derive(Debug)]
pub(crate) struct SpanQueue {
    limits: QueueLimits,
    state: Mutex<State>,
    /// Wakes the sender: for new chunks or a flush.
    work_available: Condvar,
    /// Wakes threads that wait for the sender.
    completed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    chunks: VecDeque<Chunk>,
    spans: usize,
    bytes: usize,
    /// Arrival of the oldest chunk; `None`: the queue is empty.
    oldest_at: Option<Instant>,
    /// Chunks pushed and completed so far.
    pushed_chunks: u64,
    completed_chunks: u64,
    /// A flush waits for the chunk of this number, and all before it.
    flush_requested: u64,
    started: bool,
    /// Deadline of the close; `None`: not closed.
    close_deadline: Option<Instant>,
    sender_exited: bool,
}

/// Outcome of a push.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PushOutcome {
    Accepted,
    /// The first chunk: the sender's thread must be started.
    SenderNeeded,
    Full,
    Closed,
}

impl SpanQueue {
    pub(crate) fn new(config: &Config) -> Self {
        let bounds = QueueLimits { spans: config.max_spans, bytes: config.max_bytes, interval: config.interval };
        Self { limits: bounds, state: Mutex::default(), work_available: Condvar::new(), completed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a chunk. It never waits, except for a few instructions of another thread.
    pub(crate) fn push(&self, chunk: Chunk) -> PushOutcome {
        let (spans, bytes) = (chunk.spans.len(), chunk.bytes());
        let mut state = self.lock();
        if state.close_deadline.is_some() {
            return PushOutcome::Closed;
        }
        if state.spans + spans > self.limits.spans || state.bytes.saturating_add(bytes) > self.limits.bytes {
            return PushOutcome::Full;
        }
        let was_half_full = state.is_half_full(&self.limits);
        state.spans += spans;
        state.bytes += bytes;
        state.pushed_chunks += 1;
        let first = state.chunks.is_empty();
        if first {
            state.oldest_at = Some(Instant::now());
        }
        state.chunks.push_back(chunk);
        let wake = first || (!was_half_full && state.is_half_full(&self.limits));
        let start = !std::mem::replace(&mut state.started, true);
        drop(state);
        if wake {
            self.work_available.notify_one(); // a system call, so not for every chunk
        }
        if start { PushOutcome::SenderNeeded } else { PushOutcome::Accepted }
    }

    /// Reports that no thread could be started, so that the next push tries again.
    pub(crate) fn on_sender_start_failed(&self) {
        self.lock().started = false;
    }

    /// Waits, in the sender, until chunks are due, and takes them all. `None`: the queue is closed and empty.
    pub(crate) fn wait_due(&self) -> Option<VecDeque<Chunk>> {
        let mut state = self.lock();
        loop {
            let wait = match state.oldest_at {
                None if state.close_deadline.is_some() => return None,
                None => None,
                Some(since) => {
                    let rest = self.limits.interval.saturating_sub(since.elapsed());
                    let urgent = state.close_deadline.is_some()
                        || state.flush_requested > state.completed_chunks
                        || state.is_half_full(&self.limits);
                    if urgent || rest.is_zero() {
                        state.oldest_at = None;
                        return Some(std::mem::take(&mut state.chunks));
                    }
                    Some(rest)
                }
            };
            state = self.wait(&self.work_available, state, wait);
        }
    }

    /// Waits, in the sender, before the next attempt; a flush ends the wait.
    pub(crate) fn backoff_wait(&self, time: Duration) {
        let end = Instant::now() + time;
        let mut state = self.lock();
        let hurry = state.flush_requested;
        while state.close_deadline.is_none() && state.flush_requested == hurry {
            let rest = end.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return;
            }
            state = self.wait(&self.work_available, state, Some(rest));
        }
    }

    /// Reports, in the sender, that chunks of `spans` spans and `bytes` bytes are completed.
    pub(crate) fn complete(&self, chunks: usize, spans: usize, bytes: usize) {
        let mut state = self.lock();
        state.completed_chunks += chunks as u64;
        state.spans = state.spans.saturating_sub(spans);
        state.bytes = state.bytes.saturating_sub(bytes);
        drop(state);
        self.completed.notify_all();
    }

    /// Returns the time that the sender has left after a close; `None`: not closed.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        self.lock().close_deadline.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Reports that the sender ends.
    pub(crate) fn on_sender_exit(&self) {
        self.lock().sender_exited = true;
        self.completed.notify_all();
    }

    /// Waits until all chunks pushed so far are completed; `false`: not within `timeout`.
    pub(crate) fn flush(&self, timeout: Duration) -> bool {
        let end = Instant::now().checked_add(timeout);
        let mut state = self.lock();
        let wanted = state.pushed_chunks;
        if state.completed_chunks >= wanted {
            return true;
        }
        // Greater than all earlier requests, so that each flush ends a backoff.
        state.flush_requested = wanted.max(state.flush_requested + 1);
        self.work_available.notify_one();
        while state.completed_chunks < wanted && !state.sender_exited {
            let rest = end.map(|end| end.saturating_duration_since(Instant::now()));
            if rest.is_some_and(|rest| rest.is_zero()) {
                return false;
            }
            state = self.wait(&self.completed, state, rest);
        }
        true
    }

    /// Refuses further chunks, and gives the sender `time` for the rest.
    pub(crate) fn close(&self, time: Duration) {
        let mut state = self.lock();
        let now = Instant::now();
        let until = now.checked_add(time).unwrap_or(now + Duration::from_secs(86_400));
        state.close_deadline = Some(state.close_deadline.map_or(until, |before| before.min(until)));
        if !state.started {
            state.sender_exited = true;
        }
        drop(state);
        self.work_available.notify_one();
    }

    /// Waits for the sender's end after [`SpanQueue::close`]; `false`: it took longer.
    pub(crate) fn wait_closed(&self) -> bool {
        let mut state = self.lock();
        while !state.sender_exited {
            let rest = state.close_deadline.map(|until| until.saturating_duration_since(Instant::now()));
            if rest.is_none_or(|rest| rest.is_zero()) {
                return false;
            }
            state = self.wait(&self.completed, state, rest);
        }
        true
    }

    /// Returns the number of spans and bytes held.
    pub(crate) fn pending(&self) -> (usize, usize) {
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
    fn is_half_full(&self, limits: &QueueLimits) -> bool {
        self.spans > limits.spans / 2 || self.bytes > limits.bytes / 2
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

    fn queue(spans: usize, bytes: usize) -> SpanQueue {
        let mut config =
            Config::new("s", crate::endpoint::AgentEndpoint::from_url("http://agent", 1).expect("an agent"));
        config.interval = Duration::from_secs(3600);
        SpanQueue::new(&Config { max_spans: spans, max_bytes: bytes, ..config })
    }

    #[test]
    fn what_does_not_fit_is_refused_until_something_is_settled() {
        let queue = queue(10, usize::MAX);
        assert_eq!(
            [queue.push(chunk(4)), queue.push(chunk(4)), queue.push(chunk(4))],
            [PushOutcome::SenderNeeded, PushOutcome::Accepted, PushOutcome::Full]
        );
        let taken = queue.wait_due().expect("crowded, so that nothing is waited for");
        assert_eq!((taken.len(), queue.push(chunk(3))), (2, PushOutcome::Full), "what is under way counts");
        queue.complete(2, 8, taken.iter().map(Chunk::bytes).sum());
        assert_eq!((queue.push(chunk(10)), queue.push(chunk(1))), (PushOutcome::Accepted, PushOutcome::Full));
    }

    #[test]
    fn bytes_are_bounded_too() {
        let bytes = chunk(4).bytes();
        let queue = queue(1000, 2 * bytes);
        assert_eq!(
            [queue.push(chunk(4)), queue.push(chunk(4)), queue.push(chunk(1))],
            [PushOutcome::SenderNeeded, PushOutcome::Accepted, PushOutcome::Full]
        );
        assert_eq!(queue.pending(), (8, 2 * bytes));
    }

    #[test]
    fn flush_waits_for_earlier_chunks_and_wakes_the_sender() {
        let queue = &queue(1000, usize::MAX);
        assert!(queue.flush(Duration::ZERO), "no span is left to wait for");
        queue.push(chunk(1));
        assert!(!queue.flush(Duration::ZERO));
        thread::scope(|scope| {
            let flush = scope.spawn(|| queue.flush(Duration::from_secs(60)));
            let taken = queue.wait_due().expect("a flush is requested");
            queue.complete(taken.len(), 1, 0);
            assert!(flush.join().expect("a flush"));
        });
    }

    #[test]
    fn flush_ends_a_backoff_wait() {
        let queue = &queue(1000, usize::MAX);
        queue.push(chunk(1));
        thread::scope(|scope| {
            let pause = scope.spawn(|| queue.backoff_wait(Duration::from_secs(3600)));
            while !pause.is_finished() {
                assert!(!queue.flush(Duration::from_millis(1)));
            }
        });
        queue.close(Duration::from_secs(60));
        queue.backoff_wait(Duration::from_secs(3600));
    }

    #[test]
    fn a_closed_queue_accepts_nothing_and_never_blocks() {
        let idle = queue(10, usize::MAX);
        idle.close(Duration::from_secs(60));
        assert!(idle.wait_closed() && idle.wait_due().is_none());
        assert_eq!(idle.push(chunk(1)), PushOutcome::Closed);
        let busy = queue(10, usize::MAX);
        busy.push(chunk(1));
        busy.close(Duration::ZERO);
        assert!(!busy.wait_closed());
        assert_eq!(busy.wait_due().map(|chunks| chunks.len()), Some(1));
        busy.complete(1, 1, 0);
        assert!(busy.wait_due().is_none());
        busy.on_sender_exit();
        assert!(busy.wait_closed() && busy.flush(Duration::from_secs(60)));
    }
}
