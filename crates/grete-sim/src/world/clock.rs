//! Virtual clock: one queue of events, and the deadlines of brokers and processes.

use std::cmp::Reverse;

use grete_broker::cluster::Event;
use grete_broker::ids::Millis;
use grete_proto::time::{MILLI, Nanos};
use grete_wire::Frame;

use super::{EPOCH_MS, World};
use crate::process::{Process, ProcessEvent};

/// Steps at one time beyond which something is due again and again.
const MAX_STEPS_AT_ONE_TIME: usize = 20_000;

#[derive(Debug)]
pub(super) enum WorldEvent {
    Process {
        slot: usize,
        incarnation: u32,
        event: ProcessEvent,
    },
    Start(usize),
    Fault(usize),
    StartBroker(i32),
    StartCluster,
    Calm,
    /// A connection attempt reaches the broker.
    Connect(u64),
    /// The oldest request on its way arrives.
    Arrive(u64),
    /// Bytes reach the client.
    Deliver(u64, Vec<u8>),
    /// The end of a connection reaches the client.
    HangUp(u64),
}

impl World<'_> {
    pub(super) fn post(&mut self, at: Nanos, event: WorldEvent) {
        self.sequence += 1;
        self.events.insert(self.sequence, event);
        self.queue.push(Reverse((at.max(self.now), self.sequence)));
    }

    pub(super) fn wall_ms(&self) -> Millis {
        EPOCH_MS + Millis::try_from(self.now / MILLI).unwrap_or(Millis::MAX)
    }

    /// Runs until `until` holds, a promise is broken, or the time is over. Returns whether `until` holds.
    pub(super) fn run_until(&mut self, end: Nanos, until: impl Fn(&Self) -> bool) -> bool {
        let mut steps = 0;
        loop {
            if self.oracle.violation().is_some() {
                return false;
            }
            if until(self) {
                return true;
            }
            let next = self.next_time();
            if next > end {
                self.set_now(end);
                return until(self);
            }
            steps = if next > self.now { 0 } else { steps + 1 };
            if steps > MAX_STEPS_AT_ONE_TIME {
                self.oracle.violate(|| "something is due again and again".to_owned());
            }
            self.set_now(next);
            self.run_due();
        }
    }

    fn set_now(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        self.oracle.now = self.now;
        self.story.now = self.now;
    }

    fn next_time(&self) -> Nanos {
        let queued = self.queue.peek().map(|Reverse((at, _))| *at);
        let timers = self.slots.iter().filter_map(|slot| {
            slot.process.as_ref().and_then(Process::deadline).map(|deadline| deadline.max(slot.asleep_until))
        });
        let next = queued.into_iter().chain(timers).chain(self.cluster_deadline()).min();
        next.unwrap_or(Nanos::MAX).max(self.now)
    }

    fn cluster_deadline(&self) -> Option<Nanos> {
        let deadline = self.cluster.as_ref()?.deadline()?;
        Some(Nanos::try_from(deadline.saturating_sub(EPOCH_MS)).unwrap_or(0).saturating_mul(MILLI))
    }

    /// Runs everything that is due now.
    fn run_due(&mut self) {
        while let Some(Reverse((at, sequence))) = self.queue.peek().copied()
            && at <= self.now
        {
            self.queue.pop();
            if let Some(event) = self.events.remove(&sequence) {
                self.happen(event);
            }
            if self.oracle.violation().is_some() {
                return;
            }
        }
        if self.cluster_deadline().is_some_and(|deadline| deadline <= self.now) {
            self.step_cluster(Event::Tick);
        }
        for slot in 0..self.slots.len() {
            let place = &self.slots[slot];
            let deadline = place.process.as_ref().and_then(Process::deadline);
            if place.asleep_until <= self.now && deadline.is_some_and(|deadline| deadline <= self.now) {
                self.step(slot, ProcessEvent::Timer);
            }
        }
    }

    fn happen(&mut self, event: WorldEvent) {
        match event {
            WorldEvent::Process { slot, incarnation, event } => self.pass(slot, incarnation, event),
            WorldEvent::Start(slot) => self.start(slot),
            WorldEvent::Fault(number) => self.begin_fault(number),
            WorldEvent::StartBroker(broker) => self.start_broker(broker),
            WorldEvent::StartCluster => self.restart_cluster(),
            WorldEvent::Calm => self.calm(),
            WorldEvent::Connect(link) => self.arrive_connect(link),
            WorldEvent::Arrive(link) => self.arrive(link),
            WorldEvent::Deliver(link, bytes) => self.deliver(link, &bytes),
            WorldEvent::HangUp(link) => self.arrive_hang_up(link),
        }
    }

    /// Passes an event to a process, or keeps it until the process wakes up.
    pub(super) fn pass(&mut self, slot: usize, incarnation: u32, event: ProcessEvent) {
        let Some(place) = self.slots.get(slot).filter(|place| place.incarnation == incarnation) else { return };
        if place.asleep_until > self.now {
            return self.post(place.asleep_until, WorldEvent::Process { slot, incarnation, event });
        }
        self.step(slot, event);
    }

    /// Splits complete frames off the front of a buffer.
    pub(super) fn frames(buffer: &mut Vec<u8>) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(size) = buffer.first_chunk::<4>().map(|size| u32::from_be_bytes(*size) as usize)
            && buffer.len() >= 4 + size
        {
            let rest = buffer.split_off(4 + size);
            frames.push(Frame::from(std::mem::replace(buffer, rest).split_off(4)));
        }
        frames
    }
}
