//! Authentication of a connection by SASL: at its begin, and again before the session ends (KIP-368).
//!
//! The broker allows nothing but SaslAuthenticate between SaslHandshake and the end of the authentication; any other
//! request there closes the connection (P34). The race to avoid:
//!
//! 1. Fetch is in flight, and the session is about to end. SaslHandshake is sent behind it: a broker handles the requests
//!    of a connection one at a time, so it answers Fetch first and reads SaslHandshake then.
//! 2. The response to Fetch arrives. Without the state `Reauthenticating`, it would make room in the pipeline, and `flush`
//!    would send the next Fetch, which the broker would read after SaslHandshake.
//! 3. The response to SaslHandshake arrives; SaslAuthenticate is sent, to a connection that is closed by then.
//!
//! So `flush` sends nothing until the authentication is done, and what was sent before it gets its responses.
//!
//! A client without a login probes a listener that closed its last connection at the first request. Such a listener may
//! expect a login, or the broker was about to stop. SaslHandshake distinguishes the two: a listener without SASL answers
//! ILLEGAL_SASL_STATE and goes on, every other listener answers with its mechanisms.

use std::borrow::Cow;
use std::sync::Arc;

use grete_wire::api::ApiKey;
use grete_wire::error_code::ErrorCode;
use grete_wire::frame::{Frame, encode_request};
use grete_wire::messages::{
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};
use grete_wire::{Reader, SegmentedBuf, WireError};

use super::{CloseReason, ConnAction, Connection, InFlightRequest, State};
use crate::sasl::authentication::{Authentication, AuthenticationAction, AuthenticationEvent};
use crate::sasl::error::listed;
use crate::sasl::{KerberosFailure, KerberosFailureKind, Mechanism, SaslConfig, SaslError};
use crate::time::{MILLI, Nanos, SECOND};

/// Time between two new logins of a connection. Kafka's brokers refuse SaslHandshake less than a second after the one
/// before, except for the first new login, and take it after the end of a session, too. A token with less than a second
/// to live makes a session that ends too early for the next login.
const REAUTHENTICATION_INTERVAL: Nanos = SECOND;

impl InFlightRequest {
    pub(super) fn is_authentication(&self) -> bool {
        matches!(self.api, ApiKey::SaslHandshake | ApiKey::SaslAuthenticate)
    }
}

impl Connection {
    /// Begins the first authentication, or fails if the listener has none.
    pub(super) fn begin_authentication(&mut self, now: Nanos, sasl: Arc<SaslConfig>, out: &mut Vec<ConnAction>) {
        self.state = State::Authenticating;
        self.setup_deadline = now.saturating_add(self.setup_timeout);
        let versions = self.versions.as_deref();
        if versions.is_none_or(|versions| versions.range(ApiKey::SaslHandshake.key()).is_none()) {
            return self.close(now, CloseReason::Sasl(SaslError::NotOffered), out);
        }
        self.authentication = Some(Authentication::new(sasl, now));
        self.authenticate(now, out);
    }

    /// Asks the listener whether it expects a login. A broker without SaslHandshake cannot expect one.
    pub(super) fn begin_probe(&mut self, now: Nanos, out: &mut Vec<ConnAction>) {
        let versions = self.versions.as_deref();
        if versions.is_none_or(|versions| versions.negotiate(ApiKey::SaslHandshake).is_err()) {
            return self.become_ready(now, out);
        }
        self.state = State::Authenticating;
        self.setup_deadline = now.saturating_add(self.setup_timeout);
        let body = SaslHandshakeRequest { mechanism: Mechanism::Plain.name().into() };
        let encode = |version, out: &mut Vec<u8>| body.encode(version, out);
        self.send_authentication(now, ApiKey::SaslHandshake, 256, encode, out);
    }

