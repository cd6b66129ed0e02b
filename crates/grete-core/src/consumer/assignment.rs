//! Which partitions are ours: by subscription or by hand.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{ConsumerAction, ConsumerCore, Start};
use crate::cluster::ClusterEvent;
use crate::fetch::FetchEvent;
use crate::group::GroupEvent;
use crate::ids::{Slot, TopicPartition};
use crate::position::{PositionEvent, StartAt};
use crate::time::Nanos;

/// Topics whose metadata somebody wants.
#[derive(Debug, Default)]
pub(super) struct Topics {
    /// For the group (a leader needs other members' topics, too).
    pub(super) watched: Vec<Arc<str>>,
    /// Assigned by hand.
    assigned: Vec<Arc<str>>,
    /// Somebody asked for their partitions.
    pub(super) asked: Vec<Arc<str>>,
}

impl ConsumerCore {
    pub(super) fn subscribe(&mut self, now: Nanos, topics: Vec<Arc<str>>) {
        self.group(now, GroupEvent::Start { topics });
    }

    /// Replaces what was assigned by hand.
    pub(super) fn assign(
        &mut self,
        now: Nanos,
        partitions: Vec<(TopicPartition, Start)>,
        out: &mut Vec<ConsumerAction>,
    ) {
        let gone: Vec<Slot> = self.partitions.live().to_vec();
        let tps = gone.iter().filter_map(|slot| self.partitions.tp(*slot).cloned()).collect::<Vec<_>>();
        for slot in gone {
            self.remove(now, slot);
            out.push(ConsumerAction::Remove(slot));
        }
        if !tps.is_empty() {
            self.group(now, GroupEvent::Unassigned { tps });
        }
        self.manual_epoch += 1;
        let epoch = self.manual_epoch;
        let topics: BTreeSet<Arc<str>> = partitions.iter().map(|(tp, _)| tp.topic.clone()).collect();
        self.topics.assigned = topics.into_iter().collect();
        self.missing.expect(&self.topics.assigned);
        self.want_topics(now);
        let (mut starts, mut load, mut owned) = (Vec::new(), Vec::new(), Vec::new());
        for (tp, start) in partitions {
            let slot = self.partitions.add(tp.clone(), epoch);
            out.push(ConsumerAction::AddLane { slot, tp: tp.clone(), assignment_epoch: epoch });
            match start {
                Start::At(at) => {
                    starts.push((slot, at, -1));
                    owned.push(tp);
                }
                Start::Committed if self.group.is_some() => load.push(tp),
                Start::Committed => starts.push((slot, StartAt::Reset, -1)),
            }
        }
        for (tps, load) in [(owned, false), (load, true)] {
            if !tps.is_empty() {
                self.group(now, GroupEvent::Assigned { tps, epoch, load });
            }
        }
        self.positions(now, PositionEvent::Starts(starts));
    }

    /// The group gave us these.
    pub(super) fn assigned(
        &mut self,
        _now: Nanos,
        tps: Vec<TopicPartition>,
        epoch: u32,
        out: &mut Vec<ConsumerAction>,
    ) {
        for tp in tps {
            let slot = self.partitions.add(tp.clone(), epoch);
            out.push(ConsumerAction::AddLane { slot, tp, assignment_epoch: epoch });
        }
    }

    pub(super) fn seek(&mut self, now: Nanos, tp: &TopicPartition, start: Start) {
        let Some(slot) = self.partitions.slot(tp) else { return };
        match start {
            Start::At(at) => self.positions(now, PositionEvent::Start { slot, at, leader_epoch: -1 }),
            Start::Committed if self.group.is_none() => {
                self.positions(now, PositionEvent::Start { slot, at: StartAt::Reset, leader_epoch: -1 });
            }
            Start::Committed => {
                let epoch = self.partitions.assignment_epoch(slot);
                self.positions(now, PositionEvent::Hold { slot });
                self.group(now, GroupEvent::Assigned { tps: vec![tp.clone()], epoch, load: true });
            }
        }
    }

    /// Fetches the partition no more; its lane is the caller's business.
    pub(super) fn remove(&mut self, now: Nanos, slot: Slot) {
        self.from_commit.remove(&slot);
        self.partitions.remove(slot);
        self.fetch(now, FetchEvent::SlotRemoved(slot));
    }

    pub(super) fn want_topics(&mut self, now: Nanos) {
        let topics = &self.topics;
        let own = topics.watched.iter().chain(&topics.assigned).chain(&topics.asked);
        let all: BTreeSet<Arc<str>> = own.chain(self.questions.topics()).cloned().collect();
        self.cluster(now, ClusterEvent::SetTopics(all.into_iter().collect()));
    }
}
