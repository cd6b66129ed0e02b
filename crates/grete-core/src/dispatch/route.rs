//! What a route asks of the dispatcher: all of a lane's settings, shared by the lanes of the route.

use std::sync::Arc;

use crate::time::{MILLI, Nanos, SECOND};

/// Who runs a route's jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Pool {
    /// Worker threads.
    #[default]
    Threads,
    /// The event loop's thread.
    Loop,
}

impl Pool {
    /// Every pool.
    pub const ALL: [Self; 2] = [Self::Threads, Self::Loop];

    pub(super) fn index(self) -> usize {
        match self {
            Self::Threads => 0,
            Self::Loop => 1,
        }
    }
}

/// What may run at the same time within a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Concurrency {
    /// Nothing: the partition's order holds.
    #[default]
    Partition,
    /// Records of different keys; each key's order holds.
    Key,
    /// Anything.
    Unordered,
}

/// When records count as processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OffsetPolicy {
    /// When their job returns, or earlier by a mark.
    #[default]
    Auto,
    /// By marks only.
    Manual,
    /// Before they are handed out.
    AtMostOnce,
}

/// When and how often a failed job runs again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Runs in all, the first included; `None`: for ever.
    pub attempts: Option<u32>,
    /// The first wait.
    pub first: Nanos,
    /// The longest wait.
    pub longest: Nanos,
    /// How far a wait may be off, either way.
    pub jitter_percent: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { attempts: Some(5), first: 200 * MILLI, longest: 30 * SECOND, jitter_percent: 20 }
    }
}

/// At most so many records in so much time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RatePolicy {
    /// Records.
    pub records: u32,
    /// In this time.
    pub per: Nanos,
}

/// One route's settings.
#[derive(Debug, Clone, PartialEq)]
pub struct RoutePolicy {
    /// The route's number, as the client named it.
    pub route: u32,
    /// The handler's name, for reports.
    pub name: Arc<str>,
    /// Who runs its jobs.
    pub pool: Pool,
    /// What may run at the same time within a partition.
    pub concurrency: Concurrency,
    /// Units of a lane that is not worked on partition by partition.
    pub key_slots: u32,
    /// Most records for one job.
    pub max_messages: usize,
    /// Most decoded bytes for one job; a record larger than that comes alone.
    pub max_bytes: usize,
    /// How long the first waiting record waits for others to fill a job.
    pub max_wait: Nanos,
    /// Records of a lane that are decoded and not done, where keys are worked on side by side.
    pub max_in_flight: usize,
    /// When records count as processed.
    pub offsets: OffsetPolicy,
    /// Where marks alone count: open records of a lane after which it pauses. Where keys are worked on side by side: records
    /// from the first open one on, done or not.
    pub max_unmarked: usize,
    /// Whether what is done behind the first open record is committed along.
    pub offset_map: bool,
    /// What a failure leads to.
    pub retry: RetryPolicy,
    /// Whether a record that keeps failing goes to a dead letter topic.
    pub dead_letter: bool,
    /// Each step is worth a second of waiting.
    pub priority: i32,
    /// Records of the route in this process.
    pub rate_limit: Option<RatePolicy>,
    /// Records are handed out when they are as old as this, in milliseconds.
    pub delay_ms: Option<i64>,
    /// Records older than this, in milliseconds, are passed over.
    pub expire_ms: Option<i64>,
    /// Whether the end of the partition is told.
    pub eof: bool,
    /// How often an idle lane gets a tick.
    pub tick: Option<Nanos>,
    /// Whether `revoked` and `shutdown` jobs are run (a low-level consumer has none).
    pub hooks: bool,
    /// A job that runs longer is told as stalled.
    pub stall_after: Option<Nanos>,
    /// A job that runs longer is told as overdue.
    pub handler_timeout: Option<Nanos>,
}

impl Default for RoutePolicy {
    fn default() -> Self {
        Self {
            route: 0,
            name: Arc::from(""),
            pool: Pool::Threads,
            concurrency: Concurrency::Partition,
            key_slots: 64,
            max_messages: 500,
            max_bytes: 16 << 20,
            max_wait: 0,
            max_in_flight: 4096,
            offsets: OffsetPolicy::Auto,
            max_unmarked: 100_000,
            offset_map: false,
            retry: RetryPolicy::default(),
            dead_letter: false,
            priority: 0,
            rate_limit: None,
            delay_ms: None,
            expire_ms: None,
            eof: false,
            tick: None,
            hooks: true,
            stall_after: None,
            handler_timeout: None,
        }
    }
}

impl RoutePolicy {
    /// For a consumer that polls: no hooks, as many records as it asks for.
    #[must_use]
    pub fn low_level() -> Self {
        Self { max_messages: usize::MAX, max_bytes: usize::MAX, hooks: false, ..Self::default() }
    }
}