    fn on_probe_response(&mut self, now: Nanos, response: &SaslHandshakeResponse<'_>, out: &mut Vec<ConnAction>) {
        match ErrorCode(response.error_code) {
            ErrorCode::NONE | ErrorCode::UNSUPPORTED_SASL_MECHANISM => {
                let offered = listed(response.mechanisms.iter().map(|name| Cow::Borrowed(name.as_ref())));
                self.close(now, CloseReason::Sasl(SaslError::Expected { offered }), out);
            }
            _ => self.become_ready(now, out),
        }
    }

    /// Begins to log in again, because the session is about to end. If a broker would refuse the new login yet, it begins
    /// later, and requests wait until then.
    pub(super) fn reauthenticate(&mut self, now: Nanos, out: &mut Vec<ConnAction>) {
        let Some(sasl) = self.config.sasl.clone() else { return };
        self.state = State::Reauthenticating;
        self.renewal = None;
        self.authentication = Some(Authentication::new(sasl, self.reauthenticates_from));
        self.authenticate(now, out);
    }

    /// Gives the authentication its turn.
    pub(super) fn authenticate(&mut self, now: Nanos, out: &mut Vec<ConnAction>) {
        self.step_authentication(now, AuthenticationEvent::Tick, out);
    }

    pub(super) fn authentication_deadline(&self) -> Option<Nanos> {
        self.authentication.as_ref().and_then(Authentication::deadline)
    }

    /// Returns whether the GSSAPI library is at work for this connection.
    pub(super) fn awaits_library(&self) -> bool {
        self.authentication.as_ref().is_some_and(Authentication::awaits_library)
    }

    /// Returns whether a tick is due when the source of tokens has given something.
    pub fn awaits_token(&self) -> bool {
        self.authentication.as_ref().is_some_and(Authentication::awaits_token)
    }

    /// Returns the reason for a login that has taken too long.
    pub(super) fn authentication_timeout(&self) -> CloseReason {
        if self.awaits_token() {
            return CloseReason::Sasl(SaslError::unanswered());
        }
        if !self.awaits_library() {
            return CloseReason::AuthenticationTimeout(self.setup_timeout);
        }
        let message = format!(
            "the Kerberos library has not answered within {} ms (socket.connection.setup.timeout.ms): it probably waits \
             for the KDC; check that the KDC of /etc/krb5.conf (or of DNS) can be reached from here",
            self.setup_timeout / MILLI
        );
        let kind = KerberosFailureKind::KdcUnreachable;
        CloseReason::Sasl(SaslError::Kerberos(KerberosFailure { kind, message: message.into() }))
    }

    /// Returns whether the next response is one of the authentication.
    pub(super) fn awaits_authentication(&self) -> bool {
        self.in_flight.front().is_some_and(InFlightRequest::is_authentication)
    }

    pub(super) fn on_authentication_response(
        &mut self,
        now: Nanos,
        version: i16,
        frame: &Frame,
        body: usize,
        out: &mut Vec<ConnAction>,
    ) {
        let mut reader = Reader::new(frame.get(body..).unwrap_or_default());
        // The state of the authentication says which of the two responses is due.
        let Some(authentication) = &self.authentication else {
            return match SaslHandshakeResponse::decode(version, &mut reader) {
                Ok(response) => self.on_probe_response(now, &response, out),
                Err(error) => self.close(now, CloseReason::Wire(error), out),
            };
        };
        let event = if authentication.awaits_handshake() {
            SaslHandshakeResponse::decode(version, &mut reader).map(AuthenticationEvent::Handshake)
        } else {
            SaslAuthenticateResponse::decode(version, &mut reader).map(AuthenticationEvent::Authenticate)
        };
        match event {
            Ok(event) => self.step_authentication(now, event, out),
            Err(error) => self.close(now, CloseReason::Wire(error), out),
        }
    }

