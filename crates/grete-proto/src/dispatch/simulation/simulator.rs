//! Event loop of the simulation: one queue of events, whose delays a seed decides.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use super::checks::record_outcome::RecordOutcome;
use super::coordinator::PartitionOwnership;
use super::handler::Pace;
use super::partition_log::Log;
use super::process::Process;
use super::record::{Record, RecordBehavior};
use super::scenario::Scenario;
use crate::dispatch::{JobState, LaneId};
use crate::ids::TopicPartition;
use crate::rng::Rng;
use crate::time::{MILLI, Nanos, SECOND, earliest};

/// Event of the simulation.
#[derive(Debug)]
pub enum SimEvent {
    Append { partition: usize, left: usize },
    Assigned { process: usize, partition: usize, epoch: u32 },
    Position { process: usize, lane: LaneId, offset: Option<i64> },
    Fetched { process: usize, lane: LaneId, generation: u32 },
    Step { process: usize, job: u64 },
    Settle { process: usize, batch: usize },
    LateMark { process: usize, lane: LaneId, shared: Arc<JobState>, rows: Vec<i64> },
    Heartbeat { process: usize },
    Commit { process: usize },
    RevocationDeadline { process: usize, lane: LaneId },
    SessionCheck { process: usize },
    Wake { process: usize },
    Resume { process: usize, lane: LaneId },
    Stop { process: usize },
    StopDeadline { process: usize },
    Start,
    Fault,
    Calm,
}

/// Partition: its log, its owner and committed offset, and the outcomes of its records.
#[derive(Debug)]
pub struct Partition {
    pub tp: TopicPartition,
    pub route: usize,
    pub log: Log,
    pub ownership: PartitionOwnership,
    pub outcomes: BTreeMap<i64, RecordOutcome>,
}

#[derive(Debug)]
pub struct Simulator {
    pub now: Nanos,
    pub rng: Rng,
    pub scenario: Scenario,
    pub partitions: Vec<Partition>,
    pub processes: Vec<Process>,
    pub pace: Pace,
    pub verbose: bool,
    /// Acknowledged dead letters: partition and offset of the record.
    pub dead_letters: Vec<(usize, i64)>,
    pub appending: usize,
    pub next_job: u64,
    queue: BinaryHeap<Reverse<(Nanos, u64)>>,
    events: BTreeMap<u64, SimEvent>,
    sequence: u64,
}

impl Simulator {
    pub fn new(seed: u64, verbose: bool) -> Self {
        let mut rng = Rng::new(seed);
        let scenario = Scenario::draw(&mut rng);
        let mut partitions = Vec::new();
        for (number, route) in scenario.routes.iter().enumerate() {
            for partition in 0..route.partitions {
                partitions.push(Partition {
                    tp: TopicPartition::new(format!("topic-{number}"), partition as i32),
                    route: number,
                    log: Log::new(partition as i32),
                    ownership: PartitionOwnership::default(),
                    outcomes: BTreeMap::new(),
                });
            }
        }
        if verbose {
            eprintln!("{scenario:#?}");
        }
        let mut world = Self {
            now: SECOND,
            rng,
            partitions,
            processes: Vec::new(),
            pace: if scenario.rough > 0 { Pace::Rough } else { Pace::Brisk },
            verbose,
            dead_letters: Vec::new(),
            appending: 0,
            next_job: 0,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            sequence: 0,
            scenario,
        };
        for partition in 0..world.partitions.len() {
            world.appending += 1;
            let left = world.scenario.records;
            world.after(0, 100 * MILLI, SimEvent::Append { partition, left });
        }
        for _ in 0..world.scenario.processes {
            world.after(0, SECOND, SimEvent::Start);
        }
        if world.pace == Pace::Rough {
            world.after(0, world.scenario.fault_every, SimEvent::Fault);
            world.post(world.now + world.scenario.rough, SimEvent::Calm);
        }
        world
    }

    pub fn post(&mut self, at: Nanos, event: SimEvent) {
        self.sequence += 1;
        self.events.insert(self.sequence, event);
        self.queue.push(Reverse((at, self.sequence)));
    }

    /// Posts an event at a random time between `least` and `most` from now.
    pub fn after(&mut self, least: Nanos, most: Nanos, event: SimEvent) {
        let wait = least + self.rng.below(most - least + 1);
        self.post(self.now + wait, event);
    }

    pub fn wall_ms(&self) -> i64 {
        super::process::WALL_CLOCK_OFFSET_MS + (self.now / MILLI) as i64
    }

    pub fn trace(&self, what: impl FnOnce() -> String) {
        if self.verbose {
            eprintln!("{:>9.3} {}", self.now as f64 / 1e9, what());
        }
    }

    /// Runs events until `until` holds; panics if that takes longer than `patience`.
    pub fn run_until(&mut self, patience: Nanos, until: impl Fn(&Self) -> bool) {
        let end = self.now + patience;
        while !until(self) {
            let next = self.queue.peek().map(|Reverse((at, _))| *at);
            let timers = self.processes.iter().filter_map(Process::deadline).min();
            let next = earliest(next, timers).expect("some process sends heartbeats");
            assert!(next <= end, "it hangs: {}", self.describe());
            self.now = self.now.max(next);
            while let Some(Reverse((at, id))) = self.queue.peek().copied().filter(|Reverse((at, _))| *at <= self.now) {
                self.queue.pop();
                let event = self.events.remove(&id).expect("an event happens once");
                self.happen(at, event);
            }
            for process in 0..self.processes.len() {
                self.pump(process);
            }
        }
    }

