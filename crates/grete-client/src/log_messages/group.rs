//! Log events of a group: membership, assignments and commits.

use grete_proto::group::GroupLogEvent;
use grete_proto::principal::Principal;

use super::cluster::fmt_concealed_topic;
use super::{fmt_partitions, log_event, partition_fields, with_fields};
use crate::log_event::{Level, LogEvent};

pub(super) fn group_event(notice: &GroupLogEvent, principal: &Principal) -> LogEvent {
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
