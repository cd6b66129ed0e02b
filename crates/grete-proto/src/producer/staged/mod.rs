//! Records that wait in memory for the transaction that will have them, and the run of such a transaction.
//!
//! An exactly-once job stages what it produces. Nothing goes to a broker before the job has ended and its offsets are
//! committed: then one transaction has the records and the offsets.

mod budget;
mod outputs;
mod run;

pub use budget::StagingBudget;
pub use outputs::{StagedOutputs, StagedRecord};
pub use run::{RefusedRecord, StagedCommit, StagedCommitResult};

pub(in crate::producer) use run::{FIRST_STAGED_CALL, StagedRun};
