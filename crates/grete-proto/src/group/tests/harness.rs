//! Test harness for one group; the test plays the coordinator.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grete_wire::frame::Frame;
use grete_wire::messages::*;
use grete_wire::{ApiKey, ErrorCode, WireError};

use super::coordinator::{ReplyTo, failure};
use crate::group::assignor::racks::{Racks, ReplicaRacks};
use crate::group::consumer_protocol::{decode_subscription, encode_assignment};
use crate::group::{
    Assignor, CommitError, CommitOutcome, ConsumerGroup, GroupAction, GroupConfig, GroupEvent, TopicMetadataView,
};
use crate::ids::TopicPartition;
use crate::request::{OutboundRequest, Reply, Request, RequestError, Response};
use crate::rng::Rng;
use crate::time::{Nanos, SECOND};

/// Partition counts by name, names by id, the finalized `group.version`, and concealed topics, and
/// racks of replicas.
pub struct FakeTopicMetadata(
    pub BTreeMap<String, i32>,
    pub BTreeMap<u128, String>,
    pub Option<i16>,
    pub BTreeSet<&'static str>,
    pub ReplicaRacks,
);

impl TopicMetadataView for FakeTopicMetadata {
    fn partition_count(&self, topic: &str) -> Option<i32> {
        self.0.get(topic).copied()
    }

    fn replica_racks(&self, topic: &str) -> Vec<Racks> {
        self.4.get(topic).cloned().unwrap_or_default()
    }

    fn topic_id(&self, topic: &str) -> Option<u128> {
        self.1.iter().find(|(_, name)| *name == topic).map(|(id, _)| *id)
    }

    fn topic_name(&self, id: u128) -> Option<Arc<str>> {
        self.1.get(&id).map(|name| name.as_str().into())
    }

    fn group_version(&self) -> Option<i16> {
        self.2
    }

    fn is_concealed(&self, topic: &str) -> bool {
        self.3.contains(topic)
    }
}

pub struct Harness {
    pub group: ConsumerGroup,
    pub now: Nanos,
    pub view: FakeTopicMetadata,
    pub actions: Vec<GroupAction>,
    pub sent: Vec<OutboundRequest>,
    pub generation: i32,
}

