//! Report of a process's health to its supervisor.
//!
//! - `frame`: encodes a report as length-prefixed JSON.
//! - `pipe`: non-blocking pipe to the supervisor.

pub mod frame;
pub(crate) mod pipe;

use std::sync::Arc;
use std::time::Duration;

/// State of a process. The reporter adds its own fields (sequence number, uptime, GIL wait, dropped reports).
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// All groups are ready, and workers run.
    pub ready: bool,
    /// A unit is ready, and no worker has taken its job yet.
    pub has_waiting_work: bool,
    /// Workers get no more records.
    pub quiet: bool,
    /// A shutdown is in progress.
    pub stopping: bool,
    /// Resident bytes (RSS); `None`: not available.
    pub rss: Option<u64>,
    /// Proportional bytes (PSS); `None`: not available, or not requested.
    pub pss: Option<u64>,
    /// Membership of each client.
    pub groups: Vec<GroupStatus>,
    /// Number of lanes by state.
    pub lanes: LaneCounts,
    /// Lag in records, summed over the lanes that know theirs; `None`: none does.
    pub lag: Option<u64>,
    /// All running jobs, in any order; without those that wait for an event loop.
    pub running: Vec<RunningJob>,
    /// Lanes whose job has run longer than `stall_after`, as "topic[partition]".
    pub stalled: Vec<String>,
    /// Lanes that have not moved for `stall_after`, although records wait.
    pub unmoved: Vec<UnmovedLane>,
    /// Topics that are needed and do not exist.
    pub missing: Vec<MissingTopic>,
    /// Partitions that cannot be read.
    pub failed: Vec<FailedPartition>,
    /// Jobs that have ended since the process began.
    pub jobs: u64,
    /// Records of the ended jobs.
    pub records: u64,
    /// Jobs that failed.
    pub failures: u64,
    /// Records sent to dead letter topics.
    pub dead_letters: u64,
    /// Threads that run jobs.
    pub workers: u64,
    /// `None`: there is no event loop.
    pub event_loop: Option<EventLoop>,
}

/// State of an asyncio event loop.
#[derive(Debug, Clone, Default)]
pub struct EventLoop {
    /// How long a callback has waited for the loop to run it; zero: none waits.
    pub wait: Duration,
    /// How long the loop may be blocked; `None`: no limit.
    pub limit: Option<Duration>,
    /// Job that blocks the loop, if known: handler, topic and partition.
    pub blocker: Option<(Arc<str>, Arc<str>, u64)>,
}

/// Membership of one client.
#[derive(Debug, Clone)]
pub struct GroupStatus {
    /// Group id; empty: the client has no group.
    pub group: String,
    /// Member state in one word, as "joining".
    pub state: &'static str,
    /// How long the member has been in that state.
    pub state_age: Duration,
    /// Whether the member has its place in the group.
    pub ready: bool,
    /// Generation id; `None`: the client is no member.
    pub generation: Option<u64>,
    /// Number of assigned partitions.
    pub partitions: u64,
    /// `group.instance.id` of a static member.
    pub group_instance_id: Option<String>,
    /// Brokers with an open connection; `None`: not known.
    pub connections: Option<u64>,
    /// Failure of the last login, with its cure; `None`: none since a login succeeded.
    pub login_failure: Option<Arc<str>>,
    /// ACL on the group that is missing, with the command that creates it; `None`: none is missing.
    pub authorization_failure: Option<Arc<str>>,
    /// Commit of a transaction that has not succeeded for long, with its cause; `None`: commits go on.
    pub transaction_stall: Option<Arc<str>>,
}

/// Topic that is needed and does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingTopic {
    /// Name of the topic.
    pub topic: String,
    /// Text for people: the route that needs the topic, and the cure.
    pub text: String,
}

/// Partition that cannot be read.
#[derive(Debug, Clone)]
pub struct FailedPartition {
    /// Name of the handler.
    pub handler: Arc<str>,
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Number of the partition.
    pub partition: u64,
    /// Reason in one word, as "no_offset".
    pub reason: &'static str,
    /// Error text: the cause, and the cure.
    pub error: Arc<str>,
    /// How long the partition has been unreadable.
    pub failed_for: Duration,
}

