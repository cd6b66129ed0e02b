//! Log events and errors of the consumer: converts events of the sans-IO core to text.

use std::sync::Arc;

use grete_proto::cluster::ClusterLogEvent;
use grete_proto::connection::CloseReason;
use grete_proto::consumer::{ConsumerFatal, ConsumerLogEvent, ConsumerReply};
use grete_proto::dispatch::CorruptBatch;
use grete_proto::group::{CommitError, CommitOutcome, GroupError, GroupLogEvent};
use grete_proto::ids::{NodeId, TopicPartition};
use grete_proto::partition::error::{PartitionError, RecoveryPolicy};
use grete_proto::partition::log_event::FetchLogEvent;
use grete_proto::principal::Principal;
use grete_proto::request::AddressFault;
use grete_proto::sasl::Mechanism;
use grete_proto::time::Nanos;
use grete_wire::access::NeededAcl;
use grete_wire::error_code::ErrorCode;
use grete_wire::{counted, plural};

use crate::error::ClientError;
use crate::log_event::{Level, LogEvent};

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
        ConsumerLogEvent::Fetch(notice) => Some(fetch_event(notice)),
        ConsumerLogEvent::Group(notice) => Some(group_event(notice, principal)),
        // Logged with the handler's name where the lane is abandoned.
        ConsumerLogEvent::JobAbandoned(_) => None,
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

fn partition_fields(tp: &TopicPartition) -> Fields {
    vec![("topic", tp.topic.to_string()), ("partition", tp.partition.to_string())]
}

/// Formats a broker by id and address. An address of `bootstrap.servers` has no known broker, so it is formatted alone.
fn fmt_broker_address(node: NodeId, address: &str) -> String {
    if node < 0 { format!("bootstrap address {address}") } else { format!("broker {node} at {address}") }
}

/// Formats a broker whose address is not known.
fn fmt_broker(node: NodeId) -> String {
    if node < 0 { "a bootstrap address".to_owned() } else { format!("broker {node}") }
}

/// Returns the field `broker`: the id of the broker, or "bootstrap".
fn broker_id(node: NodeId) -> String {
    if node < 0 { "bootstrap".to_owned() } else { node.to_string() }
}

/// Returns the log event of a topic that brokers conceal. `operation`: the one that the client needs, which implies
/// Describe.
pub(crate) fn concealed_topic_event(topic: &str, operation: &'static str, principal: &Principal) -> LogEvent {
    let error = ErrorCode::TOPIC_AUTHORIZATION_FAILED.name();
    log_event(
        Level::Warning,
        "topic.error",
        format!("{} ({error})", fmt_concealed_topic(topic, operation, principal)),
        vec![("topic", topic.to_owned()), ("error", error.to_string())],
    )
}

fn fmt_concealed_topic(topic: &str, operation: &'static str, principal: &Principal) -> String {
    let user = principal.user();
    let needed = NeededAcl { operation, kind: "topic", name: topic, user: user.as_deref() };
    format!("topic {topic} may exist, but the client has no Describe on it, so brokers do not say: {needed}")
}

