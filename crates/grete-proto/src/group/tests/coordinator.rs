//! Coordinator of one group for simulations: the coordinator of grete-broker on the simulator's clock, behind the node
//! that holds it at the time.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grete_broker::effects::group::{CommittedOffset, GroupChange};
use grete_broker::effects::{Change, Effects};
use grete_broker::group::api::{Lookup, commit_offsets, describe_groups, error_response, fetch_offsets};
use grete_broker::group::config::GroupConfig;
pub use grete_broker::group::state::GroupState;
use grete_broker::group::{GroupCoordinator, Requester};
use grete_broker::ids::{Millis, RequestId, TopicPartition as BrokerPartition};
use grete_broker::message::{Request as BrokerRequest, Response as BrokerResponse};
use grete_wire::messages::offset_commit::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
use grete_wire::messages::*;
use grete_wire::primitives::Reader;
use grete_wire::{ApiKey, ErrorCode, SegmentedBuf};

use crate::ids::TopicPartition;
use crate::request::Request;
use crate::time::{MILLI, Nanos};

/// Destination of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyTo {
    pub client: usize,
    pub connection: u64,
    pub token: u32,
    pub api: ApiKey,
    pub version: i16,
}

/// Topics of the simulation by name. Simulations that create no topics have every topic.
struct TopicIds<'a>(&'a BTreeMap<String, u128>);

impl Lookup for TopicIds<'_> {
    fn topic_id(&self, name: &str) -> Option<u128> {
        self.0.get(name).copied()
    }

    fn topic_name(&self, id: u128) -> Option<Arc<str>> {
        self.0.iter().find(|(_, known)| **known == id).map(|(name, _)| (&**name).into())
    }

    fn partition_count(&self, topic: u128) -> i32 {
        i32::from(self.0.values().any(|known| *known == topic))
    }

    fn has_partition(&self, topic: &str, _: i32) -> bool {
        self.0.is_empty() || self.0.contains_key(topic)
    }

    fn coordinator_error(&self, _: &str) -> Option<ErrorCode> {
        None // checked for each request
    }
}

#[derive(Debug)]
pub struct Coordinator {
    /// Node that coordinates now.
    pub node: i32,
    group: Arc<str>,
    groups: GroupCoordinator,
    effects: Effects,
    /// Requests without a response.
    waiting: BTreeMap<RequestId, ReplyTo>,
    last_request: u64,
    offsets: BTreeMap<TopicPartition, i64>,
    /// Members and the generations that they have joined. A static member may be absent from a generation.
    joined: BTreeSet<(String, i32)>,
    /// Topics without the permission to read.
    pub forbidden: BTreeSet<String>,
    /// Topic ids, in tests that create topics.
    pub topics: BTreeMap<String, u128>,
    pub out: Vec<(ReplyTo, Vec<u8>)>,
    /// Whether the offsets belong to an open transaction (not stable).
    pub unstable: bool,
}

fn millis(now: Nanos) -> Millis {
    Millis::try_from(now / MILLI).unwrap()
}

impl Coordinator {
    pub fn new(node: i32, group: &str) -> Self {
        Self {
            node,
            group: group.into(),
            groups: GroupCoordinator::new(GroupConfig::default(), 1),
            effects: Effects::default(),
            waiting: BTreeMap::new(),
            last_request: 0,
            offsets: BTreeMap::new(),
            joined: BTreeSet::new(),
            forbidden: BTreeSet::new(),
            topics: BTreeMap::new(),
            out: Vec::new(),
            unstable: false,
        }
    }

    /// Forgets the group with its offsets.
    pub fn forget(&mut self) {
        *self = Self { topics: std::mem::take(&mut self.topics), ..Self::new(self.node, &self.group) };
    }

    pub fn state(&self) -> GroupState {
        self.groups.state(&self.group).unwrap_or(GroupState::Empty)
    }

    pub fn generation(&self) -> i32 {
        self.groups.generation(&self.group).unwrap_or(0)
    }

    /// Returns the committed offsets.
    pub fn offsets(&self) -> &BTreeMap<TopicPartition, i64> {
        &self.offsets
    }

    /// Stores an offset as a tool does. `metadata`: `None` keeps what is stored.
    pub fn set_offset(&mut self, tp: &TopicPartition, offset: i64, leader_epoch: i32, metadata: Option<&str>) {
        let stored = BrokerPartition::new(Arc::clone(&tp.topic), tp.partition);
        let known = self.groups.fetch_offset(&self.group, &stored, false).ok().flatten();
        let kept = known.map(|known| Arc::clone(&known.metadata)).unwrap_or_default();
        let metadata = metadata.map_or(kept, Into::into);
        let committed = CommittedOffset { offset, leader_epoch, metadata, committed_at: 0, expires_at: None };
        let (group, offsets) = (Arc::clone(&self.group), vec![(stored, committed)]);
        self.groups.restore(GroupChange::Offsets { group, producer_id: None, offsets });
        self.offsets.insert(tp.clone(), offset);
    }

