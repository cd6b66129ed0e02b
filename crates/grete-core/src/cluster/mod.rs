//! The brokers of one cluster: where they are, who leads what, and the connections to them.
//!
//! ```text
//!  machines --Send--> routing --> Connection (one per broker and channel) --Write--> driver
//!  machines <-Reply-- drain   <-- Connection <------------- Frame, Closed ---------- driver
//!                        |
//!                     metadata (own requests) -> topics, leaders, epochs, brokers
//! ```
//!
//! - `routing`: which broker, which connection, when to connect; nothing waits without a deadline.
//! - `links`: connections come and go; backoff, outages, mutes.
//! - `answers`: metadata is asked for and taken in.
//! - `refresh`, `metadata`, `node`: the state behind these.
//!
//! Non-obvious:
//! - Connection ids are never used twice. A connection that is closed leaves the map at once, so whatever its socket still
//!   says is ignored without further ado.
//! - A broker's backoff is reset by an answer, not by a connect: a proxy that accepts and hangs up is not hammered.
//! - `timer` is a lower bound of all deadlines. The path of a Fetch only lowers it, a tick makes it exact again: one
//!   superfluous wake-up per request timeout instead of a scan of all brokers per response.

mod answers;
mod broker;
mod config;
mod event;
mod links;
mod metadata;
mod node;
mod refresh;
mod routing;

#[cfg(test)]
#[allow(dead_code, reason = "for the tests of every machine; not all of them need all of it")]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use grete_wire::api_key::ApiKey;
use grete_wire::error_code::ErrorCode;

pub use broker::Broker;
pub use config::ClusterConfig;
pub use event::{ClusterAction, ClusterActions, ClusterEvent, ClusterNotice, MetadataError, RebootstrapCause};
pub use metadata::{NO_EPOCH, NO_ID, NO_LEADER, PartitionMeta, TopicMeta};

use crate::conn::{ConnAction, ConnConfig, Connection, Versions, throttle};
use crate::ids::{ConnId, NodeId, TopicPartition};
use crate::request::{Channel, NotKafka, Outgoing};
use crate::rng::Rng;
use crate::time::{Nanos, earlier};
use metadata::Metadata;
use node::{Address, Node, is_bootstrap};
use refresh::Refresh;

/// A connection and what it is for.
#[derive(Debug)]
struct Link {
    node: NodeId,
    channel: Channel,
    conn: Connection,
    ready: bool,
}

/// A request to any broker while none is ready.
#[derive(Debug)]
struct Waiting {
    outgoing: Outgoing,
    deadline: Nanos,
}

/// The client's view of a cluster, and its connections.
#[derive(Debug)]
pub struct Cluster {
    config: ClusterConfig,
    conn_config: Arc<ConnConfig>,
    rng: Rng,
    nodes: BTreeMap<NodeId, Node>,
    links: BTreeMap<ConnId, Link>,
    /// Links that have become ready.
    connections: usize,
    next_conn: u32,
    metadata: Metadata,
    refresh: Refresh,
    waiting: VecDeque<Waiting>,
    /// When a connection to any broker was last attempted.
    last_attempt: Nanos,
    /// Metadata is to come from the bootstrap addresses.
    rebootstrapping: bool,
    /// Bootstrap addresses are in use because no broker is reachable; said once.
    fell_back: bool,
    /// Every address is down; said once.
    outage: bool,
    /// Every bootstrap address is something else; said once.
    fatal: Option<NotKafka>,
    /// As the last answer had it.
    controller: Option<NodeId>,
    /// The newest that any broker said about finalized features.
    features: Option<Arc<Versions>>,
    timer: Option<Nanos>,
    dirty: bool,
    scratch: Vec<ConnAction>,
}

impl Cluster {
    /// A cluster that has not been reached yet. Its first tick is due at once and connects.
    #[must_use]
    pub fn new(config: ClusterConfig, mut rng: Rng) -> Self {
        let mut addresses = config.bootstrap.clone();
        for index in (1..addresses.len()).rev() {
            let other = usize::try_from(rng.below(index as u64 + 1)).unwrap_or(0);
            addresses.swap(index, other);
        }
        let nodes = (1..)
            .zip(addresses)
            .map(|(place, (host, port)): (NodeId, _)| (-place, Node::new(Address { host, port }, false, &config)));
        let conn_config = ConnConfig {
            client_id: Arc::clone(&config.client_id),
            max_in_flight: config.max_in_flight.max(1),
            max_idle: config.connections_max_idle,
        };
        Self {
            nodes: nodes.collect(),
            conn_config: Arc::new(conn_config),
            links: BTreeMap::new(),
            connections: 0,
            next_conn: 0,
            metadata: Metadata::default(),
            refresh: Refresh::new(&config),
            waiting: VecDeque::new(),
            last_attempt: 0,
            rebootstrapping: false,
            fell_back: false,
            outage: false,
            fatal: None,
            controller: None,
            features: None,
            timer: Some(0),
            dirty: true,
            scratch: Vec::new(),
            config,
            rng,
        }
    }

