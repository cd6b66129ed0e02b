//! TLS of the listeners, and certificates for development.

use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;

use grete_wire::write_buffer::WriteBuffer;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConnection};

/// Encrypted bytes of a connection that wait for the kernel.
const BUFFER_BYTES: usize = 256 << 10;

/// TLS of all listeners. Clones share it.
#[derive(Clone)]
pub struct TlsConfig(Arc<rustls::ServerConfig>);

impl TlsConfig {
    /// Makes the configuration from texts in PEM. `client_ca`: clients must show a certificate that this CA has signed.
    ///
    /// # Errors
    /// A text is not PEM, or the key does not belong to the certificate.
    pub fn new(chain: &str, key: &str, client_ca: Option<&str>) -> Result<Self, String> {
        let provider = Arc::new(ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(certificates(pem)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| error.to_string())?)
            }
        };
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
            .map_err(|_| "the key of the brokers is not PEM without a password".to_owned())?;
        let config = builder.with_single_cert(certificates(chain)?, key);
        Ok(Self(Arc::new(config.map_err(|error| format!("certificate and key of the brokers: {error}"))?)))
    }

    pub(super) fn accept(&self) -> io::Result<ServerConnection> {
        let mut connection = ServerConnection::new(Arc::clone(&self.0)).map_err(io::Error::other)?;
        connection.set_buffer_limit(Some(BUFFER_BYTES));
        Ok(connection)
    }
}

impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsConfig")
    }
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match found {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err("a certificate of the brokers is not PEM".to_owned()),
    }
}

/// Encrypts the queued bytes and writes as many as `stream` takes. Returns whether nothing waits.
pub(super) fn write_to(
    connection: &mut ServerConnection,
    queue: &mut WriteBuffer,
    mut stream: impl Write,
) -> io::Result<bool> {
    loop {
        // Before the end of the handshake rustls would keep the bytes in plain; no machine responds before a request.
        let taken = connection.is_handshaking() || queue.write_to(FullBlocks(connection.writer()))?;
        while connection.wants_write() {
            match connection.write_tls(&mut stream) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if taken {
            return Ok(true);
        }
    }
}

/// Writer of a TLS connection whose full buffer is no end of the stream.
struct FullBlocks<W>(W);

impl<W: Write> Write for FullBlocks<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes)? {
            0 if !bytes.is_empty() => Err(io::ErrorKind::WouldBlock.into()),
            n => Ok(n),
        }
    }

    // One slice at a time would be a TLS record for each batch of a Fetch, and one for the few bytes before it.
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.0.write_vectored(slices)? {
            0 if slices.iter().any(|slice| !slice.is_empty()) => Err(io::ErrorKind::WouldBlock.into()),
            n => Ok(n),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Result of one read from an encrypted connection.
pub(super) enum TlsRead {
    /// This many bytes came, decrypted or not.
    Bytes(usize),
    /// The kernel has no more bytes for now.
    Drained,
    /// The client has closed the connection, or the connection failed.
    Ended,
    /// The two sides do not agree on an encrypted connection.
    Refused(rustls::Error),
}

/// Reads once: decrypted bytes into `space`, whose number `filled` gets, or encrypted ones from `stream`.
pub(super) fn read(
    connection: &mut ServerConnection,
    mut stream: impl Read + Write,
    space: &mut [u8],
    filled: impl FnOnce(usize),
) -> TlsRead {
    match connection.reader().read(space) {
        Ok(0) => return TlsRead::Ended,
        Ok(n) => {
            filled(n);
            return TlsRead::Bytes(n);
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        Err(_) => return TlsRead::Ended, // the client has closed the connection without a notice
    }
    let n = match connection.read_tls(&mut stream) {
        Ok(0) => return TlsRead::Ended,
        Ok(n) => n,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return TlsRead::Drained,
        Err(error) if error.kind() == io::ErrorKind::Interrupted => return TlsRead::Bytes(0),
        Err(_) => return TlsRead::Ended,
    };
    match connection.process_new_packets() {
        Ok(_) => TlsRead::Bytes(n),
        Err(error) => {
            // The alert says to the client why the connection ends.
            let _ = connection.write_tls(&mut stream);
            TlsRead::Refused(error)
        }
    }
}

/// Certificates for development, in PEM: a new authority, and what it has signed.
#[derive(Clone)]
pub struct DevCertificates {
    /// Certificate of the authority.
    pub ca: String,
    /// Certificate of the brokers.
    pub broker: String,
    /// Private key of the brokers.
    pub broker_key: String,
    /// Certificate of a client.
    pub client: String,
    /// Private key of the client.
    pub client_key: String,
}

impl DevCertificates {
    /// Makes an authority and signs a certificate of brokers with these names or addresses, and one of a client.
    ///
    /// # Errors
    /// A name is not one that a certificate can have.
    pub fn generate(hosts: Vec<String>) -> Result<Self, String> {
        Self::try_generate(hosts).map_err(|error| format!("the certificates cannot be made: {error}"))
    }

    fn try_generate(hosts: Vec<String>) -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        let key = KeyPair::generate()?;
        // Each start makes another authority. With a part of the key in the name, a client with a former start's file
        // says which authority it needs, and not that a signature is wrong.
        let part: String = params.key_identifier(&key).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        params.distinguished_name.push(DnType::CommonName, format!("grete dev CA {part}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, key)?;
        let sign = |hosts: Vec<String>, name: &str, usage: ExtendedKeyUsagePurpose| {
            let mut params = CertificateParams::new(hosts)?;
            params.distinguished_name.push(DnType::CommonName, name);
            params.extended_key_usages = vec![usage];
            params.use_authority_key_identifier_extension = true;
            let key = KeyPair::generate()?;
            let certificate = params.signed_by(&key, &issuer)?;
            Ok::<_, rcgen::Error>((certificate.pem(), key.serialize_pem()))
        };
        let (broker, broker_key) = sign(hosts, "grete dev broker", ExtendedKeyUsagePurpose::ServerAuth)?;
        let (client, client_key) = sign(Vec::new(), "grete dev client", ExtendedKeyUsagePurpose::ClientAuth)?;
        Ok(Self { ca: issuer.pem(), broker, broker_key, client, client_key })
    }
}
