//! Log events of fetching and positions: conditions that the client handles, but users should know about.

use grete_wire::error::WireError;
use grete_wire::error_code::ErrorCode;

use crate::ids::{NodeId, TopicPartition};
use crate::partition::error::Corruption;
use crate::time::Nanos;

/// Log event of one partition or broker. No log event stops anything.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FetchLogEvent {
    /// The position was out of range, and `auto.offset.reset` moved the position.
    OffsetReset {
        /// Topic and partition.
        tp: TopicPartition,
        /// Offset that the log does not contain.
        from: i64,
        /// New position.
        to: i64,
        /// First offset of the log.
        log_start: i64,
        /// Log end offset (exclusive).
        log_end: i64,
    },
    /// The log was truncated below the position (KIP-320): the records in between were read and no longer exist.
    Truncated {
        /// Topic and partition.
        tp: TopicPartition,
        /// Position before the truncation.
        from: i64,
        /// First offset at which the logs diverge, which is the new position.
        to: i64,
    },
    /// The start position cannot be looked up yet (no leader, topic deleted, broker unreachable). Lookups continue.
    Waiting {
        /// Topic and partition.
        tp: TopicPartition,
        /// Time since the lookup started, in nanoseconds.
        waited: Nanos,
        /// Error code of the last response; `NONE`: no response.
        code: ErrorCode,
    },
    /// A broker temporarily refuses to serve the partition. Fetches continue with backoff.
    Retrying {
        /// Topic and partition.
        tp: TopicPartition,
        /// Node id of the broker.
        node: NodeId,
        /// Error code of the response.
        code: ErrorCode,
        /// Consecutive failures.
        failures: u32,
    },
    /// A follower does not answer. Its partitions are read from their leaders (KIP-392).
    ReplicaUnreachable {
        /// Node id of the follower.
        node: NodeId,
        /// Number of partitions that were read from the follower.
        partitions: usize,
    },
    /// A follower does not serve a partition, which is read from its leader (KIP-392).
    ReplicaRefused {
        /// Topic and partition.
        tp: TopicPartition,
        /// Node id of the follower.
        node: NodeId,
        /// Error code of the response; `NONE`: a batch was corrupt.
        code: ErrorCode,
    },
    /// A batch was corrupt. The client fetches the batch once more.
    CorruptBatch {
        /// Topic and partition.
        tp: TopicPartition,
        /// Offset of the Fetch.
        offset: i64,
        /// Defect of the batch.
        cause: Corruption,
    },
    /// A broker rejected a whole Fetch. The client starts a new fetch session.
    SessionError {
        /// Node id of the broker.
        node: NodeId,
        /// Error code of the response.
        code: ErrorCode,
    },
    /// A Fetch response could not be decoded completely.
    BadResponse {
        /// Node id of the broker.
        node: NodeId,
        /// Decoding error.
        error: WireError,
    },
}
