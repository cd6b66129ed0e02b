//! Brokers that implement the server side of KIP-227 strictly, and a driver around one fetcher.

use std::collections::{BTreeMap, HashMap};

use grete_wire::error_code::ErrorCode as E;
use grete_wire::frame::Frame;
use grete_wire::messages::fetch::{
    EpochEndOffset, FetchRequest, FetchResponse, FetchableTopicResponse, LeaderIdAndEpoch, PartitionData,
};
use grete_wire::primitives::reader::Reader;
use grete_wire::records::iter_batches;

use crate::fetch::{CompletedFetch, FetchAction, FetchConfig, FetchEvent, Fetcher};
use crate::ids::{NodeId, PartitionHandle, TopicPartition};
use crate::partition::table::{FetchState, PartitionTable};
use crate::request::{OutboundRequest, Reply, Request, RequestError, Response, Target};
use crate::rng::Rng;
use crate::test_util::FakeClusterView;
use crate::time::{MILLI, Nanos, SECOND};

/// Returns a record batch with a valid header.
pub(crate) fn batch(base_offset: i64, records: i32, leader_epoch: i32, bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&base_offset.to_be_bytes());
    out.extend_from_slice(&(49 + i32::try_from(bytes).unwrap()).to_be_bytes());
    out.extend_from_slice(&leader_epoch.to_be_bytes());
    out.push(2);
    out.extend_from_slice(&[0; 4]); // crc
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&(records - 1).to_be_bytes());
    out.extend_from_slice(&[0; 8 + 8 + 8 + 2 + 4]);
    out.extend_from_slice(&records.to_be_bytes());
    assert_eq!(out.len(), 61);
    out.resize(61 + bytes, 0xab);
    out
}

#[derive(Debug, Clone)]
pub(crate) struct Log {
    pub leader: NodeId,
    pub epoch: i32,
    pub start: i64,
    /// First offset, next offset, leader epoch, bytes.
    pub batches: Vec<(i64, i64, i32, Vec<u8>)>,
    /// Error to return instead of data.
    pub error: Option<E>,
    /// Error that a follower returns instead of data.
    pub follower_error: Option<E>,
    /// Batches at the end that followers do not have yet.
    pub lag: usize,
}

impl Log {
    pub fn end(&self) -> i64 {
        self.batches.last().map_or(self.start, |batch| batch.1)
    }

    /// Appends a batch that spans `span` offsets.
    pub fn append(&mut self, span: i32, bytes: usize) {
        let base = self.end();
        self.batches.push((base, base + i64::from(span), self.epoch, batch(base, span, self.epoch, bytes)));
    }

    /// Returns the end of the log as a follower has it.
    fn follower_end(&self) -> i64 {
        let kept = self.batches.len().saturating_sub(self.lag);
        kept.checked_sub(1).map_or(self.start, |last| self.batches[last].1)
    }

    /// Returns the result of a fetch from `offset`: whole batches before `end` up to `limit` bytes, but at least one.
    fn read(&self, offset: i64, end: i64, limit: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for (_, next, _, bytes) in self.batches.iter().filter(|batch| batch.1 <= end) {
            if *next > offset && (out.is_empty() || out.len() + bytes.len() <= limit) {
                out.extend_from_slice(bytes);
            } else if *next > offset {
                break;
            }
        }
        out
    }

