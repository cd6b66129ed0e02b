//! Lookup of the offset from which each partition continues; partitions are independent of each other (P13).

use std::collections::{BTreeMap, HashMap};

use grete_wire::error_code::ErrorCode;
use grete_wire::messages::{ListOffsetsResponse, OffsetForLeaderEpochResponse};

use crate::cluster::view::ClusterView;
use crate::ids::{NodeId, PartitionHandle};
use crate::partition::error::{PartitionError, RecoveryPolicy};
use crate::partition::log_event::FetchLogEvent;
use crate::partition::table::{FetchState, PartitionTable};
use crate::request::{Channel, NO_NODE, OutboundRequest, Reply, RequestError, RequestOwner, Response, Target, Token};
use crate::rng::Rng;
use crate::time::{Nanos, earliest};

use super::config::{PositionConfig, ResetPolicy};
use super::event::{PositionAction, PositionEvent, StartPosition};
use super::lookup::{LookupGoal, LookupKind, OffsetLookup, OffsetQuery, is_fatal};
use super::requests;

/// Request in flight.
#[derive(Debug)]
struct InFlight {
    id: u32,
    ask: LookupKind,
    slots: Vec<PartitionHandle>,
}

/// Result of one partition in a response.
#[derive(Debug, Clone, Copy)]
struct OffsetResult {
    code: ErrorCode,
    offset: i64,
    epoch: i32,
}

/// State machine that resolves start positions, resets and truncations.
#[derive(Debug)]
pub struct OffsetResolver {
    config: PositionConfig,
    rng: Rng,
    lookups: BTreeMap<PartitionHandle, OffsetLookup>,
    in_flight: Vec<InFlight>,
    next_token: u32,
    wake: Option<Nanos>,
    needs_metadata: bool,
    layout: u64,
}

impl OffsetResolver {
    /// Creates a resolver without lookups.
    pub fn new(config: PositionConfig, rng: Rng) -> Self {
        Self {
            config,
            rng,
            lookups: BTreeMap::new(),
            in_flight: Vec::new(),
            next_token: 0,
            wake: None,
            needs_metadata: false,
            layout: 0,
        }
    }

    /// Returns the time at which the next `Tick` is due; `None`: no timer.
    pub fn deadline(&self) -> Option<Nanos> {
        self.wake
    }

    /// Returns the number of partitions that wait for a position.
    pub fn pending_lookups(&self) -> usize {
        self.lookups.len()
    }

    /// Processes one event and appends the resulting actions.
    pub fn step(
        &mut self,
        now: Nanos,
        event: PositionEvent,
        view: &impl ClusterView,
        partitions: &mut PartitionTable,
        out: &mut Vec<PositionAction>,
    ) {
        partitions.refresh(view);
        if self.layout != partitions.layout() {
            self.layout = partitions.layout();
            self.on_leader_changes(now, partitions);
        }
        match event {
            PositionEvent::Start { slot, at, leader_epoch } => self.start(now, slot, at, leader_epoch, partitions, out),
            PositionEvent::StartMany(starts) => {
                for (slot, at, leader_epoch) in starts {
                    self.start(now, slot, at, leader_epoch, partitions, out);
                }
            }
            PositionEvent::AwaitStart { slot } => {
                if partitions.is_live(slot) {
                    self.lookups.remove(&slot);
                    partitions.move_to(slot, partitions.fetch_offset(slot), -1);
                    partitions.set_state(slot, FetchState::Resolving);
                }
            }
            PositionEvent::OutOfRange { slot } => self.start_lookup(now, slot, LookupGoal::RangeStart, partitions),
            PositionEvent::Diverged { slot, epoch, end_offset } => {
                if partitions.state(slot) == FetchState::Resolving {
                    self.detect_truncation(slot, epoch, end_offset, partitions, out);
                }
            }
            PositionEvent::Validate { slot } => {
                let epoch = partitions.last_fetched_epoch(slot);
                self.start_lookup(now, slot, LookupGoal::Validate { epoch }, partitions);
            }
            PositionEvent::Reply(reply) => self.on_reply(now, &reply, partitions, out),
            PositionEvent::MetadataChanged | PositionEvent::Tick => {}
        }
        self.send_lookups(now, partitions, out);
        if std::mem::take(&mut self.needs_metadata) {
            out.push(PositionAction::RefreshMetadata);
        }
    }

