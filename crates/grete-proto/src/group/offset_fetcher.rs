//! Lookup of committed offsets with OffsetFetch. An error never means "no commit", because that would send a consumer
//! to `auto.offset.reset`, and skip or repeat a whole topic's records (P14).

use std::borrow::Cow;
use std::collections::BTreeMap;

use grete_wire::ErrorCode;
use grete_wire::messages::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponse,
};

use super::context::{Context, CoordinatorRef, Effect, ErrorClass};
use super::error::GroupError;
use super::event::{GroupAction, GroupLogEvent};
use super::member::MemberGeneration;
use crate::backoff::Backoff;
use crate::ids::TopicPartition;
use crate::request::{Channel, Request, RequestError, Response, Target};
use crate::time::Nanos;

/// Request in flight.
#[derive(Debug)]
struct InFlight {
    token: u32,
    coordinator: CoordinatorRef,
    /// Member that the coordinator checks.
    member: Option<MemberGeneration>,
    /// Requested partitions with their epochs. A partition that was lost and assigned again may have a newer commit by
    /// now.
    requested: BTreeMap<TopicPartition, u32>,
}

/// State machine that looks up committed offsets.
#[derive(Debug)]
pub(super) struct OffsetFetcher {
    /// Partitions without a position, and their assignment epochs.
    pending: BTreeMap<TopicPartition, u32>,
    in_flight: Option<InFlight>,
    retry_at: Nanos,
    backoff: Backoff,
}

impl OffsetFetcher {
    pub fn new(retry_backoff: Nanos, retry_backoff_max: Nanos) -> Self {
        Self {
            pending: BTreeMap::new(),
            in_flight: None,
            retry_at: 0,
            backoff: Backoff::new(retry_backoff, retry_backoff_max),
        }
    }

    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Requests the positions of these partitions.
    pub fn fetch(&mut self, tps: &[TopicPartition], epoch: u32) {
        self.pending.extend(tps.iter().map(|tp| (tp.clone(), epoch)));
    }

    /// Cancels the lookup of these partitions; a response in flight is ignored.
    pub fn forget(&mut self, tps: &[TopicPartition]) {
        for tp in tps {
            self.pending.remove(tp);
        }
    }

    pub fn forget_all(&mut self) {
        self.pending.clear();
    }

    /// Returns the time of the next lookup; `None`: none is due. `is_held`: partitions that must wait.
    pub fn deadline(&self, coordinator_known: bool, is_held: impl Fn(&TopicPartition) -> bool) -> Option<Nanos> {
        let has_due = || self.pending.keys().any(|tp| !is_held(tp));
        (coordinator_known && self.in_flight.is_none() && has_due()).then_some(self.retry_at)
    }

    /// Sends the lookup that is due. `member`: id and epoch that the coordinator checks (KIP-848). `is_held`: partitions
    /// that must wait.
    pub fn tick(
        &mut self,
        ctx: &mut Context<'_>,
        member: Option<MemberGeneration>,
        is_held: impl Fn(&TopicPartition) -> bool,
    ) {
        let Some(located) = ctx.coordinator else { return };
        if self.in_flight.is_some() || ctx.now < self.retry_at {
            return;
        }
        let due = self.pending.iter().filter(|(tp, _)| !is_held(tp));
        let requested: BTreeMap<TopicPartition, u32> = due.map(|(tp, epoch)| (tp.clone(), *epoch)).collect();
        if requested.is_empty() {
            return;
        }
        let mut topics: Vec<OffsetFetchRequestTopics<'static>> = Vec::new();
        for tp in requested.keys() {
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
            member_id: member.as_ref().map(|member| Cow::Owned(member.member_id.clone())),
            member_epoch: member.as_ref().map_or(-1, |member| member.generation),
        };
        // An offset that an open transaction may still move is not a position (KIP-447).
        let request = OffsetFetchRequest { groups: vec![group], require_stable: true, ..OffsetFetchRequest::default() };
        let timeout = ctx.config().request_timeout;
        let request = Request::OffsetFetch(request);
        let token = ctx.send(Target::Node(located.node), Channel::Control, request, timeout);
        self.in_flight = Some(InFlight { token, coordinator: located, member, requested });
    }

