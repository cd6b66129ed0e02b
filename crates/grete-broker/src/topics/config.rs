//! Settings of topics: names, types, defaults and the check of values.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Type of a setting, with Kafka's number for DescribeConfigs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigType {
    /// `true` or `false`.
    Boolean,
    /// One of a list of words; empty: any text.
    String(&'static [&'static str]),
    /// Comma-separated words of a list; empty: any words.
    List(&'static [&'static str]),
    /// Integer of 32 bits, at least this.
    Int(i64),
    /// Integer of 64 bits, at least this.
    Long(i64),
    /// Number between 0 and 1.
    Ratio,
}

impl ConfigType {
    /// Returns Kafka's number of the type.
    #[must_use]
    pub const fn id(self) -> i8 {
        match self {
            Self::Boolean => 1,
            Self::String(_) => 2,
            Self::Int(_) => 3,
            Self::Long(_) => 5,
            Self::Ratio => 6,
            Self::List(_) => 7,
        }
    }

    /// Checks a value. Spaces around it are no part of it, except of a word, as in Kafka. The error says what is allowed.
    fn check(self, value: &str) -> Result<(), String> {
        let value = if matches!(self, Self::String(_)) { value } else { value.trim() };
        let is_ok = match self {
            Self::Boolean => ["true", "false"].contains(&value.to_ascii_lowercase().as_str()),
            Self::String(words) => words.is_empty() || words.contains(&value),
            Self::List(words) => {
                words.is_empty() || value.is_empty() || value.split(',').all(|word| words.contains(&word.trim()))
            }
            Self::Int(least) => value.parse::<i32>().is_ok_and(|number| i64::from(number) >= least),
            Self::Long(least) => value.parse::<i64>().is_ok_and(|number| number >= least),
            Self::Ratio => value.parse::<f64>().is_ok_and(|number| (0.0..=1.0).contains(&number)),
        };
        if is_ok { Ok(()) } else { Err(self.allowed()) }
    }

    /// Returns a checked value as Kafka writes the value that it has read.
    fn written(self, value: &str) -> String {
        let trimmed = value.trim();
        match self {
            Self::Boolean => trimmed.to_ascii_lowercase(),
            Self::String(_) => value.to_owned(),
            Self::List(_) => trimmed.split(',').map(str::trim).collect::<Vec<_>>().join(","),
            Self::Int(_) | Self::Long(_) => {
                trimmed.parse::<i64>().map_or_else(|_| trimmed.to_owned(), |number| number.to_string())
            }
            Self::Ratio => trimmed.parse::<f64>().map_or_else(|_| trimmed.to_owned(), |number| format!("{number:?}")),
        }
    }

    fn allowed(self) -> String {
        match self {
            Self::Boolean => "true or false".into(),
            Self::String(words) => format!("one of {}", words.join(", ")),
            Self::List(words) => format!("a list of {}", words.join(", ")),
            Self::Int(least) => format!("an integer of 32 bits, at least {least}"),
            Self::Long(least) => format!("an integer of 64 bits, at least {least}"),
            Self::Ratio => "a number between 0 and 1".into(),
        }
    }
}

/// Setting that a topic can have.
#[derive(Debug, Clone, Copy)]
pub struct TopicSetting {
    /// Kafka's name.
    pub name: &'static str,
    /// Broker setting that gives the default.
    pub broker_name: &'static str,
    /// Default of Kafka 4.3.
    pub default: &'static str,
    /// Type of the value.
    pub kind: ConfigType,
}

const fn row(name: &'static str, broker_name: &'static str, default: &'static str, kind: ConfigType) -> TopicSetting {
    TopicSetting { name, broker_name, default, kind }
}

use ConfigType::{Boolean, Int, List, Long, Ratio, String as Word};

const CODECS: &[&str] = &["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"];

