//! Interface between the event loop and the sans-IO machine that it drives.

use std::io;
use std::sync::Arc;

use grete_proto::connection::CloseReason;
use grete_proto::ids::ConnId;
use grete_proto::sasl::GssResult;
use grete_proto::time::Nanos;
use grete_proto::transport::TransportAction;
use grete_sys::EventFd;
use grete_wire::frame::Frame;

use crate::selectors::CallersSelector;

/// Event that the loop passes to the protocol.
#[derive(Debug)]
pub enum NetEvent {
    /// A deadline has passed, or a thread called [`Waker::wake`] or
    /// [`LoopHandle::step_here`](crate::LoopHandle::step_here).
    Tick,
    /// The requested connection is established.
    Connected(ConnId),
    /// A whole frame arrived.
    Frame(ConnId, Frame),
    /// The connection was closed or could not be made. No further events of this connection follow.
    Closed(ConnId, CloseReason),
    /// The GSSAPI library has answered a [`TransportAction::Gss`].
    Gss(ConnId, GssResult),
}

/// Sans-IO machine that the loop drives.
pub trait Protocol {
    /// Handles one event and pushes the requested actions to `actions`.
    fn step(&mut self, now: Nanos, event: NetEvent, actions: &mut Vec<TransportAction>);
    /// Returns the time by which the loop must step with `Tick`; `None`: no deadline.
    fn deadline(&self) -> Option<Nanos>;
    /// Returns whether the loop may end.
    fn is_finished(&self) -> bool;
}

/// Wakes the loop from any thread.
#[derive(Debug, Clone)]
pub struct Waker {
    pub(crate) network: Arc<EventFd>,
    pub(crate) callers: Arc<CallersSelector>,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { network: Arc::new(EventFd::new()?), callers: Arc::new(CallersSelector::new()?) })
    }

    /// Makes the loop step the protocol with `Tick` soon. Cheap while the loop has not yet handled the previous
    /// wake-up.
    pub fn wake(&self) {
        self.network.signal();
    }

    /// Makes the caller that leads check what it waits for. Every thread that changes what a caller may wait for calls
    /// this after the change. Costs no system call while no caller leads, nor on the thread of the leader.
    pub fn notify_leader(&self) {
        self.callers.notify();
    }
}
