//! Authentication of one connection: SaslHandshake, then SaslAuthenticate until the mechanism is done (KIP-152).
//!
//! ```text
//! Begin --> (wait for a token) --> SaslHandshake --> SaslAuthenticate --+--> Done(session lifetime)
//!                                                          ^            |
//!                                                          +-- challenge+--> Failed
//! ```
//!
//! Race of a token with the requests before SaslHandshake. The response to SaslHandshake waits behind those of the requests
//! in flight, such as a JoinGroup that lasts for a rebalance. A token that was taken before may be expired by then:
//!
//! 1. Begin sees token A, which has 2 s to live, and sends SaslHandshake behind JoinGroup.
//! 2. The source renews: the store has token B.
//! 3. JoinGroup is answered after 5 s, then SaslHandshake. Token A would be refused, and the connection would be lost.
//!
//! So begin only checks that there is a token, and the token itself is taken when SaslHandshake is answered.

use std::sync::Arc;

use grete_wire::error_code::ErrorCode;
use grete_wire::messages::{SaslAuthenticateResponse, SaslHandshakeResponse};
use zeroize::Zeroizing;

use super::config::{Credentials, SaslConfig};
use super::error::{SaslError, listed, printable};
use super::exchange::{Exchange, Move};
use super::gssapi::{GssCall, GssResult};
use super::masking::without_secrets;
use super::token::{Token, TokenState};
use crate::time::Nanos;

/// Rounds of SaslAuthenticate after which an exchange cannot end well: GSSAPI, the longest, needs three or four.
const MAX_ROUNDS: u32 = 8;

