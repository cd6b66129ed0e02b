//! Exactly-once jobs: what they produce is staged in the job, and committed in one transaction with their offsets.
//!
//! - `output_store`: records of ended jobs, until the transaction that has them is committed.
//! - `commits`: calls of the network thread, which commits.

mod commits;
pub(in crate::dispatch) mod output_store;

pub use commits::{TransactionDemand, TransactionEnd};
