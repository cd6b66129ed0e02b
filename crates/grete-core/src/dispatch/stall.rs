//! Jobs that take longer than their route expects.

use std::sync::Arc;

use super::job::JobKind;
use super::route::RoutePolicy;
use super::unit::UnitId;
use crate::ids::TopicPartition;
use crate::time::Nanos;

/// A job that runs for too long; told once per job and limit.
#[derive(Debug, Clone)]
pub struct Stall {
    /// Whose job.
    pub unit: UnitId,
    /// The partition.
    pub tp: TopicPartition,
    /// The route.
    pub policy: Arc<RoutePolicy>,
    /// Which hook.
    pub kind: JobKind,
    /// The worker's name.
    pub worker: String,
    /// How long it runs.
    pub running_for: Nanos,
    /// First and last offset of its rows.
    pub offsets: Option<(i64, i64)>,
    /// Past `handler_timeout`, not only past `stall_after`.
    pub overdue: bool,
}