    fn start(
        &mut self,
        now: Nanos,
        slot: PartitionHandle,
        at: StartPosition,
        leader_epoch: i32,
        partitions: &mut PartitionTable,
        out: &mut Vec<PositionAction>,
    ) {
        if !partitions.is_live(slot) {
            return;
        }
        self.lookups.remove(&slot);
        let query = match at {
            StartPosition::Offset(offset) => {
                partitions.move_to(slot, offset.max(0), leader_epoch.max(-1));
                if leader_epoch >= 0 {
                    self.start_lookup(now, slot, LookupGoal::Validate { epoch: leader_epoch }, partitions);
                } else {
                    mark_fetchable(slot, partitions, out);
                }
                return;
            }
            StartPosition::Earliest => OffsetQuery::Earliest,
            StartPosition::Latest => OffsetQuery::Latest,
            StartPosition::Timestamp(ms) => OffsetQuery::Timestamp(ms),
            StartPosition::Reset => match self.config.reset {
                ResetPolicy::Earliest => OffsetQuery::Earliest,
                ResetPolicy::Latest => OffsetQuery::Latest,
                ResetPolicy::None => {
                    self.fail(slot, PartitionError::NoOffset { tp: partitions.name(slot) }, partitions, out);
                    return;
                }
            },
        };
        partitions.move_to(slot, partitions.fetch_offset(slot), -1);
        self.start_lookup(now, slot, LookupGoal::Find(query), partitions);
    }

    fn start_lookup(&mut self, now: Nanos, slot: PartitionHandle, goal: LookupGoal, partitions: &mut PartitionTable) {
        if partitions.is_live(slot) {
            partitions.set_state(slot, FetchState::Resolving);
            self.lookups.insert(slot, OffsetLookup::new(now, goal, partitions.fetch_generation(slot), &self.config));
        }
    }

    fn fail(
        &mut self,
        slot: PartitionHandle,
        error: PartitionError,
        partitions: &mut PartitionTable,
        out: &mut Vec<PositionAction>,
    ) {
        self.lookups.remove(&slot);
        partitions.set_state(slot, FetchState::Failed);
        partitions.new_generation(slot);
        out.push(PositionAction::Failed { slot, error });
    }

    fn complete(&mut self, slot: PartitionHandle, partitions: &mut PartitionTable, out: &mut Vec<PositionAction>) {
        self.lookups.remove(&slot);
        mark_fetchable(slot, partitions, out);
    }

    /// Redirects lookups whose node no longer leads the partition: the new leader is asked at once (P12). A late
    /// response of the old leader is ignored, because the lookup then waits for another request, or for none.
    fn on_leader_changes(&mut self, now: Nanos, partitions: &PartitionTable) {
        for (&slot, task) in &mut self.lookups {
            let leader = partitions.leader(slot);
            let moved = task.request.is_some_and(|(_, node)| node != leader);
            let appeared =
                task.request.is_none() && leader != NO_NODE && task.failures <= 3 && task.goal != LookupGoal::Wait;
            if moved || appeared {
                task.request = None;
                task.not_before = task.not_before.min(now);
            }
        }
    }

    /// Sends the due requests: one per node and kind.
    fn send_lookups(&mut self, now: Nanos, partitions: &mut PartitionTable, out: &mut Vec<PositionAction>) {
        self.wake = None;
        let mut batches: BTreeMap<(NodeId, LookupKind), Vec<PartitionHandle>> = BTreeMap::new();
        let mut done = Vec::new();
        let Self { lookups: tasks, config, rng, wake, needs_metadata: stale_metadata, .. } = self;
        // Lookups of partitions that were removed, sought or stopped since then are void.
        tasks.retain(|&slot, task| {
            partitions.state(slot) == FetchState::Resolving && partitions.fetch_generation(slot) == task.generation
        });
        for (&slot, task) in tasks {
            if task.request.is_some() {
                continue;
            }
            if now < task.not_before {
                *wake = earliest(*wake, Some(task.not_before));
                continue;
            }
            let leader = partitions.leader(slot);
            let valid = matches!(task.goal, LookupGoal::Validate { epoch } if leader != NO_NODE && partitions.leader_epoch(slot) <= epoch);
            match task.goal.kind().filter(|_| !valid) {
                None => done.push(slot),
                Some(_) if leader == NO_NODE => {
                    *stale_metadata = true;
                    if task.retry(now, config, rng) {
                        out.push(waiting_log_event(now, slot, task, ErrorCode::LEADER_NOT_AVAILABLE, partitions));
                    }
                    *wake = earliest(*wake, Some(task.not_before));
                }
                Some(ask) => batches.entry((leader, ask)).or_default().push(slot),
            }
        }
        for slot in done {
            self.complete(slot, partitions, out);
        }
        for ((node, ask), slots) in batches {
            self.send(node, ask, slots, partitions, out);
        }
    }

