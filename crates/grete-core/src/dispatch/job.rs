//! A job: one call of a hook, and how it ends.

use std::sync::Arc;

use grete_wire::records::RecordError;

use super::ClientId;
use super::failure::Failure;
use super::route::RoutePolicy;
use super::shared::JobShared;
use super::spread::Parted;
use super::unit::UnitId;
use crate::ids::TopicPartition;
use crate::time::Nanos;

/// Which hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobKind {
    /// Records to process.
    Consume,
    /// One record that has failed for good.
    DeadLetter,
    /// The partition leaves; `lost`: it is gone already.
    Revoked {
        /// Taken away without a chance to commit.
        lost: bool,
    },
    /// The process ends.
    Shutdown,
    /// The end of the partition has been reached.
    Eof,
    /// The lane has been idle for a while.
    Tick,
    /// Queued data to be decoded and spread over the lane's slots; no hook: a worker never sees its rows.
    Decode,
}

impl JobKind {
    /// Whether it touches records, which may be another member's once the session is over.
    #[must_use]
    pub fn needs_session(self) -> bool {
        matches!(self, Self::Consume | Self::DeadLetter | Self::Decode)
    }

    /// In lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Consume => "consume",
            Self::DeadLetter => "dead_letter",
            Self::Revoked { .. } => "revoked",
            Self::Shutdown => "shutdown",
            Self::Eof => "eof",
            Self::Tick => "tick",
            Self::Decode => "decode",
        }
    }
}

/// How a job ended.
#[derive(Debug)]
pub enum Finished {
    /// It returned: all its rows are processed, unless it was [cut short](JobShared::cut_short).
    Done,
    /// It raised.
    Failed(Failure),
    /// There were no rows for us; the offset to go on from.
    Skipped {
        /// Behind what holds nothing for us.
        next_offset: i64,
    },
    /// There was nothing queued.
    Nothing,
    /// A batch did not pass.
    Corrupt {
        /// Fetch again from here.
        offset: i64,
        /// Why.
        error: RecordError,
    },
    /// The first record is too young for the route's `delay`.
    NotDue {
        /// When it is due, in milliseconds since the epoch.
        until_ms: i64,
    },
    /// Rows are decoded and parted among the lane's slots.
    Decoded(Parted),
}

/// A job in flight, for reports.
#[derive(Debug, Clone)]
pub struct Running {
    /// Whose.
    pub client: ClientId,
    /// The partition.
    pub tp: TopicPartition,
    /// Whose job.
    pub unit: UnitId,
    /// The route's settings.
    pub policy: Arc<RoutePolicy>,
    /// Runs of the first unmarked offset, this one included.
    pub attempt: u32,
    /// Which hook.
    pub kind: JobKind,
    /// The worker's name.
    pub worker: String,
    /// When it began: when its rows were ready.
    pub since: Nanos,
    /// Rows and marks.
    pub shared: Arc<JobShared>,
    /// Whether it was told as stalled, and as overdue.
    pub(super) told: (bool, bool),
}
