//! The group: who owns what, what is committed, and how partitions move from one process to another.

use std::sync::Arc;

use super::book::Stage;
use super::process::Process;
use super::world::{Event, World};
use crate::dispatch::{Committable, LaneId, OffsetMap};
use crate::time::{MILLI, Nanos, SECOND};

pub const SESSION: Nanos = 10 * SECOND;
const HEARTBEAT: Nanos = 3 * SECOND;
const COMMIT: Nanos = 5 * SECOND;

/// What the coordinator knows of a partition.
#[derive(Debug, Default)]
pub struct Place {
    /// Which process, under which assignment.
    pub owner: Option<(usize, u32)>,
    pub epoch: u32,
    pub stored: Option<(i64, String)>,
    /// Who is to have it next.
    wanted: Option<usize>,
}

impl Place {
    pub fn committed(&self) -> i64 {
        self.stored.as_ref().map_or(0, |(offset, _)| *offset)
    }
}

impl World {
    pub fn alive(&self) -> Vec<usize> {
        (0..self.processes.len()).filter(|p| self.processes[*p].alive && !self.processes[*p].stopping).collect()
    }

    /// A process joins.
    pub fn start(&mut self) {
        let seed = self.rng.next_u64();
        self.processes.push(Process::new(&self.scenario, seed));
        let process = self.processes.len() - 1;
        self.say(|| format!("process {process} starts"));
        self.heartbeat(process);
        self.after(0, COMMIT, Event::Commit { process });
        self.assign();
        // A newcomer gets its share.
        for partition in 0..self.partitions.len() {
            if self.rng.below(2) == 0 {
                self.rebalance(partition, process);
            }
        }
    }

    /// Whatever nobody owns goes to somebody.
    pub fn assign(&mut self) {
        let alive: Vec<usize> = self.alive().into_iter().filter(|p| !self.processes[*p].evicted).collect();
        for partition in 0..self.partitions.len() {
            if self.partitions[partition].place.owner.is_some() || alive.is_empty() {
                continue;
            }
            let any = alive[self.rng.below(alive.len() as u64) as usize];
            let place = &mut self.partitions[partition].place;
            let process = place.wanted.take().filter(|wanted| alive.contains(wanted)).unwrap_or(any);
            place.epoch += 1;
            let epoch = place.epoch;
            place.owner = Some((process, epoch));
            self.after(0, 100 * MILLI, Event::Assigned { process, partition, epoch });
        }
    }

    pub fn assigned(&mut self, process: usize, partition: usize, epoch: u32) {
        let Partitioned { owner, tp, route } = self.partitioned(partition);
        if owner != Some((process, epoch)) || !self.processes[process].alive {
            return;
        }
        let policy = Arc::clone(&self.scenario.routes[route].policy);
        let lane = self.processes[process].add_lane(partition, tp, epoch, &policy);
        self.say(|| format!("process {process} gets {partition} as {lane:?}"));
        let offset = None;
        self.after(0, 50 * MILLI, Event::Position { process, lane, offset });
    }

    /// Where a lane goes on: at `offset` after a seek, else where the group says.
    pub fn positioned(&mut self, process: usize, lane: LaneId, offset: Option<i64>) {
        let Some(seat) = self.processes[process].lanes.get(&lane).filter(|seat| seat.book.stage != Stage::Gone) else {
            return;
        };
        let stored = self.partitions[seat.partition].place.stored.as_ref().filter(|_| offset.is_none());
        let map = stored.map(|(offset, metadata)| OffsetMap::decode(*offset, metadata)).unwrap_or_default();
        let committed = stored.is_some();
        let start = offset.or(stored.map(|(offset, _)| *offset)).unwrap_or(0);
        let process_ = &mut self.processes[process];
        if let Some(seat) = process_.lanes.get_mut(&lane) {
            seat.since = self.now;
            let known = self.partitions[seat.partition].log.records.range(start..).map(|(offset, _)| *offset);
            seat.book.begin(start, known.filter(|offset| map.contains(*offset)));
        }
        process_.position(lane, start, committed, map);
        self.say(|| format!("process {process} {lane:?} starts at {start}"));
        self.plan_fetches(process);
    }

    /// The partition is to move.
    pub fn rebalance(&mut self, partition: usize, to: usize) {
        let place = &mut self.partitions[partition].place;
        let Some((process, _)) = place.owner else { return };
        place.wanted = Some(to);
        if !self.processes[process].is_awake() || self.processes[process].evicted {
            return;
        }
        let Some(lane) = self.processes[process].seat_of(partition) else {
            // It has not even heard of it.
            self.partitions[partition].place.owner = None;
            return self.assign();
        };
        self.revoke(process, lane, false);
        let patience = self.scenario.patience;
        self.post(self.now + patience, Event::RevocationDeadline { process, lane });
    }

