//! A fixed sequence: a group whose first commit was refused, and records of other groups in its partition.
//!
//! Seeds meet this case only where groups of earlier seeds time out at the right moment.

use std::time::Duration;

use grete_broker::coordinator_partition::coordinator_partition;
use grete_wire::messages::*;

use crate::connection::{Answer, Connection};
use crate::message::{Ask, ask};
use crate::steps::s;
use crate::tree::Tree;

struct Client {
    connection: Connection,
    topic: String,
    /// Responses as far as they are compared.
    seen: Vec<String>,
}

impl Client {
    fn call(&mut self, ask: &Ask) -> Tree {
        self.connection.send(ask);
        match self.connection.receive(ask, Duration::from_secs(8)) {
            Answer::Response(response) => response,
            answer => panic!("{}: {answer:?}", ask.text),
        }
    }

    fn create_topic(&mut self) {
        let topic = CreatableTopic {
            name: s(self.topic.clone()),
            num_partitions: 1,
            replication_factor: 1,
            ..Default::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 8000, ..Default::default() };
        self.call(&ask(5, &request).expect("encodes"));
        let topic = MetadataRequestTopic { name: Some(s(self.topic.clone())), ..Default::default() };
        let request = ask(4, &MetadataRequest { topics: Some(vec![topic]), ..Default::default() }).expect("encodes");
        while self.call(&request).list("topics")[0].number("error_code") != Some(0) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn commit(&mut self, group: &str, metadata: &str) {
        let partition = OffsetCommitRequestPartition {
            committed_offset: 1,
            committed_metadata: Some(s(metadata)),
            ..Default::default()
        };
        let topic =
            OffsetCommitRequestTopic { name: s(self.topic.clone()), partitions: vec![partition], ..Default::default() };
        let request = OffsetCommitRequest {
            group_id: s(group),
            generation_id_or_member_epoch: -1,
            topics: vec![topic],
            ..Default::default()
        };
        let response = self.call(&ask(8, &request).expect("encodes"));
        self.seen.push(response.list("topics")[0].list("partitions")[0].to_string());
    }

    fn delete(&mut self, group: &str) {
        let response = self.call(&ask(2, &DeleteGroupsRequest { groups_names: vec![s(group)] }).expect("encodes"));
        self.seen.push(response.list("results")[0].number("error_code").unwrap_or(-1).to_string());
    }

    fn describe(&mut self, group: &str) {
        let request = DescribeGroupsRequest { groups: vec![s(group)], include_authorized_operations: false };
        let response = self.call(&ask(5, &request).expect("encodes"));
        self.seen.push(response.list("groups")[0].text("group_state").unwrap_or_default().to_owned());
    }
}

/// Returns what a broker answers.
fn answers(address: &str, run: &str) -> Vec<String> {
    let group = format!("{run}memory");
    let other = |is_near: bool| {
        let is_wanted = |name: &String| (coordinator_partition(name) == coordinator_partition(&group)) == is_near;
        (0..).map(|number| format!("{run}other{number}")).find(is_wanted).expect("some name")
    };
    let (far, near, long) = (other(false), other(true), "m".repeat(4097));
    let mut client = Client { connection: Connection::new(address), topic: format!("{run}topic"), seen: Vec::new() };
    client.create_topic();
    for _ in 0..2 {
        client.commit(&group, &long);
        client.describe(&group);
        client.commit(&far, "");
        client.describe(&group);
        client.commit(&near, "");
        client.describe(&group);
        client.delete(&group);
        client.describe(&group);
    }
    client.commit(&group, &long);
    client.delete(&near);
    client.describe(&group);
    client.seen
}

/// Compares both brokers.
pub fn compare(grete: &str, kafka: &str, run: &str) {
    let (grete, kafka) = (answers(grete, run), answers(kafka, run));
    println!("groups in memory only: {}", kafka.join(", "));
    assert_eq!(grete, kafka, "groups in memory only");
}
