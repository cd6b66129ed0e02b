//! Errors of an operation or of one of its items.

use grete_wire::error_code::ErrorCode;

use crate::ids::NodeId;
use crate::request::{AddressFault, RequestError};

/// Error of an operation or of one item. The caller adds the name of the operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The time limit expired.
    #[error("waited for {waited_for}{}", .last.as_ref().map(|last| format!("; last error: {last}")).unwrap_or_default())]
    TimedOut {
        /// The missing response or state.
        waited_for: String,
        /// The last error before the timeout; `None`: no error occurred.
        last: Option<String>,
    },
    /// A broker refused the request with an error that a retry cannot cure.
    #[error("{}", .message.as_deref().unwrap_or(.code.message()))]
    Refused {
        /// Error code of the broker.
        code: ErrorCode,
        /// Error message of the broker; `None`: the response has none.
        message: Option<String>,
    },
    /// The topic does not have the requested partition.
    #[error("the topic has {count} partitions, numbered from 0")]
    NoPartition {
        /// Number of partitions.
        count: usize,
    },
    /// The cluster has no broker with this id (any more).
    #[error("the cluster has no broker {0}")]
    NoBroker(NodeId),
    /// The request cannot be encoded, or the broker does not support its API.
    #[error(transparent)]
    Request(RequestError),
    /// No address of `bootstrap.servers` speaks Kafka.
    #[error(transparent)]
    Unusable(#[from] AddressFault),
}