    pub fn revoke(&mut self, process: usize, lane: LaneId, lost: bool) {
        self.say(|| format!("process {process} {lane:?} is {}", if lost { "lost" } else { "revoked" }));
        let process_ = &mut self.processes[process];
        if let Some(seat) = process_.lanes.get_mut(&lane).filter(|seat| seat.book.stage != Stage::Gone) {
            seat.book.stage = Stage::Leaving;
            seat.book.void |= lost;
        }
        if lost {
            process_.jobs.values_mut().filter(|job| job.lease.lane == lane).for_each(|job| job.void = true);
        }
        process_.dispatch.revoke(lane, lost);
        self.network(process);
    }

    /// The deadline for leaving has come.
    pub fn abandon(&mut self, process: usize, lane: LaneId) {
        self.network(process); // it hears what the workers have left before it looks at the clock
        let process_ = &mut self.processes[process];
        let Some(seat) = process_.lanes.get_mut(&lane).filter(|seat| seat.book.stage == Stage::Leaving) else { return };
        if !process_.alive {
            return;
        }
        (seat.book.stage, seat.book.void) = (Stage::Gone, true);
        let (partition, epoch) = (seat.partition, seat.epoch);
        process_.jobs.values_mut().filter(|job| job.lease.lane == lane).for_each(|job| job.void = true);
        let running = process_.dispatch.abandon(lane);
        let known = process_.jobs.values().filter(|job| job.lease.lane == lane).count();
        assert_eq!(running.len(), known, "{running:?} is abandoned");
        self.say(|| format!("process {process} {lane:?} is abandoned"));
        self.left(partition, (process, epoch));
        self.network(process);
    }

    /// The owner has let go.
    pub fn left(&mut self, partition: usize, owner: (usize, u32)) {
        let place = &mut self.partitions[partition].place;
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
        self.network(process);
        self.processes[process].check_lags(&self.partitions);
        let process_ = &mut self.processes[process];
        let all = self.rng.below(4) == 0;
        let offsets = process_.dispatch.committables(process_.client, all);
        for commit in &offsets {
            self.check_commit(process, commit, false);
        }
        let failed = self.pace == super::handler::Pace::Rough && self.rng.below(8) == 0;
        let tps: Vec<_> = offsets.iter().map(|commit| commit.tp.clone()).collect();
        if failed {
            let process_ = &mut self.processes[process];
            process_.dispatch.forget_committed(process_.client, &tps);
        } else {
            offsets.into_iter().for_each(|commit| self.store(process, commit));
        }
        self.after(COMMIT / 2, COMMIT, Event::Commit { process });
    }

    /// What is handed out at most once is committed first. Whether the coordinator has taken it.
    pub fn commit_first(&mut self, process: usize, partition: usize, epoch: u32) -> bool {
        let process_ = &mut self.processes[process];
        let offsets = process_.dispatch.committables(process_.client, false);
        for commit in offsets {
            self.check_commit(process, &commit, false);
            self.store(process, commit);
        }
        self.partitions[partition].place.owner == Some((process, epoch))
    }

    fn check_commit(&mut self, process: usize, commit: &Committable, last: bool) {
        let process_ = &mut self.processes[process];
        let seats = process_.lanes.values_mut();
        let mut seats = seats.filter(|seat| seat.tp == commit.tp && seat.epoch == commit.assignment_epoch);
        let seat = seats.next().unwrap_or_else(|| panic!("{commit:?} of no lane"));
        let partition = &self.partitions[seat.partition];
        seat.book.check_commit(commit, &seat.policy, &partition.log, last);
        assert!(commit.offset <= partition.log.end, "{commit:?} beyond the end");
        let mut before = partition.fates.range(seat.book.start..commit.offset);
        let open = before.find(|(_, fate)| !fate.is_settled());
        assert!(open.is_none(), "{commit:?}, but {open:?}");
    }

    /// The coordinator takes commits of owners only.
    fn store(&mut self, process: usize, commit: Committable) {
        let mut partitions = self.partitions.iter_mut().filter(|partition| partition.tp == commit.tp);
        if let Some(partition) = partitions.next()
            && partition.place.owner == Some((process, commit.assignment_epoch))
        {
            partition.place.stored = Some((commit.offset, commit.metadata));
        }
    }