    /// Deletes a topic with its offsets.
    pub fn delete_topic(&mut self, topic: &str) {
        self.topics.remove(topic);
        self.groups.on_topic_deleted(topic, &mut self.effects);
        self.flush();
    }

    /// Returns whether the member is in the current generation.
    pub fn counts_in(&self, member_id: &str) -> bool {
        let members = self.groups.describe(0, &self.group).members;
        let is_joined = self.joined.contains(&(member_id.to_owned(), self.generation()));
        is_joined && members.iter().any(|member| *member.member_id == *member_id)
    }

    /// Returns whether a member holds the place of this instance id.
    pub fn keeps(&self, instance: &str) -> bool {
        let members = self.groups.describe(0, &self.group).members;
        members.iter().any(|member| member.group_instance_id.as_deref() == Some(instance))
    }

    /// Returns the time of the next timer.
    pub fn deadline(&self) -> Option<Nanos> {
        self.groups.deadline().map(|at| Nanos::try_from(at).unwrap_or(0) * MILLI)
    }

    pub fn tick(&mut self, now: Nanos) {
        self.groups.tick(millis(now), &mut self.effects);
        self.flush();
    }

    /// Moves the group to another node, with the state in the log. Open requests are answered with `code`.
    pub fn fail_over(&mut self, now: Nanos, node: i32, code: ErrorCode) {
        self.groups.fail_over(millis(now), |_| true, &mut self.effects);
        for (_, response) in &mut self.effects.replies {
            match response {
                BrokerResponse::JoinGroup(response) => response.error_code = code.0,
                BrokerResponse::SyncGroup(response) => response.error_code = code.0,
                _ => {}
            }
        }
        self.node = node;
        self.flush();
    }

    /// Handles a decoded request.
    pub fn handle(&mut self, now: Nanos, node: i32, to: ReplyTo, request: &Request) {
        let mut bytes = SegmentedBuf::default();
        request.encode_body(to.version, &mut bytes).expect("requests can be encoded in every version that is offered");
        self.handle_body(now, node, to, &bytes.to_vec());
    }

    /// Handles a request from the bytes of its body.
    pub fn handle_body(&mut self, now: Nanos, node: i32, to: ReplyTo, body: &[u8]) {
        let r = &mut Reader::new(body);
        let request = BrokerRequest::decode(to.api, to.version, r).unwrap();
        assert_eq!(r.finish(), Ok(()));
        self.last_request += 1;
        let id = RequestId(self.last_request);
        self.waiting.insert(id, to);
        if to.api != ApiKey::FindCoordinator && node != self.node {
            let refused = error_response(to.version, &request, ErrorCode::NOT_COORDINATOR).expect("a group's request");
            self.effects.reply(id, refused);
        } else {
            self.handle_request(millis(now), id, to.version, request);
        }
        self.flush();
    }

