//! Machine that does what its requests say.

use std::sync::Arc;

use grete_wire::SegmentedBuf;

use super::client::Client;
use crate::cluster::{Action, Event};
use crate::effects::Change;
use crate::ids::{ConnId, Millis};
use crate::server::Machine;

/// Size of the response to `large`, in bytes.
pub(super) const LARGE: usize = 24 << 20;

#[derive(Debug, Default)]
pub(super) struct Scripted {
    /// Log of all events.
    pub(super) events: Vec<String>,
    /// Connections that wait for the deadline.
    waiting: Vec<ConnId>,
    deadline: Option<Millis>,
    /// Deadline of the last tick.
    pub(super) ticked_for: Millis,
}

impl Scripted {
    pub(super) fn count(&self, prefix: &str) -> usize {
        self.events.iter().filter(|event| event.starts_with(prefix)).count()
    }
}

fn write(conn: ConnId, response: &[u8]) -> Action {
    Action::Write { conn, bytes: SegmentedBuf::from(Client::framed(response)) }
}

/// Response in two segments, of which the second is shared.
fn write_large(conn: ConnId) -> Action {
    let mut bytes = SegmentedBuf::from(u32::try_from(LARGE).unwrap().to_be_bytes().to_vec());
    bytes.push_shared(Arc::new(vec![b'.'; LARGE]));
    Action::Write { conn, bytes }
}

impl Machine for Scripted {
    fn step(&mut self, now: Millis, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Accepted { broker, client_host, .. } => self.events.push(format!("accepted {broker} {client_host}")),
            Event::Closed { .. } => self.events.push("closed".into()),
            Event::Identified { .. } => {}
            Event::Tick => {
                if self.deadline.is_some_and(|deadline| deadline <= now) {
                    self.ticked_for = self.deadline.take().unwrap_or_default();
                    actions.extend(self.waiting.drain(..).map(|conn| write(conn, b"tick")));
                }
            }
            Event::Frame { conn, frame } => {
                let text = String::from_utf8_lossy(&frame);
                self.events.push(format!("frame {text:.20}"));
                match &*text {
                    "close" => actions.extend([write_large(conn), Action::Close { conn }]),
                    "large" => actions.push(write_large(conn)),
                    "four" => actions.extend((0..4).map(|_| write_large(conn))),
                    "pause" => actions.extend([Action::PauseReading(conn), write(conn, b"paused")]),
                    "later" => {
                        self.waiting.push(conn);
                        self.deadline = Some(now + 20);
                    }
                    "panic" => panic!("as requested"),
                    _ => actions.push(write(conn, &frame)),
                }
            }
        }
    }

    fn deadline(&self) -> Option<Millis> {
        self.deadline
    }

    fn restore(&mut self, _change: &Change) {}

    fn snapshot(&self) -> Vec<Change> {
        Vec::new()
    }
}
