//! Offset tracker of a lane, shared with the jobs that mark in it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::tracker::OffsetTracker;

/// Shared tracker; a lane gets another one with each reset of its position. Jobs mark here without the dispatcher's
/// lock.
///
/// The mutex settles two races:
/// - A mark against the end of the assignment. Either the mark comes before the fence and counts, or it is refused.
/// - A mark against a lane that finds too many records open. The lane checks and begins to wait in one step
///   (`OffsetTracker::wait_until_below`). So the mark comes before, and the lane sees the mark; or it comes after, and
///   sees that the lane waits.
#[derive(Debug, Default)]
pub(in crate::dispatch) struct SharedTracker {
    tracker: Mutex<OffsetTracker>,
    /// Copy of the tracker's count; written under the mutex, read without it.
    marked_records: AtomicU64,
    /// Written under the mutex.
    fenced: AtomicBool,
    /// The lane is leaving: records that are not started belong to its next owner. Never reset.
    leaving: AtomicBool,
    resumed: AtomicBool,
}

/// Error of a job whose lane was lost or abandoned, or whose position was moved by a seek: its marks do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fenced;

/// Reason why a mark does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkError {
    /// The lane was lost or abandoned, or its position was moved by a seek; see [`Fenced`].
    Fenced,
    /// A record that the job produced before the mark was not written.
    Undelivered,
}

impl From<Fenced> for MarkError {
    fn from(_: Fenced) -> Self {
        Self::Fenced
    }
}

impl SharedTracker {
    pub(in crate::dispatch) fn new(tracker: OffsetTracker) -> Self {
        Self { tracker: Mutex::new(tracker), ..Self::default() }
    }

    fn lock(&self) -> MutexGuard<'_, OffsetTracker> {
        self.tracker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `act` with the tracker.
    ///
    /// # Errors
    /// [`Fenced`] if the tracker is fenced.
    pub(in crate::dispatch) fn with<R>(&self, act: impl FnOnce(&mut OffsetTracker) -> R) -> Result<R, Fenced> {
        let mut tracker = self.lock();
        if self.is_fenced() {
            return Err(Fenced);
        }
        let result = act(&mut tracker);
        self.marked_records.store(tracker.marked_records(), Ordering::Relaxed);
        if tracker.take_resumed() {
            self.resumed.store(true, Ordering::Release);
        }
        Ok(result)
    }

    /// Returns the number of records that were marked as done.
    pub(in crate::dispatch) fn marked_records(&self) -> u64 {
        self.marked_records.load(Ordering::Relaxed)
    }

    /// Fences the tracker: no mark counts any more.
    pub(in crate::dispatch) fn fence(&self) {
        let _tracker = self.lock();
        self.fenced.store(true, Ordering::Release);
    }

    pub(in crate::dispatch) fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::Acquire)
    }

    /// Sets the lane to leaving; marks still count.
    pub(in crate::dispatch) fn set_leaving(&self) {
        self.leaving.store(true, Ordering::Release);
    }

    pub(in crate::dispatch) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    /// Returns whether the lane waited for marks and need not wait any longer, and clears that flag. The caller then
    /// notifies the dispatcher.
    pub(in crate::dispatch) fn take_resumed(&self) -> bool {
        self.resumed.load(Ordering::Acquire) && self.resumed.swap(false, Ordering::AcqRel)
    }
}
