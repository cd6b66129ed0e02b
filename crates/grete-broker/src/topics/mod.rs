//! Topics and their partitions.

pub mod config;
mod log_config;
mod name;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::config::TopicConfig;
pub use self::name::check_topic_name;
use crate::ids::{BrokerId, TopicId};
use crate::log::{LogConfig, PartitionLog};

/// Change of the topics, without the records in them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum TopicChange {
    /// A topic was created.
    Created {
        /// Name, valid by [`check_topic_name`].
        name: Arc<str>,
        /// New id.
        id: TopicId,
        /// Replicas of each partition; the first is the preferred leader.
        replicas: Vec<Vec<BrokerId>>,
        /// Settings that differ from the default.
        overrides: Vec<(String, String)>,
    },
    /// A topic was deleted with its records.
    Deleted {
        /// Id of the topic.
        id: TopicId,
    },
    /// Partitions were added.
    PartitionsAdded {
        /// Id of the topic.
        id: TopicId,
        /// Replicas of each new partition.
        replicas: Vec<Vec<BrokerId>>,
    },
    /// The settings were replaced.
    Configured {
        /// Id of the topic.
        id: TopicId,
        /// All settings that differ from the default.
        overrides: Vec<(String, String)>,
    },
    /// A partition moved to other replicas.
    Reassigned {
        /// Id of the topic.
        id: TopicId,
        /// Index of the partition.
        partition: i32,
        /// New replicas; the first is the preferred leader.
        replicas: Vec<BrokerId>,
    },
    /// A partition got a leader, or lost it.
    Elected {
        /// Id of the topic.
        id: TopicId,
        /// Index of the partition.
        partition: i32,
        /// New leader; `None`: no replica is up.
        leader: Option<BrokerId>,
        /// Epoch of the leader, one more than before.
        leader_epoch: i32,
    },
}

/// Partition with its records. All replicas of a partition share one log: replication takes no time here.
#[derive(Debug)]
pub struct Partition {
    /// Records.
    pub log: PartitionLog,
    /// Brokers that hold the partition; the first is the preferred leader.
    pub replicas: Vec<BrokerId>,
    /// Leader; `None`: no replica is up.
    pub leader: Option<BrokerId>,
    /// Epoch of the leader, from 0.
    pub leader_epoch: i32,
}

impl Partition {
    fn new(replicas: Vec<BrokerId>) -> Self {
        let leader = replicas.first().copied();
        Self { log: PartitionLog::new(), replicas, leader, leader_epoch: 0 }
    }

    /// Returns the epoch and end offset by which a client finds where its log diverges; (-1, -1): unknown epoch.
    #[must_use]
    pub fn end_offset_for_epoch(&self, leader_epoch: i32) -> (i32, i64) {
        // The current epoch ends at the end of the log, even before the leader has appended a record.
        if leader_epoch == self.leader_epoch {
            return (leader_epoch, self.log.high_watermark());
        }
        self.log.end_offset_for_epoch(leader_epoch)
    }

    /// Returns the replicas that are up. These are in sync, because replicas share the log.
    #[must_use]
    pub fn in_sync(&self, live: &BTreeSet<BrokerId>) -> Vec<BrokerId> {
        self.replicas.iter().copied().filter(|id| live.contains(id)).collect()
    }
}

/// Topic with its partitions and settings.
#[derive(Debug)]
pub struct Topic {
    /// Name.
    pub name: Arc<str>,
    /// Id, which a topic of the same name does not get again.
    pub id: TopicId,
    /// Partitions by index.
    pub partitions: Vec<Partition>,
    /// Settings. Change them through [`Topics::apply`].
    pub config: TopicConfig,
    /// Settings in the form that logs read.
    pub log_config: LogConfig,
}

impl Topic {
    /// Returns a partition, or `None` if the index is out of range.
    #[must_use]
    pub fn partition(&self, index: i32) -> Option<&Partition> {
        usize::try_from(index).ok().and_then(|index| self.partitions.get(index))
    }

    /// Returns a partition, or `None` if the index is out of range.
    pub fn partition_mut(&mut self, index: i32) -> Option<&mut Partition> {
        usize::try_from(index).ok().and_then(|index| self.partitions.get_mut(index))
    }

    /// Returns the partitions with their indexes.
    pub fn indexed(&self) -> impl Iterator<Item = (i32, &Partition)> {
        (0..).zip(&self.partitions)
    }

    fn overrides(&self) -> Vec<(String, String)> {
        self.config.overrides().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

/// All topics, by name and by id.
#[derive(Debug, Default)]
pub struct Topics {
    by_name: BTreeMap<Arc<str>, Topic>,
    names: HashMap<TopicId, Arc<str>>,
    /// Names by their form in metric names, for those that have a `.` or `_`.
    in_metrics: HashMap<String, BTreeSet<Arc<str>>>,
    /// Settings of a topic without overrides.
    defaults: TopicConfig,
}

impl Topics {
    /// Creates a set without topics. `defaults`: values of settings that a topic does not override.
    #[must_use]
    pub fn new(defaults: TopicConfig) -> Self {
        Self { defaults: defaults.into_defaults(), ..Self::default() }
    }

    /// Returns the settings of a topic without overrides.
    #[must_use]
    pub fn defaults(&self) -> &TopicConfig {
        &self.defaults
    }

    /// Returns the topic with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Topic> {
        self.by_name.get(name)
    }

    /// Returns the topic with this name.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Topic> {
        self.by_name.get_mut(name)
    }

    /// Returns the topic with this id.
    #[must_use]
    pub fn by_id(&self, id: TopicId) -> Option<&Topic> {
        self.names.get(&id).and_then(|name| self.by_name.get(name))
    }

