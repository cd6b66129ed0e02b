//! Topics, leaders and epochs, and how a metadata response changes them.
//!
//! Responses come from different brokers, and some brokers lag behind. A leader is therefore replaced only by a leader
//! of the same or a newer epoch, or without epoch from brokers that do not send epochs. An error replaces no known
//! leader. Topics and partitions that a response omits are kept.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use grete_wire::error_code::ErrorCode;
use grete_wire::messages::{MetadataResponsePartition, MetadataResponseTopic};

use super::event::ClusterLogEvent;
use crate::ids::{NodeId, TopicPartition};
use crate::time::Nanos;

/// Id of a topic to which the broker assigned none (before Metadata 10).
pub const NO_TOPIC_ID: u128 = 0;
/// Leader of a partition without leader.
pub const NO_LEADER: NodeId = -1;
/// Leader epoch that no response reported.
pub const NO_EPOCH: i32 = -1;

/// A broker in the metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broker<'a> {
    /// Broker id.
    pub id: NodeId,
    /// Advertised host.
    pub host: &'a str,
    /// Advertised port.
    pub port: u16,
    /// `broker.rack`; `None`: not set.
    pub rack: Option<&'a str>,
}

/// A topic according to the last responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicMetadata {
    /// Topic name.
    pub name: Arc<str>,
    /// Topic id; [`NO_TOPIC_ID`]: unknown. A new id under the same name means that the topic was recreated.
    pub id: u128,
    /// Error in the last response. The partitions are those of the last response without error.
    pub error: ErrorCode,
    /// Partitions by number, without gaps.
    pub partitions: Vec<PartitionMetadata>,
    /// Node ids of the replicas by partition number, as far as a response named them.
    pub replicas: Vec<Box<[NodeId]>>,
    /// Time of the last response, if that response reports the topic as unknown.
    pub missing_at: Option<Nanos>,
}

/// A partition according to the last responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionMetadata {
    /// Node id of the leader; [`NO_LEADER`]: none.
    pub leader: NodeId,
    /// Leader epoch; [`NO_EPOCH`]: unknown.
    pub leader_epoch: i32,
    /// Error in the last response.
    pub error: ErrorCode,
}

impl PartitionMetadata {
    const UNKNOWN: Self =
        Self { leader: NO_LEADER, leader_epoch: NO_EPOCH, error: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION };

    fn apply(&mut self, answer: &MetadataResponsePartition) {
        let error = match ErrorCode(answer.error_code) {
            // A follower is down; the leader in the response is valid.
            ErrorCode::REPLICA_NOT_AVAILABLE => ErrorCode::NONE,
            error => error,
        };
        let epoch = answer.leader_epoch;
        if error == ErrorCode::NONE && answer.leader_id >= 0 {
            if epoch < 0 || epoch >= self.leader_epoch {
                *self = Self { leader: answer.leader_id, leader_epoch: epoch, error };
            }
        } else {
            self.error = if error == ErrorCode::NONE { ErrorCode::LEADER_NOT_AVAILABLE } else { error };
            // Without a newer epoch the response may be old, so the known leader may still be valid.
            if epoch > self.leader_epoch {
                (self.leader, self.leader_epoch) = (NO_LEADER, epoch);
            }
        }
    }
}

/// All tracked topics.
#[derive(Debug, Default)]
pub(crate) struct Metadata {
    tracked_topics: Vec<Arc<str>>,
    topics: BTreeMap<Arc<str>, TopicMetadata>,
    ids: BTreeMap<u128, Arc<str>>,
    version: u64,
}

impl Metadata {
    pub(crate) fn topic(&self, name: &str) -> Option<&TopicMetadata> {
        self.topics.get(name)
    }

    pub(crate) fn topic_by_id(&self, id: u128) -> Option<&TopicMetadata> {
        self.ids.get(&id).and_then(|name| self.topics.get(name))
    }

    pub(crate) fn topics(&self) -> impl Iterator<Item = &TopicMetadata> {
        self.topics.values()
    }

