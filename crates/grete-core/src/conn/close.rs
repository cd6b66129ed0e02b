//! Why a connection ended.

use std::sync::Arc;

use grete_wire::api_key::ApiKey;
use grete_wire::error::WireError;

use crate::request::LooksLike;
use crate::time::{MILLI, Nanos};

/// Why a connection ended. The driver says the first five, the connection or the cluster the others.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// The broker closed it.
    #[error("the broker closed the connection")]
    Eof,
    /// The host name has no address.
    #[error("the host name cannot be resolved: {0}")]
    Resolve(Arc<str>),
    /// No connection came about (refused, unreachable).
    #[error("cannot connect: {0}")]
    Connect(Arc<str>),
    /// Reading or writing failed.
    #[error("{0}")]
    Io(Arc<str>),
    /// The bytes are not Kafka frames.
    #[error("{0}")]
    Wire(WireError),

    /// Not connected in time.
    #[error("no connection within {} ms (socket.connection.setup.timeout.ms)", .0 / MILLI)]
    ConnectTimeout(Nanos),
    /// Connected, but the first question (ApiVersions) went unanswered.
    #[error("connected, but no answer to ApiVersions within {} ms: is this the port of a Kafka listener?", .0 / MILLI)]
    HandshakeTimeout(Nanos),
    /// The broker closed it instead of answering the first question.
    #[error(
        "the broker closed the connection before its first answer: a listener that expects TLS or SASL does that to a \
         plain-text client"
    )]
    HandshakeEof,
    /// The broker answered the first question with an error.
    #[error("the broker refused ApiVersions: error {0}")]
    HandshakeRefused(i16),
    /// A request went unanswered; whatever waits behind it would too.
    #[error("{api} was not answered within {} ms (request.timeout.ms)", .waited / MILLI)]
    RequestTimeout {
        /// The request at the head of the line.
        api: ApiKey,
        /// For how long.
        waited: Nanos,
    },
    /// The broker left a request on its control connection unanswered, so what waits here would wait in vain.
    #[error("the broker does not answer on its control connection either")]
    Silent,
    /// Answers come in the order of the requests; this one did not.
    #[error("the answer to request {actual} came where that to {expected:?} was due")]
    Correlation {
        /// The head of the line; `None` when nothing was asked.
        expected: Option<i32>,
        /// What the answer says.
        actual: i32,
    },
    /// Nothing was asked for connections.max.idle.ms.
    #[error("idle (connections.max.idle.ms)")]
    Idle,
    /// A bootstrap connection that is not needed any more.
    #[error("no longer needed")]
    Retired,
}

impl CloseReason {
    /// Whether the cluster ended it in peace: no backoff, no outage.
    #[must_use]
    pub fn is_peaceful(&self) -> bool {
        matches!(self, Self::Idle | Self::Retired)
    }

    /// What the peer seems to be, if the reason says that it is not a broker.
    #[must_use]
    pub fn looks_like(&self, negotiated: bool) -> Option<LooksLike> {
        match self {
            Self::Wire(WireError::LooksLikeHttp) => Some(LooksLike::Http),
            Self::Wire(WireError::LooksLikeTls) => Some(LooksLike::Tls),
            // A broker's first answer is never garbage; a later one can be, after a fault on the way.
            Self::Wire(_) | Self::Correlation { .. } if !negotiated => Some(LooksLike::Unknown),
            _ => None,
        }
    }
}