/// All settings, by name.
pub const TOPIC_SETTINGS: &[TopicSetting] = &[
    row("cleanup.policy", "log.cleanup.policy", "delete", List(&["compact", "delete"])),
    row("compression.gzip.level", "compression.gzip.level", "-1", Int(-1)),
    row("compression.lz4.level", "compression.lz4.level", "9", Int(1)),
    row("compression.type", "compression.type", "producer", Word(CODECS)),
    row("compression.zstd.level", "compression.zstd.level", "3", Int(-131_072)),
    row("delete.retention.ms", "log.cleaner.delete.retention.ms", "86400000", Long(0)),
    row("file.delete.delay.ms", "log.segment.delete.delay.ms", "60000", Long(0)),
    row("flush.messages", "log.flush.interval.messages", "9223372036854775807", Long(1)),
    row("flush.ms", "log.flush.interval.ms", "9223372036854775807", Long(0)),
    row("follower.replication.throttled.replicas", "follower.replication.throttled.replicas", "", List(&[])),
    row("index.interval.bytes", "log.index.interval.bytes", "4096", Int(0)),
    row("leader.replication.throttled.replicas", "leader.replication.throttled.replicas", "", List(&[])),
    row("local.retention.bytes", "log.local.retention.bytes", "-2", Long(-2)),
    row("local.retention.ms", "log.local.retention.ms", "-2", Long(-2)),
    row("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms", "9223372036854775807", Long(1)),
    row("max.message.bytes", "message.max.bytes", "1048588", Int(0)),
    row("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms", "3600000", Long(0)),
    row("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms", "9223372036854775807", Long(0)),
    row("message.timestamp.type", "log.message.timestamp.type", "CreateTime", Word(&["CreateTime", "LogAppendTime"])),
    row("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio", "0.5", Ratio),
    row("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms", "0", Long(0)),
    row("min.insync.replicas", "min.insync.replicas", "1", Int(1)),
    row("preallocate", "log.preallocate", "false", Boolean),
    row("remote.log.copy.disable", "remote.log.copy.disable", "false", Boolean),
    row("remote.log.delete.on.disable", "remote.log.delete.on.disable", "false", Boolean),
    row("remote.storage.enable", "remote.storage.enable", "false", Boolean),
    row("retention.bytes", "log.retention.bytes", "-1", Long(i64::MIN)),
    row("retention.ms", "log.retention.ms", "604800000", Long(-1)),
    row("segment.bytes", "log.segment.bytes", "1073741824", Int(1_048_576)),
    row("segment.index.bytes", "log.index.size.max.bytes", "10485760", Int(4)),
    row("segment.jitter.ms", "log.roll.jitter.ms", "0", Long(0)),
    row("segment.ms", "log.roll.ms", "604800000", Long(1)),
    row("unclean.leader.election.enable", "unclean.leader.election.enable", "false", Boolean),
];

/// Returns the setting with this name.
#[must_use]
pub fn topic_setting(name: &str) -> Option<&'static TopicSetting> {
    TOPIC_SETTINGS.iter().find(|setting| setting.name == name)
}

/// Settings that a topic overrides. All other settings have their default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopicConfig {
    overrides: BTreeMap<String, String>,
    /// Defaults that the brokers' settings change, by the topic's name of the setting.
    defaults: Arc<BTreeMap<String, String>>,
}

