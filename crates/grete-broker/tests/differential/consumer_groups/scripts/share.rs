//! Sequences of share groups (KIP-932): records that are acquired and acknowledged, sessions, and requests that are not
//! valid.

use std::time::{Duration, Instant};

use grete_wire::messages::share_fetch::{AcknowledgementBatch, FetchPartition, FetchTopic};
use grete_wire::messages::*;
use grete_wire::records::test_encoder::{BatchOptions, TestRecord, build_batch};

use super::super::{Client, EFFECT_DEADLINE, s};
use crate::message::ask;

/// Acknowledgements of a request: first offset, last offset, types.
type Acks = &'static [(i64, i64, &'static [i8])];

fn beat(client: &Client, member: &str, epoch: i32) -> ShareGroupHeartbeatRequest<'static> {
    ShareGroupHeartbeatRequest {
        group_id: s(client.name("g")),
        member_id: s(member),
        member_epoch: epoch,
        subscribed_topic_names: if epoch == 0 { client.topics(&["t"]) } else { None },
        ..Default::default()
    }
}

fn batches(acks: Acks) -> Vec<AcknowledgementBatch> {
    let batch = |(first_offset, last_offset, types): &(i64, i64, &[i8])| AcknowledgementBatch {
        first_offset: *first_offset,
        last_offset: *last_offset,
        acknowledge_types: types.to_vec(),
    };
    acks.iter().map(batch).collect()
}

fn fetch(client: &Client, member: &str, epoch: i32, partitions: &[i32], acks: Acks) -> ShareFetchRequest<'static> {
    let partition = |index: &i32| FetchPartition { partition_index: *index, acknowledgement_batches: batches(acks) };
    let topic = FetchTopic { topic_id: client.topic_id("t"), partitions: partitions.iter().map(partition).collect() };
    ShareFetchRequest {
        group_id: Some(s(client.name("g"))),
        member_id: Some(s(member)),
        share_session_epoch: epoch,
        max_wait_ms: 0,
        min_bytes: 1,
        max_bytes: 1 << 20,
        max_records: 2,
        batch_size: 2,
        share_acquire_mode: 1,
        topics: if partitions.is_empty() { Vec::new() } else { vec![topic] },
        ..Default::default()
    }
}

fn acknowledge(
    client: &Client,
    member: &str,
    epoch: i32,
    acks: Acks,
    renews: bool,
) -> ShareAcknowledgeRequest<'static> {
    let batch = |batch: AcknowledgementBatch| share_acknowledge::AcknowledgementBatch {
        first_offset: batch.first_offset,
        last_offset: batch.last_offset,
        acknowledge_types: batch.acknowledge_types,
    };
    let partition = share_acknowledge::AcknowledgePartition {
        partition_index: 0,
        acknowledgement_batches: batches(acks).into_iter().map(batch).collect(),
    };
    let topic = share_acknowledge::AcknowledgeTopic { topic_id: client.topic_id("t"), partitions: vec![partition] };
    ShareAcknowledgeRequest {
        group_id: Some(s(client.name("g"))),
        member_id: Some(s(member)),
        share_session_epoch: epoch,
        is_renew_ack: renews,
        topics: vec![topic],
    }
}

impl Client {
    /// Creates a topic with records in two batches, and a group that begins with the first one. Waits until a member has
    /// the partition, and the leader has begun to read it.
    fn begin_sharing(&mut self) {
        let config = IncrementalAlterConfigsRequestAlterableConfig {
            name: s("share.auto.offset.reset"),
            config_operation: 0,
            value: Some(s("earliest")),
        };
        let resource = IncrementalAlterConfigsRequestAlterConfigsResource {
            resource_type: 32,
            resource_name: s(self.name("g")),
            configs: vec![config],
        };
        let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
        self.call(&ask(1, &request).expect("encodes"));
        // Brokers apply metadata in order: a broker that knows the topic knows where the group begins. Kafka would begin at
        // the end otherwise, and hand nothing out.
        self.create_topic("t", 1);
        for count in [3, 4] {
            let records = vec![TestRecord::keyed(1_700_000_000_000, "k", "value"); count];
            let data = PartitionProduceData {
                index: 0,
                records: Some(build_batch(0, &records, &BatchOptions::default()).into()),
            };
            let topic = TopicProduceData { name: s(self.name("t")), partition_data: vec![data], ..Default::default() };
            let request = ProduceRequest { acks: -1, timeout_ms: 5000, topic_data: vec![topic], ..Default::default() };
            self.call(&ask(9, &request).expect("encodes"));
        }
        let join = ask(1, &beat(self, "a", 0)).expect("encodes");
        self.until(|client| {
            let response = client.call(&join);
            response.get("assignment").is_some_and(|assignment| !assignment.list("topic_partitions").is_empty())
        });
        // Another member takes the first record, so that the leader has read the states of the records.
        let probe = ShareFetchRequest { max_records: 1, ..fetch(self, "probe", 0, &[0], &[]) };
        let probe = ask(2, &probe).expect("encodes");
        self.until(|client| {
            let response = client.call(&probe);
            let topics = response.list("responses");
            let partition = topics.first().and_then(|topic| topic.list("partitions").first());
            partition.is_some_and(|partition| !partition.list("acquired_records").is_empty())
        });
        self.call(&ask(2, &acknowledge(self, "probe", -1, &[(0, 0, &[1])], false)).expect("encodes"));
    }

