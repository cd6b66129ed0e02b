//! What machines ask of brokers, and what comes back: the currency between the machines and the cluster.

use std::fmt;
use std::sync::Arc;

use grete_wire::api_key::ApiKey;
use grete_wire::error::WireError;
use grete_wire::frame::Frame;
use grete_wire::messages::{
    FindCoordinatorRequest, HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, ListOffsetsRequest, MetadataRequest,
    OffsetCommitRequest, OffsetFetchRequest, OffsetForLeaderEpochRequest, SyncGroupRequest,
};
use grete_wire::produce::ProduceBody;
use grete_wire::{Api, Outbound, Reader};

use crate::ids::NodeId;
use crate::time::Nanos;

/// Which broker a request goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// That broker and no other (a leader, a coordinator).
    Node(NodeId),
    /// Whichever ready broker has the least to do.
    Any,
    /// The controller, as the metadata has it; any broker while it names none.
    Controller,
}

/// Which of a broker's connections a request travels on: a long poll must not hold up a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Channel {
    /// Metadata, offsets, heartbeats, commits: answered at once.
    Control,
    /// Fetch: the broker may hold the answer for `fetch.max.wait.ms`.
    Fetch,
    /// JoinGroup and SyncGroup: the broker may hold the answer for the rebalance timeout.
    Join,
    /// Produce: the broker may hold the answer until enough replicas have the batches.
    Produce,
}

impl Channel {
    /// How many there are.
    pub const COUNT: usize = 4;

    /// All of them, in the order of [`Channel::index`].
    pub const ALL: [Self; Self::COUNT] = [Self::Control, Self::Fetch, Self::Join, Self::Produce];

    /// Dense index, for arrays with one place per channel.
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

/// The machine that sent a request and gets its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// The cluster itself (metadata); such replies never leave it.
    Cluster,
    /// The fetch machine.
    Fetch,
    /// The position machine.
    Position,
    /// The group machine.
    Group,
    /// The produce machine.
    Produce,
    /// The admin client.
    Admin,
    /// A caller of the client's API.
    Client,
}

/// Names one request within its owner; comes back in the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token {
    /// Who asked.
    pub owner: Owner,
    /// The owner's own number for it.
    pub id: u32,
}

/// A request of any API that has messages: for questions that are asked too seldom to have a place in [`Request`].
pub trait AnyRequest: fmt::Debug + Send + Sync {
    /// Which API this is.
    fn api(&self) -> ApiKey;
    /// Appends the body, without any header.
    fn encode_body(&self, version: i16, out: &mut Vec<u8>) -> Result<(), WireError>;
}

impl<T: Api + fmt::Debug + Send + Sync> AnyRequest for T {
    fn api(&self) -> ApiKey {
        T::KEY
    }

    fn encode_body(&self, version: i16, out: &mut Vec<u8>) -> Result<(), WireError> {
        Api::encode_body(self, version, out)
    }
}

/// The body of a request; its version is chosen when the connection is known.
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
    Produce(ProduceBody),
    /// Equal only to its clones.
    Any(Arc<dyn AnyRequest>),
    /// A body that is already encoded for `version` (Fetch: encoded once, patched in place).
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
            (Self::Produce(a), Self::Produce(b)) => a == b,
            (Self::Any(a), Self::Any(b)) => Arc::ptr_eq(a, b),
            (
                Self::Raw { api, version, body },
                Self::Raw { api: other_api, version: other_version, body: other_body },
            ) => (api, version, body) == (other_api, other_version, other_body),
            _ => false,
        }
    }
}

impl Request {
    /// Any request there is a message for.
    #[must_use]
    pub fn any(body: impl AnyRequest + 'static) -> Self {
        Self::Any(Arc::new(body))
    }

    /// Which API this is.
    #[must_use]
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
            Self::Produce(_) => ApiKey::Produce,
            Self::Any(body) => body.api(),
            Self::Raw { api, .. } => *api,
        }
    }

    /// The version that the body is encoded for, where the caller has chosen it.
    #[must_use]
    pub fn fixed_version(&self) -> Option<i16> {
        match self {
            Self::Raw { version, .. } => Some(*version),
            _ => None,
        }
    }

    /// The highest version that can carry what it says, whatever both sides speak.
    #[must_use]
    pub(crate) fn max_version(&self) -> i16 {
        match self {
            Self::Produce(body) => body.max_version(),
            _ => i16::MAX,
        }
    }

    /// Whether the broker answers it at all.
    #[must_use]
    pub(crate) fn is_answered(&self) -> bool {
        !matches!(self, Self::Produce(body) if body.acks == 0)
    }

    /// Whether a throttled client sends it all the same: a quota on fetching must not cost the membership.
    #[must_use]
    pub fn keeps_membership(&self) -> bool {
        matches!(
            self.api(),
            ApiKey::Heartbeat | ApiKey::JoinGroup | ApiKey::SyncGroup | ApiKey::LeaveGroup | ApiKey::OffsetCommit
        )
    }

    /// About how many bytes it takes with its header up to the first batch, so that nothing is moved as it grows.
    #[must_use]
    pub(crate) fn size_hint(&self) -> usize {
        match self {
            Self::Raw { body, .. } => body.len() + 256,
            Self::Produce(_) => 1024,
            _ => 256,
        }
    }

    /// Appends the body, without any header.
    pub fn encode_body(&self, version: i16, out: &mut Outbound) -> Result<(), WireError> {
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
            Self::Any(body) => body.encode_body(version, out),
            Self::Produce(_) => Ok(()), // done above
            Self::Raw { body, .. } => {
                out.extend_from_slice(body);
                Ok(())
            }
        }
    }
}

