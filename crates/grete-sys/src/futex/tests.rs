//! Both backends under the same tests.

use std::thread;

use super::*;

#[test]
fn a_wake_up_between_the_check_and_the_wait_is_not_lost() {
    let futex = Futex::default();
    let seen = futex.count();
    futex.wake();
    assert_eq!(futex.wait(seen, None), WakeReason::Woken);
    assert_eq!(futex.wait(futex.count(), Some(Duration::from_millis(1))), WakeReason::TimedOut);
}

#[test]
fn a_waiter_is_woken_by_another_thread() {
    let futex = &Futex::default();
    thread::scope(|scope| {
        for _ in 0..1000 {
            let seen = futex.count();
            let sleeper = scope.spawn(move || {
                let mut now = seen;
                while now == seen {
                    assert_ne!(futex.wait(seen, Some(Duration::from_secs(60))), WakeReason::TimedOut);
                    now = futex.count();
                }
            });
            futex.wake();
            sleeper.join().expect("it woke");
        }
    });
}

macro_rules! tests_of {
    ($backend:ident) => {
        mod $backend {
            use std::sync::atomic::{AtomicU32, Ordering};
            use std::thread;
            use std::time::Duration;

            use crate::fork;
            use crate::futex::WakeReason;
            use crate::futex::$backend::{futex_wait, futex_wake_all};

            #[test]
            fn a_wait_lasts_until_the_word_changes() {
                let word = &AtomicU32::new(7);
                assert_eq!(futex_wait(word, 6, None), WakeReason::Woken);
                assert_eq!(futex_wait(word, 7, Some(Duration::from_millis(1))), WakeReason::TimedOut);
                thread::scope(|scope| {
                    let sleeper = scope.spawn(|| {
                        while word.load(Ordering::SeqCst) == 7 {
                            assert_ne!(futex_wait(word, 7, Some(Duration::from_secs(60))), WakeReason::TimedOut);
                        }
                    });
                    word.store(8, Ordering::SeqCst);
                    futex_wake_all(word);
                    sleeper.join().expect("it woke");
                });
            }

            #[test]
            fn threads_pass_a_token_through_words_that_share_buckets() {
                const TURNS: u32 = 2000;
                let words: Vec<AtomicU32> = (0..200).map(|_| AtomicU32::new(0)).collect();
                let pass = |from: usize, to: usize| {
                    for turn in 1..=TURNS {
                        while words[from].load(Ordering::SeqCst) < turn {
                            let reason = futex_wait(&words[from], turn - 1, Some(Duration::from_secs(60)));
                            assert_ne!(reason, WakeReason::TimedOut);
                        }
                        words[to].store(turn, Ordering::SeqCst);
                        futex_wake_all(&words[to]);
                    }
                };
                thread::scope(|scope| {
                    for (from, to) in [(0, 64), (64, 128), (128, 199)] {
                        scope.spawn(move || pass(from, to));
                    }
                    for turn in 1..=TURNS {
                        words[0].store(turn, Ordering::SeqCst);
                        futex_wake_all(&words[0]);
                        while words[199].load(Ordering::SeqCst) < turn {
                            futex_wait(&words[199], turn - 1, Some(Duration::from_secs(60)));
                        }
                    }
                });
            }

            #[test]
            fn a_signal_interrupts_the_wait() {
                extern "C" fn nothing(_: libc::c_int) {}
                // SAFETY: installs a handler that does nothing, without SA_RESTART, for a signal that only these tests
                // use.
                unsafe {
                    let mut action: libc::sigaction = std::mem::zeroed();
                    action.sa_sigaction = nothing as *const () as usize;
                    assert_eq!(libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()), 0);
                }
                let word = AtomicU32::new(1);
                let (sender, receiver) = std::sync::mpsc::channel();
                thread::scope(|scope| {
                    let sleeper = scope.spawn(|| {
                        // SAFETY: pthread_self has no preconditions.
                        sender.send(unsafe { libc::pthread_self() } as usize).expect("a receiver");
                        futex_wait(&word, 1, Some(Duration::from_secs(60)))
                    });
                    let thread = receiver.recv().expect("the sleeper's name");
                    // A signal that arrives before the sleep interrupts nothing, so it is sent until the sleep has
                    // ended.
                    while !sleeper.is_finished() {
                        // SAFETY: the thread is joined below, so its id is valid until then.
                        unsafe { libc::pthread_kill(thread as libc::pthread_t, libc::SIGUSR2) };
                        thread::yield_now();
                    }
                    assert_eq!(sleeper.join().expect("it woke"), WakeReason::Interrupted);
                });
            }

            /// A child that wakes what its parent's threads sleep on wakes none of them, and writes to no descriptor.
            #[test]
            fn a_forked_child_waits_and_wakes_on_its_own() {
                let word = &AtomicU32::new(0);
                thread::scope(|scope| {
                    let sleeper = scope.spawn(|| {
                        while word.load(Ordering::SeqCst) == 0 {
                            futex_wait(word, 0, Some(Duration::from_secs(60)));
                        }
                    });
                    for _ in 0..50 {
                        let status = fork::status_of_child(|| {
                            futex_wake_all(word);
                            futex_wait(word, 0, Some(Duration::from_millis(1))) == WakeReason::TimedOut
                        });
                        assert_eq!(status, 0);
                    }
                    assert!(!sleeper.is_finished());
                    word.store(1, Ordering::SeqCst);
                    futex_wake_all(word);
                    sleeper.join().expect("it woke");
                });
            }
        }
    };
}

#[cfg(all(target_os = "linux", not(grete_portable)))]
tests_of!(kernel);
tests_of!(table);
