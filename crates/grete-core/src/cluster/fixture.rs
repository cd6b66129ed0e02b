//! A cluster of scripted brokers without sockets, for the tests of every machine.
//!
//! `Fake` owns the [`Cluster`], a clock, and what brokers would answer. [`Fake::settle`] plays driver and brokers until
//! nothing moves: it connects, negotiates, answers metadata; all other requests wait in [`Fake::asked`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use grete_wire::error_code::ErrorCode;
use grete_wire::frame::Frame;
use grete_wire::messages::{
    ApiVersion, ApiVersionsResponse, MetadataRequest, MetadataResponse, MetadataResponseBroker,
    MetadataResponsePartition, MetadataResponseTopic,
};
use grete_wire::{ApiKey, Reader, WireError};

use super::*;
use crate::conn::CloseReason;
use crate::request::{Owner, Reply, Request, Target, Token};
use crate::time::SECOND;

/// A request as a broker reads it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    pub(crate) conn: ConnId,
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    pub(crate) correlation: i32,
    pub(crate) body: Vec<u8>,
}

impl Asked {
    /// Reads what a `Write` sends: exactly one request.
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

    /// The answer to it, as it comes out of the frame reader.
    pub(crate) fn answer(&self, body: impl FnOnce(i16, &mut Vec<u8>) -> Result<(), WireError>) -> Frame {
        frame(self.api, self.version, self.correlation, body)
    }
}

/// A response frame.
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

/// What a broker says it speaks: everything we do, up to `max` for the APIs that it names.
pub(crate) fn api_versions(max: &BTreeMap<ApiKey, i16>) -> ApiVersionsResponse<'static> {
    let range = |&api: &ApiKey| ApiVersion {
        api_key: api.key(),
        min_version: *api.valid().start(),
        max_version: max.get(&api).copied().unwrap_or(*api.valid().end()),
    };
    ApiVersionsResponse { api_keys: ApiKey::ALL.iter().map(range).collect(), ..Default::default() }
}

/// Where simulated brokers listen: at port 9092 of `b1`, `b2`...
pub(crate) fn host(node: NodeId) -> String {
    format!("b{node}")
}

/// Such a broker in a metadata answer.
pub(crate) fn listed(&node_id: &NodeId) -> MetadataResponseBroker<'static> {
    MetadataResponseBroker { node_id, host: host(node_id).into(), port: 9092, ..Default::default() }
}

/// One topic of the scripted metadata.
#[derive(Debug, Clone, Default)]
pub(crate) struct FakeTopic {
    pub(crate) id: u128,
    pub(crate) error: ErrorCode,
    /// Leader, epoch, error of each partition.
    pub(crate) partitions: Vec<(NodeId, i32, ErrorCode)>,
}

/// Name, id, leader and epoch of each partition.
pub(crate) type ReadyTopic<'a> = (&'a str, u128, &'a [(NodeId, i32)]);

/// Brokers, and the driver between them and the cluster.
#[derive(Debug)]
pub(crate) struct Fake {
    pub(crate) cluster: Cluster,
    pub(crate) now: Nanos,
    /// The brokers that metadata names: id -> host, port.
    pub(crate) brokers: BTreeMap<NodeId, (String, u16)>,
    /// The controller that metadata names.
    pub(crate) controller: NodeId,
    pub(crate) topics: BTreeMap<String, FakeTopic>,
    /// The highest version that brokers speak, where it is not the highest of ours.
    pub(crate) max_versions: BTreeMap<ApiKey, i16>,
    /// host:port of addresses that refuse connections.
    pub(crate) down: BTreeSet<(String, u16)>,
    /// The error code of metadata answers.
    pub(crate) metadata_error: ErrorCode,
    pub(crate) connects: VecDeque<(ConnId, (Arc<str>, u16))>,
    /// Where each connection leads, open ones only.
    pub(crate) open: BTreeMap<ConnId, (Arc<str>, u16)>,
    pub(crate) asked: VecDeque<Asked>,
    pub(crate) replies: Vec<Reply>,
    pub(crate) notices: Vec<ClusterNotice>,
    /// Everything but writes and replies, in order.
    pub(crate) actions: Vec<ClusterAction>,
    /// Metadata questions that were answered.
    pub(crate) metadata_asked: Vec<MetadataRequest<'static>>,
}

impl Fake {
    /// A cluster that knows only these bootstrap addresses.
    pub(crate) fn new(bootstrap: &[(&str, u16)]) -> Self {
        let bootstrap = bootstrap.iter().map(|&(host, port)| (host.into(), port)).collect();
        Self::with_config(ClusterConfig { bootstrap, ..Default::default() }, 1)
    }

    pub(crate) fn with_config(config: ClusterConfig, seed: u64) -> Self {
        Self {
            cluster: Cluster::new(config, Rng::new(seed)),
            now: SECOND,
            brokers: BTreeMap::new(),
            controller: -1,
            topics: BTreeMap::new(),
            max_versions: BTreeMap::new(),
            down: BTreeSet::new(),
            metadata_error: ErrorCode::NONE,
            connects: VecDeque::new(),
            open: BTreeMap::new(),
            asked: VecDeque::new(),
            replies: Vec::new(),
            notices: Vec::new(),
            actions: Vec::new(),
            metadata_asked: Vec::new(),
        }
    }