    /// Takes in what has happened and says what to do, in order.
    pub fn step(&mut self, now: Nanos, event: ClusterEvent, out: &mut ClusterActions) {
        match event {
            ClusterEvent::Tick => self.tick(now, out),
            ClusterEvent::Connected(conn) => {
                if let Some(link) = self.links.get_mut(&conn) {
                    link.conn.on_connected(now, &mut self.scratch);
                    self.drain(now, conn, false, out);
                    self.dirty = true;
                }
            }
            ClusterEvent::Frame(conn, frame) => {
                if let Some(link) = self.links.get_mut(&conn) {
                    link.conn.on_frame(now, frame, &mut self.scratch);
                    self.drain(now, conn, false, out);
                    self.after_frame(now, conn, out);
                }
            }
            ClusterEvent::Closed(conn, reason) => {
                if let Some(link) = self.links.get_mut(&conn) {
                    link.conn.on_closed(now, reason, &mut self.scratch);
                    self.drain(now, conn, true, out);
                }
            }
            ClusterEvent::Send(outgoing) => self.send(now, outgoing, out),
            ClusterEvent::SetTopics(topics) => {
                if self.metadata.set_interest(topics) {
                    self.refresh.want_new_topics(now);
                    self.dirty = true;
                }
            }
            ClusterEvent::RefreshMetadata => {
                self.refresh.want(now, refresh::Scope::All);
                self.dirty = true;
            }
            ClusterEvent::NeedNode(node, channel) => self.need(now, node, channel, out),
            ClusterEvent::LeaderHint { tp, leader, epoch, endpoint } => {
                // An old hint is no news of where the broker is, either.
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
                let span = throttle::of_millis(millis);
                if span > 0 {
                    self.throttled(now, node, span, out);
                }
            }
        }
        if self.dirty {
            self.dirty = false;
            self.drive(now, out);
            // What `drive` did (connects, requests) is in the deadlines already.
            self.dirty = false;
            self.timer = self.exact_deadline(now);
        }
    }

    /// When the next tick is due. It can come out a little early, never late.
    #[must_use]
    pub fn deadline(&self) -> Option<Nanos> {
        self.timer
    }

    /// A topic of interest.
    #[must_use]
    pub fn topic(&self, name: &str) -> Option<&TopicMeta> {
        self.metadata.topic(name)
    }

    /// The partitions of a topic of interest, by number: their leaders, epochs and errors. `None` while no answer has spoken
    /// of the topic; what is wrong with it as a whole is told while no partitions are known, or if waiting does not cure it.
    #[must_use]
    pub fn partitions(&self, topic: &str) -> Option<Result<&[PartitionMeta], ErrorCode>> {
        let topic = self.topic(topic)?;
        let bad = topic.error != ErrorCode::NONE && (topic.partitions.is_empty() || !topic.error.is_retriable());
        Some(if bad { Err(topic.error) } else { Ok(&topic.partitions) })
    }

    /// A topic of interest, by its id.
    #[must_use]
    pub fn topic_by_id(&self, id: u128) -> Option<&TopicMeta> {
        self.metadata.topic_by_id(id)
    }

    /// All topics of interest that an answer has spoken of.
    pub fn topics(&self) -> impl Iterator<Item = &TopicMeta> {
        self.metadata.topics()
    }

    /// The topics of interest, as set.
    #[must_use]
    pub fn topics_of_interest(&self) -> &[Arc<str>] {
        self.metadata.interest()
    }

    /// A partition's leader and its epoch; `None` while there is none, as far as is known.
    #[must_use]
    pub fn leader(&self, tp: &TopicPartition) -> Option<(NodeId, i32)> {
        let partition = self.metadata.partition(tp)?;
        (partition.leader >= 0).then_some((partition.leader, partition.leader_epoch))
    }

    /// The version in which to ask this broker; `None` while the channel is not ready, or if it has none in common.
    #[must_use]
    pub fn api_version(&self, node: NodeId, channel: Channel, api: ApiKey) -> Option<i16> {
        self.ready_conn(node, channel)?.versions()?.pick(api).ok()
    }

