//! A server in memory, and the certificates of tests.

use std::io::{self, Read, Write};
use std::sync::Arc;

use grete_proto::tls_failure::TlsFailure;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::crypto::ring;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion};

use super::super::{CertificateSource, TlsContext, TlsEnd, TlsSettings, TlsStream};

pub(super) type Issuer = CertifiedIssuer<'static, KeyPair>;

pub(super) fn authority(name: &str) -> Issuer {
    authority_with(name, &rcgen::PKCS_ECDSA_P256_SHA256)
}

pub(super) fn authority_with(name: &str, kind: &'static rcgen::SignatureAlgorithm) -> Issuer {
    let mut params = CertificateParams::new(Vec::new()).expect("names");
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    CertifiedIssuer::self_signed(params, KeyPair::generate_for(kind).expect("a key")).expect("a certificate")
}

pub(super) fn params(names: &[&str]) -> CertificateParams {
    let mut params =
        CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()).expect("names");
    params.distinguished_name.push(DnType::CommonName, "broker 1");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params
}

/// Certificate with its key.
pub(super) struct Leaf {
    pub(super) cert: rcgen::Certificate,
    pub(super) key: KeyPair,
}

pub(super) fn leaf(params: CertificateParams, issuer: &Issuer) -> Leaf {
    let key = KeyPair::generate().expect("a key");
    Leaf { cert: params.signed_by(&key, issuer).expect("a certificate"), key }
}

pub(super) fn server_config(
    leaf: &Leaf,
    clients: Option<&Issuer>,
    version: &'static SupportedProtocolVersion,
) -> Arc<ServerConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[version])
        .expect("a version");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(issuer) => {
            let mut roots = RootCertStore::empty();
            roots.add(issuer.der().clone()).expect("a root");
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().expect("roots");
            builder.with_client_cert_verifier(verifier)
        }
    };
    let key = PrivatePkcs8KeyDer::from(leaf.key.serialize_der());
    Arc::new(builder.with_single_cert(vec![leaf.cert.der().clone()], key.into()).expect("a key that fits"))
}

pub(super) fn trusting(pem: &str) -> TlsSettings {
    let roots = vec![CertificateSource::Pem { setting: "ssl.ca.pem", text: pem.to_owned() }];
    TlsSettings { roots, ..TlsSettings::default() }
}

pub(super) fn context(settings: TlsSettings) -> TlsContext {
    let shout = Box::new(|error: &super::super::TlsSetupError| panic!("{error}"));
    TlsContext::new(Arc::new(settings), shout).expect("settings that fit")
}

/// Both ends of a connection, and the bytes under way.
pub(super) struct Pair {
    pub(super) client: TlsStream,
    pub(super) server: ServerConnection,
    to_client: Vec<u8>,
    pub(super) received: Vec<u8>,
    pub(super) server_received: Vec<u8>,
    /// Bytes that one read of the client gives at most.
    pub(super) read_bytes: usize,
    /// Position of the server's byte to change; `None`: no byte is changed.
    pub(super) damaged: Option<usize>,
    sent: usize,
}

/// Source that blocks where its bytes end.
struct Source<'a>(&'a mut Vec<u8>, usize);

impl Read for Source<'_> {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let n = space.len().min(self.0.len()).min(self.1);
        space[..n].copy_from_slice(&self.0[..n]);
        self.0.drain(..n);
        Ok(n)
    }
}

impl Pair {
    pub(super) fn new(context: &mut TlsContext, host: &str, server: &Arc<ServerConfig>) -> Self {
        let client = context.connect(host).expect("a name");
        let server = ServerConnection::new(Arc::clone(server)).expect("a server");
        Self {
            client,
            server,
            to_client: Vec::new(),
            received: Vec::new(),
            server_received: Vec::new(),
            read_bytes: usize::MAX,
            damaged: None,
            sent: 0,
        }
    }

    /// Carries bytes both ways until nothing moves. Returns the failure of the client.
    pub(super) fn run(&mut self) -> Result<(), TlsFailure> {
        loop {
            let mut to_server = Vec::new();
            check(self.client.write_to(&mut to_server).map(|_| ()))?;
            let mut moved = !to_server.is_empty();
            let mut bytes = to_server.as_slice();
            while !bytes.is_empty() {
                self.server.read_tls(&mut bytes).expect("room");
                // The alert of a failure is in the outgoing bytes.
                let _ = self.server.process_new_packets();
                let end = self.server.reader().read_to_end(&mut self.server_received);
                assert!(end.is_ok() || end.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock));
            }
            while self.server.wants_write() {
                let start = self.to_client.len();
                let n = self.server.write_tls(&mut self.to_client).expect("memory");
                if let Some(at) = self.damaged.filter(|at| (self.sent..self.sent + n).contains(at)) {
                    self.to_client[start + at - self.sent] ^= 0x55;
                }
                self.sent += n;
            }
            while !self.to_client.is_empty() {
                moved = true;
                let received = &mut self.received;
                let source = Source(&mut self.to_client, self.read_bytes);
                check(self.client.read(source, &mut |plain| received.extend_from_slice(plain)).map(|_| ()))?;
            }
            if !moved {
                return Ok(());
            }
        }
    }

    pub(super) fn server_writes(&mut self, bytes: &[u8]) {
        self.server.set_buffer_limit(None);
        self.server.writer().write_all(bytes).expect("memory");
    }
}

fn check(result: Result<(), TlsEnd>) -> Result<(), TlsFailure> {
    match result {
        Ok(()) => Ok(()),
        Err(TlsEnd::Tls(failure)) => Err(failure),
        Err(TlsEnd::Io(error)) => panic!("{error}"),
    }
}
