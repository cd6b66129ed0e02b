//! Network threads, workers and handlers of all members, and the invariants of their work.

use super::member::NetworkCommand;
use super::{Event, Simulator, Work};
use crate::consumer::*;
use crate::dispatch::JobOutcome;
use crate::time::{MILLI, SECOND};

impl Simulator {
    pub fn step(&mut self, m: usize, event: ConsumerEvent) {
        let now = self.now;
        self.members[m].take_outbox(now);
        self.finish_step(m, event);
    }

    pub(in crate::consumer::tests) fn finish_step(&mut self, m: usize, event: ConsumerEvent) {
        let now = self.now;
        self.members[m].step(now, event);
        // Workers do not wait for the network thread: a worker may end its job between the core's decision and the
        // dispatcher's update.
        if self.chaos && self.rng.below(3) == 0 {
            let jobs: Vec<u64> = self.members[m].jobs.iter().map(|job| job.id).collect();
            if !jobs.is_empty() {
                let id = jobs[self.rng.below(jobs.len() as u64) as usize];
                self.finish_job(m, id, JobOutcome::Done);
            }
        }
        for net in self.members[m].perform(now) {
            match net {
                NetworkCommand::Connect(conn, host) => self.connect(m, conn, &host),
                NetworkCommand::Write(conn, bytes) => self.write(m, conn, &bytes),
                NetworkCommand::Close(conn) => {
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
                    Work::AtOnce => self.finish_job(m, id, JobOutcome::Done),
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

    pub(in crate::consumer::tests) fn end_by_chance(&mut self, m: usize, id: u64) {
        if self.chaos && self.rng.below(20) == 0 {
            if let Some(job) = self.members[m].jobs.iter().find(|job| job.id == id && !job.offsets.is_empty()) {
                // The handler marks some records, and raises.
                let last = job.offsets[self.rng.below(job.offsets.len() as u64) as usize];
                let _ = job.lease.shared.mark(job.offsets[0], last - 1);
                let marked = job.done(&self.brokers.logs).filter(|offset| *offset < last);
                self.processed.entry(job.tp.clone()).or_default().extend(marked);
            }
            return self.end(m, id, super::member::failed());
        }
        self.end(m, id, JobOutcome::Done);
    }

    pub(in crate::consumer::tests) fn end(&mut self, m: usize, id: u64, finished: JobOutcome) {
        self.finish_job(m, id, finished);
        if self.members[m].wakes() && !self.members[m].finished {
            self.step(m, ConsumerEvent::Tick);
        }
        self.run_workers(m);
    }

    pub(in crate::consumer::tests) fn finish_job(&mut self, m: usize, id: u64, finished: JobOutcome) {
        let Some(job) = self.members[m].jobs.iter().find(|job| job.id == id) else { return };
        if matches!(finished, JobOutcome::Done) {
            let done = job.done(&self.brokers.logs);
            self.processed.entry(job.tp.clone()).or_default().extend(done);
        }
        self.members[m].complete(self.now, id, finished);
    }

    /// Asserts that no other member of the group processes the partition, unless that member was notified of its loss.
    pub(in crate::consumer::tests) fn check_exclusive(&self, m: usize, id: u64) {
        let Some(job) = self.members[m].jobs.iter().find(|job| job.id == id && !job.superseded) else { return };
        for other in self.alive() {
            let member = &self.members[other];
            let Some(group) = member.core.group.as_ref().filter(|_| other != m) else { continue };
            let until = group.last_heartbeat_ack() + group.config().session_timeout;
            if until < self.now || !self.brokers.coordinator.counts_in(group.member_id()) {
                continue;
            }
            let same = member.jobs.iter().find(|theirs| theirs.tp == job.tp && !theirs.superseded);
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

    /// Asserts that every committed offset is contiguous: all records before it were processed.
    pub(in crate::consumer::tests) fn check_commits(&mut self) {
        if self.unchecked {
            return;
        }
        for (tp, &offset) in self.brokers.coordinator.offsets() {
            if self.truncated.contains(tp) {
                continue;
            }
            let checked = self.checked.entry(tp.clone()).or_insert(self.brokers.logs[tp].start);
            let processed = self.processed.entry(tp.clone()).or_default();
            while *checked < offset {
                assert!(processed.contains(checked), "seed {}: {tp} {checked} is committed, unprocessed", self.seed);
                *checked += 1;
            }
        }
    }
}
