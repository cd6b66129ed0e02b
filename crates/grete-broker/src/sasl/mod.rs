//! SASL of the brokers, the server's side: users, mechanisms, and the login of one connection.
//!
//! - `users`: passwords, kept only as salted hashes.
//! - `scram`: the server's side of SCRAM (RFC 5802).
//! - `bearer`: OAUTHBEARER with unsecured tokens, as Kafka's validator for development accepts them.
//! - `session`: what a connection may do before, during and after its login (KIP-152, KIP-368).

mod bearer;
mod scram;
pub(crate) mod session;
mod users;

#[cfg(test)]
mod tests;

pub use users::Users;

use crate::ids::Millis;

/// Names of the mechanisms, in the order in which a broker lists them.
pub const MECHANISMS: [&str; 4] = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"];

/// SASL settings of a cluster.
#[derive(Debug, Clone)]
pub struct SaslConfig {
    /// Users with passwords.
    pub users: Users,
    /// `sasl.enabled.mechanisms`.
    pub mechanisms: Vec<&'static str>,
    /// `connections.max.reauth.ms`: time after which a connection has to log in again; 0: never.
    pub max_reauth_ms: Millis,
}

impl SaslConfig {
    /// Creates the settings with all mechanisms, and sessions that do not end.
    #[must_use]
    pub fn new(users: Users) -> Self {
        Self { users, mechanisms: MECHANISMS.to_vec(), max_reauth_ms: 0 }
    }

    /// Returns the enabled mechanism of this name.
    pub(crate) fn mechanism(&self, name: &str) -> Option<&'static str> {
        self.mechanisms.iter().copied().find(|mechanism| *mechanism == name)
    }
}
