//! Brokers, network, clock and producers, all from one seed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::{Arc, Mutex, PoisonError};

use grete_broker::cluster::{Action, BrokerAddress, Cluster, ClusterConfig, Event, Release};
use grete_broker::ids::{ConnId as BrokerConn, TopicPartition as BrokerPartition};
use grete_proto::connection::CloseReason;
use grete_proto::ids::{ConnId, TopicPartition};
use grete_proto::producer::{
    Accumulator, AppendAction, AppendError, CallId, GroupMetadata, ProduceConfig, ProducerAction, ProducerCore,
    ProducerCoreConfig, ProducerEvent, SharedAccumulator, TransactionCall, TransactionError, TransactionOffset,
};
use grete_proto::rng::Rng;
use grete_proto::time::{MILLI, Nanos, SECOND};
use grete_proto::transport::TransportAction;
use grete_wire::Frame;
use grete_wire::records::ProducerRecord;

use super::oracle::{Fate, Oracle};

const TOPIC: &str = "orders";
const SOURCE: &str = "source";
const GROUP: &str = "g";
const PARTITIONS: i32 = 3;
/// End of faults, and of the simulation.
const CALM: Nanos = 20 * SECOND;
const END: Nanos = 120 * SECOND;
/// Time after the last fault from which on every transaction succeeds, and time that its end takes at most.
const RECOVERY: Nanos = 8 * SECOND;
const PROMPT: Nanos = 2 * SECOND;
/// Time after the last fault at which the writers stop.
const STOP: Nanos = 16 * SECOND;

#[derive(Debug)]
enum Happens {
    Connect(u64),
    Arrive(u64, Frame),
    Deliver(u64, Vec<u8>),
    HangUp(u64),
    Act(usize),
    Fault,
}

#[derive(Debug)]
struct Link {
    writer: usize,
    conn: ConnId,
    broker: i32,
    is_accepted: bool,
    unsent: Vec<u8>,
    received: Vec<u8>,
    up: Nanos,
    down: Nanos,
}

/// Call of a writer that has no result yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Idle,
    Beginning,
    /// Records to append.
    Producing(u64),
    Offsets,
    Ending {
        commit: bool,
    },
    Dead,
}

#[derive(Debug)]
struct Writer {
    core: ProducerCore,
    accumulator: SharedAccumulator,
    step: Step,
    call: CallId,
    /// Number of the transaction.
    number: i64,
    /// Begin of the transaction, and of the last call.
    began_at: Nanos,
    called_at: Nanos,
}

pub(super) struct Report {
    pub committed: u64,
    pub aborted: u64,
    pub fenced: u64,
}

pub(super) struct World {
    seed: u64,
    talks: bool,
    rng: Rng,
    now: Nanos,
    cluster: Cluster,
    links: BTreeMap<u64, Link>,
    last_link: u64,
    queue: BinaryHeap<Reverse<(Nanos, u64)>>,
    events: BTreeMap<u64, Happens>,
    sequence: u64,
    writers: Vec<Writer>,
    oracle: Oracle,
    fenced: u64,
}

fn frames(bytes: &mut Vec<u8>) -> Vec<Frame> {
    let mut found = Vec::new();
    while let Some(size) = bytes.first_chunk::<4>() {
        let end = 4 + u32::from_be_bytes(*size) as usize;
        if bytes.len() < end {
            break;
        }
        found.push(Frame::from(bytes[4..end].to_vec()));
        bytes.drain(..end);
    }
    found
}

impl World {
    pub fn new(seed: u64, talks: bool) -> Self {
        let mut rng = Rng::new(seed);
        let address = |id| BrokerAddress { id, host: format!("b{id}").into(), port: 9092, rack: None };
        let mut config = ClusterConfig::new((1..=3).map(address).collect());
        config.seed = seed;
        config.num_partitions = PARTITIONS;
        // With and without transaction.version 2 (KIP-890).
        config.release = if rng.below(2) == 0 { Release::V3_9 } else { Release::LATEST };
        let mut world = Self {
            seed,
            talks,
            rng,
            now: 0,
            cluster: Cluster::new(config),
            links: BTreeMap::new(),
            last_link: 0,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            sequence: 0,
            writers: Vec::new(),
            oracle: Oracle::default(),
            fenced: 0,
        };
        world.start_writer();
        let at = world.rng.below(SECOND);
        world.post(at, Happens::Fault);
        world
    }

