//! Virtual time and random delays. Everything that happens is an event in one queue; the seed determines the delays.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use grete_wire::Frame;

use super::brokers::Brokers;
use super::client::Client;
use super::delivery_oracle::DeliveryOracle;
use super::network::{SimConnection, Spoil};
use super::produce_handler::Pending;
use crate::cluster::ClusterConfig;
use crate::cluster::test_cluster::ReceivedRequest;
use crate::connection::CloseReason;
use crate::ids::{ConnId, NodeId, TopicPartition};
use crate::producer::ProduceConfig;
use crate::producer::{ProducerCoreConfig, ProducerEvent};
use crate::rng::Rng;
use crate::time::{MILLI, Nanos, SECOND};

#[derive(Debug)]
pub(super) enum Event {
    Connected(ConnId),
    Request(ReceivedRequest),
    Work(ConnId),
    Response(ConnId, Frame),
    Eof(ConnId),
    /// The followers have replicated everything up to this offset.
    Replicated(TopicPartition, i32, i64),
    /// A produce request has timed out.
    Late(u64),
    /// A broker gets the current metadata.
    MetadataUpdate(NodeId),
    Nudge(bool),
    Revive(NodeId),
    Elect(TopicPartition),
    Create(String, i32),
    /// Requests that wait for the replicas may be finished.
    CheckPending,
}

#[derive(Debug)]
pub struct Simulator {
    pub now: Nanos,
    pub rng: Rng,
    /// Connections are slow from time to time.
    pub chaos: bool,
    /// Maximum delay of the network thread, which occurs from time to time.
    pub lazy: Nanos,
    /// Topics are deleted and recreated.
    pub recreates: bool,
    /// Records may wait for the metadata of their topics.
    pub queues: bool,
    /// Print a trace of all events.
    pub talk: bool,
    /// Captured responses, which the client does not get.
    pub captured: Option<Vec<(ConnId, Frame)>>,
    pub brokers: Brokers,
    pub client: Client,
    pub(super) oracle: DeliveryOracle,
    pub last_answer: Option<Frame>,
    /// Faults of the next produce responses.
    pub spoils: Vec<Spoil>,
    /// Number of requests of a lost connection that are still executed; `None`: random.
    pub carried_out: Option<u64>,
    pub(super) pending: Vec<Pending>,
    /// Connections that the client believes to be open or opening.
    pub(super) believed: BTreeSet<ConnId>,
    pub(super) wires: BTreeMap<ConnId, SimConnection>,
    queue: BinaryHeap<Reverse<(Nanos, u64)>>,
    events: BTreeMap<u64, Event>,
    pub(super) sequence: u64,
}

pub fn tp(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}

/// Returns settings with short times, so that tests of timeouts are short, too.
pub fn config() -> ProducerCoreConfig {
    ProducerCoreConfig {
        cluster: ClusterConfig { bootstrap: vec![("b1".into(), 9092)], ..ClusterConfig::default() },
        produce: ProduceConfig {
            delivery_timeout: 10 * SECOND,
            request_timeout: 2 * SECOND,
            ..ProduceConfig::default()
        },
    }
}

impl Simulator {
    /// Creates one topic, `orders`, with two partitions on two brokers.
    pub fn new(config: ProducerCoreConfig) -> Self {
        let mut world = Self::with(config, 1, 2);
        world.brokers.create("orders", 2);
        world.brokers.update_all_metadata();
        world
    }

    pub fn with(config: ProducerCoreConfig, seed: u64, nodes: NodeId) -> Self {
        let mut rng = Rng::new(seed);
        Self {
            now: SECOND,
            chaos: false,
            lazy: SECOND,
            recreates: false,
            queues: true,
            talk: false,
            captured: None,
            brokers: Brokers::new(nodes),
            client: Client::new(config, rng.split()),
            oracle: DeliveryOracle::default(),
            last_answer: None,
            spoils: Vec::new(),
            carried_out: None,
            pending: Vec::new(),
            believed: BTreeSet::new(),
            wires: BTreeMap::new(),
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            sequence: 0,
            rng,
        }
    }

    /// Makes the client learn of `orders` and connect to both leaders, by a record to another topic on the same
    /// leaders.
    pub fn start(&mut self) {
        self.brokers.create("others", 2);
        self.brokers.update_all_metadata();
        for topic in ["orders", "others"] {
            self.client.topic(topic);
        }
        self.step(ProducerEvent::Drain);
        self.pass(100 * MILLI);
        for partition in [0, 1] {
            self.append("others", Some(partition), None, 20).unwrap();
        }
        self.flush();
        self.pass(100 * MILLI);
        assert_eq!(self.client.open(), [0; 0]);
    }

    /// Prints a trace line for the developer who debugs a failure.
    pub fn trace(&self, what: impl FnOnce() -> String) {
        if self.talk {
            println!("{:>9.3} {}", self.now as f64 / SECOND as f64, what());
        }
    }

    pub(super) fn post(&mut self, at: Nanos, event: Event) {
        self.sequence += 1;
        self.events.insert(self.sequence, event);
        self.queue.push(Reverse((at, self.sequence)));
    }

    pub fn pass(&mut self, time: Nanos) {
        let end = self.now + time;
        let (mut last, mut spins) = (self.now, 0);
        while self.now < end {
            let mut next = end;
            if let Some(Reverse((at, _))) = self.queue.peek() {
                next = next.min(*at);
            }
            next = next.min(self.client.wakes_at().unwrap_or(end));
            self.now = next.max(self.now);
            spins = if self.now == last { spins + 1 } else { 0 };
            assert!(spins < 1000, "something is due again and again at {last}");
            last = self.now;
            while let Some(Reverse((at, sequence))) = self.queue.peek().copied()
                && at <= self.now
            {
                self.queue.pop();
                if let Some(event) = self.events.remove(&sequence) {
                    self.happen(event);
                }
            }
            self.complete_pending();
            if self.client.wakes_at().is_some_and(|at| at <= self.now) {
                self.step(ProducerEvent::Tick);
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Connected(conn) => self.connected(conn),
            Event::Request(asked) => self.request(asked),
            Event::Work(conn) => self.work(conn),
            Event::Response(conn, frame) => {
                if let Some(heard) = &mut self.captured {
                    heard.push((conn, frame));
                } else if self.wires.get(&conn).is_some_and(SimConnection::is_open) {
                    self.observe_response(conn, &frame);
                    self.last_answer = Some(frame.clone());
                    self.step(ProducerEvent::Frame(conn, frame));
                }
            }
            Event::Eof(conn) => {
                if self.believed.remove(&conn) {
                    self.step(ProducerEvent::Closed(conn, CloseReason::Eof));
                }
            }
            Event::Replicated(tp, epoch, end) => self.replicated(&tp, epoch, end),
            Event::Late(number) => self.late(number),
            Event::MetadataUpdate(node) => self.brokers.update_metadata(node),
            Event::Nudge(tick) => self.nudged(tick),
            Event::Revive(node) => self.revive(node),
            Event::Elect(tp) => self.elect_again(&tp),
            Event::Create(topic, partitions) => self.create(&topic, partitions),
            Event::CheckPending => {}
        }
    }

    /// Gives all brokers the current metadata, each after its own delay.
    pub fn spread(&mut self) {
        for node in self.brokers.nodes.clone() {
            let at = self.now + self.delay();
            self.post(at, Event::MetadataUpdate(node));
        }
    }
}
