//! Leadership: which caller, if any, waits for the sockets itself, and how other threads reach it.
//!
//! Every socket is registered with two selectors, first with that of the callers and then with that of the network
//! thread, each time with EPOLLEXCLUSIVE. The kernel goes through the registrations in this order and stops at the
//! first selector in which a thread waits. So a caller that waits in the callers' selector gets what arrives, and the
//! network thread sleeps on. If no caller waits there, the network thread gets it. Taking and giving up the lead thus
//! costs no system call, and no thread has to be woken. (A kernel with another order would wake the network thread
//! each time, as if no caller led: slower, and just as correct.)
//!
//! One caller leads at a time. Its word has three bits:
//!
//! ```text
//! take         0 or NOTIFIED -> LEADING                  else: another caller leads, so sleep on a futex
//! fall_asleep  LEADING -> LEADING | ASLEEP               LEADING | NOTIFIED -> LEADING: look again instead
//! wake_up      -> LEADING                                after the wait in the selector
//! notify       | NOTIFIED                                was ASLEEP and not NOTIFIED: signal the eventfd, too
//! leave        -> 0
//! ```
//!
//! # Races
//!
//! - **What the leader waits for happens before it sleeps.** The other thread changes the awaited word, then notifies.
//!   The leader takes the lead, then checks the awaited word, then falls asleep. Both threads change the leadership
//!   word in between, so one is first. If `notify` is before `take`, the leader's check sees the awaited word changed.
//!   If `notify` is between `take` and `fall_asleep`, the latter finds `NOTIFIED`, and the leader checks again. If
//!   `notify` is after `fall_asleep`, it finds `ASLEEP` and signals the eventfd, which ends the wait or prevents it.
//! - **A socket becomes ready while the leader is awake.** It waits in no selector, so the network thread is woken. It
//!   handles the socket, completes what is complete, and notifies. If the leader has handled the socket meanwhile, the
//!   network thread finds nothing to read.
//! - **The same behind a closed gate** (see the module `gate`). The socket stays in the ready list behind the gate. The
//!   leader handles it with its next wait, or leaves before that: when the gate opens, the selector of the network thread
//!   reports what is still ready behind it.
//! - **A socket becomes ready while the leader's wait ends for another reason** (timeout, signal, eventfd). The kernel
//!   takes the thread out of the selector's queue under the selector's lock. Before that the socket is in the result of
//!   the wait; after that the network thread is woken. The leader handles every socket in the result before it leaves,
//!   whatever it was woken for.
//! - **The leader leaves while others wait on futexes.** The network thread gets what arrives for them, as if there had
//!   been no leader. No lead is handed over.
//! - **The leader panics.** The drop of its guard leaves. The lock of the loop is poisoned if the panic was under it,
//!   and the network thread fails the client, see the module `handle`.
//! - **The process is stopped (SIGSTOP) or forks.** A stop halts all threads alike. In a child no thread waits, the
//!   selectors are closed, and clients refuse to work.
//! - **Timers.** The network thread keeps them, with and without a leader. It sleeps in its own selector until the next one.

use std::sync::atomic::{AtomicU32, Ordering};

const LEADING: u32 = 1;
const ASLEEP: u32 = 2;
const NOTIFIED: u32 = 4;

/// Atomic word: the real one, or that of a model checker that tries all orders.
pub(crate) trait LeadershipWord {
    fn load(&self) -> u32;
    fn fetch_or(&self, bits: u32) -> u32;
    fn swap(&self, value: u32) -> u32;
    fn compare_exchange(&self, current: u32, new: u32) -> Result<u32, u32>;
}

macro_rules! implement_word {
    ($atomic:ty) => {
        impl LeadershipWord for $atomic {
            fn load(&self) -> u32 {
                self.load(Ordering::SeqCst)
            }

            fn fetch_or(&self, bits: u32) -> u32 {
                self.fetch_or(bits, Ordering::SeqCst)
            }

            fn swap(&self, value: u32) -> u32 {
                self.swap(value, Ordering::SeqCst)
            }

            fn compare_exchange(&self, current: u32, new: u32) -> Result<u32, u32> {
                self.compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst)
            }
        }
    };
}

