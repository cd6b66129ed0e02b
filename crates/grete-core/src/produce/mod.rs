//! Producing: records wait in the accumulator, leave in batches, and are settled when their outcome is final.
//!
//! Not obvious:
//! - Sequence numbers count records, not batches, and belong to a batch from its first sending on: whatever may have
//!   been written is sent again under the very same number, until a broker has said what became of it or its time is
//!   over.
//! - A batch is settled for the user when `delivery.timeout.ms` is over, wherever it is. The machine goes on to wait
//!   for what it still owes the broker: only that tells which number comes next.
//! - Nothing here knows of processes. A producer's identity must not survive a fork, and it does not, because handles
//!   are fenced above (a child of a fork never gets to step what its parent made): there is nothing to do for that
//!   here.

mod accumulator;
mod config;
mod error;
mod event;
mod machine;
mod receipt;
#[cfg(test)]
mod tests;

pub use accumulator::{Accumulator, Appended, FlushMark, PartitionId, SharedAccumulator, TopicId, Wake, Words};
pub use config::ProduceConfig;
pub use error::{FatalError, LastError, ProduceError, Refused, TopicError};
pub use event::{GiveUp, Lost, ProduceAction, ProduceEvent, ProduceNotice, ProduceStats};
pub use machine::ProduceMachine;
pub use receipt::{Outcome, Receipt, Settled};
