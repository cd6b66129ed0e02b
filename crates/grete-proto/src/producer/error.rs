//! Errors of a producer: a record is rejected by `append`, or not delivered.

use std::sync::Arc;

use grete_wire::access::NeededAcl;
use grete_wire::error::WireError;
use grete_wire::error_code::ErrorCode;

use super::transaction::{TransactionCause, TransactionError};
use crate::request::{AddressFault, RequestError};
use crate::time::{MILLI, Nanos};

/// Returns the cure of a write that is not allowed. Brokers give a producer id to each principal that may write a topic.
fn fmt_write(topic: &str, user: Option<&str>, code: ErrorCode) -> String {
    let needed = NeededAcl { operation: "Write", kind: "topic", name: topic, user };
    match code {
        ErrorCode::CLUSTER_AUTHORIZATION_FAILED => format!(
            "{needed}; brokers before Kafka 2.8 need IdempotentWrite on the cluster instead, or set \
             enable.idempotence=false to produce without a producer id"
        ),
        _ => needed.to_string(),
    }
}

/// Reason why a record was not delivered, or why its outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProduceError {
    /// `delivery.timeout.ms` expired before a broker gave a final response.
    #[error("{}: not delivered within {} ms (delivery.timeout.ms){}", fmt_place(.topic, *.partition), .timeout / MILLI, fmt_last_error(.last))]
    DeliveryTimeout {
        /// Topic of the records.
        topic: Arc<str>,
        /// Partition of the records.
        partition: i32,
        /// `delivery.timeout.ms`, in nanoseconds.
        timeout: Nanos,
        /// Result of the last attempt; `None`: no attempt was made.
        last: Option<LastError>,
    },
    /// No broker has named the partitions of the topic in time.
    #[error(
        "{topic}: no broker has named the topic's partitions within {} ms (max.block.ms){}; check that a broker of \
         bootstrap.servers can be reached", .waited / MILLI, fmt_last_error(.last)
    )]
    MetadataTimeout {
        /// Topic of the record.
        topic: Arc<str>,
        /// Time that the record has waited, in nanoseconds.
        waited: Nanos,
        /// Error of the topic in the last metadata response; `None`: no response.
        last: Option<LastError>,
    },
    /// A single record is too large for the topic.
    #[error("{}: a record in a batch of {bytes} bytes is too large for the topic: {}", fmt_place(.topic, *.partition), .code.message())]
    TooLarge {
        /// Topic of the records.
        topic: Arc<str>,
        /// Partition of the records.
        partition: i32,
        /// Bytes of the encoded batch.
        bytes: usize,
        /// Error code of the broker.
        code: ErrorCode,
    },
    /// Brokers report that the topic of a record without a partition does not exist.
    #[error(
        "there is no topic {topic:?}: check the name{}, create the topic (grete topics create {topic}), or set \
         allow.auto.create.topics=true", fmt_similar(.similar)
    )]
    MissingTopic {
        /// Topic of the record.
        topic: Arc<str>,
        /// A known topic with a similar name; `None`: there is none.
        similar: Option<Arc<str>>,
    },
    /// The topic or the partition does not exist.
    #[error("{}: there is no such topic or partition: check the name, or create it", fmt_place(.topic, *.partition))]
    UnknownTopic {
        /// Topic of the records.
        topic: Arc<str>,
        /// Partition of the records.
        partition: i32,
    },
    /// The user has no permission to write to the topic.
    #[error("{}: not allowed ({}): {}", fmt_place(.topic, *.partition), .code.name(), fmt_write(.topic, .user.as_deref(), *.code))]
    Authorization {
        /// Topic of the records.
        topic: Arc<str>,
        /// Partition of the records.
        partition: i32,
        /// Error code of the broker.
        code: ErrorCode,
        /// User of the client; `None`: unknown.
        user: Option<Arc<str>>,
    },
    /// A broker rejected the batch.
    #[error("{}: {} {}{}", fmt_place(.topic, *.partition), .code.name(), .code.message(), fmt_broker_message(.message))]
    Broker {
        /// Topic of the records.
        topic: Arc<str>,
        /// Partition of the records.
        partition: i32,
        /// Error code of the broker.
        code: ErrorCode,
        /// Error message of the broker; `None`: the response has none.
        message: Option<String>,
    },
    /// The batch could not be encoded.
    #[error("{}: the batch cannot be encoded: {cause}", fmt_place(.topic, *.partition))]
    Encode {
        /// Topic of the records.
        topic: Arc<str>,
        /// Partition of the records.
        partition: i32,
        /// Cause of the encoding failure.
        cause: WireError,
    },
    /// The producer was closed before the record was delivered.
    #[error("{}: the producer was closed before the record was delivered{}", fmt_place(.topic, *.partition), fmt_last_error(.last))]
    Closed {
        /// Topic of the records.
        topic: Arc<str>,
        /// Partition of the records.
        partition: i32,
        /// Result of the last attempt; `None`: no attempt was made.
        last: Option<LastError>,
    },
    /// The transaction of the record was aborted.
    #[error("{}: the record is not committed, because its transaction was aborted: {cause}", fmt_place(.topic, *.partition))]
    Aborted {
        /// Topic of the records.
        topic: Arc<str>,
        /// Partition of the records.
        partition: i32,
        /// Cause of the abort.
        cause: Arc<TransactionCause>,
    },
    /// The producer has failed for good.
    #[error("{}: {cause}", fmt_place(.topic, *.partition))]
    Fatal {
        /// Topic of the records.
        topic: Arc<str>,
        /// Partition of the records.
        partition: i32,
        /// Cause of the failure.
        cause: FatalError,
    },
}