    /// Brokers `b0:9092`, `b1:9092`...: metadata of the topics is known, every channel of every broker is ready.
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
        fake.notices.clear();
        fake
    }

    /// Scripts a topic: leader and epoch of each partition.
    pub(crate) fn set_topic(&mut self, name: &str, id: u128, partitions: &[(NodeId, i32)]) {
        let partitions = partitions.iter().map(|&(leader, epoch)| (leader, epoch, ErrorCode::NONE)).collect();
        self.topics.insert(name.to_owned(), FakeTopic { id, error: ErrorCode::NONE, partitions });
    }

    /// One step of the cluster; sorts what it wants.
    pub(crate) fn event(&mut self, event: ClusterEvent) {
        let mut actions = Vec::new();
        self.cluster.step(self.now, event, &mut actions);
        for action in actions {
            match action {
                ClusterAction::Connect { conn, address } => self.connects.push_back((conn, address)),
                ClusterAction::Write { conn, bytes } => {
                    assert!(self.open.contains_key(&conn), "a write to a connection that is not open");
                    self.asked.push_back(Asked::parse(conn, &bytes.to_vec()));
                }
                ClusterAction::Close { conn } => {
                    self.open.remove(&conn);
                    self.connects.retain(|connect| connect.0 != conn);
                    self.actions.push(ClusterAction::Close { conn });
                }
                ClusterAction::Reply(reply) => self.replies.push(reply),
                ClusterAction::Notify(notice) => self.notices.push(notice),
                action => self.actions.push(action),
            }
        }
    }

    /// Sends a request of `Owner::Client`; 10 s timeout.
    pub(crate) fn send(&mut self, target: Target, channel: Channel, request: Request, id: u32) {
        let token = Token { owner: Owner::Client, id };
        self.event(ClusterEvent::Send(Outgoing { target, channel, request, token, timeout: 10 * SECOND }));
    }

    /// Lets time pass, tick by tick, brokers playing along.
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

    /// Plays driver and brokers until nothing moves: see the module.
    pub(crate) fn settle(&mut self) {
        self.event(ClusterEvent::Tick);
        for round in 0.. {
            assert!(round < 1000, "a loop without an end, and without time passing");
            if let Some((conn, address)) = self.connects.pop_front() {
                self.connect(conn, address);
            } else if let Some(index) = (0..self.asked.len()).find(|&index| self.plays(index)) {
                let asked = self.asked.remove(index).unwrap();
                self.play(&asked);
            } else {
                break;
            }
        }
    }

    /// Answers one connect.
    pub(crate) fn connect(&mut self, conn: ConnId, address: (Arc<str>, u16)) {
        if self.down.contains(&(address.0.to_string(), address.1)) {
            self.event(ClusterEvent::Closed(conn, CloseReason::Connect("refused".into())));
        } else {
            self.open.insert(conn, address);
            self.event(ClusterEvent::Connected(conn));
        }
    }

    /// A broker answers in order, so not before what was asked earlier on the same connection.
    fn plays(&self, index: usize) -> bool {
        let asked = &self.asked[index];
        let first = self.asked.iter().take(index).all(|earlier| earlier.conn != asked.conn);
        first && matches!(asked.api, ApiKey::ApiVersions | ApiKey::Metadata)
    }

    /// Answers ApiVersions or Metadata as scripted; nothing if the connection is closed.
    pub(crate) fn play(&mut self, asked: &Asked) {
        if !self.open.contains_key(&asked.conn) {
            return;
        }
        let frame = if asked.api == ApiKey::ApiVersions {
            let answer = api_versions(&self.max_versions);
            asked.answer(|version, out| answer.encode(version, out))
        } else {
            let question = MetadataRequest::decode(asked.version, &mut Reader::new(&asked.body)).unwrap();
            let answer = self.metadata(&question);
            let frame = asked.answer(|version, out| answer.encode(version, out));
            self.metadata_asked.push(question.into_owned());
            frame
        };
        self.event(ClusterEvent::Frame(asked.conn, frame));
    }

    /// Answers a request that waits in `asked`.
    pub(crate) fn answer(&mut self, asked: &Asked, body: impl FnOnce(i16, &mut Vec<u8>) -> Result<(), WireError>) {
        self.event(ClusterEvent::Frame(asked.conn, asked.answer(body)));
    }

    /// The next request of that API that waits.
    pub(crate) fn next_asked(&mut self, api: ApiKey) -> Option<Asked> {
        let index = self.asked.iter().position(|asked| asked.api == api)?;
        self.asked.remove(index)
    }

    /// The broker dies: its connections end, new ones are refused.
    pub(crate) fn kill(&mut self, host: &str, port: u16) {
        self.down.insert((host.to_owned(), port));
        let dead: Vec<ConnId> =
            self.open.iter().filter(|(_, a)| a.0.as_ref() == host && a.1 == port).map(|(&conn, _)| conn).collect();
        for conn in dead {
            self.hang_up(conn, CloseReason::Eof);
        }
    }

    /// One connection ends.
    pub(crate) fn hang_up(&mut self, conn: ConnId, reason: CloseReason) {
        self.open.remove(&conn);
        self.asked.retain(|asked| asked.conn != conn);
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
            ..Default::default()
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
        ..Default::default()
    }
}
