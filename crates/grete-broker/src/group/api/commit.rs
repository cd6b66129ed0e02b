//! OffsetCommit.

use std::borrow::Cow;
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::offset_commit::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use grete_wire::messages::{OffsetCommitRequest, OffsetCommitResponse};

use super::Lookup;
use crate::effects::Effects;
use crate::effects::group::CommittedOffset;
use crate::group::GroupCoordinator;
use crate::group::offsets::MemberClaim;
use crate::ids::{Millis, TopicPartition};

/// First version that names topics by id (KIP-848).
const FIRST_VERSION_WITH_TOPIC_IDS: i16 = 10;

/// Handles OffsetCommit.
pub fn commit_offsets(
    coordinator: &mut GroupCoordinator,
    now: Millis,
    version: i16,
    request: &OffsetCommitRequest<'_>,
    lookup: &impl Lookup,
    effects: &mut Effects,
) -> OffsetCommitResponse<'static> {
    // An error code for each partition, in order. `None`: the coordinator decides.
    let mut codes: Vec<Option<ErrorCode>> = Vec::new();
    let mut offsets = Vec::new();
    for topic in &request.topics {
        let name = topic_name(version, topic, lookup);
        for partition in &topic.partitions {
            match &name {
                Ok(name) if lookup.has_partition(name, partition.partition_index) => {
                    let tp = TopicPartition::new(Arc::clone(name), partition.partition_index);
                    offsets.push((tp, committed(now, request.retention_time_ms, partition)));
                    codes.push(None);
                }
                Ok(_) => codes.push(Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)),
                Err(code) => codes.push(Some(*code)),
            }
        }
    }
    let claim = MemberClaim {
        group: &request.group_id,
        generation: request.generation_id_or_member_epoch,
        member_id: &request.member_id,
        instance_id: request.group_instance_id.as_deref(),
    };
    // Unknown partitions alone do not involve the group.
    let outcome = match lookup.coordinator_error(&request.group_id) {
        Some(code) => Err(code),
        None if offsets.is_empty() => Ok(Vec::new()),
        None => coordinator.commit(now, version, &claim, offsets, effects),
    };
    let mut outcome = match outcome {
        Ok(codes) => Codes::Each(codes.into_iter()),
        Err(code) => Codes::All(code),
    };
    let mut codes = codes.into_iter().map(|code| code.unwrap_or_else(|| outcome.next()));
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().zip(&mut codes);
        OffsetCommitResponseTopic {
            name: Cow::Owned(topic.name.to_string()),
            topic_id: topic.topic_id,
            partitions: partitions.map(|(partition, code)| answer(partition, code)).collect(),
        }
    });
    OffsetCommitResponse { topics: topics.collect(), ..OffsetCommitResponse::default() }
}

/// Error codes of the coordinator.
enum Codes {
    /// One for each partition.
    Each(std::vec::IntoIter<ErrorCode>),
    /// The same for all partitions.
    All(ErrorCode),
}

impl Codes {
    fn next(&mut self) -> ErrorCode {
        match self {
            Self::Each(codes) => codes.next().unwrap_or(ErrorCode::UNKNOWN_SERVER_ERROR),
            Self::All(code) => *code,
        }
    }
}

fn topic_name(version: i16, topic: &OffsetCommitRequestTopic<'_>, lookup: &impl Lookup) -> Result<Arc<str>, ErrorCode> {
    if version >= FIRST_VERSION_WITH_TOPIC_IDS {
        return lookup.topic_name(topic.topic_id).ok_or(ErrorCode::UNKNOWN_TOPIC_ID);
    }
    Ok(Arc::from(topic.name.as_ref()))
}

/// Copies an offset. `retention_ms`: retention time of the request. -1: the broker's retention is in force.
fn committed(now: Millis, retention_ms: i64, partition: &OffsetCommitRequestPartition<'_>) -> CommittedOffset {
    CommittedOffset {
        offset: partition.committed_offset,
        leader_epoch: partition.committed_leader_epoch,
        metadata: Arc::from(partition.committed_metadata.as_deref().unwrap_or_default()),
        committed_at: now,
        expires_at: (retention_ms != -1).then(|| now.saturating_add(retention_ms)),
    }
}

pub(super) fn answer(partition: &OffsetCommitRequestPartition<'_>, code: ErrorCode) -> OffsetCommitResponsePartition {
    OffsetCommitResponsePartition { partition_index: partition.partition_index, error_code: code.0 }
}
