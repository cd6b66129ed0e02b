//! ShareFetch and ShareAcknowledge: the requests.

use std::borrow::Cow;
use std::collections::BTreeMap;

use grete_wire::messages::{ShareAcknowledgeRequest, ShareFetchRequest, share_acknowledge, share_fetch};

use super::acknowledgement::{AckType, Acknowledgement};
use super::config::ShareConfig;
use super::partition::{AckGroup, PartitionKey};
use crate::request::Request;
use crate::time::{MILLI, Nanos};

/// Acquires at most the number of records that is asked for (KIP-1206), instead of whole batches.
const RECORD_LIMIT: i8 = 1;

/// Acknowledgements of a request, by partition.
pub(super) type Acks = [(PartitionKey, AckGroup)];

/// Fields of a ShareFetch.
#[derive(Debug)]
pub(super) struct FetchFields<'a> {
    pub(super) member_id: &'a str,
    pub(super) epoch: i32,
    pub(super) max_wait: Nanos,
    pub(super) max_records: usize,
    pub(super) max_bytes: usize,
    /// Partitions that are new in the session.
    pub(super) added: &'a [PartitionKey],
    /// Partitions that leave the session.
    pub(super) forgotten: &'a [PartitionKey],
    pub(super) acks: &'a Acks,
}

pub(super) fn fetch(config: &ShareConfig, fields: &FetchFields<'_>) -> Request {
    let mut topics: BTreeMap<u128, BTreeMap<i32, Vec<share_fetch::AcknowledgementBatch>>> = BTreeMap::new();
    for (id, partition) in fields.added {
        topics.entry(*id).or_default().entry(*partition).or_default();
    }
    for ((id, partition), group) in fields.acks {
        let batches = group.acks.iter().map(|ack| share_fetch::AcknowledgementBatch {
            first_offset: ack.first,
            last_offset: ack.last,
            acknowledge_types: vec![ack.kind.number()],
        });
        topics.entry(*id).or_default().entry(*partition).or_default().extend(batches);
    }
    let topics = topics.into_iter().map(|(topic_id, partitions)| {
        let partition = |(partition_index, acknowledgement_batches)| share_fetch::FetchPartition {
            partition_index,
            acknowledgement_batches,
        };
        share_fetch::FetchTopic { topic_id, partitions: partitions.into_iter().map(partition).collect() }
    });
    let mut forgotten: BTreeMap<u128, Vec<i32>> = BTreeMap::new();
    for (id, partition) in fields.forgotten {
        forgotten.entry(*id).or_default().push(*partition);
    }
    let forgotten =
        forgotten.into_iter().map(|(topic_id, partitions)| share_fetch::ForgottenTopic { topic_id, partitions });
    let max_records = i32::try_from(fields.max_records).unwrap_or(i32::MAX);
    Request::from_message(ShareFetchRequest {
        group_id: Some(Cow::Owned(config.group_id.to_string())),
        member_id: Some(Cow::Owned(fields.member_id.to_owned())),
        share_session_epoch: fields.epoch,
        max_wait_ms: i32::try_from(fields.max_wait / MILLI).unwrap_or(i32::MAX),
        min_bytes: config.min_bytes,
        max_bytes: i32::try_from(fields.max_bytes).unwrap_or(i32::MAX).min(config.max_bytes),
        max_records,
        batch_size: max_records,
        share_acquire_mode: RECORD_LIMIT,
        is_renew_ack: false,
        topics: topics.collect(),
        forgotten_topics_data: forgotten.collect(),
    })
}

pub(super) fn acknowledge(config: &ShareConfig, member_id: &str, epoch: i32, acks: &Acks) -> Request {
    let mut topics: BTreeMap<u128, Vec<share_acknowledge::AcknowledgePartition>> = BTreeMap::new();
    for ((id, partition_index), group) in acks {
        let batch = |ack: &Acknowledgement| share_acknowledge::AcknowledgementBatch {
            first_offset: ack.first,
            last_offset: ack.last,
            acknowledge_types: vec![ack.kind.number()],
        };
        topics.entry(*id).or_default().push(share_acknowledge::AcknowledgePartition {
            partition_index: *partition_index,
            acknowledgement_batches: group.acks.iter().map(batch).collect(),
        });
    }
    let topics =
        topics.into_iter().map(|(topic_id, partitions)| share_acknowledge::AcknowledgeTopic { topic_id, partitions });
    let renews = acks.iter().any(|(_, group)| group.acks.iter().any(|ack| ack.kind == AckType::Renew));
    Request::from_message(ShareAcknowledgeRequest {
        group_id: Some(Cow::Owned(config.group_id.to_string())),
        member_id: Some(Cow::Owned(member_id.to_owned())),
        share_session_epoch: epoch,
        is_renew_ack: renews,
        topics: topics.collect(),
    })
}
