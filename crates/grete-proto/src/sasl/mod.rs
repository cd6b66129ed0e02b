//! SASL authentication of a connection (KIP-43, KIP-152, KIP-368), without I/O.
//!
//! ```text
//! Connection --AuthenticationEvent--> Authentication --> Exchange (plain, scram, oauthbearer, gssapi)
//!            <-Send, Done, Failed-----
//! ```
//!
//! - [`authentication`]: SaslHandshake, then SaslAuthenticate until the mechanism is done.
//! - `plain`, `scram`, `oauthbearer`, [`gssapi`]: one mechanism each. A mechanism answers challenges and knows no request.
//! - [`token`]: the bearer token that another thread keeps fresh.
//! - [`config`]: mechanism and credentials of a client.
//!
//! Not obvious:
//! - Nothing here prints a secret: [`Secret`](crate::secret::Secret) has no content in `Debug`, and errors name settings, not values.
//! - Every text of a broker that ends in an error is cut and freed of control characters: see [`error::printable`].
//!   `masking` replaces the client's secret in it before.

pub mod authentication;
pub mod config;
pub mod error;
mod exchange;
pub mod gssapi;
mod kerberos_failure;
mod masking;
mod mechanism;
mod oauthbearer;
mod plain;
mod scram;
pub mod token;

#[cfg(test)]
mod gssapi_tests;
#[cfg(test)]
mod tests;

pub use config::{Credentials, SaslConfig};
pub use error::SaslError;
pub use gssapi::{GssAnswer, GssCall, GssResult, KerberosConfig};
pub use kerberos_failure::{KerberosFailure, KerberosFailureKind};
pub use masking::secret_in_text;
pub use mechanism::Mechanism;
pub use token::{Token, TokenError, TokenState, TokenStore, Wake};
