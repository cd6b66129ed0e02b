//! Lookup of one partition's position.

use grete_wire::error_code::ErrorCode;

use crate::ids::NodeId;
use crate::rng::Rng;
use crate::time::Nanos;

use super::config::PositionConfig;

/// Offset that a ListOffsets request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OffsetQuery {
    Earliest,
    Latest,
    Timestamp(i64),
}

impl OffsetQuery {
    /// Returns the timestamp field of ListOffsets. Times before 1970 become 0, because negative values are special.
    pub fn timestamp(self) -> i64 {
        match self {
            Self::Latest => -1,
            Self::Earliest => -2,
            Self::Timestamp(ms) => ms.max(0),
        }
    }
}

/// Goal of the next request for a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LookupGoal {
    /// Find the start position.
    Find(OffsetQuery),
    /// Check whether the leader's log still contains the epoch of the position (KIP-320).
    Validate { epoch: i32 },
    /// The offset is out of range: find the first offset of the log.
    RangeStart,
    /// After `RangeStart`: find the end of the log (the high watermark, whatever the isolation level).
    RangeEnd { log_start: i64 },
    /// The offset is certainly out of range: find the end for the configured isolation level.
    ResetToLatest { log_start: i64, log_end: i64 },
    /// The position is valid; continue fetching after the backoff.
    Wait,
}

/// Kind of request; one request per kind and node is in flight at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum LookupKind {
    /// ListOffsets; true: at the configured isolation level, false: read_uncommitted.
    ListOffsets { at_isolation_level: bool },
    /// OffsetForLeaderEpoch.
    EpochEndOffset,
}

impl LookupGoal {
    pub fn kind(self) -> Option<LookupKind> {
        match self {
            Self::Find(_) | Self::ResetToLatest { .. } => Some(LookupKind::ListOffsets { at_isolation_level: true }),
            Self::RangeStart | Self::RangeEnd { .. } => Some(LookupKind::ListOffsets { at_isolation_level: false }),
            Self::Validate { .. } => Some(LookupKind::EpochEndOffset),
            Self::Wait => None,
        }
    }

    /// Returns the query for ListOffsets.
    pub fn query(self) -> OffsetQuery {
        match self {
            Self::Find(query) => query,
            Self::RangeStart => OffsetQuery::Earliest,
            _ => OffsetQuery::Latest,
        }
    }
}

#[derive(Debug)]
pub(super) struct OffsetLookup {
    pub goal: LookupGoal,
    /// Generation of the position when the lookup started; a different one invalidates the lookup.
    pub generation: u32,
    /// Id of the request in flight and its node; `None`: no request.
    pub request: Option<(u32, NodeId)>,
    pub failures: u32,
    pub not_before: Nanos,
    pub since: Nanos,
    pub next_log_at: Nanos,
    /// Error code of the last response; `NONE`: no error.
    pub last_error: ErrorCode,
}

impl OffsetLookup {
    pub fn new(now: Nanos, goal: LookupGoal, generation: u32, config: &PositionConfig) -> Self {
        let next_notice = now.saturating_add(config.log_after);
        Self {
            goal,
            generation,
            request: None,
            failures: 0,
            not_before: now,
            since: now,
            next_log_at: next_notice,
            last_error: ErrorCode::NONE,
        }
    }

    /// Sets the next goal, which is due at once.
    pub fn advance(&mut self, goal: LookupGoal) {
        self.goal = goal;
        self.request = None;
        self.failures = 0;
        self.not_before = 0;
    }

    /// Schedules a retry after a backoff. Returns true if the lookup has lasted long enough for a log event.
    pub fn retry(&mut self, now: Nanos, config: &PositionConfig, rng: &mut Rng) -> bool {
        self.retry_with_backoff_max(now, config.retry_backoff_max, config, rng)
    }

    /// Schedules a retry like [`OffsetLookup::retry`], with another longest wait.
    pub fn retry_with_backoff_max(
        &mut self,
        now: Nanos,
        longest: Nanos,
        config: &PositionConfig,
        rng: &mut Rng,
    ) -> bool {
        let wait = config.retry_backoff.saturating_mul(1 << self.failures.min(16)).min(longest);
        self.failures = self.failures.saturating_add(1);
        self.request = None;
        self.not_before = now.saturating_add(rng.jitter(wait, 20));
        let should_log = now >= self.next_log_at;
        if should_log {
            self.next_log_at = now.saturating_add(config.log_after.saturating_mul(6));
        }
        should_log
    }
}

/// Returns whether no retry, not even on another node, can help. An error never counts as an answer (P14).
pub(super) fn is_fatal(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT
            | ErrorCode::UNSUPPORTED_VERSION
            | ErrorCode::INVALID_TOPIC_EXCEPTION
            | ErrorCode::INVALID_REQUEST
    )
}
