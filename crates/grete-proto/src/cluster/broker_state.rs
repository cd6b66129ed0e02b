//! State of one broker: address, backoff and connections.

use std::fmt;
use std::sync::Arc;

use crate::backoff::Backoff;
use crate::ids::{ConnId, NodeId};
use crate::request::{AddressFault, Channel};
use crate::time::{Nanos, SECOND};

use super::config::ClusterConfig;

/// Host and port of a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: Arc<str>,
    pub(crate) port: u16,
}

impl Address {
    /// Parses an address; `None`: not usable, because brokers can be configured to advertise anything.
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

/// A broker, or a bootstrap address (negative id).
#[derive(Debug)]
pub(crate) struct BrokerState {
    pub(crate) address: Address,
    /// The metadata, a coordinator lookup or a fetch response contains the broker, and later metadata has not removed
    /// it.
    pub(crate) listed: bool,
    /// Grows with each consecutive failure; reset by a response other than ApiVersions, not by a mere connect.
    pub(crate) backoff: Backoff,
    /// Earliest time of the next connection attempt.
    pub(crate) retry_at: Nanos,
    /// Setup timeout, which grows with each consecutive attempt that does not become ready.
    pub(crate) setup: Backoff,
    /// End of the throttle time (KIP-219), which applies to the broker and not to one connection.
    pub(crate) muted_until: Nanos,
    pub(crate) conns: [Option<ConnId>; Channel::COUNT],
    /// `NeedNode` was received while no attempt was possible, by channel.
    pub(crate) needed: [bool; Channel::COUNT],
    pub(crate) fault: Option<AddressFault>,
    /// The broker closed a connection at the first request after ApiVersions, and has answered none since.
    pub(crate) closed_first_request: bool,
    /// Grows with each refused login. Brokers lock accounts, so a refused login is repeated less often than a connect.
    pub(crate) login_backoff: Backoff,
}

/// Maximum time between two refused logins.
const MAX_LOGIN_BACKOFF: Nanos = 10 * SECOND;

impl BrokerState {
    pub(crate) fn new(address: Address, listed: bool, config: &ClusterConfig) -> Self {
        Self {
            address,
            listed,
            backoff: Backoff::new(config.reconnect_backoff, config.reconnect_backoff_max),
            retry_at: 0,
            setup: Backoff::new(config.socket_connection_setup_timeout, config.socket_connection_setup_timeout_max),
            muted_until: 0,
            conns: [None; Channel::COUNT],
            needed: [false; Channel::COUNT],
            fault: None,
            closed_first_request: false,
            login_backoff: Backoff::new(
                config.reconnect_backoff_max,
                config.reconnect_backoff_max.max(MAX_LOGIN_BACKOFF),
            ),
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

    /// Changes the address and resets the failures, which prove nothing about a new address.
    pub(crate) fn move_to(&mut self, address: Address) {
        if self.address != address {
            self.address = address;
            self.backoff.reset();
            self.setup.reset();
            self.retry_at = 0;
            self.fault = None;
            self.closed_first_request = false;
            self.login_backoff.reset();
        }
    }

    pub(crate) fn has_conns(&self) -> bool {
        self.conns.iter().any(Option::is_some)
    }
}

/// Returns whether the id belongs to a bootstrap address.
pub(crate) fn is_bootstrap(node: NodeId) -> bool {
    node < 0
}
