//! Connections between members and brokers: each keeps its order, and responses leave in the order of their requests.

use std::collections::VecDeque;

use grete_wire::messages::FetchResponse;
use grete_wire::messages::fetch::FetchRequest;
use grete_wire::{ApiKey, Frame, Reader};

use super::brokers::Brokers;
use super::fetch_sessions::Topics;
use super::{Conn, Event, Poll, Simulator};
use crate::cluster::test_cluster::{ReceivedRequest, frame};
use crate::connection::CloseReason;
use crate::consumer::*;
use crate::group::tests::coordinator::ReplyTo;
use crate::ids::{ConnId, NodeId};
use crate::time::MILLI;

impl Simulator {
    pub(in crate::consumer::tests) fn connect(&mut self, m: usize, conn: ConnId, host: &str) {
        let node: NodeId = host.trim_start_matches('b').parse().expect("brokers are called b1, b2...");
        self.conns.insert((m, conn), Conn { node, queue: VecDeque::new(), out: 0, back: 0 });
        let at = self.now + self.delay();
        self.post(at, Event::Connected(m, conn));
    }

    pub(in crate::consumer::tests) fn connected(&mut self, m: usize, conn: ConnId) {
        let Some(wire) = self.conns.get(&(m, conn)) else { return };
        if self.brokers.down.contains(&wire.node) {
            self.conns.remove(&(m, conn));
            return self.step(m, ConsumerEvent::Closed(conn, CloseReason::Connect("refused".into())));
        }
        self.step(m, ConsumerEvent::Connected(conn));
    }

    pub fn hang_up(&mut self, m: usize, conn: ConnId) {
        self.conns.remove(&(m, conn));
        self.polls.retain(|poll| poll.member != m || poll.asked.conn != conn);
        self.post(self.now, Event::HangUp(m, conn));
    }

    pub(in crate::consumer::tests) fn write(&mut self, m: usize, conn: ConnId, bytes: &[u8]) {
        let delay = self.delay();
        let Some(wire) = self.conns.get_mut(&(m, conn)) else { return };
        wire.out = wire.out.max(self.now + delay);
        let at = wire.out;
        self.post(at, Event::Request(m, ReceivedRequest::parse(conn, bytes)));
    }

    pub(in crate::consumer::tests) fn request(&mut self, m: usize, asked: ReceivedRequest) {
        let Some(wire) = self.conns.get_mut(&(m, asked.conn)) else { return };
        wire.queue.push_back((asked.correlation, None));
        let node = wire.node;
        self.seen.push((self.now, m, asked.clone()));
        if self.brokers.silent.contains(&asked.api) {
            return;
        }
        if let Some(frame) = self.brokers.answer(node, &asked) {
            self.answer(m, asked.conn, asked.correlation, frame);
        } else if asked.api == ApiKey::Fetch {
            self.fetch(m, node, asked);
        } else {
            let token = asked.correlation.unsigned_abs();
            let connection = u64::from(asked.conn.0);
            let to = ReplyTo { client: m, connection, token, api: asked.api, version: asked.version };
            self.brokers.coordinator.handle_body(self.now, node, to, &asked.body);
        }
    }

    pub(in crate::consumer::tests) fn answer_group(&mut self) {
        for (to, body) in std::mem::take(&mut self.brokers.coordinator.out) {
            let conn = ConnId(u32::try_from(to.connection).unwrap());
            if body.is_empty() {
                self.hang_up(to.client, conn);
                continue;
            }
            let frame = frame(to.api, to.version, to.token.cast_signed(), |_, out| {
                out.extend(body);
                Ok(())
            });
            self.answer(to.client, conn, to.token.cast_signed(), frame);
        }
    }

    /// Sends responses in the order of their requests.
    pub(in crate::consumer::tests) fn answer(&mut self, m: usize, conn: ConnId, correlation: i32, frame: Frame) {
        let delay = self.delay();
        let Some(wire) = self.conns.get_mut(&(m, conn)) else { return };
        if let Some(place) = wire.queue.iter_mut().find(|(asked, _)| *asked == correlation) {
            place.1 = Some(frame);
        }
        wire.back = wire.back.max(self.now + delay);
        let at = wire.back;
        let mut ready = Vec::new();
        while wire.queue.front().is_some_and(|(_, answer)| answer.is_some()) {
            ready.extend(wire.queue.pop_front().and_then(|(_, answer)| answer));
        }
        for frame in ready {
            self.post(at, Event::Response(m, conn, frame));
        }
    }

    pub(in crate::consumer::tests) fn fetch(&mut self, m: usize, node: NodeId, asked: ReceivedRequest) {
        let request = FetchRequest::decode(asked.version, &mut Reader::new(&asked.body)).unwrap();
        let (max_bytes, wait) = (request.max_bytes, u64::from(request.max_wait_ms.unsigned_abs()) * MILLI);
        let begun = self.brokers.sessions.begin(node, asked.version, &request);
        drop(request);
        self.sequence += 1;
        let planned = match begun {
            Ok(planned) => planned,
            Err(code) => {
                let response = FetchResponse { error_code: code.0, ..FetchResponse::default() };
                return self.answer_fetch(m, &asked, &response);
            }
        };
        let poll = Poll { id: self.sequence, member: m, asked, planned, max_bytes };
        if !self.serve_poll(&poll, false) {
            self.post(self.now + wait, Event::PollEnd(poll.id));
            self.polls.push(poll);
        }
    }

    /// Answers a Fetch if there is something to report, or at its end. Returns whether there was an answer.
    pub(in crate::consumer::tests) fn serve_poll(&mut self, poll: &Poll, at_end: bool) -> bool {
        let Brokers { sessions, logs, ids, names, coordinator, .. } = &mut self.brokers;
        let topics = Topics { ids, names, forbidden: &coordinator.forbidden };
        let response = sessions.respond(&poll.planned, at_end, poll.asked.version, poll.max_bytes, logs, &topics);
        if let Some(response) = &response {
            self.answer_fetch(poll.member, &poll.asked, response);
        }
        response.is_some()
    }

    pub(in crate::consumer::tests) fn answer_fetch(
        &mut self,
        m: usize,
        asked: &ReceivedRequest,
        response: &FetchResponse<'_>,
    ) {
        let frame = asked.encode_response(|version, out| response.encode(version, out));
        self.answer(m, asked.conn, asked.correlation, frame);
    }

    /// Answers the long polls that new data satisfies.
    pub fn serve_polls(&mut self) {
        for poll in std::mem::take(&mut self.polls) {
            if !self.serve_poll(&poll, false) {
                self.polls.push(poll);
            }
        }
    }
}
