//! State machine of one cluster: brokers, metadata, and the connections to the brokers.
//!
//! ```text
//!  owners --Send--> routing ---------------> Connection (one per broker and channel) --Write--> driver
//!  owners <-Reply-- process_conn_actions <-- Connection <------------ Frame, Closed ---------- driver
//!      |
//!      metadata (own requests) -> topics, leaders, epochs, brokers
//! ```
//!
//! - `routing`: selects the broker and connection of a request, and opens connections; every wait has a deadline.
//! - `connections`: opened and lost connections; backoff, outages, mutes.
//! - `metadata_response`: sends metadata requests and applies the responses.
//! - `metadata_refresh`, `metadata`, `broker_state`: the state behind these.
//!
//! Not obvious:
//! - Connection ids are never reused. A closed connection leaves the map at once, so later events of its socket are
//!   ignored without further checks.
//! - A response resets a broker's backoff; a mere connect does not. The client therefore does not hammer a proxy that
//!   accepts connections and closes them.
//! - `timer` is a lower bound of all deadlines. The path of a Fetch only lowers the bound, and a tick makes it exact
//!   again. This costs one superfluous wake-up per request timeout, instead of a scan of all brokers per response.

mod broker_state;
mod config;
mod connections;
mod event;
mod metadata;
mod metadata_refresh;
mod metadata_response;
mod routing;
pub mod view;

#[cfg(test)]
#[allow(dead_code, reason = "for the tests of every machine; not all of them need all of it")]
pub(crate) mod test_cluster;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use grete_wire::api::ApiKey;
use grete_wire::error_code::ErrorCode;

pub use config::ClusterConfig;
pub use event::{ClusterAction, ClusterActions, ClusterEvent, ClusterLogEvent, MetadataError, RebootstrapCause};
pub use metadata::{Broker, NO_EPOCH, NO_LEADER, NO_TOPIC_ID, PartitionMetadata, TopicMetadata};

use crate::connection::{ApiVersions, ConnAction, ConnConfig, Connection, FinalizedFeatures, throttle};
use crate::ids::{ConnId, NodeId, TopicPartition};
use crate::request::{AddressFault, AuthenticationFailure, Channel, OutboundRequest};
use crate::rng::Rng;
use crate::time::{Nanos, earliest};
use broker_state::{Address, BrokerState, is_bootstrap};
use metadata::Metadata;
use metadata_refresh::MetadataRefresh;

/// A connection with its node and channel.
#[derive(Debug)]
struct BrokerConnection {
    node: NodeId,
    channel: Channel,
    conn: Connection,
    /// Host name to which the connection was made.
    host: Arc<str>,
    ready: bool,
}

/// A request to any broker, queued while none is ready.
#[derive(Debug)]
struct WaitingRequest {
    outgoing: OutboundRequest,
    deadline: Nanos,
}

/// State machine of a cluster: the client's view of its metadata, and its connections.
#[derive(Debug)]
pub struct Cluster {
    config: ClusterConfig,
    conn_config: Arc<ConnConfig>,
    rng: Rng,
    nodes: BTreeMap<NodeId, BrokerState>,
    /// `broker.rack` by broker: those in the metadata, and those that are down but have replicas of tracked topics, so
    /// that a restart of a broker changes no assignment.
    racks: BTreeMap<NodeId, Arc<str>>,
    connections: BTreeMap<ConnId, BrokerConnection>,
    /// Number of connections that are ready.
    ready_connections: usize,
    next_conn: u32,
    metadata: Metadata,
    refresh: MetadataRefresh,
    waiting: VecDeque<WaitingRequest>,
    /// Time of the last attempt to connect to any broker.
    last_attempt: Nanos,
    /// The next metadata must come from a bootstrap address.
    rebootstrapping: bool,
    /// No broker is reachable, so bootstrap addresses are in use; logged once.
    fell_back: bool,
    /// Every address is down; logged once.
    outage: bool,
    /// Every bootstrap address belongs to a server that is not a broker; logged once.
    fatal: Option<AddressFault>,
    /// Last failure of a login; `None`: none since the last success.
    login_failure: Option<AuthenticationFailure>,
    /// Whether the warning of a login without encryption is due.
    warns_of_exposure: bool,
    /// Version of the token store at the last tick.
    seen_tokens: u64,
    /// Controller according to the last metadata response.
    controller: Option<NodeId>,
    /// Finalized features of the newest epoch; `None`: no connection has been ready yet.
    features: Option<FinalizedFeatures>,
    timer: Option<Nanos>,
    dirty: bool,
    scratch: Vec<ConnAction>,
}