    /// Handles a reply. Returns whether the token belongs to a lookup.
    pub fn on_reply(&mut self, ctx: &mut Context<'_>, token: u32, result: &Result<Response, RequestError>) -> bool {
        let Some(flight) = self.in_flight.take_if(|flight| flight.token == token) else { return false };
        let answer = match result {
            Ok(response) => response.decode(OffsetFetchResponse::decode).map_err(RequestError::Protocol),
            Err(error) => Err(error.clone()),
        };
        let last_error = match answer {
            Ok(answer) => self.on_response(ctx, &flight, &answer),
            Err(error) => {
                ctx.on_request_failed(flight.coordinator.lookup, &error);
                if let RequestError::Unsupported { .. } = error {
                    let group = ctx.config().group_id.clone();
                    ctx.push_effect(Effect::Fatal(GroupError::Unsupported { group, reason: error.to_string() }));
                }
                Some(error.to_string())
            }
        };
        // A partition that is missing from the response stays pending. Any remainder costs a backoff (P15).
        if flight.requested.iter().any(|(tp, epoch)| self.pending.get(tp) == Some(epoch)) {
            self.retry_at = ctx.now + self.backoff.next_delay(&mut ctx.shared.rng);
            let reason = last_error.unwrap_or_else(|| "partitions are missing from the response".to_owned());
            ctx.log_event(GroupLogEvent::OffsetFetchRetried { reason });
        } else {
            self.backoff.reset();
            self.retry_at = ctx.now;
        }
        true
    }

    /// Emits the positions in the response. Returns the last error of the remaining partitions.
    fn on_response(
        &mut self,
        ctx: &mut Context<'_>,
        flight: &InFlight,
        answer: &OffsetFetchResponse<'_>,
    ) -> Option<String> {
        let group_id = ctx.config().group_id.clone();
        let Some(group) = answer.groups.iter().find(|group| *group.group_id == *group_id) else {
            return Some("the group is missing from the response".to_owned());
        };
        match ctx.classify(flight.coordinator.lookup, ErrorCode(group.error_code)) {
            ErrorClass::Ok => {}
            ErrorClass::Error(ErrorCode::GROUP_AUTHORIZATION_FAILED) => {
                ctx.on_unauthorized();
                return Some(ErrorCode::GROUP_AUTHORIZATION_FAILED.to_string());
            }
            // The next heartbeat brings the epoch; it also says whether the member was removed.
            ErrorClass::Error(code @ (ErrorCode::STALE_MEMBER_EPOCH | ErrorCode::UNKNOWN_MEMBER_ID)) => {
                if flight.member.is_some() {
                    ctx.push_effect(Effect::CommitDuringRebalance);
                }
                return Some(code.to_string());
            }
            ErrorClass::Error(_) | ErrorClass::Retry => return Some(ErrorCode(group.error_code).to_string()),
        }
        let mut last_error = None;
        for topic in &group.topics {
            for partition in &topic.partitions {
                let tp = TopicPartition::new(topic.name.as_ref(), partition.partition_index);
                let code = ErrorCode(partition.error_code);
                let start = match (code, partition.committed_offset) {
                    (ErrorCode::NONE, -1) => None,
                    (ErrorCode::NONE, offset) if offset >= 0 => Some(offset),
                    (ErrorCode::TOPIC_AUTHORIZATION_FAILED, _) if ctx.config().retry_authorization_failures => {
                        last_error = Some(format!("{tp}: {code}"));
                        ctx.actions.push(GroupAction::NotAuthorized { tp });
                        continue;
                    }
                    (ErrorCode::TOPIC_AUTHORIZATION_FAILED, _) => {
                        ctx.push_effect(Effect::Fatal(GroupError::TopicAuthorization { topic: tp.topic }));
                        continue;
                    }
                    (code, offset) => {
                        last_error = Some(format!("{tp}: {code}, offset {offset}"));
                        continue;
                    }
                };
                let Some(&epoch) = flight.requested.get(&tp) else { continue };
                if self.pending.get(&tp) == Some(&epoch) {
                    self.pending.remove(&tp);
                    let leader_epoch = partition.committed_leader_epoch;
                    let metadata = partition.metadata.as_deref().filter(|_| start.is_some()).unwrap_or_default();
                    let metadata = metadata.to_owned();
                    ctx.actions.push(GroupAction::Position { tp, epoch, start, leader_epoch, metadata });
                }
            }
        }
        last_error
    }
}
