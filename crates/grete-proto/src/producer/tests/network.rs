//! Connections between the client and the brokers. Each keeps its order; a broker handles one request of a connection
//! at a time.
//!
//! A connection that the client has lost or closed still exists for the broker: received requests may be executed at
//! any later time. Their responses are dropped.

use std::collections::VecDeque;

use grete_wire::{ApiKey, Frame};

use super::simulator::{Event, Simulator};
use crate::cluster::test_cluster::ReceivedRequest;
use crate::connection::CloseReason;
use crate::ids::{ConnId, NodeId};
use crate::producer::ProducerEvent;
use crate::time::{MILLI, Nanos, SECOND};

/// Fault applied to a response in transit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spoil {
    /// The connection ends before the response.
    Lost,
    /// Random bytes follow the correlation id.
    Garbage,
    /// The correlation id is wrong.
    Correlation,
    /// The response is truncated.
    Cut,
}

#[derive(Debug)]
pub struct SimConnection {
    pub node: NodeId,
    /// Requests that the broker has received and not started.
    queue: VecDeque<ReceivedRequest>,
    busy: bool,
    /// The client has dropped the connection; number of requests that are still executed.
    orphan: Option<u64>,
    /// Arrival time of the last bytes; later bytes on the same connection arrive later.
    out: Nanos,
    back: Nanos,
}

impl SimConnection {
    pub fn is_open(&self) -> bool {
        self.orphan.is_none()
    }
}

impl Simulator {
    pub(super) fn connect(&mut self, conn: ConnId, host: &str) {
        let node = host.trim_start_matches('b').parse().expect("brokers are called b1, b2...");
        let wire = SimConnection { node, queue: VecDeque::new(), busy: false, orphan: None, out: 0, back: 0 };
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

    /// Handles bytes written by the client.
    pub(super) fn write(&mut self, conn: ConnId, bytes: &[u8]) {
        let asked = ReceivedRequest::parse(conn, bytes);
        let delay = self.delay();
        assert!(self.believed.contains(&conn), "a write to a connection that is not open");
        // Bytes for a lost connection are dropped, before the client has learned of the loss.
        let Some(wire) = self.wires.get_mut(&conn).filter(|wire| wire.is_open()) else { return };
        wire.out = wire.out.max(self.now + delay);
        let (at, node) = (wire.out, wire.node);
        self.observe_request(node, &asked);
        self.post(at, Event::Request(asked));
    }

    /// Handles a connection that the client closed or that was cut.
    pub(super) fn abandon(&mut self, conn: ConnId) {
        let left = self.carried_out.unwrap_or(self.rng.below(6));
        self.observe_close(conn);
        if let Some(wire) = self.wires.get_mut(&conn) {
            wire.orphan.get_or_insert(left);
        }
    }

    /// Cuts a connection.
    pub fn hang_up(&mut self, conn: ConnId) {
        if self.wires.get(&conn).is_some_and(SimConnection::is_open) {
            self.abandon(conn);
            self.post(self.now, Event::Eof(conn));
        }
    }

    /// Cuts the connection with a request that this broker holds; returns the request for a later execution.
    pub fn hold_back(&mut self, node: NodeId) -> ReceivedRequest {
        let lies = |(conn, wire): (&ConnId, &mut SimConnection)| {
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

    /// Kills a broker: all unfinished requests are lost.
    pub fn kill(&mut self, node: NodeId) {
        self.trace(|| format!("b{node} dies"));
        self.brokers.down.insert(node);
        self.forget_pending(|at, _| at == node);
        let dead: Vec<_> = self.wires.iter().filter(|(_, wire)| wire.node == node).map(|(conn, _)| *conn).collect();
        for conn in dead {
            let open = self.wires.get(&conn).is_some_and(SimConnection::is_open);
            if open {
                self.observe_close(conn);
            }
            self.wires.remove(&conn);
            if open {
                self.post(self.now, Event::Eof(conn));
            }
        }
    }

    pub(super) fn request(&mut self, asked: ReceivedRequest) {
        let conn = asked.conn;
        if let Some(wire) = self.wires.get_mut(&conn) {
            wire.queue.push_back(asked);
            self.work(conn);
        }
    }

    /// Makes the broker start the next request of that connection.
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

    /// Delivers the broker's response to a request.
    pub(super) fn answer(&mut self, conn: ConnId, asked: &ReceivedRequest, frame: Frame) {
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
