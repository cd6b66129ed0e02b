//! Mechanism and credentials of a client.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ring::hmac;
use zeroize::Zeroizing;

use super::gssapi::KerberosConfig;
use super::mechanism::Mechanism;
use super::token::{Token, TokenStore};
use crate::secret::Secret;
use crate::time::{MILLI, Nanos};

/// Credentials of a client.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// User name and password.
    Password {
        /// `sasl.username`.
        username: Secret,
        /// `sasl.password`.
        password: Secret,
    },
    /// Bearer token that another thread keeps fresh.
    Token(Arc<TokenStore>),
    /// Tickets of Kerberos.
    Kerberos(Arc<KerberosConfig>),
}

/// Bytes that make nonces unpredictable.
struct Seed(Zeroizing<[u8; 32]>);

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("********")
    }
}

/// Mechanism and credentials of a client, shared by all its connections.
#[derive(Debug)]
pub struct SaslConfig {
    mechanism: Mechanism,
    credentials: Credentials,
    seed: Seed,
    draws: AtomicU64,
    /// Whether SCRAM normalizes the password: see [`SaslConfig::on_refused`].
    normalizes: AtomicBool,
    is_exposed: bool,
}

impl SaslConfig {
    /// Creates the settings. `seed`: unpredictable bytes of this client, from which nonces are derived; tests give any.
    #[must_use]
    pub fn new(mechanism: Mechanism, credentials: Credentials, seed: [u8; 32]) -> Self {
        Self {
            mechanism,
            credentials,
            seed: Seed(Zeroizing::new(seed)),
            draws: AtomicU64::new(0),
            normalizes: AtomicBool::new(false),
            is_exposed: false,
        }
    }

    /// Marks that a password or token is sent without encryption: the cluster warns of it.
    #[must_use]
    pub fn exposed(self) -> Self {
        Self { is_exposed: true, ..self }
    }

    /// Returns whether a password or token is sent without encryption.
    #[must_use]
    pub fn is_exposed(&self) -> bool {
        self.is_exposed
    }

    /// Returns the mechanism.
    #[must_use]
    pub fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// Returns the credentials.
    #[must_use]
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Returns a new nonce: 32 characters without a comma.
    #[must_use]
    pub(super) fn nonce(&self) -> String {
        STANDARD_NO_PAD.encode(&self.draw()[..24])
    }

    /// Returns the time at which a session of this length is renewed: after 85 to 95 % of its life (KIP-368), drawn for
    /// each session so that connections opened together do not renew together. `None`: the session does not end.
    #[must_use]
    pub fn renewal(&self, now: Nanos, lifetime_ms: i64) -> Option<Nanos> {
        // A broker that says 1 ms must not make the client do nothing but log in.
        const LEAST: Nanos = 10 * MILLI;
        let lifetime = u64::try_from(lifetime_ms).ok().filter(|&ms| ms > 0)?.saturating_mul(MILLI);
        let part = self.draw().first().map_or(0, |&byte| u64::from(byte) * 10_000 / 255);
        let delay = (u128::from(lifetime) * u128::from(85_000 + part) / 100_000).try_into().unwrap_or(Nanos::MAX);
        Some(now.saturating_add(Nanos::max(delay, LEAST)))
    }

    /// Returns whether SCRAM normalizes the password by SASLprep this time.
    pub(super) fn normalizes(&self) -> bool {
        self.normalizes.load(Ordering::Relaxed)
    }

    /// Handles refused credentials: the next SCRAM login takes the other form of a password that SASLprep changes.
    ///
    /// RFC 5802 asks for SASLprep. Apache Kafka and its Java client use the bytes as they are, other brokers follow the
    /// RFC. For ASCII both are the same, so one alternative after a refusal reaches both kinds of brokers.
    ///
    /// A refused token is marked, so that its source is asked for another one.
    pub(super) fn on_refused(&self, token: Option<&Token>) {
        self.normalizes.fetch_xor(true, Ordering::Relaxed);
        if let (Credentials::Token(store), Some(token)) = (&self.credentials, token) {
            store.on_refused(token);
        }
    }

    /// Returns the version of the token store; `None`: the mechanism has no token.
    #[must_use]
    pub fn token_version(&self) -> Option<u64> {
        match &self.credentials {
            Credentials::Token(store) => Some(store.version()),
            Credentials::Password { .. } | Credentials::Kerberos(_) => None,
        }
    }

    /// Returns bytes that cannot be predicted without the seed.
    fn draw(&self) -> [u8; 32] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &*self.seed.0);
        let tag = hmac::sign(&key, &self.draws.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        let mut drawn = [0; 32];
        drawn.iter_mut().zip(tag.as_ref()).for_each(|(to, from)| *to = *from);
        drawn
    }
}
