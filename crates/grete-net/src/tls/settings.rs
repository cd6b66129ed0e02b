//! Settings of TLS, as the client's configuration gives them. Nothing is read yet.

use std::path::PathBuf;

use grete_proto::secret::Secret;

/// Settings of TLS, as the client's configuration gives them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// Certificates to trust; empty: those of the system.
    pub roots: Vec<CertificateSource>,
    /// Password of a PKCS#12 file among the roots.
    pub root_password: Option<Secret>,
    /// The client's own certificate and key; `None`: the client shows no certificate.
    pub identity: Option<IdentitySource>,
    /// Revoked certificates, in PEM: a file, or a folder of files.
    pub revoked: Option<PathBuf>,
    /// Whether the broker's certificate is checked at all.
    pub verify_certificate: bool,
    /// Whether the certificate must have the name of the host.
    pub verify_host_name: bool,
    /// Whether the client logs in by SASL after the handshake (`security.protocol=SASL_SSL`). Messages say so.
    pub logs_in: bool,
}

impl Default for TlsSettings {
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            root_password: None,
            identity: None,
            revoked: None,
            verify_certificate: true,
            verify_host_name: true,
            logs_in: false,
        }
    }
}

/// Source of certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateSource {
    /// A file, or a folder of files. PEM or PKCS#12.
    Location {
        /// Name of the setting.
        setting: &'static str,
        /// Path of the file or folder.
        path: PathBuf,
    },
    /// Text in PEM.
    Pem {
        /// Name of the setting.
        setting: &'static str,
        /// The text.
        text: String,
    },
}

/// Source of the client's own certificate and key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdentitySource {
    /// One file with both: PEM or PKCS#12.
    Keystore {
        /// Path of the file.
        path: PathBuf,
        /// Password of a PKCS#12 file.
        password: Option<Secret>,
        /// Password of an encrypted key.
        key_password: Option<Secret>,
    },
    /// Certificate chain and key apart.
    Pair {
        /// The certificate, followed by those of its issuers.
        chain: CertificateSource,
        /// The private key.
        key: KeySource,
        /// Password of an encrypted key.
        key_password: Option<Secret>,
    },
}

/// Source of a private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// A PEM file.
    Location(PathBuf),
    /// Text in PEM.
    Pem(Secret),
}
