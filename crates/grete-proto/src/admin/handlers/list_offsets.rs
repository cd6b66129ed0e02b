//! ListOffsets and DeleteRecords: offsets by timestamp, and the start of the log. The partition leaders serve both.

use std::sync::Arc;

use grete_wire::messages::delete_records::{DeleteRecordsPartition, DeleteRecordsTopic};
use grete_wire::messages::list_offsets::{ListOffsetsPartition, ListOffsetsTopic};
use grete_wire::messages::{DeleteRecordsRequest, DeleteRecordsResponse, ListOffsetsRequest, ListOffsetsResponse};

use super::super::handler::{ApiHandler, ItemResult, ItemResults};
use super::super::reply::{AdminReply, PerItem};
use super::super::types::{ListedOffset, OffsetSpec};
use super::util::{by_topic, owned};
use crate::cluster::Cluster;
use crate::ids::TopicPartition;
use crate::request::Request;

/// Replica id of a consumer: only the leader responds.
const CONSUMER_REPLICA_ID: i32 = -1;

impl OffsetSpec {
    /// Returns the value in the request. A time before 1970 would be taken for a special value, so 0 is the minimum.
    fn timestamp(self) -> i64 {
        match self {
            Self::Latest => -1,
            Self::Earliest => -2,
            Self::Timestamp(ms) => ms.max(0),
        }
    }
}

#[derive(Debug)]
pub(crate) struct ListOffsets {
    /// Use the last stable offset as the end of the log.
    pub read_committed: bool,
}

impl ApiHandler for ListOffsets {
    type Api = ListOffsetsRequest<'static>;
    type Item = (TopicPartition, OffsetSpec);
    type Value = ListedOffset;

    const REPLY: fn(PerItem<ListedOffset>) -> AdminReply = AdminReply::Offsets;

    fn build_request(&self, items: &[&Self::Item], cluster: &Cluster, timeout_ms: i32) -> Request {
        let partition = |(tp, spec): &Self::Item| ListOffsetsPartition {
            partition_index: tp.partition,
            current_leader_epoch: cluster.leader(tp).map_or(-1, |(_, epoch)| epoch),
            timestamp: spec.timestamp(),
        };
        Request::ListOffsets(ListOffsetsRequest {
            replica_id: CONSUMER_REPLICA_ID,
            isolation_level: i8::from(self.read_committed),
            topics: by_topic(items.iter().map(|item| (&item.0, partition(item))), |(name, partitions)| {
                ListOffsetsTopic { name: owned(name), partitions }
            }),
            timeout_ms,
        })
    }

    fn parse_response(&self, response: &ListOffsetsResponse<'_>, results: &mut ItemResults<'_, Self>) {
        for topic in &response.topics {
            let name: Arc<str> = Arc::from(&*topic.name);
            for partition in &topic.partitions {
                let tp = TopicPartition::new(Arc::clone(&name), partition.partition_index);
                let found = ListedOffset { offset: partition.offset, leader_epoch: partition.leader_epoch };
                results.set_with(&tp, |(_, spec)| match ItemResult::new(partition.error_code, None, || found) {
                    // No record has the timestamp or a later one.
                    ItemResult::Done(found) if found.offset < 0 && matches!(spec, OffsetSpec::Timestamp(_)) => {
                        Some(ItemResult::Continue)
                    }
                    ItemResult::Done(found) if found.offset < 0 => None, // an invalid offset, whatever the position
                    result => Some(result),
                });
            }
        }
    }

    fn prepare_next_request(&self, (_, spec): &mut Self::Item) {
        *spec = OffsetSpec::Latest;
    }
}

/// DeleteRecords: deletes the records before an offset; -1: up to the end of the log.
#[derive(Debug)]
pub(crate) struct DeleteRecords;

impl ApiHandler for DeleteRecords {
    type Api = DeleteRecordsRequest<'static>;
    type Item = (TopicPartition, i64);
    /// First remaining offset.
    type Value = i64;

    const REPLY: fn(PerItem<i64>) -> AdminReply = AdminReply::LowWatermarks;

    fn build_request(&self, items: &[&Self::Item], _cluster: &Cluster, timeout_ms: i32) -> Request {
        let partitions = items
            .iter()
            .map(|(tp, offset)| (tp, DeleteRecordsPartition { partition_index: tp.partition, offset: *offset }));
        let topics = by_topic(partitions, |(name, partitions)| DeleteRecordsTopic { name: owned(name), partitions });
        Request::from_message(DeleteRecordsRequest { topics, timeout_ms })
    }

    fn parse_response(&self, response: &DeleteRecordsResponse<'_>, results: &mut ItemResults<'_, Self>) {
        for topic in &response.topics {
            let name: Arc<str> = Arc::from(&*topic.name);
            for partition in &topic.partitions {
                let tp = TopicPartition::new(Arc::clone(&name), partition.partition_index);
                results.set(&tp, partition.error_code, None, || partition.low_watermark);
            }
        }
    }
}
