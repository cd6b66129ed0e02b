//! Settings of the producer, and the checks of their combinations.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use super::{ConfigError, Role, Settings, invalid};

/// Number of brokers that must have a record before it counts as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acks {
    /// No acknowledgment: outcomes are unknown.
    None,
    /// The leader.
    Leader,
    /// All in-sync replicas.
    All,
}

/// Number of batches that brokers remember per producer and partition (KIP-98). With more in flight, brokers could not
/// detect duplicates.
const MAX_IN_FLIGHT: i64 = 5;

/// Checked configuration of a producer.
#[derive(Debug, Clone)]
pub struct ProducerConfig {
    settings: Settings,
    idempotent: bool,
    delivery_timeout: Duration,
}

impl ProducerConfig {
    /// Checks every pair; see [`super::ConsumerConfig::from_pairs`].
    ///
    /// `enable.idempotence` is switched off by `acks` other than `all`, unless it is set explicitly, as in the Java
    /// client.
    ///
    /// # Errors
    /// Returns the first setting that is unknown, invalid or not supported, a missing `bootstrap.servers`, or settings
    /// that contradict each other.
    pub fn from_pairs(pairs: &[(String, String)]) -> Result<Self, ConfigError> {
        let settings = Settings::from_pairs(Role::Producer, pairs)?;
        let idempotent = resolve_idempotence(&settings)?;
        let delivery_timeout = resolve_delivery_timeout(&settings)?;
        check_compression_level(&settings)?;
        check_transactional(&settings, idempotent)?;
        Ok(Self { settings, idempotent, delivery_timeout })
    }

    /// Returns the value of `acks`.
    pub fn acks(&self) -> Acks {
        match self.text("acks") {
            "0" => Acks::None,
            "1" => Acks::Leader,
            _ => Acks::All,
        }
    }

    /// Returns whether brokers drop duplicates that a retry would write.
    pub fn idempotent(&self) -> bool {
        self.idempotent
    }

    /// Returns `transactional.id`; `None`: no transactions.
    pub fn transactional_id(&self) -> Option<&str> {
        Some(self.text("transactional.id")).filter(|id| !id.is_empty())
    }

    /// Returns the longest time from the append of a record to its result: `delivery.timeout.ms`, or the sum of the
    /// other timeouts if that is longer.
    pub fn delivery_timeout(&self) -> Duration {
        self.delivery_timeout
    }

    /// Returns the name of the codec: none, gzip, snappy, lz4 or zstd.
    pub fn compression(&self) -> &str {
        self.text("compression.type")
    }

    /// Returns `compression.level`; `None`: the codec's default.
    pub fn compression_level(&self) -> Option<i32> {
        i32::try_from(self.number("compression.level")).ok().filter(|level| *level >= 0)
    }
}

/// Checks that a producer with transactions is idempotent: brokers refuse transactional batches without sequence numbers.
fn check_transactional(settings: &Settings, idempotent: bool) -> Result<(), ConfigError> {
    let id = settings.text("transactional.id");
    if id.is_empty() || idempotent {
        return Ok(());
    }
    let name = if settings.text("acks") == "all" { "enable.idempotence" } else { "acks" };
    Err(invalid(
        name,
        format!(
            "transactional.id = {id:?} needs acks = all and enable.idempotence = true: leave {name} = {} out",
            settings.text(name)
        ),
    ))
}

fn resolve_idempotence(settings: &Settings) -> Result<bool, ConfigError> {
    const NAME: &str = "enable.idempotence";
    let (acks, wanted) = (settings.text("acks"), settings.flag(NAME));
    if wanted && acks != "all" {
        if settings.explicit(NAME).is_none() {
            return Ok(false);
        }
        return Err(invalid(
            "acks",
            format!(
                "enable.idempotence = true needs acks = all, not acks = {acks}: what one broker alone has may be lost \
                 and written again; leave one of the two out"
            ),
        ));
    }
    let name = "max.in.flight.requests.per.connection";
    let in_flight = settings.number(name);
    if wanted && in_flight > MAX_IN_FLIGHT {
        return Err(invalid(
            name,
            format!(
                "{name} = {in_flight} is too many with enable.idempotence = true: brokers remember only the last \
                 {MAX_IN_FLIGHT} batches of a partition; give at most {MAX_IN_FLIGHT}, or \
                 enable.idempotence = false"
            ),
        ));
    }
    Ok(wanted)
}

/// Returns the delivery timeout. As in the Java client, a default `delivery.timeout.ms` is raised to fit the other
/// timeouts.
fn resolve_delivery_timeout(settings: &Settings) -> Result<Duration, ConfigError> {
    const NAME: &str = "delivery.timeout.ms";
    let given = settings.number(NAME);
    let (linger, request) = (settings.number("linger.ms"), settings.number("request.timeout.ms"));
    let needed = linger + request;
    if given < needed && settings.explicit(NAME).is_some() {
        return Err(invalid(
            NAME,
            format!(
                "{NAME} ({given}) must be at least linger.ms ({linger}) + request.timeout.ms ({request}): a record \
                 waits that long for one answer alone; raise {NAME}, or lower request.timeout.ms to {} or less",
                (given - linger).max(100)
            ),
        ));
    }
    Ok(Duration::from_millis(u64::try_from(given.max(needed)).unwrap_or(0)))
}

/// Checks the compression level; each codec has its own range.
fn check_compression_level(settings: &Settings) -> Result<(), ConfigError> {
    const NAME: &str = "compression.level";
    let (codec, level) = (settings.text("compression.type"), settings.number(NAME));
    let most = match codec {
        "gzip" => 9,
        "zstd" => 22,
        "none" | "snappy" | "lz4" if level >= 0 => {
            return Err(invalid(
                NAME,
                format!("{NAME} = {level} means nothing with compression.type = {codec}: gzip and zstd have levels"),
            ));
        }
        _ => return Ok(()),
    };
    if level > most {
        return Err(invalid(
            NAME,
            format!("{NAME} = {level} is too high: {codec} goes up to {most} (-1: its default)"),
        ));
    }
    Ok(())
}

impl DerefMut for ProducerConfig {
    fn deref_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }
}

impl Deref for ProducerConfig {
    type Target = Settings;
    fn deref(&self) -> &Settings {
        &self.settings
    }
}
