//! Virtual clock: everything that happens is an event in one queue.

use std::cmp::Reverse;

use super::{Event, Simulator};
use crate::connection::CloseReason;
use crate::consumer::*;
use crate::time::{MILLI, Nanos};

impl Simulator {
    pub fn advance(&mut self, time: Nanos) {
        self.run_until(self.now + time);
    }

    pub fn run_until(&mut self, end: Nanos) {
        let (mut last, mut spins) = (self.now, 0);
        while self.now < end {
            let mut next = end;
            if let Some(Reverse((at, _))) = self.queue.peek() {
                next = next.min(*at);
            }
            for m in self.alive() {
                let member = &self.members[m];
                // A worker with a job has no deadline.
                let paused = member.dispatch.next_deadline().filter(|_| member.jobs.len() < member.workers);
                let deadline = crate::time::earliest(member.core.deadline(), paused);
                next = next.min(deadline.map_or(end, |deadline| deadline.max(member.asleep_until)));
            }
            next = next.min(self.brokers.coordinator.deadline().unwrap_or(end));
            self.now = next.max(self.now);
            spins = if self.now == last { spins + 1 } else { 0 };
            assert!(spins < 2000, "seed {}: something is due again and again at {last}", self.seed);
            last = self.now;
            self.brokers.coordinator.tick(self.now);
            self.answer_group();
            while let Some(Reverse((at, sequence))) = self.queue.peek().copied()
                && at <= self.now
            {
                self.queue.pop();
                let event = self.events.remove(&sequence).unwrap();
                self.handle_event(event);
                self.answer_group();
            }
            for m in self.alive() {
                let member = &self.members[m];
                if member.asleep_until <= self.now {
                    if member.core.deadline().is_some_and(|deadline| deadline <= self.now) {
                        self.step(m, ConsumerEvent::Tick);
                    }
                    self.run_workers(m);
                }
            }
            self.check_commits();
        }
    }

    pub(in crate::consumer::tests) fn post(&mut self, at: Nanos, event: Event) {
        self.sequence += 1;
        self.events.insert(self.sequence, event);
        self.queue.push(Reverse((at, self.sequence)));
    }

    pub(in crate::consumer::tests) fn delay(&mut self) -> Nanos {
        match self.rng.below(40) {
            0 if self.chaos => self.rng.below(2500) * MILLI,
            _ if self.chaos => (1 + self.rng.below(20)) * MILLI,
            _ => MILLI,
        }
    }

    pub(in crate::consumer::tests) fn handle_event(&mut self, event: Event) {
        let m = match &event {
            Event::Connected(m, _) | Event::Response(m, ..) | Event::JobEnd(m, _) | Event::HangUp(m, _) => Some(*m),
            Event::Request(..) | Event::PollEnd(_) => None,
        };
        if let Some(m) = m {
            if !self.members[m].alive || self.members[m].finished {
                return;
            }
            let asleep_until = self.members[m].asleep_until;
            if asleep_until > self.now {
                return self.post(asleep_until, event);
            }
        }
        match event {
            Event::Connected(m, conn) => self.connected(m, conn),
            Event::Request(m, asked) => self.request(m, asked),
            Event::Response(m, conn, frame) => {
                if self.conns.contains_key(&(m, conn)) {
                    self.step(m, ConsumerEvent::Frame(conn, frame));
                }
            }
            Event::JobEnd(m, id) => self.end_by_chance(m, id),
            Event::PollEnd(id) => {
                if let Some(at) = self.polls.iter().position(|poll| poll.id == id) {
                    let poll = self.polls.remove(at);
                    self.serve_poll(&poll, true);
                }
            }
            Event::HangUp(m, conn) => self.step(m, ConsumerEvent::Closed(conn, CloseReason::Eof)),
        }
    }
}