    fn send(
        &mut self,
        node: NodeId,
        ask: LookupKind,
        slots: Vec<PartitionHandle>,
        partitions: &PartitionTable,
        out: &mut Vec<PositionAction>,
    ) {
        let id = self.next_token;
        self.next_token = self.next_token.wrapping_add(1);
        let goals = slots.iter().filter_map(|slot| self.lookups.get(slot).map(|task| (*slot, task.goal)));
        let request = match ask {
            LookupKind::ListOffsets { at_isolation_level: isolated } => {
                let committed = isolated && self.config.read_committed;
                requests::list_offsets(goals, committed, &self.config, partitions)
            }
            LookupKind::EpochEndOffset => requests::offset_for_leader_epoch(goals, partitions),
        };
        for slot in &slots {
            if let Some(task) = self.lookups.get_mut(slot) {
                task.request = Some((id, node));
            }
        }
        out.push(PositionAction::Send(OutboundRequest {
            target: Target::Node(node),
            channel: Channel::Control,
            request,
            token: Token { owner: RequestOwner::Position, id },
            timeout: self.config.request_timeout,
        }));
        self.in_flight.push(InFlight { id, ask, slots });
    }

    fn on_reply(&mut self, now: Nanos, reply: &Reply, partitions: &mut PartitionTable, out: &mut Vec<PositionAction>) {
        let Some(at) = self.in_flight.iter().position(|request| request.id == reply.token.id) else { return };
        let InFlight { id, ask, mut slots } = self.in_flight.swap_remove(at);
        // A result belongs to a lookup only if the lookup still waits for exactly this request.
        slots.retain(|slot| {
            self.lookups.get(slot).is_some_and(|task| {
                task.request.is_some_and(|(request, _)| request == id)
                    && task.generation == partitions.fetch_generation(*slot)
            })
        });
        let answers = match &reply.result {
            Ok(response) => parse_response(ask, response, &slots, partitions),
            Err(RequestError::Unsupported { .. }) if ask == LookupKind::EpochEndOffset => {
                // A broker that cannot compare epochs cannot contradict the position either.
                slots.drain(..).for_each(|slot| self.complete(slot, partitions, out));
                return;
            }
            Err(_) => HashMap::new(),
        };
        for slot in slots {
            match answers.get(&slot) {
                // A failed request, or a response without the partition, says nothing about the position (P14).
                None => self.retry(now, slot, ErrorCode::NONE, partitions, out),
                Some(answer) if answer.code == ErrorCode::NONE => {
                    self.on_offset_result(now, slot, *answer, partitions, out)
                }
                Some(answer) => self.on_error(now, slot, answer.code, partitions, out),
            }
        }
    }

    fn retry(
        &mut self,
        now: Nanos,
        slot: PartitionHandle,
        code: ErrorCode,
        partitions: &PartitionTable,
        out: &mut Vec<PositionAction>,
    ) {
        self.needs_metadata = true;
        let Self { lookups: tasks, config, rng, .. } = self;
        if let Some(task) = tasks.get_mut(&slot) {
            task.last_error = code;
            if task.retry(now, config, rng) {
                out.push(waiting_log_event(now, slot, task, code, partitions));
            }
        }
    }

