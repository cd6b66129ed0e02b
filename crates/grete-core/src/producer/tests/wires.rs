//! Wires between the client and the brokers. Each keeps its order; a broker works on one request of a connection at a time.
//!
//! A connection that the client has lost, or closed, is not gone for the broker: what has reached it may still be carried
//! out, any time later. Nobody hears the answers.

use std::collections::VecDeque;

use grete_wire::{ApiKey, Frame};

use super::world::{Event, World};
use crate::cluster::fixture::Asked;
use crate::conn::CloseReason;
use crate::ids::{ConnId, NodeId};
use crate::producer::ProducerEvent;
use crate::time::{MILLI, Nanos, SECOND};

/// What becomes of an answer on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spoil {
    /// The connection ends instead.
    Lost,
    /// Bytes at random follow the correlation id.
    Garbage,
    /// Another correlation id.
    Correlation,
    /// The end is missing.
    Cut,
}

#[derive(Debug)]
pub struct Wire {
    pub node: NodeId,
    /// What the broker has received, and not begun.
    queue: VecDeque<Asked>,
    busy: bool,
    /// The client knows nothing of it any more; so many requests are still carried out.
    orphan: Option<u64>,
    /// What is later on the same wire arrives later.
    out: Nanos,
    back: Nanos,
}

impl Wire {
    pub fn is_open(&self) -> bool {
        self.orphan.is_none()
    }
}

impl World {
    pub(super) fn connect(&mut self, conn: ConnId, host: &str) {
        let node = host.trim_start_matches('b').parse().expect("brokers are called b1, b2...");
        let wire = Wire { node, queue: VecDeque::new(), busy: false, orphan: None, out: 0, back: 0 };
        self.wires.insert(conn, wire);
        self.believed.insert(conn);
        let at = self.now + self.delay();
        self.post(at, Event::Connected(conn));
    }

    pub(super) fn connected(&mut self, conn: ConnId) {
        let Some(wire) = self.wires.get(&conn).filter(|wire| wire.is_open()) else { return };
        if self.brokers.down.contains(&wire.node) {
            self.wires.remove(&conn);
            self.believed.remove(&conn);
            return self.step(ProducerEvent::Closed(conn, CloseReason::Connect("refused".into())));
        }
        self.step(ProducerEvent::Connected(conn));
    }

    /// The client sends bytes.
    pub(super) fn write(&mut self, conn: ConnId, bytes: &[u8]) {
        let asked = Asked::parse(conn, bytes);
        let delay = self.delay();
        assert!(self.believed.contains(&conn), "a write to a connection that is not open");
        // Bytes for a connection that is gone, of which the client has not heard, go nowhere.
        let Some(wire) = self.wires.get_mut(&conn).filter(|wire| wire.is_open()) else { return };
        wire.out = wire.out.max(self.now + delay);
        let (at, node) = (wire.out, wire.node);
        self.spy_request(node, &asked);
        self.post(at, Event::Request(asked));
    }

    /// The client closes a connection, or it is cut.
    pub(super) fn abandon(&mut self, conn: ConnId) {
        let left = self.carried_out.unwrap_or(self.rng.below(6));
        self.spy_closed(conn);
        if let Some(wire) = self.wires.get_mut(&conn) {
            wire.orphan.get_or_insert(left);
        }
    }

    /// A connection is cut.
    pub fn hang_up(&mut self, conn: ConnId) {
        if self.wires.get(&conn).is_some_and(Wire::is_open) {
            self.abandon(conn);
            self.post(self.now, Event::Eof(conn));
        }
    }

    /// The connection on which a request lies with that broker is cut; the request may be carried out later.
    pub fn hold_back(&mut self, node: NodeId) -> Asked {
        let lies = |(conn, wire): (&ConnId, &mut Wire)| {
            (wire.node == node).then(|| wire.queue.pop_front()).flatten().map(|asked| (*conn, asked))
        };
        let (conn, asked) = self.wires.iter_mut().find_map(lies).expect("a request lies there");
        self.hang_up(conn);
        asked
    }

