//! What happens to an admin client, and what it wants done.

use std::sync::Arc;

use grete_wire::frame::Frame;
use grete_wire::outbound::Outbound;

use super::operation::{AdminReply, Operation};
use crate::cluster::ClusterNotice;
use crate::conn::CloseReason;
use crate::ids::ConnId;
use crate::time::Nanos;

/// Something happened.
#[derive(Debug)]
pub enum AdminEvent {
    /// A deadline has passed, or somebody woke the loop.
    Tick,
    /// A socket is connected.
    Connected(ConnId),
    /// A whole message arrived.
    Frame(ConnId, Frame),
    /// A socket is gone.
    Closed(ConnId, CloseReason),
    /// Somebody asks.
    Ask {
        /// The caller's number for it.
        id: u32,
        /// What.
        operation: Operation,
        /// How long to try.
        timeout: Nanos,
    },
    /// The caller no longer waits for this answer.
    Forget(u32),
    /// End: nothing is answered any more.
    Close,
}

/// What is to be done.
#[derive(Debug)]
pub enum AdminAction {
    /// Resolve and connect.
    Connect {
        /// Its name.
        conn: ConnId,
        /// Host.
        host: Arc<str>,
        /// Port.
        port: u16,
    },
    /// Write.
    Write {
        /// To.
        conn: ConnId,
        /// What.
        bytes: Outbound,
    },
    /// Drop the socket.
    CloseConn(ConnId),
    /// The answer to the question with this number.
    Reply(u32, AdminReply),
    /// Worth telling.
    Notice(ClusterNotice),
    /// Closed: the loop may end.
    Finished,
}
