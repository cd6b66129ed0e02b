//! Requests from any thread to the network thread, and its responses.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use grete_net::{CallerLoop, Waker};
use grete_sys::{Futex, WakeReason};

/// Core event that may carry a request.
pub(crate) trait CancellableRequest {
    /// Type of the responses.
    type Response;

    /// Builds the event that cancels request `id`, because its caller no longer waits.
    fn cancel(id: u32) -> Self;
}

/// Queue of unsent requests, and table of the requests that wait for a response.
#[derive(Debug)]
pub(crate) struct RequestQueue<Q: CancellableRequest> {
    queue: Mutex<Vec<Q>>,
    pending: Mutex<PendingRequests<Q::Response>>,
    /// Counts when the network thread ends, and when threads that wait for its end must run `before_wait`.
    close_futex: Futex,
    next_id: AtomicU32,
    waker: Waker,
    /// Loop that a waiting caller may lead; unset until the loop exists.
    caller_loop: OnceLock<Box<dyn CallerLoop>>,
}

#[derive(Debug)]
struct PendingRequests<A> {
    waiting: HashMap<u32, PendingRequest<A>>,
    /// The network thread has ended, so no more responses arrive.
    closed: bool,
    /// The client has failed permanently: no more responses arrive, though the network thread continues.
    failed: bool,
}

/// Pending request with its own futex: a response wakes only the caller that waits for it.
#[derive(Debug)]
struct PendingRequest<A> {
    response: Option<A>,
    futex: Arc<Futex>,
}

/// Reason why a request got no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestAborted {
    TimedOut,
    Closed,
    /// `before_wait` has ended the wait.
    Interrupted,
}

impl<Q: CancellableRequest> RequestQueue<Q> {
    pub(crate) fn new(waker: Waker) -> Self {
        Self {
            queue: Mutex::default(),
            pending: Mutex::new(PendingRequests { waiting: HashMap::new(), closed: false, failed: false }),
            close_futex: Futex::default(),
            next_id: AtomicU32::new(1),
            waker,
            caller_loop: OnceLock::new(),
        }
    }

    /// Lets callers step and lead the loop while they wait.
    pub(crate) fn set_caller_loop(&self, event_loop: impl CallerLoop + 'static) {
        let _ = self.caller_loop.set(Box::new(event_loop)); // set once, before any caller has the client
    }

    /// Sends an event that needs no response.
    pub(crate) fn send(&self, event: Q) {
        self.push(event);
        self.waker.wake();
    }

    fn push(&self, event: Q) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// Sends a request for which this thread will wait: the thread writes it itself.
    fn send_and_step(&self, event: Q) {
        self.push(event);
        match self.caller_loop.get() {
            Some(event_loop) => drop(event_loop.step_here()),
            None => self.waker.wake(),
        }
    }

    /// Leads the loop until the count changes, or sleeps on the futex while another caller leads.
    fn await_change(&self, answered: &Futex, seen: u32, timeout: Duration) -> WakeReason {
        let changed = || answered.count() != seen;
        let sleep = || answered.wait(seen, Some(timeout));
        let Some(event_loop) = self.caller_loop.get() else { return sleep() };
        event_loop.lead_until(&changed, Some(timeout)).unwrap_or_else(|| event_loop.sleep_beside(&sleep))
    }

