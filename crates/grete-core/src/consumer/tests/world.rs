//! Time, wires and chance. Everything that happens is an event in one queue; a seed decides how long it takes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use grete_wire::{ApiKey, Frame};

use super::brokers::Brokers;
use super::member::Member;
use crate::cluster::ClusterConfig;
use crate::cluster::fixture::Asked;
use crate::consumer::*;
use crate::dispatch::{Finished, JobKind};
use crate::fetch::FetchConfig;
use crate::group::GroupConfig;
use crate::ids::{ConnId, NodeId, TopicPartition};
use crate::time::{MILLI, SECOND};

/// How handlers behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// They return at once.
    AtOnce,
    /// They return when the test says so.
    Held,
    /// They take a while, and some raise.
    Chance,
}

#[derive(Debug)]
pub(super) enum Event {
    Connected(usize, ConnId),
    Request(usize, Asked),
    Response(usize, ConnId, Frame),
    JobEnd(usize, u64),
    PollEnd(u64),
    HangUp(usize, ConnId),
}

#[derive(Debug)]
pub(super) struct Conn {
    pub(super) node: NodeId,
    /// Requests that the broker has seen, in order, and their answers as far as it has them.
    pub(super) queue: VecDeque<(i32, Option<Frame>)>,
    /// What is later on the same wire arrives later.
    pub(super) out: Nanos,
    pub(super) back: Nanos,
}

/// A Fetch that waits for data.
#[derive(Debug)]
pub(super) struct Poll {
    pub(super) id: u64,
    pub(super) member: usize,
    pub(super) asked: Asked,
    pub(super) session: i32,
    pub(super) full: bool,
    pub(super) max_bytes: i32,
}

#[derive(Debug)]
pub struct World {
    pub now: Nanos,
    pub seed: u64,
    pub rng: Rng,
    pub brokers: Brokers,
    pub members: Vec<Member>,
    pub work: Work,
    /// Wires are slow now and then, threads are interrupted at bad moments.
    pub chaos: bool,
    /// Commits are not compared with what was processed.
    pub unchecked: bool,
    pub(super) conns: BTreeMap<(usize, ConnId), Conn>,
    pub(super) polls: Vec<Poll>,
    pub(super) queue: BinaryHeap<Reverse<(Nanos, u64)>>,
    pub(super) events: BTreeMap<u64, Event>,
    pub(super) sequence: u64,
    /// Every request that reached a broker.
    pub seen: Vec<(Nanos, usize, Asked)>,
    /// Records whose handler has returned (or marked them).
    pub processed: BTreeMap<TopicPartition, BTreeSet<i64>>,
    /// Committed offsets that were checked against it.
    pub(super) checked: BTreeMap<TopicPartition, i64>,
}

pub fn tp(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}

/// Short times, so that a test of the clock is short, too.
pub fn config() -> ConsumerCoreConfig {
    let group = GroupConfig {
        session_timeout: 10 * SECOND,
        heartbeat_interval: SECOND,
        max_poll_interval: 20 * SECOND,
        commit_timeout: 15 * SECOND,
        ..GroupConfig::new("billing")
    };
    ConsumerCoreConfig {
        cluster: ClusterConfig { bootstrap: vec![("b1".into(), 9092)], ..ClusterConfig::default() },
        fetch: FetchConfig { partition_bytes: 4000, queued_bytes: 64_000, ..FetchConfig::default() },
        group: Some(group),
        auto_commit: Some(5 * SECOND),
        ..ConsumerCoreConfig::default()
    }
}

impl World {
    /// One topic, `orders`, on two brokers.
    pub fn new(partitions: i32) -> Self {
        Self::with(partitions, 1, 2)
    }