implement_word!(AtomicU32);

/// State machine of the lead; see the module.
#[derive(Debug, Default)]
pub(crate) struct Leadership<W: LeadershipWord>(W);

impl<W: LeadershipWord> Leadership<W> {
    /// Takes the lead until the guard is dropped. `None`: another caller leads.
    pub(crate) fn take(&self) -> Option<Lead<'_, W>> {
        let mut before = 0;
        while before & LEADING == 0 {
            match self.0.compare_exchange(before, LEADING) {
                Ok(_) => return Some(Lead(self)),
                Err(now) => before = now,
            }
        }
        None
    }

    /// Makes the leader check what it waits for. Call it after the change. Returns true if the leader's eventfd must be
    /// signalled, because the leader may wait in the selector.
    pub(crate) fn notify(&self) -> bool {
        self.0.fetch_or(NOTIFIED) & (ASLEEP | NOTIFIED) == ASLEEP
    }
}

/// Guard of the caller that leads.
pub(crate) struct Lead<'a, W: LeadershipWord>(&'a Leadership<W>);

impl<W: LeadershipWord> Lead<'_, W> {
    /// Announces the wait in the selector. Returns false after a notification: check again instead of waiting.
    pub(crate) fn fall_asleep(&self) -> bool {
        if self.0.0.compare_exchange(LEADING, LEADING | ASLEEP).is_ok() {
            return true;
        }
        self.wake_up();
        false
    }

    /// Ends the wait. What was notified until now is seen by the check that follows.
    pub(crate) fn wake_up(&self) {
        self.0.0.swap(LEADING);
    }
}

impl<W: LeadershipWord> Drop for Lead<'_, W> {
    fn drop(&mut self) {
        self.0.0.swap(0);
    }
}

#[cfg(test)]
mod tests {
    use loom::sync::atomic::{AtomicBool, AtomicU32 as Modelled};
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    use super::super::check_orders as check;
    use super::*;

    implement_word!(Modelled);

    /// One selector as the kernel keeps it: its ready list, and whether a thread waits.
    #[derive(Default)]
    struct Selector {
        socket: bool,
        eventfd: bool,
        waits: bool,
    }

    /// One socket with two exclusive registrations.
    #[derive(Default)]
    struct Kernel {
        /// The socket has bytes to read.
        unread: bool,
        callers: Selector,
        network: Selector,
    }

    struct Model {
        kernel: Mutex<Kernel>,
        callers: Condvar,
        network: Condvar,
        leadership: Leadership<Modelled>,
        /// The awaited word.
        done: AtomicBool,
    }

    /// Reason for the end of a wait in the callers' selector.
    #[derive(PartialEq)]
    enum Woken {
        Events,
        Signal,
    }

