//! Settings by Kafka's dotted names. What is unknown, wrong or not built yet is refused here, before any socket opens.

mod core;
mod setting;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use setting::{Kind, SETTINGS, Setting, Status, nearest};

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

/// Where to start without a committed offset, or when it is out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// The first record still there.
    Earliest,
    /// What is written from now on.
    Latest,
    /// Neither: an error.
    None,
}

/// A checked configuration of one consumer.
#[derive(Debug, Clone)]
pub struct ConsumerConfig {
    values: Vec<(&'static Setting, String)>,
    bootstrap: Vec<(Arc<str>, u16)>,
}

impl ConsumerConfig {
    /// Checks every pair. Java's and librdkafka's spellings are accepted; the last of two spellings of one setting
    /// wins.
    ///
    /// # Errors
    /// The first setting that is unknown, wrong or not built yet, and `bootstrap.servers` when it is missing.
    pub fn from_pairs(pairs: &[(String, String)]) -> Result<Self, ConfigError> {
        let mut values: Vec<(&'static Setting, String)> = Vec::new();
        for (name, value) in pairs {
            let setting = find(name)?;
            let value = check(setting, name, value)?;
            values.retain(|(other, _)| other.name != setting.name);
            values.push((setting, value));
        }
        let mut config = Self { values, bootstrap: Vec::new() };
        config.bootstrap = parse_bootstrap(config.text("bootstrap.servers"))?;
        config.check_together()?;
        Ok(config)
    }

    /// Name, value and whether it is the default, for each setting.
    #[must_use]
    pub fn entries(&self) -> Vec<(&'static str, String, bool)> {
        let built = SETTINGS.iter().filter(|setting| setting.status == Status::Built);
        built
            .map(|setting| (setting.name, self.text(setting.name).to_owned(), self.given(setting.name).is_none()))
            .collect()
    }

    /// Host and port of each address to start from.
    #[must_use]
    pub fn bootstrap(&self) -> &[(Arc<str>, u16)] {
        &self.bootstrap
    }

    /// The group, if one is set.
    #[must_use]
    pub fn group_id(&self) -> Option<&str> {
        Some(self.text("group.id")).filter(|id| !id.is_empty())
    }

    /// What the broker's logs and quotas know this client by.
    #[must_use]
    pub fn client_id(&self) -> &str {
        self.text("client.id")
    }

    /// The value of `auto.offset.reset`.
    #[must_use]
    pub fn reset(&self) -> Reset {
        match self.text("auto.offset.reset") {
            "latest" | "largest" | "end" => Reset::Latest,
            "none" | "error" => Reset::None,
            _ => Reset::Earliest,
        }
    }

    /// Whether only committed transactions are read.
    #[must_use]
    pub fn read_committed(&self) -> bool {
        self.text("isolation.level") == "read_committed"
    }

    /// Assignors in order of preference.
    pub fn assignors(&self) -> impl Iterator<Item = &str> {
        self.text("partition.assignment.strategy").split(',').map(str::trim)
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
        let default = || SETTINGS.iter().find(|setting| setting.name == name).map_or("", |setting| setting.default);
        self.given(name).unwrap_or_else(default)
    }

    fn check_together(&self) -> Result<(), ConfigError> {
        let (heartbeat, session) = (self.number("heartbeat.interval.ms"), self.number("session.timeout.ms"));
        if heartbeat >= session {
            return Err(invalid(
                "heartbeat.interval.ms",
                format!(
                    "heartbeat.interval.ms ({heartbeat}) must be below session.timeout.ms ({session}), \
                     a third of it at most as a rule"
                ),
            ));
        }
        let (first, most) = (self.number("reconnect.backoff.ms"), self.number("reconnect.backoff.max.ms"));
        if first > most {
            return Err(invalid(
                "reconnect.backoff.ms",
                format!("reconnect.backoff.ms ({first}) is above reconnect.backoff.max.ms ({most})"),
            ));
        }
        Ok(())
    }
}

fn find(name: &str) -> Result<&'static Setting, ConfigError> {
    let named = |setting: &&Setting| setting.name == name || setting.aliases.contains(&name);
    let Some(setting) = SETTINGS.iter().find(named).or_else(|| Setting::family(name)) else {
        let message = match nearest(name) {
            Some(near) => format!("there is no setting {name:?}; did you mean {near:?}?"),
            None => format!(
                "there is no consumer setting {name:?}; Kafka's consumer configuration lists the names that exist"
            ),
        };
        return Err(ConfigError { setting: name.to_owned(), message, kind: ConfigErrorKind::Unknown });
    };
    Ok(setting)
}

fn check(setting: &'static Setting, name: &str, value: &str) -> Result<String, ConfigError> {
    let value = value.trim();
    let wrong = |wanted: String| Err(invalid(name, format!("{name} = {value:?} cannot be used: {wanted}")));
    if let Status::NotBuilt { unless, cure } = setting.status {
        return if unless.iter().any(|allowed| allowed.eq_ignore_ascii_case(value)) {
            Ok(value.to_owned())
        } else {
            let message = format!("{name} = {value:?} is not built yet, so it is refused rather than ignored; {cure}");
            Err(ConfigError { setting: name.to_owned(), message, kind: ConfigErrorKind::NotBuilt })
        };
    }
    match setting.kind {
        Kind::Text => Ok(value.to_owned()),
        Kind::Number { least, most, unit } => match value.parse::<i64>() {
            Ok(number) if (least..=most).contains(&number) => Ok(number.to_string()),
            _ => wrong(format!("give a whole number of {unit} from {least} to {most}")),
        },
        Kind::Flag => match value.to_ascii_lowercase().as_str() {
            "true" | "1" => Ok("true".into()),
            "false" | "0" => Ok("false".into()),
            _ => wrong("give true or false".into()),
        },
        Kind::Choice(choices) => match choices.iter().find(|choice| choice.eq_ignore_ascii_case(value)) {
            Some(choice) => Ok((*choice).to_owned()),
            None => wrong(format!("give one of {}", choices.join(", "))),
        },
        Kind::Assignors => assignors(name, value),
    }
}

fn assignors(name: &str, value: &str) -> Result<String, ConfigError> {
    let mut names = Vec::new();
    for given in value.split(',').map(str::trim).filter(|given| !given.is_empty()) {
        // Java names the class, librdkafka the strategy.
        let short = given.rsplit('.').next().unwrap_or(given);
        names.push(match short {
            "range" | "RangeAssignor" => "range",
            "cooperative-sticky" | "CooperativeStickyAssignor" => "cooperative-sticky",
            "roundrobin" | "RoundRobinAssignor" | "sticky" | "StickyAssignor" => {
                return Err(ConfigError {
                    setting: name.to_owned(),
                    message: format!(
                        "{name}: {given:?} is not built yet; use cooperative-sticky, or range in a group shared with \
                         clients that know no other"
                    ),
                    kind: ConfigErrorKind::NotBuilt,
                });
            }
            _ => {
                return Err(invalid(
                    name,
                    format!("{name}: {given:?} is no assignor; give cooperative-sticky, range, or both"),
                ));
            }
        });
    }
    if names.is_empty() {
        return Err(invalid(name, format!("{name} names no assignor; give cooperative-sticky, range, or both")));
    }
    Ok(names.join(","))
}

fn parse_bootstrap(list: &str) -> Result<Vec<(Arc<str>, u16)>, ConfigError> {
    const NAME: &str = "bootstrap.servers";
    let mut addresses = Vec::new();
    for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let bare = entry.split_once("://").map_or(entry, |(_, rest)| rest);
        let Some((host, port)) = bare.rsplit_once(':') else {
            return Err(invalid(NAME, format!("{NAME}: {entry:?} has no port; give host:port, as in {entry}:9092")));
        };
        let port = port.parse::<u16>().ok().filter(|port| *port != 0);
        let (Some(port), false) = (port, host.is_empty()) else {
            return Err(invalid(NAME, format!("{NAME}: {entry:?} is not host:port; a port is a number up to 65535")));
        };
        addresses.push((Arc::from(host.trim_start_matches('[').trim_end_matches(']')), port));
    }
    if addresses.is_empty() {
        return Err(ConfigError {
            setting: NAME.into(),
            message: format!("{NAME} is not set; give at least one broker as host:port, as in localhost:9092"),
            kind: ConfigErrorKind::Missing,
        });
    }
    Ok(addresses)
}

fn invalid(name: &str, message: String) -> ConfigError {
    ConfigError { setting: name.to_owned(), message, kind: ConfigErrorKind::Invalid }
}
