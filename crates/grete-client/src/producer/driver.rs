//! Carries events to the sans-IO core, and the core's wishes to sockets, sleepers and watches. It is stepped by whoever
//! holds the loop's lock: the network thread, or a caller that wants its records out.

use std::sync::Arc;

use grete_core::cluster::ClusterNotice;
use grete_core::produce::{Lost, ProduceNotice};
use grete_core::producer::{ProducerAction, ProducerCore, ProducerEvent, ProducerNotice};
use grete_core::time::Nanos;
use grete_net::futex::wake_on;
use grete_net::{NetAction, NetEvent, Protocol};

use super::shared::Shared;
use super::told;
use crate::notice::Notice;

pub(super) struct Driver {
    core: ProducerCore,
    shared: Arc<Shared>,
    wishes: Vec<ProducerAction>,
    notices: Vec<Notice>,
    finished: bool,
}

impl Driver {
    pub(super) fn new(core: ProducerCore, shared: Arc<Shared>) -> Self {
        Self { core, shared, wishes: Vec::new(), notices: Vec::new(), finished: false }
    }

    fn perform(&mut self, actions: &mut Vec<NetAction>) {
        // First: whoever is woken below may close the producer, and what failed before is not what the closing left.
        for wish in &self.wishes {
            if let ProducerAction::Notice(notice) = wish {
                count(&self.shared, notice);
            }
        }
        let words = self.shared.words();
        for wish in self.wishes.drain(..) {
            match wish {
                ProducerAction::Connect { conn, host, port } => actions.push(NetAction::Connect { conn, host, port }),
                ProducerAction::Write { conn, bytes } => actions.push(NetAction::Write { conn, bytes }),
                ProducerAction::CloseConn(conn) => actions.push(NetAction::Close { conn }),
                ProducerAction::Settled(receipt) => {
                    // First who is to be called, then who is to be woken: whoever flushed finds the calls due.
                    self.shared.watches.settled(&receipt);
                    wake_on(receipt.word());
                }
                ProducerAction::Room => {
                    wake_on(&words.room);
                    self.shared.watches.stir();
                }
                ProducerAction::TopicKnown => {
                    wake_on(&words.metadata);
                    self.shared.watches.stir();
                }
                ProducerAction::Progress => wake_on(&words.progress),
                ProducerAction::Notice(notice) => self.notices.extend(told::notice(&notice)),
                ProducerAction::Fatal(error) => {
                    let error = told::fatal(&error);
                    self.notices.push(told::failed(&error));
                    self.shared.fail(error);
                }
                ProducerAction::Finished => self.finished = true,
            }
        }
        if !self.notices.is_empty() {
            self.shared.notify(std::mem::take(&mut self.notices));
        }
    }
}

impl Protocol for Driver {
    fn step(&mut self, now: Nanos, event: NetEvent, actions: &mut Vec<NetAction>) {
        let event = match event {
            NetEvent::Connected(conn) => ProducerEvent::Connected(conn),
            NetEvent::Frame(conn, frame) => ProducerEvent::Frame(conn, frame),
            NetEvent::Closed(conn, reason) => ProducerEvent::Closed(conn, reason),
            NetEvent::Tick => {
                if let Some(deadline) = self.shared.take_closing() {
                    self.core.step(now, ProducerEvent::Close { deadline }, &mut self.wishes);
                }
                ProducerEvent::Tick
            }
        };
        self.core.step(now, event, &mut self.wishes);
        // First: whoever is woken below finds the figures as they are.
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

/// What closing left undone, and what broke.
fn count(shared: &Shared, notice: &ProducerNotice) {
    match notice {
        ProducerNotice::Cluster(ClusterNotice::Disconnected { reason, .. }) if !reason.is_peaceful() => {
            shared.counters.reconnected();
        }
        ProducerNotice::Produce(ProduceNotice::GivenUp { lost, .. }) => {
            for Lost { tp, records, unknown, .. } in lost {
                shared.give_up(&tp.topic, records.saturating_sub(*unknown), false);
                shared.give_up(&tp.topic, *unknown, true);
            }
        }
        _ => {}
    }
}