    /// Handles an error that the broker will not resolve: the partition stops, or the lookup is retried until the cause
    /// is gone.
    fn on_fatal_error(
        &mut self,
        now: Nanos,
        slot: PartitionHandle,
        error: PartitionError,
        partitions: &mut PartitionTable,
        out: &mut Vec<PositionAction>,
    ) {
        let longest = self.config.fatal_retry_backoff_max.filter(|_| error.policy() == RecoveryPolicy::Retry);
        let Some(longest) = longest else { return self.fail(slot, error, partitions, out) };
        let Self { lookups: tasks, config, rng, .. } = self;
        if let Some(task) = tasks.get_mut(&slot) {
            task.retry_with_backoff_max(now, longest, config, rng);
            out.push(PositionAction::Failed { slot, error });
        }
    }

    /// Returns the error code of the lookup's last response (`NONE`: no error yet); `None`: no lookup.
    pub fn last_error(&self, slot: PartitionHandle) -> Option<ErrorCode> {
        self.lookups.get(&slot).map(|task| task.last_error)
    }

    fn on_error(
        &mut self,
        now: Nanos,
        slot: PartitionHandle,
        code: ErrorCode,
        partitions: &mut PartitionTable,
        out: &mut Vec<PositionAction>,
    ) {
        let tp = partitions.name(slot);
        if code == ErrorCode::TOPIC_AUTHORIZATION_FAILED {
            self.on_fatal_error(now, slot, PartitionError::NotAuthorized { tp }, partitions, out);
        } else if is_fatal(code) {
            self.on_fatal_error(now, slot, PartitionError::Refused { tp, code }, partitions, out);
        } else {
            self.retry(now, slot, code, partitions, out);
        }
    }

    fn on_offset_result(
        &mut self,
        now: Nanos,
        slot: PartitionHandle,
        answer: OffsetResult,
        partitions: &mut PartitionTable,
        out: &mut Vec<PositionAction>,
    ) {
        let Some(task) = self.lookups.get_mut(&slot) else { return };
        match task.goal {
            LookupGoal::Validate { .. } => self.detect_truncation(slot, answer.epoch, answer.offset, partitions, out),
            LookupGoal::Find(OffsetQuery::Timestamp(_)) if answer.offset < 0 => {
                task.advance(LookupGoal::Find(OffsetQuery::Latest))
            }
            _ if answer.offset < 0 => self.retry(now, slot, ErrorCode::NONE, partitions, out),
            LookupGoal::Find(_) => {
                partitions.set_fetch_offset(slot, answer.offset);
                partitions.set_last_fetched_epoch(slot, answer.epoch.max(-1));
                self.complete(slot, partitions, out);
            }
            LookupGoal::RangeStart => task.advance(LookupGoal::RangeEnd { log_start: answer.offset }),
            LookupGoal::RangeEnd { log_start } => {
                self.on_log_range(now, slot, log_start, answer.offset, partitions, out)
            }
            LookupGoal::ResetToLatest { log_start, log_end } => {
                self.reset(slot, answer.offset, (log_start, log_end), partitions, out);
            }
            LookupGoal::Wait => {}
        }
    }

    /// Compares the position with the leader's log range, after a report that the position is out of range.
    fn on_log_range(
        &mut self,
        now: Nanos,
        slot: PartitionHandle,
        log_start: i64,
        log_end: i64,
        partitions: &mut PartitionTable,
        out: &mut Vec<PositionAction>,
    ) {
        let offset = partitions.fetch_offset(slot);
        if (log_start..=log_end).contains(&offset) {
            // The log contains the offset, but not the client's epoch. Continue without an epoch, but never in a tight
            // loop.
            partitions.set_last_fetched_epoch(slot, -1);
            if let Some(task) = self.lookups.get_mut(&slot) {
                task.advance(LookupGoal::Wait);
                task.not_before = now.saturating_add(self.config.retry_backoff_max);
            }
            return;
        }
        match self.config.reset {
            ResetPolicy::None => {
                let tp = partitions.name(slot);
                self.fail(slot, PartitionError::OffsetOutOfRange { tp, offset, log_start, log_end }, partitions, out);
            }
            ResetPolicy::Earliest => self.reset(slot, log_start, (log_start, log_end), partitions, out),
            ResetPolicy::Latest if self.config.read_committed => {
                if let Some(task) = self.lookups.get_mut(&slot) {
                    task.advance(LookupGoal::ResetToLatest { log_start, log_end });
                }
            }
            ResetPolicy::Latest => self.reset(slot, log_end, (log_start, log_end), partitions, out),
        }
    }

