//! Login of one connection: the requests that it may send before, during and after, as Kafka's brokers allow them.
//!
//! ```text
//! New --SaslHandshake--> Exchanging --SaslAuthenticate (1 or 2)--> LoggedIn --SaslHandshake--> Exchanging (again)
//! ```

use std::sync::Arc;

use grete_wire::{ApiKey, ErrorCode};

use super::scram::Scram;
use super::{SaslConfig, bearer};
use crate::ids::Millis;

/// Login of one connection.
#[derive(Debug, Default)]
pub(crate) struct SaslSession {
    state: State,
    /// User and mechanism of the session that a new login continues: both must stay the same (KIP-368).
    previous: Option<(Arc<str>, &'static str)>,
    /// Begin of the last new login.
    renewed_at: Option<Millis>,
}

/// Time between two new logins of a connection.
const REAUTHENTICATION_INTERVAL: Millis = 1000;

#[derive(Debug, Default)]
enum State {
    #[default]
    New,
    Exchanging {
        mechanism: &'static str,
        exchange: Exchange,
    },
    LoggedIn {
        principal: Arc<str>,
        mechanism: &'static str,
        expires_at: Option<Millis>,
    },
    Failed,
}

#[derive(Debug)]
enum Exchange {
    First,
    Scram(Scram),
    /// The error was sent as JSON, and the client's confirmation is due.
    BearerError(String),
}

/// Answer to SaslAuthenticate.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The exchange goes on with these bytes.
    Challenge(Vec<u8>),
    /// The client is logged in.
    LoggedIn {
        /// Last bytes of the mechanism.
        bytes: Vec<u8>,
        /// Milliseconds until the session ends; 0: it does not end.
        lifetime_ms: Millis,
    },
    /// The login failed; the connection ends after this answer.
    Failed(ErrorCode, String),
}

impl SaslSession {
    /// Returns the user who is logged in, or who logs in again.
    pub(crate) fn principal(&self) -> Option<&Arc<str>> {
        match &self.state {
            State::LoggedIn { principal, .. } => Some(principal),
            _ => self.previous.as_ref().map(|(principal, _)| principal),
        }
    }

    /// Checks whether a request is allowed now.
    ///
    /// # Errors
    /// The connection must be closed, for this reason.
    pub(crate) fn check(&self, api: ApiKey, now: Millis) -> Result<(), String> {
        match (&self.state, api) {
            (State::New, ApiKey::ApiVersions | ApiKey::SaslHandshake)
            | (State::Exchanging { .. }, ApiKey::SaslAuthenticate)
            // Kafka answers a SaslAuthenticate without SaslHandshake with ILLEGAL_SASL_STATE.
            | (State::LoggedIn { .. }, ApiKey::SaslHandshake | ApiKey::SaslAuthenticate) => Ok(()),
            (State::New, _) => Err(format!("{api} came before the login: this listener expects SASL")),
            (State::Exchanging { .. }, _) => Err(format!("{api} came between SaslHandshake and the end of the login")),
            (State::LoggedIn { expires_at, .. }, _) => match expires_at {
                Some(expires_at) if *expires_at <= now => Err(format!("{api} came after the session had ended")),
                _ => Ok(()),
            },
            (State::Failed, _) => Err(format!("{api} came after a login that failed")),
        }
    }

    /// Handles SaslHandshake. ILLEGAL_SASL_STATE changes nothing, as on Kafka: the session has no end, or the last new
    /// login is too near. Any other error ends the connection after the response.
    pub(crate) fn handshake(&mut self, config: &SaslConfig, now: Millis, mechanism: &str) -> Result<(), ErrorCode> {
        if let State::LoggedIn { principal, mechanism, expires_at } = &self.state {
            let is_early = self.renewed_at.is_some_and(|at| now.saturating_sub(at) < REAUTHENTICATION_INTERVAL);
            if is_early || expires_at.is_none() {
                return Err(ErrorCode::ILLEGAL_SASL_STATE);
            }
            self.renewed_at = Some(now);
            self.previous = Some((Arc::clone(principal), mechanism));
        }
        self.state = State::Failed;
        let mechanism = config.mechanism(mechanism).ok_or(ErrorCode::UNSUPPORTED_SASL_MECHANISM)?;
        if self.previous.as_ref().is_some_and(|(_, previous)| *previous != mechanism) {
            return Err(ErrorCode::SASL_AUTHENTICATION_FAILED);
        }
        self.state = State::Exchanging { mechanism, exchange: Exchange::First };
        Ok(())
    }