impl Cluster {
    /// Creates a cluster without connections. Its first tick is due at once and starts to connect.
    pub fn new(config: ClusterConfig, mut rng: Rng) -> Self {
        let mut addresses = config.bootstrap.clone();
        for index in (1..addresses.len()).rev() {
            let other = usize::try_from(rng.below(index as u64 + 1)).unwrap_or(0);
            addresses.swap(index, other);
        }
        let nodes = (1..).zip(addresses).map(|(place, (host, port)): (NodeId, _)| {
            (-place, BrokerState::new(Address { host, port }, false, &config))
        });
        let conn_config = ConnConfig {
            client_id: Arc::clone(&config.client_id),
            max_in_flight: config.max_in_flight.max(1),
            max_idle: config.connections_max_idle,
            sasl: config.sasl.clone(),
        };
        Self {
            nodes: nodes.collect(),
            conn_config: Arc::new(conn_config),
            racks: BTreeMap::new(),
            connections: BTreeMap::new(),
            ready_connections: 0,
            features: None,
            next_conn: 0,
            metadata: Metadata::default(),
            refresh: MetadataRefresh::new(&config),
            waiting: VecDeque::new(),
            last_attempt: 0,
            rebootstrapping: false,
            fell_back: false,
            outage: false,
            fatal: None,
            login_failure: None,
            warns_of_exposure: config.sasl.as_ref().is_some_and(|sasl| sasl.is_exposed()),
            seen_tokens: 0,
            controller: None,
            timer: Some(0),
            dirty: true,
            scratch: Vec::new(),
            config,
            rng,
        }
    }

    /// Handles one event and appends the resulting actions to `out`, in order.
    pub fn step(&mut self, now: Nanos, event: ClusterEvent, out: &mut ClusterActions) {
        match event {
            ClusterEvent::Tick => self.tick(now, out),
            ClusterEvent::Connected(conn) => {
                if let Some(link) = self.connections.get_mut(&conn) {
                    link.conn.on_connected(now, &mut self.scratch);
                    self.process_conn_actions(now, conn, false, out);
                    self.dirty = true;
                }
            }
            ClusterEvent::Frame(conn, frame) => {
                if let Some(link) = self.connections.get_mut(&conn) {
                    link.conn.on_frame(now, frame, &mut self.scratch);
                    self.process_conn_actions(now, conn, false, out);
                    self.after_frame(now, conn, out);
                }
            }
            ClusterEvent::Closed(conn, reason) => {
                if let Some(link) = self.connections.get_mut(&conn) {
                    link.conn.on_closed(now, reason, &mut self.scratch);
                    self.process_conn_actions(now, conn, true, out);
                }
            }
            ClusterEvent::Gss(conn, result) => {
                if let Some(link) = self.connections.get_mut(&conn) {
                    link.conn.on_gss(now, result, &mut self.scratch);
                    self.process_conn_actions(now, conn, false, out);
                    self.dirty = true;
                }
            }
            ClusterEvent::Send(outgoing) => self.send(now, outgoing, out),
            ClusterEvent::SetTopics(topics) => {
                if self.metadata.set_tracked_topics(topics) {
                    self.refresh.request_new_topics(now);
                    self.dirty = true;
                }
            }
            ClusterEvent::RefreshMetadata => {
                self.refresh.request_refresh(now, metadata_refresh::MetadataScope::All);
                self.dirty = true;
            }
            ClusterEvent::NeedNode(node, channel) => self.ensure_connected(now, node, channel, out),
            ClusterEvent::LeaderHint { tp, leader, epoch, endpoint } => {
                // An old hint proves nothing about the broker's address, either.
                if self.metadata.partition(&tp).is_some_and(|known| epoch > known.leader_epoch) {
                    if let Some((host, port)) = endpoint {
                        self.learn_node(leader, &host, port);
                    }
                    if self.update_leader(&tp, leader, epoch) {
                        out.push(ClusterAction::MetadataChanged);
                    }
                }
            }
            ClusterEvent::Throttled { node, millis } => {
                let throttle_time = throttle::from_millis(millis);
                if throttle_time > 0 {
                    self.on_throttle(now, node, throttle_time, out);
                }
            }
        }
        if self.dirty {
            self.dirty = false;
            self.advance(now, out);
            // The effects of `advance` (connects, requests) are part of the deadlines already.
            self.dirty = false;
            self.timer = self.exact_deadline(now);
        }
    }

