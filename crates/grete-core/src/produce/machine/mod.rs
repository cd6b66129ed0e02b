//! Sends batches, in order, until what became of them is known.
//!
//! ```text
//! accumulator --take--> piece --stamp, send--> flight --written, refused--> settled
//!                         ^                      |
//!                         +------- retry <-------+ not now, no answer, too large (in halves)
//! ```
//!
//! Not obvious:
//! - A partition has several batches on their way only as long as all goes well. While one is to be sent again, there
//!   is one at a time, so that order holds whatever happens.
//! - Numbers that nobody will use leave a hole, and a broker takes nothing behind it. If it is certain that nothing was
//!   written under them (`Lane::hole`), what follows is numbered anew. If it is not (`Lane::broken`), only another
//!   epoch helps. Either waits until nothing of the partition is ambiguous: a batch gets another number only when it is
//!   certain that it was not written under the old one. Meanwhile other partitions go on.
//! - A drain on a caller's thread and one on the network thread are the same: `step`.

mod answer;
mod drain;
mod identity;
mod lane;
mod losses;
mod node;
mod piece;
mod sequence;
mod settle;
mod verdict;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::{MutexGuard, PoisonError};

use grete_wire::records::Compressor;

use super::accumulator::{Accumulator, PartitionId, SharedAccumulator};
use super::config::ProduceConfig;
use super::error::FatalError;
use super::event::{ProduceAction, ProduceEvent, ProduceStats};
use crate::request::{NO_NODE, Owner, Reply, Token};
use crate::rng::{Backoff, Rng};
use crate::time::{Nanos, earlier};
use crate::view::ClusterView;
use drain::InFlight;
use identity::Identities;
use lane::{Lane, REMEMBERED};
use losses::Losses;
use node::Node;
use piece::Piece;
use settle::Why;

/// See the module.
#[derive(Debug)]
pub struct ProduceMachine {
    config: ProduceConfig,
    accumulator: SharedAccumulator,
    rng: Rng,
    compressor: Compressor,
    /// By [`PartitionId`].
    lanes: Vec<Lane>,
    nodes: Vec<Node>,
    /// By token.
    requests: BTreeMap<u32, InFlight>,
    /// Of batches that were split: records that are not settled.
    splits: HashMap<u64, u32>,
    /// Of requests that are not answered: batches that may still wait for their socket.
    unwritten: Vec<Piece>,
    unwritten_look: Nanos,
    identities: Identities,
    /// Who waits out a backoff, the first to wake on top.
    sleepers: BinaryHeap<Reverse<(Nanos, PartitionId)>>,
    next_token: u32,
    /// When connections and mutes are to be looked at again.
    node_look: Option<Nanos>,
    forget_look: Option<Nanos>,
    wake: Option<Nanos>,
    /// Somebody produces.
    used: bool,
    failed: Option<FatalError>,
    closing: Option<Nanos>,
    finished: bool,
    /// Set within a step, told once at its end.
    stale_metadata: bool,
    losses: Losses,
    stats: ProduceStats,
    ready: Vec<PartitionId>,
    served: Vec<PartitionId>,
}

impl ProduceMachine {
    /// A machine that has sent nothing.
    #[must_use]
    pub fn new(mut config: ProduceConfig, accumulator: SharedAccumulator, rng: Rng) -> Self {
        // Numbers are of no use to a broker that does not wait for its followers: a new leader would not know them.
        config.idempotent &= config.acks == -1;
        config.max_in_flight = config.max_in_flight.max(1);
        if config.idempotent {
            config.max_in_flight = config.max_in_flight.min(REMEMBERED);
        }
        let backoff = Backoff::new(config.retry_backoff, config.retry_backoff_max);
        Self {
            config,
            accumulator,
            rng,
            compressor: Compressor::new(),
            lanes: Vec::new(),
            nodes: Vec::new(),
            requests: BTreeMap::new(),
            splits: HashMap::new(),
            unwritten: Vec::new(),
            unwritten_look: 0,
            identities: Identities::new(backoff),
            sleepers: BinaryHeap::new(),
            next_token: 0,
            node_look: None,
            forget_look: None,
            wake: None,
            used: false,
            failed: None,
            closing: None,
            finished: false,
            stale_metadata: false,
            losses: Losses::default(),
            stats: ProduceStats::default(),
            ready: Vec::new(),
            served: Vec::new(),
        }
    }

