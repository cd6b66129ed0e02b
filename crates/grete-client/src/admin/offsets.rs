//! Offsets of the log, and committed offsets of groups.

use std::collections::BTreeSet;
use std::sync::Arc;

use grete_proto::admin::{AdminError, AdminReply, GroupProtocol, OffsetSpec, Operation, PartitionResult, ShareOffset};
use grete_proto::ids::TopicPartition;
use grete_wire::error_code::ErrorCode;

use super::call_context::partition_subject;
use super::groups::group_subject;
use super::{Admin, CallContext, ItemResults};
use crate::error::ClientError;

/// Lag of a group in one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionLag {
    /// Partition.
    pub tp: TopicPartition,
    /// Committed offset: the next one that the group reads.
    pub committed: i64,
    /// End offset of the partition; `None`: the partition does not exist any more.
    pub end: Option<i64>,
}

impl Admin {
    /// Resolves offset specs to offsets.
    ///
    /// # Errors
    /// Fails if no broker answers; errors of single partitions are in the results.
    pub fn list_offsets(
        &self,
        call: &CallContext<'_>,
        starts: Vec<(TopicPartition, OffsetSpec)>,
    ) -> Result<ItemResults<i64>, ClientError> {
        let subjects: Vec<_> = starts.iter().map(|(tp, _)| partition_subject(tp)).collect();
        if starts.is_empty() {
            return Ok(Vec::new());
        }
        match self.execute(call, Operation::ListOffsets { specs: starts, read_committed: false })? {
            AdminReply::Offsets(results) => {
                let offsets = results.into_iter().map(|result| result.map(|found| found.offset)).collect();
                Ok(call.item_results(offsets, subjects))
            }
            other => Err(call.wrong_reply_type(&other)),
        }
    }

    /// Returns the committed offsets of a group, for `partitions` or for all. Empty if the group does not exist.
    ///
    /// # Errors
    /// Fails if access is denied, or if the coordinator does not answer in time.
    pub fn committed(
        &self,
        call: &CallContext<'_>,
        name: &Arc<str>,
        partitions: Option<Vec<TopicPartition>>,
    ) -> Result<Vec<(TopicPartition, i64)>, ClientError> {
        let operation = Operation::FetchOffsets { group: name.clone(), partitions, stable: false };
        let found = match self.execute(call, operation)? {
            AdminReply::Committed(results) => call.single_result(results, group_subject(name))?,
            other => return Err(call.wrong_reply_type(&other)),
        };
        let mut committed = Vec::new();
        for (tp, result) in found {
            match result {
                Ok(Some(found)) => committed.push((tp, found.offset)),
                Ok(None) => {}
                Err(code) => return Err(call.refused_error(partition_subject(&tp), code, None)),
            }
        }
        committed.sort_unstable();
        Ok(committed)
    }

    /// Returns the lag of a group in each partition with a committed offset.
    ///
    /// # Errors
    /// Fails if the coordinator or the leader of a partition does not answer in time.
    pub fn lag(&self, call: &CallContext<'_>, name: &Arc<str>) -> Result<Vec<PartitionLag>, ClientError> {
        let committed = self.committed(call, name, None)?;
        let ends =
            self.list_offsets(call, committed.iter().map(|(tp, _)| (tp.clone(), OffsetSpec::Latest)).collect())?;
        let mut lags = Vec::with_capacity(committed.len());
        for ((tp, committed), end) in committed.into_iter().zip(ends) {
            let end = match end {
                Ok(end) => Some(end),
                Err(ClientError::Refused { code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, .. }) => None,
                Err(error) => return Err(error),
            };
            lags.push(PartitionLag { tp, committed, end });
        }
        Ok(lags)
    }

    /// Returns the offsets of a share group in all partitions that the group has read (KIP-932).
    ///
    /// # Errors
    /// Fails if the group is no share group, access is denied, or the coordinator does not answer in time.
    pub fn share_offsets(
        &self,
        call: &CallContext<'_>,
        name: &Arc<str>,
    ) -> Result<Vec<(TopicPartition, ShareOffset)>, ClientError> {
        let found = match self.execute(call, Operation::FetchShareOffsets { group: name.clone() })? {
            AdminReply::ShareOffsets(results) => call.single_result(results, group_subject(name))?,
            other => return Err(call.wrong_reply_type(&other)),
        };
        let each = found.into_iter().map(|(tp, result)| match result {
            Ok(offset) => Ok((tp, offset)),
            Err(code) => Err(call.refused_error(partition_subject(&tp), code, None)),
        });
        each.collect()
    }

