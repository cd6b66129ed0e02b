//! Configuration of a route, shared by all lanes of the route.

use std::sync::Arc;

use super::dedup::DedupPolicy;
use crate::time::{MILLI, Nanos, SECOND};

/// Pool that runs a route's jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Pool {
    /// Worker threads.
    #[default]
    Threads,
    /// The event loop's thread.
    EventLoop,
}

impl Pool {
    /// Every pool.
    pub const ALL: [Self; 2] = [Self::Threads, Self::EventLoop];

    pub(super) fn index(self) -> usize {
        match self {
            Self::Threads => 0,
            Self::EventLoop => 1,
        }
    }
}

/// Records of a partition that may run concurrently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Concurrency {
    /// None: records are processed in the partition's order.
    #[default]
    Partition,
    /// Records of different keys. Records of one key are processed in order.
    Key,
    /// All records, in any order.
    Unordered,
}

/// Event by which records count as processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OffsetPolicy {
    /// The return of their job, or an earlier mark.
    #[default]
    Auto,
    /// Marks only.
    Manual,
    /// The hand-out to the handler.
    AtMostOnce,
}

/// Retries of a failed job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Number of runs, the first run included; `None`: without limit.
    pub attempts: Option<u32>,
    /// Backoff after the first failure.
    pub backoff: Nanos,
    /// Upper limit of the backoff.
    pub max_backoff: Nanos,
    /// Random deviation of a backoff in either direction, in percent.
    pub jitter_percent: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { attempts: Some(5), backoff: 200 * MILLI, max_backoff: 30 * SECOND, jitter_percent: 20 }
    }
}

/// Rate limit: at most `records` per period `per`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RatePolicy {
    /// Number of records per period.
    pub records: u32,
    /// Length of the period.
    pub per: Nanos,
}

/// Settings of one route.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteConfig {
    /// Number of the route, given by the client.
    pub route: u32,
    /// Name of the handler, for reports.
    pub name: Arc<str>,
    /// Pool that runs the jobs.
    pub pool: Pool,
    /// Records of a partition that may run concurrently.
    pub concurrency: Concurrency,
    /// Number of slots of a lane, unless `concurrency` is [`Concurrency::Partition`]; 0: one for each key that has
    /// records, and one for each job of records without a key.
    pub key_slots: u32,
    /// Number of jobs that share the waiting records without a key, so that each takes a fair part; 0: each record has
    /// a job of its own.
    pub shares: u32,
    /// Most jobs of the route that handle records at once in this process; `None`: no limit.
    pub max_concurrency: Option<u32>,
    /// Most records of one job.
    pub max_messages: usize,
    /// Most decoded bytes of one job. A larger record runs in a job of its own.
    pub max_bytes: usize,
    /// How long the first waiting record waits for more records to fill a job; 0: it does not wait.
    pub max_wait: Nanos,
    /// Most records of a lane that are decoded and not done. Not used with [`Concurrency::Partition`].
    pub max_in_flight: usize,
    /// Event by which records count as processed.
    pub offsets: OffsetPolicy,
    /// Whether a share group hands out the records (KIP-932): each is acknowledged, and no offset is committed.
    pub queue: bool,
    /// Number of records after which a lane pauses. With slots, all records from the first open record on count, done
    /// or not. Without slots, open records count, and only with [`OffsetPolicy::Manual`].
    pub max_unmarked: usize,
    /// Whether marks beyond the first open record are committed as metadata.
    pub offset_map: bool,
    /// Retries after a failure.
    pub retry: RetryPolicy,
    /// Whether a record that keeps failing goes to a dead letter topic.
    pub dead_letter: bool,
    /// Priority in the ready queue: each step is worth one second of waiting.
    pub priority: i32,
    /// Rate limit of the route in this process; `None`: no limit.
    pub rate_limit: Option<RatePolicy>,
    /// Age in milliseconds that records must reach before they are handed out.
    pub delay_ms: Option<i64>,
    /// Age in milliseconds beyond which records are skipped.
    pub max_age_ms: Option<i64>,
    /// Records that are skipped because their id came before; `None`: none.
    pub dedup: Option<Arc<DedupPolicy>>,
    /// Whether a job runs at the end of the partition.
    pub eof: bool,
    /// Interval of the tick jobs of an idle lane; `None`: no ticks.
    pub tick: Option<Nanos>,
    /// Whether `revoked` and `shutdown` jobs are run (a low-level consumer has none).
    pub hooks: bool,
    /// Run time after which a job is reported as stalled; `None`: never.
    pub stall_after: Option<Nanos>,
    /// Run time after which a job is reported as overdue; `None`: never.
    pub handler_timeout: Option<Nanos>,
}

impl Default for RouteConfig {
    fn default() -> Self {
        Self {
            route: 0,
            name: Arc::from(""),
            pool: Pool::Threads,
            concurrency: Concurrency::Partition,
            key_slots: 64,
            shares: 1,
            max_concurrency: None,
            max_messages: 500,
            max_bytes: 16 << 20,
            max_wait: 0,
            max_in_flight: 4096,
            offsets: OffsetPolicy::Auto,
            queue: false,
            max_unmarked: 100_000,
            offset_map: false,
            retry: RetryPolicy::default(),
            dead_letter: false,
            priority: 0,
            rate_limit: None,
            delay_ms: None,
            max_age_ms: None,
            dedup: None,
            eof: false,
            tick: None,
            hooks: true,
            stall_after: None,
            handler_timeout: None,
        }
    }
}

impl RouteConfig {
    /// Returns whether a lane has no fixed number of slots, but one unit for each key that has records.
    #[must_use]
    pub fn is_unit_per_key(&self) -> bool {
        self.concurrency != Concurrency::Partition && self.key_slots == 0
    }

    /// Returns the configuration for a consumer that polls: no hooks, and no limit on the records of a job.
    #[must_use]
    pub fn for_polling() -> Self {
        Self { max_messages: usize::MAX, max_bytes: usize::MAX, hooks: false, ..Self::default() }
    }
}
