//! Simulated group coordinator: owners of partitions, committed offsets, and moves of partitions between processes.

use std::sync::Arc;

use super::checks::lane_oracle::Stage;
use super::process::Process;
use super::simulator::{SimEvent, Simulator};
use crate::dispatch::{Committable, LaneId, OffsetMap};
use crate::time::{MILLI, Nanos, SECOND};

pub const SESSION: Nanos = 10 * SECOND;
const HEARTBEAT: Nanos = 3 * SECOND;
const COMMIT: Nanos = 5 * SECOND;

/// State of a partition at the coordinator.
#[derive(Debug, Default)]
pub struct PartitionOwnership {
    /// Owning process, and the epoch of its assignment.
    pub owner: Option<(usize, u32)>,
    pub epoch: u32,
    pub stored: Option<(i64, String)>,
    /// Next owner.
    wanted: Option<usize>,
}

impl PartitionOwnership {
    pub fn committed(&self) -> i64 {
        self.stored.as_ref().map_or(0, |(offset, _)| *offset)
    }
}

impl Simulator {
    pub fn alive(&self) -> Vec<usize> {
        (0..self.processes.len()).filter(|p| self.processes[*p].alive && !self.processes[*p].stopping).collect()
    }

    /// Starts a process, which joins the group.
    pub fn start(&mut self) {
        let seed = self.rng.next_u64();
        self.processes.push(Process::new(&self.scenario, seed));
        let process = self.processes.len() - 1;
        self.trace(|| format!("process {process} starts"));
        self.heartbeat(process);
        self.after(0, COMMIT, SimEvent::Commit { process });
        self.assign();
        // The new process gets a share of the partitions.
        for partition in 0..self.partitions.len() {
            if self.rng.below(2) == 0 {
                self.rebalance(partition, process);
            }
        }
    }

    /// Assigns each partition that has no owner.
    pub fn assign(&mut self) {
        let alive: Vec<usize> = self.alive().into_iter().filter(|p| !self.processes[*p].evicted).collect();
        for partition in 0..self.partitions.len() {
            if self.partitions[partition].ownership.owner.is_some() || alive.is_empty() {
                continue;
            }
            let any = alive[self.rng.below(alive.len() as u64) as usize];
            let place = &mut self.partitions[partition].ownership;
            let process = place.wanted.take().filter(|wanted| alive.contains(wanted)).unwrap_or(any);
            place.epoch += 1;
            let epoch = place.epoch;
            place.owner = Some((process, epoch));
            self.after(0, 100 * MILLI, SimEvent::Assigned { process, partition, epoch });
        }
    }

    pub fn assigned(&mut self, process: usize, partition: usize, epoch: u32) {
        let Partitioned { owner, tp, route } = self.partitioned(partition);
        if owner != Some((process, epoch)) || !self.processes[process].alive {
            return;
        }
        let policy = Arc::clone(&self.scenario.routes[route].policy);
        let lane = self.processes[process].add_lane(partition, tp, epoch, &policy);
        self.trace(|| format!("process {process} gets {partition} as {lane:?}"));
        let offset = None;
        self.after(0, 50 * MILLI, SimEvent::Position { process, lane, offset });
    }

    /// Sets a lane's position: `offset` after a seek, else the committed offset.
    pub fn positioned(&mut self, process: usize, lane: LaneId, offset: Option<i64>) {
        let Some(seat) = self.processes[process].lanes.get(&lane).filter(|seat| seat.oracle.stage != Stage::Gone)
        else {
            return;
        };
        let stored = self.partitions[seat.partition].ownership.stored.as_ref().filter(|_| offset.is_none());
        let map = stored.map(|(offset, metadata)| OffsetMap::decode(*offset, metadata)).unwrap_or_default();
        let committed = stored.is_some();
        let start = offset.or(stored.map(|(offset, _)| *offset)).unwrap_or(0);
        let process_ = &mut self.processes[process];
        if let Some(seat) = process_.lanes.get_mut(&lane) {
            seat.since = self.now;
            let known = self.partitions[seat.partition].log.records.range(start..).map(|(offset, _)| *offset);
            seat.oracle.begin(start, known.filter(|offset| map.contains(*offset)));
        }
        process_.position(lane, start, committed, map);
        self.trace(|| format!("process {process} {lane:?} starts at {start}"));
        self.plan_fetches(process);
    }

