//! One TCP connection's protocol: ApiVersions first, then requests in a pipeline that is answered in order.
//!
//! ```text
//! Connecting --on_connected--> Negotiating --ApiVersions answered--> Ready
//!     |                             |  ^  |                            |
//!     |                             |  +--+ error 35: ask again lower  |
//!     +-----------------------------+------- close / on_closed --------+--> Closed
//! ```
//!
//! A broker answers the requests of one connection in order and works on one at a time. So the requests in flight are a
//! queue, not a map: an answer that does not belong to the head is a broken peer, and a head that is not answered holds up
//! everything behind it, which is why its timeout ends the connection.

mod close;
mod config;
pub(crate) mod throttle;
mod versions;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use grete_wire::api_key::ApiKey;
use grete_wire::error::WireError;
use grete_wire::error_code::ErrorCode;
use grete_wire::frame::{Frame, encode_request, response_header};
use grete_wire::messages::{ApiVersionsRequest, ApiVersionsResponse};
use grete_wire::{Outbound, Reader};

pub use close::CloseReason;
pub use config::ConnConfig;
pub use versions::Versions;

use crate::request::{Request, RequestError, Response, Token};
use crate::time::{Nanos, earlier};

/// What the owner of the connection has to do.
#[derive(Debug)]
pub enum ConnAction {
    /// Send these bytes.
    Write(Outbound),
    /// Hand this to the asker.
    Reply(Token, Result<Response, RequestError>),
    /// Requests can be sent, versions are known.
    Ready,
    /// The broker asks to hold back for so long.
    Throttled(Nanos),
    /// Close the socket; nothing follows.
    Close(CloseReason),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Connecting,
    Negotiating { version: i16, correlation: i32 },
    Ready,
    Closed,
}

#[derive(Debug)]
struct InFlight {
    correlation: i32,
    api: ApiKey,
    version: i16,
    /// `None` once the asker has been told `TimedOut`: the answer is still due, but nobody waits for it.
    token: Option<Token>,
    deadline: Nanos,
    timeout: Nanos,
}

#[derive(Debug)]
struct Queued {
    request: Request,
    token: Token,
    deadline: Nanos,
    timeout: Nanos,
}

/// The protocol on one TCP connection.
#[derive(Debug)]
pub struct Connection {
    config: Arc<ConnConfig>,
    state: State,
    setup_timeout: Nanos,
    setup_deadline: Nanos,
    correlation: i32,
    in_flight: VecDeque<InFlight>,
    queued: VecDeque<Queued>,
    versions: Option<Arc<Versions>>,
    muted_until: Nanos,
    last_used: Nanos,
    answered: bool,
}

impl Connection {
    /// A connection whose socket starts to connect now. Connecting and negotiating may each take `setup_timeout`.
    #[must_use]
    pub fn new(config: Arc<ConnConfig>, now: Nanos, setup_timeout: Nanos) -> Self {
        Self {
            config,
            state: State::Connecting,
            setup_timeout,
            setup_deadline: now.saturating_add(setup_timeout),
            correlation: 0,
            in_flight: VecDeque::new(),
            queued: VecDeque::new(),
            versions: None,
            muted_until: 0,
            last_used: now,
            answered: false,
        }
    }

    /// The socket is connected: asks for ApiVersions.
    pub fn on_connected(&mut self, now: Nanos, out: &mut Vec<ConnAction>) {
        if self.state == State::Connecting {
            self.setup_deadline = now.saturating_add(self.setup_timeout);
            self.negotiate(*ApiKey::ApiVersions.ours().end(), out);
        }
    }

    /// Sends a request, or keeps it until it can be sent. Its reply comes within `timeout`.
    pub fn send(&mut self, now: Nanos, request: Request, token: Token, timeout: Nanos, out: &mut Vec<ConnAction>) {
        if self.state == State::Closed {
            out.push(ConnAction::Reply(token, Err(RequestError::NoConnection)));
            return;
        }
        self.queued.push_back(Queued { request, token, deadline: now.saturating_add(timeout), timeout });
        self.flush(now, out);
    }