    pub(super) fn step_authentication(
        &mut self,
        now: Nanos,
        event: AuthenticationEvent<'_>,
        out: &mut Vec<ConnAction>,
    ) {
        let Some(authentication) = &mut self.authentication else { return };
        let mut actions = Vec::new();
        authentication.step(now, event, &mut actions);
        for action in actions {
            match action {
                AuthenticationAction::Handshake(mechanism) => {
                    let body = SaslHandshakeRequest { mechanism: mechanism.into() };
                    let encode = |version, out: &mut Vec<u8>| body.encode(version, out);
                    self.send_authentication(now, ApiKey::SaslHandshake, 256, encode, out);
                }
                AuthenticationAction::Authenticate(bytes) => {
                    let body = SaslAuthenticateRequest { auth_bytes: (&bytes[..]).into() };
                    let encode = |version, out: &mut Vec<u8>| body.encode(version, out);
                    self.send_authentication(now, ApiKey::SaslAuthenticate, bytes.len(), encode, out);
                }
                AuthenticationAction::Call(call) => {
                    // Neither a request nor the broker limits a new login while the library works.
                    if self.state == State::Reauthenticating {
                        self.setup_deadline = now.saturating_add(self.setup_timeout);
                    }
                    out.push(ConnAction::Gss(call));
                }
                AuthenticationAction::Done { session_lifetime_ms } => {
                    self.on_authenticated(now, session_lifetime_ms, out)
                }
                AuthenticationAction::Failed(error) => self.close(now, CloseReason::Sasl(error), out),
            }
        }
    }

    fn on_authenticated(&mut self, now: Nanos, session_lifetime_ms: i64, out: &mut Vec<ConnAction>) {
        self.authentication = None;
        self.renewal = self.config.sasl.as_ref().and_then(|sasl| sasl.renewal(now, session_lifetime_ms));
        if self.state == State::Reauthenticating {
            self.reauthenticates_from = now.saturating_add(REAUTHENTICATION_INTERVAL);
            self.postpone_renewal(now, session_lifetime_ms);
            self.state = State::Ready;
            self.flush(now, out);
        } else {
            self.become_ready(now, out);
        }
    }

    /// Moves a renewal that the broker would refuse for another moment to the time when the broker takes the login, or to
    /// 95 % of the session if the session ends first. Requests go on until then, instead of waiting for the login.
    fn postpone_renewal(&mut self, now: Nanos, session_lifetime_ms: i64) {
        let lifetime = u64::try_from(session_lifetime_ms).unwrap_or(0).saturating_mul(MILLI);
        let last = now.saturating_add(lifetime / 20 * 19);
        self.renewal = self.renewal.map(|renewal| renewal.max(self.reauthenticates_from.min(last)));
    }

    /// Sends a request of the authentication, whose body has about `hint` bytes. Neither a mute nor the limit of the
    /// pipeline applies to it.
    fn send_authentication(
        &mut self,
        now: Nanos,
        api: ApiKey,
        hint: usize,
        body: impl FnOnce(i16, &mut Vec<u8>) -> Result<(), WireError>,
        out: &mut Vec<ConnAction>,
    ) {
        let versions = self.versions.as_deref();
        let Some(Ok(version)) = versions.map(|versions| versions.negotiate(api)) else {
            return self.close(now, CloseReason::Sasl(SaslError::NotOffered), out);
        };
        let correlation = self.next_correlation();
        let body = |out: &mut SegmentedBuf| body(version, out.tail());
        let capacity = hint.saturating_add(self.config.client_id.len()).saturating_add(64);
        match encode_request(api, version, correlation, &self.config.client_id, capacity, body) {
            Ok(bytes) => {
                out.push(ConnAction::Write(bytes.into_secret()));
                let timeout = self.setup_timeout;
                let deadline = now.saturating_add(timeout);
                self.in_flight.push_back(InFlightRequest { correlation, api, version, token: None, deadline, timeout });
            }
            Err(error) => self.close(now, CloseReason::Wire(error), out),
        }
    }
}
