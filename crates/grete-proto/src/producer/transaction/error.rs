//! Errors of transactions: reasons for which a transaction is aborted, and results of calls.

use std::sync::Arc;

use grete_wire::access::needed;
use grete_wire::error_code::ErrorCode;

use crate::request::RequestError;
use crate::time::{MILLI, Nanos};

/// Reason for which a transaction is aborted. The producer can begin another one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionCause {
    /// The caller has aborted it.
    #[error("its producer aborted it")]
    Requested,
    /// The producer was closed.
    #[error("its producer was closed before the commit")]
    Closed,
    /// The job that staged its records has failed, or has lost its partition.
    #[error("its job has failed, or the partition was lost before the commit")]
    Dropped,
    /// A staged record cannot be appended.
    #[error("a record cannot be sent: {0}")]
    NotAppended(Box<str>),
    /// A record was not delivered.
    #[error("a record was not delivered: {message}")]
    Undelivered {
        /// Error of the record's delivery.
        message: Box<str>,
        /// Error code of the broker; `None`: no broker reported one.
        code: Option<ErrorCode>,
    },
    /// A coordinator refused a request with an error that only an abort cures.
    #[error("{request} was refused: {} {}{}", .code.name(), .code.message(), fmt_place(*.code, .place))]
    Refused {
        /// Kafka's name of the request.
        request: &'static str,
        /// Error code of the coordinator.
        code: ErrorCode,
        /// Topic or group that the error is about; empty: none.
        place: Box<str>,
    },
    /// The group has replaced the member whose offsets the transaction has (KIP-447).
    #[error(
        "group {group} refused the offsets of this member ({}): the group has rebalanced meanwhile, and other members \
         have the partitions", .code.name()
    )]
    MemberReplaced {
        /// `group.id`.
        group: Arc<str>,
        /// Error code of the coordinator.
        code: ErrorCode,
    },
    /// The coordinator has aborted it, because it was open for too long.
    #[error(
        "it was open for {} ms, longer than transaction.timeout.ms ({} ms), so the coordinator has aborted it ({}); keep \
         transactions shorter, or raise transaction.timeout.ms", .open / MILLI, .timeout / MILLI, .code.name()
    )]
    TimedOut {
        /// Time for which the transaction was open, in nanoseconds.
        open: Nanos,
        /// `transaction.timeout.ms`, in nanoseconds.
        timeout: Nanos,
        /// Error code of the broker that refused the transaction.
        code: ErrorCode,
    },
    /// The producer has failed for good.
    #[error("its producer has failed: {0}")]
    ProducerFailed(Box<TransactionError>),
    /// The caller of `send_offsets` did not wait for the result.
    #[error("send_offsets was not answered in time, so the offsets may be missing")]
    OffsetsUnknown,
}

impl TransactionCause {
    /// Returns the broker's error code; `None`: no broker reported one.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Undelivered { code, .. } => *code,
            Self::Refused { code, .. } | Self::MemberReplaced { code, .. } | Self::TimedOut { code, .. } => Some(*code),
            Self::ProducerFailed(error) => error.code(),
            Self::Requested | Self::Closed | Self::Dropped | Self::NotAppended(_) | Self::OffsetsUnknown => None,
        }
    }
}

/// Formats the topic or group of an error, with the ACL that it lacks.
fn fmt_place(code: ErrorCode, place: &str) -> String {
    let topic = place.split('[').next().unwrap_or_default();
    match code {
        _ if place.is_empty() => String::new(),
        ErrorCode::GROUP_AUTHORIZATION_FAILED => {
            let group = place.strip_prefix("group ").and_then(|rest| rest.split(", ").next()).unwrap_or(place);
            format!(" ({place}): {}", needed("Read", "group", group))
        }
        ErrorCode::TOPIC_AUTHORIZATION_FAILED => match topic.split_once(", ") {
            Some((_, topic)) => format!(" ({place}): {}", needed("Read", "topic", topic)),
            None => format!(" ({place}): {}", needed("Write", "topic", topic)),
        },
        _ => format!(" ({place})"),
    }
}

