//! State machine of one TCP connection: ApiVersions first, then pipelined requests with responses in order.
//!
//! ```text
//! Connecting --on_connected--> Negotiating --ApiVersions response--> (Authenticating) --> Ready
//!     |                            |  ^  |                            ^                 |
//!     |                            |  +--+ error 35: lower version    +-- session ends --+
//!     +----------------------------+------- close / on_closed --------------------------+--> Closed
//! ```
//!
//! With SASL, `authenticating` logs in before any other request but ApiVersions, and again before the session ends.
//!
//! A broker handles the requests of one connection one at a time and responds in order. The requests in flight are
//! therefore a queue, not a map. A response that does not match the head proves a broken peer. A head without a
//! response blocks all requests behind it, so its timeout closes the connection.

mod api_versions;
mod authenticating;
mod close_reason;
pub(crate) mod throttle;

#[cfg(test)]
mod gssapi_tests;
#[cfg(test)]
mod sasl_tests;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use grete_wire::api::ApiKey;
use grete_wire::error::WireError;
use grete_wire::error_code::ErrorCode;
use grete_wire::frame::{Frame, encode_request, parse_response_header};
use grete_wire::messages::{ApiVersionsRequest, ApiVersionsResponse};
use grete_wire::{Reader, SegmentedBuf};

pub use api_versions::{ApiVersions, FinalizedFeatures};
pub use close_reason::CloseReason;

use crate::request::{Request, RequestError, Response, Token};
use crate::sasl::authentication::{Authentication, AuthenticationEvent};
use crate::sasl::{GssCall, GssResult, SaslConfig};
use crate::time::{Nanos, SECOND, earliest};

/// Settings of one connection; derived from the cluster settings.
#[derive(Debug, Clone)]
pub struct ConnConfig {
    /// `client.id`.
    pub client_id: Arc<str>,
    /// Maximum requests in flight; further requests are queued.
    pub max_in_flight: usize,
    /// Time without a request after which the connection is closed.
    pub max_idle: Nanos,
    /// Mechanism and credentials; `None`: no authentication.
    pub sasl: Option<Arc<SaslConfig>>,
}

impl Default for ConnConfig {
    fn default() -> Self {
        Self { client_id: "grete".into(), max_in_flight: 16, max_idle: 540 * SECOND, sasl: None }
    }
}

/// Action for the owner of the connection.
#[derive(Debug)]
pub enum ConnAction {
    /// Write these bytes to the socket.
    Write(SegmentedBuf),
    /// Call the GSSAPI library, and pass its answer to [`Connection::on_gss`].
    Gss(GssCall),
    /// Pass the result to the sender of the request.
    Reply(Token, Result<Response, RequestError>),
    /// The API versions are known, and requests can be sent.
    Ready,
    /// The broker requested this throttle time.
    Throttled(Nanos),
    /// Close the socket; no further action follows.
    Close(CloseReason),
}

/// Correlation id of ApiVersions, the first request: two line ends, which no broker reads as such. A web server takes
/// the bytes before them for a request line, and refuses that at once; without a line end it would wait for one until
/// the handshake's timeout, and no log line would name the web server.
const HANDSHAKE_CORRELATION: i32 = i32::from_be_bytes(*b"\r\n\r\n");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Connecting,
    Negotiating {
        version: i16,
    },
    /// Logs in for the first time, or asks whether a login is expected: no other request is sent.
    Authenticating,
    Ready,
    /// Logs in again: requests that were sent before get their responses, others wait.
    Reauthenticating,
    Closed,
}

#[derive(Debug)]
struct InFlightRequest {
    correlation: i32,
    api: ApiKey,
    version: i16,
    /// `None`: the sender of the request got `TimedOut`, and the response, still due, will be ignored; or the request is
    /// one of the authentication.
    token: Option<Token>,
    deadline: Nanos,
    timeout: Nanos,
}

#[derive(Debug)]
struct QueuedRequest {
    request: Request,
    token: Token,
    deadline: Nanos,
    timeout: Nanos,
}

/// State machine of the protocol on one TCP connection.
#[derive(Debug)]
pub struct Connection {
    config: Arc<ConnConfig>,
    state: State,
    setup_timeout: Nanos,
    setup_deadline: Nanos,
    correlation: i32,
    in_flight: VecDeque<InFlightRequest>,
    queued: VecDeque<QueuedRequest>,
    versions: Option<Arc<ApiVersions>>,
    muted_until: Nanos,
    last_used: Nanos,
    has_response: bool,
    authentication: Option<Authentication>,
    /// Time at which the connection logs in again; `None`: the session does not end.
    renewal: Option<Nanos>,
    /// Time before which the broker refuses a new login; 0: it refuses none.
    reauthenticates_from: Nanos,
    /// The listener is asked whether it expects a login, before any other request.
    probes_login: bool,
}

