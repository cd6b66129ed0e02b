//! A cluster of scripted brokers without sockets, for the tests of all state machines.
//!
//! [`FakeCluster`] owns the [`Cluster`], a clock, and the brokers' responses. [`FakeCluster::settle`] plays driver and
//! brokers until there is no more work: it connects, negotiates and serves metadata. All other requests wait in
//! `FakeCluster::requests`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use grete_wire::error_code::ErrorCode;
use grete_wire::frame::Frame;
use grete_wire::messages::{
    ApiVersion, ApiVersionsResponse, MetadataRequest, MetadataResponse, MetadataResponseBroker,
    MetadataResponsePartition, MetadataResponseTopic, SaslHandshakeResponse,
};
use grete_wire::{ApiKey, Reader, WireError};

use super::*;
use crate::connection::CloseReason;
use crate::request::{Reply, Request, RequestOwner, Target, Token};
use crate::time::SECOND;
use crate::transport::TransportAction;

/// A request as read by a broker.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReceivedRequest {
    pub(crate) conn: ConnId,
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    pub(crate) correlation: i32,
    pub(crate) body: Vec<u8>,
}

impl ReceivedRequest {
    /// Parses the bytes of a `Write`: exactly one request.
    pub(crate) fn parse(conn: ConnId, bytes: &[u8]) -> Self {
        let mut r = Reader::new(bytes);
        assert_eq!(r.i32().unwrap() as usize, bytes.len() - 4);
        let api = ApiKey::try_from(r.i16().unwrap()).unwrap();
        let version = r.i16().unwrap();
        let correlation = r.i32().unwrap();
        let client_id = r.i16().unwrap();
        r.take(client_id as usize).unwrap();
        if api.request_header_version(version) == 2 {
            assert_eq!(r.uvarint().unwrap(), 0);
        }
        Self { conn, api, version, correlation, body: bytes[r.position()..].to_vec() }
    }

    /// Encodes the response as the frame reader returns it.
    pub(crate) fn encode_response(&self, body: impl FnOnce(i16, &mut Vec<u8>) -> Result<(), WireError>) -> Frame {
        frame(self.api, self.version, self.correlation, body)
    }
}

/// Builds a response frame.
pub(crate) fn frame(
    api: ApiKey,
    version: i16,
    correlation: i32,
    body: impl FnOnce(i16, &mut Vec<u8>) -> Result<(), WireError>,
) -> Frame {
    let mut bytes = correlation.to_be_bytes().to_vec();
    if api.response_header_version(version) == 1 {
        bytes.push(0);
    }
    body(version, &mut bytes).unwrap();
    Frame::from(bytes)
}

/// Returns an ApiVersions response: all versions that the client supports, limited by `max`.
pub(crate) fn api_versions(max: &BTreeMap<ApiKey, i16>) -> ApiVersionsResponse<'static> {
    let range = |&api: &ApiKey| ApiVersion {
        api_key: api.key(),
        min_version: *api.valid().start(),
        max_version: max.get(&api).copied().unwrap_or(*api.valid().end()),
    };
    ApiVersionsResponse { api_keys: ApiKey::ALL.iter().map(range).collect(), ..Default::default() }
}

/// Returns the SaslHandshake response of a listener that expects no login.
pub(crate) fn no_login() -> SaslHandshakeResponse<'static> {
    SaslHandshakeResponse { error_code: ErrorCode::ILLEGAL_SASL_STATE.0, mechanisms: vec![] }
}

/// Returns the host of a simulated broker: `b1`, `b2`..., port 9092.
pub(crate) fn host(node: NodeId) -> String {
    format!("b{node}")
}

/// Returns the broker's entry in a metadata response.
pub(crate) fn listed(&node_id: &NodeId) -> MetadataResponseBroker<'static> {
    MetadataResponseBroker { node_id, host: host(node_id).into(), port: 9092, ..Default::default() }
}

/// A topic of the scripted metadata.
#[derive(Debug, Clone, Default)]
pub(crate) struct FakeTopic {
    pub(crate) id: u128,
    pub(crate) error: ErrorCode,
    /// Leader, epoch, error of each partition.
    pub(crate) partitions: Vec<(NodeId, i32, ErrorCode)>,
}

