//! How a process does.

use std::sync::Arc;
use std::time::Duration;

use crate::metrics::Metrics;

/// Knows how things are. It is asked from threads of this crate while the interpreter may hang: it takes no lock that is held
/// by somebody who waits for the interpreter's.
pub trait Source: Send + Sync {
    /// Fills in what it knows; the report is empty before.
    fn read(&self, report: &mut Report);

    /// Fills in what it counts; everything is unknown before.
    fn metrics(&self, metrics: &mut Metrics);
}

/// How a process does. What the reporter knows itself (number, uptime, wait for the lock, dropped reports) is not in it.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// All groups are steady, and workers run.
    pub steady: bool,
    /// Something is ready, and no worker has come for it yet.
    pub work_waits: bool,
    /// No more records are handed out.
    pub quiet: bool,
    /// A stop is under way.
    pub stopping: bool,
    /// Resident bytes; `None`: not to be had.
    pub rss: Option<u64>,
    /// Proportional bytes; `None`: not to be had, or not asked for.
    pub pss: Option<u64>,
    /// One for each client.
    pub groups: Vec<Group>,
    /// Lanes by state.
    pub lanes: LaneCounts,
    /// Records that wait in the lanes that know; `None`: none knows.
    pub lag: Option<u64>,
    /// All jobs under way, in any order.
    pub running: Vec<RunningJob>,
    /// Lanes whose job has run longer than it should, as "topic[partition]".
    pub stalled: Vec<String>,
    /// Jobs that have ended.
    pub jobs: u64,
    /// Their records.
    pub records: u64,
    /// Jobs that failed.
    pub failures: u64,
    /// Records that went to dead letter topics.
    pub dead_letters: u64,
    /// Threads that run jobs.
    pub workers: u64,
}

/// One client's membership.
#[derive(Debug, Clone)]
pub struct Group {
    /// The group's name; empty: none.
    pub group: String,
    /// In one word.
    pub state: &'static str,
    /// How long it has been in that state.
    pub since: Duration,
    /// Whether it has what it is to have.
    pub steady: bool,
    /// `None`: it is no member.
    pub generation: Option<u64>,
    /// How many it has.
    pub partitions: u64,
    /// Of a static member.
    pub instance: Option<String>,
    /// Brokers that it is connected to; `None`: not known.
    pub connections: Option<u64>,
}

/// Lanes by state.
#[derive(Debug, Clone, Copy, Default)]
pub struct LaneCounts {
    /// Nothing to do.
    pub idle: u64,
    /// Wait for a worker.
    pub ready: u64,
    /// Have a job under way.
    pub running: u64,
    /// Wait for something else.
    pub paused: u64,
    /// On their way out.
    pub leaving: u64,
}

/// A job under way.
#[derive(Debug, Clone)]
pub struct RunningJob {
    /// The handler's name.
    pub handler: Arc<str>,
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: u64,
    /// How long it has run.
    pub elapsed: Duration,
    /// How long it may run.
    pub limit: Option<Duration>,
}

impl RunningJob {
    /// Whether it has run longer than it may.
    #[must_use]
    pub fn is_overdue(&self) -> bool {
        self.limit.is_some_and(|limit| self.elapsed > limit)
    }
}
