//! Settings of TLS, from the names that Java and librdkafka give them.

use std::path::PathBuf;

use grete_net::tls::{CertificateSource, IdentitySource, KeySource, TlsSettings};

use super::secret_file::secret;
use super::security_protocol::SecurityProtocol;
use super::{ConfigError, ConfigErrorKind, Settings, invalid};

/// Returns the settings of TLS. Files are read when the client starts.
pub(super) fn tls_settings(settings: &Settings, protocol: SecurityProtocol) -> Result<TlsSettings, ConfigError> {
    let roots = ["ssl.ca.location", "ssl.ca.pem"].into_iter().filter_map(|name| source(settings, name)).collect();
    Ok(TlsSettings {
        roots,
        root_password: secret(settings, "ssl.truststore.password", "ssl.truststore.password.file")?,
        identity: identity(settings)?,
        revoked: path(settings, "ssl.crl.location"),
        verify_certificate: settings.flag("enable.ssl.certificate.verification"),
        verify_host_name: settings.text("ssl.endpoint.identification.algorithm") == "https",
        logs_in: protocol.uses_sasl(),
    })
}

fn path(settings: &Settings, name: &str) -> Option<PathBuf> {
    Some(settings.text(name)).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Returns the source that a setting names; `None`: not set. librdkafka's `probe` means the system's certificates.
fn source(settings: &Settings, name: &'static str) -> Option<CertificateSource> {
    let text = Some(settings.text(name)).filter(|text| !text.is_empty())?;
    if name.ends_with(".pem") {
        return Some(CertificateSource::Pem { setting: name, text: text.to_owned() });
    }
    (text != "probe").then(|| CertificateSource::Location { setting: name, path: text.into() })
}

fn identity(settings: &Settings) -> Result<Option<IdentitySource>, ConfigError> {
    let key_password = secret(settings, "ssl.key.password", "ssl.key.password.file")?;
    let chain = source(settings, "ssl.certificate.pem").or_else(|| source(settings, "ssl.certificate.location"));
    let key = settings.secret("ssl.key.pem").cloned().map(KeySource::Pem);
    let key = key.or_else(|| path(settings, "ssl.key.location").map(KeySource::Location));
    match (path(settings, "ssl.keystore.location"), chain, key) {
        (None, None, None) => Ok(None),
        (None, Some(chain), Some(key)) => Ok(Some(IdentitySource::Pair { chain, key, key_password })),
        (Some(path), None, None) => {
            let password = secret(settings, "ssl.keystore.password", "ssl.keystore.password.file")?;
            Ok(Some(IdentitySource::Keystore { path, password, key_password }))
        }
        (None, Some(_), None) => Err(missing(
            "ssl.key.location",
            "the client's certificate is set and its private key is not; set ssl.key.location or ssl.key.pem \
             (Java: ssl.keystore.key)",
        )),
        (None, None, Some(_)) => Err(missing(
            "ssl.certificate.location",
            "the client's private key is set and its certificate is not; set ssl.certificate.location or \
             ssl.certificate.pem (Java: ssl.keystore.certificate.chain)",
        )),
        (Some(_), ..) => Err(invalid(
            "ssl.keystore.location",
            "ssl.keystore.location is set together with another certificate or key of the client; \
             a keystore has both, so leave the others out"
                .to_owned(),
        )),
    }
}

fn missing(name: &str, message: &str) -> ConfigError {
    ConfigError { setting: name.to_owned(), message: message.to_owned(), kind: ConfigErrorKind::Missing }
}
