//! Faults of the simulation: rebalances, crashes, corruption, pauses, seeks and losses.

use super::checks::lane_oracle::Stage;
use super::coordinator::SESSION;
use super::handler::Pace;
use super::simulator::{SimEvent, Simulator};
use crate::dispatch::LaneId;
use crate::time::{MILLI, SECOND};

impl Simulator {
    pub fn fault(&mut self) {
        if self.pace != Pace::Rough {
            return;
        }
        let every = self.scenario.fault_every;
        self.after(0, 2 * every, SimEvent::Fault);
        let alive = self.alive();
        if alive.is_empty() {
            return;
        }
        let process = alive[self.rng.below(alive.len() as u64) as usize];
        let other = alive[self.rng.below(alive.len() as u64) as usize];
        let partition = self.rng.below(self.partitions.len() as u64) as usize;
        match self.rng.below(16) {
            0..=4 => self.rebalance(partition, other),
            5 => self.crash(process),
            6 => self.stop(process),
            7 => self.sleep(process),
            8 => {
                let damage =
                    (self.partitions[partition].log.end + self.rng.below(10) as i64, 1 + self.rng.below(2) as u32);
                self.partitions[partition].log.damage = Some(damage);
            }
            9 | 10 => self.pause(process),
            11 | 12 => self.seek(process),
            13 => self.lose(process),
            14 => {
                self.processes[process].quiet = true;
                self.processes[process].dispatch.quiet();
                self.after(0, 3 * SECOND, SimEvent::Stop { process });
            }
            _ => self.after(0, SECOND, SimEvent::Start),
        }
    }

    fn any_lane(&mut self, process: usize) -> Option<LaneId> {
        let lanes = &self.processes[process].lanes;
        let lanes: Vec<LaneId> =
            lanes.iter().filter(|(_, seat)| seat.oracle.stage == Stage::Active).map(|(id, _)| *id).collect();
        let lane = lanes.get(self.rng.below(lanes.len() as u64) as usize).copied();
        lane.filter(|_| self.processes[process].is_awake() && !self.processes[process].evicted)
    }

    fn sleep(&mut self, process: usize) {
        if !self.processes[process].is_awake() {
            return;
        }
        let until = self.now + self.rng.below(3 * SESSION);
        self.processes[process].asleep_until = Some(until);
        self.trace(|| format!("process {process} sleeps"));
        self.post(until, SimEvent::Wake { process });
    }

    /// Pauses a random lane, for a time or until it is resumed.
    fn pause(&mut self, process: usize) {
        let Some(lane) = self.any_lane(process) else { return };
        let until = self.now + self.rng.below(8000) * MILLI;
        let process_ = &mut self.processes[process];
        let Some(seat) = process_.lanes.get_mut(&lane) else { return };
        seat.paused_until = Some(until);
        process_.queue.moved(lane);
        if self.rng.below(2) == 0 {
            process_.dispatch.pause(lane, Some(until));
        } else {
            process_.dispatch.pause(lane, None);
            self.post(until, SimEvent::Resume { process, lane });
        }
    }

    /// Seeks a random lane, backwards or forwards.
    fn seek(&mut self, process: usize) {
        let Some(lane) = self.any_lane(process) else { return };
        let process_ = &mut self.processes[process];
        let Some(seat) = process_.lanes.get_mut(&lane).filter(|seat| seat.generation.is_some()) else { return };
        let place = &mut self.partitions[seat.partition];
        let at_most_once = seat.policy.offsets == crate::dispatch::OffsetPolicy::AtMostOnce;
        // An at-most-once application does not seek backwards.
        let least = if at_most_once { seat.fetch.max(place.ownership.committed()) } else { 0 };
        let to = least + self.rng.below((place.log.end - least).max(0) as u64 + 1) as i64;
        for (_, fate) in place.outcomes.range_mut(..to) {
            fate.sought |= !fate.is_settled();
        }
        seat.generation = None;
        self.fence_suspended(process, lane);
        let process_ = &mut self.processes[process];
        let Some(seat) = process_.lanes.get_mut(&lane) else { return };
        seat.oracle.seek();
        process_.jobs.values_mut().filter(|job| job.lease.lane == lane).for_each(|job| job.void = true);
        process_.dispatch.reset_lane(lane);
        process_.queue.moved(lane);
        self.trace(|| format!("process {process} {lane:?} seeks to {to}"));
        self.after(0, 100 * MILLI, SimEvent::Position { process, lane, offset: Some(to) });
        self.poll_network(process);
    }

    /// Loses a random partition: another member owns it already.
    fn lose(&mut self, process: usize) {
        let Some(lane) = self.any_lane(process) else { return };
        let seat = &self.processes[process].lanes[&lane];
        let (partition, owner) = (seat.partition, (process, seat.epoch));
        self.left(partition, owner);
        self.revoke(process, lane, true);
        let patience = self.scenario.revocation_timeout;
        self.post(self.now + patience, SimEvent::RevocationDeadline { process, lane });
    }

    /// Ends the faults.
    pub fn calm(&mut self) {
        self.trace(|| "calm".to_owned());
        self.pace = Pace::Brisk;
        for partition in &mut self.partitions {
            partition.log.damage = None;
        }
        self.after(0, SECOND, SimEvent::Start);
    }
}