    /// Handles SaslAuthenticate. `nonce`: a new number of the server.
    pub(crate) fn authenticate(&mut self, config: &SaslConfig, now: Millis, nonce: &str, bytes: &[u8]) -> Answer {
        let (mechanism, exchange) = match std::mem::replace(&mut self.state, State::Failed) {
            State::Exchanging { mechanism, exchange } => (mechanism, exchange),
            _ => return Answer::Failed(ErrorCode::ILLEGAL_SASL_STATE, "SaslHandshake is missing".into()),
        };
        match (mechanism, exchange) {
            ("PLAIN", _) => match plain(config, bytes) {
                Some(principal) => self.log_in(config, now, mechanism, &principal, None, Vec::new()),
                None => failed("Authentication failed: Invalid username or password"),
            },
            ("OAUTHBEARER", Exchange::First) => match bearer::accept(bytes, now) {
                Ok(token) => self.log_in(config, now, mechanism, &token.principal, Some(token.expires_at), Vec::new()),
                Err(error) => {
                    let challenge = error.clone().into_bytes();
                    self.state = State::Exchanging { mechanism, exchange: Exchange::BearerError(error) };
                    Answer::Challenge(challenge)
                }
            },
            (_, Exchange::BearerError(error)) => failed(&error),
            (_, Exchange::First) => match Scram::begin(mechanism, &config.users, nonce, bytes) {
                Some((scram, challenge)) => {
                    self.state = State::Exchanging { mechanism, exchange: Exchange::Scram(scram) };
                    Answer::Challenge(challenge.into_bytes())
                }
                None => invalid_credentials(mechanism),
            },
            (_, Exchange::Scram(scram)) => match scram.finish(&config.users, bytes) {
                Some(last) => self.log_in(config, now, mechanism, &scram.username, None, last.into_bytes()),
                None => invalid_credentials(mechanism),
            },
        }
    }

    fn log_in(
        &mut self,
        config: &SaslConfig,
        now: Millis,
        mechanism: &'static str,
        principal: &str,
        token_ends: Option<Millis>,
        bytes: Vec<u8>,
    ) -> Answer {
        if self.previous.as_ref().is_some_and(|(previous, _)| **previous != *principal) {
            return failed("Cannot change principals during re-authentication");
        }
        let session_ends = (config.max_reauth_ms > 0).then(|| now.saturating_add(config.max_reauth_ms));
        let expires_at = session_ends.into_iter().chain(token_ends).min();
        self.state = State::LoggedIn { principal: principal.into(), mechanism, expires_at };
        Answer::LoggedIn { bytes, lifetime_ms: expires_at.map_or(0, |end| end.saturating_sub(now)) }
    }
}

fn failed(message: &str) -> Answer {
    Answer::Failed(ErrorCode::SASL_AUTHENTICATION_FAILED, message.to_owned())
}

fn invalid_credentials(mechanism: &str) -> Answer {
    failed(&format!(
        "Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    ))
}

/// Returns the user of a PLAIN message (RFC 4616); `None`: the login fails.
fn plain(config: &SaslConfig, bytes: &[u8]) -> Option<String> {
    let mut parts = bytes.split(|&byte| byte == 0);
    let (authorization, name, password) = (parts.next()?, parts.next()?, parts.next()?);
    let name = std::str::from_utf8(name).ok()?;
    let is_self = authorization.is_empty() || authorization == name.as_bytes();
    (is_self && parts.next().is_none() && config.users.accepts(name, password)).then(|| name.to_owned())
}