    /// When the next `Tick` is due, if nothing happens before.
    #[must_use]
    pub fn deadline(&self) -> Option<Nanos> {
        self.wake
    }

    /// Counts since the start.
    #[must_use]
    pub fn stats(&self) -> ProduceStats {
        self.stats
    }

    /// Takes one event, appends what has to be done.
    pub fn step(&mut self, now: Nanos, event: ProduceEvent, view: &impl ClusterView, out: &mut Vec<ProduceAction>) {
        if self.finished {
            return;
        }
        match event {
            ProduceEvent::Tick | ProduceEvent::Drain | ProduceEvent::Unmuted(_) => {}
            ProduceEvent::Reply(reply) => self.on_reply(now, reply, out),
            ProduceEvent::MetadataChanged => self.on_metadata(now, view, out),
            ProduceEvent::NodeReady(node) | ProduceEvent::NodeLost(node) => {
                if let Some(node) = self.nodes.iter_mut().find(|other| other.id == node) {
                    node.asked_until = 0;
                }
            }
            ProduceEvent::Close { deadline } => {
                lock(&self.accumulator).shut(None);
                self.closing = Some(self.closing.map_or(deadline, |closing| closing.min(deadline)));
            }
            ProduceEvent::Fatal(error) => self.fail(now, error, out),
        }
        self.drop_written(now);
        self.wake_sleepers(now);
        self.collect(now);
        self.expire(now, out);
        if self.closing.is_some_and(|deadline| now >= deadline) {
            self.give_up_all(now, &Why::Closed, out);
        }
        self.drain(now, view, out);
        self.conclude(now, out);
    }

    /// As if so many records had been written.
    #[cfg(test)]
    pub(crate) fn set_next_sequence(&mut self, lane: usize, next: i32) {
        let identity = self.identities.current.expect("known");
        let lane = &mut self.lanes[lane];
        (lane.identity, lane.next, lane.written) = (identity, next, next);
    }

    /// As if each partition had had a batch.
    #[cfg(test)]
    pub(in crate::produce) fn prove(&mut self) {
        if let Some(identity) = self.identities.current {
            for lane in &mut self.lanes {
                (lane.identity, lane.proven) = (identity, true);
            }
        }
    }

    /// Partitions that stand in queues.
    #[cfg(test)]
    pub(in crate::produce) fn queued(&self) -> usize {
        self.nodes.iter().map(|node| node.queue.len()).sum()
    }

    fn on_reply(&mut self, now: Nanos, reply: Reply, out: &mut Vec<ProduceAction>) {
        if self.identities.awaits(reply.token.id) {
            self.on_identity(now, reply, out);
        } else if let Some(request) = self.requests.remove(&reply.token.id) {
            self.on_answer(now, request, reply, out);
        }
    }

    fn on_metadata(&mut self, now: Nanos, view: &impl ClusterView, out: &mut Vec<ProduceAction>) {
        let (mut arrived, mut refused) = (Vec::new(), Vec::new());
        lock(&self.accumulator).update(view, &mut arrived, &mut refused);
        self.lanes.extend(arrived.into_iter().map(Lane::new));
        for (id, code) in refused {
            self.give_up_partition(now, id, &Why::Refused(code), out);
        }
        for index in 0..self.lanes.len() {
            let Some(lane) = self.lanes.get_mut(index) else { continue };
            let leader = view.leader(&lane.tp).map_or(NO_NODE, |(node, _)| node);
            if lane.leader == leader {
                continue;
            }
            lane.leader = leader;
            lane.queued = false;
            // The backoff was for the old leader.
            lane.not_before = 0;
            if leader != NO_NODE && !self.nodes.iter().any(|node| node.id == leader) {
                self.nodes.push(Node::new(leader));
            }
            self.enqueue(now, PartitionId(u32::try_from(index).unwrap_or(u32::MAX)));
        }
    }

    /// Nothing will be sent any more.
    fn fail(&mut self, now: Nanos, error: FatalError, out: &mut Vec<ProduceAction>) {
        if self.failed.is_some() {
            return;
        }
        self.failed = Some(error.clone());
        lock(&self.accumulator).shut(Some(error.clone()));
        self.give_up_all(now, &Why::Fatal(error.clone()), out);
        out.push(ProduceAction::Fatal(error));
    }

