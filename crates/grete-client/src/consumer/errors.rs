//! Errors that the callers of a consumer get for what the core reports.

use grete_proto::consumer::{ConsumerFatal, ConsumerReply};
use grete_proto::group::{CommitError, CommitOutcome, GroupError};
use grete_proto::partition::error::PartitionError;
use grete_proto::principal::Principal;

use crate::error::ClientError;

/// Returns the error that a stopped partition raises in the caller of a low-level `poll`. In an App the other
/// partitions continue, so only `on_failed_partition="stop"` (`stops`) makes it an error.
pub(super) fn fatal_partition_error(
    error: &PartitionError,
    principal: &Principal,
    is_app: bool,
    stops: bool,
) -> Option<ClientError> {
    if is_app {
        let tp = error.partition();
        return stops.then(|| ClientError::PartitionFailed {
            topic: tp.topic.to_string(),
            partition: tp.partition,
            reason: error.reason(),
            message: principal.in_text(&error.to_string()),
        });
    }
    Some(match error {
        PartitionError::Corrupt { tp, offset, cause } => ClientError::CorruptBatch {
            topic: tp.topic.to_string(),
            partition: tp.partition,
            offset: *offset,
            message: cause.to_string(),
        },
        PartitionError::NotAuthorized { .. } => ClientError::Authorization(principal.in_text(&error.to_string())),
        _ => ClientError::NoOffset(error.to_string()),
    })
}

pub(super) fn fatal_error(error: &ConsumerFatal, principal: &Principal) -> ClientError {
    match error {
        ConsumerFatal::Unusable(fault) => ClientError::unusable(fault),
        ConsumerFatal::Group(error) => group_error(error, principal),
    }
}

fn group_error(error: &GroupError, principal: &Principal) -> ClientError {
    match error {
        GroupError::GroupAuthorization { .. } | GroupError::TopicAuthorization { .. } => {
            ClientError::Authorization(principal.in_text(&error.to_string()))
        }
        GroupError::InstanceFenced { group, instance, .. } => ClientError::FencedInstance {
            group: group.to_string(),
            instance: instance.to_string(),
            message: error.to_string(),
        },
        error => ClientError::Group(error.to_string()),
    }
}

/// Returns `Ok` if all offsets are stored, otherwise the error of the first that is not.
pub(super) fn commit_result(outcomes: Vec<CommitOutcome>) -> Result<(), ClientError> {
    for outcome in outcomes {
        let Err(error) = outcome.result else { continue };
        let operation = format!("commit of {} at offset {}", outcome.tp, outcome.offset);
        return Err(match error {
            CommitError::Fenced(code) | CommitError::HasMembers(code) | CommitError::Refused(code) => {
                ClientError::Kafka { operation, code: code.0, name: code.name(), message: error.to_string() }
            }
            error => ClientError::Group(format!("{operation}: {error}")),
        });
    }
    Ok(())
}

/// Like [`commit_result`] for a job: a partition that was revoked is [`ClientError::Revoked`].
pub(super) fn job_commit_result(outcomes: Vec<CommitOutcome>) -> Result<(), ClientError> {
    let gone =
        |outcome: &CommitOutcome| matches!(outcome.result, Err(CommitError::StaleAssignment | CommitError::Fenced(_)));
    if outcomes.iter().any(gone) { Err(ClientError::Revoked) } else { commit_result(outcomes) }
}

/// Returns the error for a reply of the wrong type. The core answers each kind of request with its own kind of reply.
pub(super) fn wrong_reply_type(reply: &ConsumerReply) -> ClientError {
    ClientError::Invalid(format!("the reply does not match the request: {reply:?}"))
}