    /// Moves a partition to another process.
    pub fn rebalance(&mut self, partition: usize, to: usize) {
        let place = &mut self.partitions[partition].ownership;
        let Some((process, _)) = place.owner else { return };
        place.wanted = Some(to);
        if !self.processes[process].is_awake() || self.processes[process].evicted {
            return;
        }
        let Some(lane) = self.processes[process].seat_of(partition) else {
            // The owner has not yet received the assignment.
            self.partitions[partition].ownership.owner = None;
            return self.assign();
        };
        self.revoke(process, lane, false);
        let patience = self.scenario.revocation_timeout;
        self.post(self.now + patience, SimEvent::RevocationDeadline { process, lane });
    }

    pub fn revoke(&mut self, process: usize, lane: LaneId, lost: bool) {
        self.trace(|| format!("process {process} {lane:?} is {}", if lost { "lost" } else { "revoked" }));
        let process_ = &mut self.processes[process];
        if let Some(seat) = process_.lanes.get_mut(&lane).filter(|seat| seat.oracle.stage != Stage::Gone) {
            seat.oracle.stage = Stage::Leaving;
            seat.oracle.void |= lost;
        }
        if lost {
            self.fence_suspended(process, lane);
        }
        let process_ = &mut self.processes[process];
        if lost {
            process_.jobs.values_mut().filter(|job| job.lease.lane == lane).for_each(|job| job.void = true);
        }
        process_.dispatch.revoke(lane, lost);
        self.poll_network(process);
    }

    /// Handles the revocation deadline of a lane.
    pub fn abandon(&mut self, process: usize, lane: LaneId) {
        self.poll_network(process); // the network thread reads the outbox before it checks the clock
        let process_ = &mut self.processes[process];
        let Some(seat) = process_.lanes.get_mut(&lane).filter(|seat| seat.oracle.stage == Stage::Leaving) else {
            return;
        };
        if !process_.alive {
            return;
        }
        (seat.oracle.stage, seat.oracle.void) = (Stage::Gone, true);
        let (partition, epoch) = (seat.partition, seat.epoch);
        process_.jobs.values_mut().filter(|job| job.lease.lane == lane).for_each(|job| job.void = true);
        let known = process_.jobs.values().filter(|job| job.lease.lane == lane).count();
        let known = known + process_.waiting.values().filter(|waiting| waiting.job.lane == lane).count();
        self.fence_suspended(process, lane);
        let process_ = &mut self.processes[process];
        let running = process_.dispatch.abandon(lane);
        assert_eq!(running.len(), known, "{running:?} is abandoned");
        self.trace(|| format!("process {process} {lane:?} is abandoned"));
        self.left(partition, (process, epoch));
        self.poll_network(process);
    }

    /// Records that the owner has released the partition.
    pub fn left(&mut self, partition: usize, owner: (usize, u32)) {
        let place = &mut self.partitions[partition].ownership;
        if place.owner == Some(owner) {
            place.owner = None;
            self.assign();
        }
    }

    // ---- commits

    pub fn commit(&mut self, process: usize) {
        if !self.processes[process].alive {
            return;
        }
        self.poll_network(process);
        self.processes[process].check_lags(&self.partitions);
        let process_ = &mut self.processes[process];
        let all = self.rng.below(4) == 0;
        let offsets = process_.dispatch.take_committables(process_.client, all);
        for commit in &offsets {
            self.check_commit(process, commit, false);
        }
        let failed = self.pace == super::handler::Pace::Rough && self.rng.below(8) == 0;
        let tps: Vec<_> = offsets.iter().map(|commit| commit.tp.clone()).collect();
        if failed {
            let process_ = &mut self.processes[process];
            process_.dispatch.on_commit_failed(process_.client, &tps);
        } else {
            offsets.into_iter().for_each(|commit| self.store(process, commit));
        }
        self.after(COMMIT / 2, COMMIT, SimEvent::Commit { process });
    }

