//! Finds the offset that each slot goes on from; slots are independent of each other (P13).

use std::collections::{BTreeMap, HashMap};

use grete_wire::error_code::ErrorCode;
use grete_wire::messages::{ListOffsetsResponse, OffsetForLeaderEpochResponse};

use crate::fetch_notice::FetchNotice;
use crate::ids::{NodeId, Slot};
use crate::partitions::{Partitions, SlotState};
use crate::request::{Channel, NO_NODE, Outgoing, Owner, Reply, RequestError, Response, Target, Token};
use crate::rng::Rng;
use crate::slot_error::SlotError;
use crate::time::{Nanos, earlier};
use crate::view::ClusterView;

use super::ask;
use super::config::{PositionConfig, ResetPolicy};
use super::event::{PositionAction, PositionEvent, StartAt};
use super::task::{Ask, Goal, Query, Task, is_final};

/// A request that is on its way.
#[derive(Debug)]
struct InFlight {
    id: u32,
    ask: Ask,
    slots: Vec<Slot>,
}

/// An answer about one partition.
#[derive(Debug, Clone, Copy)]
struct Answer {
    code: ErrorCode,
    offset: i64,
    epoch: i32,
}

/// Resolves start positions, resets and truncations.
#[derive(Debug)]
pub struct PositionMachine {
    config: PositionConfig,
    rng: Rng,
    tasks: BTreeMap<Slot, Task>,
    in_flight: Vec<InFlight>,
    next_token: u32,
    wake: Option<Nanos>,
    stale_metadata: bool,
    layout: u64,
}

impl PositionMachine {
    /// A machine with nothing to do.
    #[must_use]
    pub fn new(config: PositionConfig, rng: Rng) -> Self {
        Self {
            config,
            rng,
            tasks: BTreeMap::new(),
            in_flight: Vec::new(),
            next_token: 0,
            wake: None,
            stale_metadata: false,
            layout: 0,
        }
    }

    /// When the next `Tick` is due, if nothing happens before.
    #[must_use]
    pub fn deadline(&self) -> Option<Nanos> {
        self.wake
    }

