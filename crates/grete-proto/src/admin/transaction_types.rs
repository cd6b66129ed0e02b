//! Types of the operations on transactions and their producers (KIP-664).

use crate::ids::{NodeId, TopicPartition};

/// Filter of the transactions of a coordinator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransactionFilter {
    /// States, such as `Ongoing`; empty: all.
    pub states: Vec<String>,
    /// Producer ids; empty: all.
    pub producer_ids: Vec<i64>,
}

/// A transactional id that a coordinator knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionListing {
    /// Transactional id.
    pub transactional_id: String,
    /// Producer id.
    pub producer_id: i64,
    /// State of the transaction.
    pub state: String,
    /// Broker that coordinates the id.
    pub coordinator: NodeId,
}

/// A transactional id and its transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionDescription {
    /// Transactional id.
    pub transactional_id: String,
    /// Broker that coordinates the id.
    pub coordinator: NodeId,
    /// State of the transaction.
    pub state: String,
    /// `transaction.timeout.ms` of the producer.
    pub timeout_ms: i32,
    /// Time of the start in milliseconds since 1970; `None`: no transaction is open.
    pub started_ms: Option<i64>,
    /// Producer id.
    pub producer_id: i64,
    /// Epoch of the producer.
    pub producer_epoch: i16,
    /// Partitions of the open transaction, sorted.
    pub partitions: Vec<TopicPartition>,
}

/// A producer that a partition's log knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveProducer {
    /// Producer id.
    pub producer_id: i64,
    /// Epoch of the producer.
    pub producer_epoch: i32,
    /// Sequence number of the last record; -1: none.
    pub last_sequence: i32,
    /// Timestamp of the last batch in milliseconds since 1970; -1: none.
    pub last_timestamp: i64,
    /// Epoch of the coordinator that wrote the last marker; -1: none.
    pub coordinator_epoch: i32,
    /// First offset of the open transaction; `None`: none is open.
    pub transaction_start: Option<i64>,
}

/// Marker that aborts the open transaction of a producer in one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortMarker {
    /// Producer id.
    pub producer_id: i64,
    /// Epoch of the producer.
    pub producer_epoch: i16,
    /// Epoch of the coordinator that wrote the last marker; 0: none.
    pub coordinator_epoch: i32,
}