    pub fn cut(&mut self, which: impl Fn(NodeId) -> bool) {
        let cut: Vec<_> = self.wires.iter().filter(|(_, wire)| which(wire.node)).map(|(conn, _)| *conn).collect();
        for conn in cut {
            self.hang_up(conn);
        }
    }

    /// A broker dies: whatever it had not finished is gone.
    pub fn kill(&mut self, node: NodeId) {
        self.tell(|| format!("b{node} dies"));
        self.brokers.down.insert(node);
        self.forget_pending(|at, _| at == node);
        let dead: Vec<_> = self.wires.iter().filter(|(_, wire)| wire.node == node).map(|(conn, _)| *conn).collect();
        for conn in dead {
            let open = self.wires.get(&conn).is_some_and(Wire::is_open);
            if open {
                self.spy_closed(conn);
            }
            self.wires.remove(&conn);
            if open {
                self.post(self.now, Event::Eof(conn));
            }
        }
    }

    pub(super) fn request(&mut self, asked: Asked) {
        let conn = asked.conn;
        if let Some(wire) = self.wires.get_mut(&conn) {
            wire.queue.push_back(asked);
            self.work(conn);
        }
    }

    /// The broker takes the next request of that connection.
    pub(super) fn work(&mut self, conn: ConnId) {
        while let Some(wire) = self.wires.get_mut(&conn) {
            let node = wire.node;
            if wire.busy || wire.queue.is_empty() {
                return;
            }
            if let Some(until) = self.brokers.hung.get(&node).copied().filter(|until| *until > self.now) {
                return self.post(until, Event::Work(conn));
            }
            if wire.orphan == Some(0) {
                self.wires.remove(&conn);
                return;
            }
            wire.orphan = wire.orphan.map(|left| left - 1);
            let Some(asked) = wire.queue.pop_front() else { return };
            wire.busy = true;
            if asked.api != ApiKey::Produce {
                let frame = self.brokers.answer(node, &asked);
                self.answer(conn, &asked, frame);
            } else if !self.produce(node, asked)
                && let Some(wire) = self.wires.get_mut(&conn)
            {
                wire.busy = false;
            }
        }
    }

    /// The broker answers what it worked on.
    pub(super) fn answer(&mut self, conn: ConnId, asked: &Asked, frame: Frame) {
        let delay = self.delay();
        let spoil = if asked.api == ApiKey::Produce { self.spoils.pop() } else { None };
        let Some(wire) = self.wires.get_mut(&conn) else { return };
        wire.busy = false;
        wire.back = wire.back.max(self.now + delay);
        let at = wire.back;
        if wire.is_open() {
            match spoil.map(|spoil| self.spoil(spoil, &frame)) {
                None => self.post(at, Event::Response(conn, frame)),
                Some(Some(frame)) => self.post(at, Event::Response(conn, frame)),
                Some(None) => self.hang_up(conn),
            }
        }
        self.post(self.now, Event::Work(conn));
    }

    fn spoil(&mut self, spoil: Spoil, frame: &Frame) -> Option<Frame> {
        let mut bytes = frame.to_vec();
        match spoil {
            Spoil::Lost => return None,
            Spoil::Garbage => {
                for byte in bytes.iter_mut().skip(4) {
                    *byte = self.rng.next_u64() as u8;
                }
            }
            Spoil::Correlation => bytes[3] ^= 1 << self.rng.below(8),
            Spoil::Cut => bytes.truncate(4 + self.rng.below(bytes.len() as u64 - 4) as usize),
        }
        Some(Frame::from(bytes))
    }

    pub(super) fn delay(&mut self) -> Nanos {
        match self.rng.below(60) {
            0 if self.chaos => self.rng.below(12) * SECOND,
            1 if self.chaos => self.rng.below(1500) * MILLI,
            _ if self.chaos => (1 + self.rng.below(20)) * MILLI,
            _ => MILLI,
        }
    }
}
