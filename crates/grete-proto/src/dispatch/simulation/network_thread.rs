//! Network thread of a simulated process: plans fetches and handles the dispatcher's outbox.

use super::checks::lane_oracle::Stage;
use super::process::Process;
use super::simulator::{SimEvent, Simulator};
use crate::dispatch::{LaneId, OffsetMap};
use crate::time::{MILLI, Nanos, earliest};

impl Process {
    /// Returns when the process must act without an external event; `None`: never.
    pub fn deadline(&self) -> Option<Nanos> {
        if !self.is_awake() {
            return None;
        }
        let stalls = earliest(self.dispatch.next_stall_check(self.client), self.stall_check_at);
        earliest(self.dispatch.next_deadline(), stalls)
    }
}

impl Simulator {
    /// Runs one step of the network thread.
    pub fn poll_network(&mut self, process: usize) {
        loop {
            let process_ = &mut self.processes[process];
            if !process_.alive {
                return;
            }
            let woken = process_.dispatch.take_pending_wake(process_.client) | std::mem::take(&mut process_.woken);
            let outbox = process_.take_outbox(woken);
            let again = !outbox.drained.is_empty();
            for corrupt in outbox.corrupt {
                self.corrupt(process, corrupt.lane, corrupt.generation, corrupt.offset);
            }
            for drained in outbox.drained {
                self.drained(process, drained);
            }
            for remark in outbox.lane_events {
                self.on_lane_event(process, &remark);
            }
            self.check_stalls(process);
            self.processes[process].check_bytes();
            self.plan_fetches(process);
            if !again {
                return;
            }
        }
    }

    /// Fetches a corrupt batch again.
    fn corrupt(&mut self, process: usize, lane: LaneId, generation: u32, offset: i64) {
        let process_ = &mut self.processes[process];
        let Some(seat) = process_.lanes.get(&lane) else { return };
        // A seek in the meantime has moved the position.
        if seat.generation == Some(generation) && seat.oracle.stage == Stage::Active {
            process_.position(lane, offset, false, OffsetMap::default());
            self.trace(|| format!("process {process} {lane:?} fetches {offset} again"));
        }
    }

    pub fn plan_fetches(&mut self, process: usize) {
        let now = self.now;
        let process_ = &mut self.processes[process];
        let budget = self.scenario.budget as i64;
        let starved = process_.held_bytes() >= budget;
        if process_.awaiting_memory != starved {
            process_.awaiting_memory = starved;
            process_.dispatch.set_awaiting_memory(process_.client, starved.then_some(1));
        }
        if starved {
            return;
        }
        let (mut fetches, mut ends) = (Vec::new(), Vec::new());
        let held = process_.held.clone();
        for (&lane, seat) in &mut process_.lanes {
            let log = &self.partitions[seat.partition].log;
            let Some(generation) = seat.generation.filter(|_| seat.oracle.stage == Stage::Active && !seat.fetching)
            else {
                continue;
            };
            // One lane may not use the whole budget.
            let mine = held.get(&seat.slot).copied().unwrap_or_default();
            if seat.fetch >= log.end && seat.reported_end != log.end {
                // A response without records contains the end offset, too.
                seat.reported_end = log.end;
                ends.push((lane, log.end));
            }
            if seat.fetch < log.end && mine < (budget / 4).max(1) {
                seat.fetching = true;
                let at = now + self.rng.below(20) * MILLI;
                fetches.push((at, SimEvent::Fetched { process, lane, generation }));
            }
        }
        for (lane, end) in ends {
            self.processes[process].dispatch.set_end_offsets(lane, end, end);
        }
        for (at, event) in fetches {
            self.post(at, event);
        }
    }

    pub fn fetched(&mut self, process: usize, lane: LaneId, generation: u32) {
        self.poll_network(process);
        let process_ = &mut self.processes[process];
        let Some(seat) = process_.lanes.get_mut(&lane).filter(|_| process_.alive) else { return };
        seat.fetching = false;
        let log = &mut self.partitions[seat.partition].log;
        // A late response still arrives: the dispatcher must drop it.
        let fetch = seat.fetch;
        let most = 1 + self.rng.below(3) as usize;
        if let Some(fetched) = log.fetch(fetch, most) {
            let high_watermark = log.end;
            process_.push(self.now, lane, generation, fetch, fetched, high_watermark);
        }
        self.poll_network(process);
    }

    pub fn resume(&mut self, process: usize, lane: LaneId) {
        let process_ = &mut self.processes[process];
        if let Some(seat) = process_.lanes.get_mut(&lane) {
            seat.paused_until = None;
            process_.dispatch.resume(lane);
        }
    }
}
