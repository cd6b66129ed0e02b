//! Outbox of the dispatcher for a client's network thread.

use std::sync::Arc;

use grete_wire::records::RecordError;

use super::dedup::DuplicateFilter;
use super::ids::LaneId;
use super::route_config::RouteConfig;
use crate::ids::{PartitionHandle, TopicPartition};
use crate::producer::StagedOutputs;
use crate::share::Acknowledgement;

/// Results collected since the network thread last took the outbox.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Released bytes, per partition.
    pub released: Vec<(PartitionHandle, usize)>,
    /// Bytes that decompression added, per partition. They are released with the rest.
    pub charged: Vec<(PartitionHandle, usize)>,
    /// Acknowledgements of records of share groups, per partition. An empty list only says that records wait for a later
    /// attempt.
    pub acks: Vec<(PartitionHandle, Vec<Acknowledgement>)>,
    /// Lanes that have ended after a revocation, with their last committable offset.
    pub drained: Vec<DrainedLane>,
    /// Batches that failed their check.
    pub corrupt: Vec<CorruptBatch>,
    /// Events of lanes for the log.
    pub lane_events: Vec<LaneEvent>,
    /// Staged records of jobs that end after a trial.
    pub trials: Vec<TrialRequest>,
    /// Lanes that wait for the ids of records before their position.
    pub histories: Vec<HistoryRequest>,
}

/// Records whose trial a suspended job waits for; see [`Dispatch::end_trial`](super::Dispatch::end_trial).
#[derive(Debug)]
pub struct TrialRequest {
    /// Number of the job.
    pub job: u64,
    /// Copies of the job's records.
    pub outputs: Arc<StagedOutputs>,
}

/// History of a lane: records before its committed offset, whose ids count; to be read before the lane's first job.
#[derive(Debug, Clone)]
pub struct HistoryRequest {
    /// Lane that waits.
    pub lane: LaneId,
    /// Topic and partition.
    pub tp: TopicPartition,
    /// Offset behind the last record to read.
    pub before: i64,
    /// Number of records that fit into the memory: earlier ones are not needed.
    pub records: usize,
    /// Age in milliseconds, as seen from the last record, beyond which records are not needed.
    pub window_ms: i64,
    /// Filter that learns the records, in the order of their offsets.
    pub filter: Arc<DuplicateFilter>,
}

/// Event of a lane for the log.
#[derive(Debug, Clone)]
pub struct LaneEvent {
    /// Lane of the event.
    pub lane: LaneId,
    /// Topic and partition.
    pub tp: TopicPartition,
    /// Settings of the route.
    pub policy: Arc<RouteConfig>,
    /// Kind of the event.
    pub kind: LaneEventKind,
}

/// Kind of a lane's event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneEventKind {
    /// The lane waits for marks: as many records as `max_unmarked` allows are open.
    Unmarked {
        /// Number of open records.
        open: usize,
        /// Offset of the first open record.
        first: i64,
        /// Pauses that began since the last report, this pause included.
        pauses: u64,
    },
    /// The lane waits for one open record: as many records as `max_unmarked` allows were handed out from it on.
    AheadOfUnmarked {
        /// Records handed out from the open record on.
        records: usize,
        /// Offset of the open record.
        first: i64,
        /// Pauses that began since the last report, this pause included.
        pauses: u64,
    },
    /// Marks were dropped after their job had ended, because a record that was produced before them was not written.
    /// Their records stay open until the lane's position moves.
    MarksDropped {
        /// Number of calls that marked records.
        marks: u64,
        /// Offset of the first open record.
        first: Option<i64>,
    },
    /// Records were skipped because their ids came before.
    Duplicates {
        /// Number of skipped records.
        records: usize,
        /// Offset of the first skipped record.
        first: i64,
        /// Offset of the last skipped record.
        last: i64,
    },
    /// Ids were dropped before the end of their window, because the memory is full: their duplicates will pass.
    IdsForgotten {
        /// Number of ids.
        ids: usize,
    },
    /// Records older than `max_age_ms` were skipped.
    Expired {
        /// Number of skipped records.
        records: usize,
        /// Offset of the first skipped record.
        first: i64,
        /// Offset of the last skipped record.
        last: i64,
    },
}

/// Offset to commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committable {
    /// Topic and partition.
    pub tp: TopicPartition,
    /// Next offset to read.
    pub offset: i64,
    /// Leader epoch of the last record before `offset`; -1 if unknown (KIP-320).
    pub leader_epoch: i32,
    /// Epoch of the assignment under which the records were processed.
    pub assignment_epoch: u32,
    /// Generation of the position from which the records were processed; `None`: the user gave the offset.
    pub generation: Option<u32>,
    /// Metadata stored with the offset: marks beyond it as the text of an [`OffsetMap`](super::OffsetMap), or empty.
    pub metadata: String,
}

/// Lane that has ended after a revocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainedLane {
    /// Identifier of the lane.
    pub lane: LaneId,
    /// Index of the partition in the fetcher.
    pub handle: PartitionHandle,
    /// Topic and partition.
    pub tp: TopicPartition,
    /// Whether the partition was lost, so that nothing may be committed.
    pub lost: bool,
    /// Committable offset that was not yet returned; `None`: there is none.
    pub commit: Option<Committable>,
}

/// Batch that cannot be decoded.
#[derive(Debug)]
pub struct CorruptBatch {
    /// Lane of the partition.
    pub lane: LaneId,
    /// Index of the partition in the fetcher.
    pub handle: PartitionHandle,
    /// Topic and partition.
    pub tp: TopicPartition,
    /// Fetch generation of the corrupt data.
    pub generation: u32,
    /// Offset from which to fetch again.
    pub offset: i64,
    /// Cause.
    pub error: RecordError,
}
