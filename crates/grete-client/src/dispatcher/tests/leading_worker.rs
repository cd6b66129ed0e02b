//! Model of a worker's sleep while it leads the client's loop, checked in all orders of its threads: its flag, its place in
//! the list of waiters, the leader's notification and the parked thread's token, as in the modules `parking` and `waiters`.

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

/// Dispatcher's state, under its lock.
#[derive(Default)]
struct State {
    jobs: u32,
    /// The worker is in the list of waiters. A thread that takes it out wakes it.
    is_listed: bool,
}

/// Callers' selector and the leadership word, as far as the worker's sleep depends on them. The module `leadership` of
/// `grete-net` has its own model.
#[derive(Default)]
struct Selector {
    is_notified: bool,
    has_response: bool,
    waits: bool,
}

struct Model {
    /// Another caller leads, so the worker is parked.
    lead_is_taken: bool,
    state: Mutex<State>,
    lead_over: AtomicBool,
    selector: Mutex<Selector>,
    selected: Condvar,
    /// `unpark` before `park`.
    token: Mutex<bool>,
    unparked: Condvar,
}

impl Model {
    fn new(lead_is_taken: bool) -> Arc<Self> {
        Arc::new(Self {
            lead_is_taken,
            state: Mutex::new(State::default()),
            lead_over: AtomicBool::new(false),
            selector: Mutex::new(Selector::default()),
            selected: Condvar::new(),
            token: Mutex::new(false),
            unparked: Condvar::new(),
        })
    }

    /// Adds a job and wakes the worker after the lock is released: `Dispatcher::unlock_and_wake` and `Sleep::end`.
    fn add_job(&self) {
        let mut state = self.state.lock().unwrap();
        state.jobs += 1;
        let wakes = std::mem::take(&mut state.is_listed);
        drop(state);
        if wakes {
            self.lead_over.store(true, Ordering::Release);
            self.selector.lock().unwrap().is_notified = true;
            self.selected.notify_one();
            *self.token.lock().unwrap() = true;
            self.unparked.notify_one();
        }
    }

    /// A response with a job arrives: the leader reads it if it waits, else the network thread does.
    fn receive(&self) {
        let mut selector = self.selector.lock().unwrap();
        selector.has_response = selector.waits;
        if selector.has_response {
            self.selected.notify_one();
        } else {
            drop(selector);
            self.add_job();
        }
    }

    /// Leads until the flag is set: `CallerLoop::lead_until`.
    fn lead(&self) {
        self.selector.lock().unwrap().is_notified = false; // by `take`
        while !self.lead_over.load(Ordering::Acquire) {
            let mut selector = self.selector.lock().unwrap();
            selector.waits = true;
            while !selector.is_notified && !selector.has_response {
                selector = self.selected.wait(selector).unwrap();
            }
            selector.waits = false;
            selector.is_notified = false;
            let has_response = std::mem::take(&mut selector.has_response);
            drop(selector);
            if has_response {
                self.add_job();
            }
        }
    }

    /// `Dispatcher::park` until `jobs` jobs are taken. A lost wake-up is a deadlock, which the checker reports.
    fn work(&self, jobs: u32) {
        let mut taken = 0;
        let mut state = self.state.lock().unwrap();
        while taken < jobs {
            taken += std::mem::take(&mut state.jobs);
            if taken == jobs {
                return;
            }
            // After the lock is released, this would undo what a thread has set that found the worker in the list: a
            // deadlock, which this model finds.
            self.lead_over.store(false, Ordering::Release);
            state.is_listed = true;
            drop(state);
            if self.lead_is_taken {
                let mut token = self.token.lock().unwrap();
                while !std::mem::take(&mut *token) {
                    token = self.unparked.wait(token).unwrap();
                }
            } else {
                self.lead();
                *self.token.lock().unwrap() = false; // `park_timeout(0)`
            }
            state = self.state.lock().unwrap();
            state.is_listed = false;
        }
    }
}

/// Runs a worker beside two threads that give it a job each, in all orders with at most three preemptions.
fn check(lead_is_taken: bool) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let model = Model::new(lead_is_taken);
        let worker = {
            let model = Arc::clone(&model);
            thread::spawn(move || model.work(2))
        };
        let other = {
            let model = Arc::clone(&model);
            thread::spawn(move || model.add_job())
        };
        model.receive();
        other.join().expect("no panic");
        worker.join().expect("no panic");
    });
}

#[test]
fn a_worker_that_leads_misses_no_job() {
    check(false);
}

#[test]
fn a_worker_that_could_not_lead_misses_no_job() {
    check(true);
}
