//! Time and chance. Everything that happens is an event in one queue; a seed decides how long it takes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use grete_wire::Frame;

use super::brokers::Brokers;
use super::client::Client;
use super::produce::Pending;
use super::spy::Spy;
use super::wires::{Spoil, Wire};
use crate::cluster::ClusterConfig;
use crate::cluster::fixture::Asked;
use crate::conn::CloseReason;
use crate::ids::{ConnId, NodeId, TopicPartition};
use crate::produce::ProduceConfig;
use crate::producer::{ProducerCoreConfig, ProducerEvent};
use crate::rng::Rng;
use crate::time::{MILLI, Nanos, SECOND};

#[derive(Debug)]
pub(super) enum Event {
    Connected(ConnId),
    Request(Asked),
    Work(ConnId),
    Response(ConnId, Frame),
    Eof(ConnId),
    /// The followers have it up to there.
    Replicated(TopicPartition, i32, i64),
    /// The time of a Produce request is up.
    Late(u64),
    /// A broker hears the news.
    Hears(NodeId),
    Nudge(bool),
    Revive(NodeId),
    Elect(TopicPartition),
    Create(String, i32),
    /// Whoever waits for the replicas may wait no longer.
    Look,
}

#[derive(Debug)]
pub struct World {
    pub now: Nanos,
    pub rng: Rng,
    /// Wires are slow now and then.
    pub chaos: bool,
    /// The network thread is late by up to so much, now and then.
    pub lazy: Nanos,
    /// Topics are deleted and made again.
    pub recreates: bool,
    /// What happens is printed.
    pub talk: bool,
    /// Answers are kept here, and the client does not get them.
    pub heard: Option<Vec<(ConnId, Frame)>>,
    pub brokers: Brokers,
    pub client: Client,
    pub(super) spy: Spy,
    pub last_answer: Option<Frame>,
    /// What becomes of the next answers to Produce.
    pub spoils: Vec<Spoil>,
    /// Of the requests of a connection that is lost, so many are carried out all the same; else chance decides.
    pub carried_out: Option<u64>,
    pub(super) pending: Vec<Pending>,
    /// Connections that the client takes for open, or about to be.
    pub(super) believed: BTreeSet<ConnId>,
    pub(super) wires: BTreeMap<ConnId, Wire>,
    queue: BinaryHeap<Reverse<(Nanos, u64)>>,
    events: BTreeMap<u64, Event>,
    pub(super) sequence: u64,
}

pub fn tp(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}

/// Short times, so that a test of the clock is short, too.
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

impl World {
    /// One topic, `orders`, of two partitions on two brokers.
    pub fn new(config: ProducerCoreConfig) -> Self {
        let mut world = Self::with(config, 1, 2);
        world.brokers.create("orders", 2);
        world.brokers.tell_all();
        world
    }

    pub fn with(config: ProducerCoreConfig, seed: u64, nodes: NodeId) -> Self {
        let mut rng = Rng::new(seed);
        Self {
            now: SECOND,
            chaos: false,
            lazy: SECOND,
            recreates: false,
            talk: false,
            heard: None,
            brokers: Brokers::new(nodes),
            client: Client::new(config, rng.split()),
            spy: Spy::default(),
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

    /// Lets the client learn of `orders`, and connect to both leaders: by a record to another topic of theirs.
    pub fn start(&mut self) {
        self.brokers.create("others", 2);
        self.brokers.tell_all();
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

    /// Says what happens, to whoever hunts a failure.
    pub fn tell(&self, what: impl FnOnce() -> String) {
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
            self.look_at_pending();
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
                if let Some(heard) = &mut self.heard {
                    heard.push((conn, frame));
                } else if self.wires.get(&conn).is_some_and(Wire::is_open) {
                    self.spy_response(conn, &frame);
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
            Event::Hears(node) => self.brokers.tell(node),
            Event::Nudge(tick) => self.nudged(tick),
            Event::Revive(node) => self.revive(node),
            Event::Elect(tp) => self.elect_again(&tp),
            Event::Create(topic, partitions) => self.create(&topic, partitions),
            Event::Look => {}
        }
    }

    /// The brokers hear what has changed, each in its own time.
    pub fn spread(&mut self) {
        for node in self.brokers.nodes.clone() {
            let at = self.now + self.delay();
            self.post(at, Event::Hears(node));
        }
    }
}