    fn epoch_end(&self, epoch: i32) -> (i32, i64) {
        let last = self.batches.iter().rfind(|batch| batch.2 <= epoch);
        last.map_or((-1, -1), |batch| (batch.2, batch.1))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cached {
    pub offset: i64,
    pub leader_epoch: i32,
    pub last_fetched_epoch: i32,
    pub max_bytes: i32,
    high_watermark: i64,
}

#[derive(Debug)]
pub(crate) struct BrokerSession {
    epoch: i32,
    pub by_id: bool,
    /// Partitions in the order in which responses are filled.
    pub parts: Vec<(TopicPartition, Cached)>,
}

#[derive(Debug, Default)]
pub(crate) struct Broker {
    pub sessions: HashMap<i32, BrokerSession>,
    /// Whether the broker's session cache is full.
    pub sessionless: bool,
    next_session: i32,
}

#[derive(Debug)]
pub(crate) struct Simulator {
    pub now: Nanos,
    pub view: FakeClusterView,
    pub ids: HashMap<String, u128>,
    pub logs: BTreeMap<TopicPartition, Log>,
    pub brokers: BTreeMap<NodeId, Broker>,
    /// Follower of all partitions that leaders name to consumers in the rack "near"; to all consumers without a rack if
    /// `names_without_rack`.
    pub near: Option<NodeId>,
    pub names_without_rack: bool,
    pub partitions: PartitionTable,
    pub fetcher: Fetcher,
    /// Requests without a response.
    pub pending: Vec<OutboundRequest>,
    pub actions: Vec<FetchAction>,
    pub chunks: Vec<CompletedFetch>,
    /// Partitions without further data, and their ends.
    pub ends: Vec<(PartitionHandle, i64)>,
    config: FetchConfig,
}

pub(crate) fn tp(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition::new(topic, partition)
}

impl Simulator {
    /// Creates a simulator with these topics (name, number of partitions), spread over nodes 1 to `nodes`.
    pub fn new(topics: &[(&str, i32)], nodes: i32, version: i16, config: FetchConfig) -> Self {
        let mut world = Self {
            now: 1_000_000,
            view: FakeClusterView::new(),
            ids: HashMap::new(),
            logs: BTreeMap::new(),
            brokers: (1..=nodes)
                .map(|node| (node, Broker { next_session: 100 * node, ..Default::default() }))
                .collect(),
            near: None,
            names_without_rack: false,
            partitions: PartitionTable::new(),
            fetcher: Fetcher::new(config.clone(), Rng::new(7)),
            pending: Vec::new(),
            actions: Vec::new(),
            ends: Vec::new(),
            chunks: Vec::new(),
            config,
        };
        let mut leader = 0;
        for (number, (topic, count)) in (1_u128..).zip(topics) {
            world.ids.insert((*topic).to_owned(), 1000 + number);
            world.view.set_topic_id(topic, 1000 + number);
            for partition in 0..*count {
                leader = leader % nodes + 1;
                let log =
                    Log { leader, epoch: 1, start: 0, batches: Vec::new(), error: None, follower_error: None, lag: 0 };
                world.logs.insert(tp(topic, partition), log);
            }
        }
        for node in 1..=nodes {
            world.view.set_fetch_version(node, Some(version));
        }
        world.sync_view();
        world
    }

    /// Updates the metadata to the brokers' state.
    pub fn sync_view(&mut self) {
        for (tp, log) in &self.logs {
            self.view.set_leader(tp, Some((log.leader, log.epoch)));
        }
    }

    pub fn log(&mut self, tp: &TopicPartition) -> &mut Log {
        self.logs.get_mut(tp).unwrap()
    }

    pub fn assign(&mut self, tp: TopicPartition, offset: i64) -> PartitionHandle {
        let slot = self.partitions.add(tp, 1);
        self.seek(slot, offset);
        slot
    }

    /// Seeks like the offset resolver.
    pub fn seek(&mut self, slot: PartitionHandle, offset: i64) {
        self.partitions.move_to(slot, offset, -1);
        self.partitions.set_state(slot, FetchState::Fetching);
    }

    pub fn plan(&mut self) {
        self.step(FetchEvent::Plan);
    }

    pub fn step(&mut self, event: FetchEvent) {
        let mut out = Vec::new();
        self.fetcher.step(self.now, event, &self.view, &mut self.partitions, &mut out);
        for action in out {
            match action {
                FetchAction::Send(outgoing) => {
                    let held = self.partitions.queued_total();
                    assert!(held < self.config.queued_bytes, "a Fetch left while {held} bytes were held");
                    let same = self.pending.iter().filter(|other| other.target == outgoing.target).count();
                    assert_eq!(same, 0, "two Fetches in flight to one node");
                    self.pending.push(outgoing);
                }
                FetchAction::Data(chunk) => {
                    assert!(self.partitions.is_current(chunk.slot, chunk.assignment_epoch, chunk.fetch_generation));
                    let bytes: usize = iter_batches(chunk.frame.get(chunk.range.clone()).unwrap())
                        .map(|item| item.unwrap().1.len())
                        .sum();
                    assert_eq!((bytes, chunk.bytes), (chunk.range.len(), chunk.range.len()), "whole batches only");
                    self.chunks.push(chunk);
                }
                FetchAction::CaughtUp { slot, high_watermark, .. } => self.ends.push((slot, high_watermark)),
                other => self.actions.push(other),
            }
        }
    }

    /// Runs until every request in flight waits for new data at its broker.
    pub fn settle(&mut self) {
        let mut quiet = 0;
        for _ in 0..1000 {
            let count = self.chunks.len() + self.actions.len();
            for node in self.nodes() {
                self.answer(node);
            }
            quiet = if count == self.chunks.len() + self.actions.len() { quiet + 1 } else { 0 };
            if quiet == 3 {
                return;
            }
        }
        panic!("it never settles: {:?}", self.actions.last());
    }

    pub fn nodes(&self) -> Vec<NodeId> {
        self.brokers.keys().copied().collect()
    }

    pub fn take_pending(&mut self, node: NodeId) -> Option<OutboundRequest> {
        let at = self.pending.iter().position(|outgoing| outgoing.target == Target::Node(node))?;
        Some(self.pending.remove(at))
    }

    pub fn decode<'a>(outgoing: &'a OutboundRequest) -> (i16, FetchRequest<'a>) {
        let Request::Raw { version, body, .. } = &outgoing.request else { panic!("Fetch is sent as bytes") };
        let mut reader = Reader::new(body);
        let request = FetchRequest::decode(*version, &mut reader).unwrap();
        assert_eq!(reader.remaining(), 0);
        (*version, request)
    }

    /// Returns the pending request of a node, decoded.
    pub fn request(&self, node: NodeId) -> Option<(i16, FetchRequest<'_>)> {
        let outgoing = self.pending.iter().find(|outgoing| outgoing.target == Target::Node(node))?;
        Some(Self::decode(outgoing))
    }

    /// Lets the node answer its pending request, if there is one. An empty response means that `max_wait` has passed.
    pub fn answer(&mut self, node: NodeId) -> bool {
        let Some(outgoing) = self.take_pending(node) else { return false };
        let (version, request) = Self::decode(&outgoing);
        let response = self.serve(node, version, &request);
        self.reply(node, &outgoing, version, &response);
        true
    }

    /// Lets the broker process the request, and drops the response.
    pub fn serve_in_vain(&mut self, node: NodeId, outgoing: &OutboundRequest) {
        let (version, request) = Self::decode(outgoing);
        self.serve(node, version, &request);
    }

    pub fn reply(&mut self, node: NodeId, outgoing: &OutboundRequest, version: i16, response: &FetchResponse<'_>) {
        let mut frame = vec![0xee; 5];
        response.encode(version, &mut frame).unwrap();
        let response = Response { api: grete_wire::api::ApiKey::Fetch, version, frame: Frame::from(frame), body: 5 };
        self.step(FetchEvent::Reply(Reply { token: outgoing.token, node, result: Ok(response) }));
    }

    /// Breaks the connection, with any request in flight.
    pub fn disconnect(&mut self, node: NodeId) {
        let lost = self.take_pending(node);
        self.step(FetchEvent::NodeLost(node));
        if let Some(outgoing) = lost {
            let result = Err(RequestError::Disconnected);
            self.step(FetchEvent::Reply(Reply { token: outgoing.token, node, result }));
        }
        self.step(FetchEvent::NodeReady(node));
    }

    fn name_of(&self, topic: &str, id: u128) -> String {
        if id == 0 {
            return topic.to_owned();
        }
        self.ids.iter().find(|(_, known)| **known == id).map_or_else(|| format!("?{id}"), |(name, _)| name.clone())
    }

    /// Processes a request like a broker (KIP-227).
    pub fn serve(&mut self, node: NodeId, version: i16, request: &FetchRequest<'_>) -> FetchResponse<'static> {
        let by_id = version >= 13;
        let error = |code: E| FetchResponse { error_code: code.0, ..Default::default() };
        let mut named: Vec<(TopicPartition, Cached)> = Vec::new();
        for topic in &request.topics {
            assert_eq!(by_id, topic.topic_id != 0, "the version says how topics are named");
            for partition in &topic.partitions {
                let cached = Cached {
                    offset: partition.fetch_offset,
                    leader_epoch: partition.current_leader_epoch,
                    last_fetched_epoch: partition.last_fetched_epoch,
                    max_bytes: partition.partition_max_bytes,
                    high_watermark: -2,
                };
                named.push((tp(&self.name_of(&topic.topic, topic.topic_id), partition.partition), cached));
            }
        }
        let mut forgotten = Vec::new();
        for topic in &request.forgotten_topics_data {
            for partition in &topic.partitions {
                forgotten.push(tp(&self.name_of(&topic.topic, topic.topic_id), *partition));
            }
        }
        for (at, (tp, _)) in named.iter().enumerate() {
            assert!(!forgotten.contains(tp), "{tp} is fetched and forgotten at a time");
            assert!(!named[..at].iter().any(|(other, _)| other == tp), "{tp} is named twice");
        }
        let mut broker = self.brokers.remove(&node).unwrap();
        let response = if request.session_epoch <= 0 {
            assert!(forgotten.is_empty(), "there is nothing to forget in a new session");
            broker.sessions.remove(&request.session_id);
            let id = if request.session_epoch == 0 && !broker.sessionless {
                broker.next_session += 1;
                broker.next_session
            } else {
                0
            };
            let mut session = BrokerSession { epoch: 1, by_id, parts: named };
            let response = self.fill(node, version, request, &mut session, true, id);
            if id != 0 {
                broker.sessions.insert(id, session);
            }
            response
        } else {
            match broker.sessions.get_mut(&request.session_id) {
                None => error(E::FETCH_SESSION_ID_NOT_FOUND),
                Some(session) if session.epoch != request.session_epoch => error(E::INVALID_FETCH_SESSION_EPOCH),
                Some(session) if session.by_id != by_id => error(E::FETCH_SESSION_TOPIC_ID_ERROR),
                Some(session) => {
                    for (tp, cached) in named {
                        match session.parts.iter_mut().find(|(known, _)| *known == tp) {
                            Some((_, known)) => {
                                let high_watermark = known.high_watermark;
                                assert_ne!(
                                    Cached { high_watermark: -2, ..*known },
                                    cached,
                                    "{tp} is named although nothing changed"
                                );
                                *known = Cached { high_watermark, ..cached };
                            }
                            None => session.parts.push((tp, cached)),
                        }
                    }
                    for tp in forgotten {
                        let before = session.parts.len();
                        session.parts.retain(|(known, _)| *known != tp);
                        assert_eq!(session.parts.len() + 1, before, "{tp} is forgotten without being known");
                    }
                    session.epoch += 1;
                    self.fill(node, version, request, session, false, request.session_id)
                }
            }
        };
        self.brokers.insert(node, broker);
        response
    }

    fn fill(
        &mut self,
        node: NodeId,
        version: i16,
        request: &FetchRequest<'_>,
        session: &mut BrokerSession,
        full: bool,
        session_id: i32,
    ) -> FetchResponse<'static> {
        let mut left = usize::try_from(request.max_bytes).unwrap();
        let mut response = FetchResponse { session_id, ..Default::default() };
        let mut served = Vec::new();
        for (tp, cached) in &mut session.parts {
            let data = self.read(node, version, &request.rack_id, tp, cached, left);
            let records = data.records.as_ref().map_or(0, |records| records.len());
            left = left.saturating_sub(records);
            let news = records > 0
                || data.error_code != 0
                || data.diverging_epoch != EpochEndOffset::default()
                || data.preferred_read_replica >= 0
                || cached.high_watermark != data.high_watermark;
            cached.high_watermark = if data.error_code == 0 { data.high_watermark } else { -2 };
            if !news && !full {
                continue;
            }
            if records > 0 {
                served.push(tp.clone());
            }
            let topic_id = if version >= 13 { self.ids.get(&*tp.topic).copied().unwrap_or(0) } else { 0 };
            response.responses.push(FetchableTopicResponse {
                topic: if version >= 13 { String::new().into() } else { tp.topic.to_string().into() },
                topic_id,
                partitions: vec![data],
            });
        }
        // A partition that returned data goes to the end of the queue.
        for tp in served {
            let at = session.parts.iter().position(|(known, _)| *known == tp).unwrap();
            let part = session.parts.remove(at);
            session.parts.push(part);
        }
        response
    }

    fn read(
        &self,
        node: NodeId,
        version: i16,
        rack: &str,
        tp: &TopicPartition,
        asked: &Cached,
        left: usize,
    ) -> PartitionData<'static> {
        let mut data = PartitionData {
            partition_index: tp.partition,
            high_watermark: -1,
            records: Some(Vec::new().into()),
            ..Default::default()
        };
        let mut refuse = |code: E| {
            data.error_code = code.0;
            data.clone()
        };
        let Some(log) = self.logs.get(tp) else {
            return refuse(if version >= 13 { E::UNKNOWN_TOPIC_ID } else { E::UNKNOWN_TOPIC_OR_PARTITION });
        };
        if let Some(code) = log.error {
            return refuse(code);
        }
        let is_follower = log.leader != node && self.near == Some(node);
        if let Some(code) = log.follower_error.filter(|_| is_follower) {
            return refuse(code);
        }
        if log.leader != node && !is_follower {
            let mut answer = refuse(E::NOT_LEADER_OR_FOLLOWER);
            if version >= 12 {
                answer.current_leader = LeaderIdAndEpoch { leader_id: log.leader, leader_epoch: log.epoch };
            }
            return answer;
        }
        if asked.leader_epoch >= 0 && asked.leader_epoch < log.epoch {
            return refuse(E::FENCED_LEADER_EPOCH);
        }
        if asked.leader_epoch > log.epoch {
            return refuse(E::UNKNOWN_LEADER_EPOCH);
        }
        if asked.last_fetched_epoch >= 0 {
            let (epoch, end_offset) = log.epoch_end(asked.last_fetched_epoch);
            if epoch < 0 {
                return refuse(E::OFFSET_OUT_OF_RANGE); // like Kafka, if it has no history that old
            }
            if epoch < asked.last_fetched_epoch || end_offset < asked.offset {
                data.diverging_epoch = EpochEndOffset { epoch, end_offset };
                return data;
            }
        }
        if asked.offset < log.start || asked.offset > log.end() {
            return refuse(E::OFFSET_OUT_OF_RANGE);
        }
        let end = if is_follower { log.follower_end() } else { log.end() };
        data.high_watermark = end;
        data.last_stable_offset = end;
        data.log_start_offset = log.start;
        if let Some(near) = self.near.filter(|_| !is_follower && (rack == "near" || self.names_without_rack))
            && near != node
        {
            data.preferred_read_replica = near;
            return data;
        }
        if left > 0 {
            let limit = left.min(usize::try_from(asked.max_bytes).unwrap());
            data.records = Some(log.read(asked.offset, end, limit).into());
        }
        data
    }

