//! World of a simulation: the virtual clock, the brokers, the network and the processes.

mod clock;
mod faults;
mod network;
mod settle;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use grete_broker::cluster::{BrokerAddress, Cluster, ClusterConfig};
use grete_broker::effects::Change;
use grete_broker::group::config::ConsumerGroupConfig;
use grete_broker::ids::Millis;
use grete_broker::share::config::{ShareGroupConfig, ShareGroupSettings, StartOffset};
use grete_proto::rng::Rng;
use grete_proto::time::{MILLI, Nanos};

use self::clock::WorldEvent;
use self::network::Link;
use crate::oracle::{Oracle, Violation};
use crate::plan::{DEAD_LETTERS, INPUT, OUTPUT, PORT, Plan, broker_host};
use crate::process::{Context, Effect, Process, ProcessEvent};
use crate::story::Story;

/// Wall clock at virtual time 0, in milliseconds since 1970.
const EPOCH_MS: Millis = 1_700_000_000_000;

/// Result of a simulation.
#[derive(Debug)]
pub struct Report {
    /// First broken promise; `None`: all promises hold.
    pub violation: Option<Violation>,
    /// Log of all events, if that was wanted.
    pub story: Story,
    /// Virtual time at the end, in nanoseconds.
    pub ended_at: Nanos,
}

/// Place of a process: it outlives crashes.
#[derive(Debug)]
struct Slot {
    /// Number in the plan; 0: the source.
    id: usize,
    process: Option<Process>,
    /// Number of starts so far.
    incarnation: u32,
    asleep_until: Nanos,
}

#[derive(Debug)]
struct World<'a> {
    plan: &'a Plan,
    now: Nanos,
    rng: Rng,
    /// `None`: all brokers are down.
    cluster: Option<Cluster>,
    /// Number of times that the brokers were started together.
    cluster_starts: u64,
    /// Changes that the brokers have stored.
    stored: Vec<Change>,
    /// Brokers that refuse connections.
    down: BTreeSet<i32>,
    slots: Vec<Slot>,
    links: BTreeMap<u64, Link>,
    last_link: u64,
    queue: BinaryHeap<Reverse<(Nanos, u64)>>,
    events: BTreeMap<u64, WorldEvent>,
    sequence: u64,
    oracle: Oracle,
    story: Story,
    failures: BTreeMap<u64, u32>,
    is_calm: bool,
    /// Whether processes stop for good.
    is_ending: bool,
}

/// Heartbeat interval of groups of the consumer protocol and of share groups: that of the classic one in
/// `process::config`.
const HEARTBEAT_MS: i32 = 1000;

/// Returns the session timeout of all groups, in milliseconds.
fn session_ms(plan: &Plan) -> i32 {
    i32::try_from(plan.app.session_timeout / MILLI).unwrap_or(i32::MAX)
}

/// Duration of a lock of a share group: handlers of a plan take up to 25 s.
const LOCK_MS: i32 = 3000;

/// Returns settings of share groups with short times. Brokers drop no record after many deliveries, so that a record which
/// is done was processed.
fn share_groups(plan: &Plan) -> ShareGroupConfig {
    let config = ShareGroupConfig::default();
    let defaults = ShareGroupSettings {
        auto_offset_reset: StartOffset::Earliest,
        record_lock_duration_ms: LOCK_MS,
        delivery_count_limit: i16::MAX,
        session_timeout_ms: session_ms(plan),
        heartbeat_interval_ms: HEARTBEAT_MS,
        ..config.defaults
    };
    ShareGroupConfig { defaults, ..config }
}

/// Runs a plan. `wants_story`: whether the report has a story.
#[must_use]
pub fn simulate(plan: &Plan, wants_story: bool) -> Report {
    let mut world = World::new(plan, wants_story);
    world.run();
    Report { violation: world.oracle.violation().cloned(), story: world.story, ended_at: world.now }
}

