//! Questions that a user waits for: partitions of a topic, offsets by time, committed offsets.
//!
//! They are answered by machines of their own, of the same kinds as those at work: retries, leaders and coordinators are
//! the same matter, and a question never disturbs an assignment. One question of a kind is under way at a time.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use grete_wire::error_code::ErrorCode;

use super::config::ConsumerCoreConfig;
use super::{ConsumerAction, ConsumerCore, ConsumerReply};
use crate::cluster::ClusterEvent;
use crate::group::{GroupAction, GroupError, GroupEvent, GroupMachine};
use crate::ids::{Slot, TopicPartition};
use crate::partitions::Partitions;
use crate::position::{PositionAction, PositionEvent, PositionMachine, StartAt};
use crate::request::{Outgoing, Owner, Reply};
use crate::rng::Rng;
use crate::time::{Nanos, earlier};

/// Marks the tokens of the machine that asks the coordinator, among those of questions.
const COORDINATOR: u32 = 1 << 31;

/// What is still to be answered.
#[derive(Debug)]
pub(super) struct Questions {
    rng: Rng,
    partitions: Vec<(u32, Arc<str>)>,
    offsets: Offsets,
    committed: Option<Committed>,
}

#[derive(Debug)]
struct Offsets {
    queue: VecDeque<(u32, Vec<(TopicPartition, StartAt)>)>,
    asked: Option<u32>,
    /// What was asked, in order; which of it is looked up under which slot; what was found.
    starts: Vec<(TopicPartition, StartAt)>,
    places: HashMap<Slot, usize>,
    found: Vec<Option<Result<i64, String>>>,
    slots: Partitions,
    machine: PositionMachine,
}

#[derive(Debug)]
struct Committed {
    queue: VecDeque<(u32, Vec<TopicPartition>)>,
    asked: Option<u32>,
    tps: Vec<TopicPartition>,
    found: Vec<(TopicPartition, Option<i64>)>,
    epoch: u32,
    machine: GroupMachine,
}

impl Offsets {
    /// Nobody waits for the answer any more: what still comes in finds no slot.
    fn abandon(&mut self) {
        self.asked = None;
        for (slot, _) in self.places.drain() {
            self.slots.remove(slot);
        }
    }

    /// Looks up what has no answer yet; one start of a partition at a time, because it has one slot.
    fn next_round(&mut self) -> PositionEvent {
        let mut round = BTreeSet::new();
        let mut starts = Vec::new();
        let open = self.starts.iter().zip(&self.found).enumerate().filter(|(_, (_, found))| found.is_none());
        for (index, ((tp, at), _)) in open {
            if round.insert(tp) {
                let slot = self.slots.add(tp.clone(), 0);
                self.places.insert(slot, index);
                starts.push((slot, *at, -1));
            }
        }
        PositionEvent::Starts(starts)
    }
}

impl Questions {
    pub(super) fn new(config: &ConsumerCoreConfig, rng: &mut impl FnMut() -> Rng) -> Self {
        let offsets = Offsets {
            queue: VecDeque::new(),
            asked: None,
            starts: Vec::new(),
            places: HashMap::new(),
            found: Vec::new(),
            slots: Partitions::new(),
            machine: PositionMachine::new(config.position.clone(), rng()),
        };
        let committed = config.group.clone().map(|group| Committed {
            queue: VecDeque::new(),
            asked: None,
            tps: Vec::new(),
            found: Vec::new(),
            epoch: 0,
            machine: GroupMachine::new(group, rng()),
        });
        Self { rng: rng(), partitions: Vec::new(), offsets, committed }
    }

    pub(super) fn deadline(&self) -> Option<Nanos> {
        let committed = self.committed.as_ref().filter(|committed| committed.asked.is_some());
        let offsets = self.offsets.asked.and_then(|_| self.offsets.machine.deadline());
        earlier(offsets, committed.and_then(|committed| committed.machine.deadline()))
    }
}

impl ConsumerCore {
    pub(super) fn ask_partitions(&mut self, now: Nanos, topic: Arc<str>, id: u32, out: &mut Vec<ConsumerAction>) {
        self.want_topic(now, &topic);
        // An error may be of yesterday: only the next answer counts.
        match self.cluster.topic(&topic).filter(|meta| meta.error == ErrorCode::NONE) {
            Some(meta) => {
                let count = i32::try_from(meta.partitions.len()).unwrap_or(i32::MAX);
                out.push(ConsumerAction::Reply(id, ConsumerReply::Partitions(Ok(count))));
            }
            None => self.questions.partitions.push((id, topic)),
        }
    }

