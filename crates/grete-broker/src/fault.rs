//! Faults: what a broker does wrong on request, by API, topic, partition, client and broker.

use std::sync::Arc;

use grete_wire::{ApiKey, ErrorCode};

use crate::ids::{BrokerId, Millis};
use crate::message::Request;

/// Fault of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultAction {
    /// The request is not handled, and the response has this error: for the partitions that the rule names in Produce,
    /// Fetch and ListOffsets, else for the whole request.
    Error(ErrorCode),
    /// The request is handled after this time.
    Delay(Millis),
    /// The request is not handled, and the connection ends.
    Disconnect,
    /// The request is handled, and the connection ends without the response.
    DisconnectAfter,
    /// The request is not handled, and the connection stays open without a response.
    NeverAnswer,
    /// The request is handled, and the connection ends in the middle of the response.
    HalfFrame,
}

impl FaultAction {
    /// Returns the name for the request log.
    #[must_use]
    pub fn name(self) -> Arc<str> {
        match self {
            Self::Error(code) => code.name().into(),
            Self::Delay(ms) => format!("delay {ms} ms").into(),
            Self::Disconnect => "disconnect".into(),
            Self::DisconnectAfter => "disconnect after".into(),
            Self::NeverAnswer => "never answer".into(),
            Self::HalfFrame => "half frame".into(),
        }
    }
}

/// Rule that applies a fault to requests. `None` in a condition: any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultRule {
    /// API of the request.
    pub api: Option<ApiKey>,
    /// Topic that the request names.
    pub topic: Option<Arc<str>>,
    /// Partition that the request names, of any topic if there is no topic.
    pub partition: Option<i32>,
    /// `client.id`, whole.
    pub client_id: Option<Arc<str>>,
    /// `client.id`, whole, of a client whose requests pass; `None`: no client is exempt.
    pub except_client_id: Option<Arc<str>>,
    /// Broker that gets the request.
    pub broker: Option<BrokerId>,
    /// Number of matching requests that pass before the first fault.
    pub skip: u32,
    /// Number of faults before the rule ends; `None`: until the rules are cleared.
    pub times: Option<u32>,
    /// Fault to apply.
    pub action: FaultAction,
}

impl FaultRule {
    /// Creates a rule that applies to every request of an API, or of all APIs, until the rules are cleared.
    #[must_use]
    pub fn new(api: Option<ApiKey>, action: FaultAction) -> Self {
        Self {
            api,
            topic: None,
            partition: None,
            client_id: None,
            except_client_id: None,
            broker: None,
            skip: 0,
            times: None,
            action,
        }
    }

    /// Returns whether the rule names this partition.
    #[must_use]
    pub fn covers(&self, topic: &str, partition: i32) -> bool {
        self.topic.as_deref().is_none_or(|named| named == topic)
            && self.partition.is_none_or(|named| named == partition)
    }
}

/// Request as rules see it.
#[derive(Debug, Clone, Copy)]
pub struct FaultTarget<'a> {
    /// API of the request.
    pub api: ApiKey,
    /// `client.id`.
    pub client_id: &'a str,
    /// Broker that gets the request.
    pub broker: BrokerId,
}

/// Rules in force, in the order in which they were added. The first that matches a request applies.
#[derive(Debug, Default)]
pub struct Faults {
    rules: Vec<FaultRule>,
}

impl Faults {
    /// Adds a rule.
    pub fn add(&mut self, rule: FaultRule) {
        if rule.times != Some(0) {
            self.rules.push(rule);
        }
    }

    /// Ends all rules.
    pub fn clear(&mut self) {
        self.rules.clear();
    }

    /// Returns the rules in force.
    #[must_use]
    pub fn rules(&self) -> &[FaultRule] {
        &self.rules
    }