impl<'a> World<'a> {
    fn new(plan: &'a Plan, wants_story: bool) -> Self {
        let mut world = Self {
            plan,
            now: MILLI,
            rng: Rng::new(plan.seed.rotate_left(17) ^ 0x6e65_7477),
            cluster: None,
            cluster_starts: 0,
            stored: Vec::new(),
            down: BTreeSet::new(),
            slots: Vec::new(),
            links: BTreeMap::new(),
            last_link: 0,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            sequence: 0,
            oracle: Oracle::new(plan),
            story: Story::new(wants_story),
            failures: BTreeMap::new(),
            is_calm: false,
            is_ending: false,
        };
        world.start_cluster();
        let topics = [(INPUT, plan.cluster.inputs), (OUTPUT, plan.cluster.outputs), (DEAD_LETTERS, 1)];
        for (topic, partitions) in topics {
            let created = world.cluster.as_mut().map(|cluster| cluster.create_topic(topic, partitions, &[]));
            if let Some(Err((_, message))) = created {
                world.oracle.violate(|| format!("topic {topic} cannot be created: {message}"));
            }
        }
        for (id, start) in std::iter::once((0, MILLI)).chain(plan.processes.iter().map(|app| (app.id, app.start))) {
            world.slots.push(Slot { id, process: None, incarnation: 0, asleep_until: 0 });
            let slot = world.slots.len() - 1;
            world.post(start, WorldEvent::Start(slot));
        }
        if let Some(first) = plan.records.first() {
            let event = ProcessEvent::Produce(first.id);
            world.post(first.at, WorldEvent::Process { slot: 0, incarnation: 1, event });
        }
        for (number, fault) in plan.faults.iter().enumerate() {
            world.post(fault.at, WorldEvent::Fault(number));
        }
        world.post(plan.calm_at, WorldEvent::Calm);
        world
    }

    /// Starts all brokers together, with what they had stored.
    fn start_cluster(&mut self) {
        self.cluster_starts += 1;
        let broker = |id| BrokerAddress { id, host: broker_host(id), port: PORT, rack: None };
        let mut cluster = Cluster::new(ClusterConfig {
            seed: self.plan.seed.wrapping_mul(31).wrapping_add(self.cluster_starts),
            release: self.plan.cluster.release,
            auto_create_topics: false,
            group_min_session_timeout_ms: 1000,
            consumer_groups: ConsumerGroupConfig {
                session_timeout_ms: session_ms(self.plan),
                heartbeat_interval_ms: HEARTBEAT_MS,
                ..ConsumerGroupConfig::default()
            },
            share_groups: share_groups(self.plan),
            ..ClusterConfig::new((1..=self.plan.cluster.brokers).map(broker).collect())
        });
        self.stored.iter().for_each(|change| cluster.restore(change));
        self.cluster = Some(cluster);
        self.down.clear();
    }

    fn slot_of(&self, id: usize) -> Option<usize> {
        self.slots.iter().position(|slot| slot.id == id)
    }

    /// Starts the process of a slot, unless it runs.
    fn start(&mut self, slot: usize) {
        let (plan, now, is_ending) = (self.plan, self.now, self.is_ending);
        let Some(place) = self.slots.get_mut(slot).filter(|place| place.process.is_none() && !is_ending) else {
            return;
        };
        place.incarnation += 1;
        place.asleep_until = 0;
        place.process = Some(match place.id {
            0 => Process::source(plan, now),
            id => Process::app(plan, id, place.incarnation, now),
        });
        if let Some(process) = &place.process {
            self.story.tell(&process.name, || "starts".to_owned());
        }
        self.step(slot, ProcessEvent::Timer);
    }

    /// Passes an event to a process, and carries out what follows.
    fn step(&mut self, slot: usize, event: ProcessEvent) {
        let mut effects = Vec::new();
        let Some(place) = self.slots.get_mut(slot) else { return };
        let incarnation = place.incarnation;
        let Some(process) = &mut place.process else { return };
        let mut context = Context {
            now: self.now,
            epoch_ms: EPOCH_MS,
            plan: self.plan,
            oracle: &mut self.oracle,
            story: &mut self.story,
            failures: &mut self.failures,
            effects: &mut effects,
        };
        process.step(&mut context, event);
        for effect in effects {
            match effect {
                Effect::Transport(role, action) => self.transport(slot, role, action),
                Effect::Later(at, event) => self.post(at, WorldEvent::Process { slot, incarnation, event }),
            }
        }
        self.check_owners();
        let place = self.slots.get_mut(slot);
        if place.is_some_and(|place| place.process.as_ref().is_some_and(Process::has_ended)) {
            self.end_process(slot);
        }
    }

    /// Checks that no two members work on a partition.
    fn check_owners(&mut self) {
        if self.plan.app.queue {
            return; // members share partitions
        }
        let now = self.now;
        for partition in 0..self.plan.cluster.inputs {
            let works = |slot: &&Slot| {
                let consumer = slot.process.as_ref().and_then(|process| process.consumer.as_ref());
                consumer.is_some_and(|consumer| consumer.works_on(partition, now))
            };
            let owners: Vec<usize> = self.slots.iter().filter(works).map(|slot| slot.id).collect();
            if owners.len() > 1 {
                self.oracle.violate(|| format!("{INPUT}-{partition} is worked on by {owners:?} at once"));
            }
        }
    }
}