    /// Returns the topic with this id.
    pub fn by_id_mut(&mut self, id: TopicId) -> Option<&mut Topic> {
        self.names.get(&id).and_then(|name| self.by_name.get_mut(name))
    }

    /// Returns the number of topics.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Returns whether there is no topic.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Returns all topics by name.
    pub fn iter(&self) -> impl Iterator<Item = &Topic> {
        self.by_name.values()
    }

    /// Returns all topics by name.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Topic> {
        self.by_name.values_mut()
    }

    /// Returns a topic whose name collides with `name` in metric names, where `.` and `_` are the same.
    #[must_use]
    pub fn colliding(&self, name: &str) -> Option<&Topic> {
        let others = self.in_metrics.get(&in_metrics(name)?)?;
        others.iter().find(|other| &***other != name).and_then(|other| self.get(other))
    }

    /// Applies a change. Changes of topics that do not exist are ignored.
    pub fn apply(&mut self, change: &TopicChange) {
        match change {
            TopicChange::Created { name, id, replicas, overrides } => {
                let partitions = replicas.iter().cloned().map(Partition::new).collect();
                let config = self.defaults.clone().with_stored(overrides);
                let log_config = config.log_config();
                let topic = Topic { name: Arc::clone(name), id: *id, partitions, config, log_config };
                self.names.insert(*id, Arc::clone(name));
                if let Some(plain) = in_metrics(name) {
                    self.in_metrics.entry(plain).or_default().insert(Arc::clone(name));
                }
                self.by_name.insert(Arc::clone(name), topic);
            }
            TopicChange::Deleted { id } => {
                if let Some(name) = self.names.remove(id) {
                    self.by_name.remove(&name);
                    if let Some(plain) = in_metrics(&name)
                        && let Some(names) = self.in_metrics.get_mut(&plain)
                    {
                        names.remove(&name);
                        if names.is_empty() {
                            self.in_metrics.remove(&plain);
                        }
                    }
                }
            }
            TopicChange::PartitionsAdded { id, replicas } => {
                if let Some(topic) = self.by_id_mut(*id) {
                    topic.partitions.extend(replicas.iter().cloned().map(Partition::new));
                }
            }
            TopicChange::Configured { id, overrides } => {
                let defaults = self.defaults.clone();
                if let Some(topic) = self.by_id_mut(*id) {
                    topic.config = defaults.with_stored(overrides);
                    topic.log_config = topic.config.log_config();
                }
            }
            TopicChange::Reassigned { id, partition, replicas } => {
                if let Some(partition) = self.by_id_mut(*id).and_then(|topic| topic.partition_mut(*partition)) {
                    partition.replicas.clone_from(replicas);
                }
            }
            TopicChange::Elected { id, partition, leader, leader_epoch } => {
                if let Some(partition) = self.by_id_mut(*id).and_then(|topic| topic.partition_mut(*partition)) {
                    partition.leader = *leader;
                    partition.leader_epoch = *leader_epoch;
                }
            }
        }
    }

    /// Returns the changes that create the topics again, without their records.
    #[must_use]
    pub fn snapshot(&self) -> Vec<TopicChange> {
        let mut changes = Vec::new();
        for topic in self.iter() {
            changes.push(TopicChange::Created {
                name: Arc::clone(&topic.name),
                id: topic.id,
                replicas: topic.partitions.iter().map(|partition| partition.replicas.clone()).collect(),
                overrides: topic.overrides(),
            });
            for (index, partition) in topic.indexed() {
                changes.push(TopicChange::Elected {
                    id: topic.id,
                    partition: index,
                    leader: partition.leader,
                    leader_epoch: partition.leader_epoch,
                });
            }
        }
        changes
    }
}

/// Returns a name as metric names have it; `None`: the name has neither `.` nor `_`, and collides with no other.
fn in_metrics(name: &str) -> Option<String> {
    name.contains(['.', '_']).then(|| name.replace('.', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(name: &str, id: TopicId, partitions: usize) -> TopicChange {
        let overrides = vec![("retention.ms".to_owned(), "1000".to_owned())];
        TopicChange::Created { name: name.into(), id, replicas: vec![vec![1, 2]; partitions], overrides }
    }

    #[test]
    fn a_snapshot_creates_the_topics_again() {
        let mut topics = Topics::default();
        topics.apply(&created("orders", 7, 2));
        topics.apply(&created("bills", 8, 1));
        topics.apply(&TopicChange::Deleted { id: 8 });
        topics.apply(&TopicChange::PartitionsAdded { id: 7, replicas: vec![vec![2, 1]] });
        topics.apply(&TopicChange::Elected { id: 7, partition: 1, leader: Some(2), leader_epoch: 4 });
        let mut again = Topics::default();
        topics.snapshot().iter().for_each(|change| again.apply(change));
        assert_eq!(again.snapshot(), topics.snapshot());
        let topic = again.by_id(7).unwrap();
        assert_eq!((topic.partitions.len(), topic.config.value("retention.ms")), (3, "1000"));
        assert_eq!(topic.partition(1).map(|partition| (partition.leader, partition.leader_epoch)), Some((Some(2), 4)));
        assert!(again.get("bills").is_none() && again.by_id(8).is_none());
    }

    #[test]
    fn names_that_differ_in_dots_collide() {
        let mut topics = Topics::default();
        topics.apply(&created("a.b", 1, 1));
        assert_eq!(topics.colliding("a_b").map(|topic| &*topic.name), Some("a.b"));
        assert!(topics.colliding("a.b").is_none() && topics.colliding("a-b").is_none());
        topics.apply(&created("x_y", 2, 1));
        topics.apply(&TopicChange::Deleted { id: 2 });
        assert!(topics.colliding("x.y").is_none(), "the topic is deleted");
    }
}