/// Input of [`Authentication::step`].
#[derive(Debug)]
pub enum AuthenticationEvent<'a> {
    /// Begin, or look for the token again.
    Tick,
    /// Response to SaslHandshake.
    Handshake(SaslHandshakeResponse<'a>),
    /// Response to SaslAuthenticate.
    Authenticate(SaslAuthenticateResponse<'a>),
    /// Answer to [`AuthenticationAction::Call`].
    Gss(GssResult),
}

/// Output of [`Authentication::step`].
#[derive(Debug)]
pub enum AuthenticationAction {
    /// Send SaslHandshake with the mechanism.
    Handshake(&'static str),
    /// Send SaslAuthenticate with these bytes.
    Authenticate(Zeroizing<Vec<u8>>),
    /// Call the GSSAPI library, and give its answer to the machine.
    Call(GssCall),
    /// The connection is authenticated.
    Done {
        /// Life of the session in milliseconds; 0: it does not end.
        session_lifetime_ms: i64,
    },
    /// The authentication failed; the connection is useless.
    Failed(SaslError),
}

#[derive(Debug)]
enum State {
    /// Begins at the next tick from this time on.
    Idle {
        not_before: Nanos,
    },
    /// The source has not given its first token yet. A tick looks again.
    AwaitsToken,
    /// The response to SaslHandshake is due.
    Handshake,
    Exchange {
        exchange: Exchange,
        rounds: u32,
    },
    Ended,
}

/// State machine of one authentication.
#[derive(Debug)]
pub struct Authentication {
    config: Arc<SaslConfig>,
    state: State,
}

impl Authentication {
    /// Creates an authentication that begins with its first tick from `not_before` on.
    #[must_use]
    pub fn new(config: Arc<SaslConfig>, not_before: Nanos) -> Self {
        Self { config, state: State::Idle { not_before } }
    }

    /// Returns the time of the next tick; `None`: a response or a token is awaited.
    #[must_use]
    pub fn deadline(&self) -> Option<Nanos> {
        match self.state {
            State::Idle { not_before } => Some(not_before),
            _ => None,
        }
    }

    /// Returns whether a tick is due when the [`TokenStore`](super::TokenStore) has changed.
    #[must_use]
    pub fn awaits_token(&self) -> bool {
        matches!(self.state, State::AwaitsToken)
    }

    /// Returns whether the response to SaslHandshake is due.
    #[must_use]
    pub fn awaits_handshake(&self) -> bool {
        matches!(self.state, State::Handshake)
    }

    /// Returns whether the GSSAPI library is at work.
    #[must_use]
    pub fn awaits_library(&self) -> bool {
        matches!(&self.state, State::Exchange { exchange, .. } if exchange.awaits_library())
    }

    /// Handles one event and appends the resulting action. A response that does not fit the state fails.
    pub fn step(&mut self, now: Nanos, event: AuthenticationEvent<'_>, out: &mut Vec<AuthenticationAction>) {
        let result = match (std::mem::replace(&mut self.state, State::Ended), event) {
            (State::Idle { not_before }, AuthenticationEvent::Tick) if now >= not_before => self.begin(),
            (State::AwaitsToken, AuthenticationEvent::Tick) => self.begin(),
            (state, AuthenticationEvent::Tick) => {
                self.state = state;
                return;
            }
            (State::Handshake, AuthenticationEvent::Handshake(response)) => self.on_handshake(&response).map(Some),
            (State::Exchange { exchange, rounds }, AuthenticationEvent::Authenticate(response)) => {
                self.on_authenticate(exchange, rounds, &response).map(Some)
            }
            (State::Exchange { mut exchange, rounds }, AuthenticationEvent::Gss(result)) => result
                .map_err(SaslError::Kerberos)
                .and_then(|answer| exchange.answer(answer))
                .map(|next| Some(self.go_on(exchange, rounds, next, 0))),
            _ => Err(SaslError::IllegalState { request: "the response" }),
        };
        match result {
            Ok(action) => out.extend(action),
            Err(error) => out.push(AuthenticationAction::Failed(error)),
        }
    }

    fn begin(&mut self) -> Result<Option<AuthenticationAction>, SaslError> {
        if let Credentials::Token(store) = self.config.credentials() {
            match store.state() {
                TokenState::Ready(_) => {}
                TokenState::Failed { reason, lasts } => return Err(SaslError::NoToken { reason, lasts }),
                TokenState::Awaited => {
                    self.state = State::AwaitsToken;
                    return Ok(None);
                }
            }
        }
        self.state = State::Handshake;
        Ok(Some(AuthenticationAction::Handshake(self.config.mechanism().name())))
    }

    /// Returns the token of this moment; `None`: the mechanism has a password. A store that had a token has either
    /// another one by now, or a reason why there is none.
    fn token(&self) -> Result<Option<Arc<Token>>, SaslError> {
        let Credentials::Token(store) = self.config.credentials() else { return Ok(None) };
        match store.state() {
            TokenState::Ready(token) => Ok(Some(token)),
            TokenState::Failed { reason, lasts } => Err(SaslError::NoToken { reason, lasts }),
            TokenState::Awaited => Err(SaslError::unanswered()),
        }
    }

    fn on_handshake(&mut self, response: &SaslHandshakeResponse<'_>) -> Result<AuthenticationAction, SaslError> {
        const REQUEST: &str = "SaslHandshake";
        match ErrorCode(response.error_code) {
            ErrorCode::NONE => {
                let token = self.token()?;
                let (exchange, first) = Exchange::begin(&self.config, token);
                Ok(self.go_on(exchange, 0, first, 0))
            }
            ErrorCode::UNSUPPORTED_SASL_MECHANISM => Err(SaslError::UnsupportedMechanism {
                mechanism: self.config.mechanism(),
                offered: listed(response.mechanisms.iter().map(|name| without_secrets(&self.config, name, None))),
            }),
            ErrorCode::ILLEGAL_SASL_STATE => Err(SaslError::IllegalState { request: REQUEST }),
            code => Err(SaslError::Code { request: REQUEST, code, message: code.message().into() }),
        }
    }

    fn on_authenticate(
        &mut self,
        mut exchange: Exchange,
        rounds: u32,
        response: &SaslAuthenticateResponse<'_>,
    ) -> Result<AuthenticationAction, SaslError> {
        const REQUEST: &str = "SaslAuthenticate";
        let mechanism = self.config.mechanism();
        let said = response.error_message.as_deref().filter(|text| !text.is_empty());
        // A broker may repeat the client's bytes in its error.
        let said = said.map(|text| printable(&without_secrets(&self.config, text, exchange.token())));
        match ErrorCode(response.error_code) {
            ErrorCode::NONE => {}
            code @ ErrorCode::SASL_AUTHENTICATION_FAILED => {
                self.config.on_refused(exchange.token());
                let message = match exchange.challenge() {
                    Some(challenge) => challenge.to_owned(),
                    None => said.unwrap_or_else(|| code.name().to_owned()),
                };
                let message = exchange.token().map_or_else(|| message.as_str().into(), |token| token.refusal(&message));
                return Err(SaslError::Refused { mechanism, message });
            }
            ErrorCode::ILLEGAL_SASL_STATE => return Err(SaslError::IllegalState { request: REQUEST }),
            code => {
                let message = said.unwrap_or_else(|| code.message().to_owned()).into();
                return Err(SaslError::Code { request: REQUEST, code, message });
            }
        }
        let next = exchange.respond(&self.config, &response.auth_bytes)?;
        if rounds >= MAX_ROUNDS && !matches!(next, Move::Done) {
            return Err(SaslError::Malformed { mechanism, problem: "the exchange does not end" });
        }
        Ok(self.go_on(exchange, rounds, next, response.session_lifetime_ms))
    }

    /// Makes the next move of the exchange. `rounds`: messages that were sent before.
    fn go_on(&mut self, exchange: Exchange, rounds: u32, next: Move, session_lifetime_ms: i64) -> AuthenticationAction {
        match next {
            Move::Done => AuthenticationAction::Done { session_lifetime_ms },
            Move::Send(bytes) => {
                self.state = State::Exchange { exchange, rounds: rounds + 1 };
                AuthenticationAction::Authenticate(bytes)
            }
            Move::Call(call) => {
                self.state = State::Exchange { exchange, rounds };
                AuthenticationAction::Call(call)
            }
        }
    }
}
