//! Failures of jobs, and the decisions that follow.

use crate::time::Nanos;

/// Class of a handler's exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The records are retried, as often as the route allows.
    Retriable,
    /// The route does not retry this exception: no more attempts.
    NonRetriable,
    /// The handler broke its contract with the batch as a whole: no more attempts, and no row is more at fault than
    /// another one.
    NonRetriableBatch,
    /// The handler rejected the record: no more attempts.
    Rejected,
    /// The handler asked for a retry after this time; no attempt is counted.
    RetryLater(Nanos),
    /// The unit halts: nothing is retried in this process.
    Fatal,
}

/// Failure of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Class of the exception.
    pub kind: FailureKind,
    /// Offset of the record that failed, if known.
    pub failed_offset: Option<i64>,
    /// Name of the exception's class.
    pub class: String,
    /// Message of the exception.
    pub message: String,
    /// Time of the failure, in milliseconds since the epoch.
    pub at_ms: i64,
}

impl Failure {
    /// Creates a failure of an unknown record at an unknown time (0).
    pub fn new(kind: FailureKind, class: &str, message: &str) -> Self {
        Self { kind, failed_offset: None, class: class.to_owned(), message: message.to_owned(), at_ms: 0 }
    }
}

/// Failures of a record, for the headers of its dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureHistory {
    /// Number of runs, the first run included.
    pub attempts: u32,
    /// Class name of the last exception.
    pub class: String,
    /// Message of the last exception.
    pub message: String,
    /// Time of the first failure, in milliseconds since the epoch.
    pub first_at_ms: i64,
    /// Time of the last failure, in milliseconds since the epoch.
    pub last_at_ms: i64,
}

/// Decision after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The unmarked rows run again.
    Retry {
        /// Backoff before the run.
        wait: Nanos,
        /// Number of the next run.
        attempt: u32,
        /// Number of rows to run again; 0: all were marked.
        rows: usize,
    },
    /// The rows run in halves, to find the record that fails.
    Bisect {
        /// Number of rows in the first half.
        rows: usize,
    },
    /// One record goes to the dead letter topic. Later rows of the job follow it after
    /// [`FailureKind::NonRetriableBatch`], and at most once.
    DeadLetter {
        /// Offset of the record.
        offset: i64,
    },
    /// The handler asked for a later retry.
    RetryLater {
        /// Time to wait.
        wait: Nanos,
    },
    /// The unit runs no more jobs until the lane leaves or is reset.
    Halt,
    /// The lane was lost or abandoned, or its position was moved by a seek: the failure does not count.
    Fenced,
    /// At most once without a dead letter topic: the rows are dropped.
    Skipped,
}
