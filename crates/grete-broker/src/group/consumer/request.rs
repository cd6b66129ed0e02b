//! Checks of ConsumerGroupHeartbeat that need no group.

use grete_wire::ErrorCode;
use grete_wire::messages::ConsumerGroupHeartbeatRequest;

use super::{LEAVE_EPOCH, Refusal, STATIC_LEAVE_EPOCH};
use crate::group::config::Assignor;

/// First version in which clients make their member ids (KIP-1082).
const FIRST_VERSION_WITH_CLIENT_IDS: i16 = 1;

/// Checks the fields of a request, as Kafka does and in its order.
///
/// # Errors
/// A field is missing, not allowed or not supported.
pub(in crate::group) fn check_heartbeat(
    version: i16,
    request: &ConsumerGroupHeartbeatRequest<'_>,
    assignors: &[Assignor],
) -> Result<(), Refusal> {
    let epoch = request.member_epoch;
    let needs_id = version >= FIRST_VERSION_WITH_CLIENT_IDS || epoch > 0 || epoch == LEAVE_EPOCH;
    if needs_id && request.member_id.is_empty() {
        return Err(Refusal::invalid("MemberId is empty: give the member's id."));
    }
    if request.group_id.is_empty() {
        return Err(Refusal::invalid("GroupId is empty: give the group's id."));
    }
    if request.instance_id.as_deref() == Some("") {
        return Err(Refusal::invalid("InstanceId is empty: give an id, or null."));
    }
    if request.rack_id.as_deref() == Some("") {
        return Err(Refusal::invalid("RackId is empty: give a rack, or null."));
    }
    match epoch {
        0 => check_join(request)?,
        STATIC_LEAVE_EPOCH if request.instance_id.is_none() => {
            return Err(Refusal::invalid("InstanceId is null: only static members leave with epoch -2."));
        }
        ..STATIC_LEAVE_EPOCH => return Err(Refusal::invalid("MemberEpoch is less than -2.")),
        _ => {}
    }
    if let Some(name) = request.server_assignor.as_deref()
        && !Assignor::from_name(name).is_some_and(|known| known.name() == name && assignors.contains(&known))
    {
        let names: Vec<_> = assignors.iter().map(|known| known.name()).collect();
        let message = format!("Assignor {name} does not exist: use {}.", names.join(" or "));
        return Err(Refusal::new(ErrorCode::UNSUPPORTED_ASSIGNOR, message));
    }
    check_regex(request)
}

fn check_join(request: &ConsumerGroupHeartbeatRequest<'_>) -> Result<(), Refusal> {
    if request.rebalance_timeout_ms == -1 {
        return Err(Refusal::invalid("RebalanceTimeoutMs is -1: a member that joins must give it."));
    }
    if request.topic_partitions.as_ref().is_none_or(|owned| !owned.is_empty()) {
        return Err(Refusal::invalid("TopicPartitions is not an empty list: a member that joins has no partitions."));
    }
    if request.subscribed_topic_names.is_none() && request.subscribed_topic_regex.is_none() {
        return Err(Refusal::invalid("A member that joins must give SubscribedTopicNames or SubscribedTopicRegex."));
    }
    Ok(())
}

/// Checks the regular expression of a request.
///
/// # Errors
/// There is one: these brokers resolve none.
fn check_regex(request: &ConsumerGroupHeartbeatRequest<'_>) -> Result<(), Refusal> {
    match request.subscribed_topic_regex.as_deref() {
        None | Some("") => Ok(()),
        Some(regex) => {
            let message = format!(
                "Regular expression {regex} is not resolved: the embedded brokers have no regular expressions. Subscribe \
                 to the topics by their names."
            );
            Err(Refusal::new(ErrorCode::INVALID_REGULAR_EXPRESSION, message))
        }
    }
}
