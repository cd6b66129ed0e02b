//! Subscription by patterns: the consumer requests the names of all topics whenever metadata is due, and subscribes to
//! those that match. The group protocols know names alone.
//!
//! Members may know a new topic at different times. Until each of them does, the group gives the topic to those that
//! know the topic, as with any two subscriptions.

use std::collections::BTreeSet;
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::{MetadataRequest, MetadataResponse};

use super::{ConsumerAction, ConsumerCore, ConsumerLogEvent};
use crate::backoff::Backoff;
use crate::cluster::{ClusterEvent, ClusterLogEvent, MetadataError};
use crate::group::{ConsumerGroup, GroupEvent};
use crate::request::{Channel, OutboundRequest, Reply, Request, RequestError, RequestOwner, Target, Token};
use crate::time::Nanos;
use crate::topic_pattern::TopicPattern;

/// Most topics that a log event names.
const MAX_NAMED: usize = 10;

/// Subscription with at least one pattern.
#[derive(Debug)]
pub(super) struct PatternSubscription {
    names: BTreeSet<Arc<str>>,
    patterns: Vec<TopicPattern>,
    /// Topics that matched last; `None`: no response has come yet.
    matched: Option<BTreeSet<Arc<str>>>,
    /// Id of the request in flight.
    in_flight: Option<u32>,
    next_at: Nanos,
    backoff: Backoff,
}

/// Subscription by patterns, if there is one, and the number of requests so far.
#[derive(Debug, Default)]
pub(super) struct TopicPatterns {
    subscription: Option<PatternSubscription>,
    requests: u32,
}

impl TopicPatterns {
    /// Returns the time of the next request.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.subscription.as_ref().filter(|one| one.in_flight.is_none()).map(|one| one.next_at)
    }

    /// Returns the number of topics of the subscription; `None`: unknown, or there is no pattern.
    pub(super) fn topics(&self) -> Option<usize> {
        let subscription = self.subscription.as_ref()?;
        Some(subscription.names.union(subscription.matched.as_ref()?).count())
    }

    /// Returns whether the consumer does not know yet which topics match, and so has not joined its group.
    pub(super) fn awaits_topics(&self) -> bool {
        self.subscription.as_ref().is_some_and(|one| one.matched.is_none())
    }
}

impl PatternSubscription {
    /// Returns the topics of a response that match.
    fn matching(&self, reply: &Reply) -> Result<BTreeSet<Arc<str>>, MetadataError> {
        let response = reply.result.as_ref().map_err(Clone::clone)?;
        let answer = response.decode(MetadataResponse::decode).map_err(RequestError::Protocol)?;
        match ErrorCode(answer.error_code) {
            // Before version 13 a failed request has no error code.
            ErrorCode::NONE if answer.brokers.is_empty() => return Err(MetadataError::NoBrokers),
            ErrorCode::NONE => {}
            code => return Err(MetadataError::Code(code)),
        }
        let topics = answer
            .topics
            .iter()
            .filter(|topic| !topic.is_internal && ErrorCode(topic.error_code) != ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        let names = topics.filter_map(|topic| topic.name.as_deref());
        let matching = names.filter(|name| self.patterns.iter().any(|pattern| pattern.matches(name)));
        Ok(matching.map(Arc::from).collect())
    }
}

impl ConsumerCore {
    /// Subscribes to topics by name and by pattern. The caller has checked the patterns.
    pub(super) fn subscribe(&mut self, now: Nanos, topics: Vec<Arc<str>>) {
        let (texts, names): (Vec<Arc<str>>, Vec<Arc<str>>) =
            topics.into_iter().partition(|topic| TopicPattern::is_pattern(topic));
        let patterns: Vec<TopicPattern> = texts.iter().filter_map(|text| TopicPattern::parse(text).ok()).collect();
        if patterns.is_empty() {
            self.patterns.subscription = None;
            return self.group(now, GroupEvent::Subscribe { topics: names });
        }
        let names = names.into_iter().collect();
        let position = &self.config.position;
        let backoff = Backoff::new(position.retry_backoff, position.retry_backoff_max);
        self.patterns.subscription =
            Some(PatternSubscription { names, patterns, matched: None, in_flight: None, next_at: now, backoff });
        // A topic that was deleted would come back with the next metadata request.
        self.cluster.forbid_topic_creation();
        self.request_topics(now);
    }

    /// Requests the names of all topics, if that is due.
    pub(super) fn request_topics(&mut self, now: Nanos) {
        let patterns = &mut self.patterns;
        let due = |one: &&mut PatternSubscription| one.in_flight.is_none() && one.next_at <= now;
        let Some(subscription) = patterns.subscription.as_mut().filter(due) else { return };
        if self.closing.is_some() {
            subscription.next_at = Nanos::MAX;
            return;
        }
        patterns.requests = patterns.requests.wrapping_add(1);
        subscription.in_flight = Some(patterns.requests);
        let request =
            Request::Metadata(MetadataRequest { topics: None, allow_auto_topic_creation: false, ..Default::default() });
        let token = Token { owner: RequestOwner::Patterns, id: patterns.requests };
        let timeout = self.config.position.request_timeout;
        let outgoing = OutboundRequest { target: Target::Any, channel: Channel::Control, request, token, timeout };
        self.cluster(now, ClusterEvent::Send(outgoing));
    }

    pub(super) fn on_topics(&mut self, now: Nanos, reply: &Reply, out: &mut Vec<ConsumerAction>) {
        let max_age = self.config.cluster.metadata_max_age;
        let Some(subscription) = self.patterns.subscription.as_mut() else { return };
        if subscription.in_flight.take_if(|id| *id == reply.token.id).is_none() {
            return; // of an older subscription
        }
        let matched = match subscription.matching(reply) {
            Ok(matched) => matched,
            Err(error) => {
                subscription.next_at = now.saturating_add(subscription.backoff.next_delay(&mut self.patterns_rng));
                let failed = ClusterLogEvent::MetadataFailed { node: reply.node, error };
                out.push(ConsumerAction::LogEvent(ConsumerLogEvent::Cluster(failed)));
                return;
            }
        };
        subscription.backoff.reset();
        subscription.next_at = now.saturating_add(max_age);
        if subscription.matched.as_ref() == Some(&matched) {
            return;
        }
        let before = subscription.matched.take().unwrap_or_default();
        let named = |topics: &mut dyn Iterator<Item = &Arc<str>>| topics.take(MAX_NAMED).cloned().collect();
        let texts: Vec<String> = subscription.patterns.iter().map(ToString::to_string).collect();
        let topics: Vec<Arc<str>> = subscription.names.union(&matched).cloned().collect();
        out.push(ConsumerAction::LogEvent(ConsumerLogEvent::TopicsMatched {
            patterns: texts.join(", "),
            topics: matched.len(),
            added: named(&mut matched.difference(&before)),
            removed: named(&mut before.difference(&matched)),
        }));
        subscription.matched = Some(matched);
        // A client that has not joined waits for its first topic.
        if topics.is_empty() && !self.group.as_ref().is_some_and(ConsumerGroup::has_joined) {
            return;
        }
        self.group(now, GroupEvent::Subscribe { topics });
    }
}
