//! The requests of the position machine.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use grete_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use grete_wire::messages::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use grete_wire::messages::{ListOffsetsRequest, OffsetForLeaderEpochRequest};

use crate::ids::Slot;
use crate::partitions::Partitions;
use crate::request::Request;
use crate::time::MILLI;

use super::config::PositionConfig;
use super::task::Goal;

/// Replica id of a consumer: ListOffsets and OffsetForLeaderEpoch are answered by the leader only (P10).
const CONSUMER: i32 = -1;

fn by_topic<T>(
    goals: impl Iterator<Item = (Slot, Goal)>,
    partitions: &Partitions,
    partition: impl Fn(Slot, i32, Goal) -> T,
) -> BTreeMap<Arc<str>, Vec<T>> {
    let mut topics: BTreeMap<Arc<str>, Vec<T>> = BTreeMap::new();
    for (slot, goal) in goals {
        if let Some(tp) = partitions.tp(slot) {
            topics.entry(Arc::clone(&tp.topic)).or_default().push(partition(slot, tp.partition, goal));
        }
    }
    topics
}

pub(super) fn list_offsets(
    goals: impl Iterator<Item = (Slot, Goal)>,
    committed: bool,
    config: &PositionConfig,
    partitions: &Partitions,
) -> Request {
    let topics = by_topic(goals, partitions, |slot, partition, goal| ListOffsetsPartition {
        partition_index: partition,
        current_leader_epoch: partitions.leader_epoch(slot),
        timestamp: goal.query().timestamp(),
    });
    Request::ListOffsets(ListOffsetsRequest {
        replica_id: CONSUMER,
        isolation_level: i8::from(committed),
        topics: topics
            .into_iter()
            .map(|(name, partitions)| ListOffsetsTopic { name: Cow::Owned(name.to_string()), partitions })
            .collect(),
        timeout_ms: i32::try_from(config.request_timeout / MILLI).unwrap_or(i32::MAX),
    })
}

pub(super) fn epoch_ends(goals: impl Iterator<Item = (Slot, Goal)>, partitions: &Partitions) -> Request {
    let topics = by_topic(goals, partitions, |slot, partition, _| OffsetForLeaderPartition {
        partition,
        current_leader_epoch: partitions.leader_epoch(slot),
        leader_epoch: partitions.last_fetched_epoch(slot),
    });
    Request::OffsetForLeaderEpoch(OffsetForLeaderEpochRequest {
        replica_id: CONSUMER,
        topics: topics
            .into_iter()
            .map(|(topic, partitions)| OffsetForLeaderTopic { topic: Cow::Owned(topic.to_string()), partitions })
            .collect(),
    })
}
