//! GSSAPI (RFC 4752): Kerberos tickets prove who both sides are.
//!
//! ```text
//! client --SaslAuthenticate--> broker      library
//! Begin                                    first token: the ticket of the broker's service
//! token ------------------------------->
//!       <------------------------- token   Step: the broker is who its ticket says
//! (rest of the context, or nothing) ---->
//!       <------- offer of security layers  Unwrap
//! choice: none ------------------------->  Wrap
//! ```
//!
//! The calls of the library block while they ask the KDC, so a thread of its own makes them: a [`GssCall`] goes out, and
//! its [`GssResult`] comes back as an event. The last two messages are signed by the context. The choice is "no
//! layer": encryption is that of TLS.

use std::sync::Arc;

use super::error::SaslError;
use super::kerberos_failure::KerberosFailure;
use super::mechanism::Mechanism;

/// Maximum bytes of a token of the broker. Kafka takes SASL messages up to 512 KiB.
const MAX_TOKEN_BYTES: usize = 512 << 10;

/// Security layer "none" in the broker's offer and in the client's choice.
const NO_LAYER: u8 = 1;

/// Choice of the client: no layer, therefore no maximum size, and no authorization id.
const CHOICE: [u8; 4] = [NO_LAYER, 0, 0, 0];

/// Principals of a login by Kerberos, and where the client's credentials are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct KerberosConfig {
    /// `sasl.kerberos.service.name`: first part of the brokers' principals.
    pub service: String,
    /// `sasl.kerberos.principal`; `None`: that of the keytab's first key, or of the ticket.
    pub principal: Option<String>,
    /// `sasl.kerberos.keytab`: a file; `None`: tickets come from the cache.
    pub keytab: Option<String>,
    /// Ticket cache; `None`: that of the environment variable KRB5CCNAME, or the library's own.
    pub ticket_cache: Option<String>,
}

/// Call of the GSSAPI library for the login of one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GssCall {
    /// Begin a context with the service at the host of the connection. Replaces a former context of the connection.
    Begin(Arc<KerberosConfig>),
    /// Give the broker's token to the context.
    Step(Vec<u8>),
    /// Check the signature of the broker's message and return its content.
    Unwrap(Vec<u8>),
    /// Sign a message of the client.
    Wrap(Vec<u8>),
}

/// Answer of the library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GssAnswer {
    /// Next token of the context, of [`GssCall::Begin`] and [`GssCall::Step`].
    Token {
        /// Bytes for the broker; may be empty when the context is complete.
        token: Vec<u8>,
        /// Whether both sides have proved who they are.
        is_complete: bool,
    },
    /// Content of the broker's message.
    Unwrapped(Vec<u8>),
    /// Signed message of the client.
    Wrapped(Vec<u8>),
}

/// Result of a [`GssCall`].
pub type GssResult = Result<GssAnswer, KerberosFailure>;

/// Next move of the client.
#[derive(Debug)]
pub(super) enum Next {
    /// Send these bytes, which are no secret.
    Send(Vec<u8>),
    /// Call the library.
    Call(GssCall),
    /// The mechanism has all it needs.
    Done,
}

/// Exchange of one login.
#[derive(Debug)]
pub(super) struct Gssapi {
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// The library makes a token.
    MakesToken,
    /// The token was sent. `is_complete`: the broker's next message is its offer of layers.
    Token { is_complete: bool },
    /// The library reads the offer.
    ReadsOffer,
    /// The library signs the choice.
    SignsChoice,
    /// The choice was sent.
    Choice,
}

impl Gssapi {
    /// Begins a login: returns the exchange and its first call of the library.
    pub(super) fn begin(config: &Arc<KerberosConfig>) -> (Self, GssCall) {
        (Self { state: State::MakesToken }, GssCall::Begin(Arc::clone(config)))
    }

    /// Returns whether the library is at work.
    pub(super) fn awaits_library(&self) -> bool {
        matches!(self.state, State::MakesToken | State::ReadsOffer | State::SignsChoice)
    }

    /// Handles the bytes of a successful SaslAuthenticate response.
    pub(super) fn respond(&mut self, bytes: &[u8]) -> Result<Next, SaslError> {
        if bytes.len() > MAX_TOKEN_BYTES {
            return Err(malformed("it is longer than 512 KiB"));
        }
        match self.state {
            State::Token { is_complete: false } if bytes.is_empty() => {
                Err(malformed("it ends the exchange before the broker has proved who it is"))
            }
            State::Token { is_complete: false } => {
                self.state = State::MakesToken;
                Ok(Next::Call(GssCall::Step(bytes.to_vec())))
            }
            State::Token { is_complete: true } => {
                self.state = State::ReadsOffer;
                Ok(Next::Call(GssCall::Unwrap(bytes.to_vec())))
            }
            State::Choice => Ok(Next::Done),
            State::MakesToken | State::ReadsOffer | State::SignsChoice => Err(malformed("it was not asked for")),
        }
    }

    /// Handles the answer of the library.
    pub(super) fn answer(&mut self, answer: GssAnswer) -> Result<Next, SaslError> {
        match (self.state, answer) {
            (State::MakesToken, GssAnswer::Token { token, is_complete }) => {
                if token.is_empty() && !is_complete {
                    return Err(malformed("the library has no answer to it"));
                }
                self.state = State::Token { is_complete };
                Ok(Next::Send(token))
            }
            (State::ReadsOffer, GssAnswer::Unwrapped(offer)) => {
                let [layers, ..] = *<&[u8; 4]>::try_from(&*offer)
                    .map_err(|_| malformed("its offer of security layers does not have 4 bytes"))?;
                if layers & NO_LAYER == 0 {
                    return Err(malformed(
                        "it insists on a security layer of SASL; set sasl.qop to auth on the broker, and encrypt by TLS \
                         (SASL_SSL)",
                    ));
                }
                self.state = State::SignsChoice;
                Ok(Next::Call(GssCall::Wrap(CHOICE.to_vec())))
            }
            (State::SignsChoice, GssAnswer::Wrapped(bytes)) => {
                self.state = State::Choice;
                Ok(Next::Send(bytes))
            }
            _ => Err(malformed("the library's answer does not fit it")),
        }
    }
}

fn malformed(problem: &'static str) -> SaslError {
    SaslError::Malformed { mechanism: Mechanism::Gssapi, problem }
}
