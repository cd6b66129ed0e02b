//! Exactly-once jobs: what they produce is staged, and committed in one transaction with their offsets.
//!
//! - `job_staging`: records and marks of a running job.
//! - `output_store`: records of ended jobs, until the transaction that has them is committed.
//! - `commits`: calls of the network thread, which commits.

mod commits;
pub(in crate::dispatch) mod job_staging;
pub(in crate::dispatch) mod output_store;

pub use commits::{TransactionDemand, TransactionEnd};
pub use job_staging::StageError;
