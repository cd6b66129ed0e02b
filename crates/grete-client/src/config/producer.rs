//! A producer's settings, and how they hang together.

use std::ops::Deref;
use std::time::Duration;

use super::{ConfigError, Role, Settings, invalid};

/// How many brokers have to have a record before it counts as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acks {
    /// Nobody says: outcomes are unknown.
    None,
    /// The leader.
    Leader,
    /// All replicas that are in sync.
    All,
}

/// Brokers remember this many batches of a producer and partition (KIP-98); more in flight could not be told apart.
const MOST_IN_FLIGHT: i64 = 5;

/// A checked configuration of one producer.
#[derive(Debug, Clone)]
pub struct ProducerConfig {
    settings: Settings,
    idempotent: bool,
    delivery_timeout: Duration,
}

impl ProducerConfig {
    /// Checks every pair; see [`super::ConsumerConfig::from_pairs`].
    ///
    /// `enable.idempotence`, unless it is asked for, gives way to acks other than all, as in Java's client.
    ///
    /// # Errors
    /// The first setting that is unknown, wrong or not built yet, `bootstrap.servers` when it is missing, and settings
    /// that contradict each other.
    pub fn from_pairs(pairs: &[(String, String)]) -> Result<Self, ConfigError> {
        let settings = Settings::from_pairs(Role::Producer, pairs)?;
        let idempotent = idempotence(&settings)?;
        let delivery_timeout = delivery_timeout(&settings)?;
        level(&settings)?;
        Ok(Self { settings, idempotent, delivery_timeout })
    }

    /// The value of `acks`.
    #[must_use]
    pub fn acks(&self) -> Acks {
        match self.text("acks") {
            "0" => Acks::None,
            "1" => Acks::Leader,
            _ => Acks::All,
        }
    }

    /// Whether brokers drop what a retry would write twice.
    #[must_use]
    pub fn idempotent(&self) -> bool {
        self.idempotent
    }

    /// From append to the last word about a record: `delivery.timeout.ms`, or what the other time-outs need.
    #[must_use]
    pub fn delivery_timeout(&self) -> Duration {
        self.delivery_timeout
    }

    /// The codec's name: none, gzip, snappy, lz4 or zstd.
    #[must_use]
    pub fn compression(&self) -> &str {
        self.text("compression.type")
    }

    /// `compression.level`; `None` for the codec's own default.
    #[must_use]
    pub fn compression_level(&self) -> Option<i32> {
        i32::try_from(self.number("compression.level")).ok().filter(|level| *level >= 0)
    }
}

fn idempotence(settings: &Settings) -> Result<bool, ConfigError> {
    const NAME: &str = "enable.idempotence";
    let (acks, wanted) = (settings.text("acks"), settings.flag(NAME));
    if wanted && acks != "all" {
        if settings.given(NAME).is_none() {
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
    if wanted && in_flight > MOST_IN_FLIGHT {
        return Err(invalid(
            name,
            format!(
                "{name} = {in_flight} is too many with enable.idempotence = true: brokers tell the last \
                 {MOST_IN_FLIGHT} batches of a partition apart, no more; give at most {MOST_IN_FLIGHT}, or \
                 enable.idempotence = false"
            ),
        ));
    }
    Ok(wanted)
}

/// As in Java's client, a `delivery.timeout.ms` that nobody gave makes room for the others.
fn delivery_timeout(settings: &Settings) -> Result<Duration, ConfigError> {
    const NAME: &str = "delivery.timeout.ms";
    let given = settings.number(NAME);
    let (linger, request) = (settings.number("linger.ms"), settings.number("request.timeout.ms"));
    let needed = linger + request;
    if given < needed && settings.given(NAME).is_some() {
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

/// Each codec counts its levels in its own way.
fn level(settings: &Settings) -> Result<(), ConfigError> {
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

impl Deref for ProducerConfig {
    type Target = Settings;
    fn deref(&self) -> &Settings {
        &self.settings
    }
}
