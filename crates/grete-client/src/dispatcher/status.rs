//! How jobs and lanes do, for people.

use std::sync::Arc;
use std::time::Duration;

use grete_core::dispatch::{ClientId, JobKind, LaneStatus, Pool, Running};
use grete_core::time::Nanos;

/// A job under way.
#[derive(Debug, Clone)]
pub struct RunningJob {
    /// Who runs it.
    pub pool: Pool,
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
    /// Which of the lane's units.
    pub slot: u32,
    /// The route's number.
    pub route: u32,
    /// The handler's name.
    pub handler: Arc<str>,
    /// Which hook.
    pub kind: JobKind,
    /// The worker's name.
    pub worker: String,
    /// For how many seconds.
    pub seconds: f64,
    /// For how many seconds it should run at most.
    pub limit: Option<f64>,
}

impl RunningJob {
    pub(super) fn new(job: Running, now: Nanos) -> Self {
        Self {
            pool: job.policy.pool,
            topic: job.tp.topic,
            partition: job.tp.partition,
            slot: job.unit.slot,
            route: job.policy.route,
            handler: Arc::clone(&job.policy.name),
            kind: job.kind,
            worker: job.worker,
            seconds: seconds(now.saturating_sub(job.since)),
            limit: job.policy.handler_timeout.map(seconds),
        }
    }
}

/// How one lane does.
#[derive(Debug, Clone)]
pub struct LaneReport {
    /// Whose.
    pub(crate) client: ClientId,
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
    /// The route's number.
    pub route: u32,
    /// The handler's name.
    pub handler: Arc<str>,
    /// idle, ready, running, paused or leaving.
    pub state: &'static str,
    /// The next offset to hand out, once it is known.
    pub position: Option<i64>,
    /// The offset that may be committed.
    pub committable: Option<i64>,
    /// End of the partition as last told; `None` before the first data.
    pub high_watermark: Option<i64>,
    /// Bytes that wait.
    pub queued_bytes: usize,
    /// Records that are not done, as the end was last told; `None` before it was.
    pub lag: Option<i64>,
    /// For how many seconds the oldest record that is not done has been there, by its timestamp; 0 if there is none, `None` if
    /// that is not known: see [`LaneStatus::oldest_ms`].
    pub lag_seconds: Option<f64>,
    /// When a record was last done or passed over, in seconds since the epoch; `None`: none was since the partition came.
    pub last_progress: Option<f64>,
    /// For how many seconds its oldest job runs.
    pub running_for: Option<f64>,
    /// Whether that job has been told as stalled.
    pub stalled: bool,
    /// The coming run's number, where something has failed; else 1.
    pub attempt: u32,
    /// Records handed out or decoded, and not done.
    pub in_flight: usize,
    /// Open records, where marks alone count.
    pub unmarked: usize,
    /// For how many seconds it is paused still, if the pause has an end.
    pub paused_for: Option<f64>,
}

impl LaneReport {
    /// `wall`: now, in seconds since the epoch.
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
            queued_bytes: lane.queued_bytes,
            lag: lane.lag.map(|lag| i64::try_from(lag).unwrap_or(i64::MAX)),
            lag_seconds: if lane.lag == Some(0) {
                Some(0.0)
            } else {
                lane.oldest_ms.map(|at| (wall - at as f64 / 1000.0).max(0.0))
            },
            last_progress: lane.progress_at.map(|at| wall - seconds(now.saturating_sub(at))),
            running_for: lane.running_since.map(|since| seconds(now.saturating_sub(since))),
            stalled: lane.stalled,
            attempt: lane.attempt,
            in_flight: lane.in_flight,
            unmarked: lane.unmarked,
            paused_for: lane.paused_until.map(|until| seconds(until.saturating_sub(now))),
        }
    }
}

fn seconds(nanos: Nanos) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64()
}
