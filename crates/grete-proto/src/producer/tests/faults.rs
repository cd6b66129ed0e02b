//! Faults injected during a simulation.

use grete_wire::ErrorCode as E;

use super::brokers::Mishap;
use super::network::Spoil;
use super::simulator::{Event, Simulator};
use crate::ids::{NodeId, TopicPartition};
use crate::time::{MILLI, SECOND};

/// Errors before the append.
const BEFORE: [E; 8] = [
    E::NOT_LEADER_OR_FOLLOWER,
    E::UNKNOWN_TOPIC_OR_PARTITION,
    E::NOT_ENOUGH_REPLICAS,
    E::KAFKA_STORAGE_ERROR,
    E::CORRUPT_MESSAGE,
    E::LEADER_NOT_AVAILABLE,
    E::INVALID_RECORD,
    E::UNKNOWN_SERVER_ERROR,
];

/// Errors after the leader's append: the followers may have replicated the batch, too.
const AFTER: [E; 5] = [
    E::NOT_LEADER_OR_FOLLOWER,
    E::REQUEST_TIMED_OUT,
    E::NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    E::KAFKA_STORAGE_ERROR,
    E::UNKNOWN_SERVER_ERROR,
];

impl Simulator {
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        let at = self.rng.below(from.len() as u64) as usize;
        from.get(at).copied()
    }

    fn any_node(&mut self, alive: bool) -> Option<NodeId> {
        let is = |node: &&NodeId| self.brokers.down.contains(node) != alive;
        let nodes: Vec<_> = self.brokers.nodes.iter().filter(is).copied().collect();
        self.pick(&nodes)
    }

    fn any_log(&mut self) -> Option<TopicPartition> {
        let tps: Vec<_> = self.brokers.logs.keys().collect();
        let at = self.rng.below(tps.len() as u64) as usize;
        tps.get(at).map(|tp| (*tp).clone())
    }

    /// Elects another leader, which has at least the committed records.
    pub fn elect(&mut self, tp: &TopicPartition) {
        let Some(node) = self.any_node(true) else { return };
        let (leads_from, until) = (self.now + self.delay(), self.now + self.delay());
        let Some(log) = self.brokers.logs.get(tp) else { return };
        let borders = log.borders(log.high_watermark);
        let end = self.pick(&borders).unwrap_or_default();
        let restarted = self.rng.below(4) == 0;
        let Some(log) = self.brokers.logs.get_mut(tp) else { return };
        log.elect(node, end, leads_from, until);
        if restarted {
            log.replica.states.reload();
        }
        let (epoch, end) = (log.epoch, log.replica.end());
        self.trace(|| format!("b{node} leads {tp} from {end} on, epoch {epoch}"));
        let at = leads_from + self.delay();
        self.post(at, Event::Replicated(tp.clone(), epoch, end));
        for at in [leads_from, until] {
            // Requests that wait at the old leader learn of the election.
            self.post(at, Event::CheckPending);
        }
        self.spread();
    }

    /// Elects a leader for a partition without one.
    pub(super) fn elect_again(&mut self, tp: &TopicPartition) {
        if self.brokers.logs.get(tp).is_none_or(|log| log.leader >= 0) {
            return;
        }
        match self.any_node(true) {
            Some(_) => self.elect(tp),
            None => self.post(self.now + SECOND, Event::Elect(tp.clone())),
        }
    }

    /// Kills a broker: its partitions get other leaders, and the broker returns some time later.
    fn crash(&mut self, node: NodeId) {
        self.kill(node);
        let led: Vec<_> =
            self.brokers.logs.values().filter(|log| log.leader == node).map(|log| log.tp.clone()).collect();
        for tp in led {
            if let Some(log) = self.brokers.logs.get_mut(&tp) {
                log.orphan();
            }
            let at = self.now + self.rng.below(8_000) * MILLI;
            self.post(at, Event::Elect(tp));
        }
        let at = self.now + (1 + self.rng.below(15)) * SECOND;
        self.post(at, Event::Revive(node));
        self.spread();
    }

    /// Restarts a leader that keeps its leadership: it remembers only the last batch of each producer.
    pub fn restart(&mut self, node: NodeId) {
        self.trace(|| format!("b{node} starts again"));
        self.cut(|at| at == node);
        self.forget_pending(|at, _| at == node);
        self.wires.retain(|_, wire| wire.node != node);
        let led: Vec<_> =
            self.brokers.logs.values().filter(|log| log.leader == node).map(|log| log.tp.clone()).collect();
        for tp in led {
            let Some(log) = self.brokers.logs.get_mut(&tp) else { continue };
            log.epoch += 1;
            log.replica.states.reload();
            let (epoch, end) = (log.epoch, log.replica.end());
            let at = self.now + self.delay();
            self.post(at, Event::Replicated(tp, epoch, end));
        }
        self.spread();
    }

    pub(super) fn revive(&mut self, node: NodeId) {
        self.trace(|| format!("b{node} is back"));
        self.brokers.down.remove(&node);
        self.spread();
    }

    pub fn fault(&mut self) {
        let alive = self.any_node(true);
        match self.rng.below(21) {
            0 => self.cut(|node| Some(node) == alive),
            1 => self.cut(|_| true),
            2 => {
                if let Some(node) = alive {
                    self.crash(node);
                }
            }
            3 => {
                if let Some(node) = alive {
                    let until = self.now + self.rng.below(12_000) * MILLI;
                    self.trace(|| format!("b{node} hangs until {until}"));
                    self.brokers.hung.insert(node, until);
                }
            }
            4 | 5 => {
                if let Some(tp) = self.any_log() {
                    self.elect(&tp);
                }
            }
            6 => {
                if let Some(tp) = self.any_log() {
                    let in_sync = 1 + self.rng.below(3) as usize;
                    self.trace(|| format!("{tp} has {in_sync} replicas in sync"));
                    if let Some(log) = self.brokers.logs.get_mut(&tp) {
                        log.in_sync = in_sync;
                        let (epoch, end) = (log.epoch, log.replica.end());
                        log.replicated(epoch, end);
                    }
                }
            }
            7..=9 => {
                let all = [Spoil::Lost, Spoil::Garbage, Spoil::Correlation, Spoil::Cut];
                let spoil = self.pick(&all);
                self.spoils.extend(spoil);
            }
            10 | 11 => {
                for _ in 0..1 + self.rng.below(4) {
                    let code = self.pick(&BEFORE).unwrap_or_default();
                    self.brokers.mishaps.push(Mishap::Before(code));
                }
            }
            12 => {
                let code = self.pick(&AFTER).unwrap_or_default();
                self.brokers.mishaps.push(Mishap::After(code));
            }
            13 => self.brokers.throttle = if self.rng.below(2) == 0 { self.rng.below(3000) as i32 } else { 0 },
            14 => {
                if let Some(tp) = self.any_log() {
                    let max = if self.rng.below(2) == 0 { usize::MAX } else { 80 + self.rng.below(1500) as usize };
                    if let Some(log) = self.brokers.logs.get_mut(&tp) {
                        log.max_bytes = max;
                    }
                }
            }
            15 => {
                let errors = [None, Some(E::COORDINATOR_LOAD_IN_PROGRESS), Some(E::COORDINATOR_NOT_AVAILABLE)];
                self.brokers.init_error = self.pick(&errors).flatten();
            }
            16 => {
                let topic = self.any_topic();
                self.trace(|| format!("{topic} may not be written"));
                self.brokers.denied.insert(topic);
            }
            17 => self.brokers.denied.clear(),
            19 if self.brokers.logs.len() < 8 => {
                let topic = self.any_topic();
                self.brokers.grow(&topic);
                self.spread();
            }
            18 if self.recreates => {
                let topic = self.any_topic();
                let partitions = self.brokers.logs.keys().filter(|tp| *tp.topic == *topic).count();
                if partitions > 0 {
                    self.trace(|| format!("{topic} is deleted"));
                    self.brokers.delete(&topic);
                    let at = self.now + self.rng.below(3_000) * MILLI;
                    self.post(at, Event::Create(topic, partitions as i32));
                    self.spread();
                }
            }
            _ => {
                if let Some(node) = alive {
                    self.restart(node);
                }
            }
        }
    }

    fn any_topic(&mut self) -> String {
        let topics: Vec<_> = self.brokers.ids.keys().cloned().collect();
        let at = self.rng.below(topics.len() as u64) as usize;
        topics.get(at).cloned().unwrap_or_default()
    }

    pub(super) fn create(&mut self, topic: &str, partitions: i32) {
        if self.brokers.down.len() == self.brokers.nodes.len() {
            return self.post(self.now + SECOND, Event::Create(topic.to_owned(), partitions));
        }
        self.trace(|| format!("{topic} is made again"));
        self.brokers.create(topic, partitions);
        self.spread();
    }

    /// Ends all faults.
    pub fn heal(&mut self) {
        self.trace(|| "all is well".into());
        self.chaos = false;
        let dead: Vec<_> = self.brokers.down.iter().copied().collect();
        for node in dead {
            self.revive(node);
        }
        self.brokers.hung.clear();
        self.brokers.mishaps.clear();
        self.spoils.clear();
        self.brokers.throttle = 0;
        self.brokers.init_error = None;
        self.brokers.denied.clear();
        for log in self.brokers.logs.values_mut() {
            (log.in_sync, log.max_bytes) = (3, usize::MAX);
        }
        self.spread();
    }
}
