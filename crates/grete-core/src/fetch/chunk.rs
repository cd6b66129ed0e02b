//! What the fetch machine hands on: some whole batches of one partition, not yet decoded.

use std::ops::Range;

use grete_wire::records::AbortedTransaction;
use grete_wire::slab::Slab;

use super::times::Times;
use crate::ids::Slot;

/// Whole, header-walked batches of one slot. They may hold no record that the app sees (control or emptied batches):
/// the position goes on to `next_offset` all the same.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// Whose.
    pub slot: Slot,
    /// The assignment it was fetched for.
    pub assignment_epoch: u32,
    /// The position history it belongs to; see [`crate::partitions::Partitions::is_current`].
    pub fetch_generation: u32,
    /// The response.
    pub frame: Slab,
    /// Where the batches lie in `frame`.
    pub range: Range<usize>,
    /// Records below this are not wanted: the first batch may start earlier.
    pub fetch_offset: i64,
    /// The offset after the last batch.
    pub next_offset: i64,
    /// Transactions to filter with read_committed; empty otherwise.
    pub aborted: Vec<AbortedTransaction>,
    /// End of what is replicated; -1 when unknown.
    pub high_watermark: i64,
    /// End of what may be read: with read_committed the last stable offset; -1 when unknown.
    pub readable_end: i64,
    /// First offset that retention left; -1 when unknown.
    pub log_start_offset: i64,
    /// What it costs of the budget until it is released: the batches' bytes.
    pub bytes: usize,
    /// Leader epoch of the last batch; -1 when unknown.
    pub leader_epoch: i32,
    /// Of what time the records are.
    pub times: Times,
}
