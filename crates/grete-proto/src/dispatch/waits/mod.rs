//! Reasons why lanes do not move.
//!
//! - `facts`: the reason as a total function of the states of lane, jobs, route, client and partition
//! - `unmoved`: state of lanes from which the facts come, and their progress since the last check
//!
//! No record costs anything here: a reason is computed when a caller wants it, and the watch compares a few numbers of
//! each lane.

pub(super) mod facts;
pub(super) mod unmoved;

use grete_wire::counted;
use grete_wire::error_code::ErrorCode;

use crate::ids::TopicPartition;
use crate::partition::fetch_wait::FetchWait;
use crate::time::Nanos;

/// Reason why a lane waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneWait {
    /// The partition is being given up: its jobs and its last hook end first.
    Leaving,
    /// Jobs of the partition's former assignment still run.
    Predecessor,
    /// A handler runs.
    Handler {
        /// Start of the oldest running job.
        since: Nanos,
        /// Number of its run, from 1.
        attempt: u32,
    },
    /// The handler has returned, and records that it produced are not acknowledged.
    Delivery {
        /// Number of these records.
        records: u64,
    },
    /// A job waits for its event loop.
    EventLoop,
    /// The App is quiet.
    Quiet,
    /// No heartbeat was acknowledged for a session timeout: another member may own the partition.
    Session,
    /// The program has paused the lane.
    Paused {
        /// End of the pause; `None`: the pause has no end.
        until: Option<Nanos>,
    },
    /// The backoff after a failure.
    Retry {
        /// Number of the next run.
        attempt: u32,
        /// First record of that run; `None`: unknown.
        offset: Option<i64>,
        /// End of the backoff.
        at: Nanos,
    },
    /// A job has ended with an exception that is not retried in this process, such as `SystemExit`.
    Halted,
    /// Records are not marked, and nothing but marks moves the lane.
    Unmarked {
        /// Number of these records.
        records: usize,
        /// Offset of the first of them.
        first: i64,
        /// The lane takes no more records before some are marked; false: it has handed out all records.
        blocks: bool,
    },
    /// The ids of the records before the position are being read.
    DedupHistory,
    /// The next record is younger than the route's `delay`.
    Delay {
        /// Time at which the record is old enough.
        until: Nanos,
    },
    /// The rate limit of the route is used up.
    RateLimit,
    /// The running jobs of the route are as many as `max_concurrency` allows.
    MaxConcurrency,
    /// The waiting records are less than a full batch.
    MaxWait {
        /// Time at which they are handed out all the same.
        until: Nanos,
    },
    /// A job is ready, and no worker has taken it.
    Worker,
    /// Records of a low-level consumer wait for the next call of `poll`.
    Poll,
    /// No data comes from a broker.
    Fetch(FetchWait),
    /// An error keeps the partition from being read.
    Failed {
        /// Reason in one word: see [`LaneFailure`](super::LaneFailure).
        reason: &'static str,
    },
    /// Nothing is in the way of the next fetched records.
    Data,
}

impl LaneWait {
    /// Names of all reasons.
    pub const NAMES: [&'static str; 30] = [
        "leaving",
        "predecessor",
        "handler",
        "delivery",
        "event_loop",
        "quiet",
        "session",
        "paused",
        "retry",
        "halted",
        "unmarked",
        "dedup_history",
        "delay",
        "rate_limit",
        "max_concurrency",
        "max_wait",
        "worker",
        "poll",
        "no_topic",
        "no_leader",
        "coordinator",
        "start_offset",
        "queue_limit",
        "memory",
        "no_connection",
        "refused",
        "throttled",
        "open_transaction",
        "failed",
        "data",
    ];

