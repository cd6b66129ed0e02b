//! Events, actions and log events of the cluster.

use std::sync::Arc;

use grete_wire::error_code::ErrorCode;
use grete_wire::frame::Frame;

use crate::connection::CloseReason;
use crate::ids::{ConnId, NodeId, TopicPartition};
use crate::request::{AddressFault, AuthenticationFailure, Channel, NotKafka, OutboundRequest, Reply, RequestError};
use crate::sasl::{GssResult, Mechanism};
use crate::transport::TransportAction;

/// Input of [`Cluster::step`](super::Cluster::step).
#[derive(Debug)]
pub enum ClusterEvent {
    /// Time has passed: due at [`super::Cluster::deadline`], harmless at any time.
    Tick,
    /// The socket of a [`TransportAction::Connect`] is connected.
    Connected(ConnId),
    /// A complete Kafka frame was received.
    Frame(ConnId, Frame),
    /// A connection attempt failed, or an open connection was closed.
    Closed(ConnId, CloseReason),
    /// The GSSAPI library has answered a [`TransportAction::Gss`].
    Gss(ConnId, GssResult),
    /// Send this request; exactly one reply follows.
    Send(OutboundRequest),
    /// Replaces the set of topics that need metadata. Topics not in the set are removed.
    SetTopics(Vec<Arc<str>>),
    /// The metadata is stale: request it again, with a delay if the last request was a moment ago.
    RefreshMetadata,
    /// Connect this channel, with one attempt. `NodeReady` or `NodeLost` follows, unless the channel is ready already
    /// or the node is unknown.
    NeedNode(NodeId, Channel),
    /// A broker reported a partition's current leader in a response (KIP-951). Applied only with a newer epoch and a
    /// known address of the leader; `MetadataChanged` follows then.
    LeaderHint {
        /// Partition concerned.
        tp: TopicPartition,
        /// Node id of the current leader.
        leader: NodeId,
        /// Leader epoch.
        epoch: i32,
        /// Address of the leader (host, port); `None`: the broker did not report it.
        endpoint: Option<(String, i32)>,
    },
    /// A broker requested a throttle time in a response that only the sending state machine can decode (KIP-219;
    /// Produce).
    Throttled {
        /// Node that requested the throttle time.
        node: NodeId,
        /// Throttle time in milliseconds.
        millis: i32,
    },
}

/// Output of [`Cluster::step`](super::Cluster::step), to be carried out by the caller.
#[derive(Debug)]
pub enum ClusterAction {
    /// Perform this action on a connection.
    Transport(TransportAction),
    /// Pass this reply to the state machine that sent the request.
    Reply(Reply),
    /// Brokers, leaders, epochs, ids or topic errors have changed.
    MetadataChanged,
    /// A metadata response was applied, with or without changes (after `MetadataChanged` if it had any).
    MetadataRefreshed,
    /// Requests on this channel are sent at once, and `api_version` is available.
    NodeReady {
        /// Broker id.
        node: NodeId,
        /// Channel of the connection.
        channel: Channel,
    },
    /// The channel was closed or could not be opened. Its requests have got their replies.
    NodeLost {
        /// Broker id.
        node: NodeId,
        /// Channel of the connection.
        channel: Channel,
    },
    /// The throttle time of the broker is over (KIP-219).
    Unmuted {
        /// Broker id.
        node: NodeId,
    },
    /// An event to log.
    LogEvent(ClusterLogEvent),
}

/// Actions of one step, in order.
pub type ClusterActions = Vec<ClusterAction>;

/// Log event of connections and metadata, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClusterLogEvent {
    /// A connection is ready for requests.
    Connected {
        /// Broker id; negative: a bootstrap address.
        node: NodeId,
        /// Channel of the connection.
        channel: Channel,
        /// Address as host:port.
        address: String,
    },
    /// A ready connection was lost.
    Disconnected {
        /// Broker id; negative: a bootstrap address.
        node: NodeId,
        /// Channel of the connection.
        channel: Channel,
        /// Address as host:port.
        address: String,
        /// Reason of the disconnect.
        reason: CloseReason,
    },
    /// A connection did not become ready.
    ConnectFailed {
        /// Broker id; negative: a bootstrap address.
        node: NodeId,
        /// Channel of the connection.
        channel: Channel,
        /// Address as host:port.
        address: String,
        /// Reason of the failure.
        reason: CloseReason,
        /// Number of consecutive failures.
        failures: u32,
    },
    /// No known address responds. Emitted once, until one responds again.
    AllBrokersDown {
        /// Number of addresses tried.
        addresses: usize,
    },
    /// A server that is not a Kafka broker responds at this address.
    NotKafka(NotKafka),
    /// A broker requested a throttle time (KIP-219).
    Throttled {
        /// Broker id.
        node: NodeId,
        /// Throttle time in milliseconds.
        ms: u64,
    },
    /// The error of a tracked topic changed; `NONE`: the topic has recovered.
    TopicError {
        /// Topic name.
        topic: Arc<str>,
        /// Error code.
        error: ErrorCode,
    },
    /// A topic was deleted and recreated: offsets of the old topic are invalid in the new one.
    TopicRecreated {
        /// Topic name.
        topic: Arc<str>,
        /// Previous topic id.
        old: u128,
        /// Current topic id.
        new: u128,
    },
    /// A metadata request failed; it is retried after a backoff.
    MetadataFailed {
        /// Broker that the request was sent to.
        node: NodeId,
        /// Cause of the failure.
        error: MetadataError,
    },
    /// The client starts again from the bootstrap addresses (KIP-899, KIP-1102).
    Rebootstrap {
        /// Cause of the rebootstrap.
        cause: RebootstrapCause,
    },
    /// The password or token of this client is sent without encryption. Emitted once.
    ExposedLogin {
        /// `sasl.mechanism`.
        mechanism: Mechanism,
    },
    /// A login failed. Emitted for each failure of an outage; only the first is news.
    LoginFailed {
        /// Address and reason.
        failure: AuthenticationFailure,
        /// Whether a login failed before, and none succeeded since.
        again: bool,
    },
    /// A login succeeded after failures.
    LoginRecovered {
        /// Address as host:port.
        address: String,
    },
    /// No bootstrap address can be used as the client is set up; the client cannot continue.
    Fatal(AddressFault),
}

/// Error of a metadata request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// The request has no response.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The response has an error code.
    #[error("{} {}", .0.name(), .0.message())]
    Code(ErrorCode),
    /// The response contains no broker: the responding broker is starting up.
    #[error("the response contains no brokers; the broker is probably starting up")]
    NoBrokers,
}

/// Cause of a rebootstrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RebootstrapCause {
    /// Every broker in the metadata is unreachable.
    NoBrokerReachable,
    /// No metadata for `metadata.recovery.rebootstrap.trigger.ms`.
    NoMetadata,
    /// A broker requested it (REBOOTSTRAP_REQUIRED, error 129).
    BrokerRequested,
}
