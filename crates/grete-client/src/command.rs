//! Questions and orders from any thread to the network thread, and the answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use grete_core::consumer::{ConsumerEvent, ConsumerReply};
use grete_net::Waker;

/// What waits to be carried out, and what waits to be answered.
#[derive(Debug)]
pub(crate) struct Commands {
    queue: Mutex<Vec<ConsumerEvent>>,
    answers: Mutex<Answers>,
    answered: Condvar,
    next_id: AtomicU32,
    waker: Waker,
}

#[derive(Debug, Default)]
struct Answers {
    waiting: HashMap<u32, Option<ConsumerReply>>,
    /// The network thread has ended: nothing will be answered any more.
    ended: bool,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    TimedOut,
    Ended,
}

impl Commands {
    pub(crate) fn new(waker: Waker) -> Self {
        Self {
            queue: Mutex::default(),
            answers: Mutex::default(),
            answered: Condvar::new(),
            next_id: AtomicU32::new(1),
            waker,
        }
    }

    /// Orders something that needs no answer.
    pub(crate) fn send(&self, event: ConsumerEvent) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        self.waker.wake();
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask(
        &self,
        timeout: Duration,
        question: impl FnOnce(u32) -> ConsumerEvent,
    ) -> Result<ConsumerReply, NoAnswer> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed).max(1);
        let deadline = Instant::now() + timeout;
        let mut answers = self.lock();
        answers.waiting.insert(id, None);
        drop(answers);
        self.send(question(id));
        let mut answers = self.lock();
        loop {
            if let Some(Some(_)) = answers.waiting.get(&id)
                && let Some(Some(reply)) = answers.waiting.remove(&id)
            {
                return Ok(reply);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let given_up = !answers.waiting.contains_key(&id);
            let failure = match (answers.ended || given_up, left.is_zero()) {
                (true, _) => NoAnswer::Ended,
                (_, true) => NoAnswer::TimedOut,
                _ => {
                    answers = self.answered.wait_timeout(answers, left).unwrap_or_else(PoisonError::into_inner).0;
                    continue;
                }
            };
            answers.waiting.remove(&id);
            drop(answers);
            if failure == NoAnswer::TimedOut || given_up {
                self.send(ConsumerEvent::Forget(id));
            }
            return Err(failure);
        }
    }

    // ---- the network thread's side

    pub(crate) fn take(&self) -> Vec<ConsumerEvent> {
        std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn answer(&self, id: u32, reply: ConsumerReply) {
        if let Some(place) = self.lock().waiting.get_mut(&id) {
            *place = Some(reply);
            self.answered.notify_all();
        }
    }

    /// The client has failed for good: whoever waits shall hear that now, not when their time is up.
    pub(crate) fn give_up(&self) {
        self.lock().waiting.retain(|_, reply| reply.is_some());
        self.answered.notify_all();
    }

    pub(crate) fn end(&self) {
        self.lock().ended = true;
        self.answered.notify_all();
    }

    /// Waits until the network thread has ended. False: it has not, within `timeout`.
    pub(crate) fn wait_for_end(&self, timeout: Duration) -> bool {
        let not_ended = |answers: &mut Answers| !answers.ended;
        let guard = self.lock();
        let waited = self.answered.wait_timeout_while(guard, timeout, not_ended);
        waited.unwrap_or_else(PoisonError::into_inner).0.ended
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
