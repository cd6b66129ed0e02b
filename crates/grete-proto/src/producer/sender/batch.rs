//! A batch to be sent or in flight, or a part of a split batch, and the request that carries batches.

use std::ops::Range;
use std::sync::Arc;

use grete_wire::records::EncodedBatch;

use crate::ids::NodeId;
use crate::ids::PartitionId;
use crate::producer::batch_promise::BatchPromise;
use crate::producer::error::LastError;

#[derive(Debug)]
pub(super) struct SendBatch {
    pub partition: PartitionId,
    /// Number of the batch; all parts of a split batch share it.
    pub number: u64,
    /// Index of the first record in the unsplit batch.
    pub first_index: u32,
    pub promise: Arc<BatchPromise>,
    pub batch: EncodedBatch,
    /// Bytes of `buffer.memory` that the batch takes.
    pub charge: usize,
    /// Sequence number of the first record; `None`: not sent yet, or the batch must get a new number.
    pub sequence: Option<i32>,
    /// Id of the topic at the last send.
    pub topic_id: u128,
    /// An attempt may have been written.
    pub maybe_written: bool,
    /// Ranges of records that may have been written as a whole before they were split; this batch is a part of each.
    pub ambiguous_ranges: Vec<Range<u32>>,
    /// The batch is complete for the user. The response matters only for the following sequence numbers.
    pub completed: bool,
    /// Result of the last attempt.
    pub last_error: Option<LastError>,
}

impl SendBatch {
    /// Returns the sort key: the order in which the records were appended to the partition.
    pub fn key(&self) -> (u64, u32) {
        (self.number, self.first_index)
    }

    /// Returns the indexes of the records in the unsplit batch.
    pub fn range(&self) -> Range<u32> {
        self.first_index..self.first_index.saturating_add(self.batch.count())
    }

    /// Returns whether the records may have been written, by an attempt of this batch or before it was split off.
    pub fn is_ambiguous(&self) -> bool {
        self.maybe_written || !self.ambiguous_ranges.is_empty()
    }
}

/// A produce request without a response.
#[derive(Debug)]
pub(super) struct InFlightRequest {
    pub node: NodeId,
    /// Batches sorted by topic and partition.
    pub batches: Vec<SendBatch>,
    /// Topic ids and names.
    pub ids: Vec<(u128, Arc<str>)>,
}
