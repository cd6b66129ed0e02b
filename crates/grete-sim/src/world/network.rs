//! Network between processes and brokers. Each connection keeps its order. A connection that ends may lose what is on its
//! way, or a part of it.

use std::collections::VecDeque;

use grete_broker::cluster::{Action, Event};
use grete_broker::ids::ConnId as BrokerConn;
use grete_proto::connection::CloseReason;
use grete_proto::ids::ConnId;
use grete_proto::time::{MILLI, Nanos};
use grete_proto::transport::TransportAction;
use grete_wire::Frame;

use super::World;
use super::clock::WorldEvent;
use crate::process::{ProcessEvent, Role};

/// Connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) slot: usize,
    pub(super) incarnation: u32,
    pub(super) role: Role,
    pub(super) conn: ConnId,
    pub(super) broker: i32,
    /// Whether the broker has accepted the connection and has not closed it.
    is_accepted: bool,
    /// Whether the connection has broken: nothing arrives any more.
    is_cut: bool,
    /// Bytes that the client has written after the last complete request.
    unsent: Vec<u8>,
    /// Requests on their way.
    requests: VecDeque<Frame>,
    /// Bytes that have reached the client after the last complete response.
    received: Vec<u8>,
    /// Times before which nothing else arrives.
    up: Nanos,
    down: Nanos,
}

