//! Configuration by Kafka's dotted names. Unknown, invalid or unsupported settings are refused here, before any socket
//! opens.

mod consumer;
mod into_core;
mod producer;
mod sasl;
mod secret_file;
mod security;
mod security_protocol;
mod security_table;
mod setting;
mod settings_table;
#[cfg(test)]
mod tests;
mod tls;
mod validate;

use std::sync::Arc;
use std::time::Duration;

use grete_proto::principal::Principal;
use grete_proto::sasl::TokenStore;
use grete_proto::secret::Secret;
use zeroize::Zeroize;

pub use consumer::{ConsumerConfig, OffsetReset};
pub use producer::{Acks, ProducerConfig};
pub use sasl::{SaslSettings, TokenSource};
pub use secret_file::read_token;
pub use security::Security;
pub use security_protocol::SecurityProtocol;
pub use setting::Role;
use setting::{Kind, Setting, Status};
use settings_table::settings_of;

/// Setting that cannot be used, with the cure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConfigError {
    /// Name of the setting as given.
    pub setting: String,
    /// Message for the user: the error and the cure.
    pub message: String,
    /// Kind of the error.
    pub kind: ConfigErrorKind,
}

/// Reason why a setting was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigErrorKind {
    /// There is no such setting.
    Unknown,
    /// The value is not allowed.
    Invalid,
    /// Kafka has the setting, but Grete does not support it yet.
    NotSupported,
    /// The setting is required.
    Missing,
}

