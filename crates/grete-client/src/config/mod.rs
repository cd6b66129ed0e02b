//! Settings by Kafka's dotted names. What is unknown, wrong or not built yet is refused here, before any socket opens.

mod check;
mod consumer;
mod core;
mod producer;
mod setting;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

pub use consumer::{ConsumerConfig, Reset};
pub use producer::{Acks, ProducerConfig};
pub use setting::Role;
use setting::{Setting, Status};

/// A setting that cannot be used, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConfigError {
    /// The setting's name as it was given.
    pub setting: String,
    /// What is wrong and what would be right.
    pub message: String,
    /// In one word.
    pub kind: ConfigErrorKind,
}

/// Why a setting was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigErrorKind {
    /// No such setting.
    Unknown,
    /// The value does not fit.
    Invalid,
    /// Kafka has it, Grete does not have it yet.
    NotBuilt,
    /// It must be given.
    Missing,
}

/// Checked settings of one client, whatever its role. [`ConsumerConfig`], [`ProducerConfig`] and [`AdminConfig`] add what
/// their role knows.
#[derive(Debug, Clone)]
pub struct Settings {
    role: Role,
    values: Vec<(&'static Setting, String)>,
    bootstrap: Vec<(Arc<str>, u16)>,
}

impl Settings {
    /// Checks every pair. Java's and librdkafka's spellings are accepted; the last of two spellings of one setting
    /// wins. Settings that only another role knows are accepted, so that one dict serves all clients.
    fn from_pairs(role: Role, pairs: &[(String, String)]) -> Result<Self, ConfigError> {
        let mut values: Vec<(&'static Setting, String)> = Vec::new();
        for (name, value) in pairs {
            let Some((setting, value)) = check::setting(role, name, value)? else { continue };
            values.retain(|(other, _)| other.name != setting.name);
            values.push((setting, value));
        }
        let mut settings = Self { role, values, bootstrap: Vec::new() };
        settings.bootstrap = check::bootstrap(settings.text("bootstrap.servers"))?;
        let (first, most) = (settings.number("reconnect.backoff.ms"), settings.number("reconnect.backoff.max.ms"));
        if first > most {
            return Err(invalid(
                "reconnect.backoff.ms",
                format!("reconnect.backoff.ms ({first}) is above reconnect.backoff.max.ms ({most})"),
            ));
        }
        Ok(settings)
    }

    /// Name, value and whether it is the default, for each setting that the role knows.
    #[must_use]
    pub fn entries(&self) -> Vec<(&'static str, String, bool)> {
        let built = self.role.settings().filter(|setting| setting.status == Status::Built);
        built
            .map(|setting| (setting.name, self.text(setting.name).to_owned(), self.given(setting.name).is_none()))
            .collect()
    }

    /// Host and port of each address to start from.
    #[must_use]
    pub fn bootstrap(&self) -> &[(Arc<str>, u16)] {
        &self.bootstrap
    }

    /// What the broker's logs and quotas know this client by.
    #[must_use]
    pub fn client_id(&self) -> &str {
        self.text("client.id")
    }

    /// A boolean setting.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    /// A whole number; settings are checked, so a name that is not a number's is a mistake of ours and gives 0.
    #[must_use]
    pub fn number(&self, name: &str) -> i64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// A number of milliseconds.
    #[must_use]
    pub fn millis(&self, name: &str) -> Duration {
        Duration::from_millis(u64::try_from(self.number(name)).unwrap_or(0))
    }

    fn given(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(setting, _)| setting.name == name).map(|(_, value)| value.as_str())
    }

    fn text(&self, name: &str) -> &str {
        let default =
            || self.role.settings().find(|setting| setting.name == name).map_or("", |setting| setting.default);
        self.given(name).unwrap_or_else(default)
    }
}

/// A checked configuration of one admin client.
#[derive(Debug, Clone)]
pub struct AdminConfig(Settings);

impl AdminConfig {
    /// Checks every pair; see [`ConsumerConfig::from_pairs`].
    ///
    /// # Errors
    /// The first setting that is unknown, wrong or not built yet, and `bootstrap.servers` when it is missing.
    pub fn from_pairs(pairs: &[(String, String)]) -> Result<Self, ConfigError> {
        Settings::from_pairs(Role::Admin, pairs).map(Self)
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