    fn happen(&mut self, at: Nanos, event: SimEvent) {
        // Events of a sleeping process happen when it wakes.
        if let Some(process) = event.process()
            && let Some(until) = self.processes[process].asleep_until
        {
            return self.post(until.max(at), event);
        }
        match event {
            SimEvent::Append { partition, left } => self.append(partition, left),
            SimEvent::Start => self.start(),
            SimEvent::Assigned { process, partition, epoch } => self.assigned(process, partition, epoch),
            SimEvent::Position { process, lane, offset } => self.positioned(process, lane, offset),
            SimEvent::Fetched { process, lane, generation } => self.fetched(process, lane, generation),
            SimEvent::Step { process, job } => self.step(process, job),
            SimEvent::Settle { process, batch } => self.settle(process, batch),
            SimEvent::LateMark { process, lane, shared, rows } => self.late_mark(process, lane, &shared, rows),
            SimEvent::Heartbeat { process } => self.heartbeat(process),
            SimEvent::Commit { process } => self.commit(process),
            SimEvent::RevocationDeadline { process, lane } => self.abandon(process, lane),
            SimEvent::SessionCheck { process } => self.check_session(process),
            SimEvent::Wake { process } => self.wake(process),
            SimEvent::Resume { process, lane } => self.resume(process, lane),
            SimEvent::Stop { process } => self.stop(process),
            SimEvent::StopDeadline { process } => self.stop_deadline(process),
            SimEvent::Fault => self.fault(),
            SimEvent::Calm => self.calm(),
        }
    }

    fn append(&mut self, partition: usize, left: usize) {
        let now_ms = self.wall_ms();
        let route = &self.scenario.routes[self.partitions[partition].route];
        let (records, shape) = route.batch(&mut self.rng, left, now_ms);
        let left = left - records.len().min(left);
        self.partitions[partition].write(records, shape);
        if left > 0 {
            self.after(
                0,
                if self.pace == Pace::Rough { 3 * SECOND } else { 300 * MILLI },
                SimEvent::Append { partition, left },
            );
        } else {
            self.appending -= 1;
        }
        self.plan_fetches_of(partition);
    }

    /// Repairs the dead letters and appends them to their original partitions.
    pub fn replay(&mut self) {
        let mut letters = std::mem::take(&mut self.dead_letters);
        letters.sort_unstable();
        letters.dedup();
        for (partition, offset) in letters {
            let record = self.partitions[partition].log.records[&offset].clone();
            let mended = Record { nature: RecordBehavior::Good, timestamp: self.wall_ms(), ..record };
            self.partitions[partition].write(vec![mended], super::partition_log::Shape::Plain);
            self.plan_fetches_of(partition);
        }
    }

    fn plan_fetches_of(&mut self, partition: usize) {
        for process in 0..self.processes.len() {
            if self.processes[process].is_awake() && self.processes[process].seat_of(partition).is_some() {
                self.plan_fetches(process);
            }
        }
    }

    pub fn is_calm(&self) -> bool {
        self.pace == Pace::Brisk
    }

    /// Returns whether all records are processed and committed.
    pub fn is_done(&self) -> bool {
        self.appending == 0
            && self.partitions.iter().all(|partition| partition.ownership.committed() == partition.log.end)
    }

    fn describe(&self) -> String {
        let mut lines = vec![format!("at {:.3}", self.now as f64 / 1e9)];
        for partition in &self.partitions {
            let (committed, end) = (partition.ownership.committed(), partition.log.end);
            lines.push(format!("{}: committed {committed} of {end}, {:?}", partition.tp, partition.ownership.owner));
        }
        for (number, process) in self.processes.iter().enumerate().filter(|(_, process)| process.alive) {
            let deadline = process.dispatch.next_deadline();
            let held: Vec<_> = process.held.iter().filter(|(_, bytes)| **bytes > 0).collect();
            lines.push(format!("process {number}: deadline {deadline:?}, holds {held:?}"));
            for status in process.dispatch.lane_statuses(None) {
                lines.push(format!("  {status:?}"));
            }
            for (id, job) in &process.jobs {
                lines.push(format!("  job {id}: {:?} of {} {:?}", job.lease.kind, job.lease.tp, job.rows));
            }
            for (id, waiting) in &process.waiting {
                lines.push(format!("  job {id} waits: {waiting:?}"));
            }
        }
        lines.join("\n")
    }
}

impl SimEvent {
    /// Returns the process whose thread handles the event; `None`: the event is external.
    fn process(&self) -> Option<usize> {
        match self {
            Self::Assigned { process, .. }
            | Self::Position { process, .. }
            | Self::Fetched { process, .. }
            | Self::Step { process, .. }
            | Self::Settle { process, .. }
            | Self::LateMark { process, .. }
            | Self::Heartbeat { process }
            | Self::Commit { process }
            | Self::RevocationDeadline { process, .. }
            | Self::Resume { process, .. }
            | Self::Stop { process }
            | Self::StopDeadline { process } => Some(*process),
            Self::Append { .. }
            | Self::SessionCheck { .. }
            | Self::Wake { .. }
            | Self::Start
            | Self::Fault
            | Self::Calm => None,
        }
    }
}

impl Partition {
    pub fn write(&mut self, records: Vec<Record>, shape: super::partition_log::Shape) {
        let before = self.log.end;
        self.log.append(records, shape);
        for offset in self.log.records.range(before..).map(|(offset, _)| *offset) {
            self.outcomes.insert(offset, RecordOutcome::default());
        }
    }
}
