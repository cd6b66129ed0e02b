//! Metrics of a process as plain numbers. [`descriptors`] define which of them are exported, and under which name.
//!
//! `None` means not known: the sample is left out, and never exported as zero. Durations are in seconds, sizes in
//! bytes. Counters count from the start of the process.

pub(crate) mod aggregate;
mod cardinality;
pub mod descriptors;
mod histogram;
pub mod prometheus;
mod visit;

use std::sync::Arc;

use crate::report::LaneCounts;

pub use cardinality::{MAX_GROUPS, MAX_HANDLERS, MAX_LABEL_BYTES, MAX_LANES, OTHER};
pub use histogram::Histogram;
pub use visit::{Label, MetricVisitor, Value};

/// All metrics of a process. The lists have any order and length; entries of the same name are merged.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    /// One entry for each route.
    pub handlers: Vec<HandlerMetrics>,
    /// One entry for each lane.
    pub lanes: Vec<LaneMetrics>,
    /// Number of lanes by state.
    pub lane_states: Option<LaneCounts>,
    /// Number of lanes that have not moved for `stall_after`, by what they wait for. Each reason once, with 0 if no lane
    /// waits for it.
    pub stalled_lanes: Vec<(&'static str, u64)>,
    /// One entry for each consumer group.
    pub groups: Vec<GroupMetrics>,
    /// One entry for each consumer client.
    pub clients: Vec<ClientMetrics>,
    /// One entry for each producer.
    pub producers: Vec<ProducerMetrics>,
    /// Metrics of the process as a whole.
    pub process: ProcessMetrics,
}

/// Metrics of one handler.
#[derive(Debug, Clone, Default)]
pub struct HandlerMetrics {
    /// Name of the route.
    pub handler: Arc<str>,
    /// Jobs that ended.
    pub jobs: Option<u64>,
    /// Records that are done.
    pub records: Option<u64>,
    /// Jobs that ended with an error.
    pub failures: Option<u64>,
    /// Failed jobs whose records are processed again.
    pub retries: Option<u64>,
    /// Records sent to a dead letter topic.
    pub dead_letters: Option<u64>,
    /// Records skipped because they were older than `max_age`.
    pub expired: Option<u64>,
    /// Records skipped because their ids came before.
    pub duplicates: Option<u64>,
    /// Ids that were dropped before the end of `dedup_window`.
    pub forgotten_ids: Option<u64>,
    /// Records skipped for another reason.
    pub skipped: Option<u64>,
    /// Jobs that ran longer than `stall_after`.
    pub stalls: Option<u64>,
    /// Jobs that ran longer than `handler_timeout`.
    pub timeouts: Option<u64>,
    /// Durations of the jobs.
    pub duration: Option<Histogram>,
    /// Running jobs.
    pub running: Option<u64>,
    /// Seconds for which the oldest running job has run; 0: there is none.
    pub oldest_job_seconds: Option<f64>,
}

/// Progress of one handler in one partition.
#[derive(Debug, Clone, Default)]
pub struct LaneMetrics {
    /// Name of the route.
    pub handler: Arc<str>,
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Number of the partition.
    pub partition: u64,
    /// Records that are not done.
    pub lag: Option<u64>,
    /// Age in seconds of the oldest record that is not done; 0: there is none.
    pub lag_seconds: Option<f64>,
    /// Time at which the last record was done, in seconds since 1970.
    pub last_progress: Option<f64>,
    /// Bytes that wait for a handler.
    pub queued_bytes: Option<u64>,
    /// 1: the partition cannot be read; 0: it can.
    pub failed: Option<u64>,
}

/// Membership in one consumer group.
#[derive(Debug, Clone, Default)]
pub struct GroupMetrics {
    /// Group id; empty: partitions are assigned manually.
    pub group: Arc<str>,
    /// Number of assigned partitions.
    pub partitions: Option<u64>,
    /// Whether the member has its place in the group.
    pub ready: Option<bool>,
    /// Assignments that the member has applied.
    pub rebalances: Option<u64>,
    /// Partitions lost without a revocation.
    pub lost_partitions: Option<u64>,
    /// Offsets that were committed, one for each partition.
    pub commits: Option<u64>,
    /// Offsets that could not be committed.
    pub commit_failures: Option<u64>,
    /// Transactions that were committed.
    pub transactions: Option<u64>,
    /// Transactions that were aborted.
    pub aborted_transactions: Option<u64>,
}

/// Consumer client.
#[derive(Debug, Clone, Default)]
pub struct ClientMetrics {
    /// `client.id`.
    pub client: Arc<str>,
    /// Bytes fetched, compressed.
    pub fetched_bytes: Option<u64>,
    /// Records fetched.
    pub fetched_records: Option<u64>,
    /// Bytes of records that are fetched and not done.
    pub buffer_bytes: Option<u64>,
    /// Open connections to brokers.
    pub connections: Option<u64>,
    /// Connections that broke.
    pub reconnects: Option<u64>,
}

/// Producer.
#[derive(Debug, Clone, Default)]
pub struct ProducerMetrics {
    /// `client.id`.
    pub client: Arc<str>,
    /// Records acknowledged by the broker.
    pub records: Option<u64>,
    /// Compressed bytes of sent batches; a retry counts again.
    pub bytes: Option<u64>,
    /// Records that were not written, or whose outcome is unknown.
    pub failures: Option<u64>,
    /// Batches that were sent again.
    pub retries: Option<u64>,
    /// Bytes of records that wait for their acknowledgement.
    pub buffer_bytes: Option<u64>,
    /// Records that wait for their acknowledgement.
    pub pending_records: Option<u64>,
}

/// Process as a whole.
#[derive(Debug, Clone, Default)]
pub struct ProcessMetrics {
    /// Threads that run jobs.
    pub workers: Option<u64>,
    /// Threads that run a job now.
    pub busy_workers: Option<u64>,
    /// Current or last wait for the GIL, whichever is longer, in seconds.
    pub gil_wait: Option<f64>,
    /// Current or last wait for the event loop, whichever is longer, in seconds.
    pub loop_wait: Option<f64>,
    /// How often the event loop was blocked for longer than `stall_after`.
    pub loop_blocked: Option<u64>,
    /// Resident bytes (RSS).
    pub resident_bytes: Option<u64>,
    /// CPU time of all threads, in seconds.
    pub cpu_seconds: Option<f64>,
    /// Open descriptors.
    pub open_fds: Option<u64>,
    /// Start of the process, in seconds since 1970.
    pub start_time: Option<f64>,
    /// Result of the liveness check.
    pub live: Option<bool>,
    /// Result of the readiness check.
    pub ready: Option<bool>,
}
