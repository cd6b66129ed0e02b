//! Simulator of members, brokers and network. Everything that happens is an event in one queue; a seed decides its
//! duration.

mod brokers;
mod clock;
mod fetch_sessions;
pub(crate) mod member;
mod network;
mod partition_log;
mod workers;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use grete_wire::{ApiKey, Frame};

use crate::cluster::ClusterConfig;
use crate::cluster::test_cluster::ReceivedRequest;
use crate::consumer::*;
use crate::dispatch::{JobKind, JobOutcome};
use crate::fetch::FetchConfig;
use crate::group::GroupConfig;
use crate::ids::{ConnId, NodeId, TopicPartition};
use crate::time::{MILLI, SECOND};
use brokers::Brokers;
use fetch_sessions::PlannedFetch;
use member::Member;

/// Behavior of handlers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Handlers return at once.
    AtOnce,
    /// Handlers return when the test completes them.
    Held,
    /// Handlers take a random time, and some raise.
    Chance,
}

#[derive(Debug)]
pub(super) enum Event {
    Connected(usize, ConnId),
    Request(usize, ReceivedRequest),
    Response(usize, ConnId, Frame),
    JobEnd(usize, u64),
    PollEnd(u64),
    HangUp(usize, ConnId),
}

#[derive(Debug)]
pub(super) struct Conn {
    pub(super) node: NodeId,
    /// Requests that the broker has received, in order, with the responses that exist.
    pub(super) queue: VecDeque<(i32, Option<Frame>)>,
    /// Later messages on the same connection arrive later.
    pub(super) out: Nanos,
    pub(super) back: Nanos,
}

/// Fetch that waits for data.
#[derive(Debug)]
pub(super) struct Poll {
    pub(super) id: u64,
    pub(super) member: usize,
    pub(super) asked: ReceivedRequest,
    pub(super) planned: PlannedFetch,
    pub(super) max_bytes: i32,
}

#[derive(Debug)]
pub struct Simulator {
    pub now: Nanos,
    pub seed: u64,
    pub rng: Rng,
    pub brokers: Brokers,
    pub members: Vec<Member>,
    pub work: Work,
    /// Whether connections are slow at times, and threads are interrupted at critical points.
    pub chaos: bool,
    /// Whether to skip the check of commits against processed records.
    pub unchecked: bool,
    pub(super) conns: BTreeMap<(usize, ConnId), Conn>,
    pub(super) polls: Vec<Poll>,
    pub(super) queue: BinaryHeap<Reverse<(Nanos, u64)>>,
    pub(super) events: BTreeMap<u64, Event>,
    pub(super) sequence: u64,
    /// All requests that reached a broker.
    pub seen: Vec<(Nanos, usize, ReceivedRequest)>,
    /// Records whose handler returned (or marked them).
    pub processed: BTreeMap<TopicPartition, BTreeSet<i64>>,
    /// Partitions that lost records: groups may have committed offsets beyond their end.
    pub truncated: BTreeSet<TopicPartition>,
    /// Committed offsets that were checked against `processed`.
    pub(super) checked: BTreeMap<TopicPartition, i64>,
}

pub fn tp(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}

/// Short times, so that tests of timers are short, too.
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

impl Simulator {
    /// Creates a simulator with one topic, `orders`, on two brokers.
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
            truncated: BTreeSet::new(),
            checked: BTreeMap::new(),
        }
    }

    pub fn add(&mut self, config: ConsumerCoreConfig) -> usize {
        self.members.push(Member::new(config, self.rng.next_u64()));
        self.members.len() - 1
    }

    // ---- test steps

    /// Queues a call of the user and wakes the network thread.
    pub fn send_event(&mut self, m: usize, event: ConsumerEvent) {
        let now = self.now;
        self.members[m].take_outbox(now);
        self.members[m].step(now, event);
        self.finish_step(m, ConsumerEvent::Tick);
    }

    pub fn subscribe(&mut self, m: usize) {
        self.send_event(m, ConsumerEvent::Subscribe(vec!["orders".into()]));
    }

    /// Leaves the group; the member may subscribe again.
    pub fn unsubscribe(&mut self, m: usize) {
        self.send_event(m, ConsumerEvent::Subscribe(Vec::new()));
    }

    pub fn assign(&mut self, m: usize, starts: &[(i32, StartOffset)]) {
        let partitions = starts.iter().map(|&(partition, start)| (tp(partition), start)).collect();
        self.send_event(m, ConsumerEvent::Assign { partitions, id: 1 });
    }

    pub fn seek(&mut self, m: usize, partition: i32, start: StartOffset) {
        self.members[m].drop_queued(&tp(partition));
        self.send_event(m, ConsumerEvent::Seek(tp(partition), start));
    }

    pub fn close(&mut self, m: usize, time: Nanos) {
        let offsets = Some(self.members[m].last_offsets());
        let deadline = self.now + time;
        self.send_event(m, ConsumerEvent::Close { offsets, deadline, remain_in_group: true });
    }

    /// Appends records; does nothing while the topic is deleted.
    pub fn append(&mut self, partition: i32, count: i64) {
        let time = i64::try_from(self.now / MILLI).unwrap();
        if let Some(log) = self.brokers.logs.get_mut(&tp(partition)) {
            log.append(count, time);
        }
        self.serve_polls();
    }

    /// Deletes the topic, and the groups' committed offsets with it.
    pub fn delete_topic(&mut self) {
        self.brokers.delete("orders");
        self.processed.clear();
        self.checked.clear();
        self.truncated.clear();
        self.serve_polls();
    }

    /// Creates the topic again, with another id.
    pub fn create_topic(&mut self, partitions: i32) {
        self.brokers.create("orders", partitions);
        self.serve_polls();
    }

    /// Removes the last batches of the partition.
    pub fn truncate(&mut self, partition: i32, batches: usize) {
        let Some(log) = self.brokers.logs.get_mut(&tp(partition)) else { return };
        log.truncate(batches);
        self.truncated.insert(tp(partition));
        self.serve_polls();
    }

    /// Removes the permission to read the topic, or grants it.
    pub fn forbid(&mut self, forbidden: bool) {
        let topics = &mut self.brokers.coordinator.forbidden;
        if forbidden {
            topics.insert("orders".into())
        } else {
            topics.remove("orders")
        };
        self.serve_polls();
    }

    /// Lets the handler of that partition return.
    pub fn end_job(&mut self, m: usize, partition: i32, finished: JobOutcome) {
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
        self.brokers.coordinator.offsets().get(&tp(partition)).copied()
    }

    /// Returns the times at which requests of that kind reached a broker.
    pub fn times(&self, m: usize, api: ApiKey) -> Vec<Nanos> {
        self.seen.iter().filter(|(_, member, asked)| *member == m && asked.api == api).map(|(at, ..)| *at).collect()
    }

    /// Cuts a member's connections to the nodes that satisfy `which`.
    pub fn disconnect(&mut self, m: usize, which: impl Fn(NodeId) -> bool) {
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
