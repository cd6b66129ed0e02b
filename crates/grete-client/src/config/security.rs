//! How connections are encrypted and authenticated: `security.protocol` and the settings behind it.

use std::sync::Arc;

use grete_net::tls::TlsSettings;

use super::sasl::SaslSettings;
use super::tls::tls_settings;
use super::{ConfigError, Settings, invalid};

/// Value of `security.protocol`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SecurityProtocol {
    /// Neither encrypted nor authenticated.
    #[default]
    Plaintext,
    /// Encrypted. The client may have a certificate.
    Ssl,
    /// Authenticated, not encrypted.
    SaslPlaintext,
    /// Encrypted and authenticated.
    SaslSsl,
}

impl SecurityProtocol {
    const ALL: [Self; 4] = [Self::Plaintext, Self::Ssl, Self::SaslPlaintext, Self::SaslSsl];

    /// Returns Kafka's name of the protocol.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "PLAINTEXT",
            Self::Ssl => "SSL",
            Self::SaslPlaintext => "SASL_PLAINTEXT",
            Self::SaslSsl => "SASL_SSL",
        }
    }

    /// Returns the protocol of this name; `None`: there is none.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.name().eq_ignore_ascii_case(name))
    }

    /// Returns whether connections are encrypted.
    #[must_use]
    pub fn uses_tls(self) -> bool {
        matches!(self, Self::Ssl | Self::SaslSsl)
    }

    /// Returns whether clients authenticate with SASL.
    #[must_use]
    pub fn uses_sasl(self) -> bool {
        matches!(self, Self::SaslPlaintext | Self::SaslSsl)
    }
}

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
        let tls = if protocol.uses_tls() { Some(Arc::new(tls_settings(settings)?)) } else { None };
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