impl Connection {
    /// Creates a connection whose socket starts to connect now. Connecting and negotiating may each take
    /// `setup_timeout`.
    pub fn new(config: Arc<ConnConfig>, now: Nanos, setup_timeout: Nanos) -> Self {
        Self {
            config,
            state: State::Connecting,
            setup_timeout,
            setup_deadline: now.saturating_add(setup_timeout),
            correlation: 1,
            in_flight: VecDeque::new(),
            queued: VecDeque::new(),
            versions: None,
            muted_until: 0,
            last_used: now,
            has_response: false,
            authentication: None,
            renewal: None,
            reauthenticates_from: 0,
            probes_login: false,
        }
    }

    /// Asks the listener whether it expects a login, if this client has none: the last connection was closed at the
    /// first request. The connection becomes ready if the listener expects none.
    pub fn probe_login(&mut self) {
        self.probes_login = self.config.sasl.is_none();
    }

    /// Handles the connected socket: sends ApiVersions.
    pub fn on_connected(&mut self, now: Nanos, out: &mut Vec<ConnAction>) {
        if self.state == State::Connecting {
            self.setup_deadline = now.saturating_add(self.setup_timeout);
            self.negotiate(*ApiKey::ApiVersions.ours().end(), out);
        }
    }

    /// Sends a request, or queues it until it can be sent. The reply comes within `timeout`.
    pub fn send(&mut self, now: Nanos, request: Request, token: Token, timeout: Nanos, out: &mut Vec<ConnAction>) {
        if self.state == State::Closed {
            out.push(ConnAction::Reply(token, Err(RequestError::NoConnection)));
            return;
        }
        self.queued.push_back(QueuedRequest { request, token, deadline: now.saturating_add(timeout), timeout });
        self.flush(now, out);
    }

    /// Handles a complete frame.
    pub fn on_frame(&mut self, now: Nanos, frame: Frame, out: &mut Vec<ConnAction>) {
        match self.state {
            State::Closed => {}
            State::Connecting => {
                let actual = correlation_of(&frame).unwrap_or_default();
                self.close(now, CloseReason::Correlation { expected: None, actual }, out);
            }
            State::Negotiating { version } => self.on_api_versions_response(now, version, &frame, out),
            State::Authenticating | State::Ready | State::Reauthenticating => self.on_response(now, frame, out),
        }
    }

    /// Handles the answer of the GSSAPI library.
    pub fn on_gss(&mut self, now: Nanos, result: GssResult, out: &mut Vec<ConnAction>) {
        if self.state != State::Closed {
            self.step_authentication(now, AuthenticationEvent::Gss(result), out);
        }
    }

    /// Handles the end of the socket, or a failed connect.
    pub fn on_closed(&mut self, now: Nanos, reason: CloseReason, out: &mut Vec<ConnAction>) {
        let reason = match (reason, self.state) {
            (CloseReason::Eof, State::Negotiating { .. }) => CloseReason::HandshakeEof,
            (CloseReason::Eof, State::Authenticating | State::Reauthenticating)
                if self.config.sasl.is_some() && self.awaits_authentication() =>
            {
                CloseReason::AuthenticationEof
            }
            // A broker restarts now and then at this very moment, too: the next connection finds out.
            (CloseReason::Eof, State::Ready | State::Authenticating)
                if self.config.sasl.is_none() && !self.has_response && !self.in_flight.is_empty() =>
            {
                CloseReason::FirstRequestEof
            }
            (reason, _) => reason,
        };
        self.close(now, reason, out);
    }

