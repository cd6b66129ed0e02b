//! State that the state machines of a group share while one event is handled.

use std::borrow::Cow;
use std::sync::Arc;

use grete_wire::ErrorCode;

use super::assignor::racks::Racks;
use super::config::GroupConfig;
use super::error::GroupError;
use super::event::{GroupAction, GroupLogEvent, LostReason};
use crate::ids::{NodeId, TopicPartition};
use crate::request::{Channel, OutboundRequest, Request, RequestError, RequestOwner, Target, Token};
use crate::rng::Rng;
use crate::time::Nanos;

/// Cluster metadata that a group needs.
pub trait TopicMetadataView {
    /// Returns the number of partitions of the topic: `Some(0)` if the topic is known not to exist, `None` if unknown.
    fn partition_count(&self, topic: &str) -> Option<i32>;

    /// Returns the racks of the replicas by partition number; empty where none is known.
    fn replica_racks(&self, topic: &str) -> Vec<Racks>;

    /// Returns the current id of the topic; `None` if it is unknown, or if brokers do not support topic ids.
    fn topic_id(&self, topic: &str) -> Option<u128>;

    /// Returns the current name of the topic with this id; `None`: the metadata does not have the id.
    fn topic_name(&self, id: u128) -> Option<Arc<str>>;

    /// Returns the level of the feature `group.version` that the cluster has finalized; 0: none. `None`: no broker has
    /// been asked yet.
    fn group_version(&self) -> Option<i16>;

    /// Returns whether the brokers do not say whether the topic exists, because the client has no Describe on it.
    fn is_concealed(&self, topic: &str) -> bool;
}

/// Node of the coordinator, with the number of the lookup that found it. A failed request counts against the lookup
/// under which it was sent, so that a late failure does not discredit a coordinator that was found since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CoordinatorRef {
    pub node: NodeId,
    pub lookup: u32,
}

/// Effect of one state machine on another.
#[derive(Debug)]
pub(super) enum Effect {
    /// The coordinator found by this lookup failed.
    Suspect {
        lookup: u32,
        reason: String,
    },
    /// The coordinator answered as a coordinator.
    CoordinatorAlive,
    /// The group has a new generation, with these partitions for this member.
    Assigned(Vec<TopicPartition>),
    /// All owned partitions are lost.
    Lost(LostReason),
    /// A commit was refused because of its generation or member id.
    CommitFenced(ErrorCode),
    /// A commit was refused because another member has joined under the same `group.instance.id`.
    CommitInstanceFenced,
    /// A commit or a lookup of offsets was refused because a rebalance is in progress, or because the member epoch is
    /// old.
    CommitDuringRebalance,
    Left,
    Fatal(GroupError),
}

/// State that lives as long as the group.
#[derive(Debug)]
pub(super) struct GroupShared {
    pub config: GroupConfig,
    pub rng: Rng,
    pub next_token: u32,
    pub effects: Vec<Effect>,
    /// Whether the ACL on the group was missing at the last request that needs it.
    pub unauthorized: bool,
    /// Whether the group is about to be left, so that nothing waits for an ACL any more.
    pub leaving: bool,
}

/// State that lives as long as one event.
pub(super) struct Context<'a> {
    pub now: Nanos,
    pub shared: &'a mut GroupShared,
    pub coordinator: Option<CoordinatorRef>,
    pub actions: &'a mut Vec<GroupAction>,
}

impl Context<'_> {
    pub fn config(&self) -> &GroupConfig {
        &self.shared.config
    }

    /// Sends a request and returns the token that the reply will carry. Tokens repeat only after 2^32 requests, so the
    /// reply to a forgotten token is ignored.
    pub fn send(&mut self, target: Target, channel: Channel, request: Request, timeout: Nanos) -> u32 {
        let id = self.shared.next_token;
        self.shared.next_token = id.wrapping_add(1);
        let token = Token { owner: RequestOwner::Group, id };
        self.actions.push(GroupAction::Send(OutboundRequest { target, channel, request, token, timeout }));
        id
    }

    /// Returns `group.instance.id` for a request.
    pub fn instance_id(&self) -> Option<Cow<'static, str>> {
        self.shared.config.instance_id.as_ref().map(|id| Cow::Owned(id.to_string()))
    }

    pub fn push_effect(&mut self, effect: Effect) {
        self.shared.effects.push(effect);
    }

    pub fn log_event(&mut self, notice: GroupLogEvent) {
        self.actions.push(GroupAction::LogEvent(notice));
    }

    /// Handles a refusal because the ACL on the group is missing. Returns whether to try again: an App waits for the ACL,
    /// as for those on topics, and any other consumer fails.
    pub fn on_unauthorized(&mut self) -> bool {
        let error = GroupError::GroupAuthorization { group: self.config().group_id.clone() };
        if !self.config().retry_authorization_failures {
            self.push_effect(Effect::Fatal(error));
            return false;
        }
        let again = std::mem::replace(&mut self.shared.unauthorized, true);
        self.log_event(GroupLogEvent::NotAuthorized { error, again });
        true
    }

    /// Handles a response that proves the ACL on the group: those to JoinGroup, Heartbeat and OffsetCommit. Finding the
    /// coordinator and its offsets needs less.
    pub fn on_authorized(&mut self) {
        if std::mem::take(&mut self.shared.unauthorized) {
            self.log_event(GroupLogEvent::Authorized);
        }
    }

    /// Handles a request without a response: the failure counts against the coordinator of that lookup.
    pub fn on_request_failed(&mut self, lookup: u32, error: &RequestError) {
        self.push_effect(Effect::Suspect { lookup, reason: error.to_string() });
    }

    /// Adds the effect unless it was the last one, so that a response with many partitions adds it once.
    fn coordinator_alive(&mut self) {
        if !matches!(self.shared.effects.last(), Some(Effect::CoordinatorAlive)) {
            self.push_effect(Effect::CoordinatorAlive);
        }
    }

    /// Classifies a response's error code, and reports what the code says about the coordinator.
    pub fn classify(&mut self, lookup: u32, code: ErrorCode) -> ErrorClass {
        match code {
            ErrorCode::NONE => {
                self.coordinator_alive();
                ErrorClass::Ok
            }
            ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE => {
                self.push_effect(Effect::Suspect { lookup, reason: code.to_string() });
                ErrorClass::Retry
            }
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS => ErrorClass::Retry,
            code => {
                self.coordinator_alive();
                ErrorClass::Error(code)
            }
        }
    }
}

/// Meaning of an error code that is the same for every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorClass {
    Ok,
    /// The coordinator is moving or loading: retry the same request later.
    Retry,
    /// Error for the state machine to handle.
    Error(ErrorCode),
}
