//! Questions and orders from any thread to the network thread, and the answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use grete_net::{Futex, Waited, Waker};

/// An event of the core that may carry a question.
pub(crate) trait Question {
    /// What its answers are.
    type Answer;

    /// Nobody waits for that answer any more.
    fn forget(id: u32) -> Self;
}

/// What waits to be carried out, and what waits to be answered.
#[derive(Debug)]
pub(crate) struct Commands<Q: Question> {
    queue: Mutex<Vec<Q>>,
    answers: Mutex<Answers<Q::Answer>>,
    /// Counts once.
    end: Futex,
    next_id: AtomicU32,
    waker: Waker,
}

#[derive(Debug)]
struct Answers<A> {
    waiting: HashMap<u32, Waiting<A>>,
    /// The network thread has ended: nothing will be answered any more.
    ended: bool,
    /// The client has failed for good: nothing will be answered any more, though the thread goes on.
    given_up: bool,
}

/// Each question has a sleep of its own: an answer wakes whoever asked for it, and nobody else.
#[derive(Debug)]
struct Waiting<A> {
    answer: Option<A>,
    answered: Arc<Futex>,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    TimedOut,
    Ended,
    /// The caller has said so.
    Interrupted,
}

impl<Q: Question> Commands<Q> {
    pub(crate) fn new(waker: Waker) -> Self {
        Self {
            queue: Mutex::default(),
            answers: Mutex::new(Answers { waiting: HashMap::new(), ended: false, given_up: false }),
            end: Futex::default(),
            next_id: AtomicU32::new(1),
            waker,
        }
    }

