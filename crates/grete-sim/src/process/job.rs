//! Job in a worker of a simulated process.

use std::sync::Arc;

use grete_proto::dispatch::{JobKind, JobState, LaneId, Lease};
use grete_proto::ids::TopicPartition;
use grete_proto::time::Nanos;

use super::producer::Appended;
use crate::oracle::input_id;
use crate::plan::RecordPlan;

/// Row of a job.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) offset: i64,
    /// `None`: the value names no record of the plan.
    pub(crate) record: Option<RecordPlan>,
}

/// Dead letter that is on its way.
#[derive(Debug, Clone)]
pub(super) struct DeadLetter {
    pub(super) appended: Appended,
    /// Time at which the worker gives up its wait.
    pub(super) until: Nanos,
}

/// Job that runs.
#[derive(Debug)]
pub(crate) struct RunningJob {
    pub(super) lease: Lease,
    pub(super) shared: Arc<JobState>,
    pub(crate) lane: LaneId,
    pub(crate) tp: TopicPartition,
    pub(super) kind: JobKind,
    pub(super) rows: Vec<Row>,
    /// Row in progress.
    pub(super) next: usize,
    /// Outputs of that row so far.
    pub(super) produced: u32,
    /// Whether the handler has worked on the row in progress.
    pub(super) has_worked: bool,
    /// Row at which the handler raises.
    pub(super) failing: Option<usize>,
    pub(super) dead_letter: Option<DeadLetter>,
    /// The partition is lost or abandoned: another member may work on it.
    pub(crate) is_void: bool,
}

impl RunningJob {
    pub(super) fn new(lease: Lease, find: impl Fn(u64) -> Option<RecordPlan>) -> Self {
        let mut rows = Vec::new();
        if let Some(batch) = lease.shared.batch() {
            for (row, offset) in batch.rows.clone().zip(batch.offsets()) {
                let record = batch.columns.value(row).and_then(input_id).and_then(&find);
                rows.push(Row { offset: *offset, record });
            }
        }
        Self {
            shared: Arc::clone(&lease.shared),
            lane: lease.lane,
            tp: lease.tp.clone(),
            kind: lease.kind,
            lease,
            rows,
            next: 0,
            produced: 0,
            has_worked: false,
            failing: None,
            dead_letter: None,
            is_void: false,
        }
    }

    /// Returns whether the job works on records, which belong to one member at a time.
    pub(crate) fn touches_records(&self) -> bool {
        matches!(self.kind, JobKind::Consume | JobKind::DeadLetter)
    }
}
