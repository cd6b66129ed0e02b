//! Share session of this member with one leader.

use std::collections::BTreeSet;

use grete_wire::ErrorCode;

use super::config::ShareConfig;
use super::partition::{AckGroup, PartitionKey};
use crate::backoff::Backoff;
use crate::ids::NodeId;
use crate::time::Nanos;

/// Epoch that ends a session.
pub(super) const CLOSE_EPOCH: i32 = -1;
/// Request in flight.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) token: u32,
    pub(super) since: Nanos,
    pub(super) kind: RequestKind,
    /// Number of the session that the request belongs to.
    pub(super) session: u32,
    pub(super) acks: Vec<(PartitionKey, AckGroup)>,
}

/// Kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    Fetch,
    Acknowledge,
    /// Acknowledges, and ends the session.
    Close,
}

/// Session with one leader, and its requests.
#[derive(Debug)]
pub(super) struct ShareSession {
    pub(super) node: NodeId,
    /// Epoch of the next request; 0: there is no session.
    pub(super) epoch: i32,
    /// Number of this session: late responses to an earlier one do not count.
    pub(super) number: u32,
    /// Partitions that the leader knows to be in the session.
    pub(super) known: BTreeSet<PartitionKey>,
    /// Partitions that the node leads.
    pub(super) led: BTreeSet<PartitionKey>,
    pub(super) in_flight: Option<InFlight>,
    pub(super) not_before: Nanos,
    pub(super) connect_retry_at: Nanos,
    pub(super) backoff: Backoff,
    /// Error code of the last request (`NONE`: it was not answered); `None`: the node has executed it.
    pub(super) refused: Option<ErrorCode>,
    /// The session was closed, or there is nothing to close.
    pub(super) closed: bool,
    /// The log says that the broker cannot renew.
    pub(super) warned: bool,
}

impl ShareSession {
    pub(super) fn new(node: NodeId, config: &ShareConfig) -> Self {
        Self {
            node,
            epoch: 0,
            number: 0,
            known: BTreeSet::new(),
            led: BTreeSet::new(),
            in_flight: None,
            not_before: 0,
            connect_retry_at: 0,
            backoff: Backoff::new(config.retry_backoff, config.retry_backoff_max),
            refused: None,
            closed: false,
            warned: false,
        }
    }

    /// Returns the error code with which the node refuses requests; `NONE`: it does not answer. `None`: neither.
    /// `limit`: longest time of an answer.
    pub(super) fn refusal(&self, now: Nanos, limit: Nanos) -> Option<ErrorCode> {
        let is_late = self.in_flight.as_ref().is_some_and(|flight| now.saturating_sub(flight.since) > limit);
        self.refused.or(is_late.then_some(ErrorCode::NONE))
    }

    /// Begins a new session with the next ShareFetch.
    pub(super) fn reset(&mut self) {
        self.epoch = 0;
        self.number = self.number.wrapping_add(1);
        self.known.clear();
    }

    /// Returns the epoch of a request, and counts it.
    pub(super) fn next_epoch(&mut self) -> i32 {
        let epoch = self.epoch;
        self.epoch = epoch.checked_add(1).unwrap_or(1);
        epoch
    }
}
