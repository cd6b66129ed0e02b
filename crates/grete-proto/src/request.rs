//! Requests to brokers and their replies, exchanged between the state machines and the cluster.

use std::fmt;
use std::sync::Arc;

use grete_wire::api::ApiKey;
use grete_wire::error::WireError;
use grete_wire::frame::Frame;
use grete_wire::messages::{
    ConsumerGroupHeartbeatRequest, FindCoordinatorRequest, HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest,
    ListOffsetsRequest, MetadataRequest, OffsetCommitRequest, OffsetFetchRequest, OffsetForLeaderEpochRequest,
    SyncGroupRequest,
};
use grete_wire::produce::ProduceRequestBody;
use grete_wire::{KafkaRequest, Reader, SegmentedBuf};

use crate::ids::NodeId;
use crate::sasl::SaslError;
use crate::time::Nanos;
use crate::tls_failure::TlsFailure;

/// Broker that a request is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// This broker and no other (a leader, a coordinator).
    Node(NodeId),
    /// The ready broker with the fewest requests.
    Any,
    /// The controller according to the metadata; any broker if the metadata contains none.
    Controller,
}

/// Connection of a broker that a request uses: a long poll must not delay a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Channel {
    /// Metadata, offsets, heartbeats, commits: the broker responds at once.
    Control,
    /// Fetch: the broker may hold the response for `fetch.max.wait.ms`.
    Fetch,
    /// JoinGroup and SyncGroup: the broker may hold the response for the rebalance timeout.
    Join,
    /// Produce: the broker may hold the response until enough replicas have the batches.
    Produce,
}

impl Channel {
    /// Number of channels.
    pub const COUNT: usize = 4;

    /// All channels, in the order of [`Channel::index`].
    pub const ALL: [Self; Self::COUNT] = [Self::Control, Self::Fetch, Self::Join, Self::Produce];

    /// Returns a dense index, for arrays with one element per channel.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::Control => 0,
            Self::Fetch => 1,
            Self::Join => 2,
            Self::Produce => 3,
        }
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Control => "control",
            Self::Fetch => "fetch",
            Self::Join => "join",
            Self::Produce => "produce",
        })
    }
}

/// State machine that sent a request and gets its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestOwner {
    /// The cluster itself (metadata); such replies never leave the cluster.
    Cluster,
    /// The fetcher.
    Fetch,
    /// The position resolver.
    Position,
    /// The consumer group.
    Group,
    /// The producer's sender.
    Produce,
    /// The producer's transactions.
    Transaction,
    /// The admin client.
    Admin,
    /// The acquirer of a share group.
    Share,
    /// The subscription by patterns.
    Patterns,
    /// A caller of the client API.
    Client,
}

/// Id of a request; returned in the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token {
    /// Sender of the request.
    pub owner: RequestOwner,
    /// Id of the request, unique per owner.
    pub id: u32,
}

/// A request of any API with a message type; for APIs that are used too rarely for a variant of [`Request`].
pub trait DynRequest: fmt::Debug + Send + Sync {
    /// Returns the API of the request.
    fn api(&self) -> ApiKey;
    /// Appends the body, without any header.
    fn encode_body(&self, version: i16, out: &mut Vec<u8>) -> Result<(), WireError>;
}

impl<T: KafkaRequest + fmt::Debug + Send + Sync> DynRequest for T {
    fn api(&self) -> ApiKey {
        T::KEY
    }

    fn encode_body(&self, version: i16, out: &mut Vec<u8>) -> Result<(), WireError> {
        KafkaRequest::encode_body(self, version, out)
    }
}

