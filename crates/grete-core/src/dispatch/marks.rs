//! A lane's tracker, shared with the jobs that mark into it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::tracker::Tracker;

/// One for each position history of a lane. Jobs mark here without the dispatcher's lock.
///
/// Two races are settled by the mutex. A mark against the end of the assignment: either it comes before the fence and
/// counts, or it is refused. A mark against a lane that finds too many records open: the lane looks and begins to wait
/// in one go (`Tracker::wait_for`), so a mark comes before, and the lane sees it, or after, and sees the lane wait.
#[derive(Debug, Default)]
pub(super) struct Marks {
    tracker: Mutex<Tracker>,
    /// As the tracker counts it; written under the mutex, for those who look without it.
    done: AtomicU64,
    /// Written under the mutex.
    fenced: AtomicBool,
    /// The lane is on its way out: what is not begun is the next owner's. Never taken back.
    leaving: AtomicBool,
    resumed: AtomicBool,
}

/// The lane has gone to somebody else, or was sought: what the job did no longer counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fenced;

impl Marks {
    pub(super) fn new(tracker: Tracker) -> Self {
        Self { tracker: Mutex::new(tracker), ..Self::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Tracker> {
        self.tracker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at, or changes, the tracker, unless it is fenced.
    pub(super) fn with<R>(&self, act: impl FnOnce(&mut Tracker) -> R) -> Result<R, Fenced> {
        let mut tracker = self.lock();
        if self.is_fenced() {
            return Err(Fenced);
        }
        let result = act(&mut tracker);
        self.done.store(tracker.done(), Ordering::Relaxed);
        if tracker.take_resumed() {
            self.resumed.store(true, Ordering::Release);
        }
        Ok(result)
    }

    /// Records that are done by marks.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Nothing counts any more.
    pub(super) fn fence(&self) {
        let _tracker = self.lock();
        self.fenced.store(true, Ordering::Release);
    }

    pub(super) fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::Acquire)
    }

    /// The lane is on its way out; marks still count.
    pub(super) fn leave(&self) {
        self.leaving.store(true, Ordering::Release);
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    /// Whether the lane waited for marks, and need not any longer. Asking clears it: whoever hears it tells the dispatcher.
    pub(super) fn take_resumed(&self) -> bool {
        self.resumed.load(Ordering::Acquire) && self.resumed.swap(false, Ordering::AcqRel)
    }
}