/// Lane that has not moved for `stall_after`.
#[derive(Debug, Clone)]
pub struct UnmovedLane {
    /// Name of the handler.
    pub handler: Arc<str>,
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Number of the partition.
    pub partition: u64,
    /// Reason why the lane waits, as "retry".
    pub waits_for: &'static str,
    /// The same as a sentence about the partition ("it").
    pub text: String,
    /// How long the lane has not moved.
    pub unmoved_for: Duration,
    /// Records that are not processed; `None`: unknown.
    pub lag: Option<u64>,
}

impl UnmovedLane {
    /// Returns whether this is the lane with the text "TOPIC[PARTITION]".
    #[must_use]
    pub fn is_at(&self, lane: &str) -> bool {
        lane == format!("{}[{}]", self.topic, self.partition)
    }
}

/// Number of lanes by state.
#[derive(Debug, Clone, Copy, Default)]
pub struct LaneCounts {
    /// Lanes without work.
    pub idle: u64,
    /// Lanes that wait for a worker.
    pub ready: u64,
    /// Lanes with a running job.
    pub running: u64,
    /// Lanes that wait for a time, memory or another job.
    pub paused: u64,
    /// Lanes of partitions that cannot be read.
    pub failed: u64,
    /// Lanes of partitions that are being revoked.
    pub leaving: u64,
}

/// Running job.
#[derive(Debug, Clone)]
pub struct RunningJob {
    /// Name of the handler.
    pub handler: Arc<str>,
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Number of the partition.
    pub partition: u64,
    /// How long the job has run.
    pub elapsed: Duration,
    /// `handler_timeout`; `None`: no limit.
    pub limit: Option<Duration>,
}

impl RunningJob {
    /// Returns whether the job has run longer than its limit.
    pub fn is_overdue(&self) -> bool {
        self.limit.is_some_and(|limit| self.elapsed > limit)
    }
}

/// State of one lane.
#[derive(Debug, Clone)]
pub struct LaneState {
    /// Group of the client that owns the lane; empty: the client has no group.
    pub group: Arc<str>,
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Name of the handler.
    pub handler: Arc<str>,
    /// Number of the partition.
    pub partition: u64,
    /// `idle`, `ready`, `running`, `paused`, `failed` or `leaving`.
    pub state: &'static str,
    /// Next offset to hand out; `None`: unknown.
    pub position: Option<u64>,
    /// Offset up to which all records are processed; `None`: no record is yet.
    pub committable: Option<u64>,
    /// Offset after the last record of the partition; `None`: not known yet.
    pub high_watermark: Option<u64>,
    /// Records that are not processed; `None`: not known yet.
    pub lag: Option<u64>,
    /// Age of the oldest of them; `None`: unknown.
    pub oldest: Option<Duration>,
    /// Records that are decoded or in a handler.
    pub in_flight: u64,
    /// Bytes of fetched records that wait.
    pub queued_bytes: u64,
    /// Number of the next attempt, from 1.
    pub attempt: u64,
    /// How long the oldest running job has run; `None`: none runs.
    pub running_for: Option<Duration>,
    /// Time until the pause ends; `None`: no pause, or one without an end.
    pub paused_for: Option<Duration>,
    /// Time of the last progress since 1970; `None`: none since the assignment.
    pub last_progress: Option<Duration>,
    /// The oldest job runs longer than `stall_after`.
    pub stalled: bool,
    /// Reason why the partition cannot be read, in one word; `None`: it can.
    pub failure: Option<&'static str>,
    /// Reason why the lane waits; `None`: all records of the partition are processed.
    pub waits_for: Option<&'static str>,
    /// How long the lane has not moved, although records wait.
    pub unmoved_for: Duration,
    /// Reason as a sentence, for a lane that has not moved for `stall_after`; `None`: the lane moves.
    pub stall: Option<String>,
}
