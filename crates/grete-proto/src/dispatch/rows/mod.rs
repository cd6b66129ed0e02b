//! The path from fetched bytes to the rows of a job.
//!
//! - `decode_queue`: fetched data of a lane, and its decoding.
//! - `filter`: skips rows that are too young, too old, done already or duplicates.
//! - `decoded_batch`: decoded rows, and the pool of their columns.
//! - `key_partitioner`: partitions decoded rows over the lane's slots.
//! - `row_slice`: rows that wait for their unit.
//! - `batch_memory`: reference count of a decoded batch's bytes.

pub(super) mod batch_memory;
pub(super) mod decode_queue;
pub(super) mod decoded_batch;
pub(super) mod filter;
pub(super) mod key_partitioner;
pub(super) mod row_slice;
