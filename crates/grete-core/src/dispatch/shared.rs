//! What a job and its lane share while it runs: rows, marks, progress.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::batch::Batch;
use super::marks::{Fenced, Marks};
use super::route::{Concurrency, OffsetPolicy, RoutePolicy};

/// Rows and marks of a job.
#[derive(Debug)]
pub struct JobShared {
    pub(super) marks: Arc<Marks>,
    policy: OffsetPolicy,
    /// Others work on the same partition: only the job's own rows are its to mark.
    apart: bool,
    rows: Mutex<Rows>,
    /// Rows at the front that the handler is done with.
    progress: AtomicUsize,
    /// The handler stopped there, because the lane leaves.
    cut: AtomicBool,
}

#[derive(Debug, Default)]
struct Rows {
    batch: Option<Batch>,
    /// What the rows were, where marks may come after the job has ended.
    left: Box<[i64]>,
}

impl JobShared {
    pub(super) fn new(marks: &Arc<Marks>, policy: &RoutePolicy) -> Self {
        Self {
            marks: Arc::clone(marks),
            policy: policy.offsets,
            apart: policy.concurrency != Concurrency::Partition,
            rows: Mutex::default(),
            progress: AtomicUsize::new(0),
            cut: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows, once they are decoded and until the job ends.
    #[must_use]
    pub fn batch(&self) -> Option<Batch> {
        self.lock().batch.clone()
    }

    /// Looks at the rows where they are.
    pub(super) fn with_batch<R>(&self, look: impl FnOnce(&Batch) -> R) -> Option<R> {
        self.lock().batch.as_ref().map(look)
    }

    pub(super) fn set_batch(&self, batch: Batch) {
        self.lock().batch = Some(batch);
    }

    /// The job ends: the rows are not its any more.
    pub(super) fn take_batch(&self) -> Option<Batch> {
        let mut rows = self.lock();
        let batch = rows.batch.take()?;
        if self.apart && self.policy == OffsetPolicy::Manual {
            rows.left = batch.offsets().into();
        }
        Some(batch)
    }

    /// First and last offset of the rows.
    #[must_use]
    pub fn offsets(&self) -> Option<(i64, i64)> {
        let rows = self.lock();
        let offsets = rows.batch.as_ref()?.offsets();
        offsets.first().copied().zip(offsets.last().copied())
    }

    /// The first `rows` rows are done: they are not presented again if the job fails. (Where marks alone count, it says
    /// nothing.)
    pub fn progress(&self, rows: usize) {
        self.progress.store(rows, Ordering::Release);
    }

    /// The first rows that are done.
    #[must_use]
    pub fn progressed(&self) -> usize {
        self.progress.load(Ordering::Acquire)
    }

    /// Whether what the job does still counts.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        self.marks.is_fenced()
    }

    /// Whether the lane is on its way out, so that rows that are not begun are better left to its next owner. Never at most
    /// once: there they are committed already, and would come to nobody.
    #[must_use]
    #[inline]
    pub fn is_leaving(&self) -> bool {
        self.marks.is_leaving() && self.policy != OffsetPolicy::AtMostOnce
    }

    /// Asks between two rows whether to stop here, which is when the lane leaves. After `true` the job runs no further row:
    /// its end as [`super::Finished::Done`] then means those that it has told as [`JobShared::progress`], and no others.
    #[must_use]
    #[inline]
    pub fn cut_short(&self) -> bool {
        let leaving = self.is_leaving();
        if leaving {
            self.cut.store(true, Ordering::Release);
        }
        leaving
    }

    /// Whether the job was told to stop before its last row.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Acquire)
    }

    /// Marks the rows with offsets in `first..=last`; works after the job's end, too. Where a partition is worked on as a
    /// whole, these may be rows of earlier jobs. Returns how many were not marked before. Then ask
    /// [`JobShared::take_resumed`].
    ///
    /// # Errors
    /// When the lane was abandoned, lost or sought.
    pub fn mark(&self, first: i64, last: i64) -> Result<u64, Fenced> {
        let new = if self.apart {
            let rows = self.lock();
            let offsets = rows.batch.as_ref().map_or(&*rows.left, Batch::offsets);
            let start = offsets.partition_point(|offset| *offset < first);
            let end = offsets.partition_point(|offset| *offset <= last);
            let meant = offsets.get(start..end).unwrap_or_default();
            self.marks.with(|tracker| tracker.mark_each(meant))?
        } else {
            self.marks.with(|tracker| tracker.mark(first, last))?
        };
        Ok(new as u64)
    }

    /// Marks just the rows with these offsets, ascending; else as [`JobShared::mark`]. Where marks alone count, any row of the
    /// lane that was handed out may be meant: whoever kept a record of an earlier job knows no other job to mark it with.
    ///
    /// # Errors
    /// When the lane was abandoned, lost or sought.
    pub fn mark_rows(&self, offsets: &[i64]) -> Result<u64, Fenced> {
        let new = if self.apart && self.policy != OffsetPolicy::Manual {
            let rows = self.lock();
            let own = rows.batch.as_ref().map_or(&*rows.left, Batch::offsets);
            let meant: Vec<i64> = offsets.iter().copied().filter(|offset| own.binary_search(offset).is_ok()).collect();
            self.marks.with(|tracker| tracker.mark_each(&meant))?
        } else {
            self.marks.with(|tracker| tracker.mark_each(offsets))?
        };
        Ok(new as u64)
    }

    /// Whether a mark has just ended the lane's wait for marks: tell `Dispatch::marked` then. Asking clears it.
    #[must_use]
    pub fn take_resumed(&self) -> bool {
        self.marks.take_resumed()
    }

    /// Lets progress count as marks.
    pub(super) fn mark_progress(&self) {
        let rows = self.progressed();
        if rows == 0 || self.policy != OffsetPolicy::Auto {
            return;
        }
        let state = self.lock();
        let Some(batch) = &state.batch else { return };
        let offsets = batch.offsets();
        let done = offsets.get(..rows.min(offsets.len())).unwrap_or_default();
        // A fenced job's progress counts for nothing, and nobody waits to hear so.
        let _ = self.marks.with(|tracker| tracker.mark_each(done));
    }
}