    /// Commits offsets before their records are handed out at most once. Returns whether the coordinator has accepted
    /// the commit.
    pub fn commit_first(&mut self, process: usize, partition: usize, epoch: u32) -> bool {
        let process_ = &mut self.processes[process];
        let offsets = process_.dispatch.take_committables(process_.client, false);
        for commit in offsets {
            self.check_commit(process, &commit, false);
            self.store(process, commit);
        }
        self.partitions[partition].ownership.owner == Some((process, epoch))
    }

    fn check_commit(&mut self, process: usize, commit: &Committable, last: bool) {
        let process_ = &mut self.processes[process];
        let seats = process_.lanes.values_mut();
        let mut seats = seats.filter(|seat| seat.tp == commit.tp && seat.epoch == commit.assignment_epoch);
        let seat = seats.next().unwrap_or_else(|| panic!("{commit:?} of no lane"));
        let partition = &self.partitions[seat.partition];
        seat.oracle.check_commit(commit, &seat.policy, &partition.log, last);
        assert!(commit.offset <= partition.log.end, "{commit:?} beyond the end");
        let mut before = partition.outcomes.range(seat.oracle.start..commit.offset);
        let open = before.find(|(_, fate)| !fate.is_settled());
        assert!(open.is_none(), "{commit:?}, but {open:?}");
    }

    /// Stores a commit; the coordinator accepts commits of owners only.
    fn store(&mut self, process: usize, commit: Committable) {
        let mut partitions = self.partitions.iter_mut().filter(|partition| partition.tp == commit.tp);
        if let Some(partition) = partitions.next()
            && partition.ownership.owner == Some((process, commit.assignment_epoch))
        {
            partition.ownership.stored = Some((commit.offset, commit.metadata));
        }
    }

    pub fn drained(&mut self, process: usize, drained: crate::dispatch::DrainedLane) {
        let Some(seat) = self.processes[process].lanes.get_mut(&drained.lane) else { panic!("{drained:?} of no lane") };
        assert_eq!(seat.oracle.stage, Stage::Leaving, "{drained:?}");
        assert!(!seat.oracle.busy(), "{drained:?}: {:?}", seat.oracle);
        assert_eq!(seat.oracle.hooks > 0, seat.oracle.touched && seat.policy.hooks, "{drained:?}");
        assert_eq!(drained.lost, seat.oracle.void, "{drained:?}");
        seat.oracle.stage = Stage::Gone;
        let (partition, epoch) = (seat.partition, seat.epoch);
        self.trace(|| format!("process {process} {drained:?}"));
        match drained.commit {
            Some(commit) => {
                assert!(!drained.lost, "{commit:?} of a lost partition");
                self.check_commit(process, &commit, true);
                self.store(process, commit);
            }
            None if !drained.lost && seat_knows(&self.processes[process], drained.lane) => {
                let seat = &self.processes[process].lanes[&drained.lane];
                seat.oracle.check_last(seat.oracle.last_committable(), &self.partitions[partition].log, &seat.tp);
            }
            None => {}
        }
        self.left(partition, (process, epoch));
    }

    // ---- sessions

    pub fn heartbeat(&mut self, process: usize) {
        self.poll_network(process); // the network thread reads the outbox before it handles the heartbeat response
        let now = self.now;
        let process_ = &mut self.processes[process];
        if !process_.alive {
            return;
        }
        if process_.evicted {
            // The member learns that it was evicted, and rejoins.
            process_.evicted = false;
            let lanes: Vec<LaneId> =
                process_.lanes.iter().filter(|(_, seat)| seat.oracle.stage != Stage::Gone).map(|(id, _)| *id).collect();
            for lane in lanes {
                self.revoke(process, lane, true);
                let patience = self.scenario.revocation_timeout;
                self.post(now + patience, SimEvent::RevocationDeadline { process, lane });
            }
        }
        let process_ = &mut self.processes[process];
        if now > process_.last_heartbeat + SESSION {
            process_.queue.forget();
        }
        process_.last_heartbeat = now;
        process_.dispatch.set_session(process_.client, Some(now + SESSION));
        self.poll_network(process);
        self.assign();
        self.post(now + HEARTBEAT, SimEvent::Heartbeat { process });
        self.post(now + SESSION + 1, SimEvent::SessionCheck { process });
    }