/// Error of a call, or the reason for which the producer cannot continue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// The transaction was aborted instead of committed.
    #[error("the transaction was aborted, nothing of it is committed: {0}; run the transaction again")]
    Aborted(Arc<TransactionCause>),
    /// The transaction can only be aborted.
    #[error(
        "the transaction has failed: {0}; leave its with block, or call abort_transaction(), and run the transaction again"
    )]
    Failed(Arc<TransactionCause>),
    /// No transaction is open.
    #[error("there is no open transaction: call it inside of `with producer.transaction():`")]
    NotOpen,
    /// A transaction is open already.
    #[error(
        "a transaction is open already: a producer has one at a time; commit or abort it first, or give each thread a \
         producer with a transactional.id of its own"
    )]
    AlreadyOpen,
    /// The transaction is being committed or aborted.
    #[error("the transaction is being committed or aborted: wait for the end of that call")]
    Ending,
    /// A commit has begun, so that the transaction can no longer be aborted.
    #[error("the commit of the transaction has begun and may succeed: call commit_transaction() again for the outcome")]
    CommitBegun,
    /// The caller waits no longer.
    #[error("the call was given up")]
    Cancelled,
    /// The producer is closed.
    #[error("the producer is closed")]
    Closed,
    /// A newer producer has the same `transactional.id`, or the coordinator has aborted a transaction that was open for
    /// too long. Fatal.
    #[error("{}", fmt_fenced(.transactional_id, *.code, *.open, *.timeout))]
    Fenced {
        /// `transactional.id`.
        transactional_id: Arc<str>,
        /// Error code of the coordinator or of a partition's leader.
        code: ErrorCode,
        /// Time for which the transaction was open, in nanoseconds; `None`: none was open.
        open: Option<Nanos>,
        /// `transaction.timeout.ms`, in nanoseconds.
        timeout: Nanos,
    },
    /// The user must not use the `transactional.id`. Fatal.
    #[error("transactional.id {transactional_id:?}: not allowed ({}): {}", .code.name(), needed("Write", "transactional-id", .transactional_id))]
    Unauthorized {
        /// `transactional.id`.
        transactional_id: Arc<str>,
        /// Error code of the coordinator.
        code: ErrorCode,
    },
    /// The coordinator refused a request for good. Fatal.
    #[error("transactional.id {transactional_id:?}: {request} was refused: {} {}{}; make a new producer", .code.name(), .code.message(), fmt_cure(*.code))]
    Refused {
        /// `transactional.id`.
        transactional_id: Arc<str>,
        /// Kafka's name of the request.
        request: &'static str,
        /// Error code of the coordinator.
        code: ErrorCode,
    },
    /// The brokers do not support a required API. Fatal.
    #[error("transactions: {0}")]
    Unsupported(RequestError),
    /// The outcome of a commit is not known and never will be. Fatal.
    #[error(
        "the outcome of the commit is unknown: its answer was lost, and then: {0}; look at the topics with \
         isolation.level=read_committed before the work is done again"
    )]
    CommitUnknown(Box<TransactionError>),
}

impl TransactionError {
    /// Returns whether the producer cannot continue.
    pub fn is_fatal(&self) -> bool {
        matches!(
            self,
            Self::Fenced { .. }
                | Self::Unauthorized { .. }
                | Self::Refused { .. }
                | Self::Unsupported(_)
                | Self::CommitUnknown(_)
        )
    }

    /// Returns the broker's error code; `None`: no broker reported one.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Aborted(cause) | Self::Failed(cause) => cause.code(),
            Self::Fenced { code, .. } | Self::Unauthorized { code, .. } | Self::Refused { code, .. } => Some(*code),
            Self::CommitUnknown(cause) => cause.code(),
            _ => None,
        }
    }
}

fn fmt_cure(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::INVALID_TRANSACTION_TIMEOUT => {
            " (lower transaction.timeout.ms, or raise transaction.max.timeout.ms on the brokers)"
        }
        _ => "",
    }
}

fn fmt_fenced(transactional_id: &str, code: ErrorCode, open: Option<Nanos>, timeout: Nanos) -> String {
    let name = code.name();
    match open.filter(|open| *open >= timeout) {
        Some(open) => format!(
            "transactional.id {transactional_id:?} was fenced ({name}): the transaction was open for {} ms, longer than \
             transaction.timeout.ms ({} ms), so the coordinator has aborted it; make a new producer, and keep \
             transactions shorter or raise transaction.timeout.ms",
            open / MILLI,
            timeout / MILLI
        ),
        None => format!(
            "transactional.id {transactional_id:?} was fenced ({name}): another producer has started with the same \
             transactional.id and has taken over; stop one of the two, or give each its own id. This producer cannot \
             be used any more"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_acl_that_is_missing() {
        let text = |code, place: &str| {
            TransactionCause::Refused { request: "TxnOffsetCommit", code, place: place.into() }.to_string()
        };
        let group = ErrorCode::GROUP_AUTHORIZATION_FAILED;
        for place in ["g", "group g, orders[0]"] {
            assert!(text(group, place).ends_with("--operation Read --group g"), "{}", text(group, place));
        }
        let topic = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
        assert!(text(topic, "orders[0]").ends_with("--operation Write --topic orders"), "{}", text(topic, "orders[0]"));
        let read = text(topic, "group g, orders[0]");
        assert!(read.ends_with("--operation Read --topic orders"), "{read}");
    }
}
