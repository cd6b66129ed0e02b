//! Events and actions of an admin client and of its operations.

use std::sync::Arc;

use grete_wire::frame::Frame;

use super::operation::Operation;
use super::reply::AdminReply;
use crate::cluster::ClusterLogEvent;
use crate::connection::CloseReason;
use crate::ids::{ConnId, NodeId};
use crate::request::{AddressFault, OutboundRequest, Reply};
use crate::sasl::GssResult;
use crate::time::Nanos;
use crate::transport::TransportAction;

/// Input of [`AdminCore::step`](super::AdminCore::step).
#[derive(Debug)]
pub enum AdminEvent {
    /// The deadline has passed, or the loop was woken.
    Tick,
    /// A socket is connected.
    Connected(ConnId),
    /// A complete Kafka frame was received.
    Frame(ConnId, Frame),
    /// A connection attempt failed, or an open connection was closed.
    Closed(ConnId, CloseReason),
    /// The GSSAPI library has answered a call for a connection.
    Gss(ConnId, GssResult),
    /// The caller starts an operation.
    Submit {
        /// The caller's id of the operation.
        id: u32,
        /// The operation.
        operation: Operation,
        /// Time limit of the operation, from now on.
        timeout: Nanos,
    },
    /// The caller no longer waits for the operation with this id.
    Cancel(u32),
    /// Close the client: no operation gets a reply any more.
    Close,
}

/// Output of [`AdminCore::step`](super::AdminCore::step), to be carried out by the caller.
#[derive(Debug)]
pub enum AdminAction {
    /// Perform this action on a connection.
    Transport(TransportAction),
    /// Reply to the operation with this id.
    Reply(u32, AdminReply),
    /// An event to log.
    LogEvent(ClusterLogEvent),
    /// The client is closed; the loop may end.
    Finished,
}

/// Input of [`OperationTable::step`](super::OperationTable::step).
#[derive(Debug)]
pub enum OperationsEvent {
    /// The caller starts an operation.
    Submit {
        /// The caller's id of the operation; returned with the reply.
        id: u32,
        /// The operation.
        operation: Operation,
        /// Time limit from now on; a reply is sent by then in any case. [`Nanos::MAX`]: no limit but `Cancel`.
        timeout: Nanos,
    },
    /// The caller no longer waits for the operation with this id.
    Cancel(u32),
    /// Result of one of the operations' requests.
    Reply(Reply),
    /// A metadata response was applied.
    MetadataRefreshed,
    /// No bootstrap address speaks Kafka.
    Fatal(AddressFault),
    /// The deadline has passed.
    Tick,
}

/// Output of [`OperationTable::step`](super::OperationTable::step), to be carried out by the caller.
#[derive(Debug)]
pub enum OperationsAction {
    /// Send this request through the cluster state machine.
    Send(OutboundRequest),
    /// A response reported the address of a broker.
    LearnNode {
        /// Broker id.
        node: NodeId,
        /// Host name or IP address.
        host: Arc<str>,
        /// TCP port.
        port: u16,
    },
    /// The metadata is stale: request it again.
    RefreshMetadata,
    /// The set of topics whose leaders are needed has changed: see [`OperationTable::topics`](super::OperationTable::topics).
    TopicsChanged,
    /// Reply to the operation with this id.
    Reply(u32, AdminReply),
}
