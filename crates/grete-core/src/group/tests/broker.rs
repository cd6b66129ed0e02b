//! A classic group coordinator as Kafka's behaves, for one group: without I/O, on the test's clock.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use grete_wire::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
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
    /// `group.instance.id`.
    instance: Option<String>,
    /// A static member that was not there when the generation was made: it is kept, and has to come again.
    absent: bool,
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

    /// Whether the member is in the present generation.
    pub fn counts_in(&self, member_id: &str) -> bool {
        self.members.get(member_id).is_some_and(|member| !member.absent)
    }

    /// Whether somebody has a place under this instance id.
    pub fn keeps(&self, instance: &str) -> bool {
        self.static_id(instance).is_some()
    }

    fn static_id(&self, instance: &str) -> Option<String> {
        let has = |member: &Member| member.instance.as_deref() == Some(instance);
        self.members.iter().find(|(_, member)| has(member)).map(|(id, _)| id.clone())
    }

    /// Kafka's `validateMember`.
    fn validate(&self, id: &str, instance: Option<&str>) -> Result<(), ErrorCode> {
        match instance.map(|instance| self.static_id(instance)) {
            Some(Some(has)) if has != id => Err(ErrorCode::FENCED_INSTANCE_ID),
            Some(None) => Err(ErrorCode::UNKNOWN_MEMBER_ID),
            _ if self.members.contains_key(id) => Ok(()),
            _ => Err(ErrorCode::UNKNOWN_MEMBER_ID),
        }
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
            self.members.retain(|_, m| m.join.is_some() || m.instance.is_some());
            // Static members stay; if nobody at all has come, it is put off.
            if self.members.is_empty() || self.members.values().any(|m| m.join.is_some()) {
                self.complete(now);
            } else {
                self.rebalance_by = now + self.longest_rebalance();
            }
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
                let instance = request.group_instance_id.as_deref();
                let code = self.heartbeat(now, &request.member_id, instance, request.generation_id);
                self.out.push((to, failure(to, code)));
            }
            ApiKey::LeaveGroup => {
                let request = LeaveGroupRequest::decode(to.version, r).unwrap();
                for member in &request.members {
                    let static_id = member.group_instance_id.as_deref().and_then(|instance| self.static_id(instance));
                    let id = static_id.filter(|_| member.member_id.is_empty());
                    self.remove(now, id.as_deref().unwrap_or(&member.member_id));
                }
                self.out.push((to, failure(to, ErrorCode::NONE)));
            }
            ApiKey::DescribeGroups => {
                DescribeGroupsRequest::decode(to.version, r).unwrap();
                self.describe(to);
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
        let instance = request.group_instance_id.as_deref();
        let protocols: Vec<(String, Vec<u8>)> =
            request.protocols.iter().map(|p| (p.name.to_string(), p.metadata.to_vec())).collect();
        let old = instance.and_then(|instance| self.static_id(instance));
        let others = self.members.iter().filter(|(other, _)| **other != id && old.as_ref() != Some(other));
        let others = others.map(|(_, m)| m);
        let fits = |name: &str| others.clone().all(|m| m.protocols.iter().any(|(n, _)| n == name));
        if !protocols.iter().any(|(name, _)| fits(name)) {
            return self.out.push((to, failure(to, ErrorCode::INCONSISTENT_GROUP_PROTOCOL)));
        }
        if id.is_empty()
            && let Some(instance) = instance
        {
            return self.join_static(now, to, request, instance, protocols);
        }
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
        if !self.pending.contains(&id)
            && let Err(code) = self.validate(&id, instance)
        {
            return self.out.push((to, failure(to, code)));
        }
        self.pending.remove(&id);
        let same = self.enter(&id, to, request, protocols);
        match self.state {
            State::Stable | State::Completing if same && (id != self.leader || self.state == State::Completing) => {
                self.answer_join(now, &id);
            }
            State::Preparing => self.complete_if_all_are_in(now),
            _ => self.prepare(now),
        }
    }

    /// Takes a member's JoinGroup in; whether it says the same as before.
    fn enter(
        &mut self,
        id: &str,
        to: ReplyTo,
        request: &JoinGroupRequest<'_>,
        protocols: Vec<(String, Vec<u8>)>,
    ) -> bool {
        let member = self.members.entry(id.to_owned()).or_default();
        let same = member.protocols == protocols;
        member.session = Nanos::from(request.session_timeout_ms.unsigned_abs()) * MILLI;
        member.rebalance = Nanos::from(request.rebalance_timeout_ms.unsigned_abs()) * MILLI;
        member.protocols = protocols;
        member.join = Some(to);
        same
    }

    /// A static member without an id: a new one, or one that takes the place of the old one.
    fn join_static(
        &mut self,
        now: Nanos,
        to: ReplyTo,
        request: &JoinGroupRequest<'_>,
        instance: &str,
        protocols: Vec<(String, Vec<u8>)>,
    ) {
        self.ids += 1;
        let id = format!("{instance}-{:036}", self.ids);
        let old = self.static_id(instance);
        if let Some(old) = &old {
            let mut member = self.members.remove(old).unwrap();
            for to in [member.join.take(), member.sync.take()].into_iter().flatten() {
                self.out.push((to, failure(to, ErrorCode::FENCED_INSTANCE_ID)));
            }
            self.members.insert(id.clone(), member);
        }
        let leader = self.leader.clone();
        if old.as_ref() == Some(&leader) {
            self.leader.clone_from(&id);
        }
        self.enter(&id, to, request, protocols);
        self.members.get_mut(&id).unwrap().instance = Some(instance.to_owned());
        match self.state {
            // Its old assignment waits for it, unless the group would elect something else now.
            State::Stable if old.is_some() && self.elect() == self.protocol => {
                self.persist();
                let told = if to.version >= 9 { self.leader.clone() } else { leader };
                self.answer_join_as(now, &id, told, true);
            }
            State::Preparing => self.complete_if_all_are_in(now),
            _ => self.prepare(now),
        }
    }

    fn persist(&mut self) {
        let mut members = self.members.clone();
        for member in members.values_mut() {
            (member.join, member.sync) = (None, None);
        }
        self.persisted = (self.generation, self.protocol.clone(), self.leader.clone(), members);
    }

    /// The first protocol that all have in common.
    fn elect(&self) -> String {
        let common = |name: &str| self.members.values().all(|m| m.protocols.iter().any(|(n, _)| n == name));
        let any = self.members.values().next().expect("somebody elects");
        let elected = any.protocols.iter().map(|(name, _)| name).find(|name| common(name));
        elected.expect("members with nothing in common are not let in").clone()
    }

    fn prepare(&mut self, now: Nanos) {
        self.state = State::Preparing;
        self.rebalance_by = now + self.longest_rebalance();
        for member in self.members.values_mut() {
            if let Some(to) = member.sync.take() {
                member.expires = now + member.session;
                self.out.push((to, failure(to, ErrorCode::REBALANCE_IN_PROGRESS)));
            }
        }
        self.complete_if_all_are_in(now);
    }

    fn longest_rebalance(&self) -> Nanos {
        self.members.values().map(|m| m.rebalance).max().unwrap_or(0)
    }

    fn complete_if_all_are_in(&mut self, now: Nanos) {
        if self.state == State::Preparing && self.members.values().all(|m| m.join.is_some()) {
            self.complete(now);
        }
    }

    fn complete(&mut self, now: Nanos) {
        self.generation += 1;
        if self.members.is_empty() {
            self.state = State::Empty;
            return;
        }
        if self.members.get(&self.leader).is_none_or(|m| m.join.is_none()) {
            let there = self.members.iter().find(|(_, m)| m.join.is_some());
            self.leader.clone_from(there.expect("somebody has come").0);
        }
        self.protocol = self.elect();
        self.state = State::Completing;
        for member in self.members.values_mut() {
            member.absent = member.join.is_none();
        }
        for id in self.members.keys().cloned().collect::<Vec<_>>() {
            self.answer_join(now, &id);
        }
    }

    fn answer_join(&mut self, now: Nanos, id: &str) {
        self.answer_join_as(now, id, self.leader.clone(), false);
    }

    /// `returned`: a static member that goes on where it was; told another leader, it is not told the members.
    fn answer_join_as(&mut self, now: Nanos, id: &str, leader: String, returned: bool) {
        let protocol = self.protocol.clone();
        let all = self.members.iter().map(|(id, m)| JoinGroupResponseMember {
            member_id: Cow::Owned(id.clone()),
            group_instance_id: m.instance.clone().map(Cow::Owned),
            metadata: Cow::Owned(m.protocols.iter().find(|(n, _)| *n == protocol).map(|(_, b)| b.clone()).unwrap()),
        });
        let answer = JoinGroupResponse {
            generation_id: self.generation,
            protocol_type: None,
            protocol_name: Some(Cow::Owned(protocol.clone())),
            skip_assignment: returned && leader == id,
            members: if id == leader { all.collect() } else { Vec::new() },
            leader: Cow::Owned(leader),
            member_id: Cow::Owned(id.to_owned()),
            ..JoinGroupResponse::default()
        };
        let member = self.members.get_mut(id).unwrap();
        if let Some(to) = member.join.take() {
            member.absent = false;
            member.expires = now + member.session;
            self.answer(to, |version, out| answer.encode(version, out));
        }
    }

    fn sync(&mut self, now: Nanos, to: ReplyTo, request: &SyncGroupRequest<'_>) {
        if let Err(code) = self.validate(&request.member_id, request.group_instance_id.as_deref()) {
            return self.out.push((to, failure(to, code)));
        }
        let member = self.members.get_mut(request.member_id.as_ref()).unwrap();
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
                self.persist();
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

    fn heartbeat(&mut self, now: Nanos, id: &str, instance: Option<&str>, generation: i32) -> ErrorCode {
        if let Err(code) = self.validate(id, instance) {
            return code;
        }
        let member = self.members.get_mut(id).unwrap();
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
        } else if let Err(code) = self.validate(&request.member_id, request.group_instance_id.as_deref()) {
            code
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

    /// Metadata and assignments are told in stable groups only.
    fn describe(&mut self, to: ReplyTo) {
        let stable = self.state == State::Stable;
        let members = self.members.iter().map(|(id, m)| DescribedGroupMember {
            member_id: Cow::Owned(id.clone()),
            group_instance_id: m.instance.clone().map(Cow::Owned),
            member_metadata: Cow::Owned(
                m.protocols
                    .iter()
                    .find(|(n, _)| stable && *n == self.protocol)
                    .map(|(_, b)| b.clone())
                    .unwrap_or_default(),
            ),
            member_assignment: Cow::Owned(if stable { m.assignment.clone() } else { Vec::new() }),
            ..DescribedGroupMember::default()
        });
        let group = DescribedGroup {
            group_id: Cow::Borrowed("g"),
            group_state: Cow::Owned(format!("{:?}", self.state)),
            members: members.collect(),
            ..DescribedGroup::default()
        };
        let answer = DescribeGroupsResponse { groups: vec![group], ..DescribeGroupsResponse::default() };
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
