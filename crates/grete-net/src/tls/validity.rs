//! Dates of certificates.

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Period in which a certificate is valid, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// First second of the period.
    pub not_before: i64,
    /// Last second of the period.
    pub not_after: i64,
}

impl Validity {
    /// Reads the dates of a certificate; `None`: the certificate cannot be read.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let validity = parsed.validity();
        Some(Self { not_before: validity.not_before.timestamp(), not_after: validity.not_after.timestamp() })
    }
}
