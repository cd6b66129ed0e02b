//! A classic group coordinator as Kafka's behaves, for one group: without I/O, on the test's clock.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use grete_wire::messages::*;
use grete_wire::primitives::Reader;
use grete_wire::{ApiKey, ErrorCode, Outbound};

use crate::ids::TopicPartition;
use crate::request::Request;
use crate::time::{MILLI, Nanos};

/// Where an answer goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyTo {
    pub client: usize,
    pub connection: u64,
    pub token: u32,
    pub api: ApiKey,
    pub version: i16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Empty,
    Preparing,
    Completing,
    Stable,
}

#[derive(Debug, Clone, Default)]
struct Member {
    session: Nanos,
    rebalance: Nanos,
    expires: Nanos,
    protocols: Vec<(String, Vec<u8>)>,
    join: Option<ReplyTo>,
    sync: Option<ReplyTo>,
    assignment: Vec<u8>,
}

#[derive(Debug)]
pub struct Broker {
    /// The node that coordinates now.
    pub node: i32,
    pub state: State,
    pub generation: i32,
    protocol: String,
    leader: String,
    members: BTreeMap<String, Member>,
    pending: BTreeSet<String>,
    rebalance_by: Nanos,
    ids: u32,
    pub offsets: BTreeMap<TopicPartition, i64>,
    /// The text beside them.
    pub metadata: BTreeMap<TopicPartition, String>,
    /// The leader epochs told with them, where a test says so.
    pub leader_epochs: BTreeMap<TopicPartition, i32>,
    /// What a new coordinator finds in the log: the last complete generation.
    persisted: (i32, String, String, BTreeMap<String, Member>),
    pub out: Vec<(ReplyTo, Vec<u8>)>,
    /// Offsets of an open transaction: not stable.
    pub unstable: bool,
}

impl Broker {
    pub fn new(node: i32) -> Self {
        Self {
            node,
            state: State::Empty,
            generation: 0,
            protocol: String::new(),
            leader: String::new(),
            members: BTreeMap::new(),
            pending: BTreeSet::new(),
            rebalance_by: 0,
            ids: 0,
            offsets: BTreeMap::new(),
            metadata: BTreeMap::new(),
            leader_epochs: BTreeMap::new(),
            persisted: Default::default(),
            out: Vec::new(),
            unstable: false,
        }
    }

    pub fn knows(&self, member_id: &str) -> bool {
        self.members.contains_key(member_id)
    }

    /// When something happens by itself.
    pub fn deadline(&self) -> Option<Nanos> {
        let awaits = |m: &&Member| m.join.is_none() && m.sync.is_none();
        let expiry = self.members.values().filter(awaits).map(|m| m.expires).min();
        let rebalance = (self.state == State::Preparing).then_some(self.rebalance_by);
        crate::time::earlier(expiry, rebalance)
    }

    pub fn tick(&mut self, now: Nanos) {
        let expired = self.members.iter().filter(|(_, m)| m.join.is_none() && m.sync.is_none() && m.expires <= now);
        let expired: Vec<String> = expired.map(|(id, _)| id.clone()).collect();
        for id in expired {
            self.remove(now, &id);
        }
        if self.state == State::Preparing && self.rebalance_by <= now {
            self.members.retain(|_, m| m.join.is_some());
            self.complete(now);
        }
    }

    /// Another node takes over, with what is in the log. Whoever waited for an answer gets `code`.
    pub fn fail_over(&mut self, now: Nanos, node: i32, code: ErrorCode) {
        for member in self.members.values_mut() {
            for to in [member.join.take(), member.sync.take()].into_iter().flatten() {
                self.out.push((to, failure(to, code)));
            }
        }
        self.node = node;
        let (generation, protocol, leader, members) = self.persisted.clone();
        (self.generation, self.protocol, self.leader, self.members) = (generation, protocol, leader, members);
        for member in self.members.values_mut() {
            member.expires = now + member.session;
        }
        self.pending.clear();
        self.state = if self.members.is_empty() { State::Empty } else { State::Stable };
    }

    /// A request as it came off the wire.
    pub fn handle(&mut self, now: Nanos, node: i32, to: ReplyTo, request: &Request) {
        let mut bytes = Outbound::default();
        request.encode_body(to.version, &mut bytes).expect("requests can be encoded in every version that is offered");
        self.handle_body(now, node, to, &bytes.to_vec());
    }

