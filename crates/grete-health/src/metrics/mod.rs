//! What a process counts and measures, as plain numbers. What of it is told, and how, is [`catalogue`]'s.
//!
//! `None` means not known: it is left out, and never told as zero. All durations are seconds, all sizes bytes; counters run since
//! the process began.

mod bounds;
pub mod catalogue;
mod histogram;
mod tell;

use std::sync::Arc;

use crate::report::LaneCounts;

pub use bounds::{MAX_GROUPS, MAX_HANDLERS, MAX_LABEL, MAX_LANES, OTHER};
pub use histogram::Histogram;
pub use tell::{Label, Sink, Value};

/// Everything that a process counts and measures. Lists come as they are, in any order and of any length; entries of the same
/// name are allowed, and told as one.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    /// One for each route.
    pub handlers: Vec<Handler>,
    /// One for each partition that a route reads.
    pub lanes: Vec<Lane>,
    /// Lanes by state.
    pub lane_states: Option<LaneCounts>,
    /// One for each consumer group.
    pub groups: Vec<Group>,
    /// One for each consuming client.
    pub clients: Vec<Client>,
    /// One for each producer.
    pub producers: Vec<Producer>,
    /// Of the process as a whole.
    pub process: Process,
}

/// What the jobs of one handler came to.
#[derive(Debug, Clone, Default)]
pub struct Handler {
    /// The route's name.
    pub handler: Arc<str>,
    /// Jobs that ended.
    pub jobs: Option<u64>,
    /// Records that are done.
    pub records: Option<u64>,
    /// Jobs that ended with an error.
    pub failures: Option<u64>,
    /// Of these, those whose records run again.
    pub retries: Option<u64>,
    /// Records sent to a dead letter topic.
    pub dead_letters: Option<u64>,
    /// Records passed over because they were too old.
    pub expired: Option<u64>,
    /// Records passed over for another reason.
    pub skipped: Option<u64>,
    /// Jobs that ran longer than `stall_after`.
    pub stalls: Option<u64>,
    /// Jobs that ran longer than `handler_timeout`.
    pub timeouts: Option<u64>,
    /// How long jobs took.
    pub duration: Option<Histogram>,
    /// Jobs under way.
    pub running: Option<u64>,
    /// For how many seconds the oldest job under way has run; 0: there is none.
    pub oldest: Option<f64>,
}

/// How far one partition is with one handler.
#[derive(Debug, Clone, Default)]
pub struct Lane {
    /// The route's name.
    pub handler: Arc<str>,
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: u64,
    /// Records that are not done.
    pub lag: Option<u64>,
    /// Age in seconds of the oldest record that is not done; 0: there is none.
    pub lag_seconds: Option<f64>,
    /// When the last record was done, in seconds since 1970.
    pub last_progress: Option<f64>,
    /// Bytes that wait for a handler.
    pub queued_bytes: Option<u64>,
}

/// A membership.
#[derive(Debug, Clone, Default)]
pub struct Group {
    /// The group's name; empty: partitions are given by hand.
    pub group: Arc<str>,
    /// How many partitions it has.
    pub partitions: Option<u64>,
    /// Whether it has what it is to have.
    pub steady: Option<bool>,
    /// Assignments that were taken in.
    pub rebalances: Option<u64>,
    /// Partitions that went away without being given back.
    pub lost_partitions: Option<u64>,
    /// Offsets that were stored.
    pub commits: Option<u64>,
    /// Offsets that could not be stored.
    pub commit_failures: Option<u64>,
}

/// A consuming client.
#[derive(Debug, Clone, Default)]
pub struct Client {
    /// `client.id`.
    pub client: Arc<str>,
    /// Bytes fetched, as they came.
    pub fetched_bytes: Option<u64>,
    /// Records fetched.
    pub fetched_records: Option<u64>,
    /// Bytes that are fetched and not done.
    pub buffer_bytes: Option<u64>,
    /// Connections that are open.
    pub connections: Option<u64>,
    /// Connections that broke.
    pub reconnects: Option<u64>,
}

/// A producer.
#[derive(Debug, Clone, Default)]
pub struct Producer {
    /// `client.id`.
    pub client: Arc<str>,
    /// Records that are written.
    pub records: Option<u64>,
    /// Bytes of batches that were sent, each time they were.
    pub bytes: Option<u64>,
    /// Records that could not be written, or of which nobody knows.
    pub failures: Option<u64>,
    /// Batches that were sent again.
    pub retries: Option<u64>,
    /// Bytes that wait for their acknowledgement.
    pub buffer_bytes: Option<u64>,
    /// Records that wait for their acknowledgement.
    pub pending_records: Option<u64>,
}

/// The process as a whole.
#[derive(Debug, Clone, Default)]
pub struct Process {
    /// Threads that run jobs.
    pub workers: Option<u64>,
    /// Threads that have a job just now.
    pub busy_workers: Option<u64>,
    /// How long the interpreter's lock is or was waited for, in seconds.
    pub gil_wait: Option<f64>,
    /// Resident memory.
    pub resident_bytes: Option<u64>,
    /// CPU time of all threads, in seconds.
    pub cpu: Option<f64>,
    /// Descriptors that are open.
    pub open_fds: Option<u64>,
    /// When it began, in seconds since 1970.
    pub start_time: Option<f64>,
    /// What the liveness probe says.
    pub live: Option<bool>,
    /// What the readiness probe says.
    pub ready: Option<bool>,
}
