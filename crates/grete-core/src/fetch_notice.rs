//! What the user should hear about positions and fetching, although it goes on by itself.

use grete_wire::error::WireError;
use grete_wire::error_code::ErrorCode;

use crate::ids::{NodeId, TopicPartition};
use crate::slot_error::Corruption;
use crate::time::Nanos;

/// An event for the monitor; none of them stops anything.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FetchNotice {
    /// The position was out of range, and `auto.offset.reset` moved it.
    OffsetReset {
        /// Which partition.
        tp: TopicPartition,
        /// The offset that the log does not have.
        from: i64,
        /// The new position.
        to: i64,
        /// First offset of the log.
        log_start: i64,
        /// The offset after the last.
        log_end: i64,
    },
    /// The log was truncated below our position (KIP-320): records in between were read and are gone.
    Truncated {
        /// Which partition.
        tp: TopicPartition,
        /// Where we were.
        from: i64,
        /// Where the logs diverge, and where we go on.
        to: i64,
    },
    /// The start position cannot be found yet (no leader, topic deleted, broker away); it is tried on.
    Waiting {
        /// Which partition.
        tp: TopicPartition,
        /// For how long so far, in nanoseconds.
        waited: Nanos,
        /// The last answer; `NONE` when there was none.
        code: ErrorCode,
    },
    /// A broker refuses to serve the partition for now; it is tried on with backoff.
    Retrying {
        /// Which partition.
        tp: TopicPartition,
        /// Which broker.
        node: NodeId,
        /// Its answer.
        code: ErrorCode,
        /// Failures in a row.
        failures: u32,
    },
    /// A corrupt batch came; it is fetched once more.
    CorruptBatch {
        /// Which partition.
        tp: TopicPartition,
        /// The offset that was fetched.
        offset: i64,
        /// What is wrong with it.
        cause: Corruption,
    },
    /// A whole Fetch was refused; the session is built anew.
    SessionError {
        /// Which broker.
        node: NodeId,
        /// Its answer.
        code: ErrorCode,
    },
    /// A broker's Fetch response could not be read to its end.
    BadResponse {
        /// Which broker.
        node: NodeId,
        /// What is wrong with it.
        error: WireError,
    },
}