    /// A whole message has arrived.
    pub fn on_frame(&mut self, now: Nanos, frame: Frame, out: &mut Vec<ConnAction>) {
        match self.state {
            State::Closed => {}
            State::Connecting => {
                let actual = correlation_of(&frame).unwrap_or_default();
                self.close(now, CloseReason::Correlation { expected: None, actual }, out);
            }
            State::Negotiating { version, correlation } => self.negotiated(now, version, correlation, &frame, out),
            State::Ready => self.answer(now, frame, out),
        }
    }

    /// The socket is gone, or never came about.
    pub fn on_closed(&mut self, now: Nanos, reason: CloseReason, out: &mut Vec<ConnAction>) {
        let reason = match (reason, self.state) {
            (CloseReason::Eof, State::Negotiating { .. }) => CloseReason::HandshakeEof,
            (reason, _) => reason,
        };
        self.close(now, reason, out);
    }

    /// Deals with everything whose time has come.
    pub fn on_tick(&mut self, now: Nanos, out: &mut Vec<ConnAction>) {
        self.expire_queued(now, out);
        match self.state {
            State::Closed => {}
            State::Connecting if now >= self.setup_deadline => {
                self.close(now, CloseReason::ConnectTimeout(self.setup_timeout), out);
            }
            State::Negotiating { .. } if now >= self.setup_deadline => {
                self.close(now, CloseReason::HandshakeTimeout(self.setup_timeout), out);
            }
            State::Connecting | State::Negotiating { .. } => {}
            State::Ready => {
                self.expire_in_flight(now, out);
                self.flush(now, out);
                if self.is_idle() && now >= self.idle_deadline() {
                    self.close(now, CloseReason::Idle, out);
                }
            }
        }
    }

    /// The earliest moment at which [`Connection::on_tick`] has something to do.
    #[must_use]
    pub fn deadline(&self) -> Option<Nanos> {
        let mut deadline = match self.state {
            State::Closed => return None,
            State::Connecting | State::Negotiating { .. } => Some(self.setup_deadline),
            State::Ready if self.is_idle() => Some(self.idle_deadline()),
            State::Ready => None,
        };
        for queued in &self.queued {
            deadline = earlier(deadline, Some(queued.deadline));
        }
        if self.state == State::Ready {
            // Requests held back by a mute leave when it ends; those held back by a full pipeline leave with an answer.
            if !self.queued.is_empty() && self.in_flight.len() < self.config.max_in_flight {
                deadline = earlier(deadline, Some(self.muted_until));
            }
            let head = self.in_flight.front().map(|head| head.deadline);
            deadline = earlier(deadline, head);
            for waiting in self.in_flight.iter().skip(1).filter(|waiting| waiting.token.is_some()) {
                deadline = earlier(deadline, Some(waiting.deadline));
            }
        }
        deadline
    }

    /// Holds back what is not membership until then (KIP-219); the cluster tells all connections of the broker.
    pub fn mute(&mut self, until: Nanos) {
        self.muted_until = self.muted_until.max(until);
    }

    /// Whether versions are known and requests leave at once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// What the broker speaks, once it has said so.
    #[must_use]
    pub fn versions(&self) -> Option<&Arc<Versions>> {
        self.versions.as_ref()
    }

    /// Requests sent and not answered, or waiting to be sent.
    #[must_use]
    pub fn load(&self) -> usize {
        self.in_flight.len() + self.queued.len()
    }

