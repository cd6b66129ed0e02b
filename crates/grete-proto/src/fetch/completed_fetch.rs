//! Output of the fetcher: whole batches of one partition, not yet decoded.

use std::ops::Range;
use std::sync::Arc;

use grete_wire::buffer_pool::PooledBuf;
use grete_wire::records::AbortedTransaction;

use super::acquired::AcquiredRange;
use super::timestamp_range::TimestampRange;
use crate::ids::{NodeId, PartitionHandle};

/// Whole batches of one partition with checked headers. They may hold no record for the application (control or emptied
/// batches); the position advances to `next_offset` all the same.
#[derive(Debug, Clone)]
pub struct CompletedFetch {
    /// Partition of the batches.
    pub slot: PartitionHandle,
    /// Assignment under which the batches were fetched.
    pub assignment_epoch: u32,
    /// Generation of the position; see
    /// [`PartitionTable::is_current`](crate::partition::table::PartitionTable::is_current).
    pub fetch_generation: u32,
    /// Buffer with the Fetch response.
    pub frame: PooledBuf,
    /// Byte range of the batches in `frame`.
    pub range: Range<usize>,
    /// Offset of the Fetch. The first batch may start earlier; its records below this offset must be dropped.
    pub fetch_offset: i64,
    /// Offset after the last batch.
    pub next_offset: i64,
    /// Aborted transactions to filter with read_committed; empty otherwise.
    pub aborted_transactions: Vec<AbortedTransaction>,
    /// High watermark; -1 when unknown.
    pub high_watermark: i64,
    /// End of the readable records: the last stable offset with read_committed; -1 when unknown.
    pub readable_end: i64,
    /// Log start offset; -1 when unknown.
    pub log_start_offset: i64,
    /// Bytes charged to the memory budget until released: the size of the batches.
    pub bytes: usize,
    /// Leader epoch of the last batch; -1 when unknown.
    pub leader_epoch: i32,
    /// Node id of the broker that has sent the batches: the leader, or a follower (KIP-392).
    pub source: NodeId,
    /// Timestamps of the records, from the batch headers.
    pub timestamps: TimestampRange,
    /// Records that a share group has acquired for this member, ascending: the others are not for it. `None`: all
    /// records are.
    pub acquired: Option<Arc<[AcquiredRange]>>,
}
