//! Records that wait in memory for the transaction that will have them.
//!
//! An exactly-once job stages what it produces. Nothing goes to a broker before the job has ended and its offsets are
//! committed: then one transaction has the records and the offsets.

mod budget;
mod commit;
mod outputs;
mod records;

pub use budget::StagingBudget;
pub use commit::{RefusedRecord, StagedCommit, StagedCommitResult};
pub use outputs::StagedOutputs;
pub use records::{StagedRecord, StagedRecords};