/// Name, id, and leader and epoch of each partition.
pub(crate) type ReadyTopic<'a> = (&'a str, u128, &'a [(NodeId, i32)]);

/// Simulated brokers, and the driver between them and the cluster.
#[derive(Debug)]
pub(crate) struct FakeCluster {
    pub(crate) cluster: Cluster,
    pub(crate) now: Nanos,
    /// Brokers in the metadata: id -> host, port.
    pub(crate) brokers: BTreeMap<NodeId, (String, u16)>,
    /// `broker.rack` of brokers in the metadata.
    pub(crate) racks: BTreeMap<NodeId, &'static str>,
    /// Controller in the metadata.
    pub(crate) controller: NodeId,
    pub(crate) topics: BTreeMap<String, FakeTopic>,
    /// Highest version per API that brokers support, if lower than the client's.
    pub(crate) max_versions: BTreeMap<ApiKey, i16>,
    /// Addresses (host, port) that refuse connections.
    pub(crate) down: BTreeSet<(String, u16)>,
    /// Hosts that accept connections and answer nothing but ApiVersions.
    pub(crate) hung: BTreeSet<&'static str>,
    /// Error code of metadata responses.
    pub(crate) metadata_error: ErrorCode,
    /// Brokers answer a SaslHandshake by themselves, as listeners that expect no login.
    pub(crate) answers_probes: bool,
    pub(crate) connects: VecDeque<(ConnId, (Arc<str>, u16))>,
    /// Address of each open connection.
    pub(crate) open: BTreeMap<ConnId, (Arc<str>, u16)>,
    pub(crate) requests: VecDeque<ReceivedRequest>,
    pub(crate) replies: Vec<Reply>,
    pub(crate) log_events: Vec<ClusterLogEvent>,
    /// All actions except writes and replies, in order.
    pub(crate) actions: Vec<ClusterAction>,
    /// Metadata requests that got a response.
    pub(crate) metadata_requests: Vec<MetadataRequest<'static>>,
}

impl FakeCluster {
    /// Creates a cluster that knows only these bootstrap addresses.
    pub(crate) fn new(bootstrap: &[(&str, u16)]) -> Self {
        let bootstrap = bootstrap.iter().map(|&(host, port)| (host.into(), port)).collect();
        Self::with_config(ClusterConfig { bootstrap, ..Default::default() }, 1)
    }

    pub(crate) fn with_config(config: ClusterConfig, seed: u64) -> Self {
        Self {
            cluster: Cluster::new(config, Rng::new(seed)),
            now: SECOND,
            brokers: BTreeMap::new(),
            racks: BTreeMap::new(),
            controller: -1,
            topics: BTreeMap::new(),
            max_versions: BTreeMap::new(),
            down: BTreeSet::new(),
            hung: BTreeSet::new(),
            metadata_error: ErrorCode::NONE,
            answers_probes: false,
            connects: VecDeque::new(),
            open: BTreeMap::new(),
            requests: VecDeque::new(),
            replies: Vec::new(),
            log_events: Vec::new(),
            actions: Vec::new(),
            metadata_requests: Vec::new(),
        }
    }

