//! A consumer's settings.

use std::ops::Deref;

use super::{ConfigError, Role, Settings, invalid};

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
pub struct ConsumerConfig(Settings);

impl ConsumerConfig {
    /// Checks every pair. Java's and librdkafka's spellings are accepted; the last of two spellings of one setting
    /// wins. Settings that only another role knows are accepted, so that one dict serves all clients.
    ///
    /// # Errors
    /// The first setting that is unknown, wrong or not built yet, `bootstrap.servers` when it is missing, and settings
    /// that contradict each other.
    pub fn from_pairs(pairs: &[(String, String)]) -> Result<Self, ConfigError> {
        let config = Self(Settings::from_pairs(Role::Consumer, pairs)?);
        let (heartbeat, session) = (config.number("heartbeat.interval.ms"), config.number("session.timeout.ms"));
        if heartbeat >= session {
            return Err(invalid(
                "heartbeat.interval.ms",
                format!(
                    "heartbeat.interval.ms ({heartbeat}) must be below session.timeout.ms ({session}), \
                     a third of it at most as a rule"
                ),
            ));
        }
        Ok(config)
    }

    /// The group, if one is set.
    #[must_use]
    pub fn group_id(&self) -> Option<&str> {
        Some(self.text("group.id")).filter(|id| !id.is_empty())
    }

    /// The static member's id, if one is set.
    #[must_use]
    pub fn instance_id(&self) -> Option<&str> {
        Some(self.text("group.instance.id")).filter(|id| !id.is_empty())
    }

    /// The value of `auto.offset.reset`.
    #[must_use]
    pub fn reset(&self) -> Reset {
        match self.text("auto.offset.reset") {
            "latest" => Reset::Latest,
            "none" => Reset::None,
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
}

impl Deref for ConsumerConfig {
    type Target = Settings;
    fn deref(&self) -> &Settings {
        &self.0
    }
}