    pub(super) fn ask_offsets(
        &mut self,
        now: Nanos,
        starts: Vec<(TopicPartition, StartAt)>,
        id: u32,
        out: &mut Vec<ConsumerAction>,
    ) {
        for (tp, _) in &starts {
            self.want_topic(now, &tp.topic);
        }
        self.questions.offsets.queue.push_back((id, starts));
        self.advance_offsets(now, None, out);
    }

    pub(super) fn ask_committed(
        &mut self,
        now: Nanos,
        tps: Vec<TopicPartition>,
        id: u32,
        out: &mut Vec<ConsumerAction>,
    ) {
        if let Some(committed) = &mut self.questions.committed {
            // Each is answered once, however often it is named.
            let tps: BTreeSet<_> = tps.into_iter().collect();
            committed.queue.push_back((id, tps.into_iter().collect()));
            self.advance_committed(now, None, out);
        } else {
            out.push(ConsumerAction::Reply(id, ConsumerReply::Committed(Vec::new())));
        }
    }

    /// The caller does not wait any more.
    pub(super) fn forget(&mut self, now: Nanos, id: u32, out: &mut Vec<ConsumerAction>) {
        self.questions.partitions.retain(|(other, _)| *other != id);
        let offsets = &mut self.questions.offsets;
        offsets.queue.retain(|(other, _)| *other != id);
        if offsets.asked == Some(id) {
            offsets.abandon();
            self.advance_offsets(now, None, out);
        }
        if let Some(committed) = &mut self.questions.committed {
            committed.queue.retain(|(other, _)| *other != id);
            if committed.asked == Some(id) {
                committed.asked = None;
                self.advance_committed(now, None, out);
            }
        }
    }

    pub(super) fn tick_questions(&mut self, now: Nanos, out: &mut Vec<ConsumerAction>) {
        if self.questions.offsets.asked.is_some() {
            self.advance_offsets(now, Some(PositionEvent::Tick), out);
        }
        if self.questions.committed.as_ref().is_some_and(|committed| committed.asked.is_some()) {
            self.advance_committed(now, Some(GroupEvent::Tick), out);
        }
    }

    pub(super) fn metadata_for_questions(&mut self, now: Nanos, out: &mut Vec<ConsumerAction>) {
        if self.questions.offsets.asked.is_some() {
            self.advance_offsets(now, Some(PositionEvent::LeaderChanged), out);
        }
    }

    pub(super) fn on_answer(&mut self, now: Nanos, mut reply: Reply, out: &mut Vec<ConsumerAction>) {
        if reply.token.id & COORDINATOR == 0 {
            reply.token.owner = Owner::Position;
            self.advance_offsets(now, Some(PositionEvent::Reply(reply)), out);
        } else {
            reply.token.id &= !COORDINATOR;
            reply.token.owner = Owner::Group;
            self.advance_committed(now, Some(GroupEvent::Reply(reply)), out);
        }
    }

    /// After each metadata answer. A topic without an answer is waited for.
    pub(super) fn answer_partitions(&mut self, out: &mut Vec<ConsumerAction>) {
        let cluster = &self.cluster;
        self.questions.partitions.retain(|(id, topic)| {
            let Some(meta) = cluster.topic(topic) else { return true };
            let answer = match meta.error {
                ErrorCode::NONE => Ok(i32::try_from(meta.partitions.len()).unwrap_or(i32::MAX)),
                // Being created, or being elected: the next refresh tells.
                code if code.is_retriable() && code != ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => return true,
                code => Err(code),
            };
            out.push(ConsumerAction::Reply(*id, ConsumerReply::Partitions(answer)));
            false
        });
    }

    /// The group may not be asked: neither this question nor those behind it, and whoever asks later asks anew.
    fn refuse_committed(&mut self, error: GroupError, out: &mut Vec<ConsumerAction>) {
        let (Some(committed), Some(config)) = (&mut self.questions.committed, self.config.group.clone()) else {
            return;
        };
        let waiting = committed.asked.take().into_iter().chain(committed.queue.drain(..).map(|(id, _)| id));
        out.extend(waiting.map(|id| ConsumerAction::Reply(id, ConsumerReply::Refused(error.clone()))));
        committed.tps.clear();
        committed.machine = GroupMachine::new(config, self.questions.rng.split());
    }

    /// Topics are asked about for as long as somebody waits for the answer.
    pub(super) fn forget_topics(&mut self) {
        let questions = &self.questions;
        if questions.partitions.is_empty() && questions.offsets.queue.is_empty() && questions.offsets.asked.is_none() {
            self.topics.asked.clear();
        }
    }