/// Body of a request; its version is chosen when the connection is known.
#[derive(Debug, Clone)]
#[allow(missing_docs)] // the variants are Kafka's names
pub enum Request {
    Metadata(MetadataRequest<'static>),
    FindCoordinator(FindCoordinatorRequest<'static>),
    ListOffsets(ListOffsetsRequest<'static>),
    OffsetForLeaderEpoch(OffsetForLeaderEpochRequest<'static>),
    OffsetFetch(OffsetFetchRequest<'static>),
    OffsetCommit(OffsetCommitRequest<'static>),
    JoinGroup(JoinGroupRequest<'static>),
    SyncGroup(SyncGroupRequest<'static>),
    Heartbeat(HeartbeatRequest<'static>),
    LeaveGroup(LeaveGroupRequest<'static>),
    ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest<'static>),
    Produce(ProduceRequestBody),
    /// Rarely used request; equal only to its clones.
    Dyn(Arc<dyn DynRequest>),
    /// Rarely used request that no version above the number can express; equal only to its clones.
    DynUpTo(Arc<dyn DynRequest>, i16),
    /// Body that is already encoded for `version` (Fetch: encoded once, patched in place).
    Raw {
        api: ApiKey,
        version: i16,
        body: Vec<u8>,
    },
}

impl PartialEq for Request {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Metadata(a), Self::Metadata(b)) => a == b,
            (Self::FindCoordinator(a), Self::FindCoordinator(b)) => a == b,
            (Self::ListOffsets(a), Self::ListOffsets(b)) => a == b,
            (Self::OffsetForLeaderEpoch(a), Self::OffsetForLeaderEpoch(b)) => a == b,
            (Self::OffsetFetch(a), Self::OffsetFetch(b)) => a == b,
            (Self::OffsetCommit(a), Self::OffsetCommit(b)) => a == b,
            (Self::JoinGroup(a), Self::JoinGroup(b)) => a == b,
            (Self::SyncGroup(a), Self::SyncGroup(b)) => a == b,
            (Self::Heartbeat(a), Self::Heartbeat(b)) => a == b,
            (Self::LeaveGroup(a), Self::LeaveGroup(b)) => a == b,
            (Self::ConsumerGroupHeartbeat(a), Self::ConsumerGroupHeartbeat(b)) => a == b,
            (Self::Produce(a), Self::Produce(b)) => a == b,
            (Self::Dyn(a), Self::Dyn(b)) => Arc::ptr_eq(a, b),
            (Self::DynUpTo(a, max), Self::DynUpTo(b, other_max)) => Arc::ptr_eq(a, b) && max == other_max,
            (
                Self::Raw { api, version, body },
                Self::Raw { api: other_api, version: other_version, body: other_body },
            ) => (api, version, body) == (other_api, other_version, other_body),
            _ => false,
        }
    }
}

impl Request {
    /// Wraps any request that has a message type.
    #[must_use]
    pub fn from_message(body: impl DynRequest + 'static) -> Self {
        Self::Dyn(Arc::new(body))
    }

    /// Returns the API of the request.
    pub fn api(&self) -> ApiKey {
        match self {
            Self::Metadata(_) => ApiKey::Metadata,
            Self::FindCoordinator(_) => ApiKey::FindCoordinator,
            Self::ListOffsets(_) => ApiKey::ListOffsets,
            Self::OffsetForLeaderEpoch(_) => ApiKey::OffsetForLeaderEpoch,
            Self::OffsetFetch(_) => ApiKey::OffsetFetch,
            Self::OffsetCommit(_) => ApiKey::OffsetCommit,
            Self::JoinGroup(_) => ApiKey::JoinGroup,
            Self::SyncGroup(_) => ApiKey::SyncGroup,
            Self::Heartbeat(_) => ApiKey::Heartbeat,
            Self::LeaveGroup(_) => ApiKey::LeaveGroup,
            Self::ConsumerGroupHeartbeat(_) => ApiKey::ConsumerGroupHeartbeat,
            Self::Produce(_) => ApiKey::Produce,
            Self::Dyn(body) | Self::DynUpTo(body, _) => body.api(),
            Self::Raw { api, .. } => *api,
        }
    }

    /// Returns the version that the body is encoded for; `None`: not fixed by the caller.
    pub fn fixed_version(&self) -> Option<i16> {
        match self {
            Self::Raw { version, .. } => Some(*version),
            _ => None,
        }
    }

    /// Returns the highest version that can carry the body, whatever both sides support.
    pub(crate) fn max_version(&self) -> i16 {
        match self {
            Self::Produce(body) => body.max_version(),
            Self::DynUpTo(_, max) => *max,
            // Only older versions can carry a topic name without id.
            Self::OffsetCommit(body) if body.topics.iter().any(|topic| topic.topic_id == 0) => {
                MAX_COMMIT_VERSION_BY_NAME
            }
            _ => i16::MAX,
        }
    }

    /// Returns whether the broker responds to the request at all.
    pub(crate) fn expects_response(&self) -> bool {
        !matches!(self, Self::Produce(body) if body.acks == 0)
    }

    /// Returns whether a throttled client still sends the request: a fetch quota must not cost the group membership.
    pub fn is_throttle_exempt(&self) -> bool {
        matches!(
            self.api(),
            ApiKey::Heartbeat
                | ApiKey::JoinGroup
                | ApiKey::SyncGroup
                | ApiKey::LeaveGroup
                | ApiKey::OffsetCommit
                | ApiKey::ConsumerGroupHeartbeat
                | ApiKey::ShareGroupHeartbeat
                | ApiKey::ShareAcknowledge
        )
    }

    /// Returns an estimate of the bytes of header and body up to the first batch, so that the buffer need not grow.
    pub(crate) fn size_hint(&self) -> usize {
        match self {
            Self::Raw { body, .. } => body.len() + 256,
            Self::Produce(_) => 1024,
            _ => 256,
        }
    }

    /// Appends the body, without any header.
    pub fn encode_body(&self, version: i16, out: &mut SegmentedBuf) -> Result<(), WireError> {
        if let Self::Produce(body) = self {
            return body.encode(version, out);
        }
        let out = out.tail();
        match self {
            Self::Metadata(body) => body.encode(version, out),
            Self::FindCoordinator(body) => body.encode(version, out),
            Self::ListOffsets(body) => body.encode(version, out),
            Self::OffsetForLeaderEpoch(body) => body.encode(version, out),
            Self::OffsetFetch(body) => body.encode(version, out),
            Self::OffsetCommit(body) => body.encode(version, out),
            Self::JoinGroup(body) => body.encode(version, out),
            Self::SyncGroup(body) => body.encode(version, out),
            Self::Heartbeat(body) => body.encode(version, out),
            Self::LeaveGroup(body) => body.encode(version, out),
            Self::ConsumerGroupHeartbeat(body) => body.encode(version, out),
            Self::Dyn(body) | Self::DynUpTo(body, _) => body.encode_body(version, out),
            Self::Produce(_) => Ok(()), // done above
            Self::Raw { body, .. } => {
                out.extend_from_slice(body);
                Ok(())
            }
        }
    }
}

/// A request to a broker. Exactly one [`Reply`] with its token follows.
#[derive(Debug, Clone, PartialEq)]
pub struct OutboundRequest {
    /// Target broker.
    pub target: Target,
    /// Connection of the broker.
    pub channel: Channel,
    /// Request body.
    pub request: Request,
    /// Id of the request; returned in the reply.
    pub token: Token,
    /// Time limit of the reply from now on, including the wait for a connection.
    pub timeout: Nanos,
}

/// Result of an [`OutboundRequest`].
#[derive(Debug, Clone)]
pub struct Reply {
    /// Token of the request.
    pub token: Token,
    /// Broker that the request was sent to; [`NO_NODE`]: none could be chosen.
    pub node: NodeId,
    /// Response of the broker, or the error.
    pub result: Result<Response, RequestError>,
}

/// Last version of OffsetCommit that identifies topics by name.
const MAX_COMMIT_VERSION_BY_NAME: i16 = 9;

/// `Reply::node` of a request for which no broker could be chosen.
pub const NO_NODE: NodeId = NodeId::MIN;

/// Response of a broker, not decoded yet.
#[derive(Debug, Clone)]
pub struct Response {
    /// API of the request.
    pub api: ApiKey,
    /// Version of the request and response.
    pub version: i16,
    /// Complete frame.
    pub frame: Frame,
    /// Offset of the body in the frame.
    pub body: usize,
}

impl Response {
    /// Returns the bytes after the response header.
    pub fn body(&self) -> &[u8] {
        self.frame.get(self.body..).unwrap_or_default()
    }

    /// Decodes the body: `response.decode(HeartbeatResponse::decode)`. Trailing bytes are ignored, as in Java.
    pub fn decode<'a, T>(
        &'a self,
        decode: impl FnOnce(i16, &mut Reader<'a>) -> Result<T, WireError>,
    ) -> Result<T, WireError> {
        decode(self.version, &mut Reader::new(self.body()))
    }
}

/// Error of a request without a response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The request was sent; it is unknown whether the broker executed it.
    #[error("the connection was lost before the broker answered")]
    Disconnected,
    /// The request timed out while it was queued or in flight; it is unknown whether the broker executed it.
    #[error("the broker did not answer in time")]
    TimedOut,
    /// The request was not sent: the broker is unknown, unreachable or in backoff.
    #[error("no connection to the broker")]
    NoConnection,
    /// The request was not sent: broker and client have no common version of the API.
    #[error(
        "the broker speaks {} of {api:?}, this client versions {} to {}: upgrade the older of the two",
        fmt_range(.broker), .ours.0, .ours.1
    )]
    Unsupported {
        /// API of the request.
        api: ApiKey,
        /// Lowest and highest version of the broker; `None`: the broker does not support the API.
        broker: Option<(i16, i16)>,
        /// Lowest and highest version of this client.
        ours: (i16, i16),
    },
    /// The request was not sent: the broker's version cannot carry one of the fields.
    #[error("the request does not fit the version that the broker speaks: {0}")]
    Encode(WireError),
    /// The response cannot be decoded; the connection is closed.
    #[error("the broker's answer cannot be read: {0}")]
    Protocol(WireError),
    /// The request was sent, and no response will come: the broker does not respond to this kind (`acks=0`).
    #[error("the broker does not answer requests of this kind")]
    Unanswered,
    /// No address can be used as the client is set up: a retry does not help.
    #[error(transparent)]
    Unusable(#[from] AddressFault),
}

fn fmt_range(range: &Option<(i16, i16)>) -> String {
    range.map_or_else(|| "no version".to_owned(), |(min, max)| format!("versions {min} to {max}"))
}

impl RequestError {
    /// Returns whether the broker may have executed the request.
    pub fn is_ambiguous(&self) -> bool {
        matches!(self, Self::Disconnected | Self::TimedOut | Self::Protocol(_) | Self::Unanswered)
    }
}

/// Reason why an address cannot be used until a setting or the server has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressFault {
    /// The server is not a Kafka broker, or its listener speaks another protocol.
    #[error(transparent)]
    NotKafka(#[from] NotKafka),
    /// No encrypted connection can be made.
    #[error("{address}: {failure}")]
    Tls {
        /// Address as host:port.
        address: String,
        /// Failure of TLS.
        failure: TlsFailure,
    },
    /// The broker refuses the client's login.
    #[error(transparent)]
    Login(#[from] AuthenticationFailure),
}

impl AddressFault {
    /// Returns the address as host:port.
    #[must_use]
    pub fn address(&self) -> &str {
        match self {
            Self::NotKafka(NotKafka { address, .. })
            | Self::Tls { address, .. }
            | Self::Login(AuthenticationFailure { address, .. }) => address,
        }
    }

    /// Returns whether `failures` consecutive failures prove that a retry does not help. Garbage can be a passing fault.
    /// HTTP means a wrong port, and TLS on one side alone a wrong port or a wrong setting.
    pub(crate) fn is_certain(&self, failures: u32) -> bool {
        match self {
            Self::NotKafka(error) => error.detected != DetectedProtocol::Unknown,
            Self::Tls { failure, .. } => failures >= failure.kind.is_certain_after(),
            // The source of tokens may have one the next time, unless it has failed several times.
            Self::Login(failure) => match &failure.error {
                SaslError::NoToken { lasts, .. } => *lasts,
                SaslError::Kerberos(failure) => failures >= failure.kind.is_certain_after(),
                _ => true,
            },
        }
    }
}

/// A login that failed, and fails again with the same credentials (KIP-152).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot log in to {address}: {error}")]
pub struct AuthenticationFailure {
    /// Address as host:port.
    pub address: String,
    /// Reason of the failure, with its cure.
    pub error: SaslError,
}

/// Protocol of a server that does not speak plain-text Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DetectedProtocol {
    /// The response starts like HTTP.
    Http,
    /// The response starts like a TLS record.
    Tls,
    /// The response is not a valid Kafka response. A broker's first response is always valid.
    Unknown,
}

/// An address at which a server other than a Kafka broker responds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{address} {}", self.advice())]
pub struct NotKafka {
    /// Address as host:port.
    pub address: String,
    /// Detected protocol.
    pub detected: DetectedProtocol,
    /// Whether the client logs in by SASL.
    pub logs_in: bool,
}

impl NotKafka {
    fn advice(&self) -> &'static str {
        match self.detected {
            DetectedProtocol::Http => {
                "answers like an HTTP server; bootstrap.servers needs the port of a broker's Kafka listener (often 9092)"
            }
            DetectedProtocol::Tls if self.logs_in => {
                "answers like a TLS server, and this client speaks plain text; set security.protocol=SASL_SSL, or use \
                 the port of a SASL_PLAINTEXT listener"
            }
            DetectedProtocol::Tls => {
                "answers like a TLS server, and this client speaks plain text; set security.protocol=SSL (or SASL_SSL), \
                 or use the port of a PLAINTEXT listener"
            }
            DetectedProtocol::Unknown => {
                "does not answer like a Kafka broker; check that bootstrap.servers names the port of a Kafka listener"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_thing_and_the_cure() {
        let error = NotKafka { address: "localhost:8080".into(), detected: DetectedProtocol::Http, logs_in: false };
        assert!(error.to_string().starts_with("localhost:8080 answers like an HTTP server; "), "{error}");
        let error = RequestError::Unsupported { api: ApiKey::Fetch, broker: Some((0, 4)), ours: (11, 17) };
        assert!(error.to_string().contains("versions 0 to 4 of Fetch"), "{error}");
        assert!(!error.is_ambiguous());
    }

    #[test]
    fn channels_index_an_array() {
        for (index, channel) in Channel::ALL.into_iter().enumerate() {
            assert_eq!(channel.index(), index);
        }
    }
}
