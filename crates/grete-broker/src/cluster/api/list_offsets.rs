//! ListOffsets and OffsetForLeaderEpoch.

use std::borrow::Cow;

use grete_wire::ErrorCode;
use grete_wire::messages::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopicResponse, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseEpochEndOffset as EpochEndOffset, OffsetForLeaderPartition, OffsetForLeaderTopicResult,
};

use crate::cluster::{Cluster, RequestContext};
use crate::log::TimestampOffset;
use crate::message::Response;

/// Timestamps with a meaning of their own.
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
/// First offset on the broker's own disk (KIP-405): the log start, because there is no tiered storage.
const EARLIEST_LOCAL: i64 = -4;
/// Last offset in tiered storage (KIP-1005): none.
const LATEST_TIERED: i64 = -5;

/// First offset that is not in tiered storage yet (KIP-1023): none.
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// First version whose response has leader epochs.
const FIRST_VERSION_WITH_EPOCH: i16 = 4;

impl Cluster {
    pub(in crate::cluster) fn list_offsets(&mut self, context: &RequestContext, request: &ListOffsetsRequest<'_>) {
        let read_committed = request.isolation_level == 1;
        let mut topics = Vec::new();
        for topic in &request.topics {
            let mut list =
                |wanted: &ListOffsetsPartition| match self.list_offset(context, &topic.name, wanted, read_committed) {
                    Ok(found) => found,
                    Err(error) => ListOffsetsPartitionResponse {
                        partition_index: wanted.partition_index,
                        error_code: error.0,
                        ..ListOffsetsPartitionResponse::default()
                    },
                };
            let partitions = topic.partitions.iter().map(&mut list).collect();
            topics.push(ListOffsetsTopicResponse { name: Cow::Owned(topic.name.to_string()), partitions });
        }
        let response = ListOffsetsResponse { topics, ..ListOffsetsResponse::default() };
        self.reply(context, Response::ListOffsets(response));
    }

    fn list_offset(
        &mut self,
        context: &RequestContext,
        topic: &str,
        wanted: &ListOffsetsPartition,
        read_committed: bool,
    ) -> Result<ListOffsetsPartitionResponse, ErrorCode> {
        if let Some(error) = self.partition_fault(topic, wanted.partition_index) {
            return Err(error);
        }
        if first_version_of(wanted.timestamp).is_none_or(|first| context.version < first) {
            return Err(ErrorCode::UNSUPPORTED_VERSION);
        }
        let found = self.topics.get(topic).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        let partition = found.partition(wanted.partition_index).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        self.check_leader(context, partition, wanted.current_leader_epoch)?;
        let log = &partition.log;
        let codecs = &mut self.codecs;
        let none = (-1, -1, -1);
        let (offset, timestamp, leader_epoch) = match wanted.timestamp {
            LATEST => (log.latest(read_committed), -1, partition.leader_epoch),
            EARLIEST | EARLIEST_LOCAL => {
                let (offset, epoch) = log.earliest();
                (offset, -1, epoch.unwrap_or(partition.leader_epoch))
            }
            MAX_TIMESTAMP => log.max_timestamp(read_committed, codecs).map_or(none, as_parts),
            LATEST_TIERED | EARLIEST_PENDING_UPLOAD => none,
            timestamp => log.offset_for_timestamp(timestamp, read_committed, codecs).map_or(none, as_parts),
        };
        Ok(ListOffsetsPartitionResponse {
            partition_index: wanted.partition_index,
            error_code: ErrorCode::NONE.0,
            timestamp,
            offset,
            leader_epoch: if context.version >= FIRST_VERSION_WITH_EPOCH { leader_epoch } else { -1 },
        })
    }

    pub(in crate::cluster) fn offset_for_leader_epoch(
        &mut self,
        context: &RequestContext,
        request: &OffsetForLeaderEpochRequest<'_>,
    ) {
        let mut topics = Vec::new();
        for topic in &request.topics {
            let find = |wanted: &OffsetForLeaderPartition| match self.end_of_epoch(context, &topic.topic, wanted) {
                Ok((leader_epoch, end_offset)) => EpochEndOffset {
                    partition: wanted.partition,
                    leader_epoch,
                    end_offset,
                    ..EpochEndOffset::default()
                },
                Err(error) => {
                    EpochEndOffset { partition: wanted.partition, error_code: error.0, ..EpochEndOffset::default() }
                }
            };
            let partitions = topic.partitions.iter().map(find).collect();
            topics.push(OffsetForLeaderTopicResult { topic: Cow::Owned(topic.topic.to_string()), partitions });
        }
        let response = OffsetForLeaderEpochResponse { topics, ..OffsetForLeaderEpochResponse::default() };
        self.reply(context, Response::OffsetForLeaderEpoch(response));
    }

    fn end_of_epoch(
        &self,
        context: &RequestContext,
        topic: &str,
        wanted: &OffsetForLeaderPartition,
    ) -> Result<(i32, i64), ErrorCode> {
        let topic = self.topics.get(topic).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        let partition = topic.partition(wanted.partition).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        self.check_leader(context, partition, wanted.current_leader_epoch)?;
        Ok(partition.end_offset_for_epoch(wanted.leader_epoch))
    }
}

/// Returns the first version of ListOffsets with this meaning of a timestamp. `None`: no version has such a timestamp.
fn first_version_of(timestamp: i64) -> Option<i16> {
    match timestamp {
        LATEST | EARLIEST | 0.. => Some(1),
        MAX_TIMESTAMP => Some(7),
        EARLIEST_LOCAL => Some(8),
        LATEST_TIERED => Some(9),
        EARLIEST_PENDING_UPLOAD => Some(11),
        _ => None,
    }
}

fn as_parts(found: TimestampOffset) -> (i64, i64, i32) {
    (found.offset, found.timestamp, found.leader_epoch)
}