    /// Returns the reason's name, one of [`LaneWait::NAMES`].
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Leaving => "leaving",
            Self::Predecessor => "predecessor",
            Self::Handler { .. } => "handler",
            Self::Delivery { .. } => "delivery",
            Self::EventLoop => "event_loop",
            Self::Quiet => "quiet",
            Self::Session => "session",
            Self::Paused { .. } => "paused",
            Self::Retry { .. } => "retry",
            Self::Halted => "halted",
            Self::Unmarked { .. } => "unmarked",
            Self::DedupHistory => "dedup_history",
            Self::Delay { .. } => "delay",
            Self::RateLimit => "rate_limit",
            Self::MaxConcurrency => "max_concurrency",
            Self::MaxWait { .. } => "max_wait",
            Self::Worker => "worker",
            Self::Poll => "poll",
            Self::Fetch(wait) => wait.name(),
            Self::Failed { .. } => "failed",
            Self::Data => "data",
        }
    }

    /// Returns whether the program itself asked the lane to wait.
    #[must_use]
    pub fn is_intended(self) -> bool {
        matches!(
            self,
            Self::Leaving
                | Self::Quiet
                | Self::Paused { .. }
                | Self::Delay { .. }
                | Self::RateLimit
                | Self::MaxWait { .. }
                | Self::Fetch(FetchWait::Paused)
        )
    }

    /// Returns the reason as a sentence about the partition ("it"), without a full stop. `holder`: partition that holds
    /// most of the memory budget, with its bytes.
    #[must_use]
    pub fn text(self, now: Nanos, holder: Option<&(TopicPartition, usize)>) -> String {
        let left = |until: Nanos| in_seconds(until.saturating_sub(now));
        match self {
            Self::Leaving => "it is being given up, and its last jobs and hooks have not ended".into(),
            Self::Predecessor => "jobs of its former assignment still run in this process".into(),
            Self::Handler { since, attempt } => {
                let attempt = if attempt > 1 { format!(" (attempt {attempt})") } else { String::new() };
                format!("its handler runs for {:.1} s{attempt}", in_seconds(now.saturating_sub(since)))
            }
            Self::Delivery { records } => {
                format!("its handler has returned, and no broker has acknowledged {} of it", counted(records, "record"))
            }
            Self::EventLoop => "its job waits for the event loop".into(),
            Self::Quiet => "the App is quiet and hands out no records".into(),
            Self::Session => {
                "no heartbeat was acknowledged within session.timeout.ms, and another member may own it".into()
            }
            Self::Paused { until: None } => "the program has paused it".into(),
            Self::Paused { until: Some(until) } => {
                format!("the program has paused it, for {:.1} s more", left(until))
            }
            Self::Retry { attempt, offset, at } => {
                let offset = offset.map_or(String::new(), |offset| format!(" at offset {offset}"));
                format!("attempt {attempt}{offset} begins in {:.1} s", left(at))
            }
            Self::Halted => "a job has ended with an exception that stops the process".into(),
            Self::Unmarked { records, first, .. } => {
                format!("{} from offset {first} on wait for a mark", counted(records, "record"))
            }
            Self::DedupHistory => "the ids of the records before its position are being read".into(),
            Self::Delay { until } => {
                format!("its next record is younger than the delay of its handler, for {:.1} s more", left(until))
            }
            Self::RateLimit => "the rate_limit of its handler is used up".into(),
            Self::MaxConcurrency => "its handler runs as many jobs as max_concurrency allows".into(),
            Self::MaxWait { until } => format!("its batch waits for more records, for {:.1} s at most", left(until)),
            Self::Worker => "no worker has taken its job".into(),
            Self::Poll => "its records wait for the next call of poll".into(),
            Self::Fetch(wait) => fetch_text(wait, holder),
            Self::Failed { reason } => format!("it cannot be read ({reason})"),
            Self::Data => "its leader has not sent the next records".into(),
        }
    }
}

fn fetch_text(wait: FetchWait, holder: Option<&(TopicPartition, usize)>) -> String {
    match wait {
        FetchWait::Stopped => "an error stopped it until it gets a new position".into(),
        FetchWait::Paused => "the program has paused it".into(),
        FetchWait::NoTopic => "its topic does not exist any more".into(),
        FetchWait::NoLeader => "it has no leader".into(),
        FetchWait::Coordinator { state } => {
            format!("the group's coordinator has not told its committed offset (the member is {state})")
        }
        FetchWait::StartOffset { code } => format!("its leader has not told its start offset ({})", fmt_code(code)),
        FetchWait::QueueLimit { bytes, limit } => {
            format!("it holds {bytes} fetched bytes, and one partition may hold {limit} of queued_bytes")
        }
        FetchWait::Memory { bytes, limit } => {
            let most = holder.map_or(String::new(), |(tp, held)| {
                format!("; {}[{}] holds most of them: {held}", tp.topic, tp.partition)
            });
            format!("all partitions hold {bytes} fetched bytes, and queued_bytes allows {limit}{most}")
        }
        FetchWait::NoConnection { node } => format!("there is no connection to its leader, broker {node}"),
        FetchWait::Refused { node, code } => {
            format!("its leader, broker {node}, returns no records ({})", fmt_code(code))
        }
        FetchWait::Throttled { node } => format!("its leader, broker {node}, throttles this client"),
        FetchWait::OpenTransaction { offset } => {
            format!("a transaction is open: the last stable offset stands at {offset}")
        }
    }
}

fn fmt_code(code: ErrorCode) -> String {
    if code == ErrorCode::NONE { "no answer".into() } else { code.to_string() }
}

fn in_seconds(nanos: Nanos) -> f64 {
    std::time::Duration::from_nanos(nanos).as_secs_f64()
}
