//! Jobs as handed to workers, and their outcomes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use grete_proto::dispatch::{
    DecodedBatch, Failure, FailureHistory, JobKind, JobState, LaneId, Lease, Pool, RouteStats, StageResult,
    UndeliveredOutput,
};
use grete_proto::producer::{BatchPromise, StagedRecord, StagingBudget};

/// Result of [`super::Dispatcher::next`].
#[derive(Debug)]
pub enum NextJob {
    /// A job: run it, then complete it.
    Job(Job),
    /// The timeout has passed without a job.
    TimedOut,
    /// There are no more jobs for this worker: the dispatcher has stopped, or the number of workers was reduced.
    Stopped,
    /// A Unix signal arrived while waiting: let its handler run, then call again.
    Interrupted,
}

/// One call of a hook.
#[derive(Debug)]
pub struct Job {
    /// Token for marks and for the completion.
    pub token: JobToken,
    /// Number of the route.
    pub route: u32,
    /// Number of the handler instance among those of the lane; 0 for jobs of the whole lane.
    pub slot: u32,
    /// Topic of the records.
    pub topic: Arc<str>,
    /// Partition of the records.
    pub partition: i32,
    /// Hook to call.
    pub kind: JobKind,
    /// Number of runs of the first unmarked offset, including this one.
    pub attempt: u32,
    /// Rows, for [`JobKind::Consume`] and [`JobKind::DeadLetter`]; else `None`.
    pub batch: Option<DecodedBatch>,
    /// Earlier failures of the record, for [`JobKind::DeadLetter`]; else `None`.
    pub failure_history: Option<Arc<FailureHistory>>,
    /// Whether the handler was already called. The job then returns because it has failed, by an exception or by its
    /// outputs.
    pub returned: bool,
}

impl Job {
    pub(super) fn new(id: u64, lease: &Lease, ended: Arc<AtomicBool>) -> Self {
        Self {
            token: JobToken { id, lane: lease.lane, pool: lease.pool(), shared: Arc::clone(&lease.shared), ended },
            route: lease.policy.route,
            slot: lease.instance,
            topic: lease.tp.topic.clone(),
            partition: lease.tp.partition,
            kind: lease.kind,
            attempt: lease.attempt,
            batch: lease.shared.batch(),
            failure_history: lease.failure_history.clone(),
            returned: lease.returned,
        }
    }
}

/// Token of a job in flight or ended.
#[derive(Debug, Clone)]
pub struct JobToken {
    pub(super) id: u64,
    pub(super) lane: LaneId,
    pub(super) pool: Pool,
    pub(super) shared: Arc<JobState>,
    /// Whether the job has ended or is ending: its marks have been, or are about to be, counted.
    pub(super) ended: Arc<AtomicBool>,
}

impl JobToken {
    /// Returns the id of the job, unique within the dispatcher.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the id of the partition's assignment, unique within the dispatcher.
    pub fn lane(&self) -> u64 {
        self.lane.as_u64()
    }

    /// Returns how often the record of a share group was delivered, this delivery included; `None`: it is acknowledged, or
    /// belongs to no share group.
    pub fn deliveries(&self, offset: i64) -> Option<u32> {
        self.shared.deliveries(offset)
    }

    /// Reports that the first `rows` rows of the job are processed.
    #[inline]
    pub fn progress(&self, rows: usize) {
        self.shared.set_completed_rows(rows);
    }

    /// Returns whether the job is fenced: nothing that it does counts any more.
    #[inline]
    pub fn is_fenced(&self) -> bool {
        self.shared.is_fenced()
    }

    /// Reports records that the job has produced: see [`JobState::on_produced`].
    #[inline]
    pub fn produced(&self, receipt: &Arc<BatchPromise>, first: u32, count: u32, source: Option<i64>) {
        self.shared.on_produced(receipt, first, count, source);
    }

    /// Returns whether the job is exactly once: what it produces is staged.
    #[inline]
    pub fn is_exactly_once(&self) -> bool {
        self.shared.is_exactly_once()
    }

    /// Returns the memory for staged records; `None`: the job is not exactly once.
    pub fn staging_budget(&self) -> Option<&Arc<StagingBudget>> {
        self.shared.staging_budget()
    }

    /// Stages a record: see [`JobState::stage`].
    ///
    /// # Errors
    /// Why the record is not staged.
    pub fn stage(&self, record: &StagedRecord<'_>, promised: bool) -> StageResult {
        self.shared.stage(record, promised)
    }

    /// Returns the batches with records that the job produced and that are not completed.
    #[must_use]
    pub fn unsettled_batches(&self) -> Vec<Arc<BatchPromise>> {
        self.shared.pending_batches()
    }

    /// Returns the number of records that the job produced and that are not completed, as of the last check.
    pub fn unsettled_outputs(&self) -> u64 {
        self.shared.pending_outputs()
    }

    /// Returns the first record that the job produced and that was not written; `None`: there is none.
    pub fn undelivered(&self) -> Option<UndeliveredOutput> {
        self.shared.undelivered()
    }

    /// Returns whether the lane is leaving; see [`JobState::is_leaving`].
    #[inline]
    pub fn is_revoking(&self) -> bool {
        self.shared.is_leaving()
    }

    /// Returns whether the handler must stop between two rows; see [`JobState::should_yield`].
    #[inline]
    pub fn should_yield(&self) -> bool {
        self.shared.should_yield()
    }
}

/// Outcome of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All rows are processed, or those before the job [had to stop](JobToken::should_yield).
    Done,
    /// The handler raised an exception.
    Failed(Failure),
}

/// Job counters of all handlers since the dispatcher was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobCounts {
    /// Jobs that ended, including failed ones.
    pub jobs: u64,
    /// Records that are processed.
    pub records: u64,
    /// Jobs that failed.
    pub failures: u64,
    /// Records that were written to a dead letter topic.
    pub dead_letters: u64,
    /// Records skipped because of `max_age`.
    pub expired: u64,
    /// Records skipped because their ids came before.
    pub duplicates: u64,
    /// Jobs reported as stalled: once for `stall_after`, and again for `handler_timeout`.
    pub stalled: u64,
}

impl JobCounts {
    pub(super) fn from_stats(tallies: &[RouteStats]) -> Self {
        tallies.iter().fold(Self::default(), |sum, tally| Self {
            jobs: sum.jobs + tally.jobs,
            records: sum.records + tally.records,
            failures: sum.failures + tally.failures,
            dead_letters: sum.dead_letters + tally.dead_letters,
            expired: sum.expired + tally.expired,
            duplicates: sum.duplicates + tally.duplicates,
            stalled: sum.stalled + tally.stalls + tally.timeouts,
        })
    }
}