    fn until(&mut self, mut is_done: impl FnMut(&mut Self) -> bool) {
        let end = Instant::now() + EFFECT_DEADLINE;
        while !is_done(self) {
            assert!(Instant::now() < end, "the share group is not ready");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

pub(super) fn records(client: &mut Client) {
    client.begin_sharing();
    let tell = |client: &mut Client, member: &str, epoch: i32, partitions: &[i32], acks: Acks| {
        let request = fetch(client, member, epoch, partitions, acks);
        client.tell(2, &request);
    };
    tell(client, "a", 0, &[0], &[]);
    tell(client, "b", 0, &[0], &[]);
    // Kafka may acquire for a request before it has applied the acknowledgements of the request: these come first.
    let acks = |client: &mut Client, member: &str, epoch: i32, acks: Acks| {
        let request = acknowledge(client, member, epoch, acks, false);
        client.tell(2, &request);
    };
    acks(client, "a", 1, &[(1, 1, &[1]), (2, 2, &[2])]);
    tell(client, "a", 2, &[], &[]);
    acks(client, "a", 3, &[(2, 2, &[1])]);
    acks(client, "a", 4, &[(1, 1, &[1])]);
    acks(client, "b", 1, &[(3, 4, &[1, 2])]);
    acks(client, "b", 2, &[(4, 4, &[1])]);
    acks(client, "b", 3, &[(90, 91, &[1])]);
    acks(client, "a", 5, &[(5, 6, &[3, 0])]);
    tell(client, "b", 4, &[], &[]);
    acks(client, "b", 5, &[(4, 4, &[4])]);
    let request = acknowledge(client, "b", 6, &[(4, 4, &[4])], true);
    client.tell(2, &request);
    // A session that ends gives its records back, with the deliveries so far; Kafka does so after its answer.
    acks(client, "b", -1, &[]);
    acks(client, "a", -1, &[]);
    let probe = ask(2, &fetch(client, "c", 0, &[0], &[])).expect("encodes");
    client.until(|client| {
        let response = client.call(&probe).to_string();
        response.contains("first_offset: 4") && response.contains("delivery_count: 2")
    });
    acks(client, "c", -1, &[]);
}

pub(super) fn whole_batches(client: &mut Client) {
    client.begin_sharing();
    let request = ShareFetchRequest { share_acquire_mode: 0, max_records: 1, ..fetch(client, "c", 0, &[0], &[]) };
    client.tell(2, &request);
}

pub(super) fn refusals(client: &mut Client) {
    client.begin_sharing();
    let requests = [
        fetch(client, "a", 0, &[0], &[(0, 0, &[1])]),
        fetch(client, "a", 1, &[0], &[]),
        fetch(client, "a", -1, &[], &[]),
        fetch(client, "a", 0, &[0], &[]),
        fetch(client, "a", 7, &[0], &[]),
        fetch(client, "a", 1, &[0], &[(1, 0, &[1])]),
        fetch(client, "a", 2, &[0], &[(0, 1, &[1, 1, 1])]),
        fetch(client, "a", 3, &[0], &[(0, 1, &[9])]),
        fetch(client, "a", 4, &[0], &[(0, 1, &[4])]),
        fetch(client, "a", 5, &[5], &[]),
        fetch(client, "a", -1, &[0], &[]),
    ];
    for request in &requests {
        client.tell(2, request);
    }
    for (member, epoch) in [("a", 0), ("z", 1), ("z", -1)] {
        let request = acknowledge(client, member, epoch, &[(0, 0, &[1])], false);
        client.tell(2, &request);
    }
    for (member, epoch) in [("a", -2), ("a", 99), ("z", 3), ("z", -1)] {
        let request = beat(client, member, epoch);
        client.tell(1, &request);
    }
    let request = ShareGroupHeartbeatRequest { subscribed_topic_names: None, ..beat(client, "n", 0) };
    client.tell(1, &request);
    let group_ids = vec![s(client.name("none"))];
    client.tell(1, &ShareGroupDescribeRequest { group_ids, include_authorized_operations: false });
    let request = ConsumerGroupHeartbeatRequest {
        group_id: s(client.name("g")),
        subscribed_topic_names: client.topics(&["t"]),
        ..super::join("c")
    };
    client.tell(1, &request);
    client.tell(1, &beat(client, "a", -1).clone());
    client.tell(2, &DeleteGroupsRequest { groups_names: vec![s(client.name("g"))] });
}