    /// How many slots wait for a position.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.tasks.len()
    }

    /// Takes one event, appends what has to be done.
    pub fn step(
        &mut self,
        now: Nanos,
        event: PositionEvent,
        view: &impl ClusterView,
        partitions: &mut Partitions,
        out: &mut Vec<PositionAction>,
    ) {
        partitions.refresh(view);
        if self.layout != partitions.layout() {
            self.layout = partitions.layout();
            self.on_leaders(now, partitions);
        }
        match event {
            PositionEvent::Start { slot, at, leader_epoch } => self.start(now, slot, at, leader_epoch, partitions, out),
            PositionEvent::Starts(starts) => {
                for (slot, at, leader_epoch) in starts {
                    self.start(now, slot, at, leader_epoch, partitions, out);
                }
            }
            PositionEvent::Hold { slot } => {
                if partitions.is_live(slot) {
                    self.tasks.remove(&slot);
                    partitions.move_to(slot, partitions.fetch_offset(slot), -1);
                    partitions.set_state(slot, SlotState::Resolving);
                }
            }
            PositionEvent::OutOfRange { slot } => self.begin(now, slot, Goal::RangeStart, partitions),
            PositionEvent::Diverged { slot, epoch, end_offset } => {
                if partitions.state(slot) == SlotState::Resolving {
                    self.compare(slot, epoch, end_offset, partitions, out);
                }
            }
            PositionEvent::Validate { slot } => {
                let epoch = partitions.last_fetched_epoch(slot);
                self.begin(now, slot, Goal::Validate { epoch }, partitions);
            }
            PositionEvent::Reply(reply) => self.on_reply(now, &reply, partitions, out),
            PositionEvent::LeaderChanged | PositionEvent::Tick => {}
        }
        self.flush(now, partitions, out);
        if std::mem::take(&mut self.stale_metadata) {
            out.push(PositionAction::RefreshMetadata);
        }
    }

    fn start(
        &mut self,
        now: Nanos,
        slot: Slot,
        at: StartAt,
        leader_epoch: i32,
        partitions: &mut Partitions,
        out: &mut Vec<PositionAction>,
    ) {
        if !partitions.is_live(slot) {
            return;
        }
        self.tasks.remove(&slot);
        let query = match at {
            StartAt::Offset(offset) => {
                partitions.move_to(slot, offset.max(0), leader_epoch.max(-1));
                if leader_epoch >= 0 {
                    self.begin(now, slot, Goal::Validate { epoch: leader_epoch }, partitions);
                } else {
                    ready(slot, partitions, out);
                }
                return;
            }
            StartAt::Earliest => Query::Earliest,
            StartAt::Latest => Query::Latest,
            StartAt::Timestamp(ms) => Query::Timestamp(ms),
            StartAt::Reset => match self.config.reset {
                ResetPolicy::Earliest => Query::Earliest,
                ResetPolicy::Latest => Query::Latest,
                ResetPolicy::None => {
                    self.fail(slot, SlotError::NoOffset { tp: partitions.name(slot) }, partitions, out);
                    return;
                }
            },
        };
        partitions.move_to(slot, partitions.fetch_offset(slot), -1);
        self.begin(now, slot, Goal::Find(query), partitions);
    }

    fn begin(&mut self, now: Nanos, slot: Slot, goal: Goal, partitions: &mut Partitions) {
        if partitions.is_live(slot) {
            partitions.set_state(slot, SlotState::Resolving);
            self.tasks.insert(slot, Task::new(now, goal, partitions.fetch_generation(slot), &self.config));
        }
    }

    fn fail(&mut self, slot: Slot, error: SlotError, partitions: &mut Partitions, out: &mut Vec<PositionAction>) {
        self.tasks.remove(&slot);
        partitions.set_state(slot, SlotState::Failed);
        partitions.new_generation(slot);
        out.push(PositionAction::Failed { slot, error });
    }

    fn finish(&mut self, slot: Slot, partitions: &mut Partitions, out: &mut Vec<PositionAction>) {
        self.tasks.remove(&slot);
        ready(slot, partitions, out);
    }

    /// A task that waits for a node which no longer leads asks the new leader at once (P12); the old one's answer finds a
    /// task that waits for another request, or for none.
    fn on_leaders(&mut self, now: Nanos, partitions: &Partitions) {
        for (&slot, task) in &mut self.tasks {
            let leader = partitions.leader(slot);
            let moved = task.request.is_some_and(|(_, node)| node != leader);
            let appeared = task.request.is_none() && leader != NO_NODE && task.failures <= 3 && task.goal != Goal::Hold;
            if moved || appeared {
                task.request = None;
                task.not_before = task.not_before.min(now);
            }
        }
    }

    /// Asks what has to be asked: one request per node and kind.
    fn flush(&mut self, now: Nanos, partitions: &mut Partitions, out: &mut Vec<PositionAction>) {
        self.wake = None;
        let mut batches: BTreeMap<(NodeId, Ask), Vec<Slot>> = BTreeMap::new();
        let mut done = Vec::new();
        let Self { tasks, config, rng, wake, stale_metadata, .. } = self;
        // Void are the tasks of slots that were removed, sought or stopped since.
        tasks.retain(|&slot, task| {
            partitions.state(slot) == SlotState::Resolving && partitions.fetch_generation(slot) == task.generation
        });
        for (&slot, task) in tasks {
            if task.request.is_some() {
                continue;
            }
            if now < task.not_before {
                *wake = earlier(*wake, Some(task.not_before));
                continue;
            }
            let leader = partitions.leader(slot);
            let valid = matches!(task.goal, Goal::Validate { epoch } if leader != NO_NODE && partitions.leader_epoch(slot) <= epoch);
            match task.goal.ask().filter(|_| !valid) {
                None => done.push(slot),
                Some(_) if leader == NO_NODE => {
                    *stale_metadata = true;
                    if task.retry(now, config, rng) {
                        out.push(waiting(now, slot, task, ErrorCode::LEADER_NOT_AVAILABLE, partitions));
                    }
                    *wake = earlier(*wake, Some(task.not_before));
                }
                Some(ask) => batches.entry((leader, ask)).or_default().push(slot),
            }
        }
        for slot in done {
            self.finish(slot, partitions, out);
        }
        for ((node, ask), slots) in batches {
            self.send(node, ask, slots, partitions, out);
        }
    }

    fn send(
        &mut self,
        node: NodeId,
        ask: Ask,
        slots: Vec<Slot>,
        partitions: &Partitions,
        out: &mut Vec<PositionAction>,
    ) {
        let id = self.next_token;
        self.next_token = self.next_token.wrapping_add(1);
        let goals = slots.iter().filter_map(|slot| self.tasks.get(slot).map(|task| (*slot, task.goal)));
        let request = match ask {
            Ask::Offsets { isolated } => {
                let committed = isolated && self.config.read_committed;
                ask::list_offsets(goals, committed, &self.config, partitions)
            }
            Ask::Epoch => ask::epoch_ends(goals, partitions),
        };
        for slot in &slots {
            if let Some(task) = self.tasks.get_mut(slot) {
                task.request = Some((id, node));
            }
        }
        out.push(PositionAction::Send(Outgoing {
            target: Target::Node(node),
            channel: Channel::Control,
            request,
            token: Token { owner: Owner::Position, id },
            timeout: self.config.request_timeout,
        }));
        self.in_flight.push(InFlight { id, ask, slots });
    }

    fn on_reply(&mut self, now: Nanos, reply: &Reply, partitions: &mut Partitions, out: &mut Vec<PositionAction>) {
        let Some(at) = self.in_flight.iter().position(|request| request.id == reply.token.id) else { return };
        let InFlight { id, ask, mut slots } = self.in_flight.swap_remove(at);
        // Answers belong to tasks that still wait for exactly this request.
        slots.retain(|slot| {
            self.tasks.get(slot).is_some_and(|task| {
                task.request.is_some_and(|(request, _)| request == id)
                    && task.generation == partitions.fetch_generation(*slot)
            })
        });
        let answers = match &reply.result {
            Ok(response) => read(ask, response, &slots, partitions),
            Err(RequestError::Unsupported { .. }) if ask == Ask::Epoch => {
                // A broker that cannot compare epochs cannot contradict us either.
                slots.drain(..).for_each(|slot| self.finish(slot, partitions, out));
                return;
            }
            Err(_) => HashMap::new(),
        };
        for slot in slots {
            match answers.get(&slot) {
                // Not answered, or not named in the answer: that says nothing about the position (P14).
                None => self.retry(now, slot, ErrorCode::NONE, partitions, out),
                Some(answer) if answer.code == ErrorCode::NONE => self.on_answer(now, slot, *answer, partitions, out),
                Some(answer) => self.on_error(now, slot, answer.code, partitions, out),
            }
        }
    }

    fn retry(
        &mut self,
        now: Nanos,
        slot: Slot,
        code: ErrorCode,
        partitions: &Partitions,
        out: &mut Vec<PositionAction>,
    ) {
        self.stale_metadata = true;
        let Self { tasks, config, rng, .. } = self;
        if let Some(task) = tasks.get_mut(&slot)
            && task.retry(now, config, rng)
        {
            out.push(waiting(now, slot, task, code, partitions));
        }
    }

    fn on_error(
        &mut self,
        now: Nanos,
        slot: Slot,
        code: ErrorCode,
        partitions: &mut Partitions,
        out: &mut Vec<PositionAction>,
    ) {
        let tp = partitions.name(slot);
        if code == ErrorCode::TOPIC_AUTHORIZATION_FAILED {
            self.fail(slot, SlotError::NotAuthorized { tp }, partitions, out);
        } else if is_final(code) {
            self.fail(slot, SlotError::Refused { tp, code }, partitions, out);
        } else {
            self.retry(now, slot, code, partitions, out);
        }
    }

    fn on_answer(
        &mut self,
        now: Nanos,
        slot: Slot,
        answer: Answer,
        partitions: &mut Partitions,
        out: &mut Vec<PositionAction>,
    ) {
        let Some(task) = self.tasks.get_mut(&slot) else { return };
        match task.goal {
            Goal::Validate { .. } => self.compare(slot, answer.epoch, answer.offset, partitions, out),
            Goal::Find(Query::Timestamp(_)) if answer.offset < 0 => task.go_on(Goal::Find(Query::Latest)),
            _ if answer.offset < 0 => self.retry(now, slot, ErrorCode::NONE, partitions, out),
            Goal::Find(_) => {
                partitions.set_fetch_offset(slot, answer.offset);
                partitions.set_last_fetched_epoch(slot, answer.epoch.max(-1));
                self.finish(slot, partitions, out);
            }
            Goal::RangeStart => task.go_on(Goal::RangeEnd { log_start: answer.offset }),
            Goal::RangeEnd { log_start } => self.on_range(now, slot, log_start, answer.offset, partitions, out),
            Goal::ResetToLatest { log_start, log_end } => {
                self.reset(slot, answer.offset, (log_start, log_end), partitions, out);
            }
            Goal::Hold => {}
        }
    }

    /// The leader was asked for its range: now the position is out of it, or it never was.
    fn on_range(
        &mut self,
        now: Nanos,
        slot: Slot,
        log_start: i64,
        log_end: i64,
        partitions: &mut Partitions,
        out: &mut Vec<PositionAction>,
    ) {
        let offset = partitions.fetch_offset(slot);
        if (log_start..=log_end).contains(&offset) {
            // The log has the offset; what it lacks is our epoch. Fetch on without it, but never in a tight loop.
            partitions.set_last_fetched_epoch(slot, -1);
            if let Some(task) = self.tasks.get_mut(&slot) {
                task.go_on(Goal::Hold);
                task.not_before = now.saturating_add(self.config.retry_backoff_max);
            }
            return;
        }
        match self.config.reset {
            ResetPolicy::None => {
                let tp = partitions.name(slot);
                self.fail(slot, SlotError::OffsetOutOfRange { tp, offset, log_start, log_end }, partitions, out);
            }
            ResetPolicy::Earliest => self.reset(slot, log_start, (log_start, log_end), partitions, out),
            ResetPolicy::Latest if self.config.read_committed => {
                if let Some(task) = self.tasks.get_mut(&slot) {
                    task.go_on(Goal::ResetToLatest { log_start, log_end });
                }
            }
            ResetPolicy::Latest => self.reset(slot, log_end, (log_start, log_end), partitions, out),
        }
    }

    fn reset(
        &mut self,
        slot: Slot,
        to: i64,
        (log_start, log_end): (i64, i64),
        partitions: &mut Partitions,
        out: &mut Vec<PositionAction>,
    ) {
        let (tp, from) = (partitions.name(slot), partitions.fetch_offset(slot));
        partitions.move_to(slot, to, -1);
        out.push(PositionAction::Notice(FetchNotice::OffsetReset { tp, from, to, log_start, log_end }));
        self.finish(slot, partitions, out);
    }

    /// The leader's log has `epoch` up to `end_offset`; ours goes on to the position under a later one, or the same.
    fn compare(
        &mut self,
        slot: Slot,
        epoch: i32,
        end_offset: i64,
        partitions: &mut Partitions,
        out: &mut Vec<PositionAction>,
    ) {
        let position = partitions.fetch_offset(slot);
        if epoch < 0 || end_offset < 0 {
            // Undefined: the leader has no history that old. That is no loss, only nothing to compare with.
            partitions.set_last_fetched_epoch(slot, -1);
        } else if end_offset < position {
            let tp = partitions.name(slot);
            if self.config.reset == ResetPolicy::None {
                self.fail(slot, SlotError::LogTruncated { tp, position, end_offset }, partitions, out);
                return;
            }
            partitions.move_to(slot, end_offset, epoch);
            out.push(PositionAction::Notice(FetchNotice::Truncated { tp, from: position, to: end_offset }));
        } else if epoch < partitions.last_fetched_epoch(slot) {
            // Each such answer lowers the epoch, so that this ends.
            partitions.set_last_fetched_epoch(slot, epoch);
        } else if epoch > partitions.last_fetched_epoch(slot) {
            partitions.set_last_fetched_epoch(slot, -1);
        }
        self.finish(slot, partitions, out);
    }
}