    /// Handles all deadlines that have passed.
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
            State::Authenticating if now >= self.setup_deadline => {
                let reason = self.authentication_timeout();
                self.close(now, reason, out);
            }
            State::Reauthenticating if self.awaits_library() && now >= self.setup_deadline => {
                let reason = self.authentication_timeout();
                self.close(now, reason, out);
            }
            State::Authenticating => self.authenticate(now, out),
            State::Reauthenticating => {
                self.expire_in_flight(now, out);
                if self.state != State::Closed {
                    self.authenticate(now, out);
                }
            }
            State::Ready => {
                self.expire_in_flight(now, out);
                self.flush(now, out);
                if self.state == State::Ready && self.renewal.is_some_and(|renewal| now >= renewal) {
                    self.reauthenticate(now, out);
                }
                if self.state == State::Ready && self.is_idle() && now >= self.idle_deadline() {
                    self.close(now, CloseReason::Idle, out);
                }
            }
        }
    }

    /// Returns the time of the next [`Connection::on_tick`]; `None`: no timer is running.
    pub fn deadline(&self) -> Option<Nanos> {
        let mut deadline = match self.state {
            State::Closed => return None,
            State::Connecting | State::Negotiating { .. } => Some(self.setup_deadline),
            State::Authenticating => earliest(Some(self.setup_deadline), self.authentication_deadline()),
            State::Ready if self.is_idle() => earliest(Some(self.idle_deadline()), self.renewal),
            State::Ready => self.renewal,
            State::Reauthenticating if self.awaits_library() => Some(self.setup_deadline),
            State::Reauthenticating => self.authentication_deadline(),
        };
        for queued in &self.queued {
            deadline = earliest(deadline, Some(queued.deadline));
        }
        if matches!(self.state, State::Ready | State::Reauthenticating) {
            // Requests held back by a mute are sent at its end. Requests held back by a full pipeline are sent after a
            // response.
            if self.state == State::Ready && !self.queued.is_empty() && self.in_flight.len() < self.config.max_in_flight
            {
                deadline = earliest(deadline, Some(self.muted_until));
            }
            let head = self.in_flight.front().map(|head| head.deadline);
            deadline = earliest(deadline, head);
            for waiting in self.in_flight.iter().skip(1).filter(|waiting| waiting.token.is_some()) {
                deadline = earliest(deadline, Some(waiting.deadline));
            }
        }
        deadline
    }

    /// Ends all mutes.
    pub fn unmute(&mut self) {
        self.muted_until = 0;
    }

    /// Holds back requests until `until`, except those for group membership (KIP-219). The cluster calls this for all
    /// connections of the broker.
    pub fn mute(&mut self, until: Nanos) {
        self.muted_until = self.muted_until.max(until);
    }

    /// Returns whether requests can be sent: at once, or after the new login that is in progress.
    pub fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready | State::Reauthenticating)
    }

    /// Returns the API versions of the broker; `None`: not received yet.
    pub fn versions(&self) -> Option<&Arc<ApiVersions>> {
        self.versions.as_ref()
    }

    /// Returns the number of requests in flight or queued.
    pub fn load(&self) -> usize {
        self.in_flight.len() + self.queued.len()
    }

    /// Returns whether no request is in flight or queued.
    pub fn is_idle(&self) -> bool {
        self.load() == 0
    }

    /// Returns whether the broker has responded to a request other than ApiVersions and those of an authentication.
    pub fn has_response(&self) -> bool {
        self.has_response
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
        let body = ApiVersionsRequest {
            client_software_name: "grete".into(),
            client_software_version: env!("CARGO_PKG_VERSION").into(),
        };
        let client_id = &self.config.client_id;
        let body = |out: &mut SegmentedBuf| body.encode(version, out.tail());
        match encode_request(ApiKey::ApiVersions, version, HANDSHAKE_CORRELATION, client_id, 64, body) {
            Ok(bytes) => {
                self.state = State::Negotiating { version };
                out.push(ConnAction::Write(bytes));
            }
            // Only a client id that no frame can carry causes this; the settings are checked before.
            Err(error) => self.close(0, CloseReason::Wire(error), out),
        }
    }

    fn on_api_versions_response(&mut self, now: Nanos, version: i16, frame: &Frame, out: &mut Vec<ConnAction>) {
        let answer = match handshake_answer(version, frame) {
            Ok(answer) => answer,
            Err(reason) => return self.close(now, reason, out),
        };
        match ErrorCode(answer.error_code) {
            ErrorCode::NONE => {
                let throttle = throttle::from_millis(answer.throttle_time_ms);
                self.versions = Some(Arc::new(ApiVersions::new(&answer)));
                self.last_used = now;
                if throttle > 0 {
                    self.mute(now.saturating_add(throttle));
                    out.push(ConnAction::Throttled(throttle));
                }
                match self.config.sasl.clone() {
                    Some(sasl) => self.begin_authentication(now, sasl, out),
                    None if self.probes_login => self.begin_probe(now, out),
                    None => self.become_ready(now, out),
                }
            }
            // The broker is older: its response has the format of version 0 and may list the supported versions
            // (KIP-511).
            ErrorCode::UNSUPPORTED_VERSION if version > 0 => {
                let listed = ApiVersions::new(&answer).negotiate(ApiKey::ApiVersions).unwrap_or(0);
                self.negotiate(if listed < version { listed } else { 0 }, out);
            }
            error => self.close(now, CloseReason::HandshakeRefused(error.0), out),
        }
    }

    fn become_ready(&mut self, now: Nanos, out: &mut Vec<ConnAction>) {
        self.state = State::Ready;
        out.push(ConnAction::Ready);
        self.flush(now, out);
    }

    fn on_response(&mut self, now: Nanos, frame: Frame, out: &mut Vec<ConnAction>) {
        let actual = match correlation_of(&frame) {
            Ok(actual) => actual,
            Err(error) => return self.close(now, CloseReason::Wire(error), out),
        };
        let expected = self.in_flight.front().map(|head| head.correlation);
        if expected != Some(actual) {
            return self.close(now, CloseReason::Correlation { expected, actual }, out);
        }
        let Some(head) = self.in_flight.front() else { return };
        let body = match parse_response_header(head.api, head.version, &frame) {
            Ok((_, body)) => body,
            Err(error) => return self.close(now, CloseReason::Wire(error), out),
        };
        let Some(head) = self.in_flight.pop_front() else { return };
        if head.is_authentication() {
            return self.on_authentication_response(now, head.version, &frame, body, out);
        }
        self.last_used = now;
        self.has_response = true;
        if let Some(next) = self.in_flight.front_mut()
            && next.token.is_none()
        {
            // The new head has timed out and its response will be ignored, but only because the old head blocked it; or
            // it belongs to the authentication, which waited for the old head. It gets its full timeout now, so that a
            // broker that drops it still cannot wedge the connection.
            next.deadline = now.saturating_add(next.timeout);
        }
        let response = Response { api: head.api, version: head.version, frame, body };
        let throttle = throttle::from_response(head.api, head.version, response.body());
        if throttle > 0 {
            self.mute(now.saturating_add(throttle));
            out.push(ConnAction::Throttled(throttle));
        }
        if let Some(token) = head.token {
            out.push(ConnAction::Reply(token, Ok(response)));
        }
        self.flush(now, out);
    }

    /// Sends queued requests in order, as far as allowed. Membership requests overtake requests that a mute holds back.
    fn flush(&mut self, now: Nanos, out: &mut Vec<ConnAction>) {
        let Some(versions) = self.versions.clone().filter(|_| self.state == State::Ready) else { return };
        let muted = now < self.muted_until;
        let mut index = 0;
        while self.in_flight.len() < self.config.max_in_flight {
            match self.queued.get(index) {
                None => break,
                Some(queued) if muted && !queued.request.is_throttle_exempt() => index += 1,
                Some(_) => {
                    if let Some(queued) = self.queued.remove(index) {
                        self.transmit(now, queued, &versions, out);
                    }
                }
            }
        }
    }

    fn transmit(&mut self, now: Nanos, queued: QueuedRequest, versions: &ApiVersions, out: &mut Vec<ConnAction>) {
        let QueuedRequest { request, token, deadline, timeout } = queued;
        let api = request.api();
        let picked = match request.fixed_version() {
            Some(version) => versions.check_version(api, version),
            None => versions.negotiate_up_to(api, request.max_version()),
        };
        let version = match picked {
            Ok(version) => version,
            Err(error) => return out.push(ConnAction::Reply(token, Err(error))),
        };
        let correlation = self.next_correlation();
        let client_id = &self.config.client_id;
        let body = |out: &mut SegmentedBuf| request.encode_body(version, out);
        let bytes = match encode_request(api, version, correlation, client_id, request.size_hint(), body) {
            Ok(bytes) => bytes,
            Err(error) => return out.push(ConnAction::Reply(token, Err(RequestError::Encode(error)))),
        };
        self.last_used = now;
        out.push(ConnAction::Write(bytes));
        if request.expects_response() {
            self.in_flight.push_back(InFlightRequest {
                correlation,
                api,
                version,
                token: Some(token),
                deadline,
                timeout,
            });
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
        // Behind a head that has not timed out, a late request only gets its `TimedOut` reply; its response arrives in
        // turn.
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

fn handshake_answer(version: i16, frame: &Frame) -> Result<ApiVersionsResponse<'_>, CloseReason> {
    let actual = correlation_of(frame).map_err(CloseReason::Wire)?;
    if actual != HANDSHAKE_CORRELATION {
        return Err(CloseReason::Correlation { expected: Some(HANDSHAKE_CORRELATION), actual });
    }
    let (_, start) = parse_response_header(ApiKey::ApiVersions, version, frame).map_err(CloseReason::Wire)?;
    let body = frame.get(start..).unwrap_or_default();
    let error = Reader::new(body).i16().map_err(CloseReason::Wire)?;
    let shape = if ErrorCode(error) == ErrorCode::UNSUPPORTED_VERSION { 0 } else { version };
    ApiVersionsResponse::decode(shape, &mut Reader::new(body)).map_err(CloseReason::Wire)
}