    /// Sends a request and waits for the response. `before_wait` is called before each sleep; its argument says whether
    /// a Unix signal ended the previous sleep. If it returns true, the request is aborted.
    /// [`RequestQueue::wake_callers`] makes it run soon.
    pub(crate) fn request(
        &self,
        timeout: Duration,
        before_wait: impl Fn(bool) -> bool,
        build: impl FnOnce(u32) -> Q,
    ) -> Result<Q::Response, RequestAborted> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed).max(1);
        let deadline = Instant::now() + timeout;
        let answered = Arc::new(Futex::default());
        self.lock().waiting.insert(id, PendingRequest { response: None, futex: Arc::clone(&answered) });
        self.send_and_step(build(id));
        let mut reason = WakeReason::Woken;
        loop {
            // Read before the checks below: a response or a `wake_callers` after them changes the count, so the sleep
            // does not begin.
            let seen = answered.count();
            if let Some(result) = self.try_response(id) {
                return result;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let failure = if left.is_zero() {
                RequestAborted::TimedOut
            } else if before_wait(reason == WakeReason::Interrupted) {
                RequestAborted::Interrupted
            } else {
                reason = self.await_change(&answered, seen, left);
                continue;
            };
            self.lock().waiting.remove(&id);
            self.send(Q::cancel(id));
            return Err(failure);
        }
    }

    /// Returns the response, or the error if none will arrive; `None`: not yet.
    fn try_response(&self, id: u32) -> Option<Result<Q::Response, RequestAborted>> {
        let mut answers = self.lock();
        if answers.waiting.get(&id).is_some_and(|waiting| waiting.response.is_some()) {
            return answers.waiting.remove(&id).and_then(|waiting| waiting.response).map(Ok);
        }
        if !answers.closed && !answers.failed {
            return None;
        }
        answers.waiting.remove(&id);
        let ended = answers.closed;
        drop(answers);
        if !ended {
            self.send(Q::cancel(id));
        }
        Some(Err(RequestAborted::Closed))
    }

    /// Wakes the network thread.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    // ---- the network thread's side

    pub(crate) fn drain(&self) -> Vec<Q> {
        std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn complete(&self, id: u32, response: Q::Response) {
        let mut answers = self.lock();
        let Some(waiting) = answers.waiting.get_mut(&id) else { return };
        waiting.response = Some(response);
        let answered = Arc::clone(&waiting.futex);
        drop(answers); // otherwise the woken caller would block on the lock
        answered.wake();
        self.waker.notify_leader();
    }

    /// Fails all pending requests, because the client has failed permanently. Callers get the error now instead of at
    /// their timeout, and later requests fail at once.
    pub(crate) fn fail_all(&self) {
        let mut answers = self.lock();
        answers.failed = true;
        answers.waiting.values().for_each(|waiting| waiting.futex.wake());
        self.waker.notify_leader();
    }

    /// Makes every thread that waits for a response, or for the end, run its `before_wait`.
    pub(crate) fn wake_callers(&self) {
        self.lock().waiting.values().for_each(|waiting| waiting.futex.wake());
        self.close_futex.wake();
        self.waker.notify_leader();
    }

    pub(crate) fn close(&self) {
        let mut answers = self.lock();
        answers.closed = true;
        answers.waiting.values().for_each(|waiting| waiting.futex.wake());
        drop(answers);
        self.close_futex.wake();
        self.waker.notify_leader();
    }

    /// Waits until the network thread has ended and calls `before_wait` before each sleep. Returns false if the timeout
    /// has passed or `before_wait` returned true.
    pub(crate) fn wait_until_closed(&self, timeout: Duration, before_wait: impl Fn() -> bool) -> bool {
        let deadline = Instant::now() + timeout;
        loop {
            let seen = self.close_futex.count();
            if self.lock().closed {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || before_wait() {
                return false;
            }
            self.close_futex.wait(seen, Some(left));
        }
    }

    fn lock(&self) -> MutexGuard<'_, PendingRequests<Q::Response>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use grete_net::{Clock, EventLoop, NetEvent, Protocol, TransportAction};
    use grete_proto::time::Nanos;
    use grete_wire::buffer_pool::BufferPool;

    use super::*;

    const TEST_TIMEOUT: Duration = Duration::from_secs(60);

    #[derive(Debug, PartialEq)]
    enum TestRequest {
        Double(u32),
        Forget(u32),
    }

    impl CancellableRequest for TestRequest {
        type Response = u32;

        fn cancel(id: u32) -> Self {
            Self::Forget(id)
        }
    }

    struct Idle;

    impl Protocol for Idle {
        fn step(&mut self, _: Nanos, _: NetEvent, _: &mut Vec<TransportAction>) {}

        fn deadline(&self) -> Option<Nanos> {
            None
        }

        fn is_finished(&self) -> bool {
            true
        }
    }

    fn queue() -> RequestQueue<TestRequest> {
        let idle = EventLoop::new(Clock::new(), BufferPool::new(0), 1 << 20, |_| Idle).expect("descriptors");
        RequestQueue::new(idle.waker())
    }

    fn wait_for_request(commands: &RequestQueue<TestRequest>) -> u32 {
        loop {
            match commands.drain().first() {
                Some(TestRequest::Double(id)) => return *id,
                _ => thread::yield_now(),
            }
        }
    }

    #[test]
    fn each_caller_gets_the_response_to_its_own_request() {
        let commands = &queue();
        thread::scope(|scope| {
            let first = scope.spawn(|| commands.request(TEST_TIMEOUT, |_| false, TestRequest::Double));
            let first_id = wait_for_request(commands);
            let second = scope.spawn(|| commands.request(TEST_TIMEOUT, |_| false, TestRequest::Double));
            let second_id = wait_for_request(commands);
            commands.complete(second_id, 2 * second_id);
            assert_eq!(second.join().expect("no panic"), Ok(2 * second_id));
            assert!(!first.is_finished());
            commands.complete(first_id, 2 * first_id);
            assert_eq!(first.join().expect("no panic"), Ok(2 * first_id));
        });
        assert!(commands.drain().is_empty(), "nothing to forget");
    }

    #[test]
    fn a_caller_that_times_out_cancels_its_request() {
        let commands = queue();
        let late = commands.request(Duration::from_millis(1), |_| false, TestRequest::Double);
        assert_eq!(late, Err(RequestAborted::TimedOut));
        let [TestRequest::Double(id), TestRequest::Forget(forgotten)] = commands.drain()[..] else {
            panic!("a question and its end")
        };
        assert_eq!(id, forgotten);
        commands.complete(id, 7); // no caller waits
    }

    #[test]
    fn wake_callers_runs_every_before_wait() {
        let commands = &queue();
        let attended = &AtomicU32::new(0);
        thread::scope(|scope| {
            let asking = scope.spawn(move || {
                commands.request(TEST_TIMEOUT, |_| attended.fetch_add(1, Ordering::SeqCst) > 1000, TestRequest::Double)
            });
            let attend = move || attended.fetch_add(1, Ordering::SeqCst) == u32::MAX;
            let closing = scope.spawn(move || commands.wait_until_closed(TEST_TIMEOUT, attend));
            while !asking.is_finished() {
                commands.wake_callers();
            }
            assert_eq!(asking.join().expect("no panic"), Err(RequestAborted::Interrupted));
            commands.close();
            assert!(closing.join().expect("no panic"));
        });
    }

    #[test]
    fn a_request_after_the_failure_aborts_at_once() {
        let commands = queue();
        commands.fail_all();
        assert_eq!(commands.request(TEST_TIMEOUT, |_| false, TestRequest::Double), Err(RequestAborted::Closed));
        let [TestRequest::Double(id), TestRequest::Forget(forgotten)] = commands.drain()[..] else {
            panic!("a question and its end")
        };
        assert_eq!(id, forgotten);
    }

    #[test]
    fn the_end_of_the_thread_ends_every_wait() {
        let commands = &queue();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| commands.request(TEST_TIMEOUT, |_| false, TestRequest::Double));
            wait_for_request(commands);
            assert!(!commands.wait_until_closed(Duration::ZERO, || false));
            commands.close();
            assert_eq!(waiting.join().expect("no panic"), Err(RequestAborted::Closed));
        });
        assert!(commands.wait_until_closed(TEST_TIMEOUT, || false));
        assert_eq!(commands.request(TEST_TIMEOUT, |_| false, TestRequest::Double), Err(RequestAborted::Closed));
    }
}
