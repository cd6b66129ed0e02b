//! What the machines have to say, in words for logs and errors.

use grete_core::cluster::ClusterNotice;
use grete_core::consumer::{ConsumerFatal, ConsumerNotice, ConsumerReply};
use grete_core::dispatch::Corrupt;
use grete_core::fetch_notice::FetchNotice;
use grete_core::group::{CommitError, CommitOutcome, GroupError, GroupNotice};
use grete_core::ids::TopicPartition;
use grete_core::slot_error::SlotError;
use grete_wire::error_code::ErrorCode;

use crate::error::ClientError;
use crate::notice::{Level, Notice};

type Fields = Vec<(&'static str, String)>;

fn make(level: Level, name: &'static str, message: String, fields: Fields) -> Notice {
    Notice { level, name, message, fields }
}

/// The notice for the log; some are of no interest to anybody.
pub(crate) fn notice(notice: &ConsumerNotice) -> Option<Notice> {
    match notice {
        ConsumerNotice::Cluster(notice) => cluster(notice),
        ConsumerNotice::Fetch(notice) => Some(fetch(notice)),
        ConsumerNotice::Group(notice) => Some(group(notice)),
        // Told with the handler's name where the lane is abandoned.
        ConsumerNotice::Abandoned(_) => None,
        ConsumerNotice::NoSuchTopic { topic } => Some(make(
            Level::Warning,
            "topic.unknown",
            format!("topic {topic} does not exist, or not yet: its partitions are waited for"),
            vec![("topic", topic.to_string())],
        )),
        ConsumerNotice::NoSuchPartitions { topic, partitions, count } => Some(make(
            Level::Error,
            "partition.unknown",
            no_such_partitions(topic, partitions, *count),
            vec![("topic", topic.to_string()), ("partitions", count.to_string())],
        )),
    }
}

fn no_such_partitions(topic: &str, partitions: &[i32], count: i32) -> String {
    let listed = partitions.iter().map(i32::to_string).collect::<Vec<_>>().join(", ");
    let (has, are) =
        (if count == 1 { "partition" } else { "partitions" }, if partitions.len() == 1 { "is" } else { "are" });
    format!(
        "topic {topic} has {count} {has}, numbered from 0, and {listed} {are} not among them: correct the list, or add \
         partitions to the topic"
    )
}

/// What no waiting cures in an App: it would go on with a part of what it is to do, and nobody would notice.
pub(crate) fn fatal_notice(notice: &ConsumerNotice) -> Option<ClientError> {
    match notice {
        ConsumerNotice::NoSuchPartitions { topic, partitions, count } => {
            Some(ClientError::Invalid(no_such_partitions(topic, partitions, *count)))
        }
        _ => None,
    }
}

/// Whether a connection broke that was not meant to.
pub(crate) fn is_disconnect(notice: &ConsumerNotice) -> bool {
    matches!(notice, ConsumerNotice::Cluster(ClusterNotice::Disconnected { reason, .. }) if !reason.is_peaceful())
}

/// Whether partitions were given up although their handlers had not ended.
pub(crate) fn is_expired_revocation(notice: &ConsumerNotice) -> bool {
    matches!(notice, ConsumerNotice::Group(GroupNotice::Revoked { expired: true, .. }))
}

fn of(tp: &TopicPartition) -> Fields {
    vec![("topic", tp.topic.to_string()), ("partition", tp.partition.to_string())]
}

pub(crate) fn cluster(notice: &ClusterNotice) -> Option<Notice> {
    Some(match notice {
        ClusterNotice::Connected { node, channel, address } => make(
            Level::Debug,
            "broker.connected",
            format!("connected to broker {node} at {address} ({channel})"),
            vec![("broker", node.to_string()), ("address", address.clone()), ("channel", channel.to_string())],
        ),
        ClusterNotice::Disconnected { node, channel, address, reason } => make(
            if reason.is_peaceful() { Level::Debug } else { Level::Warning },
            "broker.disconnected",
            format!("lost the {channel} connection to broker {node} at {address}: {reason}"),
            vec![("broker", node.to_string()), ("address", address.clone()), ("reason", reason.to_string())],
        ),
        ClusterNotice::ConnectFailed { node, address, reason, failures, .. } => make(
            // The first failures of each outage are told, then only now and then: an outage is not a flood.
            if failures.is_power_of_two() { Level::Warning } else { Level::Debug },
            "broker.connect_failed",
            format!("broker {node} at {address} cannot be reached ({failures} in a row): {reason}"),
            vec![("broker", node.to_string()), ("address", address.clone()), ("failures", failures.to_string())],
        ),
        ClusterNotice::AllBrokersDown { addresses } => make(
            Level::Error,
            "cluster.down",
            format!("none of the {addresses} known broker addresses can be reached; they are tried on"),
            vec![("addresses", addresses.to_string())],
        ),
        ClusterNotice::NotKafka(error) | ClusterNotice::Fatal(error) => {
            make(Level::Error, "broker.not_kafka", error.to_string(), vec![("address", error.address.clone())])
        }
        ClusterNotice::Throttled { node, ms } => make(
            Level::Info,
            "broker.throttled",
            format!("broker {node} asks to hold back for {ms} ms (a quota)"),
            vec![("broker", node.to_string()), ("ms", ms.to_string())],
        ),
        ClusterNotice::TopicError { topic, error } if *error == ErrorCode::NONE => {
            make(Level::Info, "topic.recovered", format!("topic {topic} is there"), vec![("topic", topic.to_string())])
        }
        ClusterNotice::TopicError { topic, error } => make(
            Level::Warning,
            "topic.error",
            format!("topic {topic}: {} ({})", error.message(), error.name()),
            vec![("topic", topic.to_string()), ("error", error.name().to_string())],
        ),
        ClusterNotice::TopicRecreated { topic, .. } => make(
            Level::Error,
            "topic.recreated",
            format!("topic {topic} was deleted and created again: its old offsets mean nothing any more"),
            vec![("topic", topic.to_string())],
        ),
        ClusterNotice::MetadataFailed { node, error } => make(
            Level::Debug,
            "metadata.failed",
            format!("broker {node} gave no metadata: {error}"),
            vec![("broker", node.to_string())],
        ),
        ClusterNotice::Rebootstrap { cause } => make(
            Level::Warning,
            "cluster.rebootstrap",
            format!("asking the addresses of bootstrap.servers again ({cause:?})"),
            Vec::new(),
        ),
        _ => return None,
    })
}

fn fetch(notice: &FetchNotice) -> Notice {
    match notice {
        FetchNotice::OffsetReset { tp, from, to, log_start, log_end } => make(
            Level::Warning,
            "offset.reset",
            format!(
                "{tp}: offset {from} is not in the log, which reaches from {log_start} to {log_end}; auto.offset.reset goes \
                 on at {to}"
            ),
            with(of(tp), &[("from", *from), ("to", *to)]),
        ),
        FetchNotice::Truncated { tp, from, to } => make(
            Level::Error,
            "log.truncated",
            format!("{tp}: the log was cut back below offset {from} by an unclean election; going on at {to}"),
            with(of(tp), &[("from", *from), ("to", *to)]),
        ),
        FetchNotice::Waiting { tp, waited, code } => make(
            Level::Warning,
            "position.waiting",
            format!(
                "{tp}: still looking for the offset to start from after {} s ({})",
                waited / 1_000_000_000,
                code.name()
            ),
            of(tp),
        ),
        FetchNotice::Retrying { tp, node, code, failures } => make(
            if *failures <= 1 { Level::Debug } else { Level::Info },
            "fetch.retrying",
            format!("{tp}: broker {node} answered {} ({failures} in a row)", code.name()),
            of(tp),
        ),
        FetchNotice::CorruptBatch { tp, offset, cause } => make(
            Level::Error,
            "fetch.corrupt_batch",
            format!("{tp}: the batch at offset {offset} is corrupt ({cause}); it is fetched once more"),
            with(of(tp), &[("offset", *offset)]),
        ),
        FetchNotice::SessionError { node, code } => make(
            Level::Debug,
            "fetch.session_error",
            format!("broker {node} refused a fetch session ({}); a new one is made", code.name()),
            vec![("broker", node.to_string())],
        ),
        FetchNotice::BadResponse { node, error } => make(
            Level::Error,
            "fetch.bad_response",
            format!("a Fetch answer of broker {node} cannot be read: {error}"),
            vec![("broker", node.to_string())],
        ),
        other => make(Level::Info, "fetch.notice", format!("{other:?}"), Vec::new()),
    }
}

fn with(mut fields: Fields, more: &[(&'static str, i64)]) -> Fields {
    fields.extend(more.iter().map(|(name, value)| (*name, value.to_string())));
    fields
}

fn list(tps: &[TopicPartition]) -> String {
    if tps.is_empty() {
        return "nothing".into();
    }
    tps.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn group(notice: &GroupNotice) -> Notice {
    match notice {
        GroupNotice::CoordinatorFound { node } => make(
            Level::Debug,
            "group.coordinator_found",
            format!("the group's coordinator is broker {node}"),
            vec![("broker", node.to_string())],
        ),
        GroupNotice::CoordinatorLost { node, reason } => make(
            Level::Info,
            "group.coordinator_lost",
            format!("the group's coordinator, broker {node}, has to be looked for again: {reason}"),
            vec![("broker", node.to_string())],
        ),
        GroupNotice::RebalanceStarted { reason } => {
            make(Level::Info, "group.rebalancing", format!("the group rebalances: {reason}"), Vec::new())
        }
        GroupNotice::Joined { generation, leader, member_id, protocol } => make(
            Level::Info,
            "group.joined",
            format!(
                "joined the group in generation {generation} as {}{member_id} ({protocol})",
                if *leader { "its leader " } else { "" }
            ),
            vec![
                ("generation", generation.to_string()),
                ("member_id", member_id.clone()),
                ("leader", leader.to_string()),
            ],
        ),
        GroupNotice::Assigned { generation, tps } => make(
            Level::Info,
            "group.assigned",
            format!("generation {generation} gives us {}", list(tps)),
            vec![("generation", generation.to_string()), ("partitions", list(tps))],
        ),
        GroupNotice::PlaceKept { instance, session_ms } => make(
            Level::Info,
            "group.place_kept",
            format!(
                "out of the group without a word: it keeps the partitions of {instance} for {session_ms} ms \
                 (session.timeout.ms), for whoever comes back under that group.instance.id"
            ),
            vec![("instance", instance.to_string()), ("session_ms", session_ms.to_string())],
        ),
        GroupNotice::Revoked { tps, expired } => make(
            if *expired { Level::Error } else { Level::Info },
            "group.revoked",
            if *expired {
                format!("gave up {} although handlers had not ended (max.poll.interval.ms)", list(tps))
            } else {
                format!("gave up {}", list(tps))
            },
            vec![("partitions", list(tps))],
        ),
        GroupNotice::Lost { tps, reason } => make(
            Level::Error,
            "group.lost",
            format!("lost {}: {reason}", list(tps)),
            vec![("partitions", list(tps)), ("reason", reason.to_string())],
        ),
        GroupNotice::CommitFailed { tp, offset, error } => make(
            Level::Warning,
            "offset.commit_failed",
            format!("{tp}: offset {offset} was not committed: {error}"),
            with(of(tp), &[("offset", *offset)]),
        ),
        GroupNotice::JoinRetried { reason } => {
            make(Level::Info, "group.join_retried", format!("joining the group again: {reason}"), Vec::new())
        }
        GroupNotice::LoadRetried { reason } => make(
            Level::Info,
            "offset.load_retried",
            format!("asking for committed offsets again: {reason}"),
            Vec::new(),
        ),
        GroupNotice::MetadataRefused { bytes } => make(
            Level::Warning,
            "offset.metadata_refused",
            format!(
                "the broker stores no {bytes} bytes of text with an offset: commits go on without the map of what is \
                 processed beyond them, and after a restart those records come again; raise the brokers' \
                 offset.metadata.max.bytes to 4096"
            ),
            vec![("bytes", bytes.to_string())],
        ),
        GroupNotice::TopicUnknown { topic } => make(
            Level::Warning,
            "topic.unknown",
            format!("topic {topic} does not exist, or not yet: nobody is assigned its partitions"),
            vec![("topic", topic.to_string())],
        ),
    }
}

pub(crate) fn corrupt(corrupt: &Corrupt) -> Notice {
    make(
        Level::Error,
        "fetch.corrupt_batch",
        format!("{}: {}; the batch is fetched once more", corrupt.tp, corrupt.error),
        with(of(&corrupt.tp), &[("offset", corrupt.offset)]),
    )
}

pub(crate) fn slot_failed(error: &SlotError) -> Notice {
    make(Level::Error, "partition.failed", error.to_string(), Vec::new())
}

/// A stopped partition that the caller of a low-level `poll` has to hear of. In an App the others go on.
pub(crate) fn fatal_slot(error: &SlotError, is_app: bool) -> Option<ClientError> {
    if is_app {
        return None;
    }
    Some(match error {
        SlotError::Corrupt { tp, offset, cause } => ClientError::CorruptBatch {
            topic: tp.topic.to_string(),
            partition: tp.partition,
            offset: *offset,
            message: cause.to_string(),
        },
        SlotError::NotAuthorized { .. } => ClientError::Authorization(error.to_string()),
        _ => ClientError::NoOffset(error.to_string()),
    })
}

pub(crate) fn fatal(error: &ConsumerFatal) -> ClientError {
    match error {
        ConsumerFatal::NotKafka(error) => ClientError::NotKafka(error.to_string()),
        ConsumerFatal::Group(error) => group_error(error),
    }
}

pub(crate) fn group_error(error: &GroupError) -> ClientError {
    match error {
        GroupError::GroupAuthorization { .. } | GroupError::TopicAuthorization { .. } => {
            ClientError::Authorization(error.to_string())
        }
        GroupError::InstanceFenced { group, instance, .. } => ClientError::FencedInstance {
            group: group.to_string(),
            instance: instance.to_string(),
            message: error.to_string(),
        },
        error => ClientError::Group(error.to_string()),
    }
}

/// All stored, or the first that was not.
pub(crate) fn commit(outcomes: Vec<CommitOutcome>) -> Result<(), ClientError> {
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

/// The same for a job, which has a word of its own for a partition that has gone.
pub(crate) fn commit_of_job(outcomes: Vec<CommitOutcome>) -> Result<(), ClientError> {
    let gone =
        |outcome: &CommitOutcome| matches!(outcome.result, Err(CommitError::StaleAssignment | CommitError::Fenced(_)));
    if outcomes.iter().any(gone) { Err(ClientError::Revoked) } else { commit(outcomes) }
}

pub(crate) fn kafka(operation: &str, code: ErrorCode) -> ClientError {
    ClientError::Kafka {
        operation: operation.to_owned(),
        code: code.0,
        name: code.name(),
        message: code.message().to_owned(),
    }
}

/// The core answers each kind of question with its own kind of answer.
pub(crate) fn misplaced(reply: &ConsumerReply) -> ClientError {
    ClientError::Invalid(format!("the answer does not fit the question: {reply:?}"))
}