    /// Returns the time of the next tick; it may be slightly early, never late.
    pub fn deadline(&self) -> Option<Nanos> {
        self.timer
    }

    /// Returns a tracked topic.
    pub fn topic(&self, name: &str) -> Option<&TopicMetadata> {
        self.metadata.topic(name)
    }

    /// Returns the partitions of a tracked topic, by number: leaders, epochs and errors. `None`: no response has
    /// contained the topic yet. A topic error is returned if no partitions are known, or if the error is not retriable.
    #[must_use]
    pub fn partitions(&self, topic: &str) -> Option<Result<&[PartitionMetadata], ErrorCode>> {
        let topic = self.topic(topic)?;
        let bad = topic.error != ErrorCode::NONE && (topic.partitions.is_empty() || !topic.error.is_retriable());
        Some(if bad { Err(topic.error) } else { Ok(&topic.partitions) })
    }

    /// Returns a tracked topic by its id.
    pub fn topic_by_id(&self, id: u128) -> Option<&TopicMetadata> {
        self.metadata.topic_by_id(id)
    }

    /// Returns all tracked topics that a response has contained.
    pub fn topics(&self) -> impl Iterator<Item = &TopicMetadata> {
        self.metadata.topics()
    }

    /// Returns the names of the tracked topics.
    pub fn tracked_topics(&self) -> &[Arc<str>] {
        self.metadata.tracked_topics()
    }

    /// Returns a partition's leader and leader epoch; `None`: no leader is known.
    pub fn leader(&self, tp: &TopicPartition) -> Option<(NodeId, i32)> {
        let partition = self.metadata.partition(tp)?;
        (partition.leader >= 0).then_some((partition.leader, partition.leader_epoch))
    }

    /// Returns the API version for requests to this broker. `None`: the channel is not ready, or no version is
    /// supported by both sides.
    pub fn api_version(&self, node: NodeId, channel: Channel, api: ApiKey) -> Option<i16> {
        self.ready_conn(node, channel)?.versions()?.negotiate(api).ok()
    }

    /// Returns the API versions of a broker; `None`: the channel is not ready.
    pub fn versions(&self, node: NodeId, channel: Channel) -> Option<&Arc<ApiVersions>> {
        self.ready_conn(node, channel)?.versions()
    }

    /// Returns whether requests on this channel are sent at once.
    pub fn is_ready(&self, node: NodeId, channel: Channel) -> bool {
        self.ready_conn(node, channel).is_some()
    }

    /// Returns the ids of the brokers in the metadata.
    pub fn node_ids(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.iter().filter(|(_, node)| node.listed).map(|(&id, _)| id)
    }