    /// The same, from the bytes of its body.
    pub fn handle_body(&mut self, now: Nanos, node: i32, to: ReplyTo, body: &[u8]) {
        let r = &mut Reader::new(body);
        if to.api == ApiKey::FindCoordinator {
            let request = FindCoordinatorRequest::decode(to.version, r).unwrap();
            let found = Coordinator {
                key: request.coordinator_keys[0].clone(),
                node_id: self.node,
                host: Cow::Borrowed("localhost"),
                port: 9092,
                ..Coordinator::default()
            };
            let answer = FindCoordinatorResponse { coordinators: vec![found], ..FindCoordinatorResponse::default() };
            return self.answer(to, |version, out| answer.encode(version, out));
        }
        if node != self.node {
            return self.out.push((to, failure(to, ErrorCode::NOT_COORDINATOR)));
        }
        match to.api {
            ApiKey::JoinGroup => self.join(now, to, &JoinGroupRequest::decode(to.version, r).unwrap()),
            ApiKey::SyncGroup => self.sync(now, to, &SyncGroupRequest::decode(to.version, r).unwrap()),
            ApiKey::Heartbeat => {
                let request = HeartbeatRequest::decode(to.version, r).unwrap();
                let code = self.heartbeat(now, &request.member_id, request.generation_id);
                self.out.push((to, failure(to, code)));
            }
            ApiKey::LeaveGroup => {
                let request = LeaveGroupRequest::decode(to.version, r).unwrap();
                for member in &request.members {
                    self.remove(now, &member.member_id);
                }
                self.out.push((to, failure(to, ErrorCode::NONE)));
            }
            ApiKey::OffsetCommit => self.commit(to, &OffsetCommitRequest::decode(to.version, r).unwrap()),
            ApiKey::OffsetFetch => self.fetch(to, &OffsetFetchRequest::decode(to.version, r).unwrap()),
            api => panic!("{api} is nothing that a member asks its coordinator"),
        }
        assert_eq!(r.finish(), Ok(()));
    }

    fn answer(&mut self, to: ReplyTo, encode: impl FnOnce(i16, &mut Vec<u8>) -> Result<(), grete_wire::WireError>) {
        let mut body = Vec::new();
        encode(to.version, &mut body).expect("answers can be encoded");
        self.out.push((to, body));
    }

    fn join(&mut self, now: Nanos, to: ReplyTo, request: &JoinGroupRequest<'_>) {
        let id = request.member_id.to_string();
        if id.is_empty() {
            self.ids += 1;
            let member_id = format!("m{:03}-{}", self.ids, to.client);
            self.pending.insert(member_id.clone());
            let answer = JoinGroupResponse {
                error_code: ErrorCode::MEMBER_ID_REQUIRED.0,
                generation_id: -1,
                member_id: Cow::Owned(member_id),
                protocol_name: Some(Cow::Borrowed("")),
                ..JoinGroupResponse::default()
            };
            return self.answer(to, |version, out| answer.encode(version, out));
        }
        if !self.pending.contains(&id) && !self.members.contains_key(&id) {
            return self.out.push((to, failure(to, ErrorCode::UNKNOWN_MEMBER_ID)));
        }
        let protocols: Vec<(String, Vec<u8>)> =
            request.protocols.iter().map(|p| (p.name.to_string(), p.metadata.to_vec())).collect();
        let others = self.members.iter().filter(|(other, _)| **other != id).map(|(_, m)| m);
        let fits = |name: &str| others.clone().all(|m| m.protocols.iter().any(|(n, _)| n == name));
        if !protocols.iter().any(|(name, _)| fits(name)) {
            return self.out.push((to, failure(to, ErrorCode::INCONSISTENT_GROUP_PROTOCOL)));
        }
        self.pending.remove(&id);
        let member = self.members.entry(id.clone()).or_default();
        let same = member.protocols == protocols;
        member.session = Nanos::from(request.session_timeout_ms.unsigned_abs()) * MILLI;
        member.rebalance = Nanos::from(request.rebalance_timeout_ms.unsigned_abs()) * MILLI;
        member.protocols = protocols;
        member.join = Some(to);
        match self.state {
            State::Stable | State::Completing if same && (id != self.leader || self.state == State::Completing) => {
                self.answer_join(now, &id);
            }
            State::Preparing => self.complete_if_all_are_in(now),
            _ => self.prepare(now),
        }
    }

