//! Offsets: of the log, and those that groups have committed.

use std::collections::BTreeSet;
use std::sync::Arc;

use grete_core::admin::{AdminError, AdminReply, Operation, PartitionResult, When};
use grete_core::ids::TopicPartition;
use grete_wire::error_code::ErrorCode;

use super::call::partition;
use super::groups::group;
use super::{Admin, Call, Each};
use crate::error::ClientError;

/// How far a group is behind in one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionLag {
    /// Which.
    pub tp: TopicPartition,
    /// The next offset that the group reads.
    pub committed: i64,
    /// Where the partition ends; `None` if it does not exist any more.
    pub end: Option<i64>,
}

impl Admin {
    /// The offsets that these places come to.
    ///
    /// # Errors
    /// When nobody answers; what became of each place is in the results.
    pub fn list_offsets(&self, call: &Call<'_>, starts: Vec<(TopicPartition, When)>) -> Result<Each<i64>, ClientError> {
        let subjects: Vec<_> = starts.iter().map(|(tp, _)| partition(tp)).collect();
        if starts.is_empty() {
            return Ok(Vec::new());
        }
        match self.ask(call, Operation::ListOffsets { starts, read_committed: false })? {
            AdminReply::Offsets(results) => {
                let offsets = results.into_iter().map(|result| result.map(|found| found.offset)).collect();
                Ok(call.each(offsets, subjects))
            }
            other => Err(call.misplaced(&other)),
        }
    }

    /// The offsets that a group has committed: of these partitions, or all. Nothing for a group that does not exist.
    ///
    /// # Errors
    /// When they may not be seen, or the coordinator does not answer in time.
    pub fn committed(
        &self,
        call: &Call<'_>,
        name: &Arc<str>,
        partitions: Option<Vec<TopicPartition>>,
    ) -> Result<Vec<(TopicPartition, i64)>, ClientError> {
        let operation = Operation::FetchOffsets { group: name.clone(), partitions, stable: false };
        let found = match self.ask(call, operation)? {
            AdminReply::Committed(results) => call.only(results, group(name))?,
            other => return Err(call.misplaced(&other)),
        };
        let mut committed = Vec::new();
        for (tp, result) in found {
            match result {
                Ok(Some(found)) => committed.push((tp, found.offset)),
                Ok(None) => {}
                Err(code) => return Err(call.refused(partition(&tp), code, None)),
            }
        }
        committed.sort_unstable();
        Ok(committed)
    }

    /// How far a group is behind, in each partition that it has committed an offset of.
    ///
    /// # Errors
    /// When the coordinator, or a partition's leader, does not answer in time.
    pub fn lag(&self, call: &Call<'_>, name: &Arc<str>) -> Result<Vec<PartitionLag>, ClientError> {
        let committed = self.committed(call, name, None)?;
        let ends = self.list_offsets(call, committed.iter().map(|(tp, _)| (tp.clone(), When::Latest)).collect())?;
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

    /// Deletes a group's offsets of partitions that none of its members reads.
    ///
    /// # Errors
    /// When the coordinator does not answer in time, or refuses them all; else what became of each is in the results.
    pub fn delete_offsets(
        &self,
        call: &Call<'_>,
        name: &Arc<str>,
        partitions: Vec<TopicPartition>,
    ) -> Result<Each<()>, ClientError> {
        let asked = partitions.clone();
        let operation = Operation::DeleteOffsets { group: name.clone(), partitions };
        let found = match self.ask(call, operation)? {
            AdminReply::Partitions(results) => call.only(results, group(name))?,
            other => return Err(call.misplaced(&other)),
        };
        Ok(self.per_partition(call, name, &asked, &found))
    }

    /// Deletes the records before these offsets (-1: all that there are); gives the first offsets still there.
    ///
    /// # Errors
    /// When nobody answers; what became of each partition is in the results.
    pub fn delete_records(
        &self,
        call: &Call<'_>,
        before: Vec<(TopicPartition, i64)>,
    ) -> Result<Each<i64>, ClientError> {
        let subjects: Vec<_> = before.iter().map(|(tp, _)| partition(tp)).collect();
        match self.ask(call, Operation::DeleteRecords { before })? {
            AdminReply::LowWatermarks(results) => Ok(call.each(results, subjects)),
            other => Err(call.misplaced(&other)),
        }
    }

    /// What a coordinator says of each partition of a group, in the order of the question.
    pub(super) fn per_partition(
        &self,
        call: &Call<'_>,
        name: &Arc<str>,
        asked: &[TopicPartition],
        found: &[PartitionResult<()>],
    ) -> Each<()> {
        let about_members = BTreeSet::from([
            ErrorCode::UNKNOWN_MEMBER_ID,
            ErrorCode::STALE_MEMBER_EPOCH,
            ErrorCode::ILLEGAL_GENERATION,
            ErrorCode::REBALANCE_IN_PROGRESS,
        ]);
        let result = |tp: &TopicPartition| match found.iter().find(|(other, _)| other == tp) {
            Some((_, Ok(()))) => Ok(()),
            // A stranger may not touch the offsets of a group that has members.
            Some((_, Err(code))) if about_members.contains(code) => {
                Err(call.refused(group(name), ErrorCode::NON_EMPTY_GROUP, None))
            }
            Some((_, Err(code @ ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC))) => {
                Err(call.refused(group(name), *code, Some(format!("the group still reads topic {}", tp.topic))))
            }
            Some((_, Err(code))) => Err(call.refused(partition(tp), *code, None)),
            None => {
                let error = AdminError::TimedOut { waited_for: format!("an answer about {tp}"), last: None };
                Err(call.failed(partition(tp), error))
            }
        };
        asked.iter().map(result).collect()
    }
}