/// Checked settings of one client of any role. [`ConsumerConfig`], [`ProducerConfig`] and [`AdminConfig`] add the
/// settings of their role.
#[derive(Debug, Clone)]
pub struct Settings {
    role: Role,
    values: Vec<(&'static Setting, String)>,
    /// Settings whose values are never shown.
    secrets: Vec<(&'static Setting, Secret)>,
    security: Security,
    bootstrap: Vec<(Arc<str>, u16)>,
}

impl Settings {
    /// Checks every pair. The spellings of Java and librdkafka are accepted; of two spellings of one setting the last
    /// wins. Settings of other roles are accepted, so that one dict serves all clients.
    fn from_pairs(role: Role, pairs: &[(String, String)]) -> Result<Self, ConfigError> {
        let mut values: Vec<(&'static Setting, String)> = Vec::new();
        let mut secrets: Vec<(&'static Setting, Secret)> = Vec::new();
        for (name, value) in pairs {
            let Some((setting, value)) = validate::parse_setting(role, name, value)? else { continue };
            if setting.kind == Kind::Secret {
                secrets.retain(|(other, _)| other.name != setting.name);
                secrets.push((setting, Secret::new(value)));
            } else {
                values.retain(|(other, _)| other.name != setting.name);
                values.push((setting, value));
            }
        }
        let mut settings = Self { role, values, secrets, security: Security::default(), bootstrap: Vec::new() };
        settings.security = Security::from_settings(&settings)?;
        settings.bootstrap = validate::parse_bootstrap(settings.text("bootstrap.servers"), settings.security.protocol)?;
        let (first, most) = (settings.number("reconnect.backoff.ms"), settings.number("reconnect.backoff.max.ms"));
        if first > most {
            return Err(invalid(
                "reconnect.backoff.ms",
                format!("reconnect.backoff.ms ({first}) is above reconnect.backoff.max.ms ({most})"),
            ));
        }
        Ok(settings)
    }

    /// Returns (name, value, whether the value is the default) for each setting of the role. Secrets are masked.
    pub fn entries(&self) -> Vec<(&'static str, String, bool)> {
        let built = settings_of(self.role).filter(|setting| setting.status == Status::Supported);
        built
            .map(|setting| match setting.kind {
                Kind::Secret => {
                    let secret = self.secret(setting.name);
                    (setting.name, secret.map_or(String::new(), |_| "********".to_owned()), secret.is_none())
                }
                _ => (setting.name, self.text(setting.name).to_owned(), self.explicit(setting.name).is_none()),
            })
            .collect()
    }

    /// Returns how connections are encrypted and authenticated.
    pub fn security(&self) -> &Security {
        &self.security
    }

    /// Returns the principal of the client as brokers name it by default: the user of the login or of its token, else the
    /// subject of the client's certificate, else `ANONYMOUS`.
    pub(crate) fn principal(&self) -> Principal {
        let security = &self.security;
        match (&security.sasl, &security.tls) {
            (Some(sasl), _) => match (sasl.user(), self.tokens()) {
                (Some(user), _) => Principal::Known(user.into()),
                (None, Some(tokens)) => Principal::Token(Arc::clone(tokens)),
                (None, None) => Principal::Unknown,
            },
            (None, Some(tls)) if tls.identity.is_some() => {
                tls.subject().map_or(Principal::Unknown, |subject| Principal::Known(subject.into()))
            }
            (None, _) => Principal::Known("ANONYMOUS".into()),
        }
    }

    /// Sets the place where the source of OAUTHBEARER tokens puts them.
    pub fn set_tokens(&mut self, tokens: Arc<TokenStore>) {
        if let Some(sasl) = &mut self.security.sasl {
            sasl.set_tokens(tokens);
        }
    }

    /// Returns the place where the source of OAUTHBEARER tokens puts them; `None`: the client sends no tokens.
    pub(crate) fn tokens(&self) -> Option<&Arc<TokenStore>> {
        self.security.sasl.as_ref()?.token_source()?.store.as_ref()
    }

    /// Returns host and port of each bootstrap address.
    pub fn bootstrap(&self) -> &[(Arc<str>, u16)] {
        &self.bootstrap
    }

    /// Returns `client.id`, the name of this client in the brokers' logs and quotas.
    pub fn client_id(&self) -> &str {
        self.text("client.id")
    }

    /// Returns a boolean setting.
    pub fn flag(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    /// Returns a number. Settings are already checked, so the name of a setting that is not a number is a defect of
    /// Grete and yields 0.
    pub fn number(&self, name: &str) -> i64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// Returns a number of milliseconds.
    pub fn millis(&self, name: &str) -> Duration {
        Duration::from_millis(u64::try_from(self.number(name)).unwrap_or(0))
    }

    /// Returns a secret; `None`: not set, or empty.
    fn secret(&self, name: &str) -> Option<&Secret> {
        let found = self.secrets.iter().find(|(setting, _)| setting.name == name).map(|(_, secret)| secret);
        found.filter(|secret| !secret.is_empty())
    }

    fn explicit(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(setting, _)| setting.name == name).map(|(_, value)| value.as_str())
    }

    fn text(&self, name: &str) -> &str {
        let default =
            || settings_of(self.role).find(|setting| setting.name == name).map_or("", |setting| setting.default);
        self.explicit(name).unwrap_or_else(default)
    }
}

/// Names and values of settings as they came in. The values are overwritten at the drop.
#[derive(Default)]
pub struct SettingPairs(Vec<(String, String)>);

impl From<Vec<(String, String)>> for SettingPairs {
    fn from(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }
}

impl std::ops::Deref for SettingPairs {
    type Target = [(String, String)];
    fn deref(&self) -> &[(String, String)] {
        &self.0
    }
}

impl Drop for SettingPairs {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|(_, value)| value.zeroize());
    }
}

/// Checked configuration of an admin client.
#[derive(Debug, Clone)]
pub struct AdminConfig(Settings);

impl AdminConfig {
    /// Checks every pair; see [`ConsumerConfig::from_pairs`].
    ///
    /// # Errors
    /// Returns the first setting that is unknown, invalid or not supported, or a missing `bootstrap.servers`.
    pub fn from_pairs(pairs: &[(String, String)]) -> Result<Self, ConfigError> {
        Settings::from_pairs(Role::Admin, pairs).map(Self)
    }
}

impl std::ops::DerefMut for AdminConfig {
    fn deref_mut(&mut self) -> &mut Settings {
        &mut self.0
    }
}

impl std::ops::Deref for AdminConfig {
    type Target = Settings;
    fn deref(&self) -> &Settings {
        &self.0
    }
}

fn invalid(name: &str, message: String) -> ConfigError {
    ConfigError { setting: name.to_owned(), message, kind: ConfigErrorKind::Invalid }
}
