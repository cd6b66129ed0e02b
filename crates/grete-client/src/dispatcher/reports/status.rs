//! Status of jobs and lanes, for reports.

use std::sync::Arc;
use std::time::Duration;

use grete_proto::dispatch::{ClientId, InFlightJob, JobKind, LaneStatus, LaneWait, Pool};
use grete_proto::ids::TopicPartition;
use grete_proto::time::Nanos;

/// Job in flight.
#[derive(Debug, Clone)]
pub struct RunningJob {
    /// Pool that runs the job.
    pub pool: Pool,
    /// Topic of the job.
    pub topic: Arc<str>,
    /// Partition of the job.
    pub partition: i32,
    /// Number of the handler instance among those of the lane.
    pub slot: u32,
    /// Number of the route.
    pub route: u32,
    /// Name of the handler.
    pub handler: Arc<str>,
    /// Hook that runs.
    pub kind: JobKind,
    /// Name of the worker.
    pub worker: String,
    /// False: the job waits for its event loop.
    pub started: bool,
    /// Seconds that the job has run or waited.
    pub seconds: f64,
    /// `handler_timeout` in seconds; `None`: no limit, or the handler has returned.
    pub limit: Option<f64>,
    /// Number of produced records that the job waits for after its handler has returned; `None`: the handler has not
    /// returned.
    pub undelivered: Option<u64>,
}

impl RunningJob {
    pub(super) fn new(job: InFlightJob, now: Nanos) -> Self {
        Self {
            pool: job.policy.pool,
            topic: job.tp.topic,
            partition: job.tp.partition,
            slot: job.instance,
            route: job.policy.route,
            handler: Arc::clone(&job.policy.name),
            kind: job.kind,
            worker: job.worker,
            started: job.started,
            seconds: seconds(now.saturating_sub(job.since)),
            limit: job.policy.handler_timeout.filter(|_| job.handled_at.is_none()).map(seconds),
            undelivered: job.handled_at.map(|_| job.shared.pending_outputs()),
        }
    }
}

/// Status of one lane.
#[derive(Debug, Clone)]
pub struct LaneReport {
    /// Client that owns the lane.
    pub(crate) client: ClientId,
    /// Topic of the lane.
    pub topic: Arc<str>,
    /// Partition of the lane.
    pub partition: i32,
    /// Number of the route.
    pub route: u32,
    /// Name of the handler.
    pub handler: Arc<str>,
    /// `idle`, `ready`, `running`, `paused`, `failed` or `leaving`.
    pub state: &'static str,
    /// Next offset to hand out; `None`: unknown.
    pub position: Option<i64>,
    /// Offset that may be committed; `None`: none.
    pub committable: Option<i64>,
    /// High watermark of the last Fetch response; `None`: nothing fetched yet.
    pub high_watermark: Option<i64>,
    /// Broker that has sent the last fetched records: the leader, or a follower; `None`: nothing fetched yet.
    pub source: Option<i32>,
    /// Bytes of fetched records that wait.
    pub queued_bytes: usize,
    /// Number of records up to the last known end that are not processed; `None`: the end is not known yet.
    pub lag: Option<i64>,
    /// Age of the oldest record that is not processed, in seconds by its timestamp. 0: all are processed; `None`:
    /// unknown, see [`LaneStatus::oldest_ms`].
    pub lag_seconds: Option<f64>,
    /// Time when a record was last processed or skipped, in seconds since the epoch; `None`: never since the
    /// assignment.
    pub last_progress: Option<f64>,
    /// Jobs that run, on the event loop those whose coroutine has begun. A job whose handler has returned does not run.
    pub running: usize,
    /// Running time of the lane's oldest job in seconds; `None`: none runs. A job that waits for the event loop does
    /// not run.
    pub running_for: Option<f64>,
    /// Whether that job was reported as stalled.
    pub stalled: bool,
    /// Number of the next run after a failure; else 1.
    pub attempt: u32,
    /// Records that are handed out or decoded, and not processed.
    pub in_flight: usize,
    /// Records that are handed out and not marked, where only marks count.
    pub unmarked: usize,
    /// Records that are marked and behind one that is not, so that no commit covers them.
    pub done_ahead: usize,
    /// Seconds until the pause ends; `None`: not paused, or paused without an end.
    pub paused_for: Option<f64>,
    /// Reason why the partition cannot be read; `None`: it can.
    pub failure: Option<FailureReport>,
    /// Reason why the lane waits; `None`: all records of the partition are processed.
    pub wait: Option<WaitReport>,
    /// Seconds since records were last handed out, marked or committed while records wait, to about a second; 0: none
    /// waits, or the lane moves.
    pub unmoved_for: f64,
    /// Whether the lane has not moved for `stall_after`.
    pub is_unmoved: bool,
}

