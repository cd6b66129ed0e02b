//! Assignment of partitions, by subscription or by hand, and the topics whose metadata it needs.

use std::collections::BTreeSet;
use std::sync::Arc;

use grete_wire::error_code::ErrorCode;

use super::{ConsumerAction, ConsumerCore, StartOffset};
use crate::cluster::{Cluster, ClusterEvent};
use crate::fetch::FetchEvent;
use crate::group::assignor::racks::Racks;
use crate::group::{GroupEvent, TopicMetadataView};
use crate::ids::{NodeId, PartitionHandle, TopicPartition};
use crate::position::{PositionEvent, StartPosition};
use crate::share::ShareEvent;
use crate::time::Nanos;

/// Topics whose metadata the consumer needs.
#[derive(Debug, Default)]
pub(super) struct MetadataTopics {
    /// Topics of the group (a leader needs the other members' topics, too).
    pub(super) watched: Vec<Arc<str>>,
    /// Topics assigned by hand.
    assigned: Vec<Arc<str>>,
    /// Topics whose partition count a caller has requested.
    pub(super) queried: Vec<Arc<str>>,
}

impl MetadataTopics {
    /// Returns whether the consumer reads the topic, or another member of its group does.
    pub(super) fn reads(&self, topic: &Arc<str>) -> bool {
        self.watched.contains(topic) || self.assigned.contains(topic)
    }
}

impl ConsumerCore {
    /// Replaces the manual assignment.
    pub(super) fn assign(
        &mut self,
        now: Nanos,
        partitions: Vec<(TopicPartition, StartOffset)>,
        out: &mut Vec<ConsumerAction>,
    ) {
        let gone: Vec<PartitionHandle> = self.partitions.live().to_vec();
        let tps = gone.iter().filter_map(|slot| self.partitions.topic_partition(*slot).cloned()).collect::<Vec<_>>();
        out.extend(gone.iter().map(|&slot| ConsumerAction::RemovePartition(slot)));
        self.remove_partitions(now, gone);
        if !tps.is_empty() {
            self.group(now, GroupEvent::Unassigned { tps });
        }
        self.manual_epoch += 1;
        let epoch = self.manual_epoch;
        let topics: BTreeSet<Arc<str>> = partitions.iter().map(|(tp, _)| tp.topic.clone()).collect();
        self.topics.assigned = topics.into_iter().collect();
        self.unknown_partitions.set_assigned(&self.topics.assigned);
        self.update_metadata_topics(now);
        let (mut starts, mut load, mut owned) = (Vec::new(), Vec::new(), Vec::new());
        for (tp, start) in partitions {
            let slot = self.partitions.add(tp.clone(), epoch);
            out.push(ConsumerAction::AddPartition { slot, tp: tp.clone(), assignment_epoch: epoch });
            match start {
                StartOffset::At(at) => {
                    starts.push((slot, at, -1));
                    owned.push(tp);
                }
                StartOffset::Committed if self.group.is_some() => load.push(tp),
                StartOffset::Committed => starts.push((slot, StartPosition::Reset, -1)),
            }
        }
        for (tps, load) in [(owned, false), (load, true)] {
            if !tps.is_empty() {
                self.group(now, GroupEvent::Assigned { tps, epoch, fetch_offsets: load });
            }
        }
        self.positions(now, PositionEvent::StartMany(starts));
    }

    /// Adds the partitions that the group assigned.
    pub(super) fn on_group_assigned(
        &mut self,
        _now: Nanos,
        tps: Vec<TopicPartition>,
        epoch: u32,
        out: &mut Vec<ConsumerAction>,
    ) {
        for tp in tps {
            let slot = self.partitions.add(tp.clone(), epoch);
            if self.is_shared() {
                out.push(ConsumerAction::AddPartition { slot, tp, assignment_epoch: epoch });
                self.start_shared(slot, out);
                continue;
            }
            self.note_former_position(slot, &tp);
            out.push(ConsumerAction::AddPartition { slot, tp, assignment_epoch: epoch });
        }
    }

    pub(super) fn seek(&mut self, now: Nanos, tp: &TopicPartition, start: StartOffset) {
        let Some(slot) = self.partitions.handle(tp) else { return };
        match start {
            StartOffset::At(at) => self.positions(now, PositionEvent::Start { slot, at, leader_epoch: -1 }),
            StartOffset::Committed if self.group.is_none() => {
                self.positions(now, PositionEvent::Start { slot, at: StartPosition::Reset, leader_epoch: -1 });
            }
            StartOffset::Committed => {
                let epoch = self.partitions.assignment_epoch(slot);
                self.failures.expect_new_commit(slot);
                self.positions(now, PositionEvent::AwaitStart { slot });
                self.group(now, GroupEvent::Assigned { tps: vec![tp.clone()], epoch, fetch_offsets: true });
            }
        }
    }

    /// Stops fetching the partitions. The caller closes their lanes.
    ///
    /// The fetcher copies the layout of all partitions after each of its events, so all that leave together are one
    /// event.
    pub(super) fn remove_partitions(&mut self, now: Nanos, slots: Vec<PartitionHandle>) {
        if self.is_shared() {
            slots.iter().for_each(|slot| self.failures.forget(*slot));
            return self.share(now, ShareEvent::PartitionsRemoved(slots));
        }
        if self.group.is_some() {
            self.failures.note_given_up(&slots, &self.partitions);
        }
        for slot in &slots {
            self.committed_positions.remove(slot);
            self.failures.forget(*slot);
        }
        self.partitions.remove_all(&slots);
        self.fetch(now, FetchEvent::PartitionsRemoved(slots));
    }

    pub(super) fn update_metadata_topics(&mut self, now: Nanos) {
        let topics = &self.topics;
        let own = topics.watched.iter().chain(&topics.assigned).chain(&topics.queried);
        let all: BTreeSet<Arc<str>> = own.chain(self.queries.topics()).cloned().collect();
        self.cluster(now, ClusterEvent::SetTopics(all.into_iter().collect()));
    }
}

impl TopicMetadataView for Cluster {
    fn partition_count(&self, topic: &str) -> Option<i32> {
        let meta = self.topic(topic)?;
        let count = i32::try_from(meta.partitions.len()).ok()?;
        match meta.error {
            // Known partitions stay valid when a broker that does not know the topic yet returns this error.
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => Some(count),
            ErrorCode::NONE | ErrorCode::LEADER_NOT_AVAILABLE if count > 0 => Some(count),
            _ => None,
        }
    }

    fn replica_racks(&self, topic: &str) -> Vec<Racks> {
        let Some(meta) = self.topic(topic) else { return Vec::new() };
        let racks = |replicas: &[NodeId]| replicas.iter().filter_map(|&node| self.rack(node).cloned()).collect();
        meta.replicas.iter().map(|replicas| racks(replicas)).collect()
    }

    fn topic_id(&self, topic: &str) -> Option<u128> {
        self.topic(topic).map(|meta| meta.id).filter(|id| *id != 0)
    }

    fn topic_name(&self, id: u128) -> Option<Arc<str>> {
        self.topic_by_id(id).map(|meta| Arc::clone(&meta.name))
    }

    fn group_version(&self) -> Option<i16> {
        self.finalized_group_version()
    }

    fn is_concealed(&self, topic: &str) -> bool {
        self.topic(topic).is_some_and(|meta| meta.error == ErrorCode::TOPIC_AUTHORIZATION_FAILED)
    }
}