    fn reset(
        &mut self,
        slot: PartitionHandle,
        to: i64,
        (log_start, log_end): (i64, i64),
        partitions: &mut PartitionTable,
        out: &mut Vec<PositionAction>,
    ) {
        let (tp, from) = (partitions.name(slot), partitions.fetch_offset(slot));
        partitions.move_to(slot, to, -1);
        out.push(PositionAction::LogEvent(FetchLogEvent::OffsetReset { tp, from, to, log_start, log_end }));
        self.complete(slot, partitions, out);
    }

    /// Compares the logs: the leader's log has `epoch` up to `end_offset`, and the client's position has the same or a
    /// later epoch.
    fn detect_truncation(
        &mut self,
        slot: PartitionHandle,
        epoch: i32,
        end_offset: i64,
        partitions: &mut PartitionTable,
        out: &mut Vec<PositionAction>,
    ) {
        let position = partitions.fetch_offset(slot);
        if epoch < 0 || end_offset < 0 {
            // Undefined: the leader has no history that old. No data is lost; there is only nothing to compare with.
            partitions.set_last_fetched_epoch(slot, -1);
        } else if end_offset < position {
            let tp = partitions.name(slot);
            if self.config.reset == ResetPolicy::None {
                self.fail(slot, PartitionError::LogTruncated { tp, position, end_offset }, partitions, out);
                return;
            }
            partitions.move_to(slot, end_offset, epoch);
            out.push(PositionAction::LogEvent(FetchLogEvent::Truncated { tp, from: position, to: end_offset }));
        } else if epoch < partitions.last_fetched_epoch(slot) {
            // Each such response lowers the epoch, so the comparisons end.
            partitions.set_last_fetched_epoch(slot, epoch);
        } else if epoch > partitions.last_fetched_epoch(slot) {
            partitions.set_last_fetched_epoch(slot, -1);
        }
        self.complete(slot, partitions, out);
    }
}

/// Makes the partition available to the fetcher.
fn mark_fetchable(slot: PartitionHandle, partitions: &mut PartitionTable, out: &mut Vec<PositionAction>) {
    partitions.set_state(slot, FetchState::Fetching);
    out.push(PositionAction::Ready { slot, offset: partitions.fetch_offset(slot) });
}

fn waiting_log_event(
    now: Nanos,
    slot: PartitionHandle,
    task: &OffsetLookup,
    code: ErrorCode,
    partitions: &PartitionTable,
) -> PositionAction {
    let waited = now.saturating_sub(task.since);
    PositionAction::LogEvent(FetchLogEvent::Waiting { tp: partitions.name(slot), waited, code })
}

/// Returns the results in a response, by partition. An undecodable response has none.
fn parse_response(
    ask: LookupKind,
    response: &Response,
    slots: &[PartitionHandle],
    partitions: &PartitionTable,
) -> HashMap<PartitionHandle, OffsetResult> {
    let mut by_name: HashMap<(&str, i32), PartitionHandle> = HashMap::with_capacity(slots.len());
    for &slot in slots {
        if let Some(tp) = partitions.topic_partition(slot) {
            by_name.insert((&tp.topic, tp.partition), slot);
        }
    }
    let mut answers = HashMap::with_capacity(slots.len());
    let mut put = |topic: &str, partition: i32, code: i16, offset: i64, epoch: i32| {
        if let Some(&slot) = by_name.get(&(topic, partition)) {
            answers.insert(slot, OffsetResult { code: ErrorCode(code), offset, epoch });
        }
    };
    match ask {
        LookupKind::ListOffsets { .. } => {
            let Ok(body) = response.decode(ListOffsetsResponse::decode) else { return HashMap::new() };
            for topic in &body.topics {
                for p in &topic.partitions {
                    put(&topic.name, p.partition_index, p.error_code, p.offset, p.leader_epoch);
                }
            }
        }
        LookupKind::EpochEndOffset => {
            let Ok(body) = response.decode(OffsetForLeaderEpochResponse::decode) else { return HashMap::new() };
            for topic in &body.topics {
                for p in &topic.partitions {
                    put(&topic.topic, p.partition, p.error_code, p.end_offset, p.leader_epoch);
                }
            }
        }
    }
    answers
}
