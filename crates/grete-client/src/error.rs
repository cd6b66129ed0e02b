//! What can go wrong, as users see it.

use crate::config::ConfigError;

/// An error of a client's call, or the end of the client.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// A setting is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The handle was made before a fork.
    #[error(
        "this {what} was made before a fork and belongs to the parent process; make a new one in the child, after the fork"
    )]
    Forked {
        /// Which kind of handle.
        what: &'static str,
    },
    /// The handle was closed.
    #[error("this {what} is closed; make a new one")]
    Closed {
        /// Which kind of handle.
        what: &'static str,
    },
    /// The time was up.
    #[error("{operation} had no answer within {seconds:.1} s; {hint}")]
    TimedOut {
        /// What was waited for.
        operation: String,
        /// How long.
        seconds: f64,
        /// What to look at.
        hint: &'static str,
    },
    /// The broker refused.
    #[error("{operation}: the broker answered {name} ({code}): {message}")]
    Kafka {
        /// What was asked.
        operation: String,
        /// Kafka's number for the error.
        code: i16,
        /// Kafka's name for it.
        name: &'static str,
        /// What it means.
        message: String,
    },
    /// No address of `bootstrap.servers` speaks Kafka.
    #[error("{0}")]
    NotKafka(String),
    /// Authentication or authorisation refused.
    #[error("{0}")]
    Authorization(String),
    /// A batch that stays broken after it was fetched again.
    #[error("{topic}-{partition}: the batch at offset {offset} cannot be read: {message}")]
    CorruptBatch {
        /// Of this topic.
        topic: String,
        /// And partition.
        partition: i32,
        /// The batch's base offset.
        offset: i64,
        /// What is wrong with it.
        message: String,
    },
    /// The group will not have this member.
    #[error("{0}")]
    Group(String),
    /// The partition has no valid offset, and `auto.offset.reset` is none.
    #[error("{0}")]
    NoOffset(String),
    /// A call that does not fit the handle's state.
    #[error("{0}")]
    Invalid(String),
    /// The operating system refused.
    #[error("{what}: {cause}")]
    Os {
        /// What was tried.
        what: &'static str,
        /// What it said.
        cause: String,
    },
}

impl ClientError {
    pub(crate) fn os(what: &'static str, cause: &std::io::Error) -> Self {
        Self::Os { what, cause: cause.to_string() }
    }
}
