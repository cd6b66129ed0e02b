//! Connections between members and brokers: each keeps its order, and responses leave in the order of their requests.

use std::collections::VecDeque;

use grete_wire::messages::FetchResponse;
use grete_wire::messages::fetch::FetchRequest;
use grete_wire::{ApiKey, Frame, Reader};

use super::brokers::Brokers;
use super::fetch_sessions::{RequestOutcome, Topics};
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
        let brokers = &mut self.brokers;
        let names = &brokers.names;
        let name = |id: u128| names.get(&id).cloned().unwrap_or_else(|| format!("?{id}"));
        let (max_bytes, wait) = (request.max_bytes, u64::from(request.max_wait_ms.unsigned_abs()) * MILLI);
        let taken = brokers.sessions.take(node, &request, name);
        drop(request);
        self.sequence += 1;
        let mut poll = Poll { id: self.sequence, member: m, asked, session: 0, full: false, max_bytes };
        match taken {
            RequestOutcome::Session(session, full) => {
                (poll.session, poll.full) = (session, full);
                let (response, news) = self.fill(&poll);
                if news {
                    return self.answer_fetch(&poll, &response);
                }
                self.post(self.now + wait, Event::PollEnd(poll.id));
                self.polls.push(poll);
            }
            RequestOutcome::Refused(code) => {
                self.answer_fetch(&poll, &FetchResponse { error_code: code.0, ..FetchResponse::default() });
            }
            RequestOutcome::Closed => self.answer_fetch(&poll, &FetchResponse::default()),
        }
    }

    pub(in crate::consumer::tests) fn fill(&mut self, poll: &Poll) -> (FetchResponse<'static>, bool) {
        let Brokers { sessions, logs, ids, coordinator, .. } = &mut self.brokers;
        let topics = Topics { ids, forbidden: &coordinator.forbidden };
        sessions.fill(poll.session, poll.full, poll.asked.version, poll.max_bytes, logs, &topics)
    }

    pub(in crate::consumer::tests) fn answer_fetch(&mut self, poll: &Poll, response: &FetchResponse<'_>) {
        let frame = poll.asked.encode_response(|version, out| response.encode(version, out));
        self.answer(poll.member, poll.asked.conn, poll.asked.correlation, frame);
    }

    /// Answers the long polls that new data satisfies.
    pub fn serve_polls(&mut self) {
        for poll in std::mem::take(&mut self.polls) {
            let (response, news) = self.fill(&poll);
            if news {
                self.answer_fetch(&poll, &response);
            } else {
                self.polls.push(poll);
            }
        }
    }
}
