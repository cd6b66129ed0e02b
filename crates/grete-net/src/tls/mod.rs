//! TLS of the clients' connections, with rustls and ring.
//!
//! [`TlsSettings`] come from the configuration. A client reads its files once into a [`TlsContext`], and checks at each
//! connection whether they have changed. The loop steps the encrypted stream of a connection like the socket below it.

mod context;
mod failure;
mod files;
mod identity;
mod pem;
mod server_certificate;
mod settings;
mod setup_error;
mod stream;
#[cfg(test)]
mod tests;
mod validity;
mod verifier;

pub use context::{OnReloadError, TlsContext};
pub use settings::{CertificateSource, IdentitySource, KeySource, TlsSettings};
pub use setup_error::TlsSetupError;
pub(crate) use stream::{TlsEnd, TlsStream};
pub use validity::Validity;
