//! Requests of the offset resolver.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use grete_wire::messages::list_offsets::{ListOffsetsPartition, ListOffsetsTopic};
use grete_wire::messages::offset_for_leader_epoch::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use grete_wire::messages::{ListOffsetsRequest, OffsetForLeaderEpochRequest};

use crate::ids::PartitionHandle;
use crate::partition::table::PartitionTable;
use crate::request::Request;
use crate::time::MILLI;

use super::config::PositionConfig;
use super::lookup::LookupGoal;

/// Replica id of a consumer: only the leader answers ListOffsets and OffsetForLeaderEpoch (P10).
const CONSUMER_REPLICA_ID: i32 = -1;

fn by_topic<T>(
    goals: impl Iterator<Item = (PartitionHandle, LookupGoal)>,
    partitions: &PartitionTable,
    partition: impl Fn(PartitionHandle, i32, LookupGoal) -> T,
) -> BTreeMap<Arc<str>, Vec<T>> {
    let mut topics: BTreeMap<Arc<str>, Vec<T>> = BTreeMap::new();
    for (slot, goal) in goals {
        if let Some(tp) = partitions.topic_partition(slot) {
            topics.entry(Arc::clone(&tp.topic)).or_default().push(partition(slot, tp.partition, goal));
        }
    }
    topics
}

pub(super) fn list_offsets(
    goals: impl Iterator<Item = (PartitionHandle, LookupGoal)>,
    committed: bool,
    config: &PositionConfig,
    partitions: &PartitionTable,
) -> Request {
    let topics = by_topic(goals, partitions, |slot, partition, goal| ListOffsetsPartition {
        partition_index: partition,
        current_leader_epoch: partitions.leader_epoch(slot),
        timestamp: goal.query().timestamp(),
    });
    Request::ListOffsets(ListOffsetsRequest {
        replica_id: CONSUMER_REPLICA_ID,
        isolation_level: i8::from(committed),
        topics: topics
            .into_iter()
            .map(|(name, partitions)| ListOffsetsTopic { name: Cow::Owned(name.to_string()), partitions })
            .collect(),
        timeout_ms: i32::try_from(config.request_timeout / MILLI).unwrap_or(i32::MAX),
    })
}

pub(super) fn offset_for_leader_epoch(
    goals: impl Iterator<Item = (PartitionHandle, LookupGoal)>,
    partitions: &PartitionTable,
) -> Request {
    let topics = by_topic(goals, partitions, |slot, partition, _| OffsetForLeaderPartition {
        partition,
        current_leader_epoch: partitions.leader_epoch(slot),
        leader_epoch: partitions.last_fetched_epoch(slot),
    });
    Request::OffsetForLeaderEpoch(OffsetForLeaderEpochRequest {
        replica_id: CONSUMER_REPLICA_ID,
        topics: topics
            .into_iter()
            .map(|(topic, partitions)| OffsetForLeaderTopic { topic: Cow::Owned(topic.to_string()), partitions })
            .collect(),
    })
}
