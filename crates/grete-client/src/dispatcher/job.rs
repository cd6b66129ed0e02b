//! What workers are given, and what they give back.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use grete_core::dispatch::{Batch, Failure, JobKind, JobShared, LaneId, Lease, Pool, Tally, Trouble};

/// What [`super::Dispatcher::next`] came to.
#[derive(Debug)]
pub enum Next {
    /// Run it, then say how it ended.
    Job(Job),
    /// Nothing came in time.
    TimedOut,
    /// There will be no more jobs for this worker: all is over, or there are to be fewer workers.
    Stopped,
    /// A Unix signal arrived while waiting: let its handler run and call again.
    Interrupted,
}

/// One call of a hook.
#[derive(Debug)]
pub struct Job {
    /// Its name, for marks and for its end.
    pub token: JobToken,
    /// The route's number.
    pub route: u32,
    /// Which of the lane's units; 0 for jobs of the whole lane.
    pub slot: u32,
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
    /// Which hook.
    pub kind: JobKind,
    /// Runs of the first unmarked offset, this one included.
    pub attempt: u32,
    /// Rows, for [`JobKind::Consume`] and [`JobKind::DeadLetter`].
    pub batch: Option<Batch>,
    /// What the record has been through, for [`JobKind::DeadLetter`].
    pub trouble: Option<Arc<Trouble>>,
}

impl Job {
    pub(super) fn new(id: u64, lease: &Lease, over: Arc<AtomicBool>) -> Self {
        Self {
            token: JobToken { id, lane: lease.lane, pool: lease.pool(), shared: Arc::clone(&lease.shared), over },
            route: lease.policy.route,
            slot: lease.slot,
            topic: lease.tp.topic.clone(),
            partition: lease.tp.partition,
            kind: lease.kind,
            attempt: lease.attempt,
            batch: lease.shared.batch(),
            trouble: lease.trouble.clone(),
        }
    }
}

/// Names a job, under way or over.
#[derive(Debug, Clone)]
pub struct JobToken {
    pub(super) id: u64,
    pub(super) lane: LaneId,
    pub(super) pool: Pool,
    pub(super) shared: Arc<JobShared>,
    /// The job has ended, or is just ending: its marks have been, or are about to be, counted.
    pub(super) over: Arc<AtomicBool>,
}

impl JobToken {
    /// Never the same for two jobs of a dispatcher.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The assignment of the partition: never the same for two.
    #[must_use]
    pub fn lane(&self) -> u64 {
        self.lane.as_u64()
    }

    /// The first `rows` rows of the job are done.
    #[inline]
    pub fn progress(&self, rows: usize) {
        self.shared.progress(rows);
    }

    /// Whether nothing that the job does counts any more.
    #[must_use]
    #[inline]
    pub fn is_fenced(&self) -> bool {
        self.shared.is_fenced()
    }

    /// See [`JobShared::is_leaving`].
    #[must_use]
    #[inline]
    pub fn is_leaving(&self) -> bool {
        self.shared.is_leaving()
    }

    /// See [`JobShared::cut_short`].
    #[must_use]
    #[inline]
    pub fn cut_short(&self) -> bool {
        self.shared.cut_short()
    }
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All rows are processed, or those before the job was [cut short](JobToken::cut_short).
    Done,
    /// It raised.
    Failed(Failure),
}

/// What is worth counting about jobs, since the dispatcher was made: of all handlers together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Jobs that ended, failed ones included.
    pub jobs: u64,
    /// Records that are done.
    pub records: u64,
    /// Jobs that failed.
    pub failures: u64,
    /// Records that are in a dead letter topic now.
    pub dead_letters: u64,
    /// Records passed over because they were too old.
    pub expired: u64,
    /// Jobs told as stalled: as longer than `stall_after`, and again as longer than `handler_timeout`.
    pub stalled: u64,
}

impl Counts {
    pub(super) fn of(tallies: &[Tally]) -> Self {
        tallies.iter().fold(Self::default(), |sum, tally| Self {
            jobs: sum.jobs + tally.jobs,
            records: sum.records + tally.records,
            failures: sum.failures + tally.failures,
            dead_letters: sum.dead_letters + tally.dead_letters,
            expired: sum.expired + tally.expired,
            stalled: sum.stalled + tally.stalls + tally.timeouts,
        })
    }
}
