//! Settings of the acquirer.

use std::sync::Arc;

use crate::time::{MILLI, Nanos, SECOND};

/// Settings with which a member of a share group acquires records.
#[derive(Debug, Clone)]
pub struct ShareConfig {
    /// `group.id`.
    pub group_id: Arc<str>,
    /// Number of records that can be processed at once.
    pub concurrency: usize,
    /// `fetch.max.wait.ms`, in nanoseconds: time for which a broker holds a ShareFetch without records.
    pub max_wait: Nanos,
    /// `fetch.min.bytes`.
    pub min_bytes: i32,
    /// `fetch.max.bytes`.
    pub max_bytes: i32,
    /// Bytes of fetched records beyond which nothing is acquired.
    pub queued_bytes: usize,
    /// `request.timeout.ms`, in nanoseconds.
    pub request_timeout: Nanos,
    /// `retry.backoff.ms`, in nanoseconds.
    pub retry_backoff: Nanos,
    /// `retry.backoff.max.ms`, in nanoseconds.
    pub retry_backoff_max: Nanos,
}

impl ShareConfig {
    /// Returns the default settings for a group.
    pub fn new(group_id: impl Into<Arc<str>>) -> Self {
        Self {
            group_id: group_id.into(),
            concurrency: 1,
            max_wait: 500 * MILLI,
            min_bytes: 1,
            max_bytes: 50 << 20,
            queued_bytes: 64 << 20,
            request_timeout: 30 * SECOND,
            retry_backoff: 100 * MILLI,
            retry_backoff_max: SECOND,
        }
    }
}