impl World<'_> {
    fn delay(&mut self) -> Nanos {
        match self.rng.below(60) {
            0 if self.plan.cluster.slow_network && !self.is_calm => self.rng.below(2500) * MILLI,
            _ => (1 + self.rng.below(5)) * MILLI,
        }
    }

    pub(super) fn transport(&mut self, slot: usize, role: Role, action: TransportAction) {
        match action {
            TransportAction::Connect { conn, host, .. } => self.connect(slot, role, conn, &host),
            TransportAction::Write { conn, bytes } => {
                let Some(link) = self.link_of(slot, role, conn) else { return };
                self.write(link, &bytes.to_vec());
            }
            TransportAction::Gss { .. } => unreachable!("no client of the simulation logs in"),
            TransportAction::CloseConn(conn) => {
                let Some(link) = self.link_of(slot, role, conn) else { return };
                self.drop_link(link);
            }
        }
    }

    fn link_of(&self, slot: usize, role: Role, conn: ConnId) -> Option<u64> {
        let incarnation = self.slots.get(slot)?.incarnation;
        let is_it =
            |link: &Link| (link.slot, link.incarnation, link.role, link.conn) == (slot, incarnation, role, conn);
        self.links.iter().find(|(_, link)| is_it(link)).map(|(id, _)| *id)
    }

    fn connect(&mut self, slot: usize, role: Role, conn: ConnId, host: &str) {
        let broker = host.trim_start_matches('b').parse().unwrap_or(0);
        let incarnation = self.slots[slot].incarnation;
        self.last_link += 1;
        let at = self.now + self.delay();
        let link = Link {
            slot,
            incarnation,
            role,
            conn,
            broker,
            is_accepted: false,
            is_cut: false,
            unsent: Vec::new(),
            requests: VecDeque::new(),
            received: Vec::new(),
            up: at,
            down: at,
        };
        self.links.insert(self.last_link, link);
        self.post(at, WorldEvent::Connect(self.last_link));
    }

    pub(super) fn arrive_connect(&mut self, id: u64) {
        let is_down = |world: &Self, broker| world.cluster.is_none() || world.down.contains(&broker);
        let Some(link) = self.links.get(&id) else { return };
        let (slot, incarnation, role, conn, broker) = (link.slot, link.incarnation, link.role, link.conn, link.broker);
        if is_down(self, broker) {
            self.links.remove(&id);
            let event = ProcessEvent::Closed(role, conn, CloseReason::Connect("connection refused".into()));
            return self.pass(slot, incarnation, event);
        }
        if let Some(link) = self.links.get_mut(&id) {
            link.is_accepted = true;
        }
        self.step_cluster(Event::Accepted { conn: BrokerConn(id), broker, client_host: "127.0.0.1".into() });
        self.pass(slot, incarnation, ProcessEvent::Connected(role, conn));
    }

    fn write(&mut self, id: u64, bytes: &[u8]) {
        let delay = self.delay();
        let Some(link) = self.links.get_mut(&id) else { return };
        link.unsent.extend_from_slice(bytes);
        let frames = Self::frames(&mut link.unsent);
        link.up = link.up.max(self.now + delay);
        let at = link.up;
        for frame in frames {
            if let Some(link) = self.links.get_mut(&id) {
                link.requests.push_back(frame);
            }
            self.post(at, WorldEvent::Arrive(id));
        }
    }

    pub(super) fn arrive(&mut self, id: u64) {
        let Some(link) = self.links.get_mut(&id) else { return };
        if let Some(frame) = link.requests.pop_front().filter(|_| link.is_accepted && !link.is_cut) {
            self.step_cluster(Event::Frame { conn: BrokerConn(id), frame });
        }
    }

    pub(super) fn deliver(&mut self, id: u64, bytes: &[u8]) {
        let Some(link) = self.links.get_mut(&id).filter(|link| !link.is_cut) else { return };
        link.received.extend_from_slice(bytes);
        let (slot, incarnation, role, conn) = (link.slot, link.incarnation, link.role, link.conn);
        for frame in Self::frames(&mut link.received) {
            // A process that is asleep finds what has arrived before the end of the connection.
            self.pass(slot, incarnation, ProcessEvent::Frame(role, conn, frame));
        }
    }

    pub(super) fn arrive_hang_up(&mut self, id: u64) {
        let Some(link) = self.links.remove(&id) else { return };
        self.pass(link.slot, link.incarnation, ProcessEvent::Closed(link.role, link.conn, CloseReason::Eof));
    }

    /// Ends a connection from the client's side. What is on its way arrives before, or is lost.
    pub(super) fn drop_link(&mut self, id: u64) {
        self.flush_some(id);
        if self.links.remove(&id).is_some_and(|link| link.is_accepted) {
            self.step_cluster(Event::Closed { conn: BrokerConn(id) });
        }
    }

    /// Breaks a connection: both sides learn of it.
    pub(super) fn cut(&mut self, id: u64) {
        self.flush_some(id);
        let Some(link) = self.links.get_mut(&id) else { return };
        link.is_cut = true;
        if std::mem::replace(&mut link.is_accepted, false) {
            self.step_cluster(Event::Closed { conn: BrokerConn(id) });
        }
        let at = self.now + self.delay();
        self.post(at, WorldEvent::HangUp(id));
    }

    /// Lets some of the requests on their way arrive, the first ones.
    fn flush_some(&mut self, id: u64) {
        let Some(link) = self.links.get(&id).filter(|link| link.is_accepted && !link.is_cut) else { return };
        let count = self.rng.below(link.requests.len() as u64 + 1);
        for _ in 0..count {
            self.arrive(id);
        }
        if let Some(link) = self.links.get_mut(&id) {
            link.requests.clear();
        }
    }

    /// Passes an event to the brokers, and carries out their actions.
    pub(super) fn step_cluster(&mut self, event: Event) {
        let now = self.wall_ms();
        let mut actions = Vec::new();
        if let Some(cluster) = &mut self.cluster {
            cluster.step(now, event, &mut actions);
        }
        self.perform(actions);
    }

    pub(super) fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Persist(change) => {
                    if let Some(cluster) = &self.cluster {
                        self.oracle.on_change(cluster.topics(), &change);
                    }
                    self.tell_change(&change);
                    self.stored.push(change);
                }
                Action::Write { conn, bytes } => {
                    let delay = self.delay();
                    let Some(link) = self.links.get_mut(&conn.0) else { continue };
                    link.down = link.down.max(self.now + delay);
                    let at = link.down;
                    self.post(at, WorldEvent::Deliver(conn.0, bytes.to_vec()));
                }
                Action::Close { conn } => self.close_from_broker(conn.0),
                Action::Log(line) => self.story.tell("broker", || line),
                Action::PauseReading(_) | Action::ResumeReading(_) | Action::StopListening(_) | Action::Listen(_) => {}
            }
        }
        self.oracle.end_step();
    }

    pub(super) fn close_from_broker(&mut self, id: u64) {
        let delay = self.delay();
        let Some(link) = self.links.get_mut(&id) else { return };
        link.is_accepted = false;
        link.down = link.down.max(self.now + delay);
        let at = link.down;
        self.post(at, WorldEvent::HangUp(id));
    }

    /// Returns the connections of a slot, and those to a broker.
    pub(super) fn links_where(&self, wanted: impl Fn(&Link) -> bool) -> Vec<u64> {
        self.links.iter().filter(|(_, link)| wanted(link)).map(|(id, _)| *id).collect()
    }
}