    /// Returns whether the metadata contains this broker.
    pub fn has_broker(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|node| node.listed)
    }

    /// Returns the brokers in the metadata, with their addresses.
    pub fn brokers(&self) -> impl Iterator<Item = Broker<'_>> {
        self.nodes.iter().filter(|(_, node)| node.listed).map(|(&id, node)| Broker {
            id,
            host: &node.address.host,
            port: node.address.port,
            rack: self.racks.get(&id).map(AsRef::as_ref),
        })
    }

    /// Returns the `broker.rack` of a broker, in the last metadata that contained the broker; `None`: not set.
    pub fn rack(&self, node: NodeId) -> Option<&Arc<str>> {
        self.racks.get(&node)
    }

    /// Returns the broker that serves requests for the controller; `None`: the metadata contains none.
    pub fn controller(&self) -> Option<NodeId> {
        self.controller.filter(|id| self.nodes.get(id).is_some_and(|node| node.listed))
    }

    /// Returns the address of a broker as host:port.
    pub fn address(&self, node: NodeId) -> Option<String> {
        self.nodes.get(&node).map(|node| node.address.to_string())
    }

    /// Returns the metadata version, which is incremented with every change of brokers, leaders, epochs, ids or topic
    /// errors.
    pub fn metadata_version(&self) -> u64 {
        self.metadata.version()
    }

    /// Returns whether the broker is throttled beyond `now` (KIP-219). `Unmuted` reports the end.
    pub fn is_muted(&self, node: NodeId, now: Nanos) -> bool {
        self.nodes.get(&node).is_some_and(|node| now < node.muted_until)
    }

    /// Applies a leader that a response reported (KIP-951), if the node is known and the epoch is newer. Returns
    /// whether the leader was applied; no `MetadataChanged` follows.
    pub fn update_leader(&mut self, tp: &TopicPartition, node: NodeId, epoch: i32) -> bool {
        self.nodes.contains_key(&node) && self.metadata.update_leader(tp, node, epoch)
    }

    /// Lets no metadata request create topics from now on.
    pub fn forbid_topic_creation(&mut self) {
        self.config.allow_auto_create_topics = false;
    }

    /// Applies a broker address that a response reported (a coordinator, a new leader). Returns whether the address is
    /// usable.
    pub fn learn_node(&mut self, node: NodeId, host: &str, port: i32) -> bool {
        let Some(address) = Address::from_wire(host, port).filter(|_| !is_bootstrap(node)) else { return false };
        self.list_node(node, address);
        true
    }

    /// Returns the last failure of a login; `None`: none since the last success.
    pub fn login_failure(&self) -> Option<&AuthenticationFailure> {
        self.login_failure.as_ref()
    }

    /// Returns the level of `transaction.version` that the cluster has finalized (KIP-890); 0: none, or not known yet.
    pub fn transaction_version(&self) -> i16 {
        self.features.map_or(0, |features| features.transaction_version)
    }

    /// Returns the level of `group.version` that the cluster has finalized (KIP-848), 0: none; `None`: not known yet.
    pub fn finalized_group_version(&self) -> Option<i16> {
        self.features.map(|features| features.group_version)
    }

    /// Returns the number of ready connections.
    pub fn ready_connections(&self) -> usize {
        self.ready_connections
    }

    fn ready_conn(&self, node: NodeId, channel: Channel) -> Option<&Connection> {
        let conn = self.nodes.get(&node)?.conn(channel)?;
        self.connections.get(&conn).map(|link| &link.conn).filter(|conn| conn.is_ready())
    }

    /// Adds a broker or updates its address. Returns whether anything changed.
    fn list_node(&mut self, id: NodeId, address: Address) -> bool {
        match self.nodes.get_mut(&id) {
            Some(node) => {
                let new = !node.listed || node.address != address;
                node.listed = true;
                node.move_to(address);
                new
            }
            None => {
                self.nodes.insert(id, BrokerState::new(address, true, &self.config));
                true
            }
        }
    }

    fn tick(&mut self, now: Nanos, out: &mut ClusterActions) {
        let tokens = self.config.sasl.as_ref().and_then(|sasl| sasl.token_version()).unwrap_or_default();
        let has_tokens = std::mem::replace(&mut self.seen_tokens, tokens) != tokens;
        if !has_tokens && self.timer.is_none_or(|timer| now < timer) {
            return;
        }
        if std::mem::take(&mut self.warns_of_exposure)
            && let Some(sasl) = &self.config.sasl
        {
            let mechanism = sasl.mechanism();
            out.push(ClusterAction::LogEvent(ClusterLogEvent::ExposedLogin { mechanism }));
        }
        // An earlier iteration may have closed one of these connections; `get_mut` then returns `None`.
        let is_due = |conn: &Connection| is_due(conn.deadline(), now) || (has_tokens && conn.awaits_token());
        let due: Vec<ConnId> = self.connections.iter().filter(|(_, l)| is_due(&l.conn)).map(|(&id, _)| id).collect();
        for conn in due {
            if let Some(link) = self.connections.get_mut(&conn) {
                link.conn.on_tick(now, &mut self.scratch);
                self.process_conn_actions(now, conn, false, out);
            }
        }
        self.expire_waiting(now, out);
        self.unmute(now, out);
        self.dirty = true;
    }

    /// Lowers the timer to a connection's changed deadline, on the hot path.
    fn lower_timer(&mut self, conn: ConnId) {
        let deadline = self.connections.get(&conn).and_then(|link| link.conn.deadline());
        self.timer = earliest(self.timer, deadline);
    }

    fn exact_deadline(&self, now: Nanos) -> Option<Nanos> {
        let links = self.connections.values().filter_map(|link| link.conn.deadline());
        let waiting = self.waiting.iter().map(|waiting| waiting.deadline);
        let nodes = self.nodes.values().flat_map(|node| {
            let mute = (node.muted_until > 0).then_some(node.muted_until);
            let needed = node.needed.contains(&true).then_some(node.retry_at);
            mute.into_iter().chain(needed)
        });
        let own = [self.refresh.deadline(now), self.attempt_deadline(now), self.rebootstrap_deadline()];
        links.chain(waiting).chain(nodes).chain(own.into_iter().flatten()).min()
    }
}

fn is_due(deadline: Option<Nanos>, now: Nanos) -> bool {
    deadline.is_some_and(|deadline| deadline <= now)
}
