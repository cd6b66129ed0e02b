//! Tests of groups of the consumer protocol: a harness with topics and members that follow their assignments.

mod admin;
mod epochs;
mod offsets;
mod reconcile;
mod restore;
mod static_members;
mod subscriptions;
mod timers;

use std::borrow::Cow;
use std::collections::BTreeMap;

use grete_wire::ErrorCode;
use grete_wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequestTopicPartitions;
use grete_wire::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};

use super::Refusal;
use super::describe::ConsumerDescription;
use crate::effects::consumer_group::{OwnedPartitions, Partitions};
use crate::effects::group::GroupChange;
use crate::effects::{Change, Effects};
use crate::group::config::GroupConfig;
use crate::group::{GroupCoordinator, Requester};
use crate::ids::{Millis, RequestId, TopicId};

const GROUP: &str = "billing";
/// Ids of the topics that exist at the start.
const ORDERS: TopicId = 1;
const BILLS: TopicId = 2;

type Answer = Result<ConsumerGroupHeartbeatResponse<'static>, Refusal>;

/// Coordinator with a clock and topics.
struct Harness {
    coordinator: GroupCoordinator,
    now: Millis,
    /// Id and number of partitions by name.
    topics: BTreeMap<&'static str, (TopicId, i32)>,
    effects: Effects,
    changes: Vec<GroupChange>,
}

impl Harness {
    /// Creates a coordinator with the topics `orders` (4 partitions) and `bills` (2).
    fn new() -> Self {
        Self::with(GroupConfig::default())
    }

    fn with(config: GroupConfig) -> Self {
        Self {
            coordinator: GroupCoordinator::new(config, 1),
            now: 1_000_000,
            topics: BTreeMap::from([("orders", (ORDERS, 4)), ("bills", (BILLS, 2))]),
            effects: Effects::default(),
            changes: Vec::new(),
        }
    }

    fn collect(&mut self) {
        self.changes.extend(self.effects.changes.drain(..).map(|change| match change {
            Change::Group(change) => change,
            other => panic!("the coordinator changes groups only: {other:?}"),
        }));
    }

    fn send_version(&mut self, version: i16, request: &ConsumerGroupHeartbeatRequest<'_>) -> Answer {
        let requester = Requester { request: RequestId(1), version, client_id: "app", client_host: "127.0.0.1" };
        let topics = self.topics.clone();
        let find = |name: &str| topics.get(name).copied();
        let answer = self.coordinator.consumer_heartbeat(self.now, &requester, request, &find, &mut self.effects);
        self.collect();
        answer
    }

    fn send(&mut self, request: &ConsumerGroupHeartbeatRequest<'_>) -> Answer {
        self.send_version(1, request)
    }

    fn code(&mut self, request: &ConsumerGroupHeartbeatRequest<'_>) -> ErrorCode {
        self.send(request).map_or_else(|refusal| refusal.code, |_| ErrorCode::NONE)
    }

    fn description(&self) -> ConsumerDescription {
        self.coordinator.describe_consumer(GROUP).expect("a group of the consumer protocol")
    }

    /// Returns group epoch, epoch of the target assignment, and state.
    fn group(&self) -> (i32, i32, &'static str) {
        let description = self.description();
        (description.epoch, description.target_epoch, description.state)
    }

    fn pass(&mut self, ms: Millis) {
        self.now += ms;
        self.coordinator.tick(self.now, &mut self.effects);
        self.collect();
        let deadline = self.coordinator.deadline();
        assert!(deadline.is_none_or(|at| at > self.now), "a timer that is due fires in tick: {deadline:?}");
    }
}

/// Request of a member of the group that says nothing but its epoch.
fn beat(member_id: &str, epoch: i32) -> ConsumerGroupHeartbeatRequest<'_> {
    ConsumerGroupHeartbeatRequest {
        group_id: Cow::Borrowed(GROUP),
        member_id: Cow::Borrowed(member_id),
        member_epoch: epoch,
        ..ConsumerGroupHeartbeatRequest::default()
    }
}

/// Request of a member that joins.
fn join<'a>(member_id: &'a str, topics: &[&'a str]) -> ConsumerGroupHeartbeatRequest<'a> {
    ConsumerGroupHeartbeatRequest {
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(topics.iter().copied().map(Cow::Borrowed).collect()),
        topic_partitions: Some(Vec::new()),
        ..beat(member_id, 0)
    }
}

/// Client of a member: keeps epoch and assignment, and reports what it has.
struct Client {
    id: &'static str,
    epoch: i32,
    owned: BTreeMap<TopicId, Vec<i32>>,
}

impl Client {
    fn join(h: &mut Harness, id: &'static str, topics: &[&str]) -> Self {
        let mut client = Self { id, epoch: 0, owned: BTreeMap::new() };
        let response = h.send(&join(id, topics)).expect("accepted");
        client.learn(&response);
        client
    }

    fn owned(&self) -> Vec<ConsumerGroupHeartbeatRequestTopicPartitions> {
        let owned = self.owned.iter();
        let topic = |(topic_id, partitions): (&TopicId, &Vec<i32>)| ConsumerGroupHeartbeatRequestTopicPartitions {
            topic_id: *topic_id,
            partitions: partitions.clone(),
        };
        owned.map(topic).collect()
    }

    fn learn(&mut self, response: &ConsumerGroupHeartbeatResponse<'_>) {
        self.epoch = response.member_epoch;
        if let Some(assignment) = &response.assignment {
            let topics = assignment.topic_partitions.iter();
            self.owned = topics.map(|topic| (topic.topic_id, topic.partitions.clone())).collect();
        }
    }

    /// Sends a heartbeat with the partitions that the member has. It gives up and takes partitions at once.
    fn beat(&mut self, h: &mut Harness) -> Result<(), Refusal> {
        let request =
            ConsumerGroupHeartbeatRequest { topic_partitions: Some(self.owned()), ..beat(self.id, self.epoch) };
        let response = h.send(&request)?;
        self.learn(&response);
        Ok(())
    }

    fn count(&self) -> usize {
        self.owned.values().map(Vec::len).sum()
    }
}

/// Lets the members send heartbeats until the group is stable.
fn settle(h: &mut Harness, clients: &mut [&mut Client]) {
    for _ in 0..10 {
        for client in clients.iter_mut() {
            client.beat(h).expect("accepted");
        }
        if h.group().2 == "Stable" {
            return;
        }
    }
    panic!("the group is {:?} after 10 heartbeats of each member", h.description());
}

fn keys(owned: &OwnedPartitions) -> Partitions {
    owned.iter().map(|(topic, owned)| (*topic, owned.keys().copied().collect())).collect()
}
