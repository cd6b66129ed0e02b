//! What can go wrong with a group so that the caller has to know.

use std::sync::Arc;

use grete_wire::ErrorCode;

/// Ends the membership for good.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// No assignor that all members have.
    #[error(
        "group {group}: this member offers {assignors}, and no assignor is common to all members of the group: set \
         partition.assignment.strategy to what the others use (librdkafka: range,roundrobin; Java: range,cooperative-sticky)"
    )]
    InconsistentProtocol {
        /// `group.id`.
        group: Arc<str>,
        /// What we offer.
        assignors: String,
    },
    /// The group elected something that we did not offer.
    #[error("group {group} elected the assignor {elected:?}, which this member did not offer")]
    ForeignProtocol {
        /// `group.id`.
        group: Arc<str>,
        /// What was elected.
        elected: String,
    },
    /// The broker does not allow the session timeout.
    #[error(
        "group {group}: the broker refuses session.timeout.ms={session_ms}: keep it between the broker's \
         group.min.session.timeout.ms and group.max.session.timeout.ms"
    )]
    InvalidSessionTimeout {
        /// `group.id`.
        group: Arc<str>,
        /// Milliseconds.
        session_ms: u64,
    },
    /// No right to the group.
    #[error("no permission to read as group {group}: grant the principal READ on the group")]
    GroupAuthorization {
        /// `group.id`.
        group: Arc<str>,
    },
    /// No right to a topic.
    #[error("no permission to read topic {topic}: grant the principal READ on the topic")]
    TopicAuthorization {
        /// The topic.
        topic: Arc<str>,
    },
    /// Another process has our `group.instance.id`.
    #[error(
        "group {group}: another member has joined with group.instance.id={instance}, and this one is out \
         ({request} was refused with {}): only one process at a time may have the id; stop the other one, or give each \
         process an id of its own",
        code.name()
    )]
    InstanceFenced {
        /// `group.id`.
        group: Arc<str>,
        /// `group.instance.id`.
        instance: Arc<str>,
        /// The request.
        request: &'static str,
        /// What the broker said.
        code: ErrorCode,
    },
    /// Any other refusal that no retry cures.
    #[error("group {group}: {request} was refused with {code}")]
    Refused {
        /// `group.id`.
        group: Arc<str>,
        /// The request.
        request: &'static str,
        /// What the broker said.
        code: ErrorCode,
    },
    /// The broker is too old or too new.
    #[error("group {group}: {reason}")]
    Unsupported {
        /// `group.id`.
        group: Arc<str>,
        /// The request's error.
        reason: String,
    },
}

/// Why an offset was not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The partition is no longer ours, or was given away and has come back since: its new owner decides.
    #[error("the partition was revoked before the offset could be committed: its next owner reads the records again")]
    StaleAssignment,
    /// The coordinator does not count us in any more.
    #[error("this member was put out of the group, and its partitions belong to others: {0}")]
    Fenced(ErrorCode),
    /// Nobody but members commits in a group that has some.
    #[error(
        "the group has members, and only they commit in it: give a reader that chooses its partitions itself a group of \
         its own ({0})"
    )]
    HasMembers(ErrorCode),
    /// The broker refuses this offset.
    #[error("the broker refused the offset with {0}")]
    Refused(ErrorCode),
    /// Tried for as long as the setting allows.
    #[error("the offset could not be committed in time: {0}")]
    TimedOut(String),
    /// The group was left, or cannot go on.
    #[error("the group was left before the offset could be committed")]
    Closed,
}
