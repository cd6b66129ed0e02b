//! The network thread's side of an admin client.

use std::sync::Arc;

use grete_core::admin::{AdminAction, AdminCore, AdminEvent, AdminReply};
use grete_core::cluster::ClusterNotice;
use grete_core::time::Nanos;
use grete_net::{NetAction, NetEvent, Protocol};

use super::Said;
use crate::command::{Commands, Question};
use crate::error::ClientError;
use crate::report;

impl Question for AdminEvent {
    type Answer = AdminReply;

    fn forget(id: u32) -> Self {
        Self::Forget(id)
    }
}

pub(super) struct Driver {
    core: AdminCore,
    commands: Arc<Commands<AdminEvent>>,
    said: Arc<Said>,
    wishes: Vec<AdminAction>,
    finished: bool,
}

impl Driver {
    pub fn new(core: AdminCore, commands: Arc<Commands<AdminEvent>>, said: Arc<Said>) -> Self {
        Self { core, commands, said, wishes: Vec::new(), finished: false }
    }

    fn perform(&mut self, actions: &mut Vec<NetAction>) {
        for wish in self.wishes.drain(..) {
            match wish {
                AdminAction::Connect { conn, host, port } => actions.push(NetAction::Connect { conn, host, port }),
                AdminAction::Write { conn, bytes } => actions.push(NetAction::Write { conn, bytes }),
                AdminAction::CloseConn(conn) => actions.push(NetAction::Close { conn }),
                AdminAction::Reply(id, reply) => self.commands.answer(id, reply),
                // Whoever has asked about the topic is told.
                AdminAction::Notice(ClusterNotice::TopicError { .. } | ClusterNotice::TopicRecreated { .. }) => {}
                AdminAction::Notice(notice) => {
                    if let ClusterNotice::Fatal(not_kafka) = &notice {
                        self.said.fail(ClientError::NotKafka(not_kafka.to_string()));
                    }
                    self.said.notices.push(report::cluster(&notice));
                }
                AdminAction::Finished => self.finished = true,
            }
        }
    }
}

impl Protocol for Driver {
    fn step(&mut self, now: Nanos, event: NetEvent, actions: &mut Vec<NetAction>) {
        let event = match event {
            NetEvent::Connected(conn) => AdminEvent::Connected(conn),
            NetEvent::Frame(conn, frame) => AdminEvent::Frame(conn, frame),
            NetEvent::Closed(conn, reason) => AdminEvent::Closed(conn, reason),
            NetEvent::Tick => {
                for command in self.commands.take() {
                    self.core.step(now, command, &mut self.wishes);
                }
                AdminEvent::Tick
            }
        };
        self.core.step(now, event, &mut self.wishes);
        self.perform(actions);
    }

    fn deadline(&self) -> Option<Nanos> {
        self.core.deadline()
    }

    fn is_finished(&self) -> bool {
        self.finished
    }
}

/// Lives on the network thread: however that ends, whoever waits for it hears of it.
pub(super) struct Ending {
    pub commands: Arc<Commands<AdminEvent>>,
    pub said: Arc<Said>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.said.fail(ClientError::Os {
                what: "the network thread has ended on a fault of Grete's own",
                cause: "stderr says where; please report it".into(),
            });
        }
        self.commands.end();
    }
}