    /// Creates brokers `b0:9092`, `b1:9092`... with known topic metadata and every channel ready.
    pub(crate) fn ready(brokers: &[NodeId], topics: &[ReadyTopic<'_>]) -> Self {
        let mut fake = Self::new(&[("boot", 9092)]);
        fake.brokers = brokers.iter().map(|&id| (id, (format!("b{id}"), 9092))).collect();
        for &(name, id, partitions) in topics {
            fake.set_topic(name, id, partitions);
        }
        fake.event(ClusterEvent::SetTopics(topics.iter().map(|topic| topic.0.into()).collect()));
        fake.settle();
        for &broker in brokers {
            for channel in Channel::ALL {
                fake.event(ClusterEvent::NeedNode(broker, channel));
            }
        }
        fake.settle();
        for &broker in brokers {
            for channel in Channel::ALL {
                assert!(fake.cluster.is_ready(broker, channel));
            }
        }
        fake.actions.clear();
        fake.log_events.clear();
        fake
    }

    /// Scripts a topic: leader and epoch of each partition.
    pub(crate) fn set_topic(&mut self, name: &str, id: u128, partitions: &[(NodeId, i32)]) {
        let partitions = partitions.iter().map(|&(leader, epoch)| (leader, epoch, ErrorCode::NONE)).collect();
        self.topics.insert(name.to_owned(), FakeTopic { id, error: ErrorCode::NONE, partitions });
    }

    /// Steps the cluster and sorts its actions.
    pub(crate) fn event(&mut self, event: ClusterEvent) {
        let mut actions = Vec::new();
        self.cluster.step(self.now, event, &mut actions);
        for action in actions {
            match action {
                ClusterAction::Transport(TransportAction::Connect { conn, host, port }) => {
                    self.connects.push_back((conn, (host, port)))
                }
                ClusterAction::Transport(TransportAction::Write { conn, bytes }) => {
                    assert!(self.open.contains_key(&conn), "a write to a connection that is not open");
                    self.requests.push_back(ReceivedRequest::parse(conn, &bytes.to_vec()));
                }
                ClusterAction::Transport(TransportAction::CloseConn(conn)) => {
                    self.open.remove(&conn);
                    self.connects.retain(|connect| connect.0 != conn);
                    self.actions.push(ClusterAction::Transport(TransportAction::CloseConn(conn)));
                }
                ClusterAction::Reply(reply) => self.replies.push(reply),
                ClusterAction::LogEvent(notice) => self.log_events.push(notice),
                action => self.actions.push(action),
            }
        }
    }

    /// Sends a request of `RequestOwner::Client` with a timeout of 10 s.
    pub(crate) fn send(&mut self, target: Target, channel: Channel, request: Request, id: u32) {
        let token = Token { owner: RequestOwner::Client, id };
        self.event(ClusterEvent::Send(OutboundRequest { target, channel, request, token, timeout: 10 * SECOND }));
    }

    /// Advances the clock, tick by tick, and plays the brokers.
    pub(crate) fn advance(&mut self, span: Nanos) {
        let end = self.now + span;
        self.settle();
        while let Some(deadline) = self.cluster.deadline().filter(|&deadline| deadline <= end) {
            assert!(deadline > self.now || self.now == 0, "a deadline that stays in the past");
            self.now = self.now.max(deadline);
            self.event(ClusterEvent::Tick);
            self.settle();
        }
        self.now = end;
    }

    /// Plays driver and brokers until there is no more work; see the module documentation.
    pub(crate) fn settle(&mut self) {
        self.event(ClusterEvent::Tick);
        for round in 0.. {
            assert!(round < 1000, "a loop without an end, and without time passing");
            if let Some((conn, address)) = self.connects.pop_front() {
                self.connect(conn, address);
            } else if let Some(index) = (0..self.requests.len()).find(|&index| self.is_auto_answered(index)) {
                let asked = self.requests.remove(index).unwrap();
                self.auto_respond(&asked);
            } else {
                break;
            }
        }
    }

    /// Completes one connection attempt.
    pub(crate) fn connect(&mut self, conn: ConnId, address: (Arc<str>, u16)) {
        if self.down.contains(&(address.0.to_string(), address.1)) {
            self.event(ClusterEvent::Closed(conn, CloseReason::Connect("refused".into())));
        } else {
            self.open.insert(conn, address);
            self.event(ClusterEvent::Connected(conn));
        }
    }

    /// Returns whether the request is served by script. A broker responds in order, so earlier requests of the
    /// connection come first.
    fn is_auto_answered(&self, index: usize) -> bool {
        let asked = &self.requests[index];
        let first = self.requests.iter().take(index).all(|earlier| earlier.conn != asked.conn);
        let is_probe = asked.api == ApiKey::SaslHandshake && self.answers_probes;
        let is_hung = self.open.get(&asked.conn).is_some_and(|(host, _)| self.hung.contains(host.as_ref()));
        first && (is_probe || asked.api == ApiKey::ApiVersions || asked.api == ApiKey::Metadata && !is_hung)
    }

    /// Sends the scripted response to ApiVersions, Metadata or a probe for logins; does nothing if the connection is closed.
    pub(crate) fn auto_respond(&mut self, asked: &ReceivedRequest) {
        if !self.open.contains_key(&asked.conn) {
            return;
        }
        let frame = if asked.api == ApiKey::ApiVersions {
            let answer = api_versions(&self.max_versions);
            asked.encode_response(|version, out| answer.encode(version, out))
        } else if asked.api == ApiKey::SaslHandshake {
            asked.encode_response(|version, out| no_login().encode(version, out))
        } else {
            let question = MetadataRequest::decode(asked.version, &mut Reader::new(&asked.body)).unwrap();
            let answer = self.metadata(&question);
            let frame = asked.encode_response(|version, out| answer.encode(version, out));
            self.metadata_requests.push(question.into_owned());
            frame
        };
        self.event(ClusterEvent::Frame(asked.conn, frame));
    }

    /// Responds to a request that waits in `requests`.
    pub(crate) fn respond(
        &mut self,
        asked: &ReceivedRequest,
        body: impl FnOnce(i16, &mut Vec<u8>) -> Result<(), WireError>,
    ) {
        self.event(ClusterEvent::Frame(asked.conn, asked.encode_response(body)));
    }

    /// Returns the next waiting request of that API.
    pub(crate) fn next_request(&mut self, api: ApiKey) -> Option<ReceivedRequest> {
        let index = self.requests.iter().position(|asked| asked.api == api)?;
        self.requests.remove(index)
    }

    /// Kills a broker: its connections end, and new ones are refused.
    pub(crate) fn kill(&mut self, host: &str, port: u16) {
        self.down.insert((host.to_owned(), port));
        let dead: Vec<ConnId> =
            self.open.iter().filter(|(_, a)| a.0.as_ref() == host && a.1 == port).map(|(&conn, _)| conn).collect();
        for conn in dead {
            self.hang_up(conn, CloseReason::Eof);
        }
    }

    /// Ends one connection.
    pub(crate) fn hang_up(&mut self, conn: ConnId, reason: CloseReason) {
        self.open.remove(&conn);
        self.requests.retain(|asked| asked.conn != conn);
        self.event(ClusterEvent::Closed(conn, reason));
    }

    fn metadata(&self, question: &MetadataRequest<'_>) -> MetadataResponse<'static> {
        let topic = |name: &str| match self.topics.get(name) {
            Some(topic) => MetadataResponseTopic {
                error_code: topic.error.0,
                name: Some(name.to_owned().into()),
                topic_id: topic.id,
                partitions: (0..).zip(&topic.partitions).map(partition).collect(),
                ..Default::default()
            },
            None => MetadataResponseTopic {
                error_code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0,
                name: Some(name.to_owned().into()),
                ..Default::default()
            },
        };
        let broker = |(&node_id, (host, port)): (&NodeId, &(String, u16))| MetadataResponseBroker {
            node_id,
            host: host.clone().into(),
            port: i32::from(*port),
            rack: self.racks.get(&node_id).map(|&rack| rack.into()),
        };
        let names = question.topics.iter().flatten().filter_map(|topic| topic.name.as_deref());
        MetadataResponse {
            error_code: self.metadata_error.0,
            controller_id: self.controller,
            brokers: self.brokers.iter().map(broker).collect(),
            topics: names.map(topic).collect(),
            ..Default::default()
        }
    }
}

fn partition((index, &(leader, epoch, error)): (i32, &(NodeId, i32, ErrorCode))) -> MetadataResponsePartition {
    MetadataResponsePartition {
        error_code: error.0,
        partition_index: index,
        leader_id: leader,
        leader_epoch: epoch,
        replica_nodes: if leader >= 0 { vec![leader] } else { Vec::new() },
        ..Default::default()
    }
}
