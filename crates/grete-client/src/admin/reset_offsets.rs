//! Reset of a group's committed offsets.

use std::sync::Arc;

use grete_proto::admin::{AdminReply, GroupProtocol, OffsetSpec, Operation};
use grete_proto::ids::TopicPartition;
use grete_wire::error_code::ErrorCode;
use grete_wire::{counted, plural};

use super::groups::group_subject;
use super::{Admin, CallContext};
use crate::error::ClientError;

/// Target position of a reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetTo {
    /// This offset, which must be in the log or be its end.
    Offset(i64),
    /// The first record in the log, the end, or a timestamp.
    Spec(OffsetSpec),
}

/// Reset of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResetPlan {
    /// Partition.
    pub tp: TopicPartition,
    /// Committed offset before the reset; `None`: there was none.
    pub before: Option<i64>,
    /// Committed offset after the reset.
    pub after: i64,
}

impl Admin {
    /// Commits other offsets for a group without members, or sets the start offsets of a share group. `dry_run`: only
    /// returns the plan.
    ///
    /// # Errors
    /// Fails if the group has members, an offset is not in the log, or a broker does not answer in time. Nothing is
    /// committed then, unless the error names a single partition that the broker refused.
    pub fn reset_offsets(
        &self,
        call: &CallContext<'_>,
        name: &Arc<str>,
        to: Vec<(TopicPartition, ResetTo)>,
        dry_run: bool,
    ) -> Result<Vec<ResetPlan>, ClientError> {
        if to.is_empty() {
            return Ok(Vec::new());
        }
        let is_share = self.check_empty(call, name)?;
        let tps: Vec<TopicPartition> = to.iter().map(|(tp, _)| tp.clone()).collect();
        let offsets = self.resolve(call, to)?;
        let committed =
            if is_share { self.start_offsets(call, name)? } else { self.committed(call, name, Some(tps.clone()))? };
        let before = |tp: &TopicPartition| committed.iter().find(|(other, _)| other == tp).map(|(_, offset)| *offset);
        if !dry_run {
            let (group, offsets) = (name.clone(), offsets.clone());
            let operation = match is_share {
                true => Operation::AlterShareOffsets { group, offsets },
                false => Operation::CommitOffsets { group, offsets },
            };
            let found = match self.execute(call, operation)? {
                AdminReply::Partitions(results) => call.single_result(results, group_subject(name))?,
                other => return Err(call.wrong_reply_type(&other)),
            };
            self.per_partition(call, name, &tps, &found).into_iter().collect::<Result<Vec<()>, _>>()?;
        }
        let plan = |(tp, after): (TopicPartition, i64)| ResetPlan { before: before(&tp), tp, after };
        Ok(offsets.into_iter().map(plan).collect())
    }

    /// Returns the start offsets of a share group.
    fn start_offsets(
        &self,
        call: &CallContext<'_>,
        name: &Arc<str>,
    ) -> Result<Vec<(TopicPartition, i64)>, ClientError> {
        let all = self.share_offsets(call, name)?;
        Ok(all.into_iter().filter_map(|(tp, offset)| Some((tp, offset.start?))).collect())
    }

    /// Fails if the group has members. The broker would refuse as well, but with an unhelpful message about members.
    /// Returns whether the group is a share group.
    fn check_empty(&self, call: &CallContext<'_>, name: &Arc<str>) -> Result<bool, ClientError> {
        match self.describe_groups(call, vec![name.clone()])?.into_iter().next() {
            Some(Ok(found)) if !found.members.is_empty() => {
                let count = found.members.len();
                let (members, their) = (counted(count, "member"), plural(count, "its", "their"));
                let message =
                    format!("the group has {members}, which would overwrite the new offsets with {their} own");
                Err(call.refused_error(group_subject(name), ErrorCode::NON_EMPTY_GROUP, Some(message)))
            }
            // A group that does not exist yet is created by its first offset.
            Some(Err(ClientError::Refused { code: ErrorCode::GROUP_ID_NOT_FOUND, .. })) | None => Ok(false),
            Some(Err(error)) => Err(error),
            Some(Ok(found)) => Ok(found.protocol == GroupProtocol::Share),
        }
    }

    /// Resolves the targets to offsets. A given offset is checked against the log, because a consumer that starts
    /// outside of it resets by `auto.offset.reset`.
    fn resolve(
        &self,
        call: &CallContext<'_>,
        to: Vec<(TopicPartition, ResetTo)>,
    ) -> Result<Vec<(TopicPartition, i64)>, ClientError> {
        let mut starts = Vec::new();
        for (tp, to) in &to {
            match to {
                ResetTo::Offset(_) => {
                    starts.extend([(tp.clone(), OffsetSpec::Earliest), (tp.clone(), OffsetSpec::Latest)])
                }
                ResetTo::Spec(when) => starts.push((tp.clone(), *when)),
            }
        }
        let found = self.list_offsets(call, starts)?.into_iter().collect::<Result<Vec<i64>, _>>()?;
        let mut found = found.into_iter();
        let mut next = || found.next().ok_or_else(|| call.timed_out("there was no response"));
        let mut offsets = Vec::with_capacity(to.len());
        for (tp, to) in to {
            let offset = match to {
                ResetTo::Spec(_) => next()?,
                ResetTo::Offset(offset) => {
                    let (first, end) = (next()?, next()?);
                    if !(first..=end).contains(&offset) {
                        return Err(ClientError::NoOffset(format!(
                            "{}: offset {offset} is not in the log of {tp}, which reaches from {first} to {end}",
                            call.operation()
                        )));
                    }
                    offset
                }
            };
            offsets.push((tp, offset));
        }
        Ok(offsets)
    }
}
