//! One slot's search for a position.

use grete_wire::error_code::ErrorCode;

use crate::ids::NodeId;
use crate::rng::Rng;
use crate::time::Nanos;

use super::config::PositionConfig;

/// What ListOffsets is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Query {
    Earliest,
    Latest,
    Timestamp(i64),
}

impl Query {
    /// As Kafka writes it. A time before 1970 would be taken for a special value.
    pub fn timestamp(self) -> i64 {
        match self {
            Self::Latest => -1,
            Self::Earliest => -2,
            Self::Timestamp(ms) => ms.max(0),
        }
    }
}

/// What the slot needs to know next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    /// Where to start.
    Find(Query),
    /// Whether the leader's log still has the position's epoch (KIP-320).
    Validate { epoch: i32 },
    /// Out of range: where the log starts,
    RangeStart,
    /// and where it ends (what is replicated, whatever the isolation level).
    RangeEnd { log_start: i64 },
    /// Out of range for certain: the end for this isolation level.
    ResetToLatest { log_start: i64, log_end: i64 },
    /// The position is good; fetch on after the wait.
    Hold,
}

/// A kind of request; one of each goes to a node at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Ask {
    /// ListOffsets; true: at the configured isolation level, false: uncommitted.
    Offsets { isolated: bool },
    /// OffsetForLeaderEpoch.
    Epoch,
}

impl Goal {
    pub fn ask(self) -> Option<Ask> {
        match self {
            Self::Find(_) | Self::ResetToLatest { .. } => Some(Ask::Offsets { isolated: true }),
            Self::RangeStart | Self::RangeEnd { .. } => Some(Ask::Offsets { isolated: false }),
            Self::Validate { .. } => Some(Ask::Epoch),
            Self::Hold => None,
        }
    }

    /// The query to put into ListOffsets.
    pub fn query(self) -> Query {
        match self {
            Self::Find(query) => query,
            Self::RangeStart => Query::Earliest,
            _ => Query::Latest,
        }
    }
}

#[derive(Debug)]
pub(super) struct Task {
    pub goal: Goal,
    /// The slot's when the search began; any other makes this one void.
    pub generation: u32,
    /// The request in flight for it, and the node that was asked.
    pub request: Option<(u32, NodeId)>,
    pub failures: u32,
    pub not_before: Nanos,
    pub since: Nanos,
    pub next_notice: Nanos,
}

impl Task {
    pub fn new(now: Nanos, goal: Goal, generation: u32, config: &PositionConfig) -> Self {
        let next_notice = now.saturating_add(config.notice_after);
        Self { goal, generation, request: None, failures: 0, not_before: now, since: now, next_notice }
    }

    /// The next question, at once.
    pub fn go_on(&mut self, goal: Goal) {
        self.goal = goal;
        self.request = None;
        self.failures = 0;
        self.not_before = 0;
    }

    /// The same question again, later. True when that has gone on long enough to tell.
    pub fn retry(&mut self, now: Nanos, config: &PositionConfig, rng: &mut Rng) -> bool {
        let wait = config.retry_backoff.saturating_mul(1 << self.failures.min(16)).min(config.retry_backoff_max);
        self.failures = self.failures.saturating_add(1);
        self.request = None;
        self.not_before = now.saturating_add(rng.jitter(wait, 20));
        let tell = now >= self.next_notice;
        if tell {
            self.next_notice = now.saturating_add(config.notice_after.saturating_mul(6));
        }
        tell
    }
}

/// Whether asking again, perhaps elsewhere, can help. Never is an error taken for an answer (P14).
pub(super) fn is_final(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT
            | ErrorCode::UNSUPPORTED_VERSION
            | ErrorCode::INVALID_TOPIC_EXCEPTION
            | ErrorCode::INVALID_REQUEST
    )
}
