//! Topics, leaders and epochs, and how an answer changes them.
//!
//! Answers come from different brokers, and some lag behind. So a leader is replaced only by one of the same or a newer
//! epoch (or of none, from brokers that do not send epochs), an error replaces no leader that is known, and what an answer
//! does not mention stays.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use grete_wire::error_code::ErrorCode;
use grete_wire::messages::{MetadataResponsePartition, MetadataResponseTopic};

use super::event::ClusterNotice;
use crate::ids::{NodeId, TopicPartition};

/// The id of a topic that the broker gave none (before Metadata 10).
pub const NO_ID: u128 = 0;
/// The leader of a partition that has none.
pub const NO_LEADER: NodeId = -1;
/// The epoch of a leader of which none was told.
pub const NO_EPOCH: i32 = -1;

/// A topic as the last answers have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicMeta {
    /// Its name.
    pub name: Arc<str>,
    /// Its id; [`NO_ID`] while unknown. Another id under the same name is another topic.
    pub id: u128,
    /// What the last answer said is wrong with it. Partitions are those of the last answer without error.
    pub error: ErrorCode,
    /// By partition number, without gaps.
    pub partitions: Vec<PartitionMeta>,
}

/// A partition as the last answers have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionMeta {
    /// The leader's node id; [`NO_LEADER`] for none.
    pub leader: NodeId,
    /// The leader's epoch; [`NO_EPOCH`] if unknown.
    pub leader_epoch: i32,
    /// What the last answer said is wrong with it.
    pub error: ErrorCode,
}

impl PartitionMeta {
    const UNKNOWN: Self =
        Self { leader: NO_LEADER, leader_epoch: NO_EPOCH, error: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION };

    fn apply(&mut self, answer: &MetadataResponsePartition) {
        let error = match ErrorCode(answer.error_code) {
            // Some follower is down; the leader that the answer names is fine.
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
            // Without a newer epoch this can be an old answer: the leader we know may well be there.
            if epoch > self.leader_epoch {
                (self.leader, self.leader_epoch) = (NO_LEADER, epoch);
            }
        }
    }
}

/// All topics of interest.
#[derive(Debug, Default)]
pub(crate) struct Metadata {
    interest: Vec<Arc<str>>,
    topics: BTreeMap<Arc<str>, TopicMeta>,
    ids: BTreeMap<u128, Arc<str>>,
    version: u64,
}

impl Metadata {
    pub(crate) fn topic(&self, name: &str) -> Option<&TopicMeta> {
        self.topics.get(name)
    }

    pub(crate) fn topic_by_id(&self, id: u128) -> Option<&TopicMeta> {
        self.ids.get(&id).and_then(|name| self.topics.get(name))
    }

    pub(crate) fn topics(&self) -> impl Iterator<Item = &TopicMeta> {
        self.topics.values()
    }

    pub(crate) fn partition(&self, tp: &TopicPartition) -> Option<&PartitionMeta> {
        self.topic(&tp.topic)?.partitions.get(usize::try_from(tp.partition).ok()?)
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn changed(&mut self) {
        self.version += 1;
    }

    pub(crate) fn interest(&self) -> &[Arc<str>] {
        &self.interest
    }

    /// Topics of interest that no answer has spoken of yet.
    pub(crate) fn unknown(&self) -> impl Iterator<Item = &Arc<str>> {
        self.interest.iter().filter(|name| !self.topics.contains_key(*name))
    }

    /// Replaces the topics of interest and forgets the others; whether there are new ones.
    pub(crate) fn set_interest(&mut self, mut topics: Vec<Arc<str>>) -> bool {
        topics.sort_unstable();
        topics.dedup();
        self.interest = topics;
        let (interest, ids) = (&self.interest, &mut self.ids);
        self.topics.retain(|name, topic| {
            let keep = interest.binary_search(name).is_ok();
            if !keep {
                ids.remove(&topic.id);
            }
            keep
        });
        self.unknown().next().is_some()
    }

    /// Takes in what an answer says of one topic; whether anything is different now.
    pub(crate) fn apply(&mut self, answer: &MetadataResponseTopic<'_>, notices: &mut Vec<ClusterNotice>) -> bool {
        let Some(name) = answer.name.as_deref() else { return false };
        // The answer can be to an older question: what nobody asks for any more is not taken in.
        let Ok(index) = self.interest.binary_search_by(|known| known.as_ref().cmp(name)) else { return false };
        let Some(name) = self.interest.get(index).cloned() else { return false };
        let error = ErrorCode(answer.error_code);
        let (topic, mut changed) = match self.topics.entry(Arc::clone(&name)) {
            Entry::Occupied(topic) => (topic.into_mut(), false),
            Entry::Vacant(place) => {
                let error = ErrorCode::NONE;
                (place.insert(TopicMeta { name: Arc::clone(&name), id: NO_ID, error, partitions: Vec::new() }), true)
            }
        };
        if topic.error != error {
            topic.error = error;
            changed = true;
            notices.push(ClusterNotice::TopicError { topic: Arc::clone(&name), error });
        }
        if error != ErrorCode::NONE {
            return changed;
        }
        // Brokers that know no ids send zero: that takes away no id that another broker has told.
        if answer.topic_id != NO_ID && answer.topic_id != topic.id {
            let old = std::mem::replace(&mut topic.id, answer.topic_id);
            self.ids.insert(answer.topic_id, Arc::clone(&name));
            changed = true;
            if old != NO_ID {
                self.ids.remove(&old);
                // Epochs start anew with the new topic, so the old ones must not hold up its leaders.
                topic.partitions.clear();
                notices.push(ClusterNotice::TopicRecreated { topic: name, old, new: answer.topic_id });
            }
        }
        let count = answer.partitions.len();
        if topic.partitions.len() < count {
            topic.partitions.resize(count, PartitionMeta::UNKNOWN);
            changed = true;
        }
        for partition in &answer.partitions {
            let known =
                usize::try_from(partition.partition_index).ok().and_then(|index| topic.partitions.get_mut(index));
            // A number beyond the count of partitions can only be wrong: Kafka numbers them without gaps.
            let Some(known) = known else { continue };
            let before = *known;
            known.apply(partition);
            changed |= before != *known;
        }
        changed
    }

    /// A leader that a broker named on the way (KIP-951); believed only with a newer epoch.
    pub(crate) fn update_leader(&mut self, tp: &TopicPartition, leader: NodeId, epoch: i32) -> bool {
        let Some(topic) = self.topics.get_mut(&tp.topic) else { return false };
        let known = usize::try_from(tp.partition).ok().and_then(|index| topic.partitions.get_mut(index));
        let Some(known) = known.filter(|known| epoch > known.leader_epoch) else { return false };
        *known = PartitionMeta { leader, leader_epoch: epoch, error: ErrorCode::NONE };
        self.version += 1;
        true
    }

    /// Whether something is missing that a later answer may bring: leaders, or topics that are just being made.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.unknown().next().is_some()
            || self
                .topics
                .values()
                .any(|topic| topic.error.is_retriable() || topic.partitions.iter().any(|p| p.error.is_retriable()))
    }
}