impl ProduceError {
    /// Returns the topic of the record.
    pub fn topic(&self) -> &Arc<str> {
        match self {
            Self::DeliveryTimeout { topic, .. }
            | Self::MetadataTimeout { topic, .. }
            | Self::TooLarge { topic, .. }
            | Self::MissingTopic { topic, .. }
            | Self::UnknownTopic { topic, .. }
            | Self::Authorization { topic, .. }
            | Self::Broker { topic, .. }
            | Self::Encode { topic, .. }
            | Self::Closed { topic, .. }
            | Self::Aborted { topic, .. }
            | Self::Fatal { topic, .. } => topic,
        }
    }

    /// Returns the broker's error code; `None`: no broker reported one.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::TooLarge { code, .. } | Self::Authorization { code, .. } | Self::Broker { code, .. } => Some(*code),
            Self::Fatal { cause: FatalError::ProducerId(code), .. } => Some(*code),
            Self::Fatal { cause: FatalError::Transaction(error), .. } => error.code(),
            // The code that caused the abort is not one about this record.
            Self::Aborted { .. } => None,
            Self::MissingTopic { .. } | Self::UnknownTopic { .. } => Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            Self::DeliveryTimeout { last, .. } | Self::MetadataTimeout { last, .. } | Self::Closed { last, .. } => {
                match last {
                    Some(LastError::Code(code)) => Some(*code),
                    _ => None,
                }
            }
            Self::Encode { .. } | Self::Fatal { .. } => None,
        }
    }
}

/// Result of the last attempt to send a batch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LastError {
    /// A broker rejected the batch with a retriable error.
    #[error("{} {}", .0.name(), .0.message())]
    Code(ErrorCode),
    /// No response, or none that can be decoded.
    #[error(transparent)]
    Request(RequestError),
    /// Not sent: no broker has named the topic's partitions.
    #[error("no broker has named the topic's partitions")]
    NoMetadata,
    /// Not sent: the partition has no leader.
    #[error("the partition has no leader")]
    NoLeader,
    /// Not sent: the leader is not connected.
    #[error("its leader, broker {0}, is not connected")]
    NotConnected(i32),
    /// Not sent: no broker has assigned a producer id yet.
    #[error("no broker has assigned a producer id yet")]
    NoProducerId,
    /// Sent; the response is still due.
    #[error("the batch was sent, but the broker has not answered yet")]
    AwaitingResponse,
}

/// Formats a topic and a partition; -1: the record had none yet.
fn fmt_place(topic: &str, partition: i32) -> String {
    if partition < 0 { topic.to_owned() } else { format!("{topic}[{partition}]") }
}

fn fmt_similar(similar: &Option<Arc<str>>) -> String {
    similar.as_ref().map_or_else(String::new, |similar| format!(" (did you mean {similar:?}?)"))
}

fn fmt_last_error(last: &Option<LastError>) -> String {
    last.as_ref().map_or_else(String::new, |last| format!("; last: {last}"))
}

fn fmt_broker_message(message: &Option<String>) -> String {
    message.as_ref().map_or_else(String::new, |message| format!(" ({message})"))
}

/// Metadata error that prevents writes to a topic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{topic}: {} {}", .code.name(), .code.message())]
pub struct TopicError {
    /// Topic name.
    pub topic: Arc<str>,
    /// Error code of the topic in the metadata response.
    pub code: ErrorCode,
}

/// Reason why `append` rejects a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The topic's partitions are unknown: wait for [`crate::producer::ProducerAction::MetadataAvailable`].
    #[error("the topic's partitions are not known yet")]
    NoMetadata,
    /// `buffer.memory` is exhausted: wait for [`crate::producer::ProducerAction::MemoryAvailable`].
    #[error("the producer's memory is used up (buffer.memory)")]
    BufferFull,
    /// The record exceeds the maximum size and can never be sent.
    #[error("the record takes {bytes} bytes, more than the {limit} that max.request.size and buffer.memory allow")]
    TooLarge {
        /// Bytes of a batch with this record alone.
        bytes: usize,
        /// Maximum bytes of a batch.
        limit: usize,
    },
    /// The topic does not have the requested partition.
    #[error("there is no partition {partition}: the topic has {count}")]
    UnknownPartition {
        /// Requested partition.
        partition: i32,
        /// Number of partitions, which are numbered from 0.
        count: u32,
    },
    /// The topic cannot be written to.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// No transaction takes records now.
    #[error(transparent)]
    Transaction(TransactionError),
    /// The producer is closed.
    #[error("the producer is closed")]
    Closed,
    /// The producer has failed for good.
    #[error(transparent)]
    Fatal(#[from] FatalError),
}

/// Error after which the producer cannot continue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FatalError {
    /// Every bootstrap address belongs to a server that is not a Kafka broker.
    #[error(transparent)]
    Unusable(#[from] AddressFault),
    /// InitProducerId was rejected with a fatal error.
    #[error("no producer id: {} {}; set enable.idempotence=false to produce without one", .0.name(), .0.message())]
    ProducerId(ErrorCode),
    /// The brokers do not support a required API.
    #[error(transparent)]
    Request(RequestError),
    /// The producer can have no more transactions.
    #[error(transparent)]
    Transaction(Box<TransactionError>),
}