    /// Returns the rule that applies to a request, and counts the use. `topic_name` returns the name of a topic id.
    pub fn apply(
        &mut self,
        target: FaultTarget<'_>,
        request: &Request<'_>,
        topic_name: impl Fn(u128) -> Option<Arc<str>>,
    ) -> Option<FaultRule> {
        if self.rules.is_empty() {
            return None;
        }
        let named = named_partitions(request, &topic_name);
        let matches = |rule: &FaultRule| {
            rule.api.is_none_or(|api| api == target.api)
                && rule.client_id.as_deref().is_none_or(|client| client == target.client_id)
                && rule.except_client_id.as_deref().is_none_or(|client| client != target.client_id)
                && rule.broker.is_none_or(|broker| broker == target.broker)
                && (rule.topic.is_none() && rule.partition.is_none()
                    || named.iter().any(|(topic, partition)| match partition {
                        Some(partition) => rule.covers(topic, *partition),
                        None => rule.topic.as_deref() == Some(&**topic),
                    }))
        };
        let place = self.rules.iter().position(matches)?;
        let rule = self.rules.get_mut(place)?;
        if rule.skip > 0 {
            rule.skip -= 1;
            return None;
        }
        let applied = rule.clone();
        if let Some(times) = &mut rule.times {
            *times -= 1;
            if *times == 0 {
                self.rules.remove(place);
            }
        }
        Some(applied)
    }
}

