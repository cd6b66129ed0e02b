//! How connections are encrypted and authenticated: `security.protocol` and the settings behind it.

use std::sync::Arc;

use grete_net::tls::TlsSettings;

use super::sasl::SaslSettings;
use super::security_protocol::SecurityProtocol;
use super::tls::tls_settings;
use super::{ConfigError, Settings, invalid};

/// How connections are encrypted and authenticated.
#[derive(Debug, Clone, Default)]
pub struct Security {
    /// `security.protocol`.
    pub protocol: SecurityProtocol,
    /// Settings of TLS; `None`: connections are not encrypted.
    pub tls: Option<Arc<TlsSettings>>,
    /// How the client logs in; `None`: no login.
    pub sasl: Option<SaslSettings>,
}

impl Security {
    pub(super) fn from_settings(settings: &Settings) -> Result<Self, ConfigError> {
        let protocol = SecurityProtocol::from_name(settings.text("security.protocol")).unwrap_or_default();
        let tls = if protocol.uses_tls() { Some(Arc::new(tls_settings(settings, protocol)?)) } else { None };
        if tls.is_none() {
            check_no_unused_tls(settings)?;
        }
        Ok(Self { protocol, tls, sasl: SaslSettings::from_settings(settings, protocol)? })
    }
}

/// Refuses settings of TLS without a `security.protocol` that would use them: users expect encryption then. Together
/// with an explicit `PLAINTEXT` they are left alone, so that one dict serves a test without encryption, too.
fn check_no_unused_tls(settings: &Settings) -> Result<(), ConfigError> {
    const NAMES: &[&str] = &["ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.keystore.location"];
    if settings.explicit("security.protocol").is_some() {
        return Ok(());
    }
    match NAMES.iter().find(|name| settings.explicit(name).is_some_and(|value| !value.is_empty())) {
        Some(name) => Err(invalid(
            name,
            format!(
                "{name} is set, but security.protocol is not, so nothing would be encrypted; \
                 add security.protocol=SSL (or SASL_SSL)"
            ),
        )),
        None => Ok(()),
    }
}
