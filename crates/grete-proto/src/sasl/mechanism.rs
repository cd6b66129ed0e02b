//! SASL mechanisms by their names.

use std::fmt;
use std::str::FromStr;

/// SASL mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mechanism {
    /// PLAIN (RFC 4616): sends the password.
    Plain,
    /// SCRAM-SHA-256 (RFC 7677): proves to know the password.
    ScramSha256,
    /// SCRAM-SHA-512.
    ScramSha512,
    /// OAUTHBEARER (RFC 7628): sends a bearer token.
    OAuthBearer,
    /// GSSAPI (RFC 4752): proves by Kerberos tickets.
    Gssapi,
}

impl Mechanism {
    /// All mechanisms.
    pub const ALL: [Self; 5] = [Self::Plain, Self::ScramSha256, Self::ScramSha512, Self::OAuthBearer, Self::Gssapi];

    /// Returns the registered name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
            Self::OAuthBearer => "OAUTHBEARER",
            Self::Gssapi => "GSSAPI",
        }
    }

    /// Returns whether the bytes on the wire are enough to log in.
    #[must_use]
    pub fn sends_secret(self) -> bool {
        matches!(self, Self::Plain | Self::OAuthBearer)
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mechanism {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name().eq_ignore_ascii_case(name)).ok_or(())
    }
}
