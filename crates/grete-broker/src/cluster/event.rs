//! Events that the driver passes to the cluster, and the actions that the driver performs.

use std::sync::Arc;

use grete_wire::{Frame, SegmentedBuf};

use crate::effects::Change;
use crate::ids::{BrokerId, ConnId};

/// Event of a connection, or the passing of time.
#[derive(Debug, Clone)]
pub enum Event {
    /// A client connected to a broker.
    Accepted {
        /// New connection.
        conn: ConnId,
        /// Broker whose port accepted the connection.
        broker: BrokerId,
        /// Address of the client without the port, for example `127.0.0.1`.
        client_host: Arc<str>,
    },
    /// The client has shown a certificate that the broker trusts.
    Identified {
        /// Connection of the client.
        conn: ConnId,
        /// Principal of the certificate, such as `User:CN=billing,O=Example`.
        principal: Arc<str>,
    },
    /// A whole request arrived.
    Frame {
        /// Connection on which the request arrived.
        conn: ConnId,
        /// Request without its size field.
        frame: Frame,
    },
    /// The connection ended: closed by the client, or failed.
    Closed {
        /// Connection that no longer exists.
        conn: ConnId,
    },
    /// Time has passed: [`Cluster::deadline`](super::Cluster::deadline) is due.
    Tick,
}

/// Order to the driver. The driver performs the actions of a step in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Store a change. Changes come before the responses that depend on them.
    Persist(Change),
    /// Send bytes.
    Write {
        /// Connection to write to.
        conn: ConnId,
        /// Response frame or a part of it.
        bytes: SegmentedBuf,
    },
    /// Close a connection after the bytes that were written to the connection.
    Close {
        /// Connection to close. The driver reports no [`Event::Closed`] for the connection.
        conn: ConnId,
    },
    /// Stop reading from a connection: requests that wait for their turn reach their limit. The kernel's buffers then
    /// fill, and the client waits.
    PauseReading(ConnId),
    /// Read from a paused connection again.
    ResumeReading(ConnId),
    /// Stop accepting connections for a broker. Its connections are closed by actions of their own.
    StopListening(BrokerId),
    /// Accept connections for a broker again, on the same port.
    Listen(BrokerId),
    /// Write a line to the log.
    Log(String),
}
