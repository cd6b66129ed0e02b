//! What the dispatcher keeps for each client.

use super::outbox::Outbox;
use super::ready::Place;
use super::route::Pool;
use crate::time::Nanos;

/// A client (one group's connections) that feeds lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientId(pub u32);

#[derive(Debug, Default)]
pub(super) struct Client {
    pub(super) outbox: Outbox,
    /// Group lanes may run only while the member's session is alive.
    pub(super) session_until: Option<Nanos>,
    /// Places of those that wait for the session to be renewed.
    pub(super) held: Vec<(Pool, Place)>,
    /// The fetcher waits for memory: a release is worth a wake-up.
    pub(super) starved: bool,
    pub(super) wake: bool,
    /// No job passes a limit before this.
    pub(super) stall_look: Option<Nanos>,
}
