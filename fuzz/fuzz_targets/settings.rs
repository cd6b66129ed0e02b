//! Texts of settings, pasted or read from a file: a line of JAAS, certificates and keys in PEM. Each is read or refused by
//! a typed error without control characters.
#![no_main]

use std::sync::Arc;

use grete_client::AdminConfig;
use grete_fuzz::counting::bounded;
use grete_net::tls::{CertificateSource, IdentitySource, KeySource, TlsContext, TlsSettings};
use libfuzzer_sys::fuzz_target;

/// Certificates are parsed and copied several times.
const FACTOR: usize = 64;
/// The settings themselves, and the tables of rustls.
const CAP: usize = 1024 * 1024;

fuzz_target!(|data: &[u8]| {
    let Some((&kind, data)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(data).into_owned();
    let error = bounded(data.len(), FACTOR, CAP, || match kind % 3 {
        0 => jaas(kind / 3, text),
        1 => tls(TlsSettings { roots: vec![pem("ssl.ca.pem", text)], ..trusted() }),
        _ => tls(TlsSettings {
            identity: Some(IdentitySource::Pair {
                chain: pem("ssl.certificate.pem", text.clone()),
                key: KeySource::Pem(text.as_str().into()),
                key_password: (kind > 127).then(|| "fuzzed".into()),
            }),
            ..trusted()
        }),
    });
    if let Some(error) = error {
        assert!(!error.chars().any(char::is_control), "{error:?}");
    }
});

fn jaas(mechanism: u8, line: String) -> Option<String> {
    let mechanism = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"][usize::from(mechanism) % 4];
    let pairs = [
        ("bootstrap.servers", "127.0.0.1:9092"),
        ("security.protocol", "SASL_SSL"),
        ("sasl.mechanism", mechanism),
        ("sasl.jaas.config", &line),
    ];
    let pairs: Vec<_> = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    AdminConfig::from_pairs(&pairs).err().map(|error| error.to_string())
}

/// Settings that read no certificates of the system.
fn trusted() -> TlsSettings {
    TlsSettings { verify_certificate: false, ..TlsSettings::default() }
}

fn tls(settings: TlsSettings) -> Option<String> {
    let silent = Box::new(|_: &_| {});
    TlsContext::new(Arc::new(settings), silent).err().map(|error| error.to_string())
}

fn pem(setting: &'static str, text: String) -> CertificateSource {
    CertificateSource::Pem { setting, text }
}