/// Hands the slot to the fetch machine.
fn ready(slot: Slot, partitions: &mut Partitions, out: &mut Vec<PositionAction>) {
    partitions.set_state(slot, SlotState::Fetching);
    out.push(PositionAction::Ready { slot, offset: partitions.fetch_offset(slot) });
}

fn waiting(now: Nanos, slot: Slot, task: &Task, code: ErrorCode, partitions: &Partitions) -> PositionAction {
    let waited = now.saturating_sub(task.since);
    PositionAction::Notice(FetchNotice::Waiting { tp: partitions.name(slot), waited, code })
}

/// The answers in a response, by slot. One that cannot be decoded answers nothing.
fn read(ask: Ask, response: &Response, slots: &[Slot], partitions: &Partitions) -> HashMap<Slot, Answer> {
    let mut by_name: HashMap<(&str, i32), Slot> = HashMap::with_capacity(slots.len());
    for &slot in slots {
        if let Some(tp) = partitions.tp(slot) {
            by_name.insert((&tp.topic, tp.partition), slot);
        }
    }
    let mut answers = HashMap::with_capacity(slots.len());
    let mut put = |topic: &str, partition: i32, code: i16, offset: i64, epoch: i32| {
        if let Some(&slot) = by_name.get(&(topic, partition)) {
            answers.insert(slot, Answer { code: ErrorCode(code), offset, epoch });
        }
    };
    match ask {
        Ask::Offsets { .. } => {
            let Ok(body) = response.decode(ListOffsetsResponse::decode) else { return HashMap::new() };
            for topic in &body.topics {
                for p in &topic.partitions {
                    put(&topic.name, p.partition_index, p.error_code, p.offset, p.leader_epoch);
                }
            }
        }
        Ask::Epoch => {
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
