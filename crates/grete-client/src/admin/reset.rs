//! Sends a group elsewhere.

use std::sync::Arc;

use grete_core::admin::{AdminReply, Operation, When};
use grete_core::ids::TopicPartition;
use grete_wire::error_code::ErrorCode;

use super::groups::group;
use super::{Admin, Call};
use crate::error::ClientError;

/// Where to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetTo {
    /// To that offset, which has to be in the log, or its end.
    Offset(i64),
    /// To the first record still there, to the end, or to a time.
    Place(When),
}

/// What a reset does with one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResetPlan {
    /// Which.
    pub tp: TopicPartition,
    /// What the group had committed.
    pub before: Option<i64>,
    /// What it has then.
    pub after: i64,
}

impl Admin {
    /// Commits other offsets for a group that has no members. `dry_run`: only says which.
    ///
    /// # Errors
    /// When the group has members, an offset is not in the log, or somebody does not answer in time; nothing is committed
    /// then, unless it says that a broker refused a single partition.
    pub fn reset_offsets(
        &self,
        call: &Call<'_>,
        name: &Arc<str>,
        to: Vec<(TopicPartition, ResetTo)>,
        dry_run: bool,
    ) -> Result<Vec<ResetPlan>, ClientError> {
        if to.is_empty() {
            return Ok(Vec::new());
        }
        self.check_empty(call, name)?;
        let tps: Vec<TopicPartition> = to.iter().map(|(tp, _)| tp.clone()).collect();
        let offsets = self.resolve(call, to)?;
        let committed = self.committed(call, name, Some(tps.clone()))?;
        let before = |tp: &TopicPartition| committed.iter().find(|(other, _)| other == tp).map(|(_, offset)| *offset);
        if !dry_run {
            let group_name = name.clone();
            let operation = Operation::CommitOffsets { group: group_name, offsets: offsets.clone() };
            let found = match self.ask(call, operation)? {
                AdminReply::Partitions(results) => call.only(results, group(name))?,
                other => return Err(call.misplaced(&other)),
            };
            self.per_partition(call, name, &tps, &found).into_iter().collect::<Result<Vec<()>, _>>()?;
        }
        let plan = |(tp, after): (TopicPartition, i64)| ResetPlan { before: before(&tp), tp, after };
        Ok(offsets.into_iter().map(plan).collect())
    }

    /// The broker refuses strangers while there are members, but with words about members that help nobody.
    fn check_empty(&self, call: &Call<'_>, name: &Arc<str>) -> Result<(), ClientError> {
        match self.describe_groups(call, vec![name.clone()])?.into_iter().next() {
            Some(Ok(found)) if !found.members.is_empty() => {
                let count = found.members.len();
                let members = if count == 1 { "a member".to_owned() } else { format!("{count} members") };
                let message = format!("the group has {members}, which would not notice, and commit over it");
                Err(call.refused(group(name), ErrorCode::NON_EMPTY_GROUP, Some(message)))
            }
            // A group that does not exist yet is made by its first offset.
            Some(Err(ClientError::Refused { code: ErrorCode::GROUP_ID_NOT_FOUND, .. })) => Ok(()),
            Some(Err(error)) => Err(error),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// The offsets themselves; those that were given are held against the log, because a consumer that starts outside of it
    /// goes where `auto.offset.reset` says.
    fn resolve(
        &self,
        call: &Call<'_>,
        to: Vec<(TopicPartition, ResetTo)>,
    ) -> Result<Vec<(TopicPartition, i64)>, ClientError> {
        let mut starts = Vec::new();
        for (tp, to) in &to {
            match to {
                ResetTo::Offset(_) => starts.extend([(tp.clone(), When::Earliest), (tp.clone(), When::Latest)]),
                ResetTo::Place(when) => starts.push((tp.clone(), *when)),
            }
        }
        let found = self.list_offsets(call, starts)?.into_iter().collect::<Result<Vec<i64>, _>>()?;
        let mut found = found.into_iter();
        let mut next = || found.next().ok_or_else(|| call.unfinished("there was no answer"));
        let mut offsets = Vec::with_capacity(to.len());
        for (tp, to) in to {
            let offset = match to {
                ResetTo::Place(_) => next()?,
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
