//! Log events of a consumer: converts events of the sans-IO core to text.

mod cluster;
mod group;
mod partition;
mod share;

use std::sync::Arc;

use grete_proto::cluster::ClusterLogEvent;
use grete_proto::consumer::ConsumerLogEvent;
use grete_proto::group::GroupLogEvent;
use grete_proto::ids::TopicPartition;
use grete_proto::principal::Principal;
use grete_proto::time::Nanos;
use grete_wire::error_code::ErrorCode;
use grete_wire::{counted, plural};

use crate::error::ClientError;
use crate::log_event::{Level, LogEvent};

pub(crate) use cluster::{cluster_event, concealed_topic_event, login_failure};
pub(crate) use partition::{corrupt_batch, partition_failed, partition_recovered};

type Fields = Vec<(&'static str, String)>;

fn log_event(level: Level, name: &'static str, message: String, fields: Fields) -> LogEvent {
    LogEvent { level, name, message, fields }
}

/// Returns the log event for an event of the core; `None`: the event is not logged.
pub(crate) fn consumer_event(notice: &ConsumerLogEvent, principal: &Principal) -> Option<LogEvent> {
    match notice {
        ConsumerLogEvent::Cluster(ClusterLogEvent::TopicError { topic, error })
            if *error == ErrorCode::TOPIC_AUTHORIZATION_FAILED =>
        {
            Some(concealed_topic_event(topic, "Read", principal))
        }
        ConsumerLogEvent::Cluster(notice) => cluster_event(notice),
        ConsumerLogEvent::Fetch(notice) => Some(partition::fetch_event(notice)),
        ConsumerLogEvent::Group(notice) => Some(group::group_event(notice, principal)),
        // Logged with the handler's name where the lane is abandoned.
        ConsumerLogEvent::Share(notice) => Some(share::share_event(notice)),
        ConsumerLogEvent::JobAbandoned(_) => None,
        ConsumerLogEvent::TopicsMatched { patterns, topics, added, removed } => {
            Some(topics_matched(patterns, *topics, added, removed))
        }
        ConsumerLogEvent::TopicRecreated { tp, from, to } => Some(log_event(
            Level::Warning,
            "offset.reset",
            format!(
                "{tp}: offset {from} belongs to a deleted topic of this name; auto.offset.reset continues at {to} in \
                 the new topic"
            ),
            with_fields(partition_fields(tp), &[("from", *from), ("to", *to)]),
        )),
        ConsumerLogEvent::UnknownTopic { topic } => Some(log_event(
            Level::Warning,
            "topic.unknown",
            format!("topic {topic} does not exist (yet): waiting for its partitions"),
            vec![("topic", topic.to_string())],
        )),
        ConsumerLogEvent::UnknownPartitions { topic, partitions, count } => Some(log_event(
            Level::Error,
            "partition.unknown",
            fmt_unknown_partitions(topic, partitions, *count),
            vec![("topic", topic.to_string()), ("partitions", count.to_string())],
        )),
    }
}

fn topics_matched(patterns: &str, topics: usize, added: &[Arc<str>], removed: &[Arc<str>]) -> LogEvent {
    let named = |what: &str, names: &[Arc<str>]| match names {
        [] => String::new(),
        names => format!("; {what} {}", names.join(", ")),
    };
    let (level, message) = match topics {
        0 => (
            Level::Warning,
            format!(
                "no topic matches {patterns}{}: waiting for the first one; a pattern matches whole names, so ^orders.* is \
                 for all that begin with orders",
                named("without", removed)
            ),
        ),
        _ => {
            let (new, gone) = (named("new:", added), named("gone:", removed));
            (
                Level::Info,
                format!("{patterns}: {} {}{new}{gone}", counted(topics, "topic"), plural(topics, "matches", "match")),
            )
        }
    };
    log_event(
        level,
        "topics.matched",
        message,
        vec![
            ("patterns", patterns.to_owned()),
            ("topics", topics.to_string()),
            ("added", added.join(", ")),
            ("removed", removed.join(", ")),
        ],
    )
}

fn fmt_unknown_partitions(topic: &str, partitions: &[i32], count: i32) -> String {
    let listed = partitions.iter().map(i32::to_string).collect::<Vec<_>>().join(", ");
    let (has, are) = (counted(count, "partition"), plural(partitions.len(), "is", "are"));
    format!(
        "topic {topic} has {has}, numbered from 0, and {listed} {are} not among them: correct the list, or add \
         partitions to the topic"
    )
}

/// Returns the error for an event that ends an App. Waiting would not cure the cause, and the App would silently
/// process only a part of its partitions.
pub(crate) fn fatal_event(notice: &ConsumerLogEvent) -> Option<ClientError> {
    match notice {
        ConsumerLogEvent::UnknownPartitions { topic, partitions, count } => {
            Some(ClientError::Invalid(fmt_unknown_partitions(topic, partitions, *count)))
        }
        _ => None,
    }
}

/// Returns whether a connection broke unexpectedly.
pub(crate) fn is_disconnect(notice: &ConsumerLogEvent) -> bool {
    matches!(notice, ConsumerLogEvent::Cluster(ClusterLogEvent::Disconnected { reason, .. }) if !reason.is_expected())
}

/// Returns whether partitions were revoked although their handlers had not ended.
pub(crate) fn is_revocation_timeout(notice: &ConsumerLogEvent) -> bool {
    matches!(notice, ConsumerLogEvent::Group(GroupLogEvent::Revoked { expired: true, .. }))
}

/// Returns the ACL on the group that is missing, by an event: `Some(None)`: it is there again; `None`: the event is not
/// about it.
pub(crate) fn authorization_failure(notice: &ConsumerLogEvent, principal: &Principal) -> Option<Option<Arc<str>>> {
    match notice {
        ConsumerLogEvent::Group(GroupLogEvent::NotAuthorized { error, .. }) => {
            Some(Some(principal.in_text(&error.to_string()).into()))
        }
        ConsumerLogEvent::Group(GroupLogEvent::Authorized) => Some(None),
        _ => None,
    }
}

fn partition_fields(tp: &TopicPartition) -> Fields {
    vec![("topic", tp.topic.to_string()), ("partition", tp.partition.to_string())]
}

fn with_fields(mut fields: Fields, more: &[(&'static str, i64)]) -> Fields {
    fields.extend(more.iter().map(|(name, value)| (*name, value.to_string())));
    fields
}

fn fmt_partitions(tps: &[TopicPartition]) -> String {
    if tps.is_empty() {
        return "no partition".into();
    }
    tps.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn in_seconds(nanos: Nanos) -> f64 {
    std::time::Duration::from_nanos(nanos).as_secs_f64()
}