    impl Model {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                kernel: Mutex::new(Kernel::default()),
                callers: Condvar::new(),
                network: Condvar::new(),
                leadership: Leadership(Modelled::new(0)),
                done: AtomicBool::new(false),
            })
        }

        /// Bytes arrive: the kernel wakes the first selector in which a thread waits.
        fn arrive(&self) {
            let mut kernel = self.kernel.lock().unwrap();
            kernel.unread = true;
            kernel.callers.socket = true;
            if kernel.callers.waits {
                kernel.callers.waits = false;
                self.callers.notify_one();
            } else {
                kernel.network.socket = true;
                self.network.notify_one();
            }
        }

        fn signal_callers(&self) {
            let mut kernel = self.kernel.lock().unwrap();
            kernel.callers.eventfd = true;
            kernel.callers.waits = false;
            self.callers.notify_one();
        }

        fn signal_network(&self) {
            self.kernel.lock().unwrap().network.eventfd = true;
            self.network.notify_one();
        }

        /// A Unix signal ends the wait, or comes before or after it and ends nothing.
        fn interrupt(&self) {
            let mut kernel = self.kernel.lock().unwrap();
            if std::mem::take(&mut kernel.callers.waits) {
                self.callers.notify_one();
            }
        }

        /// Waits in the callers' selector. A thread that a signal has woken still takes the events that are there.
        fn wait_as_leader(&self) -> Woken {
            let mut kernel = self.kernel.lock().unwrap();
            let ready = |kernel: &Kernel| kernel.callers.eventfd || (kernel.callers.socket && kernel.unread);
            if !ready(&kernel) {
                kernel.callers.waits = true;
                while kernel.callers.waits {
                    kernel = self.callers.wait(kernel).unwrap();
                }
            }
            let events = ready(&kernel);
            kernel.callers.eventfd = false;
            if events { Woken::Events } else { Woken::Signal }
        }

        /// The step: reads the socket and completes what is awaited.
        fn handle(&self) {
            if std::mem::take(&mut self.kernel.lock().unwrap().unread) {
                self.done.store(true, Ordering::Release);
                if self.leadership.notify() {
                    self.signal_callers();
                }
            }
        }

        /// The network thread, until its eventfd is signalled.
        fn run_network(&self) {
            loop {
                let mut kernel = self.kernel.lock().unwrap();
                while !kernel.network.socket && !kernel.network.eventfd {
                    kernel = self.network.wait(kernel).unwrap();
                }
                let ends = kernel.network.eventfd;
                kernel.network.socket = false;
                drop(kernel);
                self.handle();
                if ends {
                    return;
                }
            }
        }

        /// A caller that waits until `done`. Returns whether it led; a signal ends its wait.
        fn wait_until_done(&self) -> bool {
            let Some(lead) = self.leadership.take() else { return false };
            while !self.done.load(Ordering::Acquire) {
                if !lead.fall_asleep() {
                    continue;
                }
                let woken = self.wait_as_leader();
                lead.wake_up();
                if woken == Woken::Signal {
                    break;
                }
                self.handle();
            }
            true
        }
    }

    /// Wake-up of the leader, whichever thread reads the socket: a lost one would be a deadlock, which loom reports.
    #[test]
    fn a_leader_is_woken_wherever_the_bytes_arrive() {
        check(|| {
            let model = Model::new();
            let leader = {
                let model = Arc::clone(&model);
                thread::spawn(move || assert!(model.wait_until_done()))
            };
            let network = {
                let model = Arc::clone(&model);
                thread::spawn(move || model.run_network())
            };
            model.arrive();
            leader.join().expect("no panic");
            assert!(model.done.load(Ordering::Acquire));
            model.signal_network();
            network.join().expect("no panic");
        });
    }

    /// A signal that ends the wait loses no bytes: the leader has handled them, or the network thread does.
    #[test]
    fn bytes_that_arrive_with_a_signal_are_read() {
        check(|| {
            let model = Model::new();
            let leader = {
                let model = Arc::clone(&model);
                thread::spawn(move || model.wait_until_done())
            };
            let other = {
                let model = Arc::clone(&model);
                thread::spawn(move || model.interrupt())
            };
            model.arrive();
            other.join().expect("no panic");
            // The leader may wait on: the bytes that have arrived wake it.
            leader.join().expect("no panic");
            let kernel = model.kernel.lock().unwrap();
            assert!(!kernel.unread || kernel.network.socket, "no thread wakes for the bytes");
        });
    }

    /// Wake-up of the leader by a thread that completes something: a change, then `notify`.
    #[test]
    fn a_notification_is_never_lost() {
        check(|| {
            let model = Model::new();
            let leader = {
                let model = Arc::clone(&model);
                thread::spawn(move || assert!(model.wait_until_done()))
            };
            model.done.store(true, Ordering::Release);
            if model.leadership.notify() {
                model.signal_callers();
            }
            leader.join().expect("no panic");
        });
    }

    #[test]
    fn one_caller_leads_and_the_next_one_may() {
        check(|| {
            let model = Model::new();
            model.done.store(true, Ordering::Release);
            let other = {
                let model = Arc::clone(&model);
                thread::spawn(move || model.wait_until_done())
            };
            let led = model.wait_until_done();
            assert!(other.join().expect("no panic") || led, "at least one has led");
            model.leadership.notify(); // no thread leads
            assert!(model.wait_until_done(), "a notification of the past does not keep the lead");
        });
    }
}
