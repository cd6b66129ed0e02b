//! Operations of a broker on record batches: reads, leader's fields, compaction and transaction markers.
//!
//! - `batch_reader`: records of a batch, as they are encoded.
//! - `leader_fields`: fields that the leader of a partition writes into a batch.
//! - `rewrite`: batch with a part of its records, or with another codec.
//! - `marker`: control batch that ends a transaction.

pub(super) mod batch_reader;
pub(super) mod leader_fields;
pub(super) mod marker;
pub(super) mod rewrite;
#[cfg(test)]
mod tests;
