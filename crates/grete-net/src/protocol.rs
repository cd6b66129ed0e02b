//! What the loop and the sans-IO machine that it drives say to each other.

use std::sync::Arc;

use grete_core::conn::CloseReason;
use grete_core::ids::ConnId;
use grete_core::time::Nanos;
use grete_wire::Outbound;
use grete_wire::frame::Frame;

/// What the loop tells the protocol.
#[derive(Debug)]
pub enum NetEvent {
    /// A deadline has passed, or somebody called [`Waker::wake`] or [`Remote::step_here`](crate::Remote::step_here).
    Tick,
    /// The connection asked for is up.
    Connected(ConnId),
    /// A whole frame arrived.
    Frame(ConnId, Frame),
    /// The connection is gone, or was never made. Nothing further comes from it.
    Closed(ConnId, CloseReason),
}

/// What the protocol asks of the loop.
#[derive(Debug)]
pub enum NetAction {
    /// Resolve and connect; answered by `Connected` or `Closed`.
    Connect {
        /// Its name from now on.
        conn: ConnId,
        /// Host name or literal address.
        host: Arc<str>,
        /// TCP port.
        port: u16,
    },
    /// Write these bytes, in order.
    Write {
        /// To this connection.
        conn: ConnId,
        /// Whole frames.
        bytes: Outbound,
    },
    /// Drop the connection; not answered.
    Close {
        /// Which one.
        conn: ConnId,
    },
}

/// A sans-IO machine that the loop drives.
pub trait Protocol {
    /// One event; what is to be done is pushed to `actions`.
    fn step(&mut self, now: Nanos, event: NetEvent, actions: &mut Vec<NetAction>);
    /// When to step with `Tick` at the latest.
    fn deadline(&self) -> Option<Nanos>;
    /// Whether the loop may end.
    fn is_finished(&self) -> bool;
}

/// Wakes the loop from any thread.
#[derive(Debug, Clone)]
pub struct Waker(pub(crate) Arc<mio::Waker>);

impl Waker {
    /// The loop steps the protocol with `Tick` soon. Cheap when the loop has not yet seen the last one.
    pub fn wake(&self) {
        // The only failure is a closed descriptor, which means that the loop has ended.
        let _ = self.0.wake();
    }
}
