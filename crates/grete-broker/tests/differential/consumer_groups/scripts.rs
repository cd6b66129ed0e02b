//! Sequences of requests.

use grete_wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequestTopicPartitions as Owned;
use grete_wire::messages::*;

use super::{Client, Script, s};

mod offsets;
mod share;

/// All sequences.
pub const ALL: [Script; 12] = [
    ("validation", validation),
    ("epochs", epochs),
    ("moves", moves),
    ("assignors", assignors),
    ("static", statics),
    ("no-topics", no_topics),
    ("subscriptions", subscriptions),
    ("offsets", offsets::offsets),
    ("protocols", offsets::protocols),
    ("share-records", share::records),
    ("share-batches", share::whole_batches),
    ("share-refusals", share::refusals),
];

type Heartbeat = ConsumerGroupHeartbeatRequest<'static>;

/// Heartbeat that says nothing but its epoch.
pub fn beat(member: &str, epoch: i32) -> Heartbeat {
    Heartbeat { member_id: s(member), member_epoch: epoch, ..Default::default() }
}

/// Heartbeat of a member that joins; without topics.
pub fn join(member: &str) -> Heartbeat {
    Heartbeat { rebalance_timeout_ms: 60_000, topic_partitions: Some(Vec::new()), ..beat(member, 0) }
}

fn with_instance(request: Heartbeat, instance: &str) -> Heartbeat {
    Heartbeat { instance_id: Some(s(instance)), ..request }
}

impl Client {
    /// Heartbeat in the group `g`.
    fn send(&mut self, request: Heartbeat) -> crate::tree::Tree {
        let request = Heartbeat { group_id: s(self.name("g")), ..request };
        self.tell(1, &request)
    }

    fn topics(&self, topics: &[&str]) -> Option<Vec<std::borrow::Cow<'static, str>>> {
        Some(topics.iter().map(|topic| s(self.name(topic))).collect())
    }

    fn join(&mut self, member: &str, topics: &[&str]) {
        let request = Heartbeat { subscribed_topic_names: self.topics(topics), ..join(member) };
        self.send(request);
    }

    fn beat(&mut self, member: &str, epoch: i32) {
        self.send(beat(member, epoch));
    }

    /// Heartbeat with the partitions of the topic `t`.
    fn owning(&self, request: Heartbeat, partitions: &[i32]) -> Heartbeat {
        let owned = Owned { topic_id: self.topic_id("t"), partitions: partitions.to_vec() };
        let owned = if partitions.is_empty() { Vec::new() } else { vec![owned] };
        Heartbeat { topic_partitions: Some(owned), ..request }
    }

    fn beat_owning(&mut self, member: &str, epoch: i32, partitions: &[i32]) {
        let request = self.owning(beat(member, epoch), partitions);
        self.send(request);
    }

    /// Lists and describes the group, by all APIs.
    fn look(&mut self) {
        let group = s(self.name("g"));
        self.tell(5, &ListGroupsRequest::default());
        for version in [0, 1] {
            let group_ids = vec![group.clone()];
            let request = ConsumerGroupDescribeRequest { group_ids, include_authorized_operations: version == 1 };
            self.tell(version, &request);
        }
        for version in [5, 6] {
            let groups = vec![group.clone()];
            self.tell(version, &DescribeGroupsRequest { groups, include_authorized_operations: false });
        }
    }

    fn commit(&mut self, version: i16, member: &str, epoch: i32, partition: i32) {
        let partition = OffsetCommitRequestPartition {
            partition_index: partition,
            committed_offset: 7,
            committed_metadata: Some(s("")),
            ..Default::default()
        };
        let topic =
            OffsetCommitRequestTopic { name: s(self.name("t")), partitions: vec![partition], ..Default::default() };
        let request = OffsetCommitRequest {
            group_id: s(self.name("g")),
            generation_id_or_member_epoch: epoch,
            member_id: s(member),
            topics: vec![topic],
            ..Default::default()
        };
        self.tell(version, &request);
    }

    fn fetch(&mut self, member: Option<&str>, epoch: i32) {
        let topic =
            OffsetFetchRequestTopics { name: s(self.name("t")), partition_indexes: vec![0, 1], ..Default::default() };
        for topics in [None, Some(vec![topic])] {
            let group = OffsetFetchRequestGroup {
                group_id: s(self.name("g")),
                member_id: member.map(s),
                member_epoch: epoch,
                topics,
            };
            self.tell(9, &OffsetFetchRequest { groups: vec![group], ..Default::default() });
        }
    }

    fn delete_offsets(&mut self) {
        let partitions = vec![OffsetDeleteRequestPartition { partition_index: 0 }];
        let topics = vec![OffsetDeleteRequestTopic { name: s(self.name("t")), partitions }];
        self.tell(0, &OffsetDeleteRequest { group_id: s(self.name("g")), topics });
    }

    fn delete(&mut self) {
        self.tell(2, &DeleteGroupsRequest { groups_names: vec![s(self.name("g"))] });
    }

    /// LeaveGroup of an administrator.
    fn remove(&mut self, member: &str, instance: Option<&str>) {
        let identity = MemberIdentity { member_id: s(member), group_instance_id: instance.map(s), reason: None };
        let members = vec![identity];
        self.tell(5, &LeaveGroupRequest { group_id: s(self.name("g")), members, ..Default::default() });
    }

    fn join_classic(&mut self, member: &str) {
        let protocol = JoinGroupRequestProtocol { name: s("range"), metadata: vec![0, 1, 2].into() };
        let request = JoinGroupRequest {
            group_id: s(self.name("g")),
            session_timeout_ms: 300_000,
            rebalance_timeout_ms: 300_000,
            member_id: s(member),
            protocol_type: s("consumer"),
            protocols: vec![protocol],
            ..Default::default()
        };
        self.tell(3, &request);
    }
}

