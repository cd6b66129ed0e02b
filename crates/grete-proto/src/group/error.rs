//! Errors of a group that the caller must know about.

use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::access::needed;

/// Error that ends the membership for good.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// No assignor is common to all members.
    #[error(
        "group {group}: this member offers {assignors}, and no assignor is common to all members of the group: set \
         partition.assignment.strategy to what the others use (librdkafka: range,roundrobin; Java: range,cooperative-sticky); \
         if they have the consumer protocol, as `grete groups describe` shows, set group.protocol=consumer; if it is a share group, take another group.id, or queue=True"
    )]
    InconsistentProtocol {
        /// `group.id`.
        group: Arc<str>,
        /// Assignors of this member, separated by commas.
        assignors: String,
    },
    /// The group elected an assignor that this member did not offer.
    #[error("group {group} elected the assignor {elected:?}, which this member did not offer")]
    ForeignProtocol {
        /// `group.id`.
        group: Arc<str>,
        /// Elected assignor.
        elected: String,
    },
    /// The brokers do not offer the assignor of the consumer protocol.
    #[error(
        "group {group}: the brokers do not offer group.remote.assignor={assignor:?}: set one of \
         group.consumer.assignors, or leave it out ({reason})"
    )]
    UnsupportedAssignor {
        /// `group.id`.
        group: Arc<str>,
        /// `group.remote.assignor`.
        assignor: String,
        /// Message of the broker.
        reason: String,
    },
    /// The group exists, with another protocol.
    #[error(
        "group {group} is not a consumer group, and the brokers do not convert it \
         (group.consumer.migration.policy): set group.protocol=classic or auto, or stop its other members first. A share \
         group is read with queue=True or grete.client.ShareConsumer"
    )]
    NotAConsumerGroup {
        /// `group.id`.
        group: Arc<str>,
    },
    /// The broker does not allow the session timeout.
    #[error(
        "group {group}: the broker refuses session.timeout.ms={session_ms}: keep it between the broker's \
         group.min.session.timeout.ms and group.max.session.timeout.ms"
    )]
    InvalidSessionTimeout {
        /// `group.id`.
        group: Arc<str>,
        /// `session.timeout.ms`.
        session_ms: u64,
    },
    /// The principal lacks the ACL operation READ on the group.
    #[error("not allowed to use group {group}: {}", needed("Read", "group", group))]
    GroupAuthorization {
        /// `group.id`.
        group: Arc<str>,
    },
    /// The principal lacks the ACL operation READ on a topic.
    #[error("not allowed to read topic {topic}: {}", needed("Read", "topic", topic))]
    TopicAuthorization {
        /// Topic without permission.
        topic: Arc<str>,
    },
    /// Another process has joined with the same `group.instance.id`.
    #[error(
        "group {group}: another member has joined with group.instance.id={instance}, and this one was fenced \
         ({request} was refused with {}): only one process at a time may have the id; stop the other one, or give each \
         process its own id",
        code.name()
    )]
    InstanceFenced {
        /// `group.id`.
        group: Arc<str>,
        /// `group.instance.id`.
        instance: Arc<str>,
        /// Refused request.
        request: &'static str,
        /// Error code of the response.
        code: ErrorCode,
    },
    /// The broker refused a request with an error that no retry cures.
    #[error("group {group}: {request} was refused with {code}")]
    Refused {
        /// `group.id`.
        group: Arc<str>,
        /// Refused request.
        request: &'static str,
        /// Error code of the response.
        code: ErrorCode,
    },
    /// A group of another type has the name.
    #[error(
        "group {group} exists, and is no share group: give the queue a group.id of its own, or delete the group ({group}) \
         if nothing uses it"
    )]
    NotAShareGroup {
        /// `group.id`.
        group: Arc<str>,
    },
    /// The cluster has no share groups (KIP-932).
    #[error(
        "group {group}: the cluster has no share groups ({reason}): they need brokers of Kafka 4.2 or newer with \
         share.version=1 (kafka-features.sh upgrade --feature share.version=1)"
    )]
    NoShareGroups {
        /// `group.id`.
        group: Arc<str>,
        /// Error of the request.
        reason: String,
    },
    /// The broker supports no version of a request that this client supports.
    #[error("group {group}: {reason}")]
    Unsupported {
        /// `group.id`.
        group: Arc<str>,
        /// Error of the request.
        reason: String,
    },
}

/// Reason why an offset was not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The partition was revoked, perhaps assigned again since: its new owner reads the records again.
    #[error("the partition was revoked before the offset could be committed: its next owner reads the records again")]
    StaleAssignment,
    /// The coordinator no longer counts this member in.
    #[error("this member was removed from the group, and its partitions belong to other members: {0}")]
    Fenced(ErrorCode),
    /// The work that belongs to the offset does not count: the records are processed again.
    #[error("the work before the offset was discarded: its records are processed again")]
    Discarded,
    /// A standalone consumer tried to commit in a group with members, where only members may commit.
    #[error(
        "the group has members, and only members may commit: give a consumer with manually assigned partitions its own \
         group.id ({0})"
    )]
    HasMembers(ErrorCode),
    /// The broker refused the offset.
    #[error("the broker refused the offset with {0}")]
    Refused(ErrorCode),
    /// Retries reached `GroupConfig::commit_timeout`.
    #[error("the offset could not be committed in time: {0}")]
    TimedOut(String),
    /// The group was left, or failed for good.
    #[error("the group was left before the offset could be committed")]
    Closed,
}