impl TopicConfig {
    /// Creates the settings from overrides. The error is the text for the client.
    ///
    /// # Errors
    /// A name is unknown or a value is not allowed.
    pub fn new<'a>(overrides: impl IntoIterator<Item = (&'a str, Option<&'a str>)>) -> Result<Self, String> {
        let mut config = Self::default();
        for (name, value) in overrides {
            let Some(value) = value else { return Err(format!("Null value not supported for topic configs: {name}")) };
            config.set(name, value)?;
        }
        Ok(config)
    }

    /// Returns settings without overrides, whose defaults are the values of these.
    #[must_use]
    pub fn into_defaults(self) -> Self {
        let mut defaults = (*self.defaults).clone();
        defaults.extend(self.overrides);
        Self { overrides: BTreeMap::new(), defaults: Arc::new(defaults) }
    }

    /// Returns the same overrides with the defaults of others.
    #[must_use]
    pub fn with_defaults(self, others: &Self) -> Self {
        Self { overrides: self.overrides, defaults: Arc::clone(&others.defaults) }
    }

    /// Adds overrides that were checked before they were stored. A setting that a later version no longer has is left
    /// out.
    #[must_use]
    pub fn with_stored(mut self, overrides: &[(String, String)]) -> Self {
        for (name, value) in overrides {
            let _ = self.set(name, value);
        }
        self
    }

    /// Checks the settings that depend on each other. The error is the text for the client.
    ///
    /// # Errors
    /// `min.compaction.lag.ms` is larger than `max.compaction.lag.ms`.
    pub fn check_lags(&self) -> Result<(), String> {
        let (least, most) = (self.number("min.compaction.lag.ms"), self.number("max.compaction.lag.ms"));
        if least <= most {
            return Ok(());
        }
        Err(format!("min.compaction.lag.ms ({least}) must not be larger than max.compaction.lag.ms ({most})"))
    }

    /// Overrides a setting. The value is kept as it was given, with its spaces.
    ///
    /// # Errors
    /// The name is unknown or the value is not allowed.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let Some(setting) = topic_setting(name) else { return Err(format!("Unknown topic config name: {name}")) };
        setting.kind.check(value).map_err(|allowed| {
            format!("Invalid value {value} for configuration {name}: the value must be {allowed}")
        })?;
        self.overrides.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    /// Returns a setting to its default.
    pub fn reset(&mut self, name: &str) {
        self.overrides.remove(name);
    }

    /// Returns the overridden value as it was given.
    #[must_use]
    pub fn overridden(&self, name: &str) -> Option<&str> {
        self.overrides.get(name).map(String::as_str)
    }

    /// Returns all overrides by name.
    pub fn overrides(&self) -> impl Iterator<Item = (&str, &str)> {
        self.overrides.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the default that the brokers' settings give. `None`: they have Kafka's.
    #[must_use]
    pub fn broker_default(&self, name: &str) -> Option<&str> {
        self.defaults.get(name).map(String::as_str)
    }

    /// Returns the value in force as it was given. Empty for an unknown name.
    #[must_use]
    pub fn given(&self, name: &str) -> &str {
        self.overridden(name)
            .or_else(|| self.broker_default(name))
            .or_else(|| topic_setting(name).map(|setting| setting.default))
            .unwrap_or_default()
    }

    /// Returns the value in force. Empty for an unknown name.
    #[must_use]
    pub fn value(&self, name: &str) -> &str {
        self.given(name).trim()
    }

    /// Returns the value in force as DescribeConfigs has it: `true` for `TRUE`, `5` for `05`.
    #[must_use]
    pub fn described(&self, setting: &TopicSetting) -> String {
        setting.kind.written(self.given(setting.name))
    }

    /// Returns the value in force as a number. Values are checked when they are set, so only an unknown name gives 0.
    #[must_use]
    pub fn number(&self, name: &str) -> i64 {
        self.value(name).parse().unwrap_or_default()
    }

    /// Returns whether a list contains a word.
    #[must_use]
    pub fn list_contains(&self, name: &str, word: &str) -> bool {
        self.value(name).split(',').any(|item| item.trim() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_and_sorted() {
        for setting in TOPIC_SETTINGS {
            let is_empty_list = setting.default.is_empty() && setting.kind == List(&[]);
            assert!(is_empty_list || setting.kind.check(setting.default).is_ok(), "{}", setting.name);
        }
        assert!(TOPIC_SETTINGS.is_sorted_by_key(|setting| setting.name));
    }

    #[test]
    fn unknown_names_and_bad_values_are_refused_by_name() {
        let error = |name, value| TopicConfig::new([(name, Some(value))]).unwrap_err();
        assert_eq!(error("retention", "1"), "Unknown topic config name: retention");
        assert!(error("retention.ms", "-2").contains("retention.ms"));
        assert!(error("cleanup.policy", "compact,keep").contains("compact, delete"));
        assert!(error("min.cleanable.dirty.ratio", "1.5").contains("between 0 and 1"));
        assert!(TopicConfig::new([("retention.ms", None)]).is_err());
    }

    #[test]
    fn values_are_kept_as_given_and_described_as_read() {
        let given = [
            ("retention.ms", " 086400000 ", "86400000"),
            ("preallocate", "TRUE ", "true"),
            ("cleanup.policy", " compact , delete", "compact,delete"),
            ("min.cleanable.dirty.ratio", "0.10", "0.1"),
            ("compression.type", "lz4", "lz4"),
        ];
        let config = TopicConfig::new(given.map(|(name, value, _)| (name, Some(value)))).unwrap();
        for (name, value, described) in given {
            assert_eq!((config.given(name), config.overridden(name)), (value, Some(value)));
            assert_eq!(config.described(topic_setting(name).unwrap()), described);
        }
        assert_eq!(config.number("retention.ms"), 86_400_000);
        assert!(config.list_contains("cleanup.policy", "compact") && config.list_contains("cleanup.policy", "delete"));
        assert!(TopicConfig::new([("compression.type", Some(" lz4 "))]).is_err());
    }

    #[test]
    fn the_least_lag_of_compaction_is_not_larger_than_the_most() {
        let lags = |least, most| {
            let lags = [("min.compaction.lag.ms", Some(least)), ("max.compaction.lag.ms", Some(most))];
            TopicConfig::new(lags).unwrap().check_lags()
        };
        assert_eq!(lags("5", "5"), Ok(()));
        assert!(lags("10", "1").unwrap_err().contains("(10)"));
        let defaults = TopicConfig::new([("max.compaction.lag.ms", Some("7"))]).unwrap().into_defaults();
        let config = TopicConfig::new([("min.compaction.lag.ms", Some("8"))]).unwrap();
        assert!(config.check_lags().is_ok() && config.with_defaults(&defaults).check_lags().is_err());
    }

    #[test]
    fn a_reset_returns_to_the_default_of_the_brokers() {
        let defaults = TopicConfig::new([("retention.ms", Some("5"))]).unwrap().into_defaults();
        let mut config = TopicConfig::new([("retention.ms", Some("7"))]).unwrap().with_defaults(&defaults);
        assert_eq!((config.value("retention.ms"), config.overridden("retention.ms")), ("7", Some("7")));
        config.reset("retention.ms");
        assert_eq!((config.number("retention.ms"), config.overridden("retention.ms")), (5, None));
        assert_eq!(config.value("cleanup.policy"), "delete");
    }

    #[test]
    fn a_reset_returns_to_the_default() {
        let mut config = TopicConfig::new([("cleanup.policy", Some("compact,delete"))]).unwrap();
        assert!(config.list_contains("cleanup.policy", "compact") && config.list_contains("cleanup.policy", "delete"));
        config.reset("cleanup.policy");
        assert_eq!((config.value("cleanup.policy"), config.number("retention.ms")), ("delete", 604_800_000));
    }
}