    /// Deletes a group's offsets of partitions that none of its members reads. The offsets of a share group are deleted
    /// by topic: `partitions` names all that the group has read.
    ///
    /// # Errors
    /// Fails if the coordinator does not answer in time or refuses the request, or if a partition of a share group's
    /// topic is missing in `partitions`; errors of single partitions are in the results.
    pub fn delete_offsets(
        &self,
        call: &CallContext<'_>,
        name: &Arc<str>,
        partitions: Vec<TopicPartition>,
    ) -> Result<ItemResults<()>, ClientError> {
        let delete = |operation| match self.execute(call, operation)? {
            AdminReply::Partitions(results) => call.single_result(results, group_subject(name)),
            other => Err(call.wrong_reply_type(&other)),
        };
        let requested = partitions.clone();
        let found = match delete(Operation::DeleteOffsets { group: name.clone(), partitions }) {
            // OffsetDelete does not find share groups.
            Err(ClientError::Refused { code: ErrorCode::GROUP_ID_NOT_FOUND, .. }) if self.is_share(call, name)? => {
                self.check_whole_topics(call, name, &requested)?;
                delete(Operation::DeleteShareOffsets { group: name.clone(), partitions: requested.clone() })?
            }
            found => found?,
        };
        Ok(self.per_partition(call, name, &requested, &found))
    }

    fn is_share(&self, call: &CallContext<'_>, name: &Arc<str>) -> Result<bool, ClientError> {
        let described = self.describe_groups(call, vec![name.clone()])?;
        Ok(described.into_iter().flatten().any(|group| group.protocol == GroupProtocol::Share))
    }

    /// Fails if a share group has read a partition that is not in `partitions`, of a topic that is.
    fn check_whole_topics(
        &self,
        call: &CallContext<'_>,
        name: &Arc<str>,
        partitions: &[TopicPartition],
    ) -> Result<(), ClientError> {
        let read = self.share_offsets(call, name)?;
        let is_missing =
            |tp: &TopicPartition| partitions.iter().any(|named| named.topic == tp.topic) && !partitions.contains(tp);
        match read.into_iter().find(|(tp, offset)| offset.start.is_some() && is_missing(tp)) {
            None => Ok(()),
            Some((tp, _)) => Err(call.refused_error(
                group_subject(name),
                ErrorCode::INVALID_REQUEST,
                Some(format!("the offsets of a share group are deleted by topic; name {tp} as well")),
            )),
        }
    }

    /// Deletes the records before these offsets (-1: all records). Returns the new log start offsets.
    ///
    /// # Errors
    /// Fails if no broker answers; errors of single partitions are in the results.
    pub fn delete_records(
        &self,
        call: &CallContext<'_>,
        before: Vec<(TopicPartition, i64)>,
    ) -> Result<ItemResults<i64>, ClientError> {
        let subjects: Vec<_> = before.iter().map(|(tp, _)| partition_subject(tp)).collect();
        match self.execute(call, Operation::DeleteRecords { before })? {
            AdminReply::LowWatermarks(results) => Ok(call.item_results(results, subjects)),
            other => Err(call.wrong_reply_type(&other)),
        }
    }

    /// Converts a coordinator's results for the partitions of a group, in the order of the request.
    pub(super) fn per_partition(
        &self,
        call: &CallContext<'_>,
        name: &Arc<str>,
        requested: &[TopicPartition],
        found: &[PartitionResult<()>],
    ) -> ItemResults<()> {
        let about_members = BTreeSet::from([
            ErrorCode::UNKNOWN_MEMBER_ID,
            ErrorCode::STALE_MEMBER_EPOCH,
            ErrorCode::ILLEGAL_GENERATION,
            ErrorCode::REBALANCE_IN_PROGRESS,
        ]);
        let result = |tp: &TopicPartition| match found.iter().find(|(other, _)| other == tp) {
            Some((_, Ok(()))) => Ok(()),
            // Only members may change the offsets of a group that has members.
            Some((_, Err(code))) if about_members.contains(code) => {
                Err(call.refused_error(group_subject(name), ErrorCode::NON_EMPTY_GROUP, None))
            }
            Some((_, Err(code @ ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC))) => Err(call.refused_error(
                group_subject(name),
                *code,
                Some(format!("the group still reads topic {}", tp.topic)),
            )),
            Some((_, Err(code))) => Err(call.refused_error(partition_subject(tp), *code, None)),
            None => {
                let error = AdminError::TimedOut { waited_for: format!("an answer about {tp}"), last: None };
                Err(call.item_error(partition_subject(tp), error))
            }
        };
        requested.iter().map(result).collect()
    }
}