    /// Orders something that needs no answer.
    pub(crate) fn send(&self, event: Q) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        self.waker.wake();
    }

    /// Asks, and waits for the answer. After each Unix signal that ends the sleep, `interrupted` says whether to give up.
    pub(crate) fn ask(
        &self,
        timeout: Duration,
        interrupted: impl Fn() -> bool,
        question: impl FnOnce(u32) -> Q,
    ) -> Result<Q::Answer, NoAnswer> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed).max(1);
        let deadline = Instant::now() + timeout;
        let answered = Arc::new(Futex::default());
        self.lock().waiting.insert(id, Waiting { answer: None, answered: Arc::clone(&answered) });
        self.send(question(id));
        loop {
            // Before the look: an answer that comes after it changes the count, and the sleep does not begin.
            let seen = answered.count();
            if let Some(result) = self.look(id) {
                return result;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let failure = if left.is_zero() {
                NoAnswer::TimedOut
            } else if answered.wait(seen, Some(left)) == Waited::Interrupted && interrupted() {
                NoAnswer::Interrupted
            } else {
                continue;
            };
            self.lock().waiting.remove(&id);
            self.send(Q::forget(id));
            return Err(failure);
        }
    }

    /// The answer, or that none will come; `None`: not yet.
    fn look(&self, id: u32) -> Option<Result<Q::Answer, NoAnswer>> {
        let mut answers = self.lock();
        if answers.waiting.get(&id).is_some_and(|waiting| waiting.answer.is_some()) {
            return answers.waiting.remove(&id).and_then(|waiting| waiting.answer).map(Ok);
        }
        if !answers.ended && !answers.given_up {
            return None;
        }
        answers.waiting.remove(&id);
        let ended = answers.ended;
        drop(answers);
        if !ended {
            self.send(Q::forget(id));
        }
        Some(Err(NoAnswer::Ended))
    }

    // ---- the network thread's side

    pub(crate) fn take(&self) -> Vec<Q> {
        std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn answer(&self, id: u32, answer: Q::Answer) {
        let mut answers = self.lock();
        let Some(waiting) = answers.waiting.get_mut(&id) else { return };
        waiting.answer = Some(answer);
        let answered = Arc::clone(&waiting.answered);
        drop(answers); // or whoever wakes would run into the lock
        answered.wake();
    }

    /// The client has failed for good: whoever waits shall hear that now, not when their time is up, and so shall whoever
    /// asks later.
    pub(crate) fn give_up(&self) {
        let mut answers = self.lock();
        answers.given_up = true;
        answers.waiting.values().for_each(|waiting| waiting.answered.wake());
    }

    pub(crate) fn end(&self) {
        let mut answers = self.lock();
        answers.ended = true;
        answers.waiting.values().for_each(|waiting| waiting.answered.wake());
        drop(answers);
        self.end.wake();
    }

    /// Waits until the network thread has ended. False: it has not, within `timeout`.
    pub(crate) fn wait_for_end(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        loop {
            let seen = self.end.count();
            if self.lock().ended {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.end.wait(seen, Some(left));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Answers<Q::Answer>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use grete_core::time::Nanos;
    use grete_net::{Clock, EventLoop, NetAction, NetEvent, Protocol};
    use grete_wire::slab::SlabPool;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[derive(Debug, PartialEq)]
    enum Word {
        Double(u32),
        Forget(u32),
    }

    impl Question for Word {
        type Answer = u32;

        fn forget(id: u32) -> Self {
            Self::Forget(id)
        }
    }

    struct Idle;

    impl Protocol for Idle {
        fn step(&mut self, _: Nanos, _: NetEvent, _: &mut Vec<NetAction>) {}

        fn deadline(&self) -> Option<Nanos> {
            None
        }

        fn is_finished(&self) -> bool {
            true
        }
    }

    fn commands() -> Commands<Word> {
        let idle = EventLoop::new(Clock::new(), SlabPool::new(0), 1 << 20, |_| Idle).expect("descriptors");
        Commands::new(idle.waker())
    }

    fn asked(commands: &Commands<Word>) -> u32 {
        loop {
            match commands.take().first() {
                Some(Word::Double(id)) => return *id,
                _ => thread::yield_now(),
            }
        }
    }

    #[test]
    fn each_caller_gets_the_answer_to_its_own_question() {
        let commands = &commands();
        thread::scope(|scope| {
            let first = scope.spawn(|| commands.ask(PATIENCE, || false, Word::Double));
            let first_id = asked(commands);
            let second = scope.spawn(|| commands.ask(PATIENCE, || false, Word::Double));
            let second_id = asked(commands);
            commands.answer(second_id, 2 * second_id);
            assert_eq!(second.join().expect("no panic"), Ok(2 * second_id));
            assert!(!first.is_finished());
            commands.answer(first_id, 2 * first_id);
            assert_eq!(first.join().expect("no panic"), Ok(2 * first_id));
        });
        assert!(commands.take().is_empty(), "nothing to forget");
    }

    #[test]
    fn who_waits_no_longer_says_so() {
        let commands = commands();
        let late = commands.ask(Duration::from_millis(1), || false, Word::Double);
        assert_eq!(late, Err(NoAnswer::TimedOut));
        let [Word::Double(id), Word::Forget(forgotten)] = commands.take()[..] else { panic!("a question and its end") };
        assert_eq!(id, forgotten);
        commands.answer(id, 7); // finds nobody
    }

    #[test]
    fn who_asks_after_the_failure_hears_of_it_at_once() {
        let commands = commands();
        commands.give_up();
        assert_eq!(commands.ask(PATIENCE, || false, Word::Double), Err(NoAnswer::Ended));
        let [Word::Double(id), Word::Forget(forgotten)] = commands.take()[..] else { panic!("a question and its end") };
        assert_eq!(id, forgotten);
    }

    #[test]
    fn the_end_of_the_thread_is_the_end_of_every_wait() {
        let commands = &commands();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| commands.ask(PATIENCE, || false, Word::Double));
            asked(commands);
            assert!(!commands.wait_for_end(Duration::ZERO));
            commands.end();
            assert_eq!(waiting.join().expect("no panic"), Err(NoAnswer::Ended));
        });
        assert!(commands.wait_for_end(PATIENCE));
        assert_eq!(commands.ask(PATIENCE, || false, Word::Double), Err(NoAnswer::Ended));
    }
}