/// Reason why a lane waits.
#[derive(Debug, Clone)]
pub struct WaitReport {
    wait: LaneWait,
    holder: Option<(TopicPartition, usize)>,
    now: Nanos,
}

impl WaitReport {
    /// Returns the reason's name, as "retry": one of [`LaneWait::NAMES`].
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.wait.name()
    }

    /// Returns the reason as a sentence about the partition ("it"), as of the time of the report.
    #[must_use]
    pub fn text(&self) -> String {
        self.wait.text(self.now, self.holder.as_ref())
    }
}

/// Reason why a partition cannot be read.
#[derive(Debug, Clone)]
pub struct FailureReport {
    /// Reason as one word.
    pub reason: &'static str,
    /// Message for the user: the error and the cure.
    pub error: Arc<str>,
    /// Duration of the failure in seconds.
    pub seconds: f64,
    /// Start of the failure, in seconds since the epoch.
    pub since: f64,
}

impl LaneReport {
    /// Creates the report. `wall`: current time in seconds since the epoch.
    pub(super) fn new(lane: LaneStatus, now: Nanos, wall: f64) -> Self {
        let high_watermark = (lane.high_watermark >= 0).then_some(lane.high_watermark);
        Self {
            client: lane.client,
            topic: lane.tp.topic,
            partition: lane.tp.partition,
            route: lane.policy.route,
            handler: Arc::clone(&lane.policy.name),
            state: lane.state.name(),
            position: lane.position,
            committable: lane.committable,
            high_watermark,
            source: lane.source,
            queued_bytes: lane.queued_bytes,
            lag: lane.lag.map(|lag| i64::try_from(lag).unwrap_or(i64::MAX)),
            lag_seconds: if lane.lag == Some(0) {
                Some(0.0)
            } else {
                lane.oldest_ms.map(|at| (wall - at as f64 / 1000.0).max(0.0))
            },
            last_progress: lane.progress_at.map(|at| wall - seconds(now.saturating_sub(at))),
            running: lane.running_jobs,
            running_for: lane.running_since.map(|since| seconds(now.saturating_sub(since))),
            stalled: lane.stalled,
            attempt: lane.attempt,
            in_flight: lane.in_flight,
            unmarked: lane.unmarked,
            done_ahead: lane.done_ahead,
            paused_for: lane.paused_until.map(|until| seconds(until.saturating_sub(now))),
            wait: lane.wait.map(|wait| WaitReport { wait, holder: lane.memory_holder, now }),
            unmoved_for: lane.unmoved_since.map_or(0.0, |since| seconds(now.saturating_sub(since))),
            is_unmoved: lane.is_unmoved,
            failure: lane.failure.map(|failure| {
                let failing_for = seconds(now.saturating_sub(failure.since));
                FailureReport {
                    reason: failure.reason,
                    error: failure.error,
                    seconds: failing_for,
                    since: wall - failing_for,
                }
            }),
        }
    }
}

fn seconds(nanos: Nanos) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64()
}
