//! Reasons why a connection was closed.

use std::sync::Arc;

use grete_wire::api::ApiKey;
use grete_wire::error::WireError;

use crate::request::{AddressFault, AuthenticationFailure, DetectedProtocol, NotKafka};
use crate::sasl::SaslError;
use crate::time::{MILLI, Nanos};
use crate::tls_failure::TlsFailure;

/// Reason why a connection was closed. The driver reports the first six, the connection or the cluster the others.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// The broker closed the connection.
    #[error("the broker closed the connection")]
    Eof,
    /// The host name has no address.
    #[error("the host name cannot be resolved: {0}")]
    Resolve(Arc<str>),
    /// The connection attempt failed (refused, unreachable).
    #[error("cannot connect: {0}")]
    Connect(Arc<str>),
    /// Reading from or writing to the socket failed.
    #[error("{0}")]
    Io(Arc<str>),
    /// The received bytes are not Kafka frames.
    #[error("{0}")]
    Wire(WireError),
    /// The two sides do not agree on an encrypted connection.
    #[error(transparent)]
    Tls(#[from] TlsFailure),

    /// The connection attempt timed out.
    #[error("no connection within {} ms (socket.connection.setup.timeout.ms)", .0 / MILLI)]
    ConnectTimeout(Nanos),
    /// Connected, but ApiVersions, the first request, got no response.
    #[error("connected, but no answer to ApiVersions within {} ms: use the port of a Kafka listener", .0 / MILLI)]
    HandshakeTimeout(Nanos),
    /// The broker closed the connection instead of responding to ApiVersions.
    #[error(
        "the broker closed the connection before its first answer: a listener that expects TLS or SASL does that to a \
         plain-text client"
    )]
    HandshakeEof,
    /// The broker closed the connection instead of responding to the first request after ApiVersions.
    #[error(
        "the broker closed the connection at the first request after ApiVersions: its listener probably expects a login \
         (set security.protocol to SASL_SSL or SASL_PLAINTEXT, and sasl.mechanism), or the broker is restarting"
    )]
    FirstRequestEof,
    /// The authentication failed.
    #[error("{0}")]
    Sasl(SaslError),
    /// The broker closed the connection instead of responding to a request of the authentication.
    #[error("the broker closed the connection during the login: see the broker's log")]
    AuthenticationEof,
    /// The authentication did not end in time.
    #[error("no login within {} ms (socket.connection.setup.timeout.ms): the broker does not answer", .0 / MILLI)]
    AuthenticationTimeout(Nanos),
    /// The source of tokens gave none in time.
    #[error(
        "no login within {} ms (socket.connection.setup.timeout.ms): the source of the OAUTHBEARER token has not \
         answered; correct the settings sasl.oauthbearer.*", .0 / MILLI
    )]
    TokenTimeout(Nanos),
    /// The broker responded to ApiVersions with an error.
    #[error("the broker refused ApiVersions: error {0}")]
    HandshakeRefused(i16),
    /// A request got no response in time; requests behind it would not get one either.
    #[error("{api} was not answered within {} ms (request.timeout.ms)", .waited / MILLI)]
    RequestTimeout {
        /// API of the head request.
        api: ApiKey,
        /// Request timeout, in nanoseconds.
        waited: Nanos,
    },
    /// A request on the broker's control connection got no response, so the requests on this connection would not get
    /// one either.
    #[error("the broker does not answer on its control connection")]
    Silent,
    /// A response was out of order: responses must arrive in the order of the requests.
    #[error("response out of order: correlation id {actual}, expected {expected:?}")]
    Correlation {
        /// Correlation id of the head request; `None`: no request was in flight.
        expected: Option<i32>,
        /// Correlation id of the response.
        actual: i32,
    },
    /// No request was sent for connections.max.idle.ms.
    #[error("idle (connections.max.idle.ms)")]
    Idle,
    /// The bootstrap connection is not needed any more.
    #[error("no longer needed")]
    Retired,
}

impl CloseReason {
    /// Returns whether the cluster closed the connection on purpose: no backoff, no outage.
    pub fn is_expected(&self) -> bool {
        matches!(self, Self::Idle | Self::Retired)
    }

    /// Returns whether bytes of the connection made no sense.
    pub fn is_garbled(&self) -> bool {
        matches!(self, Self::Wire(_) | Self::Correlation { .. })
    }

    /// Returns the detected protocol if the reason proves that the peer is not a broker.
    pub fn detected_protocol(&self, negotiated: bool) -> Option<DetectedProtocol> {
        match self {
            Self::Wire(WireError::LooksLikeHttp) => Some(DetectedProtocol::Http),
            Self::Wire(WireError::LooksLikeTls) => Some(DetectedProtocol::Tls),
            // A broker's first response is never garbage; a later one can be, after a fault in transit.
            Self::Wire(_) | Self::Correlation { .. } if !negotiated => Some(DetectedProtocol::Unknown),
            _ => None,
        }
    }

    /// Returns the fault if the reason proves that `address` cannot be used as it is: a retry does not help until
    /// a setting or the server has changed. `logs_in`: the client logs in by SASL.
    pub fn address_fault(&self, address: &str, negotiated: bool, logs_in: bool) -> Option<AddressFault> {
        let address = address.to_owned();
        match self {
            Self::Sasl(error) if error.is_permanent() => {
                Some(AuthenticationFailure { address, error: error.clone() }.into())
            }
            Self::Tls(failure) => Some(AddressFault::Tls { address, failure: failure.clone() }),
            _ => self.detected_protocol(negotiated).map(|detected| NotKafka { address, detected, logs_in }.into()),
        }
    }
}
