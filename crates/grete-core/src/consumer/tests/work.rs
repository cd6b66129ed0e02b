//! Network threads, workers and handlers of all members, and what must hold of their work.

use super::member::Net;
use super::world::{Event, Work, World};
use crate::consumer::*;
use crate::dispatch::Finished;
use crate::time::{MILLI, SECOND};

impl World {
    pub fn step(&mut self, m: usize, event: ConsumerEvent) {
        let now = self.now;
        self.members[m].take_outbox(now);
        self.finish_step(m, event);
    }

    pub(super) fn finish_step(&mut self, m: usize, event: ConsumerEvent) {
        let now = self.now;
        self.members[m].step(now, event);
        // The workers do not wait for the network thread: one may end its job between what the core has decided and what
        // the dispatcher hears of it.
        if self.chaos && self.rng.below(3) == 0 {
            let jobs: Vec<u64> = self.members[m].jobs.iter().map(|job| job.id).collect();
            if !jobs.is_empty() {
                let id = jobs[self.rng.below(jobs.len() as u64) as usize];
                self.finish_job(m, id, Finished::Done);
            }
        }
        for net in self.members[m].perform(now) {
            match net {
                Net::Connect(conn, host) => self.connect(m, conn, &host),
                Net::Write(conn, bytes) => self.write(m, conn, &bytes),
                Net::Close(conn) => {
                    self.conns.remove(&(m, conn));
                    self.polls.retain(|poll| poll.member != m || poll.asked.conn != conn);
                }
            }
        }
        if self.members[m].wakes() && !self.members[m].finished {
            self.step(m, ConsumerEvent::Tick);
        }
        self.run_workers(m);
    }

    pub fn run_workers(&mut self, m: usize) {
        loop {
            let taken = self.members[m].take(self.now);
            for &id in &taken {
                self.check_exclusive(m, id);
                match self.work {
                    Work::AtOnce => self.finish_job(m, id, Finished::Done),
                    Work::Held => {}
                    Work::Chance => {
                        let time = match self.rng.below(200) {
                            0 => (5 + self.rng.below(35)) * SECOND,
                            1..=20 => self.rng.below(3000) * MILLI,
                            _ => self.rng.below(50) * MILLI,
                        };
                        let time = if self.chaos { time } else { time.min(50 * MILLI) };
                        self.post(self.now + time, Event::JobEnd(m, id));
                    }
                }
            }
            if self.members[m].wakes() && !self.members[m].finished {
                self.step(m, ConsumerEvent::Tick);
            }
            if taken.is_empty() {
                return;
            }
        }
    }

    pub(super) fn end_by_chance(&mut self, m: usize, id: u64) {
        if self.chaos && self.rng.below(20) == 0 {
            if let Some(job) = self.members[m].jobs.iter().find(|job| job.id == id && !job.offsets.is_empty()) {
                // It has marked some, and raises.
                let last = job.offsets[self.rng.below(job.offsets.len() as u64) as usize];
                let _ = job.lease.shared.mark(job.offsets[0], last - 1);
                let marked = job.offsets.iter().copied().filter(|offset| *offset < last);
                self.processed.entry(job.tp.clone()).or_default().extend(marked);
            }
            return self.end(m, id, super::member::failed());
        }
        self.end(m, id, Finished::Done);
    }

    pub(super) fn end(&mut self, m: usize, id: u64, finished: Finished) {
        self.finish_job(m, id, finished);
        if self.members[m].wakes() && !self.members[m].finished {
            self.step(m, ConsumerEvent::Tick);
        }
        self.run_workers(m);
    }

    pub(super) fn finish_job(&mut self, m: usize, id: u64, finished: Finished) {
        let Some(job) = self.members[m].jobs.iter().find(|job| job.id == id) else { return };
        if matches!(finished, Finished::Done) {
            self.processed.entry(job.tp.clone()).or_default().extend(&job.offsets);
        }
        self.members[m].complete(self.now, id, finished);
    }

    /// Nobody else whom the coordinator counts in works on the partition, unless it was told that it is gone.
    pub(super) fn check_exclusive(&self, m: usize, id: u64) {
        let Some(job) = self.members[m].jobs.iter().find(|job| job.id == id && !job.ghost) else { return };
        for other in self.alive() {
            let member = &self.members[other];
            let Some(group) = member.core.group.as_ref().filter(|_| other != m) else { continue };
            let until = group.last_heartbeat_ack() + group.config().session_timeout;
            if until < self.now || !self.brokers.coordinator.counts_in(group.member_id()) {
                continue;
            }
            let same = member.jobs.iter().find(|theirs| theirs.tp == job.tp && !theirs.ghost);
            assert!(
                same.is_none(),
                "seed {}: {} is worked on by {other} ({}, asleep until {}) and {m} at {}",
                self.seed,
                job.tp,
                group.state_name(),
                member.asleep_until,
                self.now
            );
        }
    }

    /// Every committed offset is contiguous: whatever lies before it was processed by somebody.
    pub(super) fn check_commits(&mut self) {
        if self.unchecked {
            return;
        }
        for (tp, &offset) in &self.brokers.coordinator.offsets {
            let checked = self.checked.entry(tp.clone()).or_insert(self.brokers.logs[tp].start);
            let processed = self.processed.entry(tp.clone()).or_default();
            while *checked < offset {
                assert!(processed.contains(checked), "seed {}: {tp} {checked} is committed, unprocessed", self.seed);
                *checked += 1;
            }
        }
    }
}
