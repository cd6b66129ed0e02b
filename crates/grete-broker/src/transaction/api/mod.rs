//! Requests of clients, from the decoded form to the response. The functions that end a transaction also return its
//! marker: the caller writes the marker and calls [`TransactionCoordinator::complete`](super::TransactionCoordinator).

mod admin;
mod producer;
mod verify;

pub use admin::{describe_transactions, list_transactions};
pub use producer::{add_offsets_to_txn, add_partitions_to_txn, end_txn, init_producer_id};
pub use verify::{before_append, before_txn_offset_commit, txn_offset_commit_response};