    /// Asserts that both sides of every certain session agree on its partitions.
    pub fn check_sessions(&self) {
        for session in &self.fetcher.sessions {
            if session.epoch == 0 || session.in_flight.is_some() {
                continue;
            }
            let broker = self.brokers.get(&session.node).unwrap();
            let Some(theirs) = broker.sessions.get(&session.id).filter(|theirs| theirs.epoch == session.epoch) else {
                continue; // evicted, and the client will be notified
            };
            let mut ours: Vec<_> = session
                .entries
                .iter()
                .filter(|entry| entry.in_session)
                .map(|entry| (tp(&session.topic(entry).unwrap().name, entry.partition), entry.sent_params))
                .collect();
            ours.sort_by(|a, b| a.0.cmp(&b.0));
            let mut parts: Vec<_> = theirs.parts.clone();
            parts.sort_by(|a, b| a.0.cmp(&b.0));
            assert_eq!(ours.len(), parts.len(), "{ours:?}\n{parts:?}");
            for ((our_tp, sent), (their_tp, cached)) in ours.iter().zip(&parts) {
                assert_eq!(our_tp, their_tp);
                assert_eq!(sent.fetch_offset, cached.offset, "{our_tp}");
                assert_eq!(sent.current_leader_epoch, cached.leader_epoch, "{our_tp}");
                assert_eq!(sent.last_fetched_epoch, cached.last_fetched_epoch, "{our_tp}");
                assert_eq!(sent.max_bytes, cached.max_bytes, "{our_tp}");
            }
        }
    }

    /// Releases the bytes of a completed fetch.
    pub fn release(&mut self, chunk: &CompletedFetch) {
        self.step(FetchEvent::Released(vec![(chunk.slot, chunk.bytes)]));
    }

    pub fn release_all(&mut self) {
        for chunk in std::mem::take(&mut self.chunks) {
            self.release(&chunk);
        }
    }

    /// Advances the clock to the fetcher's deadline.
    pub fn sleep(&mut self) {
        if let Some(until) = self.fetcher.deadline() {
            // Responses come more often than the word of a leader about its follower ends.
            self.now = self.now.max(until.min(self.now + SECOND));
        } else {
            self.now += MILLI;
        }
        self.step(FetchEvent::Tick);
    }
}