    /// Whether nothing is asked and nothing waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.load() == 0
    }

    /// Whether it has answered anything beyond ApiVersions.
    #[must_use]
    pub fn has_answered(&self) -> bool {
        self.answered
    }

    fn idle_deadline(&self) -> Nanos {
        self.last_used.saturating_add(self.config.max_idle)
    }

    fn next_correlation(&mut self) -> i32 {
        let correlation = self.correlation;
        self.correlation = self.correlation.checked_add(1).unwrap_or(0);
        correlation
    }

    fn negotiate(&mut self, version: i16, out: &mut Vec<ConnAction>) {
        let correlation = self.next_correlation();
        let body = ApiVersionsRequest {
            client_software_name: "grete".into(),
            client_software_version: env!("CARGO_PKG_VERSION").into(),
        };
        let client_id = &self.config.client_id;
        let body = |out: &mut Outbound| body.encode(version, out.tail());
        match encode_request(ApiKey::ApiVersions, version, correlation, client_id, 64, body) {
            Ok(bytes) => {
                self.state = State::Negotiating { version, correlation };
                out.push(ConnAction::Write(bytes));
            }
            // Only a client id that no protocol can carry gets here; settings are checked before.
            Err(error) => self.close(0, CloseReason::Wire(error), out),
        }
    }

    fn negotiated(&mut self, now: Nanos, version: i16, correlation: i32, frame: &Frame, out: &mut Vec<ConnAction>) {
        let answer = match handshake_answer(version, correlation, frame) {
            Ok(answer) => answer,
            Err(reason) => return self.close(now, reason, out),
        };
        match ErrorCode(answer.error_code) {
            ErrorCode::NONE => {
                let throttle = throttle::of_millis(answer.throttle_time_ms);
                self.versions = Some(Arc::new(Versions::new(&answer)));
                self.state = State::Ready;
                self.last_used = now;
                if throttle > 0 {
                    self.mute(now.saturating_add(throttle));
                    out.push(ConnAction::Throttled(throttle));
                }
                out.push(ConnAction::Ready);
                self.flush(now, out);
            }
            // The broker is older: its answer has the shape of version 0 and may list what it knows (KIP-511).
            ErrorCode::UNSUPPORTED_VERSION if version > 0 => {
                let listed = Versions::new(&answer).pick(ApiKey::ApiVersions).unwrap_or(0);
                self.negotiate(if listed < version { listed } else { 0 }, out);
            }
            error => self.close(now, CloseReason::HandshakeRefused(error.0), out),
        }
    }

    fn answer(&mut self, now: Nanos, frame: Frame, out: &mut Vec<ConnAction>) {
        let actual = match correlation_of(&frame) {
            Ok(actual) => actual,
            Err(error) => return self.close(now, CloseReason::Wire(error), out),
        };
        let expected = self.in_flight.front().map(|head| head.correlation);
        if expected != Some(actual) {
            return self.close(now, CloseReason::Correlation { expected, actual }, out);
        }
        let Some(head) = self.in_flight.front() else { return };
        let body = match response_header(head.api, head.version, &frame) {
            Ok((_, body)) => body,
            Err(error) => return self.close(now, CloseReason::Wire(error), out),
        };
        let Some(head) = self.in_flight.pop_front() else { return };
        self.last_used = now;
        self.answered = true;
        if let Some(next) = self.in_flight.front_mut()
            && next.token.is_none()
        {
            // Nobody waits for the new head any more, and its own time is over; but it was the old head that held it up.
            // It gets its time again, so that a broker that swallows it still cannot wedge the connection.
            next.deadline = now.saturating_add(next.timeout);
        }
        let response = Response { api: head.api, version: head.version, frame, body };
        let throttle = throttle::of_response(head.api, head.version, response.body());
        if throttle > 0 {
            self.mute(now.saturating_add(throttle));
            out.push(ConnAction::Throttled(throttle));
        }
        if let Some(token) = head.token {
            out.push(ConnAction::Reply(token, Ok(response)));
        }
        self.flush(now, out);
    }

    /// Sends what may be sent, in order; membership requests pass those that a mute holds back.
    fn flush(&mut self, now: Nanos, out: &mut Vec<ConnAction>) {
        let Some(versions) = self.versions.clone().filter(|_| self.state == State::Ready) else { return };
        let muted = now < self.muted_until;
        let mut index = 0;
        while self.in_flight.len() < self.config.max_in_flight {
            match self.queued.get(index) {
                None => break,
                Some(queued) if muted && !queued.request.keeps_membership() => index += 1,
                Some(_) => {
                    if let Some(queued) = self.queued.remove(index) {
                        self.transmit(now, queued, &versions, out);
                    }
                }
            }
        }
    }

    fn transmit(&mut self, now: Nanos, queued: Queued, versions: &Versions, out: &mut Vec<ConnAction>) {
        let Queued { request, token, deadline, timeout } = queued;
        let api = request.api();
        let picked = match request.fixed_version() {
            Some(version) => versions.check(api, version),
            None => versions.pick_up_to(api, request.max_version()),
        };
        let version = match picked {
            Ok(version) => version,
            Err(error) => return out.push(ConnAction::Reply(token, Err(error))),
        };
        let correlation = self.next_correlation();
        let client_id = &self.config.client_id;
        let body = |out: &mut Outbound| request.encode_body(version, out);
        let bytes = match encode_request(api, version, correlation, client_id, request.size_hint(), body) {
            Ok(bytes) => bytes,
            Err(error) => return out.push(ConnAction::Reply(token, Err(RequestError::Encode(error)))),
        };
        self.last_used = now;
        out.push(ConnAction::Write(bytes));
        if request.is_answered() {
            self.in_flight.push_back(InFlight { correlation, api, version, token: Some(token), deadline, timeout });
        } else {
            out.push(ConnAction::Reply(token, Err(RequestError::Unanswered)));
        }
    }

    fn expire_queued(&mut self, now: Nanos, out: &mut Vec<ConnAction>) {
        self.queued.retain(|queued| {
            let late = now >= queued.deadline;
            if late {
                out.push(ConnAction::Reply(queued.token, Err(RequestError::TimedOut)));
            }
            !late
        });
    }

    fn expire_in_flight(&mut self, now: Nanos, out: &mut Vec<ConnAction>) {
        if let Some(head) = self.in_flight.front()
            && now >= head.deadline
        {
            let reason = CloseReason::RequestTimeout { api: head.api, waited: head.timeout };
            return self.close(now, reason, out);
        }
        // Behind a head that still has time, a late one only loses its asker: its answer will come in its turn.
        for late in self.in_flight.iter_mut().skip(1).filter(|waiting| now >= waiting.deadline) {
            if let Some(token) = late.token.take() {
                out.push(ConnAction::Reply(token, Err(RequestError::TimedOut)));
            }
        }
    }

    fn close(&mut self, now: Nanos, reason: CloseReason, out: &mut Vec<ConnAction>) {
        if self.state == State::Closed {
            return;
        }
        self.state = State::Closed;
        for (index, sent) in self.in_flight.drain(..).enumerate() {
            let Some(token) = sent.token else { continue };
            let error = match &reason {
                _ if now >= sent.deadline => RequestError::TimedOut,
                CloseReason::Wire(error) if index == 0 => RequestError::Protocol(error.clone()),
                _ => RequestError::Disconnected,
            };
            out.push(ConnAction::Reply(token, Err(error)));
        }
        for queued in self.queued.drain(..) {
            let late = now >= queued.deadline;
            let error = if late { RequestError::TimedOut } else { RequestError::NoConnection };
            out.push(ConnAction::Reply(queued.token, Err(error)));
        }
        out.push(ConnAction::Close(reason));
    }
}

fn correlation_of(frame: &[u8]) -> Result<i32, WireError> {
    Reader::new(frame).i32()
}

fn handshake_answer(version: i16, correlation: i32, frame: &Frame) -> Result<ApiVersionsResponse<'_>, CloseReason> {
    let actual = correlation_of(frame).map_err(CloseReason::Wire)?;
    if actual != correlation {
        return Err(CloseReason::Correlation { expected: Some(correlation), actual });
    }
    let (_, start) = response_header(ApiKey::ApiVersions, version, frame).map_err(CloseReason::Wire)?;
    let body = frame.get(start..).unwrap_or_default();
    let error = Reader::new(body).i16().map_err(CloseReason::Wire)?;
    let shape = if ErrorCode(error) == ErrorCode::UNSUPPORTED_VERSION { 0 } else { version };
    ApiVersionsResponse::decode(shape, &mut Reader::new(body)).map_err(CloseReason::Wire)
}
