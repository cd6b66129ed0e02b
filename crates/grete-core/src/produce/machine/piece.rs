//! A batch on its way, or a part of one that was split.

use std::ops::Range;
use std::sync::Arc;

use grete_wire::records::EncodedBatch;

use crate::produce::accumulator::PartitionId;
use crate::produce::error::LastError;
use crate::produce::receipt::Receipt;

#[derive(Debug)]
pub(super) struct Piece {
    pub lane: PartitionId,
    /// The batch's.
    pub number: u64,
    /// Place of its first record in the batch.
    pub first: u32,
    pub receipt: Arc<Receipt>,
    pub batch: EncodedBatch,
    /// Bytes of `buffer.memory` that it takes.
    pub charge: usize,
    /// Its first record's number; `None` before it is sent, and once it is certain that it has to get another.
    pub sequence: Option<i32>,
    /// The id of the topic that it was last sent to.
    pub topic_id: u128,
    /// An attempt may have been written.
    pub maybe: bool,
    /// Runs of records of which this one is a part, and which may have been written as a whole before they were split.
    pub doubts: Vec<Range<u32>>,
    /// The user has been told. What the broker will say matters for the numbers that follow, and for nothing else.
    pub told: bool,
    /// What the last attempt came to.
    pub last: Option<LastError>,
}

impl Piece {
    /// Orders the pieces of a partition as their records were appended.
    pub fn key(&self) -> (u64, u32) {
        (self.number, self.first)
    }

    /// The places of its records in the batch.
    pub fn range(&self) -> Range<u32> {
        self.first..self.first.saturating_add(self.batch.count())
    }

    /// Whether its records may have been written, in an attempt of its own or before it was split off.
    pub fn is_doubtful(&self) -> bool {
        self.maybe || !self.doubts.is_empty()
    }
}