/// A request on its way to a broker. Exactly one [`Reply`] with its token follows.
#[derive(Debug, Clone, PartialEq)]
pub struct Outgoing {
    /// Where to.
    pub target: Target,
    /// On which of the broker's connections.
    pub channel: Channel,
    /// What.
    pub request: Request,
    /// Comes back in the reply.
    pub token: Token,
    /// From now until the reply, waiting for a connection included.
    pub timeout: Nanos,
}

/// The one answer to an [`Outgoing`].
#[derive(Debug, Clone)]
pub struct Reply {
    /// The request's.
    pub token: Token,
    /// The broker that was asked; `i32::MIN` if none could be chosen.
    pub node: NodeId,
    /// What came back.
    pub result: Result<Response, RequestError>,
}

/// `Reply::node` of a request for which no broker could be chosen.
pub const NO_NODE: NodeId = NodeId::MIN;

/// A broker's answer, not yet decoded.
#[derive(Debug, Clone)]
pub struct Response {
    /// The API that was called.
    pub api: ApiKey,
    /// In which version.
    pub version: i16,
    /// The whole message.
    pub frame: Frame,
    /// Where the body starts in it.
    pub body: usize,
}

impl Response {
    /// The bytes after the response header.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        self.frame.get(self.body..).unwrap_or_default()
    }

    /// Decodes the body: `response.decode(HeartbeatResponse::decode)`. Bytes after the last field are ignored, as Java does.
    pub fn decode<'a, T>(
        &'a self,
        decode: impl FnOnce(i16, &mut Reader<'a>) -> Result<T, WireError>,
    ) -> Result<T, WireError> {
        decode(self.version, &mut Reader::new(self.body()))
    }
}

/// Why a request has no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// It was sent; whether the broker acted on it is unknown.
    #[error("the connection was lost before the broker answered")]
    Disconnected,
    /// It waited, or was sent and not answered in time; whether the broker acted on it is unknown.
    #[error("the broker did not answer in time")]
    TimedOut,
    /// It was never sent: the broker is unknown, unreachable or waiting to be tried again.
    #[error("no connection to the broker")]
    NoConnection,
    /// It was never sent: broker and client have no version of the API in common.
    #[error(
        "the broker speaks {} of {api:?}, this client versions {} to {}: use a client or a broker of a nearer age",
        show_range(.broker), .ours.0, .ours.1
    )]
    Unsupported {
        /// The API.
        api: ApiKey,
        /// The broker's lowest and highest version; `None` if it does not know the API at all.
        broker: Option<(i16, i16)>,
        /// This client's.
        ours: (i16, i16),
    },
    /// It was never sent: a field has no place in the version that the broker speaks.
    #[error("the request does not fit the version that the broker speaks: {0}")]
    Encode(WireError),
    /// The answer cannot be read; the connection is closed.
    #[error("the broker's answer cannot be read: {0}")]
    Protocol(WireError),
    /// It was sent, and that is all that will ever be known: the broker does not answer this kind (`acks=0`).
    #[error("the broker does not answer requests of this kind")]
    Unanswered,
    /// Something other than a Kafka broker listens there.
    #[error(transparent)]
    NotKafka(#[from] NotKafka),
}

fn show_range(range: &Option<(i16, i16)>) -> String {
    range.map_or_else(|| "no version".to_owned(), |(min, max)| format!("versions {min} to {max}"))
}

impl RequestError {
    /// Whether the broker can have acted on the request.
    #[must_use]
    pub fn may_have_happened(&self) -> bool {
        matches!(self, Self::Disconnected | Self::TimedOut | Self::Protocol(_) | Self::Unanswered)
    }
}

/// What listens on an address that does not speak Kafka in plain text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LooksLike {
    /// The answer starts like HTTP.
    Http,
    /// The answer starts like a TLS record.
    Tls,
    /// The answer makes no sense; a broker's first answer always does.
    Unknown,
}

/// An address where something other than a Kafka broker answers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{address} {}", self.advice())]
pub struct NotKafka {
    /// host:port.
    pub address: String,
    /// What it seems to be.
    pub looks_like: LooksLike,
}

impl NotKafka {
    fn advice(&self) -> &'static str {
        match self.looks_like {
            LooksLike::Http => {
                "answers like an HTTP server; bootstrap.servers needs the port of a broker's Kafka listener (often 9092)"
            }
            LooksLike::Tls => {
                "answers like a TLS server, and this client speaks plain text; use the port of a PLAINTEXT listener"
            }
            LooksLike::Unknown => {
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
        let error = NotKafka { address: "localhost:8080".into(), looks_like: LooksLike::Http };
        assert!(error.to_string().starts_with("localhost:8080 answers like an HTTP server; "), "{error}");
        let error = RequestError::Unsupported { api: ApiKey::Fetch, broker: Some((0, 4)), ours: (11, 17) };
        assert!(error.to_string().contains("versions 0 to 4 of Fetch"), "{error}");
        assert!(!error.may_have_happened());
    }

    #[test]
    fn channels_index_an_array() {
        for (index, channel) in Channel::ALL.into_iter().enumerate() {
            assert_eq!(channel.index(), index);
        }
    }
}