    pub fn drained(&mut self, process: usize, drained: crate::dispatch::Drained) {
        let Some(seat) = self.processes[process].lanes.get_mut(&drained.lane) else { panic!("{drained:?} of no lane") };
        assert_eq!(seat.book.stage, Stage::Leaving, "{drained:?}");
        assert!(!seat.book.busy(), "{drained:?}: {:?}", seat.book);
        assert_eq!(seat.book.hooks > 0, seat.book.touched && seat.policy.hooks, "{drained:?}");
        assert_eq!(drained.lost, seat.book.void, "{drained:?}");
        seat.book.stage = Stage::Gone;
        let (partition, epoch) = (seat.partition, seat.epoch);
        self.say(|| format!("process {process} {drained:?}"));
        match drained.commit {
            Some(commit) => {
                assert!(!drained.lost, "{commit:?} of a lost partition");
                self.check_commit(process, &commit, true);
                self.store(process, commit);
            }
            None if !drained.lost && seat_knows(&self.processes[process], drained.lane) => {
                let seat = &self.processes[process].lanes[&drained.lane];
                seat.book.check_last(seat.book.told(), &self.partitions[partition].log, &seat.tp);
            }
            None => {}
        }
        self.left(partition, (process, epoch));
    }

    // ---- sessions

    pub fn heartbeat(&mut self, process: usize) {
        self.network(process); // it hears what the workers have left before it hears of the group
        let now = self.now;
        let process_ = &mut self.processes[process];
        if !process_.alive {
            return;
        }
        if process_.evicted {
            // It hears that it is out, and joins again.
            process_.evicted = false;
            let lanes: Vec<LaneId> =
                process_.lanes.iter().filter(|(_, seat)| seat.book.stage != Stage::Gone).map(|(id, _)| *id).collect();
            for lane in lanes {
                self.revoke(process, lane, true);
                let patience = self.scenario.patience;
                self.post(now + patience, Event::RevocationDeadline { process, lane });
            }
        }
        let process_ = &mut self.processes[process];
        if now > process_.last_heartbeat + SESSION {
            process_.queue.forget();
        }
        process_.last_heartbeat = now;
        process_.dispatch.set_session(process_.client, Some(now + SESSION));
        self.network(process);
        self.assign();
        self.post(now + HEARTBEAT, Event::Heartbeat { process });
        self.post(now + SESSION + 1, Event::SessionCheck { process });
    }

    /// The coordinator looks whether the member has been heard of.
    pub fn check_session(&mut self, process: usize) {
        let process_ = &mut self.processes[process];
        if self.now <= process_.last_heartbeat + SESSION || process_.evicted {
            return;
        }
        process_.evicted = true;
        self.say(|| format!("process {process} has lost its session"));
        self.disown(process);
    }

    pub fn disown(&mut self, process: usize) {
        for partition in &mut self.partitions {
            partition.place.owner = partition.place.owner.filter(|(owner, _)| *owner != process);
        }
        self.assign();
    }

    pub fn wake(&mut self, process: usize) {
        let process_ = &mut self.processes[process];
        (process_.asleep_until, process_.woke_at) = (None, self.now);
        self.say(|| format!("process {process} wakes"));
        // Its workers may be quicker than its network thread, and must not work on what is somebody else's by now.
        if self.rng.below(2) == 0 {
            self.pump(process);
        }
    }

    // ---- ends

    /// The process dies; the group learns it when the session has run out.
    pub fn crash(&mut self, process: usize) {
        let process_ = &mut self.processes[process];
        if !process_.alive {
            return;
        }
        process_.alive = false;
        process_.jobs.clear();
        self.say(|| format!("process {process} dies"));
        self.after(0, 20 * SECOND, Event::Start);
    }

    /// The process ends in good order, if it comes to that.
    pub fn stop(&mut self, process: usize) {
        let process_ = &mut self.processes[process];
        if !process_.alive || process_.stopping {
            return;
        }
        self.say(|| format!("process {process} stops"));
        let process_ = &mut self.processes[process];
        process_.stopping = true;
        process_.dispatch.stop();
        for seat in process_.lanes.values_mut().filter(|seat| seat.book.stage == Stage::Active) {
            seat.book.stage = Stage::Leaving;
        }
        self.network(process);
        self.after(20 * SECOND, 60 * SECOND, Event::StopDeadline { process });
    }

    /// The last jobs have ended: the offsets go to the group, and the process leaves it.
    pub fn leave(&mut self, process: usize) {
        let process_ = &mut self.processes[process];
        assert!(process_.jobs.is_empty(), "stopped with {:?}", process_.jobs);
        for seat in process_.lanes.values().filter(|seat| seat.book.stage == Stage::Leaving) {
            assert_eq!(seat.book.hooks > 0, seat.book.touched && seat.policy.hooks, "{} has stopped", seat.tp);
        }
        let offsets = process_.dispatch.committables(process_.client, true);
        for commit in offsets {
            self.check_commit(process, &commit, true);
            self.store(process, commit);
        }
        self.processes[process].check_figures(self.now);
        self.say(|| format!("process {process} has stopped"));
        self.processes[process].alive = false;
        self.disown(process);
        self.after(0, 5 * SECOND, Event::Start);
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

impl World {
    fn partitioned(&self, partition: usize) -> Partitioned {
        let partition = &self.partitions[partition];
        Partitioned { owner: partition.place.owner, tp: partition.tp.clone(), route: partition.route }
    }
}
