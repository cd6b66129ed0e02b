//! How a job failed, and what is made of it.

use crate::time::Nanos;

/// What a handler's exception asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Run it again, as often as the route allows.
    Retry,
    /// An exception that the route does not retry: no more attempts.
    GiveUp,
    /// The handler wants the record gone.
    Reject,
    /// The handler wants it again after this wait; no attempt is counted off.
    Later(Nanos),
    /// Never again in this process.
    Fatal,
}

/// A job that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What the exception asks for.
    pub verdict: Verdict,
    /// Offset of the record that failed, if known.
    pub culprit: Option<i64>,
    /// The exception's class.
    pub class: String,
    /// What it said.
    pub message: String,
    /// When, in milliseconds since the epoch.
    pub at_ms: i64,
}

impl Failure {
    /// Of an unknown record, at an unknown time.
    #[must_use]
    pub fn new(verdict: Verdict, class: &str, message: &str) -> Self {
        Self { verdict, culprit: None, class: class.to_owned(), message: message.to_owned(), at_ms: 0 }
    }
}

/// What a record has been through, for the headers of its dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Runs, the first included.
    pub attempts: u32,
    /// The last exception's class.
    pub class: String,
    /// What it said.
    pub message: String,
    /// The first failure, in milliseconds since the epoch.
    pub first_at_ms: i64,
    /// The last failure, in milliseconds since the epoch.
    pub last_at_ms: i64,
}

/// What a failure leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The unmarked rows come again.
    Retry {
        /// After this.
        wait: Nanos,
        /// The coming run's number.
        attempt: u32,
        /// Rows that come again.
        rows: usize,
    },
    /// The rows are run in halves, to find the one that fails.
    Halve {
        /// Rows of the first half.
        rows: usize,
    },
    /// This record goes to the dead letter topic.
    DeadLetter {
        /// Its offset.
        offset: i64,
    },
    /// The handler asked for a wait.
    Later {
        /// This one.
        wait: Nanos,
    },
    /// Nothing more of this unit until the lane leaves.
    Hold,
    /// The lane is abandoned, lost or sought: nothing counts.
    Refused,
    /// At most once, and no dead letter topic: the rows are dropped.
    Skipped,
}
