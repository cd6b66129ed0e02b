//! TLS of the clients' connections.

mod settings;

pub use settings::{CertificateSource, IdentitySource, KeySource, TlsSettings};
