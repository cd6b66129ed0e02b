//! Tests of batch promises between threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::ids::PartitionId;
use crate::producer::batch_promise::{BatchPromise, RunResult};
use crate::producer::{Outcome, RecordResult};

fn written(offset: i64) -> RunResult {
    RunResult { outcome: Outcome::Written, offset: Some(offset), timestamp: None, error: None, at: 5 }
}

fn promise() -> Arc<BatchPromise> {
    Arc::new(BatchPromise::new("orders".into(), 3, PartitionId(0)))
}

/// Completes all records. Returns whether a thread waits.
fn complete(receipt: &Arc<BatchPromise>, result: RunResult) -> bool {
    let mut awaited = false;
    receipt.complete(result, |_| awaited = true);
    awaited
}

/// Completes some records. Returns whether a thread waits.
fn complete_part(receipt: &Arc<BatchPromise>, first: u32, count: u32, result: RunResult, last: bool) -> bool {
    let mut awaited = false;
    receipt.complete_part(first, count, result, last, |_| awaited = true);
    awaited
}

#[test]
fn a_receipt_says_what_became_of_each_record() {
    let receipt = promise();
    assert_eq!((receipt.result(0), receipt.is_complete()), (None, false));
    assert!(!complete(&receipt, written(10)), "no thread waits");
    let expected = RecordResult { outcome: Outcome::Written, offset: Some(12), timestamp: None, error: None, at: 5 };
    assert_eq!((receipt.result(2), receipt.is_complete()), (Some(expected), true));
    assert!(!receipt.watch(), "too late: it is settled");
}

#[test]
fn parts_are_settled_one_by_one() {
    let receipt = promise();
    let seen = receipt.register_waiter();
    assert!(complete_part(&receipt, 2, 2, written(20), false), "a thread waits");
    assert_ne!(receipt.futex().load(Ordering::Relaxed), seen, "so that a sleep on it ends");
    let offset = |index| receipt.result(index).map(|settled| settled.offset.expect("known"));
    assert_eq!([offset(0), offset(1), offset(2), offset(3), offset(4)], [None, None, Some(20), Some(21), None]);
    assert!(!receipt.is_complete() && receipt.watch());
    assert!(complete_part(&receipt, 0, 2, written(10), true));
    assert_eq!((offset(1), receipt.is_complete()), (Some(11), true));
}

/// Model of a futex: a sleep begins only if the word has the expected value, and ends only with a wake.
#[derive(Default)]
struct Kernel {
    sleepers: std::sync::Mutex<u32>,
    wake: std::sync::Condvar,
}

impl Kernel {
    fn wait(&self, word: &AtomicU32, seen: u32) {
        let sleepers = self.sleepers.lock().expect("no panic");
        if word.load(Ordering::SeqCst) != seen {
            return;
        }
        let before = *sleepers;
        let asleep = self.wake.wait_timeout_while(sleepers, Duration::from_secs(20), |now| *now == before);
        assert!(!asleep.expect("no panic").1.timed_out(), "asleep on {seen:#x}, and no thread will ever wake it");
    }

    fn wake(&self) {
        *self.sleepers.lock().expect("no panic") += 1;
        self.wake.notify_all();
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "what is between threads shows with threads")]
fn no_wake_up_is_lost() {
    for round in 0..3000_u32 {
        let parts = 1 + round % 3;
        let (receipt, kernel, go) = (promise(), Kernel::default(), AtomicBool::new(false));
        thread::scope(|scope| {
            for index in 0..parts {
                let (receipt, kernel, go) = (&receipt, &kernel, &go);
                scope.spawn(move || {
                    while !go.load(Ordering::Acquire) {
                        std::hint::spin_loop();
                    }
                    loop {
                        let seen = receipt.register_waiter();
                        if let Some(settled) = receipt.result(index) {
                            assert_eq!(settled.offset, Some(i64::from(index) * 10));
                            return;
                        }
                        kernel.wait(receipt.futex(), seen);
                    }
                });
            }
            go.store(true, Ordering::Release);
            for index in 0..parts {
                let has_waiters = match parts {
                    1 => complete(&receipt, written(0)),
                    _ => complete_part(&receipt, index, 1, written(i64::from(index) * 10), index + 1 == parts),
                };
                if has_waiters {
                    kernel.wake();
                }
            }
        });
        assert!(receipt.is_complete());
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "what is between threads shows with threads")]
fn what_is_said_to_be_settled_can_be_read() {
    let receipts: Vec<Arc<BatchPromise>> = (0..5000).map(|_| promise()).collect();
    let looked_at = AtomicUsize::new(usize::MAX);
    let mut torn = 0;
    let until = |done: &dyn Fn() -> bool| {
        while !done() {
            (0..100).for_each(|_| std::hint::spin_loop());
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for (index, receipt) in receipts.iter().enumerate() {
                until(&|| looked_at.load(Ordering::Acquire) == index);
                complete(receipt, written(1));
            }
        });
        for (index, receipt) in receipts.iter().enumerate() {
            looked_at.store(index, Ordering::Release);
            while !receipt.is_complete() {
                std::hint::spin_loop();
            }
            // Counted, not asserted: the other thread would never end if this thread panicked.
            torn += usize::from(receipt.result(0).is_none());
        }
    });
    assert_eq!(torn, 0);
}
