//! Settings of the consumer.

use std::ops::{Deref, DerefMut};

use grete_proto::group::{GroupProtocol, MemberIds};

use super::{ConfigError, Role, Settings, invalid};

/// Settings that only the classic protocol has, and what takes their place.
const CLASSIC_ONLY: &[(&str, &str)] = &[
    ("partition.assignment.strategy", "set group.remote.assignor, or leave it out"),
    (
        "heartbeat.interval.ms",
        "the coordinator names the interval (group.consumer.heartbeat.interval.ms), so leave it out",
    ),
];

/// Only the classic protocol sends this setting to the brokers. With group.protocol=consumer it is accepted as the time
/// after which the client gives its partitions up by itself.
const SESSION_TIMEOUT: &str = "session.timeout.ms";

/// Start position without a committed offset, or when the offset is out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetReset {
    /// The first record in the log.
    Earliest,
    /// The end of the log: only records written from now on.
    Latest,
    /// No reset: raise an error.
    None,
}

/// Checked configuration of a consumer.
#[derive(Debug, Clone)]
pub struct ConsumerConfig {
    settings: Settings,
    member_ids: Option<MemberIds>,
}

impl ConsumerConfig {
    /// Checks every pair. The spellings of Java and librdkafka are accepted; of two spellings of one setting the last
    /// wins. Settings of other roles are accepted, so that one dict serves all clients.
    ///
    /// # Errors
    /// Returns the first setting that is unknown, invalid or not supported, a missing `bootstrap.servers`, or settings
    /// that contradict each other.
    pub fn from_pairs(pairs: &[(String, String)]) -> Result<Self, ConfigError> {
        let config = Self { settings: Settings::from_pairs(Role::Consumer, pairs)?, member_ids: None };
        let (heartbeat, session) = (config.number("heartbeat.interval.ms"), config.number("session.timeout.ms"));
        if heartbeat >= session && config.group_protocol() != GroupProtocol::Consumer {
            return Err(invalid(
                "heartbeat.interval.ms",
                format!(
                    "heartbeat.interval.ms ({heartbeat}) must be below session.timeout.ms ({session}), \
                     a third of it at most as a rule"
                ),
            ));
        }
        if config.group_protocol() == GroupProtocol::Consumer {
            for (name, cure) in CLASSIC_ONLY {
                if config.explicit(name).is_some() {
                    return Err(invalid(
                        name,
                        format!(
                            "{name} is of the classic protocol, and has no effect with group.protocol=consumer: {cure}"
                        ),
                    ));
                }
            }
        } else if config.group_protocol() == GroupProtocol::Classic && config.remote_assignor().is_some() {
            let cure = "set group.protocol=consumer or auto, or leave it out";
            return Err(invalid(
                "group.remote.assignor",
                format!("group.remote.assignor has no effect with group.protocol=classic: {cure}"),
            ));
        }
        Ok(config)
    }

    /// Sets the ids with which the member joins a group with the consumer protocol.
    #[must_use]
    pub fn with_member_ids(self, member_ids: Option<MemberIds>) -> Self {
        Self { member_ids, ..self }
    }

    pub(super) fn member_ids(&self) -> Option<&MemberIds> {
        self.member_ids.as_ref()
    }

    /// Returns the value of `group.protocol`.
    pub fn group_protocol(&self) -> GroupProtocol {
        match self.text("group.protocol") {
            "consumer" => GroupProtocol::Consumer,
            "classic" => GroupProtocol::Classic,
            _ => GroupProtocol::Auto,
        }
    }

    /// Returns a setting that was given and makes `group.protocol=auto` select the classic protocol, because brokers
    /// decide what it says in the consumer protocol; `None`: there is none. A `group.remote.assignor` beside it says
    /// that the settings are for either protocol.
    pub fn classic_setting(&self) -> Option<&'static str> {
        if self.group_protocol() != GroupProtocol::Auto || self.remote_assignor().is_some() {
            return None;
        }
        let names = CLASSIC_ONLY.iter().map(|(name, _)| *name).chain([SESSION_TIMEOUT]);
        names.into_iter().find(|name| self.explicit(name).is_some())
    }

    /// Returns `group.remote.assignor`; `None`: not set.
    pub fn remote_assignor(&self) -> Option<&str> {
        Some(self.text("group.remote.assignor")).filter(|name| !name.is_empty())
    }

    /// Returns `client.rack`; `None`: not set.
    pub fn rack(&self) -> Option<&str> {
        Some(self.text("client.rack")).filter(|rack| !rack.is_empty())
    }

    /// Returns `group.id`; `None`: not set.
    pub fn group_id(&self) -> Option<&str> {
        Some(self.text("group.id")).filter(|id| !id.is_empty())
    }

    /// Returns `group.instance.id` of a static member; `None`: not set.
    pub fn instance_id(&self) -> Option<&str> {
        Some(self.text("group.instance.id")).filter(|id| !id.is_empty())
    }

    /// Returns the value of `auto.offset.reset`.
    pub fn offset_reset(&self) -> OffsetReset {
        match self.text("auto.offset.reset") {
            "latest" => OffsetReset::Latest,
            "none" => OffsetReset::None,
            _ => OffsetReset::Earliest,
        }
    }

    /// Returns whether only committed transactions are read.
    pub fn read_committed(&self) -> bool {
        self.text("isolation.level") == "read_committed"
    }

    /// Returns the assignors in order of preference.
    pub fn assignors(&self) -> impl Iterator<Item = &str> {
        self.text("partition.assignment.strategy").split(',').map(str::trim)
    }
}

impl DerefMut for ConsumerConfig {
    fn deref_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }
}

impl Deref for ConsumerConfig {
    type Target = Settings;
    fn deref(&self) -> &Settings {
        &self.settings
    }
}