    fn prepare(&mut self, now: Nanos) {
        self.state = State::Preparing;
        self.rebalance_by = now + self.members.values().map(|m| m.rebalance).max().unwrap_or(0);
        for member in self.members.values_mut() {
            if let Some(to) = member.sync.take() {
                member.expires = now + member.session;
                self.out.push((to, failure(to, ErrorCode::REBALANCE_IN_PROGRESS)));
            }
        }
        self.complete_if_all_are_in(now);
    }

    fn complete_if_all_are_in(&mut self, now: Nanos) {
        if self.state == State::Preparing && self.members.values().all(|m| m.join.is_some()) {
            self.complete(now);
        }
    }

    fn complete(&mut self, now: Nanos) {
        self.generation += 1;
        let Some((first, any)) = self.members.first_key_value() else {
            self.state = State::Empty;
            return;
        };
        if !self.members.contains_key(&self.leader) {
            self.leader = first.clone();
        }
        let common = |name: &str| self.members.values().all(|m| m.protocols.iter().any(|(n, _)| n == name));
        let elected = any.protocols.iter().map(|(name, _)| name).find(|name| common(name));
        self.protocol = elected.expect("members with nothing in common are not let in").clone();
        self.state = State::Completing;
        for id in self.members.keys().cloned().collect::<Vec<_>>() {
            self.answer_join(now, &id);
        }
    }

    fn answer_join(&mut self, now: Nanos, id: &str) {
        let protocol = self.protocol.clone();
        let all = self.members.iter().map(|(id, m)| JoinGroupResponseMember {
            member_id: Cow::Owned(id.clone()),
            group_instance_id: None,
            metadata: Cow::Owned(m.protocols.iter().find(|(n, _)| *n == protocol).map(|(_, b)| b.clone()).unwrap()),
        });
        let answer = JoinGroupResponse {
            generation_id: self.generation,
            protocol_type: None,
            protocol_name: Some(Cow::Owned(protocol.clone())),
            leader: Cow::Owned(self.leader.clone()),
            member_id: Cow::Owned(id.to_owned()),
            members: if id == self.leader { all.collect() } else { Vec::new() },
            ..JoinGroupResponse::default()
        };
        let member = self.members.get_mut(id).unwrap();
        member.expires = now + member.session;
        if let Some(to) = member.join.take() {
            self.answer(to, |version, out| answer.encode(version, out));
        }
    }

    fn sync(&mut self, now: Nanos, to: ReplyTo, request: &SyncGroupRequest<'_>) {
        let Some(member) = self.members.get_mut(request.member_id.as_ref()) else {
            return self.out.push((to, failure(to, ErrorCode::UNKNOWN_MEMBER_ID)));
        };
        if request.generation_id != self.generation {
            return self.out.push((to, failure(to, ErrorCode::ILLEGAL_GENERATION)));
        }
        member.expires = now + member.session;
        match self.state {
            State::Preparing | State::Empty => {
                self.out.push((to, failure(to, ErrorCode::REBALANCE_IN_PROGRESS)));
            }
            State::Stable => {
                let assignment = member.assignment.clone();
                self.answer_sync(to, assignment);
            }
            State::Completing => {
                member.sync = Some(to);
                if request.member_id != self.leader {
                    return;
                }
                for member in self.members.values_mut() {
                    member.assignment.clear();
                }
                for assignment in &request.assignments {
                    let member = self.members.get_mut(assignment.member_id.as_ref()).expect("assigns members only");
                    member.assignment = assignment.assignment.to_vec();
                }
                self.state = State::Stable;
                let mut answers = Vec::new();
                for member in self.members.values_mut() {
                    member.expires = now + member.session;
                    answers.extend(member.sync.take().map(|to| (to, member.assignment.clone())));
                }
                self.persisted = (self.generation, self.protocol.clone(), self.leader.clone(), self.members.clone());
                for (to, assignment) in answers {
                    self.answer_sync(to, assignment);
                }
            }
        }
    }

    fn answer_sync(&mut self, to: ReplyTo, assignment: Vec<u8>) {
        let answer = SyncGroupResponse { assignment: Cow::Owned(assignment), ..SyncGroupResponse::default() };
        self.answer(to, |version, out| answer.encode(version, out));
    }

    fn heartbeat(&mut self, now: Nanos, id: &str, generation: i32) -> ErrorCode {
        let Some(member) = self.members.get_mut(id) else { return ErrorCode::UNKNOWN_MEMBER_ID };
        if generation != self.generation {
            return ErrorCode::ILLEGAL_GENERATION;
        }
        member.expires = now + member.session;
        if self.state == State::Preparing { ErrorCode::REBALANCE_IN_PROGRESS } else { ErrorCode::NONE }
    }