    pub fn with(partitions: i32, seed: u64, nodes: NodeId) -> Self {
        let mut brokers = Brokers::new(nodes);
        brokers.create("orders", partitions);
        Self {
            now: SECOND,
            seed,
            rng: Rng::new(seed),
            brokers,
            members: Vec::new(),
            work: Work::AtOnce,
            chaos: false,
            unchecked: false,
            conns: BTreeMap::new(),
            polls: Vec::new(),
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            sequence: 0,
            seen: Vec::new(),
            processed: BTreeMap::new(),
            checked: BTreeMap::new(),
        }
    }

    pub fn add(&mut self, config: ConsumerCoreConfig) -> usize {
        self.members.push(Member::new(config, self.rng.next_u64()));
        self.members.len() - 1
    }

    // ---- what tests do

    /// A call of the user: queued, and the network thread woken.
    pub fn tell(&mut self, m: usize, event: ConsumerEvent) {
        let now = self.now;
        self.members[m].take_outbox(now);
        self.members[m].step(now, event);
        self.finish_step(m, ConsumerEvent::Tick);
    }

    pub fn subscribe(&mut self, m: usize) {
        self.tell(m, ConsumerEvent::Subscribe(vec!["orders".into()]));
    }

    pub fn assign(&mut self, m: usize, starts: &[(i32, Start)]) {
        let partitions = starts.iter().map(|&(partition, start)| (tp(partition), start)).collect();
        self.tell(m, ConsumerEvent::Assign { partitions, id: 1 });
    }

    pub fn seek(&mut self, m: usize, partition: i32, start: Start) {
        self.members[m].drop_queued(&tp(partition));
        self.tell(m, ConsumerEvent::Seek(tp(partition), start));
    }

    pub fn close(&mut self, m: usize, time: Nanos) {
        let offsets = Some(self.members[m].last_offsets());
        let deadline = self.now + time;
        self.tell(m, ConsumerEvent::Close { offsets, deadline });
    }

    pub fn append(&mut self, partition: i32, count: i64) {
        let time = i64::try_from(self.now / MILLI).unwrap();
        self.brokers.logs.get_mut(&tp(partition)).unwrap().append(count, time);
        self.serve_polls();
    }

    /// The handler of that partition returns.
    pub fn end_job(&mut self, m: usize, partition: i32, finished: Finished) {
        let job = self.members[m].jobs.iter().find(|job| job.tp == tp(partition)).expect("a job runs");
        let id = job.id;
        self.end(m, id, finished);
    }

    pub fn jobs(&self, m: usize) -> Vec<(i32, JobKind)> {
        self.members[m].jobs.iter().map(|job| (job.tp.partition, job.kind)).collect()
    }

    pub fn delivered(&self, m: usize, partition: i32) -> Vec<i64> {
        self.members[m].delivered.iter().filter(|(p, _)| *p == partition).map(|(_, offset)| *offset).collect()
    }

    pub fn committed(&self, partition: i32) -> Option<i64> {
        self.brokers.coordinator.offsets.get(&tp(partition)).copied()
    }

    /// When requests of that kind reached a broker.
    pub fn times(&self, m: usize, api: ApiKey) -> Vec<Nanos> {
        self.seen.iter().filter(|(_, member, asked)| *member == m && asked.api == api).map(|(at, ..)| *at).collect()
    }

    /// The connections of a member that satisfy `which` are cut.
    pub fn cut(&mut self, m: usize, which: impl Fn(NodeId) -> bool) {
        let cut = self.conns.iter().filter(|((member, _), conn)| *member == m && which(conn.node));
        let cut: Vec<_> = cut.map(|(key, _)| *key).collect();
        for (m, conn) in cut {
            self.hang_up(m, conn);
        }
    }

    pub fn kill(&mut self, m: usize) {
        self.members[m].alive = false;
        self.members[m].jobs.clear();
        self.conns.retain(|(member, _), _| *member != m);
        self.polls.retain(|poll| poll.member != m);
    }

    pub fn alive(&self) -> Vec<usize> {
        (0..self.members.len()).filter(|m| self.members[*m].alive && !self.members[*m].finished).collect()
    }
}