    fn handle_request(&mut self, now: Millis, id: RequestId, version: i16, request: BrokerRequest<'_>) {
        let requester = Requester { request: id, version, client_id: "member", client_host: "127.0.0.1" };
        let (groups, effects, topics) = (&mut self.groups, &mut self.effects, TopicIds(&self.topics));
        let response = match request {
            BrokerRequest::FindCoordinator(request) => {
                BrokerResponse::FindCoordinator(found(&request.coordinator_keys[0], self.node))
            }
            BrokerRequest::JoinGroup(request) => return groups.join(now, &requester, &request, effects),
            BrokerRequest::SyncGroup(request) => return groups.sync(now, &requester, &request, effects),
            BrokerRequest::Heartbeat(request) => return groups.heartbeat(now, &requester, &request, effects),
            BrokerRequest::LeaveGroup(request) => return groups.leave(now, &requester, &request, effects),
            BrokerRequest::DescribeGroups(request) => {
                BrokerResponse::DescribeGroups(describe_groups(groups, version, &request, &topics))
            }
            BrokerRequest::OffsetCommit(mut request) => {
                let is_forbidden = |topic: &mut OffsetCommitRequestTopic<'_>| {
                    let name = topics.topic_name(topic.topic_id).unwrap_or_else(|| (&*topic.name).into());
                    self.forbidden.contains(&*name)
                };
                let refused: Vec<_> = request.topics.extract_if(.., is_forbidden).collect();
                let mut response = commit_offsets(groups, now, version, &request, &topics, effects);
                response.topics.extend(refused.iter().map(refused_topic));
                BrokerResponse::OffsetCommit(response)
            }
            BrokerRequest::OffsetFetch(request) => {
                assert!(request.require_stable);
                let mut response = fetch_offsets(groups, version, &request, &topics);
                for topic in response.groups.iter_mut().flat_map(|group| &mut group.topics) {
                    let name = topics.topic_name(topic.topic_id).unwrap_or_else(|| (&*topic.name).into());
                    let code = match self.forbidden.contains(&*name) {
                        true => ErrorCode::TOPIC_AUTHORIZATION_FAILED,
                        false if self.unstable => ErrorCode::UNSTABLE_OFFSET_COMMIT,
                        false => continue,
                    };
                    for partition in &mut topic.partitions {
                        (partition.error_code, partition.committed_offset) = (code.0, -1);
                    }
                }
                BrokerResponse::OffsetFetch(response)
            }
            request => panic!("a member does not send {request:?} to its coordinator"),
        };
        self.effects.reply(id, response);
    }

    /// Encodes the responses, and follows the commits.
    fn flush(&mut self) {
        let Effects { replies, changes, .. } = std::mem::take(&mut self.effects);
        for change in changes {
            match change {
                Change::Group(GroupChange::Offsets { offsets, .. }) => {
                    let own = |tp: BrokerPartition| TopicPartition { topic: tp.topic, partition: tp.partition };
                    self.offsets.extend(offsets.into_iter().map(|(tp, committed)| (own(tp), committed.offset)));
                }
                Change::Group(GroupChange::OffsetsDeleted { partitions, .. }) => {
                    let is_deleted = |tp: &TopicPartition| {
                        partitions.iter().any(|gone| gone.topic == tp.topic && gone.partition == tp.partition)
                    };
                    self.offsets.retain(|tp, _| !is_deleted(tp));
                }
                Change::Group(GroupChange::Deleted { .. }) => self.offsets.clear(),
                _ => {}
            }
        }
        for (id, response) in replies {
            if let BrokerResponse::JoinGroup(joined) = &response
                && joined.error_code == 0
            {
                self.joined.insert((joined.member_id.to_string(), joined.generation_id));
            }
            let Some(to) = self.waiting.remove(&id) else { continue };
            let mut body = SegmentedBuf::default();
            response.encode(to.version, &mut body).expect("responses can be encoded");
            self.out.push((to, body.to_vec()));
        }
    }
}

fn found(key: &str, node_id: i32) -> FindCoordinatorResponse<'static> {
    let found = grete_wire::messages::Coordinator {
        key: Cow::Owned(key.to_owned()),
        node_id,
        host: Cow::Borrowed("localhost"),
        port: 9092,
        ..Default::default()
    };
    FindCoordinatorResponse { coordinators: vec![found], ..FindCoordinatorResponse::default() }
}

fn refused_topic(topic: &OffsetCommitRequestTopic<'_>) -> OffsetCommitResponseTopic<'static> {
    let error_code = ErrorCode::TOPIC_AUTHORIZATION_FAILED.0;
    let refused = |partition_index| OffsetCommitResponsePartition { partition_index, error_code };
    OffsetCommitResponseTopic {
        name: Cow::Owned(topic.name.to_string()),
        topic_id: topic.topic_id,
        partitions: topic.partitions.iter().map(|partition| refused(partition.partition_index)).collect(),
    }
}

/// Returns a response with only an error code, to a request without partitions.
pub fn failure(to: ReplyTo, code: ErrorCode) -> Vec<u8> {
    let request = match to.api {
        ApiKey::JoinGroup => BrokerRequest::JoinGroup(JoinGroupRequest::default()),
        ApiKey::SyncGroup => BrokerRequest::SyncGroup(SyncGroupRequest::default()),
        ApiKey::Heartbeat => BrokerRequest::Heartbeat(HeartbeatRequest::default()),
        ApiKey::ConsumerGroupHeartbeat => {
            BrokerRequest::ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest::default())
        }
        ApiKey::LeaveGroup => BrokerRequest::LeaveGroup(LeaveGroupRequest::default()),
        _ => return Vec::new(),
    };
    let response = error_response(to.version, &request, code).expect("a group's request");
    let mut out = SegmentedBuf::default();
    response.encode(to.version, &mut out).expect("responses can be encoded");
    out.to_vec()
}
