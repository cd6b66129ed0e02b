//! Actions on connections, the same for all cores: the event loop performs them.

use std::sync::Arc;

use grete_wire::SegmentedBuf;

use crate::ids::ConnId;
use crate::sasl::GssCall;

/// Action on a connection.
#[derive(Debug)]
pub enum TransportAction {
    /// Resolve the host and connect; report the result with `Connected` or `Closed`.
    Connect {
        /// Id of the new connection.
        conn: ConnId,
        /// Host name or IP address.
        host: Arc<str>,
        /// TCP port.
        port: u16,
    },
    /// Write these bytes to the socket, in order.
    Write {
        /// Connection to write to.
        conn: ConnId,
        /// Encoded request frames.
        bytes: SegmentedBuf,
    },
    /// Call the GSSAPI library on a thread that may block; report the result with `Gss`. Calls of one connection share
    /// one context, which ends with the connection.
    Gss {
        /// Connection that logs in.
        conn: ConnId,
        /// Host name of the broker: part of its principal.
        host: Arc<str>,
        /// Call of the library.
        call: GssCall,
    },
    /// Close the socket, without an event in response; its later events are ignored.
    CloseConn(ConnId),
}
