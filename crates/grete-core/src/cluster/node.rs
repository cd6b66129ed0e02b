//! One broker as the client knows it: where it is, how reaching it goes, its connections.

use std::fmt;
use std::sync::Arc;

use crate::ids::{ConnId, NodeId};
use crate::request::{Channel, LooksLike};
use crate::rng::Backoff;
use crate::time::Nanos;

use super::config::ClusterConfig;

/// Host and port of a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: Arc<str>,
    pub(crate) port: u16,
}

impl Address {
    /// Refuses what cannot be connected to: brokers can be told to advertise anything.
    pub(crate) fn from_wire(host: &str, port: i32) -> Option<Self> {
        let port = u16::try_from(port).ok().filter(|&port| port > 0)?;
        (!host.is_empty()).then(|| Self { host: host.into(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// One broker, or one bootstrap address (negative id).
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) address: Address,
    pub(crate) rack: Option<Arc<str>>,
    /// Named by metadata, a coordinator lookup or a fetch response, and not withdrawn since.
    pub(crate) listed: bool,
    /// Grows with each failure in a row; reset by an answer beyond ApiVersions, not by a mere connect.
    pub(crate) backoff: Backoff,
    /// No attempt before.
    pub(crate) retry_at: Nanos,
    /// The setup timeout grows with each attempt in a row that does not get ready.
    pub(crate) setup: Backoff,
    /// KIP-219: belongs to the broker, not to the connection that the answer came on.
    pub(crate) muted_until: Nanos,
    pub(crate) conns: [Option<ConnId>; Channel::COUNT],
    /// `NeedNode` came while it could not be tried.
    pub(crate) needed: [bool; Channel::COUNT],
    pub(crate) looks_like: Option<LooksLike>,
}

impl Node {
    pub(crate) fn new(address: Address, listed: bool, config: &ClusterConfig) -> Self {
        Self {
            address,
            rack: None,
            listed,
            backoff: Backoff::new(config.reconnect_backoff, config.reconnect_backoff_max),
            retry_at: 0,
            setup: Backoff::new(config.socket_connection_setup_timeout, config.socket_connection_setup_timeout_max),
            muted_until: 0,
            conns: [None; Channel::COUNT],
            needed: [false; Channel::COUNT],
            looks_like: None,
        }
    }

    pub(crate) fn conn(&self, channel: Channel) -> Option<ConnId> {
        self.conns.get(channel.index()).copied().flatten()
    }

    pub(crate) fn set_conn(&mut self, channel: Channel, conn: Option<ConnId>) {
        if let Some(place) = self.conns.get_mut(channel.index()) {
            *place = conn;
        }
    }

    pub(crate) fn set_needed(&mut self, channel: Channel, needed: bool) {
        if let Some(place) = self.needed.get_mut(channel.index()) {
            *place = needed;
        }
    }

    pub(crate) fn is_needed(&self, channel: Channel) -> bool {
        self.needed.get(channel.index()).copied().unwrap_or_default()
    }

    /// The address has changed: what went wrong at the old one says nothing about the new one.
    pub(crate) fn move_to(&mut self, address: Address) {
        if self.address != address {
            self.address = address;
            self.backoff.reset();
            self.setup.reset();
            self.retry_at = 0;
            self.looks_like = None;
        }
    }

    pub(crate) fn has_conns(&self) -> bool {
        self.conns.iter().any(Option::is_some)
    }
}

/// Whether the id stands for a bootstrap address.
pub(crate) fn is_bootstrap(node: NodeId) -> bool {
    node < 0
}
