//! Driver of the admin client on the network thread.

use std::sync::Arc;

use grete_net::{NetEvent, Protocol, TransportAction};
use grete_proto::admin::{AdminAction, AdminCore, AdminEvent, AdminReply};
use grete_proto::cluster::ClusterLogEvent;
use grete_proto::request::AddressFault;
use grete_proto::time::Nanos;

use super::state::AdminState;
use crate::error::ClientError;
use crate::log_messages;
use crate::request_queue::{CancellableRequest, RequestQueue};
use crate::thread_guard::NetworkThreadOwner;

impl CancellableRequest for AdminEvent {
    type Response = AdminReply;

    fn cancel(id: u32) -> Self {
        Self::Cancel(id)
    }
}

pub(super) struct Driver {
    core: AdminCore,
    commands: Arc<RequestQueue<AdminEvent>>,
    said: Arc<AdminState>,
    core_actions: Vec<AdminAction>,
    finished: bool,
}

impl Driver {
    pub fn new(core: AdminCore, commands: Arc<RequestQueue<AdminEvent>>, said: Arc<AdminState>) -> Self {
        Self { core, commands, said, core_actions: Vec::new(), finished: false }
    }

    fn perform(&mut self, actions: &mut Vec<TransportAction>) {
        for action in self.core_actions.drain(..) {
            match action {
                AdminAction::Transport(action) => actions.push(action),
                AdminAction::Reply(id, reply) => self.commands.complete(id, reply),
                // Errors of a topic go to the caller that requested the topic, not into the log.
                AdminAction::LogEvent(ClusterLogEvent::TopicError { .. } | ClusterLogEvent::TopicRecreated { .. }) => {}
                AdminAction::LogEvent(notice) => {
                    // The calls that waited have got a refused login as their error; a later call tries again.
                    if let ClusterLogEvent::Fatal(fault) = &notice
                        && !matches!(fault, AddressFault::Login(_))
                    {
                        self.said.fail(ClientError::unusable(fault));
                    }
                    self.said.log_events.push(log_messages::cluster_event(&notice));
                    self.commands.wake_callers();
                }
                AdminAction::Finished => self.finished = true,
            }
        }
    }
}

impl Protocol for Driver {
    fn step(&mut self, now: Nanos, event: NetEvent, actions: &mut Vec<TransportAction>) {
        let event = match event {
            NetEvent::Connected(conn) => AdminEvent::Connected(conn),
            NetEvent::Frame(conn, frame) => AdminEvent::Frame(conn, frame),
            NetEvent::Closed(conn, reason) => AdminEvent::Closed(conn, reason),
            NetEvent::Gss(conn, result) => AdminEvent::Gss(conn, result),
            NetEvent::Tick => {
                for command in self.commands.drain() {
                    self.core.step(now, command, &mut self.core_actions);
                }
                AdminEvent::Tick
            }
        };
        self.core.step(now, event, &mut self.core_actions);
        self.perform(actions);
    }

    fn deadline(&self) -> Option<Nanos> {
        self.core.deadline()
    }

    fn is_finished(&self) -> bool {
        self.finished
    }
}

/// State that the network thread fails and closes at its end.
pub(super) struct AdminThread {
    pub requests: Arc<RequestQueue<AdminEvent>>,
    pub state: Arc<AdminState>,
}

impl NetworkThreadOwner for AdminThread {
    fn fail(&self, error: ClientError) {
        self.state.fail(error);
    }

    fn finish(&self) {
        self.requests.close();
    }
}