    /// Hears from the accumulator who has something to send.
    fn collect(&mut self, now: Nanos) {
        let mut ready = std::mem::take(&mut self.ready);
        lock(&self.accumulator).collect(now, &mut ready);
        for id in ready.drain(..) {
            if let Some(lane) = self.lane(id) {
                lane.ready = true;
            }
            self.enqueue(now, id);
        }
        self.ready = ready;
    }

    fn wake_sleepers(&mut self, now: Nanos) {
        while let Some(&Reverse((_, id))) = self.sleepers.peek().filter(|Reverse((at, _))| *at <= now) {
            self.sleepers.pop();
            if let Some(lane) = self.lane(id) {
                lane.asleep = false;
            }
            self.enqueue(now, id);
        }
    }

    /// Puts a partition into its leader's queue, if there is something to send and it may be sent now.
    fn enqueue(&mut self, now: Nanos, id: PartitionId) {
        let Some(lane) = self.lanes.get_mut(id.0 as usize) else { return };
        if lane.queued || !lane.wants() {
            return;
        }
        if lane.leader == NO_NODE {
            // A metadata answer with a leader brings it here again.
            self.stale_metadata = true;
            return;
        }
        if now < lane.not_before {
            if !lane.asleep {
                lane.asleep = true;
                self.sleepers.push(Reverse((lane.not_before, id)));
            }
            return;
        }
        let Some(node) = self.nodes.iter_mut().find(|node| node.id == lane.leader) else { return };
        lane.queued = true;
        node.queue.push_back(id);
    }

    fn enqueue_all(&mut self, now: Nanos) {
        for index in 0..self.lanes.len() {
            self.enqueue(now, PartitionId(u32::try_from(index).unwrap_or(u32::MAX)));
        }
    }

    fn lane(&mut self, id: PartitionId) -> Option<&mut Lane> {
        self.lanes.get_mut(id.0 as usize)
    }

    fn next_token(&mut self) -> u32 {
        let token = self.next_token;
        self.next_token = self.next_token.wrapping_add(1);
        token
    }

    /// The end of a step: tells what has changed, and says when to look again.
    fn conclude(&mut self, now: Nanos, out: &mut Vec<ProduceAction>) {
        let mut accumulator = lock(&self.accumulator);
        if self.forget_look.is_some_and(|look| now >= look) {
            self.forget_look = accumulator.forget_unused(now);
        }
        self.stale_metadata |= accumulator.take_doubted();
        if accumulator.take_interest_changed() {
            self.used = true;
            self.forget_look = accumulator.forget_unused(now);
            out.push(ProduceAction::Interest);
        }
        let signals = accumulator.signals();
        let settled = accumulator.is_settled();
        let batches = earlier(accumulator.next_linger(), accumulator.next_expiry());
        let asleep = self.sleepers.peek().map(|Reverse((at, _))| *at);
        let nodes = earlier(self.node_look, if self.used { self.identities.deadline() } else { None });
        let unwritten = (!self.unwritten.is_empty()).then_some(self.unwritten_look);
        let own = earlier(earlier(self.forget_look, self.closing), unwritten);
        self.wake = earlier(earlier(batches, asleep), earlier(nodes, own));
        if accumulator.has_ready() {
            self.wake = Some(now); // told of since this step listened
        }
        accumulator.arm(self.wake);
        drop(accumulator);
        if self.used && self.failed.is_none() {
            self.want_identity(now, out);
        }
        if signals.room {
            out.push(ProduceAction::Room);
        }
        if signals.progress {
            out.push(ProduceAction::Progress);
        }
        if signals.topic {
            out.push(ProduceAction::TopicKnown);
        }
        if std::mem::take(&mut self.stale_metadata) {
            out.push(ProduceAction::RefreshMetadata);
        }
        self.losses.tell(out);
        if self.closing.is_some() && settled {
            self.finished = true;
            self.wake = None;
            out.push(ProduceAction::Finished);
        }
    }
}

fn lock(accumulator: &SharedAccumulator) -> MutexGuard<'_, Accumulator> {
    // Whoever panicked with the lock held did so between two fields that do not depend on each other.
    accumulator.lock().unwrap_or_else(PoisonError::into_inner)
}

fn token(id: u32) -> Token {
    Token { owner: Owner::Produce, id }
}