pub fn tp(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

pub fn tps(partitions: &[i32]) -> Vec<TopicPartition> {
    partitions.iter().map(|p| tp(*p)).collect()
}

/// Node of the coordinator, unless a test moves it.
pub const NODE: i32 = 7;
/// Member id from the coordinator.
pub const ID: &str = "m-1";

impl Harness {
    pub fn new() -> Self {
        Self::with(GroupConfig::new("g"))
    }

    pub fn with(config: GroupConfig) -> Self {
        Self {
            group: ConsumerGroup::new(config, Rng::new(1)),
            now: 1000 * SECOND,
            view: FakeTopicMetadata(
                [("t".to_owned(), 4)].into(),
                BTreeMap::new(),
                None,
                BTreeSet::new(),
                ReplicaRacks::new(),
            ),
            actions: Vec::new(),
            sent: Vec::new(),
            generation: 0,
        }
    }

    pub fn eager() -> Self {
        Self::with(GroupConfig {
            assignors: vec![Assignor::CooperativeSticky, Assignor::Range],
            ..GroupConfig::new("g")
        })
    }

    pub fn step(&mut self, event: GroupEvent) {
        let mut out = Vec::new();
        self.group.step(self.now, event, &self.view, &mut out);
        for action in out {
            match action {
                GroupAction::Send(outgoing) => self.sent.push(outgoing),
                other => self.actions.push(other),
            }
        }
    }

    /// Advances the clock, deadline by deadline, without any response.
    pub fn advance(&mut self, time: Nanos) {
        let end = self.now + time;
        while let Some(deadline) = self.group.deadline().filter(|deadline| *deadline <= end) {
            self.now = self.now.max(deadline);
            self.step(GroupEvent::Tick);
            assert!(self.group.deadline().is_none_or(|d| d > self.now), "a tick at {deadline} did nothing");
        }
        self.now = end;
    }

    /// Advances the clock and answers heartbeats successfully.
    pub fn pass_with_heartbeats(&mut self, time: Nanos) {
        let end = self.now + time;
        while self.now < end {
            self.advance(SECOND.min(end - self.now));
            while let Some(heartbeat) = self.try_take(ApiKey::Heartbeat) {
                self.refuse(&heartbeat, ErrorCode::NONE);
            }
        }
    }

    pub fn try_take(&mut self, api: ApiKey) -> Option<OutboundRequest> {
        let at = self.sent.iter().position(|outgoing| outgoing.request.api() == api)?;
        Some(self.sent.remove(at))
    }

    /// Returns the oldest request of this kind.
    #[track_caller]
    pub fn take(&mut self, api: ApiKey) -> OutboundRequest {
        let sent: Vec<_> = self.sent.iter().map(|outgoing| outgoing.request.api()).collect();
        self.try_take(api).unwrap_or_else(|| panic!("no {api} among {sent:?}; {:?}", self.group.state_name()))
    }

    #[track_caller]
    pub fn sends_no(&self, api: ApiKey) {
        assert!(self.sent.iter().all(|outgoing| outgoing.request.api() != api), "{api} was sent");
    }

    pub fn answer(&mut self, to: &OutboundRequest, encode: impl FnOnce(i16, &mut Vec<u8>) -> Result<(), WireError>) {
        let api = to.request.api();
        let version = (*api.ours().end()).min(to.request.max_version());
        let mut body = Vec::new();
        encode(version, &mut body).unwrap();
        self.reply(to, Ok(Response { api, version, frame: Frame::from(body), body: 0 }));
    }

    pub fn reply(&mut self, to: &OutboundRequest, result: Result<Response, RequestError>) {
        self.step(GroupEvent::Reply(Reply { token: to.token, node: NODE, result }));
    }

    pub fn fail(&mut self, to: &OutboundRequest, error: RequestError) {
        self.reply(to, Err(error));
    }

    /// Answers with only an error code.
    pub fn refuse(&mut self, to: &OutboundRequest, code: ErrorCode) {
        let api = to.request.api();
        let version = (*api.ours().end()).min(to.request.max_version());
        let to_bytes = ReplyTo { client: 0, connection: 0, token: to.token.id, api, version };
        let body = failure(to_bytes, code);
        self.reply(to, Ok(Response { api, version, frame: Frame::from(body), body: 0 }));
    }

    pub fn start(&mut self) {
        self.step(GroupEvent::Subscribe { topics: vec!["t".into()] });
    }

    pub fn locate(&mut self, node: i32) {
        let asked = self.take(ApiKey::FindCoordinator);
        let found = Coordinator {
            key: Cow::Borrowed("g"),
            node_id: node,
            host: Cow::Borrowed("host"),
            port: 9092,
            ..Coordinator::default()
        };
        let answer = FindCoordinatorResponse { coordinators: vec![found], ..FindCoordinatorResponse::default() };
        self.answer(&asked, |version, out| answer.encode(version, out));
    }

    /// Answers JoinGroup: a new generation with another leader.
    pub fn answer_join(&mut self, asked: &OutboundRequest, protocol: Assignor) {
        self.generation += 1;
        let answer = JoinGroupResponse {
            generation_id: self.generation,
            protocol_name: Some(Cow::Borrowed(protocol.name())),
            leader: Cow::Borrowed("other"),
            member_id: Cow::Borrowed(ID),
            ..JoinGroupResponse::default()
        };
        self.answer(asked, |version, out| answer.encode(version, out));
    }

    pub fn assign(&mut self, asked: &OutboundRequest, partitions: &[i32]) {
        let assignment = Cow::Owned(encode_assignment(&tps(partitions)).unwrap());
        let answer = SyncGroupResponse { assignment, ..SyncGroupResponse::default() };
        self.answer(asked, |version, out| answer.encode(version, out));
    }

    /// Completes a rebalance, from JoinGroup to the assignment.
    pub fn complete_rebalance(&mut self, partitions: &[i32]) {
        let join = self.take(ApiKey::JoinGroup);
        self.answer_join(&join, Assignor::CooperativeSticky);
        let sync = self.take(ApiKey::SyncGroup);
        self.assign(&sync, partitions);
    }

    /// Joins from the start, up to the assignment and its positions.
    pub fn join(&mut self, partitions: &[i32]) {
        self.start();
        self.locate(NODE);
        let first = self.take(ApiKey::JoinGroup);
        let answer = JoinGroupResponse {
            error_code: ErrorCode::MEMBER_ID_REQUIRED.0,
            member_id: Cow::Borrowed(ID),
            protocol_name: Some(Cow::Borrowed("")),
            ..JoinGroupResponse::default()
        };
        self.answer(&first, |version, out| answer.encode(version, out));
        self.complete_rebalance(partitions);
        self.load(&[]);
        self.actions.clear();
    }

    /// Answers a heartbeat with REBALANCE_IN_PROGRESS.
    pub fn rebalance(&mut self) {
        let heartbeat = self.next_heartbeat();
        self.refuse(&heartbeat, ErrorCode::REBALANCE_IN_PROGRESS);
    }

    pub fn next_heartbeat(&mut self) -> OutboundRequest {
        if let Some(heartbeat) = self.try_take(ApiKey::Heartbeat) {
            return heartbeat;
        }
        self.advance(3 * SECOND);
        self.take(ApiKey::Heartbeat)
    }

    /// Answers OffsetFetch with these offsets; other partitions have no commit.
    pub fn load(&mut self, offsets: &[(i32, i64)]) {
        let Some(asked) = self.try_take(ApiKey::OffsetFetch) else { return };
        let Request::OffsetFetch(request) = &asked.request else { unreachable!() };
        let asked_for = request.groups[0].topics.as_ref().unwrap()[0].partition_indexes.clone();
        let offset = |p: i32| offsets.iter().find(|(q, _)| *q == p).map_or(-1, |(_, offset)| *offset);
        let found: Vec<_> = asked_for.iter().map(|&p| (p, offset(p), ErrorCode::NONE)).collect();
        self.answer_offsets(&asked, ErrorCode::NONE, &found);
    }

    pub fn answer_offsets(&mut self, asked: &OutboundRequest, group_error: ErrorCode, found: &[(i32, i64, ErrorCode)]) {
        let partitions = found.iter().map(|(partition, offset, code)| OffsetFetchResponsePartitions {
            partition_index: *partition,
            committed_offset: *offset,
            error_code: code.0,
            ..OffsetFetchResponsePartitions::default()
        });
        let topic = OffsetFetchResponseTopics {
            name: Cow::Borrowed("t"),
            partitions: partitions.collect(),
            ..OffsetFetchResponseTopics::default()
        };
        let group =
            OffsetFetchResponseGroup { group_id: Cow::Borrowed("g"), topics: vec![topic], error_code: group_error.0 };
        let answer = OffsetFetchResponse { groups: vec![group], ..OffsetFetchResponse::default() };
        self.answer(asked, |version, out| answer.encode(version, out));
    }

    pub fn answer_commit(&mut self, asked: &OutboundRequest, codes: &[(i32, ErrorCode)]) {
        let partitions =
            codes.iter().map(|(p, code)| OffsetCommitResponsePartition { partition_index: *p, error_code: code.0 });
        let topic = OffsetCommitResponseTopic {
            name: Cow::Borrowed("t"),
            partitions: partitions.collect(),
            ..OffsetCommitResponseTopic::default()
        };
        let answer = OffsetCommitResponse { topics: vec![topic], ..OffsetCommitResponse::default() };
        self.answer(asked, |version, out| answer.encode(version, out));
    }

    pub fn commit(&mut self, id: u32, offsets: &[(i32, i64)]) {
        let epoch_of = |p: i32| self.group.assignment().find(|(owned, _)| **owned == tp(p)).map_or(0, |(_, e)| e);
        let offsets = offsets.iter().map(|(p, offset)| super::simulator::commit(&tp(*p), *offset, epoch_of(*p)));
        let offsets = offsets.collect();
        self.step(GroupEvent::Commit { offsets, id });
    }

    /// Returns the result of a commit with a waiting caller.
    #[track_caller]
    pub fn result(&mut self, id: u32) -> Vec<(i32, i64, Result<(), CommitError>)> {
        let at = self.actions.iter().position(|a| matches!(a, GroupAction::CommitResult { id: of, .. } if *of == id));
        let at = at.unwrap_or_else(|| panic!("commit {id} is not done: {:?}", self.actions));
        let GroupAction::CommitResult { results, .. } = self.actions.remove(at) else { unreachable!() };
        results.into_iter().map(|CommitOutcome { tp, offset, result }| (tp.partition, offset, result)).collect()
    }

    pub fn is_done(&self, id: u32) -> bool {
        self.actions.iter().any(|a| matches!(a, GroupAction::CommitResult { id: of, .. } if *of == id))
    }

    /// Returns the assignments, revocations and losses since the last call, as text.
    pub fn log_texts(&mut self) -> Vec<String> {
        let show = |tps: &[TopicPartition]| tps.iter().map(|tp| tp.partition.to_string()).collect::<Vec<_>>().join(" ");
        let words = std::mem::take(&mut self.actions).into_iter().filter_map(|action| match action {
            GroupAction::Assign { tps, .. } => Some(format!("assign {}", show(&tps))),
            GroupAction::Revoke { tps, .. } => Some(format!("revoke {}", show(&tps))),
            GroupAction::RevocationExpired { tps, .. } => Some(format!("expired {}", show(&tps))),
            GroupAction::Lost { tps } => Some(format!("lost {}", show(&tps))),
            GroupAction::Left => Some("left".to_owned()),
            GroupAction::Fatal(error) => Some(format!("fatal {error}")),
            _ => None,
        });
        words.collect()
    }

    /// Returns epoch and deadline of the open revocation.
    #[track_caller]
    pub fn revocation(&self) -> (u32, Nanos) {
        let found = self.actions.iter().rev().find_map(|action| match action {
            GroupAction::Revoke { epoch, deadline, .. } => Some((*epoch, *deadline)),
            _ => None,
        });
        found.expect("something is being revoked")
    }

    pub fn ack(&mut self) {
        let (epoch, _) = self.revocation();
        self.step(GroupEvent::RevocationAcked { epoch });
    }

    pub fn epoch(&self, partition: i32) -> Option<u32> {
        self.group.assignment().find(|(owned, _)| **owned == tp(partition)).map(|(_, epoch)| epoch)
    }
}

pub fn join_request(outgoing: &OutboundRequest) -> &JoinGroupRequest<'static> {
    match &outgoing.request {
        Request::JoinGroup(request) => request,
        other => panic!("{other:?}"),
    }
}

/// Returns the claim in a JoinGroup: partitions and generation.
pub fn claim(outgoing: &OutboundRequest) -> (Vec<i32>, i32) {
    let claim =
        decode_subscription(Assignor::CooperativeSticky, ID, None, &join_request(outgoing).protocols[0].metadata);
    (claim.owned.iter().map(|tp| tp.partition).collect(), claim.generation)
}

/// Returns the metadata in an OffsetCommit.
pub fn metadata(outgoing: &OutboundRequest) -> Vec<String> {
    let Request::OffsetCommit(request) = &outgoing.request else { panic!("{outgoing:?}") };
    let partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
    partitions.map(|p| p.committed_metadata.as_deref().unwrap_or("none").to_owned()).collect()
}

/// Returns the content of an OffsetCommit: generation, and partitions with offsets.
pub fn committed(outgoing: &OutboundRequest) -> (i32, Vec<(i32, i64)>) {
    let Request::OffsetCommit(request) = &outgoing.request else { panic!("{outgoing:?}") };
    let partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
    let offsets = partitions.map(|p| (p.partition_index, p.committed_offset)).collect();
    (request.generation_id_or_member_epoch, offsets)
}
