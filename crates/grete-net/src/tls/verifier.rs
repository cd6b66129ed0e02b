//! Verification of the brokers' certificates, and the record of what a handshake asked for.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use x509_parser::prelude::{FromDer, X509Certificate};

use grete_proto::tls_failure::TlsFailure;

use super::failure::{certificate_failure, distinguished_name};
use super::validity::Validity;

/// Observations of one step of a handshake. A handshake is stepped by one thread at a time, under the lock of the loop,
/// and takes what it observed right after the step.
#[derive(Debug, Default)]
pub(super) struct Observations(Mutex<Observed>);

/// Observations of the last step of a handshake.
#[derive(Debug, Default, Clone)]
pub(super) struct Observed {
    /// Failure of the verification of the broker's certificate.
    pub(super) failure: Option<TlsFailure>,
    /// Dates of the broker's certificate; `None`: it was not shown, or cannot be read.
    pub(super) server_validity: Option<Validity>,
    /// Issuers that the broker accepts certificates of clients from; `None`: the broker asked for no certificate.
    pub(super) accepted_issuers: Option<Vec<String>>,
}

impl Observations {
    /// Takes what was observed since the last call.
    pub(super) fn take(&self) -> Observed {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn edit(&self, edit: impl FnOnce(&mut Observed)) {
        edit(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Verifier of the brokers' certificates.
#[derive(Debug)]
pub(super) struct BrokerVerifier {
    /// `None`: no certificate is checked.
    pub(super) chain: Option<Arc<WebPkiServerVerifier>>,
    /// Certificates that are trusted as they are: a broker may show one of them as its own.
    pub(super) trusted: Vec<CertificateDer<'static>>,
    /// Name of the setting with the trusted certificates; `None`: they are the system's.
    pub(super) roots_setting: Option<&'static str>,
    pub(super) verify_host_name: bool,
    pub(super) provider: Arc<CryptoProvider>,
    pub(super) observations: Arc<Observations>,
}

impl BrokerVerifier {
    /// Decides on a certificate after the verification of its chain.
    fn judge(
        &self,
        by_chain: Result<ServerCertVerified, Error>,
        end_entity: &CertificateDer<'_>,
        server_name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), Error> {
        match by_chain {
            Ok(_) => Ok(()),
            // The chain was verified before the name.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.verify_host_name => Ok(()),
            // A certificate that signs itself has no issuer to look up, and is often marked as one of an authority. It
            // is trusted if it was given as it is, as Java and OpenSSL do.
            Err(Error::InvalidCertificate(error))
                if is_about_the_issuer(&error) && self.trusted.iter().any(|trusted| trusted == end_entity) =>
            {
                self.verify_itself(end_entity, server_name, now)
            }
            Err(error) => Err(error),
        }
    }

    /// Checks dates and name of a certificate that is trusted as it is.
    fn verify_itself(
        &self,
        end_entity: &CertificateDer<'_>,
        server_name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), Error> {
        let bad = Error::InvalidCertificate(CertificateError::BadEncoding);
        let (_, parsed) = X509Certificate::from_der(end_entity).map_err(|_| bad)?;
        let at = |time: i64| UnixTime::since_unix_epoch(std::time::Duration::from_secs(time.max(0).unsigned_abs()));
        let (not_before, not_after) =
            (at(parsed.validity().not_before.timestamp()), at(parsed.validity().not_after.timestamp()));
        if now > not_after {
            return Err(CertificateError::ExpiredContext { time: now, not_after }.into());
        }
        if now < not_before {
            return Err(CertificateError::NotValidYetContext { time: now, not_before }.into());
        }
        if self.verify_host_name {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        }
        Ok(())
    }
}

/// Returns whether the verification failed because the certificate is signed by none that is trusted.
fn is_about_the_issuer(error: &CertificateError) -> bool {
    match error {
        // The second and third: an authority of the issuer's name is trusted, and has another key.
        CertificateError::UnknownIssuer
        | CertificateError::BadSignature
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => true,
        CertificateError::Other(other) => other.to_string().contains("CaUsedAsEndEntity"),
        _ => false,
    }
}

impl ServerCertVerifier for BrokerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.observations.edit(|observed| observed.server_validity = Validity::of(end_entity));
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        let by_chain = chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        let verified = self.judge(by_chain, end_entity, server_name, now);
        if let Err(error) = &verified {
            let failure = certificate_failure(error, end_entity, intermediates, server_name, self.roots_setting);
            self.observations.edit(|observed| observed.failure = Some(failure));
        }
        verified.map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Certificate of the client, if there is one, and the record that a broker asked for it.
#[derive(Debug)]
pub(super) struct ClientCertificate {
    pub(super) certified: Option<Arc<CertifiedKey>>,
    pub(super) observations: Arc<Observations>,
}

impl ResolvesClientCert for ClientCertificate {
    fn resolve(&self, issuers: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        // A list from the network: a handful is enough for a message.
        let issuers = issuers.iter().take(5).map(|name| distinguished_name(name)).collect();
        self.observations.edit(|observed| observed.accepted_issuers = Some(issuers));
        self.certified.clone()
    }

    fn has_certs(&self) -> bool {
        self.certified.is_some()
    }
}
