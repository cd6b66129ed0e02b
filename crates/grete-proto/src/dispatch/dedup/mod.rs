//! Deduplication of records by an id of theirs.
//!
//! - `duplicates`: ids that a lane has read, and the decision.
//! - `json_field`: id in a field of a JSON object.

pub(in crate::dispatch) mod duplicates;
mod json_field;

pub use duplicates::{DedupPolicy, DuplicateFilter, IdSource};
