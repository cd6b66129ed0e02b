//! Step gate: reports to callers whether a step of the driver is under way.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use grete_sys::futex::futex_wake_all;

/// A step completes records in the accumulator first and performs its actions second: among these it queues the
/// completions. A caller that reads the accumulator in between finds its records complete and no completion pending:
///
/// 1. the network thread settles the last batch, under the lock of the accumulator;
/// 2. a caller of `flush` takes that lock, finds nothing left to wait for, runs no callback, and would return;
/// 3. the network thread queues the completion, for which the callbacks wait.
///
/// The gate closes that gap: it is marked before the step takes the lock of the accumulator and unmarked after the last
/// action. A caller that finds its records complete under that lock therefore sees the mark of the step that has
/// completed them, until the step's completions are queued. It waits for the end of any step that it sees.
#[derive(Debug, Default)]
pub(in crate::producer) struct StepGate {
    /// Number of begun steps plus number of ended steps: odd while a step is under way. One thread steps at a time.
    count: AtomicU32,
    is_awaited: AtomicBool,
}

impl StepGate {
    /// Marks a step as under way until the guard is dropped, also by a panic.
    pub(in crate::producer) fn begin(&self) -> StepGuard<'_> {
        self.count.fetch_add(1, Ordering::SeqCst);
        StepGuard(self)
    }

    /// Returns the futex word and the value to sleep on; `None`: no step is under way.
    ///
    /// `is_awaited` is set before the count is read, and the end of a step changes the count before it reads
    /// `is_awaited`: either that end wakes the sleeper, or this call or the kernel sees the new count.
    pub(in crate::producer) fn prepare_wait(&self) -> Option<(&AtomicU32, u32)> {
        self.is_awaited.store(true, Ordering::SeqCst);
        let count = self.count.load(Ordering::SeqCst);
        (count % 2 == 1).then_some((&self.count, count))
    }
}

/// Drop guard that ends a step.
#[derive(Debug)]
pub(in crate::producer) struct StepGuard<'a>(&'a StepGate);

impl Drop for StepGuard<'_> {
    fn drop(&mut self) {
        self.0.count.fetch_add(1, Ordering::SeqCst);
        if self.0.is_awaited.swap(false, Ordering::SeqCst) {
            futex_wake_all(&self.0.count);
        }
    }
}