    /// What a broker speaks; `None` while the channel is not ready.
    #[must_use]
    pub fn versions(&self, node: NodeId, channel: Channel) -> Option<&Arc<Versions>> {
        self.ready_conn(node, channel)?.versions()
    }

    /// The level of a finalized feature, `metadata.version` say, as the best-informed broker told it.
    #[must_use]
    pub fn finalized_feature(&self, feature: &str) -> Option<i16> {
        self.features.as_ref()?.finalized(feature)
    }

    /// Whether requests on this channel leave at once.
    #[must_use]
    pub fn is_ready(&self, node: NodeId, channel: Channel) -> bool {
        self.ready_conn(node, channel).is_some()
    }

    /// The brokers that metadata names.
    pub fn node_ids(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.iter().filter(|(_, node)| node.listed).map(|(&id, _)| id)
    }

    /// The brokers that metadata names, and where they are.
    pub fn brokers(&self) -> impl Iterator<Item = Broker<'_>> {
        self.nodes.iter().filter(|(_, node)| node.listed).map(|(&id, node)| Broker {
            id,
            host: &node.address.host,
            port: node.address.port,
            rack: node.rack.as_deref(),
        })
    }

    /// The broker that answers for the controller, if metadata names one.
    #[must_use]
    pub fn controller(&self) -> Option<NodeId> {
        self.controller.filter(|id| self.nodes.get(id).is_some_and(|node| node.listed))
    }

    /// host:port of a broker.
    #[must_use]
    pub fn address(&self, node: NodeId) -> Option<String> {
        self.nodes.get(&node).map(|node| node.address.to_string())
    }

    /// Counts up with every change of brokers, leaders, epochs, ids or topic errors.
    #[must_use]
    pub fn metadata_version(&self) -> u64 {
        self.metadata.version()
    }

    /// Whether the broker asked to hold back until later than `now` (KIP-219). `Unmuted` says when that is over.
    #[must_use]
    pub fn is_muted(&self, node: NodeId, now: Nanos) -> bool {
        self.nodes.get(&node).is_some_and(|node| now < node.muted_until)
    }

    /// A leader that a response named on the way (KIP-951); taken in if the node is known and the epoch newer. Returns
    /// whether it was; no `MetadataChanged` follows.
    pub fn update_leader(&mut self, tp: &TopicPartition, node: NodeId, epoch: i32) -> bool {
        self.nodes.contains_key(&node) && self.metadata.update_leader(tp, node, epoch)
    }

    /// A broker that a response named on the way (a coordinator, a new leader). Returns whether the address can be used.
    pub fn learn_node(&mut self, node: NodeId, host: &str, port: i32) -> bool {
        let Some(address) = Address::from_wire(host, port).filter(|_| !is_bootstrap(node)) else { return false };
        self.list_node(node, address);
        true
    }

    /// How many connections are ready.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections
    }

    fn ready_conn(&self, node: NodeId, channel: Channel) -> Option<&Connection> {
        let conn = self.nodes.get(&node)?.conn(channel)?;
        self.links.get(&conn).map(|link| &link.conn).filter(|conn| conn.is_ready())
    }

    /// Whether anything was new.
    fn list_node(&mut self, id: NodeId, address: Address) -> bool {
        match self.nodes.get_mut(&id) {
            Some(node) => {
                let new = !node.listed || node.address != address;
                node.listed = true;
                node.move_to(address);
                new
            }
            None => {
                self.nodes.insert(id, Node::new(address, true, &self.config));
                true
            }
        }
    }

    fn tick(&mut self, now: Nanos, out: &mut ClusterActions) {
        if self.timer.is_none_or(|timer| now < timer) {
            return;
        }
        // A connection that an earlier one of these closes is gone when its turn comes; `get_mut` sees to that.
        let due: Vec<ConnId> =
            self.links.iter().filter(|(_, l)| is_due(l.conn.deadline(), now)).map(|(&id, _)| id).collect();
        for conn in due {
            if let Some(link) = self.links.get_mut(&conn) {
                link.conn.on_tick(now, &mut self.scratch);
                self.drain(now, conn, false, out);
            }
        }
        self.expire_waiting(now, out);
        self.unmute(now, out);
        self.dirty = true;
    }

    /// A connection's deadline has changed on the hot path.
    fn lower_timer(&mut self, conn: ConnId) {
        let deadline = self.links.get(&conn).and_then(|link| link.conn.deadline());
        self.timer = earlier(self.timer, deadline);
    }

    fn exact_deadline(&self, now: Nanos) -> Option<Nanos> {
        let links = self.links.values().filter_map(|link| link.conn.deadline());
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
