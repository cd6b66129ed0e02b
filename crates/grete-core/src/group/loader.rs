//! OffsetFetch: where an assigned partition starts. An error never means "no commit": that would send a consumer to
//! `auto.offset.reset`, and lose or repeat a topic's worth of records (P14).

use std::borrow::Cow;
use std::collections::BTreeMap;

use grete_wire::ErrorCode;
use grete_wire::messages::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponse,
};

use super::context::{Context, Effect, Located, Verdict};
use super::error::GroupError;
use super::event::{GroupAction, GroupNotice};
use crate::ids::TopicPartition;
use crate::request::{Channel, Request, RequestError, Response, Target};
use crate::rng::Backoff;
use crate::time::Nanos;

/// The request under way.
#[derive(Debug)]
struct Flight {
    token: u32,
    located: Located,
    /// What was asked under which epoch: a partition that went and came back meanwhile may have a newer commit by now.
    asked: BTreeMap<TopicPartition, u32>,
}

/// Looks committed offsets up.
#[derive(Debug)]
pub(super) struct Loader {
    /// Partitions without a position, and the epoch that asks for one.
    wanted: BTreeMap<TopicPartition, u32>,
    flight: Option<Flight>,
    retry_at: Nanos,
    backoff: Backoff,
}

impl Loader {
    pub fn new(retry_backoff: Nanos, retry_backoff_max: Nanos) -> Self {
        Self {
            wanted: BTreeMap::new(),
            flight: None,
            retry_at: 0,
            backoff: Backoff::new(retry_backoff, retry_backoff_max),
        }
    }

    pub fn is_idle(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Wants the positions of these.
    pub fn load(&mut self, tps: &[TopicPartition], epoch: u32) {
        self.wanted.extend(tps.iter().map(|tp| (tp.clone(), epoch)));
    }

    /// Wants them no longer; an answer that is on its way finds nobody.
    pub fn forget(&mut self, tps: &[TopicPartition]) {
        for tp in tps {
            self.wanted.remove(tp);
        }
    }

    pub fn forget_all(&mut self) {
        self.wanted.clear();
    }

    pub fn deadline(&self, coordinator_known: bool) -> Option<Nanos> {
        (coordinator_known && self.flight.is_none() && !self.wanted.is_empty()).then_some(self.retry_at)
    }

    pub fn tick(&mut self, ctx: &mut Context<'_>) {
        let Some(located) = ctx.coordinator else { return };
        if self.flight.is_some() || self.wanted.is_empty() || ctx.now < self.retry_at {
            return;
        }
        let mut topics: Vec<OffsetFetchRequestTopics<'static>> = Vec::new();
        for tp in self.wanted.keys() {
            match topics.last_mut().filter(|topic| *topic.name == *tp.topic) {
                Some(topic) => topic.partition_indexes.push(tp.partition),
                None => topics.push(OffsetFetchRequestTopics {
                    name: Cow::Owned(tp.topic.to_string()),
                    partition_indexes: vec![tp.partition],
                    ..OffsetFetchRequestTopics::default()
                }),
            }
        }
        let group = OffsetFetchRequestGroup {
            group_id: Cow::Owned(ctx.config().group_id.to_string()),
            topics: Some(topics),
            ..OffsetFetchRequestGroup::default()
        };
        // An offset that an open transaction may still move is no position (KIP-447).
        let request = OffsetFetchRequest { groups: vec![group], require_stable: true, ..OffsetFetchRequest::default() };
        let timeout = ctx.config().request_timeout;
        let request = Request::OffsetFetch(request);
        let token = ctx.send(Target::Node(located.node), Channel::Control, request, timeout);
        self.flight = Some(Flight { token, located, asked: self.wanted.clone() });
    }

    /// Whether the token was ours.
    pub fn on_reply(&mut self, ctx: &mut Context<'_>, token: u32, result: &Result<Response, RequestError>) -> bool {
        let Some(flight) = self.flight.take_if(|flight| flight.token == token) else { return false };
        let answer = match result {
            Ok(response) => response.decode(OffsetFetchResponse::decode).map_err(RequestError::Protocol),
            Err(error) => Err(error.clone()),
        };
        let trouble = match answer {
            Ok(answer) => self.on_answer(ctx, &flight, &answer),
            Err(error) => {
                ctx.unanswered(flight.located.lookup, &error);
                if let RequestError::Unsupported { .. } = error {
                    let group = ctx.config().group_id.clone();
                    ctx.effect(Effect::Fatal(GroupError::Unsupported { group, reason: error.to_string() }));
                }
                Some(error.to_string())
            }
        };
        // An answer that leaves a partition out says nothing of it. Every answer with a rest costs a wait (P15).
        if flight.asked.iter().any(|(tp, epoch)| self.wanted.get(tp) == Some(epoch)) {
            self.retry_at = ctx.now + self.backoff.next(&mut ctx.shared.rng);
            let reason = trouble.unwrap_or_else(|| "the answer leaves partitions out".to_owned());
            ctx.notice(GroupNotice::LoadRetried { reason });
        } else {
            self.backoff.reset();
            self.retry_at = ctx.now;
        }
        true
    }

    /// Takes what is there; says what went wrong with the rest.
    fn on_answer(
        &mut self,
        ctx: &mut Context<'_>,
        flight: &Flight,
        answer: &OffsetFetchResponse<'_>,
    ) -> Option<String> {
        let group_id = ctx.config().group_id.clone();
        let Some(group) = answer.groups.iter().find(|group| *group.group_id == *group_id) else {
            return Some("the answer does not name the group".to_owned());
        };
        match ctx.verdict(flight.located.lookup, ErrorCode(group.error_code)) {
            Verdict::Ok => {}
            Verdict::Error(ErrorCode::GROUP_AUTHORIZATION_FAILED) => {
                ctx.effect(Effect::Fatal(GroupError::GroupAuthorization { group: group_id }));
                return Some(ErrorCode::GROUP_AUTHORIZATION_FAILED.to_string());
            }
            Verdict::Error(_) | Verdict::Retry => return Some(ErrorCode(group.error_code).to_string()),
        }
        let mut trouble = None;
        for topic in &group.topics {
            for partition in &topic.partitions {
                let tp = TopicPartition::new(topic.name.as_ref(), partition.partition_index);
                let code = ErrorCode(partition.error_code);
                let start = match (code, partition.committed_offset) {
                    (ErrorCode::NONE, -1) => None,
                    (ErrorCode::NONE, offset) if offset >= 0 => Some(offset),
                    (ErrorCode::TOPIC_AUTHORIZATION_FAILED, _) => {
                        ctx.effect(Effect::Fatal(GroupError::TopicAuthorization { topic: tp.topic }));
                        continue;
                    }
                    (code, offset) => {
                        trouble = Some(format!("{tp}: {code}, offset {offset}"));
                        continue;
                    }
                };
                let Some(&epoch) = flight.asked.get(&tp) else { continue };
                if self.wanted.get(&tp) == Some(&epoch) {
                    self.wanted.remove(&tp);
                    let leader_epoch = partition.committed_leader_epoch;
                    let metadata = partition.metadata.as_deref().filter(|_| start.is_some()).unwrap_or_default();
                    let metadata = metadata.to_owned();
                    ctx.actions.push(GroupAction::Position { tp, epoch, start, leader_epoch, metadata });
                }
            }
        }
        trouble
    }
}
