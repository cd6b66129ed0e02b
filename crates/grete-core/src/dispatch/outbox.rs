//! What the dispatcher has to tell a client's network thread.

use std::sync::Arc;

use grete_wire::records::RecordError;

use super::lane::LaneId;
use super::route::RoutePolicy;
use crate::ids::{Slot, TopicPartition};

/// Collected between two looks of the network thread.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Bytes that left the queue, per slot.
    pub released: Vec<(Slot, usize)>,
    /// Bytes that decompression added, per slot; they are released with the rest.
    pub charged: Vec<(Slot, usize)>,
    /// Lanes that are gone, with what is to be committed for them.
    pub drained: Vec<Drained>,
    /// Batches that did not pass their check.
    pub corrupt: Vec<Corrupt>,
    /// What somebody should read about lanes.
    pub remarks: Vec<Remark>,
}

/// Something about a lane that its owner should read.
#[derive(Debug, Clone)]
pub struct Remark {
    /// Whose.
    pub lane: LaneId,
    /// Its partition.
    pub tp: TopicPartition,
    /// The route.
    pub policy: Arc<RoutePolicy>,
    /// What.
    pub what: RemarkKind,
}

/// What there is to remark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemarkKind {
    /// As many records as `max_unmarked` allows are open: the lane waits for marks.
    Unmarked {
        /// Open records.
        open: usize,
        /// The first of them.
        first: i64,
    },
    /// As many records as `max_unmarked` allows were handed out since one that is not done: the lane waits for that one.
    Ahead {
        /// Records from that one on.
        records: usize,
        /// Its offset.
        first: i64,
    },
    /// Records older than `expire` were passed over.
    Expired {
        /// How many.
        records: usize,
        /// The first of them.
        first: i64,
        /// The last of them.
        last: i64,
    },
}

/// An offset to commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committable {
    /// Of this partition.
    pub tp: TopicPartition,
    /// The next offset to read.
    pub offset: i64,
    /// Leader epoch of the last record before it, -1 if unknown (KIP-320).
    pub leader_epoch: i32,
    /// The assignment under which it was earned.
    pub assignment_epoch: u32,
    /// Stored with it: what is marked beyond the offset (an [`OffsetMap`](super::OffsetMap)'s text), or nothing.
    pub metadata: String,
}

/// A lane that has left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drained {
    /// Its name.
    pub lane: LaneId,
    /// Its slot.
    pub slot: Slot,
    /// Its partition.
    pub tp: TopicPartition,
    /// Whether the partition was taken away already (then nothing is to be committed).
    pub lost: bool,
    /// What has been earned and not yet been told.
    pub commit: Option<Committable>,
}

/// A batch that cannot be decoded.
#[derive(Debug)]
pub struct Corrupt {
    /// Where.
    pub lane: LaneId,
    /// Its slot.
    pub slot: Slot,
    /// Its partition.
    pub tp: TopicPartition,
    /// What the chunk carried.
    pub generation: u32,
    /// Fetch again from here.
    pub offset: i64,
    /// Why.
    pub error: RecordError,
}
