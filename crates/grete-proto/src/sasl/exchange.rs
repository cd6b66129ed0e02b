//! Exchange of messages of one login, of any mechanism.

use std::sync::Arc;

use zeroize::Zeroizing;

use super::config::{Credentials, SaslConfig};
use super::error::{SaslError, printable};
use super::gssapi::{GssAnswer, GssCall, Gssapi, Next};
use super::masking::without_secrets;
use super::mechanism::Mechanism;
use super::scram::Scram;
use super::token::Token;
use super::{oauthbearer, plain};

/// Next move of the client.
#[derive(Debug)]
pub(super) enum Move {
    /// Send these bytes.
    Send(Zeroizing<Vec<u8>>),
    /// Call the GSSAPI library, and give its answer to [`Exchange::answer`].
    Call(GssCall),
    /// The mechanism has all it needs.
    Done,
}

impl From<Next> for Move {
    fn from(next: Next) -> Self {
        match next {
            Next::Send(bytes) => Self::Send(Zeroizing::new(bytes)),
            Next::Call(call) => Self::Call(call),
            Next::Done => Self::Done,
        }
    }
}

/// Exchange of one login.
#[derive(Debug)]
pub(super) enum Exchange {
    Plain,
    Scram(Scram),
    Gssapi(Gssapi),
    /// `token`: the token that was sent. `challenge`: the error that the server sent as JSON, already confirmed.
    OAuthBearer {
        token: Option<Arc<Token>>,
        challenge: Option<String>,
    },
}

impl Exchange {
    /// Begins a login. `token`: the bearer token of OAUTHBEARER.
    pub(super) fn begin(config: &SaslConfig, token: Option<Arc<Token>>) -> (Self, Move) {
        match (config.mechanism(), config.credentials()) {
            (Mechanism::ScramSha256 | Mechanism::ScramSha512, _) => {
                let (scram, first) = Scram::begin(config);
                (Self::Scram(scram), Move::Send(Zeroizing::new(first)))
            }
            (_, Credentials::Password { username, password }) => {
                (Self::Plain, Move::Send(plain::message(username, password)))
            }
            (_, Credentials::Token(_)) => {
                let first = token.as_deref().map(oauthbearer::message).unwrap_or_default();
                (Self::OAuthBearer { token, challenge: None }, Move::Send(first))
            }
            (_, Credentials::Kerberos(kerberos)) => {
                let (gssapi, call) = Gssapi::begin(kerberos);
                (Self::Gssapi(gssapi), Move::Call(call))
            }
        }
    }

    /// Handles the bytes of a successful SaslAuthenticate response.
    pub(super) fn respond(&mut self, config: &SaslConfig, bytes: &[u8]) -> Result<Move, SaslError> {
        match self {
            Self::Plain => Ok(Move::Done),
            Self::Scram(scram) => Ok(scram.respond(config, bytes)?.map_or(Move::Done, Move::Send)),
            Self::Gssapi(gssapi) => gssapi.respond(bytes).map(Move::from),
            Self::OAuthBearer { challenge: None, .. } if bytes.is_empty() => Ok(Move::Done),
            Self::OAuthBearer { token, challenge } => match challenge.take() {
                None => {
                    *challenge =
                        Some(printable(&without_secrets(config, &String::from_utf8_lossy(bytes), token.as_deref())));
                    Ok(Move::Send(Zeroizing::new(oauthbearer::CONFIRMATION.to_vec())))
                }
                // The server must end the exchange with an error now.
                Some(text) => Err(SaslError::Refused { mechanism: Mechanism::OAuthBearer, message: text.into() }),
            },
        }
    }

    /// Handles the answer of the GSSAPI library.
    pub(super) fn answer(&mut self, answer: GssAnswer) -> Result<Move, SaslError> {
        match self {
            Self::Gssapi(gssapi) => gssapi.answer(answer).map(Move::from),
            _ => Err(SaslError::IllegalState { request: "an answer of the GSSAPI library" }),
        }
    }

    /// Returns whether the GSSAPI library is at work.
    pub(super) fn awaits_library(&self) -> bool {
        matches!(self, Self::Gssapi(gssapi) if gssapi.awaits_library())
    }

    /// Returns the token that was sent; `None`: the mechanism has none.
    pub(super) fn token(&self) -> Option<&Token> {
        match self {
            Self::OAuthBearer { token, .. } => token.as_deref(),
            _ => None,
        }
    }

    /// Returns the server's own words about a refusal; `None`: only the error's message says anything.
    pub(super) fn challenge(&self) -> Option<&str> {
        match self {
            Self::OAuthBearer { challenge, .. } => challenge.as_deref(),
            _ => None,
        }
    }
}
