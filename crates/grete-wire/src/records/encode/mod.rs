//! Encoder of record batches.
//!
//! - `producer_record`: record to append, and its exact size.
//! - `batch_builder`: batch under construction; each record is encoded when it is appended.
//! - `fast_path`: faster appends for common records.
//! - `encoded_batch`: finished batch.
//! - `split`: split of a finished batch in two.

pub(super) mod batch_builder;
pub(super) mod encoded_batch;
pub(super) mod fast_path;
pub(super) mod producer_record;
mod split;
