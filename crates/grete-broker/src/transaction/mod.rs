//! Transaction coordinator: producer ids, the state of each transactional id, and the markers that end a transaction.
//!
//! A transaction ends in two steps. [`TransactionCoordinator::end`] decides and returns a [`Marker`]; the caller writes
//! the marker to the logs and the groups and then calls [`TransactionCoordinator::complete`]. Between both steps, the
//! coordinator answers `CONCURRENT_TRANSACTIONS`. After a restart, [`TransactionCoordinator::prepared`] returns the
//! markers that were possibly not written: a second marker is harmless.
//!
//! Functions that change the state append [`TransactionChange`]s in order. The caller stores the changes before it
//! answers; [`TransactionCoordinator::restore`] applies them after a restart.
//!
//! One coordinator serves the whole cluster, so its epoch is always 0.

pub mod api;
mod coordinator;
mod state;
#[cfg(test)]
mod tests;

pub use coordinator::{
    Ended, Initialized, Marker, TransactionChange, TransactionConfig, TransactionCoordinator, TransactionFilter,
};
pub use state::{Producer, Transaction, TransactionState};
