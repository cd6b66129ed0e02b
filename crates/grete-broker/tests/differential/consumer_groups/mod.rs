//! Fixed sequences of groups of the consumer protocol (KIP-848): both brokers must answer each request alike.
//!
//! Clients make their member ids, so that requests are the same for both. Kafka computes a target assignment once a second
//! at most by default, so that it runs with `group.consumer.assignment.interval.ms=0`, as Grete's broker does.

mod scripts;

use std::time::{Duration, Instant};

use grete_wire::KafkaRequest;
use grete_wire::messages::*;

use crate::connection::{Answer, Connection};
use crate::message::{Ask, ask};
use crate::normalize::normalize;
use crate::side::Side;
use crate::steps::s;
use crate::tree::Tree;

/// Time for Kafka to show a change of the topics.
const EFFECT_DEADLINE: Duration = Duration::from_secs(10);

/// Client of one broker, and what it has seen.
struct Client {
    connection: Connection,
    side: Side,
    /// Requests and responses as far as they are compared.
    seen: Vec<String>,
}

impl Client {
    fn call(&mut self, ask: &Ask) -> Tree {
        self.connection.send(ask);
        match self.connection.receive(ask, Duration::from_secs(10)) {
            Answer::Response(response) => response,
            answer => panic!("{}: {answer:?}", ask.text),
        }
    }

    /// Sends a request, and keeps the response for the comparison.
    fn tell<R: KafkaRequest + std::fmt::Debug>(&mut self, version: i16, request: &R) -> Tree {
        let ask = ask(version, request).expect("encodes");
        let response = self.call(&ask);
        self.keep(&ask, &response);
        response
    }

    fn keep(&mut self, ask: &Ask, response: &Tree) {
        let normal = normalize(ask.api, response, &mut self.side);
        let mut text = format!("{} v{} {}\n    {normal}", ask.api, ask.version, ask.text);
        for (name, id) in &self.side.topic_ids {
            text = text.replace(&id.to_string(), name);
        }
        self.seen.push(text.replace(&self.side.run, ""));
    }

    /// Returns the full name of a topic or a group.
    fn name(&self, short: &str) -> String {
        format!("{}{short}", self.side.run)
    }

    fn topic_id(&self, topic: &str) -> u128 {
        self.side.topic_id(&self.name(topic))
    }

    /// Creates a topic, and waits until a member of another group gets all of its partitions.
    fn create_topic(&mut self, topic: &str, partitions: i32) {
        let name = self.name(topic);
        let created = CreatableTopic {
            name: s(name.clone()),
            num_partitions: partitions,
            replication_factor: 1,
            ..Default::default()
        };
        let request = CreateTopicsRequest { topics: vec![created], timeout_ms: 8000, ..Default::default() };
        let response = self.call(&ask(7, &request).expect("encodes"));
        self.side.learn(&crate::side::Learn::Nothing, &response);
        // Ids are named in the order of the topics' creation: assignments have no order.
        self.side.alias("T", &(self.topic_id(topic) as i128).to_string(), true);
        let probe = self.name(&format!("probe-{topic}"));
        let join = ConsumerGroupHeartbeatRequest {
            group_id: s(probe.clone()),
            subscribed_topic_names: Some(vec![s(name)]),
            ..scripts::join("probe")
        };
        let join = ask(1, &join).expect("encodes");
        let leave = ConsumerGroupHeartbeatRequest { group_id: s(probe), ..scripts::beat("probe", -1) };
        let leave = ask(1, &leave).expect("encodes");
        let end = Instant::now() + EFFECT_DEADLINE;
        loop {
            let response = self.call(&join);
            let assigned = response.get("assignment").map(|assignment| assignment.list("topic_partitions").len());
            self.call(&leave);
            if assigned == Some(1) {
                return;
            }
            assert!(Instant::now() < end, "the coordinator does not see {topic}: {response}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends a heartbeat until its response has another epoch than the request, and keeps that response.
    fn until_epoch_changes(&mut self, request: &ConsumerGroupHeartbeatRequest<'_>) -> Tree {
        let ask = ask(1, request).expect("encodes");
        let end = Instant::now() + EFFECT_DEADLINE;
        loop {
            let response = self.call(&ask);
            let has_news = response.number("member_epoch") != Some(request.member_epoch.into())
                || response.get("assignment").is_some_and(|assignment| assignment.get("topic_partitions").is_some());
            if has_news {
                self.keep(&ask, &response);
                return response;
            }
            assert!(Instant::now() < end, "no news after a change of the topics: {response}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Script with its name.
type Script = (&'static str, fn(&mut Client));

/// Compares both brokers.
pub fn compare(grete: &str, kafka: &str, run: &str, start: i64) {
    let mut all = Vec::new();
    for (name, script) in scripts::ALL {
        let answers = |address: &str| {
            let run = format!("{run}{name}-");
            let side = Side::new(&run, start, 1);
            let mut client = Client { connection: Connection::new(address), side, seen: Vec::new() };
            script(&mut client);
            client.seen
        };
        let (grete, kafka) = (answers(grete), answers(kafka));
        println!("consumer groups, {name}: {} responses compared", grete.len());
        let differs = grete.iter().zip(&kafka).find(|(grete, kafka)| grete != kafka);
        all.extend(differs.map(|(grete, kafka)| format!("{name}\ngrete {grete}\nkafka {kafka}")));
        all.extend((grete.len() != kafka.len()).then(|| format!("{name}: numbers of responses")));
    }
    assert!(all.is_empty(), "first differences of consumer groups:\n{}", all.join("\n"));
}
