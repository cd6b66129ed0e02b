//! What the machines of a group share while one event is handled.

use std::borrow::Cow;

use grete_wire::ErrorCode;

use super::config::GroupConfig;
use super::error::GroupError;
use super::event::{GroupAction, GroupNotice, LostReason};
use crate::ids::{NodeId, TopicPartition};
use crate::request::{Channel, Outgoing, Owner, Request, RequestError, Target, Token};
use crate::rng::Rng;
use crate::time::Nanos;

/// What a group needs to know of the cluster.
pub trait ClusterView {
    /// How many partitions the topic has: `Some(0)` if it is known not to exist, `None` if nothing is known yet.
    fn partition_count(&self, topic: &str) -> Option<i32>;
}

/// Where the coordinator is, as the lookup number `lookup` found out. A failure of a request counts against the lookup
/// that it was sent under, so that a late one does not discredit the coordinator that has been found since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Located {
    pub node: NodeId,
    pub lookup: u32,
}

/// What one machine causes in another.
#[derive(Debug)]
pub(super) enum Effect {
    /// The coordinator of this lookup does not do.
    Suspect {
        lookup: u32,
        reason: String,
    },
    /// The coordinator has answered as one.
    Confirmed,
    /// The group is in a new generation and we have this in it.
    Assigned(Vec<TopicPartition>),
    /// Whatever was owned is lost.
    Lost(LostReason),
    /// A commit was refused because of its generation or member id.
    CommitFenced(ErrorCode),
    /// A commit was refused because somebody else has our `group.instance.id`.
    CommitInstanceFenced,
    /// A commit learnt that a rebalance is on.
    CommitSawRebalance,
    Left,
    Fatal(GroupError),
}

/// Lives as long as the group.
#[derive(Debug)]
pub(super) struct Shared {
    pub config: GroupConfig,
    pub rng: Rng,
    pub next_token: u32,
    pub effects: Vec<Effect>,
}

/// Lives as long as one event.
pub(super) struct Context<'a> {
    pub now: Nanos,
    pub shared: &'a mut Shared,
    pub coordinator: Option<Located>,
    pub actions: &'a mut Vec<GroupAction>,
}

impl Context<'_> {
    pub fn config(&self) -> &GroupConfig {
        &self.shared.config
    }

    /// Sends and returns the token that the reply will carry. Tokens are never reused within four thousand million
    /// requests: whoever forgets one is deaf to its late answer.
    pub fn send(&mut self, target: Target, channel: Channel, request: Request, timeout: Nanos) -> u32 {
        let id = self.shared.next_token;
        self.shared.next_token = id.wrapping_add(1);
        let token = Token { owner: Owner::Group, id };
        self.actions.push(GroupAction::Send(Outgoing { target, channel, request, token, timeout }));
        id
    }

    /// `group.instance.id` for a request.
    pub fn instance_id(&self) -> Option<Cow<'static, str>> {
        self.shared.config.instance_id.as_ref().map(|id| Cow::Owned(id.to_string()))
    }

    pub fn effect(&mut self, effect: Effect) {
        self.shared.effects.push(effect);
    }

    pub fn notice(&mut self, notice: GroupNotice) {
        self.actions.push(GroupAction::Notice(notice));
    }

    /// A request that got no answer: counts against the coordinator that it was sent to.
    pub fn unanswered(&mut self, lookup: u32, error: &RequestError) {
        self.effect(Effect::Suspect { lookup, reason: error.to_string() });
    }

    /// Once is enough for an answer of many partitions.
    fn confirmed(&mut self) {
        if !matches!(self.shared.effects.last(), Some(Effect::Confirmed)) {
            self.effect(Effect::Confirmed);
        }
    }

    /// Sorts an answer's code and reports what it says about the coordinator.
    pub fn verdict(&mut self, lookup: u32, code: ErrorCode) -> Verdict {
        match code {
            ErrorCode::NONE => {
                self.confirmed();
                Verdict::Ok
            }
            ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE => {
                self.effect(Effect::Suspect { lookup, reason: code.to_string() });
                Verdict::Retry
            }
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS => Verdict::Retry,
            code => {
                self.confirmed();
                Verdict::Error(code)
            }
        }
    }
}

/// What an answer's code means to every request alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Ok,
    /// The coordinator moves or loads: the same request later.
    Retry,
    /// For the machine to judge.
    Error(ErrorCode),
}