    pub(crate) fn partition(&self, tp: &TopicPartition) -> Option<&PartitionMetadata> {
        self.topic(&tp.topic)?.partitions.get(usize::try_from(tp.partition).ok()?)
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn bump_version(&mut self) {
        self.version += 1;
    }

    pub(crate) fn tracked_topics(&self) -> &[Arc<str>] {
        &self.tracked_topics
    }

    /// Returns tracked topics that no response has contained yet.
    pub(crate) fn unknown_topics(&self) -> impl Iterator<Item = &Arc<str>> {
        self.tracked_topics.iter().filter(|name| !self.topics.contains_key(*name))
    }

    /// Replaces the tracked topics and removes all others. Returns whether new topics were added.
    pub(crate) fn set_tracked_topics(&mut self, mut topics: Vec<Arc<str>>) -> bool {
        topics.sort_unstable();
        topics.dedup();
        self.tracked_topics = topics;
        let (interest, ids) = (&self.tracked_topics, &mut self.ids);
        self.topics.retain(|name, topic| {
            let keep = interest.binary_search(name).is_ok();
            if !keep {
                ids.remove(&topic.id);
            }
            keep
        });
        self.unknown_topics().next().is_some()
    }

    /// Applies a response to one topic. Returns whether anything changed.
    pub(crate) fn apply(
        &mut self,
        now: Nanos,
        answer: &MetadataResponseTopic<'_>,
        notices: &mut Vec<ClusterLogEvent>,
    ) -> bool {
        let Some(name) = answer.name.as_deref() else { return false };
        // The response may belong to an older request: topics that are no longer tracked are ignored.
        let Ok(index) = self.tracked_topics.binary_search_by(|known| known.as_ref().cmp(name)) else { return false };
        let Some(name) = self.tracked_topics.get(index).cloned() else { return false };
        let error = ErrorCode(answer.error_code);
        let (topic, mut changed) = match self.topics.entry(Arc::clone(&name)) {
            Entry::Occupied(topic) => (topic.into_mut(), false),
            Entry::Vacant(place) => {
                let error = ErrorCode::NONE;
                let (name, partitions, replicas) = (Arc::clone(&name), Vec::new(), Vec::new());
                let topic = TopicMetadata { name, id: NO_TOPIC_ID, error, partitions, replicas, missing_at: None };
                (place.insert(topic), true)
            }
        };
        topic.missing_at = (error == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION).then_some(now);
        if topic.error != error {
            topic.error = error;
            changed = true;
            notices.push(ClusterLogEvent::TopicError { topic: Arc::clone(&name), error });
        }
        if error != ErrorCode::NONE {
            return changed;
        }
        // Brokers without support for topic ids send zero, which must not remove an id from another broker.
        if answer.topic_id != NO_TOPIC_ID && answer.topic_id != topic.id {
            let old = std::mem::replace(&mut topic.id, answer.topic_id);
            self.ids.insert(answer.topic_id, Arc::clone(&name));
            changed = true;
            if old != NO_TOPIC_ID {
                self.ids.remove(&old);
                // Epochs restart with the new topic, so the old epochs must not block its leaders.
                topic.partitions.clear();
                topic.replicas.clear();
                notices.push(ClusterLogEvent::TopicRecreated { topic: name, old, new: answer.topic_id });
            }
        }
        let count = answer.partitions.len();
        if topic.partitions.len() < count {
            topic.partitions.resize(count, PartitionMetadata::UNKNOWN);
            topic.replicas.resize(count, Box::default());
            changed = true;
        }
        for partition in &answer.partitions {
            let Ok(index) = usize::try_from(partition.partition_index) else { continue };
            // An index beyond the number of partitions is invalid: Kafka numbers partitions without gaps.
            let Some(known) = topic.partitions.get_mut(index) else { continue };
            let before = *known;
            known.apply(partition);
            changed |= before != *known;
            if let Some(replicas) = topic.replicas.get_mut(index)
                && !partition.replica_nodes.is_empty()
                && **replicas != *partition.replica_nodes
            {
                *replicas = partition.replica_nodes.as_slice().into();
            }
        }
        changed
    }

    /// Returns whether the node has a replica of a tracked topic.
    pub(crate) fn has_replica(&self, node: NodeId) -> bool {
        self.topics.values().any(|topic| topic.replicas.iter().any(|replicas| replicas.contains(&node)))
    }

    /// Applies a leader that a broker reported (KIP-951), only with a newer epoch. Returns whether it was applied.
    pub(crate) fn update_leader(&mut self, tp: &TopicPartition, leader: NodeId, epoch: i32) -> bool {
        let Some(topic) = self.topics.get_mut(&tp.topic) else { return false };
        let known = usize::try_from(tp.partition).ok().and_then(|index| topic.partitions.get_mut(index));
        let Some(known) = known.filter(|known| epoch > known.leader_epoch) else { return false };
        *known = PartitionMetadata { leader, leader_epoch: epoch, error: ErrorCode::NONE };
        self.version += 1;
        true
    }

    /// Returns whether a later response may add missing data: leaders, or topics that are being created.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.unknown_topics().next().is_some()
            || self
                .topics
                .values()
                .any(|topic| topic.error.is_retriable() || topic.partitions.iter().any(|p| p.error.is_retriable()))
    }
}
