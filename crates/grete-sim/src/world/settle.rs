//! Phases of a simulation: faults, settlement within a bound of time, and the end of all processes.

use grete_broker::effects::Change;
use grete_broker::effects::group::GroupChange;
use grete_broker::log::LogChange;
use grete_proto::time::{Nanos, SECOND};

use super::World;
use crate::plan::{Nature, Plan};

/// Time within which everything settles after the last fault, besides the time of handlers: sleeping processes
/// 20 s, rebalances 20 s each, sessions 10 s, requests 4 s, backoffs 5 s.
const SETTLE: Nanos = 180 * SECOND;

/// Time within which all processes stop.
const STOP: Nanos = 60 * SECOND;

impl World<'_> {
    pub(super) fn run(&mut self) {
        self.run_until(self.plan.calm_at, |world| world.is_calm);
        let limit = self.plan.calm_at + SETTLE + self.handler_time();
        if !self.run_until(limit, |world| world.oracle.unsettled().is_none()) {
            if let Some(left) = self.oracle.unsettled() {
                self.oracle.violate(|| format!("stalled: {left}"));
            }
            return;
        }
        self.story.tell("world", || "all records are processed and committed".to_owned());
        self.is_ending = true;
        for slot in 0..self.slots.len() {
            self.stop(self.slots[slot].id);
        }
        let end = self.now + STOP;
        if !self.run_until(end, |world| world.slots.iter().all(|slot| slot.process.is_none())) {
            let left: Vec<usize> =
                self.slots.iter().filter(|slot| slot.process.is_some()).map(|slot| slot.id).collect();
            self.oracle.violate(|| format!("the processes {left:?} do not stop"));
        }
        self.oracle.check_ended();
    }

    /// Returns a bound of the time that handlers take: each failure repeats a whole batch, after a backoff.
    fn handler_time(&self) -> Nanos {
        let Plan { app, records, .. } = self.plan;
        let takes: Nanos = records.iter().map(|record| record.takes).sum();
        let longest = records.iter().map(|record| record.takes).max().unwrap_or(0);
        let batch = takes.min(longest * app.max_messages as Nanos);
        let failures = records.iter().map(|record| match record.nature {
            Nature::Good => 0,
            Nature::Flaky(times) => Nanos::from(times),
            // The attempts, the bisection of 100 rows, and dead letters that are not acknowledged in time.
            Nature::Poison => Nanos::from(app.attempts.unwrap_or(0)) + 10,
        });
        2 * takes + failures.sum::<Nanos>() * (batch + 6 * SECOND)
    }

    /// Adds what the brokers store to the story.
    pub(super) fn tell_change(&mut self, change: &Change) {
        let topics = self.cluster.as_ref().map(grete_broker::cluster::Cluster::topics);
        match change {
            Change::Log { topic, partition, change: LogChange::Append { batch, .. } } => {
                let name = topics.and_then(|topics| topics.by_id(*topic)).map(|topic| topic.name.clone());
                self.story.tell("broker", || {
                    let header = grete_wire::records::BatchHeader::parse(batch).ok();
                    let (base, count) = header.map_or((-1, 0), |header| (header.base_offset, header.record_count));
                    let (last, name) = (base + i64::from(count) - 1, name.unwrap_or_default());
                    format!("stores {name}-{partition} offsets {base} to {last}")
                });
            }
            Change::Group(GroupChange::Offsets { offsets, producer_id, .. }) => self.story.tell("broker", || {
                let offsets = offsets.iter().map(|(tp, offset)| format!("{tp}: {}", offset.offset));
                let of = producer_id.map(|id| format!(" of the transaction of producer {id}")).unwrap_or_default();
                format!("stores the offsets {}{of}", offsets.collect::<Vec<_>>().join(", "))
            }),
            Change::Group(GroupChange::Metadata { metadata, .. }) => self.story.tell("broker", || {
                let members = metadata.members.iter().map(|member| &*member.member_id);
                format!("generation {} has {:?}", metadata.generation, members.collect::<Vec<_>>())
            }),
            _ => {}
        }
    }
}
