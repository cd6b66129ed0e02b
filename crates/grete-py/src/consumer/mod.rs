//! Records that handlers and `poll` get.
//!
//! - `messages`, `message`: the Python classes `Messages` and `Message`.
//! - `job_batch`: the columns and payloads behind them.
//! - `record_batches`: record batches from records, and back, for tests.
//! - `int64_column`: offsets and timestamps as buffers.

pub(super) mod int64_column;
pub(super) mod job_batch;
pub(super) mod message;
pub(super) mod messages;
pub(crate) mod record_batches;
pub(crate) mod topic_pattern;