    fn tell(&self, text: impl FnOnce() -> String) {
        if self.talks {
            eprintln!("{:9.3} {}", self.now as f64 / 1e9, text());
        }
    }

    fn post(&mut self, at: Nanos, event: Happens) {
        self.sequence += 1;
        self.queue.push(Reverse((at.max(self.now), self.sequence)));
        self.events.insert(self.sequence, event);
    }

    fn millis(&self) -> i64 {
        1_000_000 + i64::try_from(self.now / MILLI).unwrap_or(0)
    }

    /// Starts a producer with the same transactional id. An earlier one becomes a zombie, and continues.
    fn start_writer(&mut self) {
        let mut config = ProducerCoreConfig {
            produce: ProduceConfig {
                transactional_id: Some("t".into()),
                transaction_timeout: (2 + self.rng.below(30)) * SECOND,
                linger: self.rng.below(2) * 5 * MILLI,
                request_timeout: SECOND,
                delivery_timeout: (2 + self.rng.below(20)) * SECOND,
                retry_backoff: 20 * MILLI,
                retry_backoff_max: 200 * MILLI,
                batch_size: 200,
                ..ProduceConfig::default()
            },
            ..ProducerCoreConfig::default()
        };
        config.cluster.bootstrap = vec![("b1".into(), 9092), ("b2".into(), 9092)];
        config.cluster.allow_auto_create_topics = true;
        config.cluster.request_timeout = SECOND;
        config.cluster.retry_backoff = 20 * MILLI;
        config.cluster.retry_backoff_max = 200 * MILLI;
        let accumulator = Arc::new(Mutex::new(Accumulator::new(&config.produce, self.rng.split())));
        let core = ProducerCore::new(config, Arc::clone(&accumulator), self.rng.split());
        // Their metadata requests create the topics.
        for topic in [TOPIC, SOURCE] {
            accumulator.lock().unwrap_or_else(PoisonError::into_inner).topic(topic);
        }
        self.writers.push(Writer {
            core,
            accumulator,
            step: Step::Idle,
            call: 0,
            number: 0,
            began_at: 0,
            called_at: 0,
        });
        let writer = self.writers.len() - 1;
        self.tell(|| format!("writer {writer} starts"));
        self.post(self.now, Happens::Act(writer));
    }

    pub fn run(mut self) -> Report {
        while let Some(at) = self.next_time() {
            if at > END {
                break;
            }
            self.now = self.now.max(at);
            if self.cluster.deadline().is_some_and(|due| due <= self.millis()) {
                self.step_cluster(Event::Tick);
            }
            for writer in 0..self.writers.len() {
                if self.writers[writer].core.deadline().is_some_and(|due| due <= self.now) {
                    self.step(writer, ProducerEvent::Tick);
                }
            }
            while let Some(&Reverse((at, sequence))) = self.queue.peek() {
                if at > self.now {
                    break;
                }
                self.queue.pop();
                if let Some(event) = self.events.remove(&sequence) {
                    self.happens(event);
                }
            }
        }
        self.check()
    }

    fn next_time(&self) -> Option<Nanos> {
        let queued = self.queue.peek().map(|Reverse((at, _))| *at);
        let cores = self.writers.iter().filter_map(|writer| writer.core.deadline());
        let broker = self.cluster.deadline().map(|due| {
            let left = u64::try_from(due - self.millis()).unwrap_or(0);
            // The cluster counts whole milliseconds.
            if left == 0 { self.now } else { (self.now / MILLI + left) * MILLI }
        });
        cores.chain(queued).chain(broker).min()
    }