    fn want_topic(&mut self, now: Nanos, topic: &Arc<str>) {
        if !self.topics.asked.contains(topic) {
            self.topics.asked.push(topic.clone());
            self.want_topics(now);
        }
        self.cluster(now, ClusterEvent::RefreshMetadata);
    }

    fn send_question(&mut self, now: Nanos, mut outgoing: Outgoing, mark: u32) {
        outgoing.token.owner = Owner::Client;
        outgoing.token.id |= mark;
        self.cluster(now, ClusterEvent::Send(outgoing));
    }

    fn advance_offsets(&mut self, now: Nanos, event: Option<PositionEvent>, out: &mut Vec<ConsumerAction>) {
        let mut next = event;
        loop {
            let mut event = next.take();
            let offsets = &mut self.questions.offsets;
            if event.is_none() && offsets.asked.is_none() {
                let Some((id, starts)) = offsets.queue.pop_front() else { return };
                offsets.asked = Some(id);
                offsets.found = vec![None; starts.len()];
                offsets.starts = starts;
                event = Some(offsets.next_round());
            }
            let Some(event) = event else { return };
            let mut actions = Vec::new();
            offsets.machine.step(now, event, &self.cluster, &mut offsets.slots, &mut actions);
            for action in actions {
                let offsets = &mut self.questions.offsets;
                let (slot, found) = match action {
                    PositionAction::Send(outgoing) => {
                        self.send_question(now, outgoing, 0);
                        continue;
                    }
                    PositionAction::RefreshMetadata => {
                        self.cluster(now, ClusterEvent::RefreshMetadata);
                        continue;
                    }
                    PositionAction::Notice(_) => continue,
                    PositionAction::Ready { slot, offset } => (slot, Ok(offset)),
                    PositionAction::Failed { slot, error } => (slot, Err(error.to_string())),
                };
                if let Some(place) = offsets.places.remove(&slot).and_then(|index| offsets.found.get_mut(index)) {
                    offsets.slots.remove(slot);
                    *place = Some(found);
                }
            }
            let offsets = &mut self.questions.offsets;
            let Some(id) = offsets.asked.filter(|_| offsets.places.is_empty()) else { return };
            if offsets.found.iter().any(Option::is_none) {
                next = Some(offsets.next_round());
                continue;
            }
            offsets.asked = None;
            let found = std::mem::take(&mut offsets.found).into_iter().flatten();
            let tps = std::mem::take(&mut offsets.starts).into_iter().map(|(tp, _)| tp);
            out.push(ConsumerAction::Reply(id, ConsumerReply::Offsets(tps.zip(found).collect())));
        }
    }

    fn advance_committed(&mut self, now: Nanos, event: Option<GroupEvent>, out: &mut Vec<ConsumerAction>) {
        let mut event = event;
        loop {
            let Some(committed) = &mut self.questions.committed else { return };
            if event.is_none() && committed.asked.is_none() {
                let Some((id, tps)) = committed.queue.pop_front() else { return };
                let old = std::mem::replace(&mut committed.tps, tps.clone());
                committed.asked = Some(id);
                committed.found.clear();
                committed.epoch += 1;
                let mut nothing = Vec::new();
                committed.machine.step(now, GroupEvent::Unassigned { tps: old }, &self.cluster, &mut nothing);
                event = Some(GroupEvent::Assigned { tps, epoch: committed.epoch, load: true });
            }
            let Some(event) = event.take() else { return };
            let mut actions = Vec::new();
            committed.machine.step(now, event, &self.cluster, &mut actions);
            for action in actions {
                match action {
                    GroupAction::Send(outgoing) => self.send_question(now, outgoing, COORDINATOR),
                    GroupAction::LearnNode { node, host, port } => {
                        self.cluster.learn_node(node, &host, i32::from(port));
                    }
                    GroupAction::Position { tp, epoch, start, .. } => {
                        if let Some(committed) = self.questions.committed.as_mut().filter(|c| c.epoch == epoch) {
                            committed.found.push((tp, start));
                        }
                    }
                    GroupAction::Fatal(error) => self.refuse_committed(error, out),
                    _ => {}
                }
            }
            let Some(committed) = &mut self.questions.committed else { return };
            let Some(id) = committed.asked.filter(|_| committed.found.len() >= committed.tps.len()) else { return };
            committed.asked = None;
            out.push(ConsumerAction::Reply(id, ConsumerReply::Committed(std::mem::take(&mut committed.found))));
        }
    }
}
