//! Driver of the producer: passes network events to the sans-IO core, and performs the actions of the core. It is
//! stepped by the thread that holds the loop's lock: the network thread, or a caller that sends its records.

use std::sync::Arc;

use grete_net::{NetEvent, Protocol, TransportAction};
use grete_proto::cluster::ClusterLogEvent;
use grete_proto::producer::{DroppedRecords, SenderLogEvent};
use grete_proto::producer::{MemoryCore, ProducerAction, ProducerCore, ProducerEvent, ProducerLogEvent, SenderStats};
use grete_proto::time::Nanos;

use super::inner::ProducerInner;
use super::log_messages;
use crate::log_event::LogEvent;

/// State machine that the driver steps.
pub(super) enum Core {
    /// Writes to brokers.
    Kafka(Box<ProducerCore>),
    /// Writes to memory, for tests.
    Memory(Box<MemoryCore>),
}

impl Core {
    fn step(&mut self, now: Nanos, event: ProducerEvent, out: &mut Vec<ProducerAction>) {
        match self {
            Self::Kafka(core) => core.step(now, event, out),
            Self::Memory(core) => core.step(now, &event, out),
        }
    }

    fn deadline(&self) -> Option<Nanos> {
        match self {
            Self::Kafka(core) => core.deadline(),
            Self::Memory(_) => None,
        }
    }

    fn stats(&self) -> SenderStats {
        match self {
            Self::Kafka(core) => core.stats(),
            Self::Memory(core) => core.stats(),
        }
    }
}

pub(super) struct Driver {
    core: Core,
    shared: Arc<ProducerInner>,
    core_actions: Vec<ProducerAction>,
    log_events: Vec<LogEvent>,
    finished: bool,
}

impl Driver {
    pub(super) fn new(core: Core, shared: Arc<ProducerInner>) -> Self {
        Self { core, shared, core_actions: Vec::new(), log_events: Vec::new(), finished: false }
    }

    fn perform(&mut self, actions: &mut Vec<TransportAction>) {
        // First, because a thread woken below may close the producer, and records dropped earlier do not count as left
        // by the close.
        for action in &self.core_actions {
            if let ProducerAction::LogEvent(notice) = action {
                count_event(&self.shared, notice);
            }
        }
        let futexes = self.shared.futexes();
        let mut has_woken = false;
        for action in self.core_actions.drain(..) {
            match action {
                ProducerAction::Transport(action) => actions.push(action),
                ProducerAction::Completed(receipt) => {
                    // Queues before the wake-up, so that a caller of `flush` that wakes up finds its callbacks pending.
                    self.shared.completion_queues.complete(&receipt);
                    self.shared.wake_sleepers(receipt.futex());
                    has_woken = true;
                }
                ProducerAction::MemoryAvailable => {
                    self.shared.wake_sleepers(&futexes.memory);
                    self.shared.completion_queues.notify_space();
                    has_woken = true;
                }
                ProducerAction::MetadataAvailable => {
                    self.shared.wake_sleepers(&futexes.metadata);
                    self.shared.completion_queues.notify_space();
                    has_woken = true;
                }
                ProducerAction::FlushCompleted => {
                    self.shared.wake_sleepers(&futexes.flush);
                    has_woken = true;
                }
                ProducerAction::TransactionDone(id, result) => {
                    if let Some(calls) = &self.shared.transactions {
                        calls.complete(id, result);
                    }
                    has_woken = true;
                }
                ProducerAction::StagedCommitDone(id, result) => self.shared.staged_commits.complete(id, result),
                ProducerAction::LogEvent(notice) => {
                    self.log_events.extend(log_messages::producer_event(&notice, &self.shared.principal));
                }
                ProducerAction::Fatal(error) => {
                    let error = log_messages::fatal_error(&error, &self.shared.principal);
                    self.log_events.push(log_messages::producer_failed(&error));
                    self.shared.fail(error);
                }
                ProducerAction::Finished => self.finished = true,
            }
        }
        if has_woken {
            self.shared.notify_leader();
        }
        if !self.log_events.is_empty() {
            self.shared.emit(std::mem::take(&mut self.log_events));
        }
    }
}

impl Protocol for Driver {
    fn step(&mut self, now: Nanos, event: NetEvent, actions: &mut Vec<TransportAction>) {
        let shared = Arc::clone(&self.shared);
        let _step = shared.step_gate.begin();
        let event = match event {
            NetEvent::Connected(conn) => ProducerEvent::Connected(conn),
            NetEvent::Frame(conn, frame) => ProducerEvent::Frame(conn, frame),
            NetEvent::Closed(conn, reason) => ProducerEvent::Closed(conn, reason),
            NetEvent::Gss(conn, result) => ProducerEvent::Gss(conn, result),
            NetEvent::Tick => {
                if let Some(calls) = &self.shared.transactions {
                    for (id, call) in calls.take() {
                        self.core.step(now, ProducerEvent::Transaction(id, call), &mut self.core_actions);
                    }
                    for commit in self.shared.staged_commits.take() {
                        self.core.step(now, ProducerEvent::CommitStaged(Box::new(commit)), &mut self.core_actions);
                    }
                }
                if let Some(deadline) = self.shared.take_close_deadline() {
                    self.core.step(now, ProducerEvent::Close { deadline }, &mut self.core_actions);
                }
                ProducerEvent::Tick
            }
        };
        self.core.step(now, event, &mut self.core_actions);
        // Before the wake-ups, so that a woken thread reads current statistics.
        self.shared.counters.write(self.core.stats());
        self.perform(actions);
    }

    fn deadline(&self) -> Option<Nanos> {
        self.core.deadline()
    }

    fn is_finished(&self) -> bool {
        self.finished
    }
}

/// Counts dropped records and broken connections.
fn count_event(shared: &ProducerInner, notice: &ProducerLogEvent) {
    if let ProducerLogEvent::Cluster(cluster) = notice
        && let Some(failure) = crate::log_messages::login_failure(cluster)
    {
        shared.counters.login_failure.publish(failure);
    }
    match notice {
        ProducerLogEvent::Cluster(ClusterLogEvent::Disconnected { reason, .. }) if !reason.is_expected() => {
            shared.counters.reconnected();
        }
        ProducerLogEvent::Sender(SenderLogEvent::RecordsDropped { dropped: lost, .. }) => {
            for DroppedRecords { tp, records, unknown, .. } in lost {
                shared.add_undelivered(&tp.topic, records.saturating_sub(*unknown), false);
                shared.add_undelivered(&tp.topic, *unknown, true);
            }
        }
        _ => {}
    }
}