fn validation(client: &mut Client) {
    client.create_topic("t", 4);
    let valid = Heartbeat { subscribed_topic_names: client.topics(&["t"]), ..join("a") };
    let empty_group = Heartbeat { group_id: s(""), ..valid.clone() };
    client.tell(1, &empty_group);
    for request in [
        Heartbeat { member_id: s(""), ..valid.clone() },
        with_instance(valid.clone(), ""),
        Heartbeat { rack_id: Some(s("")), ..valid.clone() },
        Heartbeat { rebalance_timeout_ms: -1, ..valid.clone() },
        Heartbeat { topic_partitions: None, ..valid.clone() },
        client.owning(valid.clone(), &[0]),
        Heartbeat { subscribed_topic_names: None, ..valid.clone() },
        Heartbeat { server_assignor: Some(s("sticky")), ..valid.clone() },
        Heartbeat { server_assignor: Some(s("")), ..valid.clone() },
        Heartbeat { subscribed_topic_names: None, subscribed_topic_regex: Some(s("[")), ..valid.clone() },
        beat("a", -1),
        beat("a", -2),
        with_instance(beat("a", -2), "i"),
        beat("a", -3),
        beat("a", 2),
        beat("", 1),
    ] {
        client.send(request);
    }
    client.look();
    client.send(Heartbeat { subscribed_topic_regex: Some(s("")), ..valid.clone() });
    client.look();
    client.beat("b", 2);
    client.beat("b", -1);
    client.send(with_instance(beat("a", 2), "i"));
    client.send(with_instance(beat("a", -1), "i"));
    client.send(with_instance(beat("a", -2), "i"));
}

fn epochs(client: &mut Client) {
    client.create_topic("t", 4);
    client.join("a", &["t"]);
    client.look();
    client.beat("a", 2);
    client.beat("a", 3);
    client.beat("a", 0);
    client.join("a", &["t"]);
    client.beat_owning("a", 2, &[0, 1, 2, 3]);
    client.beat_owning("a", 0, &[0, 1, 2, 3]);
    // All fields set: the response has the assignment.
    let full =
        Heartbeat { rebalance_timeout_ms: 60_000, subscribed_topic_names: client.topics(&["t"]), ..beat("a", 2) };
    let full = client.owning(full, &[0, 1, 2, 3]);
    client.send(full);
    client.send(Heartbeat { rack_id: Some(s("r")), rebalance_timeout_ms: 1000, ..beat("a", 2) });
    client.send(Heartbeat { server_assignor: Some(s("range")), ..beat("a", 2) });
    client.look();
    client.delete();
    client.beat("a", -1);
    client.look();
    client.beat("a", 2);
    client.beat("a", -1);
    client.join("a", &["t"]);
    client.look();
    client.beat("a", -1);
    client.delete();
    client.look();
    client.beat("a", 2);
}

fn moves(client: &mut Client) {
    client.create_topic("t", 4);
    client.join("a", &["t"]);
    client.join("b", &["t"]);
    client.look();
    client.beat_owning("b", 3, &[]);
    client.beat("a", 2);
    client.look();
    client.beat_owning("a", 2, &[0, 1, 2, 3]);
    client.beat("b", 3);
    client.beat("a", 2);
    client.beat_owning("a", 2, &[0, 1]);
    client.look();
    client.beat_owning("a", 2, &[0, 1]);
    client.beat_owning("a", 2, &[0, 1, 2]);
    client.beat("a", 3);
    client.beat("b", 3);
    client.look();
    client.beat_owning("b", 3, &[2, 3]);
    // Members come and go while another one gives up partitions. Which of several members has one partition more is up to
    // the assignor, so that only the last one is asked.
    client.join("c", &["t"]);
    client.join("d", &["t"]);
    client.beat("a", 3);
    client.beat("b", -1);
    client.remove("unknown", None);
    client.remove("c", None);
    client.remove("d", Some("i"));
    client.beat("d", -1);
    client.beat_owning("a", 3, &[0]);
    client.look();
    client.beat_owning("a", 8, &[0, 1, 2, 3]);
    client.beat("a", -1);
    client.look();
}

