//! A whole producer without I/O: cluster and produce machine, stepped as one.
//!
//! Records do not come in as events: callers append them to the accumulator, which they share with the machine, and
//! step with `Drain` when they were told that something is ready. What one machine asks for may give the other
//! something to do at once, so actions go through one queue until nothing is left.

mod config;
mod event;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

pub use config::ProducerCoreConfig;
pub use event::{ProducerAction, ProducerEvent, ProducerNotice};

use crate::cluster::{Cluster, ClusterAction, ClusterEvent, ClusterNotice};
use crate::produce::{FatalError, ProduceAction, ProduceEvent, ProduceMachine, ProduceStats, SharedAccumulator};
use crate::request::{Channel, Owner};
use crate::rng::Rng;
use crate::time::{Nanos, earlier};

/// What waits to be carried out inside.
#[derive(Debug)]
enum Todo {
    Cluster(ClusterAction),
    Produce(ProduceAction),
}

/// See the module.
#[derive(Debug)]
pub struct ProducerCore {
    cluster: Cluster,
    produce: ProduceMachine,
    accumulator: SharedAccumulator,
    todo: VecDeque<Todo>,
    /// Leaders have changed. Told once a step: an answer can name a new leader for each of a thousand partitions.
    metadata_changed: bool,
    finished: bool,
    cluster_actions: Vec<ClusterAction>,
    produce_actions: Vec<ProduceAction>,
}

impl ProducerCore {
    /// Connects to nothing until it is stepped.
    #[must_use]
    pub fn new(config: ProducerCoreConfig, accumulator: SharedAccumulator, mut rng: Rng) -> Self {
        Self {
            cluster: Cluster::new(config.cluster, rng.split()),
            produce: ProduceMachine::new(config.produce, SharedAccumulator::clone(&accumulator), rng.split()),
            accumulator,
            todo: VecDeque::new(),
            metadata_changed: false,
            finished: false,
            cluster_actions: Vec::new(),
            produce_actions: Vec::new(),
        }
    }

    /// One event, and all that follows from it.
    pub fn step(&mut self, now: Nanos, event: ProducerEvent, out: &mut Vec<ProducerAction>) {
        if self.finished {
            return;
        }
        match event {
            ProducerEvent::Tick => {
                self.cluster(now, ClusterEvent::Tick);
                self.produce(now, ProduceEvent::Tick);
            }
            ProducerEvent::Connected(conn) => self.cluster(now, ClusterEvent::Connected(conn)),
            ProducerEvent::Frame(conn, frame) => self.cluster(now, ClusterEvent::Frame(conn, frame)),
            ProducerEvent::Closed(conn, reason) => self.cluster(now, ClusterEvent::Closed(conn, reason)),
            ProducerEvent::Drain => self.produce(now, ProduceEvent::Drain),
            ProducerEvent::Close { deadline } => self.produce(now, ProduceEvent::Close { deadline }),
        }
        loop {
            match self.todo.pop_front() {
                Some(Todo::Cluster(action)) => self.on_cluster(now, action, out),
                Some(Todo::Produce(action)) => self.on_produce(now, action, out),
                None if std::mem::take(&mut self.metadata_changed) => self.produce(now, ProduceEvent::MetadataChanged),
                None => break,
            }
        }
    }

    /// When to step with `Tick` at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Nanos> {
        earlier(self.cluster.deadline(), self.produce.deadline())
    }

    /// Counts since the start.
    #[must_use]
    pub fn stats(&self) -> ProduceStats {
        self.produce.stats()
    }

    fn cluster(&mut self, now: Nanos, event: ClusterEvent) {
        self.cluster.step(now, event, &mut self.cluster_actions);
        self.todo.extend(self.cluster_actions.drain(..).map(Todo::Cluster));
    }

    fn produce(&mut self, now: Nanos, event: ProduceEvent) {
        self.produce.step(now, event, &self.cluster, &mut self.produce_actions);
        self.todo.extend(self.produce_actions.drain(..).map(Todo::Produce));
    }

    fn on_cluster(&mut self, now: Nanos, action: ClusterAction, out: &mut Vec<ProducerAction>) {
        match action {
            ClusterAction::Connect { conn, address: (host, port) } => {
                out.push(ProducerAction::Connect { conn, host, port });
            }
            ClusterAction::Write { conn, bytes } => out.push(ProducerAction::Write { conn, bytes }),
            ClusterAction::Close { conn } => out.push(ProducerAction::CloseConn(conn)),
            ClusterAction::Reply(reply) if reply.token.owner == Owner::Produce => {
                self.produce(now, ProduceEvent::Reply(reply));
            }
            ClusterAction::Reply(_) | ClusterAction::MetadataRefreshed => {}
            ClusterAction::MetadataChanged => self.metadata_changed = true,
            ClusterAction::NodeReady { node, channel: Channel::Produce } => {
                self.produce(now, ProduceEvent::NodeReady(node));
            }
            ClusterAction::NodeLost { node, channel: Channel::Produce } => {
                self.produce(now, ProduceEvent::NodeLost(node));
            }
            ClusterAction::NodeReady { .. } | ClusterAction::NodeLost { .. } => {}
            ClusterAction::Unmuted { node } => self.produce(now, ProduceEvent::Unmuted(node)),
            ClusterAction::Notify(ClusterNotice::Fatal(not_kafka)) => {
                self.produce(now, ProduceEvent::Fatal(FatalError::NotKafka(not_kafka)));
            }
            ClusterAction::Notify(notice) => out.push(ProducerAction::Notice(ProducerNotice::Cluster(notice))),
        }
    }

    fn on_produce(&mut self, now: Nanos, action: ProduceAction, out: &mut Vec<ProducerAction>) {
        match action {
            ProduceAction::Send(outgoing) => self.cluster(now, ClusterEvent::Send(outgoing)),
            ProduceAction::NeedNode(node) => self.cluster(now, ClusterEvent::NeedNode(node, Channel::Produce)),
            ProduceAction::RefreshMetadata => self.cluster(now, ClusterEvent::RefreshMetadata),
            ProduceAction::Interest => {
                let topics = self.accumulator.lock().unwrap_or_else(std::sync::PoisonError::into_inner).interest();
                self.cluster(now, ClusterEvent::SetTopics(topics));
                // A topic that was forgotten and wanted again in the same moment is known: no answer will speak of it.
                self.metadata_changed = true;
            }
            ProduceAction::LeaderHint { tp, leader, epoch, endpoint } => {
                self.cluster(now, ClusterEvent::LeaderHint { tp, leader, epoch, endpoint });
            }
            ProduceAction::Throttled { node, millis } => self.cluster(now, ClusterEvent::Throttled { node, millis }),
            ProduceAction::Settled(receipt) => out.push(ProducerAction::Settled(receipt)),
            ProduceAction::Room => out.push(ProducerAction::Room),
            ProduceAction::Progress => out.push(ProducerAction::Progress),
            ProduceAction::TopicKnown => out.push(ProducerAction::TopicKnown),
            ProduceAction::Notice(notice) => out.push(ProducerAction::Notice(ProducerNotice::Produce(notice))),
            ProduceAction::Fatal(error) => out.push(ProducerAction::Fatal(error)),
            ProduceAction::Finished => {
                self.finished = true;
                out.push(ProducerAction::Finished);
            }
        }
    }
}
