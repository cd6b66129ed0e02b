//! Tests of the coordinator: a harness that sends requests and keeps responses and changes.

mod admin;
mod api;
mod join;
mod offsets;
mod property;
mod restore;
mod session;
mod static_members;
mod sync;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::leave_group::MemberIdentity;
use grete_wire::messages::*;

use super::config::GroupConfig;
use super::offsets::{CommitResult, MemberClaim};
use super::{GroupCoordinator, Requester};
use crate::effects::group::{CommittedOffset, GroupChange};
use crate::effects::{Change, Effects};
use crate::ids::{Millis, RequestId, TopicPartition};
use crate::message::Response;

pub(super) const GROUP: &str = "orders";
const SESSION_MS: i32 = 10_000;
const REBALANCE_MS: i32 = 60_000;

/// JoinGroup of a consumer.
#[derive(Clone)]
pub(super) struct Join<'a> {
    pub(super) version: i16,
    pub(super) member_id: &'a str,
    pub(super) instance_id: Option<&'a str>,
    pub(super) protocol_type: &'a str,
    pub(super) protocols: Vec<(&'a str, Vec<u8>)>,
    pub(super) session_ms: i32,
    pub(super) rebalance_ms: i32,
}

impl Default for Join<'_> {
    fn default() -> Self {
        Self {
            version: 9,
            member_id: "",
            instance_id: None,
            protocol_type: "consumer",
            protocols: vec![("range", subscription("orders"))],
            session_ms: SESSION_MS,
            rebalance_ms: REBALANCE_MS,
        }
    }
}

/// Returns the metadata of a consumer that reads one topic.
pub(super) fn subscription(topic: &str) -> Vec<u8> {
    let mut bytes = vec![0, 1];
    let subscription =
        ConsumerProtocolSubscription { topics: vec![Cow::Borrowed(topic)], ..ConsumerProtocolSubscription::default() };
    subscription.encode(1, &mut bytes).unwrap();
    bytes
}

pub(super) fn offset(offset: i64, committed_at: Millis) -> CommittedOffset {
    CommittedOffset { offset, leader_epoch: 3, metadata: Arc::from("note"), committed_at, expires_at: None }
}

pub(super) fn tp(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition::new(topic, partition)
}

/// Coordinator with a clock.
pub(super) struct Harness {
    pub(super) coordinator: GroupCoordinator,
    pub(super) now: Millis,
    pub(super) effects: Effects,
    pub(super) changes: Vec<GroupChange>,
    replies: BTreeMap<RequestId, Response>,
    requests: u64,
}

impl Harness {
    pub(super) fn new() -> Self {
        Self::with(GroupConfig::default())
    }

    pub(super) fn with(config: GroupConfig) -> Self {
        Self {
            coordinator: GroupCoordinator::new(config, 1),
            now: 1_000_000,
            effects: Effects::default(),
            changes: Vec::new(),
            replies: BTreeMap::new(),
            requests: 0,
        }
    }

    /// Keeps the effects of an event.
    pub(super) fn collect(&mut self) {
        for (request, response) in self.effects.replies.drain(..) {
            assert!(request.0 <= self.requests, "only requests are answered");
            assert!(self.replies.insert(request, response).is_none(), "each request is answered once");
        }
        self.changes.extend(self.effects.changes.drain(..).map(|change| match change {
            Change::Group(change) => change,
            other => panic!("the coordinator changes groups only: {other:?}"),
        }));
    }