/// The assignors, where the numbers leave them no choice. Of two topics, Kafka's uniform assignor moves the one whose id
/// has the larger hash.
fn assignors(client: &mut Client) {
    client.create_topic("t", 4);
    client.create_topic("u", 4);
    let cases: [(_, _, &[&str]); 2] = [("range", ["a", "b"], &["t", "u"]), ("uniform", ["c", "d"], &["t"])];
    for (assignor, members, topics) in cases {
        for member in members {
            let subscribed_topic_names = client.topics(topics);
            client.send(Heartbeat { subscribed_topic_names, server_assignor: Some(s(assignor)), ..join(member) });
        }
        client.look();
        members.iter().for_each(|member| client.beat(member, -1));
    }
    // Each member reads another topic.
    client.join("e", &["t"]);
    client.join("f", &["u"]);
    client.look();
    // Version 0 leaves the member id to the broker.
    for member in ["", "g"] {
        let request =
            Heartbeat { group_id: s(client.name("v0")), subscribed_topic_names: Some(Vec::new()), ..join(member) };
        let response = client.call(&crate::message::ask(0, &request).expect("encodes"));
        let length = response.text("member_id").unwrap_or_default().len();
        let (code, epoch) = (response.number("error_code"), response.number("member_epoch"));
        client.seen.push(format!("version 0: {code:?} {epoch:?}, a member id of {length} characters"));
    }
}

fn statics(client: &mut Client) {
    client.create_topic("t", 4);
    client.create_topic("u", 1);
    let joining = |client: &Client, member, topics| {
        let subscribed_topic_names = client.topics(topics);
        with_instance(Heartbeat { subscribed_topic_names, ..join(member) }, "i")
    };
    let first = joining(client, "a", &["t"]);
    client.send(first.clone());
    client.send(joining(client, "b", &["t"]));
    client.send(first);
    client.send(with_instance(beat("b", 2), "i"));
    client.send(with_instance(beat("b", -2), "i"));
    client.send(with_instance(beat("a", -2), "i"));
    client.look();
    client.send(with_instance(beat("a", 2), "i"));
    client.send(with_instance(beat("a", -2), "i"));
    client.send(joining(client, "b", &["t"]));
    client.look();
    client.send(with_instance(beat("a", 2), "i"));
    client.send(with_instance(beat("b", 2), "i"));
    client.beat("b", 2);
    // The same member id comes back.
    client.send(with_instance(beat("b", -2), "i"));
    client.send(joining(client, "b", &["t"]));
    // Another subscription.
    client.send(with_instance(beat("b", -2), "i"));
    client.send(joining(client, "c", &["t", "u"]));
    client.look();
    client.send(with_instance(beat("c", -1), "i"));
    client.look();
    client.send(joining(client, "d", &["t"]));
    client.remove("x", Some("i"));
    client.remove("", Some("i"));
    client.look();
}

/// The first members have no topics, so that the group keeps its first epoch.
fn no_topics(client: &mut Client) {
    client.create_topic("t", 2);
    client.join("a", &[]);
    client.look();
    client.join("b", &["missing"]);
    client.beat("a", 1);
    client.look();
    client.beat("a", -1);
    client.beat("b", 2);
    client.look();
}

fn subscriptions(client: &mut Client) {
    client.create_topic("t", 2);
    client.create_topic("u", 1);
    client.join("a", &["t", "missing"]);
    client.look();
    let subscribe = |client: &mut Client, epoch, topics, owned: &[i32]| {
        let request = Heartbeat { subscribed_topic_names: client.topics(topics), ..beat("a", epoch) };
        let request = client.owning(request, owned);
        client.send(request);
    };
    subscribe(client, 2, &["t"], &[0, 1]);
    subscribe(client, 3, &["u"], &[0, 1]);
    client.look();
    client.beat_owning("a", 3, &[0, 1]);
    client.beat_owning("a", 3, &[]);
    client.look();
    subscribe(client, 4, &[], &[]);
    client.beat_owning("a", 5, &[]);
    subscribe(client, 5, &["t"], &[]);
    client.look();
    // New partitions.
    let topics = vec![CreatePartitionsTopic { name: s(client.name("t")), count: 3, assignments: None }];
    client.tell(3, &CreatePartitionsRequest { topics, timeout_ms: 8000, validate_only: false });
    let group_id = s(client.name("g"));
    let request = client.owning(Heartbeat { group_id: group_id.clone(), ..beat("a", 6) }, &[0, 1]);
    client.until_epoch_changes(&request);
    client.look();
    // The topic is deleted.
    let topics = vec![DeleteTopicState { name: Some(s(client.name("t"))), topic_id: 0 }];
    client.tell(6, &DeleteTopicsRequest { topics, timeout_ms: 8000, ..Default::default() });
    let request = client.owning(Heartbeat { group_id, ..beat("a", 7) }, &[0, 1, 2]);
    client.until_epoch_changes(&request);
    client.beat_owning("a", 7, &[]);
    client.look();
}
