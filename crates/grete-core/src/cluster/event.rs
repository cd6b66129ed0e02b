//! What happens to the cluster, what it wants done, and what it has to tell.

use std::sync::Arc;

use grete_wire::Outbound;
use grete_wire::error_code::ErrorCode;
use grete_wire::frame::Frame;

use crate::conn::CloseReason;
use crate::ids::{ConnId, NodeId, TopicPartition};
use crate::request::{Channel, NotKafka, Outgoing, Reply, RequestError};

/// What happens to the cluster.
#[derive(Debug)]
pub enum ClusterEvent {
    /// Time has passed: due when [`super::Cluster::deadline`] is reached, harmless at any time.
    Tick,
    /// The socket of a [`ClusterAction::Connect`] is connected.
    Connected(ConnId),
    /// A whole message has arrived.
    Frame(ConnId, Frame),
    /// The socket could not be connected, or is gone.
    Closed(ConnId, CloseReason),
    /// Send this; exactly one reply follows.
    Send(Outgoing),
    /// The topics whose metadata is wanted, all of them. Topics that are no longer named are forgotten.
    SetTopics(Vec<Arc<str>>),
    /// The metadata has proved stale: ask again (soon, not at once, when it was asked a moment ago).
    RefreshMetadata,
    /// Connect this channel if it is not, one attempt: `NodeReady` or `NodeLost` follows unless it is ready already or the
    /// node is unknown.
    NeedNode(NodeId, Channel),
    /// A broker told in an answer who leads a partition now (KIP-951). Believed only with a newer epoch, and if it is known
    /// where that node listens; `MetadataChanged` follows then.
    LeaderHint {
        /// Which partition.
        tp: TopicPartition,
        /// Who leads it.
        leader: NodeId,
        /// Since which epoch.
        epoch: i32,
        /// Where that node listens, if the broker said so.
        endpoint: Option<(String, i32)>,
    },
    /// A broker asked for a pause in an answer that only its machine can read (KIP-219; Produce).
    Throttled {
        /// Who asked.
        node: NodeId,
        /// For so many milliseconds.
        millis: i32,
    },
}

/// What the cluster wants done.
#[derive(Debug)]
pub enum ClusterAction {
    /// Resolve and connect; answer with `Connected` or `Closed`.
    Connect {
        /// The connection's name from now on.
        conn: ConnId,
        /// Host and port.
        address: (Arc<str>, u16),
    },
    /// Send these bytes.
    Write {
        /// On which connection.
        conn: ConnId,
        /// What.
        bytes: Outbound,
    },
    /// Close the socket; whatever it still says is ignored.
    Close {
        /// Which.
        conn: ConnId,
    },
    /// Hand this to the machine that asked.
    Reply(Reply),
    /// Brokers, leaders, epochs, ids or topic errors are not what they were.
    MetadataChanged,
    /// A metadata answer was taken in, whether or not it changed anything (follows `MetadataChanged` if it did).
    MetadataRefreshed,
    /// Requests on this channel leave at once; `api_version` answers.
    NodeReady {
        /// The broker.
        node: NodeId,
        /// Which of its connections.
        channel: Channel,
    },
    /// The channel is closed, or could not be opened. Requests on it have had their replies.
    NodeLost {
        /// The broker.
        node: NodeId,
        /// Which of its connections.
        channel: Channel,
    },
    /// The broker's throttle is over (KIP-219).
    Unmuted {
        /// The broker.
        node: NodeId,
    },
    /// For events and logs.
    Notify(ClusterNotice),
}

/// The actions of one step, in order.
pub type ClusterActions = Vec<ClusterAction>;

/// What operators want to know about.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClusterNotice {
    /// A connection is ready for requests.
    Connected {
        /// The broker; negative for a bootstrap address.
        node: NodeId,
        /// Which of its connections.
        channel: Channel,
        /// host:port.
        address: String,
    },
    /// A ready connection is gone.
    Disconnected {
        /// The broker.
        node: NodeId,
        /// Which of its connections.
        channel: Channel,
        /// host:port.
        address: String,
        /// Why.
        reason: CloseReason,
    },
    /// A connection did not become ready.
    ConnectFailed {
        /// The broker.
        node: NodeId,
        /// Which of its connections.
        channel: Channel,
        /// host:port.
        address: String,
        /// Why.
        reason: CloseReason,
        /// How often in a row.
        failures: u32,
    },
    /// No address that is known answers; said once, until one does again.
    AllBrokersDown {
        /// How many addresses were tried.
        addresses: usize,
    },
    /// Something other than a broker answers there.
    NotKafka(NotKafka),
    /// A broker asks to hold back (KIP-219).
    Throttled {
        /// The broker.
        node: NodeId,
        /// For so many milliseconds.
        ms: u64,
    },
    /// A topic of interest has a (new) error; `NONE`: it is well again.
    TopicError {
        /// Its name.
        topic: Arc<str>,
        /// What is wrong.
        error: ErrorCode,
    },
    /// A topic was deleted and made anew: offsets of the old one mean nothing in the new one.
    TopicRecreated {
        /// Its name.
        topic: Arc<str>,
        /// The id it had.
        old: u128,
        /// The id it has.
        new: u128,
    },
    /// A metadata request failed; another follows after a backoff.
    MetadataFailed {
        /// The broker that was asked.
        node: NodeId,
        /// Why.
        error: MetadataError,
    },
    /// The bootstrap addresses are asked again, as on the first day (KIP-899, KIP-1102).
    Rebootstrap {
        /// Why.
        cause: RebootstrapCause,
    },
    /// Nothing will come of this: every bootstrap address is something other than a broker.
    Fatal(NotKafka),
}

/// Why a metadata answer was of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// There was none.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// It says that something is wrong.
    #[error("{} {}", .0.name(), .0.message())]
    Code(ErrorCode),
    /// It names no broker: the one that was asked is starting up.
    #[error("the broker names no brokers; it is probably starting up")]
    NoBrokers,
}

/// Why the bootstrap addresses are asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RebootstrapCause {
    /// Every broker that the metadata names is unreachable.
    NoBrokerReachable,
    /// No metadata for `metadata.recovery.rebootstrap.trigger.ms`.
    NoMetadata,
    /// A broker asked for it (error 129).
    Asked,
}