    fn happens(&mut self, event: Happens) {
        match event {
            Happens::Connect(id) => {
                let Some(link) = self.links.get_mut(&id) else { return };
                link.is_accepted = true;
                let (writer, conn, broker) = (link.writer, link.conn, link.broker);
                self.step_cluster(Event::Accepted { conn: BrokerConn(id), broker, client_host: "127.0.0.1".into() });
                self.step(writer, ProducerEvent::Connected(conn));
            }
            Happens::Arrive(id, frame) => {
                if self.links.get(&id).is_some_and(|link| link.is_accepted) {
                    self.step_cluster(Event::Frame { conn: BrokerConn(id), frame });
                }
            }
            Happens::Deliver(id, bytes) => {
                let Some(link) = self.links.get_mut(&id) else { return };
                link.received.extend_from_slice(&bytes);
                let (writer, conn, found) = (link.writer, link.conn, frames(&mut link.received));
                for frame in found {
                    self.step(writer, ProducerEvent::Frame(conn, frame));
                }
            }
            Happens::HangUp(id) => {
                if let Some(link) = self.links.remove(&id) {
                    self.step(link.writer, ProducerEvent::Closed(link.conn, CloseReason::Eof));
                }
            }
            Happens::Act(writer) => self.act(writer),
            Happens::Fault => self.fault(),
        }
    }

    fn delay(&mut self) -> Nanos {
        match self.rng.below(50) {
            0 if self.now < CALM => self.rng.below(1500) * MILLI,
            _ => (1 + self.rng.below(4)) * MILLI,
        }
    }

    /// Breaks something, and sets the time of the next fault.
    fn fault(&mut self) {
        if self.now >= CALM {
            return;
        }
        match self.rng.below(8) {
            0..=3 => {
                let ids: Vec<u64> = self.links.keys().copied().collect();
                if ids.is_empty() {
                    return self.again();
                }
                let id = ids[usize::try_from(self.rng.below(ids.len() as u64)).unwrap_or(0)];
                self.tell(|| format!("connection {id} breaks"));
                self.cut(id);
            }
            4 => {
                self.tell(|| "coordinators move".to_owned());
                let mut actions = Vec::new();
                self.cluster.move_coordinators(&mut actions);
                self.perform(actions);
            }
            5 => {
                let (partition, to) = (self.rng.below(PARTITIONS as u64) as i32, 1 + self.rng.below(3) as i32);
                self.tell(|| format!("partition {partition} moves to {to}"));
                // Refused as long as the topic does not exist.
                let _ = self.cluster.move_leader(TOPIC, partition, to);
            }
            6 if self.writers.len() < 6 => self.start_writer(),
            _ => {}
        }
        self.again();
    }

    fn again(&mut self) {
        let at = self.now + self.rng.below(SECOND);
        self.post(at, Happens::Fault);
    }

    /// Breaks a connection: what is on its way is lost, in one direction or both.
    fn cut(&mut self, id: u64) {
        let Some(link) = self.links.get_mut(&id) else { return };
        if std::mem::replace(&mut link.is_accepted, false) {
            self.step_cluster(Event::Closed { conn: BrokerConn(id) });
        }
        let at = self.now + self.delay();
        self.post(at, Happens::HangUp(id));
    }

    fn step_cluster(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.cluster.step(self.millis(), event, &mut actions);
        self.perform(actions);
    }

    fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Write { conn, bytes } => {
                    let delay = self.delay();
                    let Some(link) = self.links.get_mut(&conn.0) else { continue };
                    link.down = link.down.max(self.now + delay);
                    let at = link.down;
                    self.post(at, Happens::Deliver(conn.0, bytes.to_vec()));
                }
                Action::Close { conn } => {
                    let Some(link) = self.links.get_mut(&conn.0) else { continue };
                    link.is_accepted = false;
                    let at = link.down.max(self.now);
                    self.post(at, Happens::HangUp(conn.0));
                }
                _ => {}
            }
        }
    }

    fn step(&mut self, writer: usize, event: ProducerEvent) {
        let mut actions = Vec::new();
        let now = self.now;
        self.writers[writer].core.step(now, event, &mut actions);
        for action in actions {
            match action {
                ProducerAction::Transport(action) => self.transport(writer, action),
                ProducerAction::TransactionDone(call, result) => self.on_done(writer, call, result),
                ProducerAction::Fatal(error) => {
                    self.tell(|| format!("writer {writer} has failed: {error}"));
                    self.fenced += 1;
                    let step = std::mem::replace(&mut self.writers[writer].step, Step::Dead);
                    let number = self.writers[writer].number;
                    if matches!(step, Step::Producing(_) | Step::Offsets) {
                        self.oracle.get(number).fate = Fate::Aborted;
                    }
                }
                ProducerAction::LogEvent(event) => self.tell(|| format!("writer {writer}: {event:?}")),
                _ => {}
            }
        }
    }

    fn transport(&mut self, writer: usize, action: TransportAction) {
        match action {
            TransportAction::Connect { conn, host, .. } => {
                let broker = host.trim_start_matches('b').parse().unwrap_or(1);
                self.last_link += 1;
                let at = self.now + self.delay();
                let link = Link {
                    writer,
                    conn,
                    broker,
                    is_accepted: false,
                    unsent: Vec::new(),
                    received: Vec::new(),
                    up: at,
                    down: at,
                };
                self.links.insert(self.last_link, link);
                self.post(at, Happens::Connect(self.last_link));
            }
            TransportAction::Write { conn, bytes } => {
                let delay = self.delay();
                let Some(id) = self.link_of(writer, conn) else { return };
                let Some(link) = self.links.get_mut(&id) else { return };
                link.unsent.extend_from_slice(&bytes.to_vec());
                link.up = link.up.max(self.now + delay);
                let (at, found) = (link.up, frames(&mut link.unsent));
                for frame in found {
                    self.post(at, Happens::Arrive(id, frame));
                }
            }
            TransportAction::Gss { .. } => panic!("no login was set up"),
            TransportAction::CloseConn(conn) => {
                let Some(id) = self.link_of(writer, conn) else { return };
                if self.links.remove(&id).is_some_and(|link| link.is_accepted) {
                    self.step_cluster(Event::Closed { conn: BrokerConn(id) });
                }
            }
        }
    }

    fn link_of(&self, writer: usize, conn: ConnId) -> Option<u64> {
        self.links.iter().find(|(_, link)| (link.writer, link.conn) == (writer, conn)).map(|(id, _)| *id)
    }

    fn call(&mut self, writer: usize, call: TransactionCall, step: Step) {
        self.writers[writer].call += 1;
        self.writers[writer].step = step;
        self.writers[writer].called_at = self.now;
        let id = self.writers[writer].call;
        self.step(writer, ProducerEvent::Transaction(id, call));
    }

    /// Takes the writer's next step.
    fn act(&mut self, writer: usize) {
        match self.writers[writer].step {
            // The last ones end, so that nothing is open when the records are checked.
            Step::Idle if self.now < CALM + STOP => self.call(writer, TransactionCall::Begin, Step::Beginning),
            Step::Producing(left) => self.produce(writer, left),
            _ => {}
        }
    }

    fn produce(&mut self, writer: usize, left: u64) {
        if left == 0 {
            return self.finish(writer);
        }
        let number = self.writers[writer].number;
        let partition = self.rng.below(PARTITIONS as u64) as i32;
        let value = format!("{number}-{writer}-{left}");
        let record = ProducerRecord { timestamp: 1, key: None, value: Some(value.as_bytes()), headers: &[] };
        let accumulator = Arc::clone(&self.writers[writer].accumulator);
        let mut accumulator = accumulator.lock().unwrap_or_else(PoisonError::into_inner);
        let topic = accumulator.topic(TOPIC);
        let appended = accumulator.append(self.now, topic, Some(partition), &record).map(|appended| appended.action);
        drop(accumulator);
        let wait = match appended {
            Ok(action) => {
                self.oracle.get(number).values.push((partition, value));
                self.writers[writer].step = Step::Producing(left - 1);
                if action != AppendAction::Nothing {
                    self.step(writer, ProducerEvent::Drain);
                }
                self.rng.below(30) * MILLI
            }
            Err(AppendError::Transaction(_) | AppendError::Closed | AppendError::Fatal(_)) => {
                return self.finish(writer);
            }
            Err(_) => {
                self.step(writer, ProducerEvent::Drain);
                20 * MILLI
            }
        };
        let at = self.now + wait;
        self.post(at, Happens::Act(writer));
    }

    fn finish(&mut self, writer: usize) {
        let number = self.writers[writer].number;
        if matches!(self.writers[writer].step, Step::Producing(_)) && self.rng.below(2) == 0 {
            self.oracle.get(number).has_offset = true;
            let offset = TransactionOffset { tp: TopicPartition::new(SOURCE, 0), position: number, leader_epoch: -1 };
            let group =
                GroupMetadata { group_id: GROUP.into(), member_id: "".into(), generation: -1, instance_id: None };
            let call = TransactionCall::SendOffsets { group: Arc::new(group), offsets: vec![offset] };
            return self.call(writer, call, Step::Offsets);
        }
        self.end(writer);
    }

    fn end(&mut self, writer: usize) {
        let commit = self.rng.below(4) > 0;
        let call = if commit { TransactionCall::Commit } else { TransactionCall::Abort };
        self.call(writer, call, Step::Ending { commit });
    }

    fn on_done(&mut self, writer: usize, call: CallId, result: Result<(), TransactionError>) {
        let (step, number) = (self.writers[writer].step, self.writers[writer].number);
        if call != self.writers[writer].call {
            return;
        }
        self.tell(|| format!("writer {writer}, transaction {number}, {step:?}: {result:?}"));
        self.check_calm(writer, step, &result);
        match (step, result) {
            (Step::Beginning, Ok(())) => {
                self.writers[writer].began_at = self.now;
                let number = self.oracle.begin();
                let records = 1 + self.rng.below(8);
                self.writers[writer].number = number;
                self.writers[writer].step = Step::Producing(records);
            }
            (Step::Offsets, Ok(()) | Err(TransactionError::Failed(_))) => return self.end(writer),
            (Step::Ending { commit }, result) => {
                let fate = match result {
                    Ok(()) if commit => Fate::Committed,
                    Err(TransactionError::CommitUnknown(_)) => Fate::Unknown,
                    _ => Fate::Aborted,
                };
                self.oracle.get(number).fate = fate;
                self.writers[writer].step = Step::Idle;
            }
            (Step::Offsets, Err(_)) => self.oracle.get(number).fate = Fate::Aborted,
            _ => {}
        }
        let at = self.now + self.rng.below(100) * MILLI;
        self.post(at, Happens::Act(writer));
    }

    /// Checks that without faults, a call succeeds in time. A stuck batch would otherwise pass as an abort, after its
    /// `delivery.timeout.ms`.
    fn check_calm(&self, writer: usize, step: Step, result: &Result<(), TransactionError>) {
        let Writer { began_at, called_at, number, .. } = self.writers[writer];
        let (seed, took) = (self.seed, self.now - called_at);
        if called_at < CALM + RECOVERY || (step != Step::Beginning && began_at < CALM + RECOVERY) {
            return;
        }
        let is_sound = matches!(result, Ok(()) | Err(TransactionError::Fenced { .. }));
        assert!(is_sound, "seed {seed}: transaction {number}, {step:?}: {result:?}");
        assert!(took < PROMPT, "seed {seed}: transaction {number}, {step:?} took {} ms", took / MILLI);
    }

    fn check(mut self) -> Report {
        let seed = self.seed;
        let last = self.writers.last().map(|writer| writer.step);
        assert!(matches!(last, Some(Step::Idle | Step::Dead)), "seed {seed}: the last writer hangs: {last:?}");
        let mut found = BTreeMap::new();
        for partition in 0..PARTITIONS {
            let tp = BrokerPartition::new(TOPIC, partition);
            let records = self.cluster.records(&tp, -1, usize::MAX).unwrap_or_default();
            let text = |value: Option<Vec<u8>>| String::from_utf8(value.unwrap_or_default()).unwrap_or_default();
            found.insert(partition, records.into_iter().map(|record| text(record.value)).collect::<Vec<_>>());
        }
        self.oracle.check_records(seed, &found);
        let committed = self.cluster.committed(GROUP);
        self.oracle.check_offset(seed, committed.first().map(|(_, offset)| offset.offset));
        Report {
            committed: self.oracle.count(Fate::Committed),
            aborted: self.oracle.count(Fate::Aborted),
            fenced: self.fenced,
        }
    }
}
