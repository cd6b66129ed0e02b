//! Log events of brokers, connections, logins and metadata.

use std::sync::Arc;

use grete_proto::cluster::ClusterLogEvent;
use grete_proto::connection::CloseReason;
use grete_proto::ids::NodeId;
use grete_proto::principal::Principal;
use grete_proto::request::AddressFault;
use grete_proto::sasl::Mechanism;
use grete_wire::access::NeededAcl;
use grete_wire::error_code::ErrorCode;

use super::log_event;
use crate::log_event::{Level, LogEvent};

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

pub(super) fn fmt_concealed_topic(topic: &str, operation: &'static str, principal: &Principal) -> String {
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

#[cfg(test)]
mod tests {
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
