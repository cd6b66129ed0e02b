//! The network thread of a process: what it fetches, and what it hears from the workers.

use super::book::Stage;
use super::process::Process;
use super::world::{Event, World};
use crate::dispatch::{LaneId, OffsetMap};
use crate::time::{MILLI, Nanos, earlier};

impl Process {
    /// When something is to be done though nothing happens outside.
    pub fn deadline(&self) -> Option<Nanos> {
        if !self.is_awake() {
            return None;
        }
        let stalls = earlier(self.dispatch.stall_deadline(self.client), self.look_at);
        earlier(self.dispatch.next_deadline(), stalls)
    }
}

impl World {
    /// A step of the network thread.
    pub fn network(&mut self, process: usize) {
        loop {
            let process_ = &mut self.processes[process];
            if !process_.alive {
                return;
            }
            let woken = process_.dispatch.take_wake(process_.client) | std::mem::take(&mut process_.woken);
            let outbox = process_.take_outbox(woken);
            let again = !outbox.drained.is_empty();
            for corrupt in outbox.corrupt {
                self.corrupt(process, corrupt.lane, corrupt.generation, corrupt.offset);
            }
            for drained in outbox.drained {
                self.drained(process, drained);
            }
            for remark in outbox.remarks {
                self.remark(process, &remark);
            }
            self.hear_of_stalls(process);
            self.processes[process].check_bytes();
            self.plan_fetches(process);
            if !again {
                return;
            }
        }
    }

    /// A batch did not pass its check: it is fetched again.
    fn corrupt(&mut self, process: usize, lane: LaneId, generation: u32, offset: i64) {
        let process_ = &mut self.processes[process];
        let Some(seat) = process_.lanes.get(&lane) else { return };
        // What was sought meanwhile is somewhere else.
        if seat.generation == Some(generation) && seat.book.stage == Stage::Active {
            process_.position(lane, offset, false, OffsetMap::default());
            self.say(|| format!("process {process} {lane:?} fetches {offset} again"));
        }
    }

    pub fn plan_fetches(&mut self, process: usize) {
        let now = self.now;
        let process_ = &mut self.processes[process];
        let budget = self.scenario.budget as i64;
        let starved = process_.held_bytes() >= budget;
        if process_.starved != starved {
            process_.starved = starved;
            process_.dispatch.set_starved(process_.client, starved);
        }
        if starved {
            return;
        }
        let (mut fetches, mut ends) = (Vec::new(), Vec::new());
        let held = process_.held.clone();
        for (&lane, seat) in &mut process_.lanes {
            let log = &self.partitions[seat.partition].log;
            let Some(generation) = seat.generation.filter(|_| seat.book.stage == Stage::Active && !seat.fetching)
            else {
                continue;
            };
            // One lane is not to have all of it.
            let mine = held.get(&seat.slot).copied().unwrap_or_default();
            if seat.fetch >= log.end && seat.told_end != log.end {
                // An answer without data tells where the end is, all the same.
                seat.told_end = log.end;
                ends.push((lane, log.end));
            }
            if seat.fetch < log.end && mine < (budget / 4).max(1) {
                seat.fetching = true;
                let at = now + self.rng.below(20) * MILLI;
                fetches.push((at, Event::Fetched { process, lane, generation }));
            }
        }
        for (lane, end) in ends {
            self.processes[process].dispatch.set_end(lane, end, end);
        }
        for (at, event) in fetches {
            self.post(at, event);
        }
    }

    pub fn fetched(&mut self, process: usize, lane: LaneId, generation: u32) {
        self.network(process);
        let process_ = &mut self.processes[process];
        let Some(seat) = process_.lanes.get_mut(&lane).filter(|_| process_.alive) else { return };
        seat.fetching = false;
        let log = &mut self.partitions[seat.partition].log;
        // A late answer still arrives; it is for the dispatcher to tell.
        let fetch = seat.fetch;
        let most = 1 + self.rng.below(3) as usize;
        if let Some(fetched) = log.fetch(fetch, most) {
            let high_watermark = log.end;
            process_.push(self.now, lane, generation, fetch, fetched, high_watermark);
        }
        self.network(process);
    }

    pub fn resume(&mut self, process: usize, lane: LaneId) {
        let process_ = &mut self.processes[process];
        if let Some(seat) = process_.lanes.get_mut(&lane) {
            seat.paused_until = None;
            process_.dispatch.resume(lane);
        }
    }
}