/// Returns the failure of logins that an event is about: `Some(None)` after a login that succeeded again; `None`: the
/// event is not about logins.
pub(crate) fn login_failure(notice: &ClusterLogEvent) -> Option<Option<Arc<str>>> {
    match notice {
        ClusterLogEvent::LoginFailed { failure, .. } => Some(Some(failure.to_string().into())),
        ClusterLogEvent::LoginRecovered { .. } => Some(None),
        _ => None,
    }
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

pub(crate) fn cluster_event(notice: &ClusterLogEvent) -> Option<LogEvent> {
    Some(match notice {
        ClusterLogEvent::Connected { node, channel, address } => log_event(
            Level::Debug,
            "broker.connected",
            format!("connected to {} ({channel})", fmt_broker_address(*node, address)),
            vec![("broker", broker_id(*node)), ("address", address.clone()), ("channel", channel.to_string())],
        ),
        ClusterLogEvent::Disconnected { node, channel, address, reason } => log_event(
            if reason.is_expected() { Level::Debug } else { Level::Warning },
            "broker.disconnected",
            format!("lost the {channel} connection to {}: {reason}", fmt_broker_address(*node, address)),
            vec![("broker", broker_id(*node)), ("address", address.clone()), ("reason", reason.to_string())],
        ),
        ClusterLogEvent::ConnectFailed { node, address, reason, failures, .. } => log_event(
            // WARNING for failures 1, 2, 4, 8, … of an outage, so that a long outage does not flood the log.
            if failures.is_power_of_two() { Level::Warning } else { Level::Debug },
            "broker.connect_failed",
            format!(
                "{} cannot be {} (attempt {failures}): {reason}; the connection is tried again",
                fmt_broker_address(*node, address),
                if *reason == CloseReason::FirstRequestEof { "used" } else { "reached" }
            ),
            vec![("broker", broker_id(*node)), ("address", address.clone()), ("failures", failures.to_string())],
        ),
        ClusterLogEvent::AllBrokersDown { addresses } => log_event(
            Level::Error,
            "cluster.down",
            match addresses {
                1 => "the only known broker address cannot be reached, so calls wait until they time out".to_owned(),
                _ => format!(
                    "none of the {addresses} known broker addresses can be reached, so calls wait until they time out"
                ),
            },
            vec![("addresses", addresses.to_string())],
        ),
        ClusterLogEvent::LoginFailed { failure, again } => log_event(
            // One line for an outage, however many connections and attempts it has.
            if *again { Level::Debug } else { Level::Error },
            "broker.login_failed",
            format!("{failure}; until a login succeeds, nothing is read or written there"),
            vec![
                ("address", failure.address.clone()),
                ("kind", failure.error.kind().to_owned()),
                ("reason", failure.error.to_string()),
            ],
        ),
        ClusterLogEvent::ExposedLogin { mechanism } => log_event(
            Level::Warning,
            "broker.login_exposed",
            format!(
                "sasl.allow.plaintext is set: {mechanism} sends the {} without encryption, and everyone on the way to the \
                 brokers can log in with it; use security.protocol=SASL_SSL",
                if *mechanism == Mechanism::Plain { "password" } else { "token" }
            ),
            vec![("mechanism", mechanism.to_string())],
        ),
        ClusterLogEvent::LoginRecovered { address } => log_event(
            Level::Info,
            "broker.login_recovered",
            format!("logged in to {address} after logins had failed"),
            vec![("address", address.clone())],
        ),
        ClusterLogEvent::Fatal(AddressFault::Login(_)) => return None, // logged as LoginFailed
        ClusterLogEvent::NotKafka(error) | ClusterLogEvent::Fatal(AddressFault::NotKafka(error)) => {
            log_event(Level::Error, "broker.not_kafka", error.to_string(), vec![("address", error.address.clone())])
        }
        ClusterLogEvent::Fatal(AddressFault::Tls { address, failure }) => log_event(
            Level::Error,
            "broker.tls_failed",
            format!("no encrypted connection to {address}: {failure}; the client ends"),
            vec![("address", address.clone()), ("reason", failure.kind.name().to_owned())],
        ),
        ClusterLogEvent::Throttled { node, ms } => log_event(
            Level::Info,
            "broker.throttled",
            format!("{} throttles this client for {ms} ms (a quota)", fmt_broker(*node)),
            vec![("broker", broker_id(*node)), ("ms", ms.to_string())],
        ),
        ClusterLogEvent::TopicError { topic, error } if *error == ErrorCode::NONE => log_event(
            Level::Info,
            "topic.recovered",
            format!("topic {topic} is available"),
            vec![("topic", topic.to_string())],
        ),
        ClusterLogEvent::TopicError { topic, error } => log_event(
            Level::Warning,
            "topic.error",
            match *error {
                // The broker's message for this code is about a partition, so it is not used.
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => {
                    format!("topic {topic} does not exist (yet) ({}): metadata is requested again", error.name())
                }
                error => format!("topic {topic}: {} ({})", error.message(), error.name()),
            },
            vec![("topic", topic.to_string()), ("error", error.name().to_string())],
        ),
        ClusterLogEvent::TopicRecreated { topic, .. } => log_event(
            Level::Error,
            "topic.recreated",
            format!("topic {topic} was deleted and created again: its old offsets are no longer valid"),
            vec![("topic", topic.to_string())],
        ),
        ClusterLogEvent::MetadataFailed { node, error } => log_event(
            Level::Debug,
            "metadata.failed",
            format!("{} did not return metadata: {error}", fmt_broker(*node)),
            vec![("broker", broker_id(*node))],
        ),
        ClusterLogEvent::Rebootstrap { cause } => log_event(
            Level::Warning,
            "cluster.rebootstrap",
            format!("connecting to the addresses of bootstrap.servers again ({cause:?})"),
            Vec::new(),
        ),
        _ => return None,
    })
}

fn fetch_event(notice: &FetchLogEvent) -> LogEvent {
    match notice {
        FetchLogEvent::OffsetReset { tp, from, to, log_start, log_end } => log_event(
            Level::Warning,
            "offset.reset",
            format!(
                "{tp}: offset {from} is not in the log, which reaches from {log_start} to {log_end}; auto.offset.reset \
                 continues at {to}"
            ),
            with_fields(partition_fields(tp), &[("from", *from), ("to", *to)]),
        ),
        FetchLogEvent::Truncated { tp, from, to } => log_event(
            Level::Error,
            "log.truncated",
            format!("{tp}: an unclean leader election truncated the log below offset {from}; continuing at {to}"),
            with_fields(partition_fields(tp), &[("from", *from), ("to", *to)]),
        ),
        FetchLogEvent::Waiting { tp, waited, code } => log_event(
            Level::Warning,
            "position.waiting",
            format!("{tp}: no offset to start from after {} s; retrying ({})", waited / 1_000_000_000, code.name()),
            partition_fields(tp),
        ),
        FetchLogEvent::Retrying { tp, node, code, failures } => log_event(
            if *failures <= 1 { Level::Debug } else { Level::Info },
            "fetch.retrying",
            format!(
                "{tp}: {failures} {} failed since the last success, now with {} of broker {node}",
                plural(*failures, "fetch has", "fetches have"),
                code.name()
            ),
            partition_fields(tp),
        ),
        FetchLogEvent::CorruptBatch { tp, offset, cause } => log_event(
            Level::Error,
            "fetch.corrupt_batch",
            format!("{tp}: the batch at offset {offset} is corrupt ({cause}); it is fetched once more"),
            with_fields(partition_fields(tp), &[("offset", *offset)]),
        ),
        FetchLogEvent::SessionError { node, code } => log_event(
            Level::Debug,
            "fetch.session_error",
            format!("broker {node} rejected a fetch session ({}); a new session is created", code.name()),
            vec![("broker", node.to_string())],
        ),
        FetchLogEvent::BadResponse { node, error } => log_event(
            Level::Error,
            "fetch.bad_response",
            format!("a Fetch response of broker {node} cannot be decoded: {error}"),
            vec![("broker", node.to_string())],
        ),
        other => log_event(Level::Info, "fetch.event", format!("{other:?}"), Vec::new()),
    }
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

fn group_event(notice: &GroupLogEvent, principal: &Principal) -> LogEvent {
    match notice {
        GroupLogEvent::CoordinatorFound { node } => log_event(
            Level::Debug,
            "group.coordinator_found",
            format!("the group's coordinator is broker {node}"),
            vec![("broker", node.to_string())],
        ),
        GroupLogEvent::CoordinatorLost { node, reason } => log_event(
            Level::Info,
            "group.coordinator_lost",
            format!("the group's coordinator, broker {node}, was lost and is looked up again: {reason}"),
            vec![("broker", node.to_string())],
        ),
        GroupLogEvent::RebalanceStarted { reason } => {
            log_event(Level::Info, "group.rebalancing", format!("the group rebalances: {reason}"), Vec::new())
        }
        GroupLogEvent::Joined { generation, leader, member_id, protocol } => log_event(
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
        GroupLogEvent::ClassicProtocol { reason } => log_event(
            Level::Info,
            "group.classic_protocol",
            format!("the group is joined with the classic protocol (group.protocol=auto): {reason}"),
            vec![("reason", reason.clone())],
        ),
        GroupLogEvent::Assigned { generation, tps } => log_event(
            Level::Info,
            "group.assigned",
            format!("generation {generation} assigns {} to this member", fmt_partitions(tps)),
            vec![("generation", generation.to_string()), ("partitions", fmt_partitions(tps))],
        ),
        GroupLogEvent::PredecessorReleased { member_id, is_dead } => log_event(
            Level::Info,
            "group.predecessor_released",
            if *is_dead {
                format!(
                    "left in the name of member {member_id}, whose process is dead: its partitions need not wait for \
                     the end of its session"
                )
            } else {
                format!(
                    "left in the name of member {member_id}, which had the group.instance.id of this one: its \
                     partitions need not wait for the end of its session; if its process is alive, it is fenced"
                )
            },
            vec![("member_id", member_id.to_string())],
        ),
        GroupLogEvent::RemainedInGroup { instance, session_ms } => log_event(
            Level::Info,
            "group.membership_kept",
            format!(
                "closed without LeaveGroup: the coordinator keeps the partitions of static member {instance} for \
                 {session_ms} ms (session.timeout.ms), until a member joins with that group.instance.id"
            ),
            vec![("instance", instance.to_string()), ("session_ms", session_ms.to_string())],
        ),
        GroupLogEvent::Revoked { tps, expired } => log_event(
            if *expired { Level::Error } else { Level::Info },
            "group.revoked",
            if *expired {
                format!("revoked {} although handlers had not ended (max.poll.interval.ms)", fmt_partitions(tps))
            } else {
                format!("revoked {}", fmt_partitions(tps))
            },
            vec![("partitions", fmt_partitions(tps))],
        ),
        GroupLogEvent::Lost { tps, reason } => log_event(
            Level::Error,
            "group.lost",
            format!("lost {}: {reason}", fmt_partitions(tps)),
            vec![("partitions", fmt_partitions(tps)), ("reason", reason.to_string())],
        ),
        GroupLogEvent::CommitFailed { tp, offset, error, others } => log_event(
            Level::Warning,
            "offset.commit_failed",
            format!("{tp}: offset {offset} was not committed{}: {error}", fmt_others(*others)),
            with_fields(partition_fields(tp), &[("offset", *offset)]),
        ),
        GroupLogEvent::JoinRetried { reason } => {
            log_event(Level::Info, "group.join_retried", format!("joining the group again: {reason}"), Vec::new())
        }
        GroupLogEvent::NotAuthorized { error, again } => {
            let text = principal.in_text(&error.to_string());
            log_event(
                if *again { Level::Debug } else { Level::Error },
                "group.not_authorized",
                format!("{text}; until then no offsets are committed, and without its place no records are read"),
                vec![("reason", text)],
            )
        }
        GroupLogEvent::Authorized => log_event(
            Level::Info,
            "group.authorized",
            "the client may use its group again, and continues".to_owned(),
            Vec::new(),
        ),
        GroupLogEvent::OffsetFetchRetried { reason } => log_event(
            Level::Info,
            "offset.load_retried",
            format!("fetching committed offsets again: {reason}"),
            Vec::new(),
        ),
        GroupLogEvent::CommitMetadataRejected { bytes } => log_event(
            Level::Warning,
            "offset.metadata_refused",
            format!(
                "the broker rejects {bytes} bytes of offset metadata: commits continue without the map of records \
                 processed beyond the offset, so a restart processes those records again; raise the brokers' \
                 offset.metadata.max.bytes to 4096"
            ),
            vec![("bytes", bytes.to_string())],
        ),
        GroupLogEvent::UnknownTopic { topic, concealed } => log_event(
            Level::Warning,
            "topic.unknown",
            if *concealed {
                let text = fmt_concealed_topic(topic, "Read", principal);
                format!("no member is assigned the partitions of a topic: {text}")
            } else {
                format!("topic {topic} does not exist (yet): no member is assigned its partitions")
            },
            vec![("topic", topic.to_string())],
        ),
    }
}

/// Returns how many other partitions an event is about; empty: none.
fn fmt_others(others: usize) -> String {
    match others {
        0 => String::new(),
        1 => ", nor that of another partition".to_owned(),
        _ => format!(", nor those of {others} other partitions"),
    }
}

pub(crate) fn corrupt_batch(corrupt: &CorruptBatch) -> LogEvent {
    log_event(
        Level::Error,
        "fetch.corrupt_batch",
        format!("{}: {}; the batch is fetched once more", corrupt.tp, corrupt.error),
        with_fields(partition_fields(&corrupt.tp), &[("offset", corrupt.offset)]),
    )
}

/// Returns the log event of a partition that cannot be read. `failing_for`: nanoseconds since it was first logged;
/// `None`: it is logged for the first time.
pub(crate) fn partition_failed(
    error: &PartitionError,
    principal: &Principal,
    failing_for: Option<Nanos>,
    is_app: bool,
) -> LogEvent {
    let tp = error.partition();
    let text = principal.in_text(&error.to_string());
    let seconds = failing_for.map_or(0.0, in_seconds);
    let still = failing_for.map_or(String::new(), |_| format!("{tp} has not been read for {seconds:.1} s: "));
    let then = match error.policy() {
        _ if !is_app => "",
        RecoveryPolicy::Retry => "; it is retried until the cause is gone, and the other partitions continue",
        RecoveryPolicy::Reset => "; it waits for a seek, and the other partitions continue",
    };
    let mut fields = partition_fields(tp);
    fields.extend([
        ("reason", error.reason().to_owned()),
        ("error", text.clone()),
        ("seconds", format!("{seconds:.3}")),
    ]);
    log_event(Level::Error, "partition.failed", format!("{still}{text}{then}"), fields)
}

pub(crate) fn partition_recovered(error: &PartitionError, lasted: Nanos) -> LogEvent {
    let (tp, seconds) = (error.partition(), in_seconds(lasted));
    let mut fields = partition_fields(tp);
    fields.extend([("reason", error.reason().to_owned()), ("seconds", format!("{seconds:.3}"))]);
    let message = format!("{tp} is read again, after {seconds:.1} s ({})", error.reason());
    log_event(Level::Info, "partition.recovered", message, fields)
}

fn in_seconds(nanos: Nanos) -> f64 {
    std::time::Duration::from_nanos(nanos).as_secs_f64()
}

/// Returns the error that a stopped partition raises in the caller of a low-level `poll`. In an App the other
/// partitions continue, so only `on_failed_partition="stop"` (`stops`) makes it an error.
pub(crate) fn fatal_partition_error(
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

pub(crate) fn fatal_error(error: &ConsumerFatal, principal: &Principal) -> ClientError {
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
pub(crate) fn commit_result(outcomes: Vec<CommitOutcome>) -> Result<(), ClientError> {
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
pub(crate) fn job_commit_result(outcomes: Vec<CommitOutcome>) -> Result<(), ClientError> {
    let gone =
        |outcome: &CommitOutcome| matches!(outcome.result, Err(CommitError::StaleAssignment | CommitError::Fenced(_)));
    if outcomes.iter().any(gone) { Err(ClientError::Revoked) } else { commit_result(outcomes) }
}

pub(crate) fn kafka_error(operation: &str, code: ErrorCode) -> ClientError {
    ClientError::Kafka {
        operation: operation.to_owned(),
        code: code.0,
        name: code.name(),
        message: code.message().to_owned(),
    }
}

/// Returns the error for a reply of the wrong type. The core answers each kind of request with its own kind of reply.
pub(crate) fn wrong_reply_type(reply: &ConsumerReply) -> ClientError {
    ClientError::Invalid(format!("the reply does not match the request: {reply:?}"))
}

#[cfg(test)]
mod tests {
    use grete_proto::connection::CloseReason;
    use grete_proto::request::Channel;

    use super::*;

    fn failed(node: NodeId, failures: u32) -> LogEvent {
        let (channel, address, reason) = (Channel::Control, "127.0.0.1:1".to_owned(), CloseReason::Eof);
        cluster_event(&ClusterLogEvent::ConnectFailed { node, channel, address, reason, failures })
            .expect("worth a line")
    }

    #[test]
    fn a_bootstrap_address_is_named_by_its_address() {
        let notice = failed(-1, 32);
        assert!(
            notice.message.starts_with("bootstrap address 127.0.0.1:1 cannot be reached (attempt 32): "),
            "{}",
            notice.message
        );
        assert!(notice.fields.contains(&("broker", "bootstrap".to_owned())));
        assert!(failed(3, 1).message.starts_with("broker 3 at 127.0.0.1:1 cannot be reached (attempt 1): "));
        let throttled = cluster_event(&ClusterLogEvent::Throttled { node: -2, ms: 5 }).expect("worth a line");
        assert_eq!(throttled.message, "a bootstrap address throttles this client for 5 ms (a quota)");
    }
}
