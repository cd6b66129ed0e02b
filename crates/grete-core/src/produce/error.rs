//! Why records are not taken, or not delivered.

use std::sync::Arc;

use grete_wire::error::WireError;
use grete_wire::error_code::ErrorCode;

use crate::request::{NotKafka, RequestError};
use crate::time::{MILLI, Nanos};

/// Why a record could not be delivered, or why nobody knows whether it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProduceError {
    /// `delivery.timeout.ms` was over before a broker had answered for good.
    #[error("{topic}[{partition}]: not delivered within {} ms (delivery.timeout.ms){}", .timeout / MILLI, because(.last))]
    DeliveryTimeout {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: i32,
        /// The setting.
        timeout: Nanos,
        /// What the last attempt came to.
        last: Option<LastError>,
    },
    /// One record alone is too large for the topic.
    #[error("{topic}[{partition}]: a record in a batch of {bytes} bytes is too large for the topic: {}", .code.message())]
    TooLarge {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: i32,
        /// Bytes of its batch as sent.
        bytes: usize,
        /// What the broker said.
        code: ErrorCode,
    },
    /// The topic, or the partition, is not there.
    #[error("{topic}[{partition}]: there is no such topic or partition: check the name, or create it")]
    UnknownTopic {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: i32,
    },
    /// This user may not write there.
    #[error("{topic}[{partition}]: {} {}", .code.name(), .code.message())]
    Authorization {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: i32,
        /// What the broker said.
        code: ErrorCode,
    },
    /// A broker refused the batch.
    #[error("{topic}[{partition}]: {} {}{}", .code.name(), .code.message(), detail(.message))]
    Broker {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: i32,
        /// What the broker said.
        code: ErrorCode,
        /// In its words, if it used any.
        message: Option<String>,
    },
    /// The batch could not be made.
    #[error("{topic}[{partition}]: the batch cannot be encoded: {cause}")]
    Encode {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: i32,
        /// Why.
        cause: WireError,
    },
    /// The producer was closed before.
    #[error("{topic}[{partition}]: the producer was closed before the record was delivered{}", because(.last))]
    Closed {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: i32,
        /// What the last attempt came to.
        last: Option<LastError>,
    },
    /// The producer has failed for good.
    #[error("{topic}[{partition}]: {cause}")]
    Fatal {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: i32,
        /// Why.
        cause: FatalError,
    },
}

impl ProduceError {
    /// The topic it is about.
    #[must_use]
    pub fn topic(&self) -> &Arc<str> {
        match self {
            Self::DeliveryTimeout { topic, .. }
            | Self::TooLarge { topic, .. }
            | Self::UnknownTopic { topic, .. }
            | Self::Authorization { topic, .. }
            | Self::Broker { topic, .. }
            | Self::Encode { topic, .. }
            | Self::Closed { topic, .. }
            | Self::Fatal { topic, .. } => topic,
        }
    }

    /// The broker's error code, if a broker said something.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::TooLarge { code, .. } | Self::Authorization { code, .. } | Self::Broker { code, .. } => Some(*code),
            Self::Fatal { cause: FatalError::Identity(code), .. } => Some(*code),
            Self::UnknownTopic { .. } => Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            Self::DeliveryTimeout { last, .. } | Self::Closed { last, .. } => match last {
                Some(LastError::Code(code)) => Some(*code),
                _ => None,
            },
            Self::Encode { .. } | Self::Fatal { .. } => None,
        }
    }
}

/// What an attempt to send came to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LastError {
    /// A broker refused it, for now.
    #[error("{} {}", .0.name(), .0.message())]
    Code(ErrorCode),
    /// There was no answer that can be read.
    #[error(transparent)]
    Request(RequestError),
    /// It could not be sent: the partition has no leader.
    #[error("the partition has no leader")]
    NoLeader,
    /// It could not be sent: the leader is not connected.
    #[error("its leader, broker {0}, is not connected")]
    NotConnected(i32),
    /// It could not be sent: no broker has given this producer an identity yet.
    #[error("no broker has given the producer an id yet")]
    NoIdentity,
    /// It was sent, and the answer is still due.
    #[error("it was sent, and the broker has not answered yet")]
    Unanswered,
}

fn because(last: &Option<LastError>) -> String {
    last.as_ref().map_or_else(String::new, |last| format!("; last: {last}"))
}

fn detail(message: &Option<String>) -> String {
    message.as_ref().map_or_else(String::new, |message| format!(" ({message})"))
}

/// What is wrong with a topic, so that nothing can be written to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{topic}: {} {}", .code.name(), .code.message())]
pub struct TopicError {
    /// The topic.
    pub topic: Arc<str>,
    /// What the metadata says.
    pub code: ErrorCode,
}

/// Why a record is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The topic's partitions are not known yet: wait for [`super::ProduceAction::TopicKnown`].
    #[error("the topic's partitions are not known yet")]
    NoMetadata,
    /// `buffer.memory` is used up: wait for [`super::ProduceAction::Room`].
    #[error("the producer's memory is used up (buffer.memory)")]
    Full,
    /// The record can never be sent.
    #[error("the record takes {bytes} bytes, more than the {limit} that max.request.size and buffer.memory allow")]
    TooLarge {
        /// Bytes that it takes in a batch of its own.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The topic does not have that partition.
    #[error("there is no partition {partition}: the topic has {count}")]
    NoPartition {
        /// The one that was asked for.
        partition: i32,
        /// How many there are, from 0.
        count: u32,
    },
    /// The topic cannot be written to.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// The producer is closed.
    #[error("the producer is closed")]
    Closed,
    /// The producer has failed for good.
    #[error(transparent)]
    Fatal(#[from] FatalError),
}

/// Why a producer gives up for good.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FatalError {
    /// Every bootstrap address is something other than a broker.
    #[error(transparent)]
    NotKafka(#[from] NotKafka),
    /// No broker gives this producer an identity.
    #[error("no producer id: {} {}; enable.idempotence=false does without", .0.name(), .0.message())]
    Identity(ErrorCode),
    /// The brokers cannot do what is asked.
    #[error(transparent)]
    Request(RequestError),
}