    fn next_request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(self.requests)
    }

    /// Sends JoinGroup, and returns the request.
    pub(super) fn send_join(&mut self, join: &Join<'_>) -> RequestId {
        let request = self.next_request();
        let requester = Requester { request, version: join.version, client_id: "app", client_host: "127.0.0.1" };
        let body = JoinGroupRequest {
            group_id: Cow::Borrowed(GROUP),
            session_timeout_ms: join.session_ms,
            rebalance_timeout_ms: join.rebalance_ms,
            member_id: Cow::Borrowed(join.member_id),
            group_instance_id: join.instance_id.map(Cow::Borrowed),
            protocol_type: Cow::Borrowed(join.protocol_type),
            protocols: join
                .protocols
                .iter()
                .map(|(name, metadata)| JoinGroupRequestProtocol {
                    name: Cow::Borrowed(*name),
                    metadata: Cow::Borrowed(metadata.as_slice()),
                })
                .collect(),
            reason: None,
        };
        self.coordinator.join(self.now, &requester, &body, &mut self.effects);
        self.collect();
        request
    }

    /// Returns the response to JoinGroup, if there is one.
    pub(super) fn joined(&self, request: RequestId) -> Option<&JoinGroupResponse<'static>> {
        self.replies.get(&request).map(|response| match response {
            Response::JoinGroup(response) => response,
            other => panic!("not a JoinGroup response: {other:?}"),
        })
    }

    pub(super) fn is_answered(&self, request: RequestId) -> bool {
        self.replies.contains_key(&request)
    }

    /// Sends JoinGroup without a member id, and returns the assigned one.
    pub(super) fn ask_member_id(&mut self) -> String {
        let request = self.send_join(&Join::default());
        let response = self.joined(request).expect("a new dynamic member is answered at once");
        assert_eq!(response.error_code, ErrorCode::MEMBER_ID_REQUIRED.0);
        response.member_id.to_string()
    }

    /// Sends the JoinGroup of a known member.
    pub(super) fn rejoin(&mut self, member_id: &str) -> RequestId {
        self.send_join(&Join { member_id, ..Join::default() })
    }

    pub(super) fn join_code(&self, request: RequestId) -> ErrorCode {
        ErrorCode(self.joined(request).expect("JoinGroup is answered").error_code)
    }

    /// Sends SyncGroup, and returns the request.
    pub(super) fn send_sync(&mut self, member_id: &str, generation: i32, assignments: &[(&str, &[u8])]) -> RequestId {
        self.send_sync_request(&SyncGroupRequest {
            group_id: Cow::Borrowed(GROUP),
            generation_id: generation,
            member_id: Cow::Borrowed(member_id),
            assignments: assignments
                .iter()
                .map(|(id, bytes)| SyncGroupRequestAssignment {
                    member_id: Cow::Borrowed(*id),
                    assignment: Cow::Borrowed(*bytes),
                })
                .collect(),
            ..SyncGroupRequest::default()
        })
    }

    pub(super) fn send_sync_request(&mut self, body: &SyncGroupRequest<'_>) -> RequestId {
        let request = self.next_request();
        let version = if body.protocol_type.is_some() { 5 } else { 4 };
        let requester = Requester { request, version, client_id: "app", client_host: "127.0.0.1" };
        self.coordinator.sync(self.now, &requester, body, &mut self.effects);
        self.collect();
        request
    }

    /// Returns error code and assignment of the response to SyncGroup, if there is one.
    pub(super) fn synced(&self, request: RequestId) -> Option<(ErrorCode, Vec<u8>)> {
        self.replies.get(&request).map(|response| match response {
            Response::SyncGroup(response) => (ErrorCode(response.error_code), response.assignment.to_vec()),
            other => panic!("not a SyncGroup response: {other:?}"),
        })
    }

    pub(super) fn heartbeat_as(&mut self, member_id: &str, instance: Option<&str>, generation: i32) -> ErrorCode {
        let request = self.next_request();
        let requester = Requester { request, version: 4, client_id: "app", client_host: "127.0.0.1" };
        let body = HeartbeatRequest {
            group_id: Cow::Borrowed(GROUP),
            generation_id: generation,
            member_id: Cow::Borrowed(member_id),
            group_instance_id: instance.map(Cow::Borrowed),
        };
        self.coordinator.heartbeat(self.now, &requester, &body, &mut self.effects);
        self.collect();
        match self.replies.get(&request) {
            Some(Response::Heartbeat(response)) => ErrorCode(response.error_code),
            other => panic!("Heartbeat is answered at once: {other:?}"),
        }
    }

    pub(super) fn heartbeat(&mut self, member_id: &str, generation: i32) -> ErrorCode {
        self.heartbeat_as(member_id, None, generation)
    }

    /// Sends LeaveGroup with member id and instance id of each member, and returns the whole response.
    pub(super) fn leave_all(&mut self, version: i16, members: &[(&str, Option<&str>)]) -> LeaveGroupResponse<'static> {
        let request = self.next_request();
        let requester = Requester { request, version, client_id: "app", client_host: "127.0.0.1" };
        let identities = members.iter().map(|(id, instance)| MemberIdentity {
            member_id: Cow::Borrowed(*id),
            group_instance_id: instance.map(Cow::Borrowed),
            reason: None,
        });
        let body = LeaveGroupRequest {
            group_id: Cow::Borrowed(GROUP),
            member_id: Cow::Borrowed(members[0].0),
            members: identities.collect(),
        };
        self.coordinator.leave(self.now, &requester, &body, &mut self.effects);
        self.collect();
        match self.replies.get(&request) {
            Some(Response::LeaveGroup(response)) => response.clone(),
            other => panic!("LeaveGroup is answered at once: {other:?}"),
        }
    }

    pub(super) fn leave(&mut self, member_id: &str) -> ErrorCode {
        ErrorCode(self.leave_all(5, &[(member_id, None)]).members[0].error_code)
    }

    pub(super) fn commit(&mut self, member_id: &str, generation: i32, value: i64) -> CommitResult {
        let claim = MemberClaim { group: GROUP, generation, member_id, instance_id: None };
        let offsets = vec![(tp("orders", 0), offset(value, self.now))];
        let result = self.coordinator.commit(self.now, 9, &claim, offsets, &mut self.effects);
        self.collect();
        result
    }

    pub(super) fn txn_commit(&mut self, producer_id: i64, value: i64) -> CommitResult {
        let claim = MemberClaim { group: GROUP, generation: -1, member_id: "", instance_id: None };
        let offsets = vec![(tp("orders", 0), offset(value, self.now))];
        let result = self.coordinator.txn_commit(self.now, producer_id, &claim, offsets, &mut self.effects);
        self.collect();
        result
    }

    /// Returns the committed offset of partition orders-0.
    pub(super) fn committed(&self) -> Option<i64> {
        self.coordinator.fetch_offset(GROUP, &tp("orders", 0), false).unwrap().map(|offset| offset.offset)
    }

    /// Lets time pass, and fires the timers on the way at their times.
    pub(super) fn pass(&mut self, ms: Millis) {
        let end = self.now + ms;
        while let Some(at) = self.coordinator.deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.tick();
        }
        self.now = end;
    }

    /// Fires the timers that are due now.
    pub(super) fn tick(&mut self) {
        self.coordinator.tick(self.now, &mut self.effects);
        self.collect();
        let deadline = self.coordinator.deadline();
        assert!(deadline.is_none_or(|at| at > self.now), "a timer that is due fires in tick: {deadline:?}");
    }

    pub(super) fn state(&self) -> String {
        self.coordinator.state(GROUP).map_or_else(|| "Dead".to_owned(), |state| state.to_string())
    }

    /// Forms a stable group of dynamic members. Returns the member ids, the leader first, and the generation. Each
    /// member's assignment is its own id.
    pub(super) fn stable(&mut self, members: usize) -> (Vec<String>, i32) {
        let ids: Vec<String> = (0..members).map(|_| self.ask_member_id()).collect();
        let mut requests: Vec<_> = ids.iter().map(|id| self.rejoin(id)).collect();
        if members > 1 {
            // The first member joined alone, and the others started a rebalance.
            requests[0] = self.rejoin(&ids[0]);
        }
        let response = self.joined(requests[0]).expect("all members have joined");
        let (generation, leader) = (response.generation_id, response.leader.to_string());
        let assignments: Vec<_> = ids.iter().map(|id| (id.as_str(), id.as_bytes())).collect();
        for id in ids.iter().filter(|id| **id != leader) {
            self.send_sync(id, generation, &[]);
        }
        let request = self.send_sync(&leader, generation, &assignments);
        assert_eq!(self.synced(request), Some((ErrorCode::NONE, leader.clone().into_bytes())));
        let mut sorted = ids.clone();
        sorted.sort_by_key(|id| *id != leader);
        (sorted, generation)
    }
}