/// Returns the partitions that a request names; `None` for a partition: the request names the topic alone.
fn named_partitions(
    request: &Request<'_>,
    topic_name: impl Fn(u128) -> Option<Arc<str>>,
) -> Vec<(Arc<str>, Option<i32>)> {
    let mut named: Vec<(Arc<str>, Option<i32>)> = Vec::new();
    let resolve = |name: &str, id: u128| match id {
        0 => Some(name.into()),
        id => topic_name(id),
    };
    match request {
        Request::Produce(request) => {
            for topic in &request.topic_data {
                let name = resolve(&topic.name, topic.topic_id);
                let indexes = topic.partition_data.iter().map(|data| data.index);
                named.extend(
                    name.into_iter().flat_map(|name| indexes.clone().map(move |index| (name.clone(), Some(index)))),
                );
            }
        }
        Request::Fetch(request) => {
            for topic in &request.topics {
                let name = resolve(&topic.topic, topic.topic_id);
                let indexes = topic.partitions.iter().map(|partition| partition.partition);
                named.extend(
                    name.into_iter().flat_map(|name| indexes.clone().map(move |index| (name.clone(), Some(index)))),
                );
            }
        }
        Request::ShareFetch(request) => {
            for topic in &request.topics {
                let indexes = topic.partitions.iter().map(|partition| partition.partition_index);
                let name = topic_name(topic.topic_id);
                named.extend(
                    name.into_iter().flat_map(|name| indexes.clone().map(move |index| (name.clone(), Some(index)))),
                );
            }
        }
        Request::ShareAcknowledge(request) => {
            for topic in &request.topics {
                let indexes = topic.partitions.iter().map(|partition| partition.partition_index);
                let name = topic_name(topic.topic_id);
                named.extend(
                    name.into_iter().flat_map(|name| indexes.clone().map(move |index| (name.clone(), Some(index)))),
                );
            }
        }
        Request::ListOffsets(request) => {
            for topic in &request.topics {
                let name: Arc<str> = (&*topic.name).into();
                named.extend(topic.partitions.iter().map(|partition| (name.clone(), Some(partition.partition_index))));
            }
        }
        Request::OffsetCommit(request) => {
            for topic in &request.topics {
                let name = resolve(&topic.name, topic.topic_id);
                let indexes = topic.partitions.iter().map(|partition| partition.partition_index);
                named.extend(
                    name.into_iter().flat_map(|name| indexes.clone().map(move |index| (name.clone(), Some(index)))),
                );
            }
        }
        Request::Metadata(request) => {
            for topic in request.topics.iter().flatten() {
                let name = resolve(topic.name.as_deref().unwrap_or_default(), topic.topic_id);
                named.extend(name.map(|name| (name, None)));
            }
        }
        Request::CreateTopics(request) => {
            named.extend(request.topics.iter().map(|topic| ((&*topic.name).into(), None)))
        }
        _ => {}
    }
    named
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use grete_wire::messages::{
        HeartbeatRequest, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic, MetadataRequest,
        MetadataRequestTopic,
    };

    use super::*;

    const TARGET: FaultTarget<'static> = FaultTarget { api: ApiKey::ListOffsets, client_id: "app", broker: 1 };

    fn list_offsets(topic: &'static str, partition_index: i32) -> Request<'static> {
        let partitions = vec![ListOffsetsPartition { partition_index, ..ListOffsetsPartition::default() }];
        let topics = vec![ListOffsetsTopic { name: Cow::Borrowed(topic), partitions }];
        Request::ListOffsets(ListOffsetsRequest { topics, ..ListOffsetsRequest::default() })
    }

    fn applied(faults: &mut Faults, target: FaultTarget<'_>, request: &Request<'_>) -> bool {
        faults.apply(target, request, |_| None).is_some()
    }

    #[test]
    fn a_rule_applies_where_all_its_conditions_hold() {
        let rule = FaultRule {
            topic: Some("orders".into()),
            partition: Some(1),
            client_id: Some("app".into()),
            broker: Some(1),
            ..FaultRule::new(Some(ApiKey::ListOffsets), FaultAction::Disconnect)
        };
        let mut faults = Faults::default();
        faults.add(rule);
        assert!(applied(&mut faults, TARGET, &list_offsets("orders", 1)));
        assert!(!applied(&mut faults, TARGET, &list_offsets("orders", 0)));
        assert!(!applied(&mut faults, TARGET, &list_offsets("bills", 1)));
        assert!(!applied(&mut faults, FaultTarget { client_id: "other", ..TARGET }, &list_offsets("orders", 1)));
        assert!(!applied(&mut faults, FaultTarget { broker: 2, ..TARGET }, &list_offsets("orders", 1)));
        let heartbeat = Request::Heartbeat(HeartbeatRequest::default());
        assert!(!applied(&mut faults, FaultTarget { api: ApiKey::Heartbeat, ..TARGET }, &heartbeat));
    }

    #[test]
    fn a_client_can_be_exempt() {
        let mut faults = Faults::default();
        faults.add(FaultRule { except_client_id: Some("app".into()), ..FaultRule::new(None, FaultAction::Disconnect) });
        assert!(!applied(&mut faults, TARGET, &list_offsets("orders", 0)));
        assert!(applied(&mut faults, FaultTarget { client_id: "other", ..TARGET }, &list_offsets("orders", 0)));
    }

    #[test]
    fn a_rule_skips_and_ends() {
        let mut faults = Faults::default();
        faults.add(FaultRule { skip: 1, times: Some(2), ..FaultRule::new(None, FaultAction::NeverAnswer) });
        let request = list_offsets("orders", 0);
        let found: Vec<bool> = (0..5).map(|_| applied(&mut faults, TARGET, &request)).collect();
        assert_eq!(found, [false, true, true, false, false]);
        assert!(faults.rules().is_empty());
    }

    #[test]
    fn a_request_that_names_a_topic_alone_matches_the_topic() {
        let mut faults = Faults::default();
        faults.add(FaultRule { topic: Some("orders".into()), ..FaultRule::new(None, FaultAction::Delay(5)) });
        let topic = MetadataRequestTopic { name: Some(Cow::Borrowed("orders")), ..MetadataRequestTopic::default() };
        let request = MetadataRequest { topics: Some(vec![topic]), ..MetadataRequest::default() };
        assert!(applied(&mut faults, FaultTarget { api: ApiKey::Metadata, ..TARGET }, &Request::Metadata(request)));
    }
}
