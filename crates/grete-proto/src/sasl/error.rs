//! Reasons why an authentication failed, each with its cure.

use std::borrow::Cow;
use std::sync::Arc;

use grete_wire::error_code::ErrorCode;

use super::kerberos_failure::KerberosFailure;
use super::mechanism::Mechanism;

/// Bytes of a broker's text that an error repeats.
const MAX_TEXT_BYTES: usize = 300;

/// Mechanisms of a broker that an error lists.
const MAX_LISTED_MECHANISMS: usize = 16;

/// Reason why an authentication failed (KIP-152).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SaslError {
    /// The listener has no such mechanism.
    #[error(
        "the broker does not offer sasl.mechanism {mechanism} on this listener, but {}: set sasl.mechanism to one of \
         these, or use the port of another listener",
        fmt_offered(.offered)
    )]
    UnsupportedMechanism {
        /// Mechanism of the client.
        mechanism: Mechanism,
        /// Mechanisms that the broker offers.
        offered: Vec<String>,
    },
    /// The broker refused the credentials (SASL_AUTHENTICATION_FAILED).
    #[error("the broker refused the login by {mechanism} ({message}): {}", cure(*.mechanism, .message))]
    Refused {
        /// Mechanism of the client.
        mechanism: Mechanism,
        /// Message of the broker.
        message: Arc<str>,
    },
    /// The listener does not do SASL.
    #[error(
        "the listener does not do SASL, and this client is set to log in: set security.protocol to PLAINTEXT (or SSL), \
         or use the port of a SASL listener"
    )]
    NotOffered,
    /// The client does not log in, and the listener expects a login.
    #[error(
        "the listener expects a login by {}: set security.protocol to SASL_PLAINTEXT (or SASL_SSL), and sasl.mechanism \
         to one of these",
        fmt_offered(.offered)
    )]
    Expected {
        /// Mechanisms that the broker offers.
        offered: Vec<String>,
    },
    /// The broker did not expect the request of the authentication.
    #[error(
        "the broker did not expect {request} (ILLEGAL_SASL_STATE): its listener probably does no SASL; set \
         security.protocol to that of the listener"
    )]
    IllegalState {
        /// Request that the broker refused.
        request: &'static str,
    },
    /// The server did not prove that it knows the password.
    #[error(
        "the server did not prove that it knows the password (its SCRAM signature is wrong), so it is not trusted: \
         check that bootstrap.servers names your brokers"
    )]
    ServerSignature,
    /// The broker's part of the exchange breaks the rules of the mechanism.
    #[error("the broker's {mechanism} message cannot be used: {problem}")]
    Malformed {
        /// Mechanism of the client.
        mechanism: Mechanism,
        /// Rule that the message breaks.
        problem: &'static str,
    },
    /// There is no token to send.
    #[error(
        "there is no OAUTHBEARER token to log in with: {reason}; correct the source of the token (the settings \
         sasl.oauthbearer.*)"
    )]
    NoToken {
        /// Error of the source.
        reason: Arc<str>,
        /// Whether the source has failed several times in a row, or hangs.
        lasts: bool,
    },
    /// Kerberos gives no way to log in.
    #[error("no login by Kerberos: {0}")]
    Kerberos(KerberosFailure),
    /// The broker answered with another error.
    #[error("the broker answered {request} with {} ({}): {message}", .code.name(), .code.0)]
    Code {
        /// Request that failed.
        request: &'static str,
        /// Kafka's error code.
        code: ErrorCode,
        /// Message of the broker, or the client's text for the code.
        message: Arc<str>,
    },
}

impl SaslError {
    /// Returns the error of a login that has waited for the first token for too long.
    pub(crate) fn unanswered() -> Self {
        Self::NoToken { reason: "its source has not answered yet".into(), lasts: false }
    }

    /// Returns whether trying again with the same settings and credentials fails again.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::UnsupportedMechanism { .. }
            | Self::Refused { .. }
            | Self::NotOffered
            | Self::Expected { .. }
            | Self::IllegalState { .. }
            | Self::ServerSignature
            | Self::Malformed { .. }
            | Self::NoToken { .. }
            | Self::Kerberos(_) => true,
            Self::Code { .. } => false,
        }
    }

    /// Returns the kind of the error as one word, for the fields of log events.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::UnsupportedMechanism { .. } => "mechanism",
            Self::Refused { .. } => "refused",
            Self::NotOffered | Self::Expected { .. } | Self::IllegalState { .. } => "listener",
            Self::ServerSignature => "server",
            Self::Malformed { .. } => "malformed",
            Self::NoToken { .. } => "token",
            Self::Kerberos(_) => "kerberos",
            Self::Code { .. } => "broker",
        }
    }
}

fn cure(mechanism: Mechanism, message: &str) -> &'static str {
    match mechanism {
        // The words of Kafka's brokers.
        _ if message.contains("change principals") => {
            "a connection keeps its user, and the client has another one by now: the connection is opened anew"
        }
        Mechanism::OAuthBearer => {
            "the token has expired, or the broker does not accept its issuer, audience or scope; check the source of the \
             token, and compare the clock of this machine with the broker's"
        }
        Mechanism::Gssapi => {
            "the broker's log has the reason; often its keytab lacks the key of its principal, its clock differs, or \
             sasl.kerberos.principal.to.local.rules has no rule for the client's principal"
        }
        Mechanism::Plain => "check sasl.username and sasl.password",
        Mechanism::ScramSha256 | Mechanism::ScramSha512 => {
            "check sasl.username and sasl.password; a broker stores the password of a user for SCRAM-SHA-256 and \
             SCRAM-SHA-512 each on its own"
        }
    }
}

fn fmt_offered(offered: &[String]) -> String {
    if offered.is_empty() { "none".to_owned() } else { offered.join(", ") }
}

/// Returns the names of mechanisms for an error, cut and printable.
pub(crate) fn listed<'a>(names: impl Iterator<Item = Cow<'a, str>>) -> Vec<String> {
    names.take(MAX_LISTED_MECHANISMS).map(|name| printable(&name).chars().take(32).collect()).collect()
}

/// Returns a broker's text for an error: on one line, and 300 bytes of it at most. A text that may hold the client's
/// bytes goes through `masking::without_secrets` first, since half a password could be left at
/// the cut.
#[must_use]
pub fn printable(text: &str) -> String {
    let line = grete_wire::one_line(text.trim().trim_end_matches('.'));
    let kept = line.floor_char_boundary(MAX_TEXT_BYTES);
    match line.get(..kept) {
        Some(start) if kept < line.len() => format!("{start}…"),
        _ => line.into_owned(),
    }
}
