//! Why an operation, or one item of it, came to nothing.

use grete_wire::error_code::ErrorCode;

use crate::ids::NodeId;
use crate::request::{NotKafka, RequestError};

/// See the module. The caller knows which operation it was and adds its name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The time was up.
    #[error("waited for {waited_for}{}", .last.as_ref().map(|last| format!("; what went wrong last: {last}")).unwrap_or_default())]
    TimedOut {
        /// What was missing.
        waited_for: String,
        /// The last thing that went wrong.
        last: Option<String>,
    },
    /// A broker said no, and asking again would not help.
    #[error("{}", .message.as_deref().unwrap_or(.code.message()))]
    Refused {
        /// Kafka's code.
        code: ErrorCode,
        /// The broker's own words.
        message: Option<String>,
    },
    /// The topic has fewer partitions.
    #[error("the topic has {count} partitions, numbered from 0")]
    NoPartition {
        /// So many.
        count: usize,
    },
    /// The cluster has no broker of that number (any more).
    #[error("the cluster has no broker {0}")]
    NoBroker(NodeId),
    /// The request cannot be made, or nobody there would understand it.
    #[error(transparent)]
    Request(RequestError),
    /// No address of `bootstrap.servers` speaks Kafka.
    #[error(transparent)]
    NotKafka(#[from] NotKafka),
}