    fn remove(&mut self, now: Nanos, id: &str) {
        self.pending.remove(id);
        let Some(member) = self.members.remove(id) else { return };
        for to in [member.join, member.sync].into_iter().flatten() {
            self.out.push((to, failure(to, ErrorCode::UNKNOWN_MEMBER_ID)));
        }
        match self.state {
            State::Stable | State::Completing => self.prepare(now),
            State::Preparing => self.complete_if_all_are_in(now),
            State::Empty => {}
        }
    }

    fn commit(&mut self, to: ReplyTo, request: &OffsetCommitRequest<'_>) {
        let generation = request.generation_id_or_member_epoch;
        let code = if generation < 0 && self.members.is_empty() {
            ErrorCode::NONE
        } else if !self.members.contains_key(request.member_id.as_ref()) {
            ErrorCode::UNKNOWN_MEMBER_ID
        } else if generation != self.generation {
            ErrorCode::ILLEGAL_GENERATION
        } else if self.state == State::Completing {
            ErrorCode::REBALANCE_IN_PROGRESS
        } else {
            ErrorCode::NONE
        };
        let mut topics = Vec::new();
        for topic in &request.topics {
            let mut partitions = Vec::new();
            for p in &topic.partitions {
                if code == ErrorCode::NONE {
                    let tp = TopicPartition::new(topic.name.as_ref(), p.partition_index);
                    self.metadata.insert(tp.clone(), p.committed_metadata.as_deref().unwrap_or_default().to_owned());
                    self.offsets.insert(tp, p.committed_offset);
                }
                partitions
                    .push(OffsetCommitResponsePartition { partition_index: p.partition_index, error_code: code.0 });
            }
            let name = topic.name.clone();
            topics.push(OffsetCommitResponseTopic { name, partitions, ..OffsetCommitResponseTopic::default() });
        }
        let answer = OffsetCommitResponse { topics, ..OffsetCommitResponse::default() };
        self.answer(to, |version, out| answer.encode(version, out));
    }

    fn fetch(&mut self, to: ReplyTo, request: &OffsetFetchRequest<'_>) {
        assert!(request.require_stable);
        let mut topics = Vec::new();
        for topic in request.groups[0].topics.iter().flatten() {
            let partitions = topic.partition_indexes.iter().map(|&partition_index| {
                let tp = TopicPartition::new(topic.name.as_ref(), partition_index);
                let error = if self.unstable { ErrorCode::UNSTABLE_OFFSET_COMMIT } else { ErrorCode::NONE };
                OffsetFetchResponsePartitions {
                    partition_index,
                    committed_offset: self.offsets.get(&tp).copied().filter(|_| !self.unstable).unwrap_or(-1),
                    committed_leader_epoch: self.leader_epochs.get(&tp).copied().unwrap_or(-1),
                    metadata: Some(Cow::Owned(self.metadata.get(&tp).cloned().unwrap_or_default())),
                    error_code: error.0,
                }
            });
            let partitions = partitions.collect();
            let name = topic.name.clone();
            topics.push(OffsetFetchResponseTopics { name, partitions, ..OffsetFetchResponseTopics::default() });
        }
        let group_id = request.groups[0].group_id.clone();
        let group = OffsetFetchResponseGroup { group_id, topics, ..OffsetFetchResponseGroup::default() };
        let answer = OffsetFetchResponse { groups: vec![group], ..OffsetFetchResponse::default() };
        self.answer(to, |version, out| answer.encode(version, out));
    }
}

/// The answer that says nothing but `code`. Per-partition answers say it by closing the connection: no body.
pub fn failure(to: ReplyTo, code: ErrorCode) -> Vec<u8> {
    let mut out = Vec::new();
    let (error_code, v) = (code.0, to.version);
    match to.api {
        ApiKey::JoinGroup => {
            JoinGroupResponse { error_code, protocol_name: Some(Cow::Borrowed("")), ..JoinGroupResponse::default() }
                .encode(v, &mut out)
        }
        ApiKey::SyncGroup => SyncGroupResponse { error_code, ..SyncGroupResponse::default() }.encode(v, &mut out),
        ApiKey::Heartbeat => HeartbeatResponse { error_code, ..HeartbeatResponse::default() }.encode(v, &mut out),
        ApiKey::LeaveGroup => LeaveGroupResponse { error_code, ..LeaveGroupResponse::default() }.encode(v, &mut out),
        _ => Ok(()),
    }
    .unwrap();
    out
}
