//! Memory that staged records may take.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// Bytes of all staged records of a client, and their limit.
#[derive(Debug)]
pub struct StagingBudget {
    limit: usize,
    /// Bytes of running and ended jobs.
    used: AtomicUsize,
    /// Bytes of jobs that have ended: a commit frees these.
    ended: AtomicUsize,
    /// Futex word: counts the times at which bytes became free.
    freed: AtomicU32,
    has_waiters: AtomicBool,
}

impl StagingBudget {
    /// Creates a budget of `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            used: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            freed: AtomicU32::new(0),
            has_waiters: AtomicBool::new(false),
        }
    }

    /// Returns the limit, in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the bytes in use.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    /// Returns the bytes of ended jobs, which a commit frees.
    pub fn ended(&self) -> usize {
        self.ended.load(Ordering::Acquire)
    }

    /// Returns whether so much is staged that the next commit should not wait for its interval.
    pub fn is_half_full(&self) -> bool {
        self.ended() > self.limit / 2
    }

    /// Takes bytes. Returns false if there is no room.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let taken = self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
            used.checked_add(bytes).filter(|used| *used <= self.limit)
        });
        taken.is_ok()
    }

    /// Counts bytes as those of an ended job.
    pub(crate) fn on_ended(&self, bytes: usize) {
        self.ended.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Frees bytes. `ended`: of an ended job.
    pub(crate) fn free(&self, bytes: usize, ended: bool) {
        if ended {
            self.ended.fetch_sub(bytes, Ordering::AcqRel);
        }
        self.used.fetch_sub(bytes, Ordering::AcqRel);
        self.freed.fetch_add(1, Ordering::AcqRel);
    }

    /// Registers a waiter for room. Returns the futex word, and the value to sleep on.
    ///
    /// A release after this call changes the word, so the sleep does not begin. Try again before the sleep: a release
    /// before this call may have made room.
    pub fn await_room(&self) -> (&AtomicU32, u32) {
        self.has_waiters.store(true, Ordering::SeqCst);
        (&self.freed, self.freed.load(Ordering::SeqCst))
    }

    /// Returns the futex word to wake if threads wait for room; `None`: no thread waits. Call it after bytes were freed.
    pub fn take_waiters(&self) -> Option<&AtomicU32> {
        self.has_waiters.swap(false, Ordering::SeqCst).then_some(&self.freed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_has_a_limit_and_tells_of_room() {
        let budget = StagingBudget::new(100);
        assert!(budget.take(60) && !budget.take(41) && budget.take(40));
        budget.on_ended(60);
        assert!(budget.is_half_full() && budget.take_waiters().is_none());
        let (_, seen) = budget.await_room();
        budget.free(60, true);
        let word = budget.take_waiters().expect("a waiter");
        assert_ne!(word.load(Ordering::SeqCst), seen);
        assert_eq!((budget.used(), budget.ended(), budget.is_half_full()), (40, 0, false));
        assert!(!budget.take(usize::MAX), "no overflow");
    }
}