    /// Evicts a member that has sent no heartbeat within the session timeout.
    pub fn check_session(&mut self, process: usize) {
        let process_ = &mut self.processes[process];
        if self.now <= process_.last_heartbeat + SESSION || process_.evicted {
            return;
        }
        process_.evicted = true;
        self.trace(|| format!("process {process} has lost its session"));
        self.disown(process);
    }

    pub fn disown(&mut self, process: usize) {
        for partition in &mut self.partitions {
            partition.ownership.owner = partition.ownership.owner.filter(|(owner, _)| *owner != process);
        }
        self.assign();
    }

    pub fn wake(&mut self, process: usize) {
        let process_ = &mut self.processes[process];
        (process_.asleep_until, process_.woke_at) = (None, self.now);
        self.trace(|| format!("process {process} wakes"));
        // The workers may run before the network thread. They must not process partitions that another member may own
        // by now.
        if self.rng.below(2) == 0 {
            self.pump(process);
        }
    }

    // ---- end of a process

    /// Crashes a process; the group notices when the session has expired.
    pub fn crash(&mut self, process: usize) {
        let process_ = &mut self.processes[process];
        if !process_.alive {
            return;
        }
        process_.alive = false;
        process_.jobs.clear();
        process_.waiting.clear();
        self.trace(|| format!("process {process} dies"));
        self.after(0, 20 * SECOND, SimEvent::Start);
    }

    /// Stops a process in good order, unless a fault comes first.
    pub fn stop(&mut self, process: usize) {
        let process_ = &mut self.processes[process];
        if !process_.alive || process_.stopping {
            return;
        }
        self.trace(|| format!("process {process} stops"));
        let process_ = &mut self.processes[process];
        process_.stopping = true;
        process_.dispatch.stop();
        for seat in process_.lanes.values_mut().filter(|seat| seat.oracle.stage == Stage::Active) {
            seat.oracle.stage = Stage::Leaving;
        }
        self.poll_network(process);
        self.after(20 * SECOND, 60 * SECOND, SimEvent::StopDeadline { process });
    }

    /// Handles the deadline of a stop: outputs that are not written never will be, and jobs that still run are killed.
    pub fn stop_deadline(&mut self, process: usize) {
        if self.processes[process].alive && self.rng.below(2) == 0 {
            self.close_producer(process);
            self.pump(process);
        }
        self.crash(process);
    }

    /// Commits the last offsets and leaves the group, after the last jobs have ended.
    pub fn leave(&mut self, process: usize) {
        let process_ = &mut self.processes[process];
        assert!(process_.jobs.is_empty(), "stopped with {:?}", process_.jobs);
        for seat in process_.lanes.values().filter(|seat| seat.oracle.stage == Stage::Leaving) {
            assert_eq!(seat.oracle.hooks > 0, seat.oracle.touched && seat.policy.hooks, "{} has stopped", seat.tp);
        }
        let offsets = process_.dispatch.take_committables(process_.client, true);
        for commit in offsets {
            self.check_commit(process, &commit, true);
            self.store(process, commit);
        }
        self.processes[process].check_stats(self.now);
        self.trace(|| format!("process {process} has stopped"));
        self.processes[process].alive = false;
        self.disown(process);
        self.after(0, 5 * SECOND, SimEvent::Start);
    }
}

fn seat_knows(process: &Process, lane: LaneId) -> bool {
    process.lanes.get(&lane).is_some_and(|seat| seat.generation.is_some())
}

struct Partitioned {
    owner: Option<(usize, u32)>,
    tp: crate::ids::TopicPartition,
    route: usize,
}

impl Simulator {
    fn partitioned(&self, partition: usize) -> Partitioned {
        let partition = &self.partitions[partition];
        Partitioned { owner: partition.ownership.owner, tp: partition.tp.clone(), route: partition.route }
    }
}
