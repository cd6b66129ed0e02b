//! Failures of TLS: why two sides do not agree on an encrypted connection.

use std::sync::Arc;

/// Failure of TLS on one connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TlsFailure {
    /// Kind of the failure.
    pub kind: TlsFailureKind,
    /// Message for the user: what is wrong, and the cure.
    pub message: Arc<str>,
}

/// Kind of a failure of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TlsFailureKind {
    /// The peer answers, and not in TLS.
    NotTls,
    /// The peer closed the connection at the first message of TLS, as a broker's plain-text listener does.
    ClosedAtHello,
    /// The certificate of the broker has not the name of the host.
    WrongName,
    /// The certificate of the broker is signed by none that the client trusts.
    UnknownCa,
    /// The certificate of the broker has expired.
    Expired,
    /// The certificate of the broker is not valid yet.
    NotYetValid,
    /// The certificate of the broker is revoked.
    Revoked,
    /// The certificate of the broker is unusable for another reason.
    BadCertificate,
    /// The broker requires a certificate of the client, and the client has none.
    CertificateRequired,
    /// The broker refused the certificate of the client.
    CertificateRefused,
    /// The two sides have no version or cipher suite in common.
    NothingInCommon,
    /// Another breach of the protocol, or an alert of the broker.
    Protocol,
}

impl TlsFailureKind {
    /// Returns the kind as a word of log fields and of Python's `TlsError.reason`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NotTls => "not_tls",
            Self::ClosedAtHello => "closed_at_hello",
            Self::WrongName => "wrong_name",
            Self::UnknownCa => "unknown_ca",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::Revoked => "revoked",
            Self::BadCertificate => "bad_certificate",
            Self::CertificateRequired => "certificate_required",
            Self::CertificateRefused => "certificate_refused",
            Self::NothingInCommon => "nothing_in_common",
            Self::Protocol => "protocol",
        }
    }

    /// Returns the number of consecutive failures after which a retry cannot be expected to help. A peer that closes may
    /// be a load balancer whose broker starts just now, and a breach of the protocol may be a fault in transit.
    #[must_use]
    pub fn is_certain_after(self) -> u32 {
        match self {
            Self::ClosedAtHello | Self::Protocol => 4,
            // Partly inferred: a broker that closes the connection may have lost its alert, or may just stop.
            Self::CertificateRequired | Self::CertificateRefused => 2,
            _ => 1,
        }
    }
}
