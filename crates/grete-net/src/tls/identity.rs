//! The client's own certificate and private key.

use std::sync::Arc;

use grete_proto::secret::Secret;
use grete_wire::access::subject_attribute;
use pkcs8::{EncryptedPrivateKeyInfoRef, SecretDocument, pkcs5};
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{Error, InconsistentKeys};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::files::ReadFiles;
use super::pem::{self, KeyKind, Origin, PemKey};
use super::settings::{CertificateSource, IdentitySource, KeySource, TlsSettings};
use super::setup_error::TlsSetupError;

impl TlsSettings {
    /// Returns the subject of the client's certificate, as it stands in Kafka's principals. `None`: the client has no
    /// certificate, or it cannot be read.
    #[must_use]
    pub fn subject(&self) -> Option<String> {
        subject(self.identity.as_ref()?)
    }
}

/// Reads certificate and key, decrypts the key, and checks that they belong together.
pub(super) fn load(source: &IdentitySource, files: &mut ReadFiles) -> Result<CertifiedKey, TlsSetupError> {
    let (chain, chain_origin, mut keys, key_origin, password) = match source {
        IdentitySource::Keystore { path, password, key_password } => {
            let origin = Origin { setting: "ssl.keystore.location", path: Some(path) };
            let sections = files.read(origin, password.as_ref(), "ssl.keystore.password")?;
            // Java takes the password of the keystore for the key, too, if the key has none of its own.
            let key_password = key_password.as_ref().or(password.as_ref());
            (sections.certificates, origin, sections.keys, origin, key_password)
        }
        IdentitySource::Pair { chain, key, key_password } => {
            let (chain, chain_origin) = read_certificates(chain, None, files)?;
            let (keys, key_origin) = match key {
                KeySource::Location(path) => {
                    let origin = Origin { setting: "ssl.key.location", path: Some(path) };
                    (files.read(origin, key_password.as_ref(), "ssl.key.password")?.keys, origin)
                }
                KeySource::Pem(text) => {
                    let origin = Origin { setting: "ssl.key.pem", path: None };
                    (pem::parse(text.expose(), origin)?.keys, origin)
                }
            };
            (chain, chain_origin, keys, key_origin, key_password.as_ref())
        }
    };
    if chain.is_empty() {
        return Err(chain_origin.error("there is no certificate; give the client's own, then those of its issuers"));
    }
    let Some(key) = (if keys.is_empty() { None } else { Some(keys.swap_remove(0)) }) else {
        return Err(key_origin.error("there is no private key; a file in PEM has a line -----BEGIN PRIVATE KEY-----"));
    };
    certified(chain, &key, key_origin, password)
}

/// Returns the subject of the client's certificate, as Kafka's brokers name its principal by default (RFC 2253: the most
/// specific part first). `None`: the certificate cannot be read.
fn subject(source: &IdentitySource) -> Option<String> {
    let mut files = ReadFiles::default();
    let chain = match source {
        IdentitySource::Keystore { path, password, .. } => {
            let origin = Origin { setting: "ssl.keystore.location", path: Some(path) };
            files.read(origin, password.as_ref(), "ssl.keystore.password").ok()?.certificates
        }
        IdentitySource::Pair { chain, .. } => read_certificates(chain, None, &mut files).ok()?.0,
    };
    let (_, certificate) = X509Certificate::from_der(chain.first()?).ok()?;
    let mut parts: Vec<String> = Vec::new();
    for part in certificate.subject().iter_rdn() {
        let attributes = part.iter().map(|attribute| {
            let oid = attribute.attr_type().to_id_string();
            subject_attribute(&oid, attribute.as_str().ok(), attribute.attr_value().data)
        });
        parts.push(attributes.collect::<Vec<_>>().join("+"));
    }
    parts.reverse();
    Some(parts.join(","))
}

/// Reads the certificates of one source, and returns where they came from.
pub(super) fn read_certificates<'a>(
    source: &'a CertificateSource,
    password: Option<&Secret>,
    files: &mut ReadFiles,
) -> Result<(Vec<CertificateDer<'static>>, Origin<'a>), TlsSetupError> {
    match source {
        CertificateSource::Location { setting, path } => {
            let origin = Origin { setting, path: Some(path) };
            Ok((files.read(origin, password, "ssl.truststore.password")?.certificates, origin))
        }
        CertificateSource::Pem { setting, text } => {
            let origin = Origin { setting, path: None };
            Ok((pem::parse(text, origin)?.certificates, origin))
        }
    }
}

fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: &PemKey,
    origin: Origin<'_>,
    password: Option<&Secret>,
) -> Result<CertifiedKey, TlsSetupError> {
    let certified = CertifiedKey::new(chain, signing_key(key, origin, password)?);
    match certified.keys_match() {
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => Err(origin.error(
            "the private key does not belong to the client's certificate; give the key that the certificate was made \
             with, and the client's own certificate as the first of its chain",
        )),
        Err(Error::InvalidCertificate(_)) => Err(origin.error("the client's certificate cannot be read; make it anew")),
        _ => Ok(certified),
    }
}

fn signing_key(
    key: &PemKey,
    origin: Origin<'_>,
    password: Option<&Secret>,
) -> Result<Arc<dyn SigningKey>, TlsSetupError> {
    let opened;
    let der = match key.kind {
        KeyKind::Pkcs8 => PrivateKeyDer::Pkcs8(key.der.as_slice().into()),
        KeyKind::Pkcs1 => PrivateKeyDer::Pkcs1(key.der.as_slice().into()),
        KeyKind::Sec1 => PrivateKeyDer::Sec1(key.der.as_slice().into()),
        KeyKind::EncryptedPkcs8 => {
            opened = decrypted(key, origin, password)?;
            PrivateKeyDer::Pkcs8(opened.as_bytes().into())
        }
    };
    any_supported_type(&der).map_err(|_| {
        origin.error("the private key is of a kind that is not supported; RSA, ECDSA (P-256, P-384) and Ed25519 are")
    })
}

/// Decrypts a key. Its memory is overwritten at the drop.
fn decrypted(key: &PemKey, origin: Origin<'_>, password: Option<&Secret>) -> Result<SecretDocument, TlsSetupError> {
    let Some(password) = password else {
        return Err(origin.error("the private key is encrypted; set ssl.key.password"));
    };
    let unsupported = "the private key is encrypted in a way that is not supported; convert it: \
                       openssl pkcs8 -topk8 -v2 aes-256-cbc -in key.pem -out key8.pem";
    let info = EncryptedPrivateKeyInfoRef::try_from(key.der.as_slice()).map_err(|_| origin.error(unsupported))?;
    info.decrypt(password.expose()).map_err(|error| match error {
        pkcs8::Error::EncryptedPrivateKey(
            pkcs5::Error::UnsupportedAlgorithm { .. } | pkcs5::Error::NoPbes1CryptSupport,
        ) => origin.error(unsupported),
        _ => origin.error("ssl.key.password is not the password of the private key"),
    })
}
