//! Job: one call of a hook, and its outcome.

pub(crate) mod staging;
pub(crate) mod state;
pub(crate) mod table;

use std::sync::Arc;

use grete_wire::records::RecordError;

use super::ids::{ClientId, UnitId};
use super::retry::failure::Failure;
use super::route_config::RouteConfig;
use super::rows::key_partitioner::PartitionedRows;
use crate::ids::TopicPartition;
use crate::time::Nanos;
use state::JobState;

/// Hook that a job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobKind {
    /// Processes records.
    Consume,
    /// Sends one record that keeps failing to the dead letter topic.
    DeadLetter,
    /// The partition was revoked.
    Revoked {
        /// The partition was lost: there is no chance to commit.
        lost: bool,
    },
    /// The process shuts down.
    Shutdown,
    /// The end of the partition has been reached.
    Eof,
    /// The lane has been idle for the tick interval.
    Tick,
    /// Decodes queued data and partitions it over the lane's slots. This is no hook: no handler sees its rows.
    Decode,
}

impl JobKind {
    /// Returns whether the job touches records. After the end of the session these may belong to another member.
    #[must_use]
    pub fn needs_session(self) -> bool {
        matches!(self, Self::Consume | Self::DeadLetter | Self::Decode)
    }

    /// Returns whether the job belongs to a unit: it handles records.
    pub(super) fn handles_records(self) -> bool {
        matches!(self, Self::Consume | Self::DeadLetter)
    }

    /// Returns whether the job is a hook of the whole lane, so that no other job of the lane runs beside it.
    pub(super) fn is_lane_hook(self) -> bool {
        !matches!(self, Self::Consume | Self::DeadLetter | Self::Decode)
    }

    /// Returns whether the job is the hook at the lane's end.
    pub(super) fn is_end_hook(self) -> bool {
        matches!(self, Self::Revoked { .. } | Self::Shutdown)
    }

    /// Returns the kind's name in lower case.
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

/// Outcome of a job.
#[derive(Debug)]
pub enum JobOutcome {
    /// The handler returned. All rows of the job are processed, unless it [stopped early](JobState::should_yield).
    Done,
    /// The handler raised.
    Failed(Failure),
    /// No row was left to process: all were skipped.
    Skipped {
        /// Offset behind the skipped data.
        next_offset: i64,
    },
    /// Nothing was queued.
    Nothing,
    /// A batch failed its check.
    Corrupt {
        /// Offset from which to fetch again.
        offset: i64,
        /// Cause.
        error: RecordError,
    },
    /// The first record is too young for the route's `delay_ms`.
    NotDue {
        /// Time at which the record is old enough, in milliseconds since the epoch.
        until_ms: i64,
    },
    /// Rows are decoded and partitioned over the lane's slots.
    Decoded(PartitionedRows),
}

/// Job in flight, for reports.
#[derive(Debug, Clone)]
pub struct InFlightJob {
    /// Client of the lane.
    pub client: ClientId,
    /// Topic and partition.
    pub tp: TopicPartition,
    /// Unit that runs the job.
    pub unit: UnitId,
    /// Handler instance that runs the job; see [`super::Lease::instance`].
    pub instance: u32,
    /// Settings of the route.
    pub policy: Arc<RouteConfig>,
    /// Number of runs of the first unmarked offset, this run included.
    pub attempt: u32,
    /// Hook that the job runs.
    pub kind: JobKind,
    /// Name of the worker.
    pub worker: String,
    /// Start of the job: the time when its rows were ready, or, on an event loop, when its coroutine first ran.
    pub since: Nanos,
    /// False while the job waits for its event loop, since `since`.
    pub started: bool,
    /// Rows and marks of the job.
    pub shared: Arc<JobState>,
    /// Time at which the handler returned, if the job now waits for the records that it produced.
    pub handled_at: Option<Nanos>,
    /// Limits whose passing was reported.
    pub(super) reported: PassedLimits,
}

/// Limits of its route that a job has passed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PassedLimits {
    /// `stall_after`.
    pub(super) stall: bool,
    /// `handler_timeout`.
    pub(super) timeout: bool,
}

impl PassedLimits {
    pub(super) fn any(self) -> bool {
        self.stall || self.timeout
    }
}
