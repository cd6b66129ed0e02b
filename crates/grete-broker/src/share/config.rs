//! Settings of share groups: those of the brokers, and those of one group.

use std::ops::RangeInclusive;

use crate::ids::Millis;

/// Place at which a share group begins to read a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartOffset {
    /// At the first record.
    Earliest,
    /// At the next record.
    Latest,
    /// At the first record that is not older than this many milliseconds.
    ByDuration(Millis),
}

/// Settings of a share group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareGroupSettings {
    /// `share.auto.offset.reset`.
    pub auto_offset_reset: StartOffset,
    /// `share.record.lock.duration.ms`: time after which an acquired record is available again.
    pub record_lock_duration_ms: i32,
    /// `share.delivery.count.limit`: deliveries after which a record is dropped.
    pub delivery_count_limit: i16,
    /// `share.partition.max.record.locks`: offsets of a partition that all members together may hold.
    pub partition_max_record_locks: i32,
    /// `share.isolation.level`: whether records of open and aborted transactions are left out.
    pub read_committed: bool,
    /// `share.session.timeout.ms`: time without a heartbeat after which a member is removed.
    pub session_timeout_ms: i32,
    /// `share.heartbeat.interval.ms`, which members get in each response.
    pub heartbeat_interval_ms: i32,
}

/// Brokers' settings of share groups, with Kafka's defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareGroupConfig {
    /// Settings of groups that have none of their own.
    pub defaults: ShareGroupSettings,
    /// `group.share.min.record.lock.duration.ms` and `group.share.max.record.lock.duration.ms`.
    pub record_lock_duration_ms: RangeInclusive<i32>,
    /// `group.share.min.delivery.count.limit` and `group.share.max.delivery.count.limit`.
    pub delivery_count_limit: RangeInclusive<i16>,
    /// `group.share.min.partition.max.record.locks` and `group.share.max.partition.max.record.locks`.
    pub partition_max_record_locks: RangeInclusive<i32>,
    /// `group.share.min.session.timeout.ms` and `group.share.max.session.timeout.ms`.
    pub session_timeout_ms: RangeInclusive<i32>,
    /// `group.share.min.heartbeat.interval.ms` and `group.share.max.heartbeat.interval.ms`.
    pub heartbeat_interval_ms: RangeInclusive<i32>,
    /// `group.share.max.size`, in members.
    pub max_size: usize,
    /// `group.share.max.share.sessions` of one broker.
    pub max_sessions: usize,
}

impl Default for ShareGroupConfig {
    fn default() -> Self {
        Self {
            defaults: ShareGroupSettings {
                auto_offset_reset: StartOffset::Latest,
                record_lock_duration_ms: 30_000,
                delivery_count_limit: 5,
                partition_max_record_locks: 2_000,
                read_committed: false,
                session_timeout_ms: 45_000,
                heartbeat_interval_ms: 5_000,
            },
            record_lock_duration_ms: 15_000..=60_000,
            delivery_count_limit: 2..=10,
            partition_max_record_locks: 100..=4_000,
            session_timeout_ms: 45_000..=60_000,
            heartbeat_interval_ms: 5_000..=15_000,
            max_size: 200,
            max_sessions: 2_000,
        }
    }
}

/// Names of a group's settings, in Kafka's order, with Kafka's number of the type.
pub const GROUP_SETTINGS: [(&str, i8); 7] = [
    ("share.auto.offset.reset", 2),
    ("share.delivery.count.limit", 3),
    ("share.heartbeat.interval.ms", 3),
    ("share.isolation.level", 2),
    ("share.partition.max.record.locks", 3),
    ("share.record.lock.duration.ms", 3),
    ("share.session.timeout.ms", 3),
];

const READ_COMMITTED: &str = "read_committed";
const READ_UNCOMMITTED: &str = "read_uncommitted";
const DURATION_PREFIX: &str = "by_duration:";

fn parsed<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("Invalid value {value} for configuration {name}: give a number."))
}

fn within<T: PartialOrd + std::fmt::Display + Copy>(
    name: &str,
    value: T,
    bounds: &RangeInclusive<T>,
) -> Result<T, String> {
    if bounds.contains(&value) {
        return Ok(value);
    }
    let (min, max) = (bounds.start(), bounds.end());
    Err(format!("{name} is {value}: it must be from {min} to {max}, which settings of the broker bound."))
}

impl ShareGroupSettings {
    /// Sets a setting of a group by its name.
    ///
    /// # Errors
    /// There is no such setting, or its value is not valid.
    pub fn set(&mut self, limits: &ShareGroupConfig, name: &str, value: &str) -> Result<(), String> {
        match name {
            "share.auto.offset.reset" => self.auto_offset_reset = start_offset(name, value)?,
            "share.delivery.count.limit" => {
                self.delivery_count_limit = within(name, parsed(name, value)?, &limits.delivery_count_limit)?;
            }
            "share.heartbeat.interval.ms" => {
                self.heartbeat_interval_ms = within(name, parsed(name, value)?, &limits.heartbeat_interval_ms)?;
            }
            "share.isolation.level" => {
                self.read_committed = match value {
                    READ_COMMITTED => true,
                    READ_UNCOMMITTED => false,
                    _ => {
                        let known = format!("give {READ_COMMITTED} or {READ_UNCOMMITTED}");
                        return Err(format!("Invalid value {value} for configuration {name}: {known}."));
                    }
                }
            }
            "share.partition.max.record.locks" => {
                let bounds = &limits.partition_max_record_locks;
                self.partition_max_record_locks = within(name, parsed(name, value)?, bounds)?;
            }
            "share.record.lock.duration.ms" => {
                self.record_lock_duration_ms = within(name, parsed(name, value)?, &limits.record_lock_duration_ms)?;
            }
            "share.session.timeout.ms" => {
                self.session_timeout_ms = within(name, parsed(name, value)?, &limits.session_timeout_ms)?;
            }
            _ => {
                let known = GROUP_SETTINGS.map(|(name, _)| name).join(", ");
                return Err(format!("Unknown group config name: {name}. These brokers have {known}."));
            }
        }
        Ok(())
    }

    /// Returns the value of a setting as text. Empty: there is no such setting.
    #[must_use]
    pub fn value(&self, name: &str) -> String {
        match name {
            "share.auto.offset.reset" => match self.auto_offset_reset {
                StartOffset::Earliest => "earliest".to_owned(),
                StartOffset::Latest => "latest".to_owned(),
                StartOffset::ByDuration(ms) => format!("{DURATION_PREFIX}PT{}S", seconds(ms)),
            },
            "share.delivery.count.limit" => self.delivery_count_limit.to_string(),
            "share.heartbeat.interval.ms" => self.heartbeat_interval_ms.to_string(),
            "share.isolation.level" => if self.read_committed { READ_COMMITTED } else { READ_UNCOMMITTED }.to_owned(),
            "share.partition.max.record.locks" => self.partition_max_record_locks.to_string(),
            "share.record.lock.duration.ms" => self.record_lock_duration_ms.to_string(),
            "share.session.timeout.ms" => self.session_timeout_ms.to_string(),
            _ => String::new(),
        }
    }
}

impl ShareGroupConfig {
    /// Sets a broker's setting by its name without `group.share.`. Returns whether there is such a setting.
    ///
    /// # Errors
    /// The value is not valid.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, String> {
        fn min<T: Copy>(bounds: &mut RangeInclusive<T>, value: T) {
            *bounds = value..=*bounds.end();
        }
        fn max<T: Copy>(bounds: &mut RangeInclusive<T>, value: T) {
            *bounds = *bounds.start()..=value;
        }
        match name {
            "record.lock.duration.ms" => self.defaults.record_lock_duration_ms = parsed(name, value)?,
            "min.record.lock.duration.ms" => min(&mut self.record_lock_duration_ms, parsed(name, value)?),
            "max.record.lock.duration.ms" => max(&mut self.record_lock_duration_ms, parsed(name, value)?),
            "delivery.count.limit" => self.defaults.delivery_count_limit = parsed(name, value)?,
            "min.delivery.count.limit" => min(&mut self.delivery_count_limit, parsed(name, value)?),
            "max.delivery.count.limit" => max(&mut self.delivery_count_limit, parsed(name, value)?),
            "partition.max.record.locks" => self.defaults.partition_max_record_locks = parsed(name, value)?,
            "min.partition.max.record.locks" => min(&mut self.partition_max_record_locks, parsed(name, value)?),
            "max.partition.max.record.locks" => max(&mut self.partition_max_record_locks, parsed(name, value)?),
            "session.timeout.ms" => self.defaults.session_timeout_ms = parsed(name, value)?,
            "min.session.timeout.ms" => min(&mut self.session_timeout_ms, parsed(name, value)?),
            "max.session.timeout.ms" => max(&mut self.session_timeout_ms, parsed(name, value)?),
            "heartbeat.interval.ms" => self.defaults.heartbeat_interval_ms = parsed(name, value)?,
            "min.heartbeat.interval.ms" => min(&mut self.heartbeat_interval_ms, parsed(name, value)?),
            "max.heartbeat.interval.ms" => max(&mut self.heartbeat_interval_ms, parsed(name, value)?),
            "max.size" => self.max_size = parsed(name, value)?,
            "max.share.sessions" => self.max_sessions = parsed(name, value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Checks that the defaults are within their bounds, as Kafka does at its start.
    ///
    /// # Errors
    /// A value is not within its bounds, or a session is not longer than the interval of the heartbeats.
    pub fn check(&self) -> Result<(), String> {
        let defaults = &self.defaults;
        let named = |name: &str| format!("group.share.{name}");
        within(&named("record.lock.duration.ms"), defaults.record_lock_duration_ms, &self.record_lock_duration_ms)?;
        within(&named("delivery.count.limit"), defaults.delivery_count_limit, &self.delivery_count_limit)?;
        let locks = defaults.partition_max_record_locks;
        within(&named("partition.max.record.locks"), locks, &self.partition_max_record_locks)?;
        within(&named("session.timeout.ms"), defaults.session_timeout_ms, &self.session_timeout_ms)?;
        within(&named("heartbeat.interval.ms"), defaults.heartbeat_interval_ms, &self.heartbeat_interval_ms)?;
        if defaults.heartbeat_interval_ms >= defaults.session_timeout_ms {
            return Err(format!(
                "group.share.heartbeat.interval.ms is {}, and not less than group.share.session.timeout.ms, {}: \
                 sessions would end between two heartbeats",
                defaults.heartbeat_interval_ms, defaults.session_timeout_ms
            ));
        }
        Ok(())
    }
}

fn start_offset(name: &str, value: &str) -> Result<StartOffset, String> {
    match value {
        "earliest" => Ok(StartOffset::Earliest),
        "latest" => Ok(StartOffset::Latest),
        _ => value.strip_prefix(DURATION_PREFIX).and_then(duration_ms).map(StartOffset::ByDuration).ok_or_else(|| {
            format!(
                "Invalid value {value} for configuration {name}: give earliest, latest, or {DURATION_PREFIX} and a \
                 duration such as PT1H or P1DT30M."
            )
        }),
    }
}

/// Parses a duration of ISO 8601 in days, hours, minutes and seconds, such as `P1DT2H30M` or `PT0.5S`.
fn duration_ms(text: &str) -> Option<Millis> {
    let (days, time) = match text.strip_prefix('P')?.split_once('T') {
        Some((_, "")) => return None,
        Some((days, time)) => (days, time),
        None => (text.strip_prefix('P')?, ""),
    };
    if days.is_empty() && time.is_empty() {
        return None;
    }
    let sum = |mut text: &str, units: &[(char, f64)]| {
        let mut total = 0.0;
        for (unit, ms) in units {
            if let Some((number, rest)) = text.split_once(*unit) {
                total += number.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0)? * ms;
                text = rest;
            }
        }
        text.is_empty().then_some(total)
    };
    let total = sum(days, &[('D', 86_400_000.0)])? + sum(time, &[('H', 3_600_000.0), ('M', 60_000.0), ('S', 1_000.0)])?;
    #[expect(clippy::cast_possible_truncation, reason = "a saturating cast of a finite number, which is long enough")]
    let total = total as Millis;
    Some(total)
}

fn seconds(ms: Millis) -> String {
    let fraction = ms % 1_000;
    if fraction == 0 { (ms / 1_000).to_string() } else { format!("{}.{fraction:03}", ms / 1_000) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_iso_8601() {
        let known = [("PT1H", 3_600_000), ("P1DT30M", 88_200_000), ("PT0.5S", 500), ("P2D", 172_800_000)];
        for (text, ms) in known {
            assert_eq!(duration_ms(text), Some(ms), "{text}");
        }
        for text in ["", "P", "PT", "1H", "PT1", "PT1X", "PT-1S", "PT1M1H", "PTinfS"] {
            assert_eq!(duration_ms(text), None, "{text}");
        }
    }

    #[test]
    fn a_value_is_read_as_it_is_set() {
        let limits = ShareGroupConfig::default();
        let mut settings = limits.defaults.clone();
        for (name, value) in [
            ("share.auto.offset.reset", "earliest"),
            ("share.auto.offset.reset", "by_duration:PT90S"),
            ("share.delivery.count.limit", "7"),
            ("share.heartbeat.interval.ms", "6000"),
            ("share.isolation.level", "read_committed"),
            ("share.partition.max.record.locks", "150"),
            ("share.record.lock.duration.ms", "15000"),
            ("share.session.timeout.ms", "50000"),
        ] {
            settings.set(&limits, name, value).unwrap();
            assert_eq!(settings.value(name), value);
        }
        for (name, value) in [
            ("share.auto.offset.reset", "none"),
            ("share.delivery.count.limit", "11"),
            ("share.isolation.level", "dirty"),
            ("share.record.lock.duration.ms", "1000"),
            ("share.session.timeout.ms", "soon"),
            ("consumer.session.timeout.ms", "45000"),
        ] {
            let error = settings.set(&limits, name, value).unwrap_err();
            assert!(error.contains(name), "{error}");
        }
        assert_eq!(limits.check(), Ok(()));
    }

    #[test]
    fn defaults_have_to_fit_their_bounds() {
        let mut config = ShareGroupConfig::default();
        assert_eq!(config.set("record.lock.duration.ms", "2000"), Ok(true));
        assert!(config.check().unwrap_err().contains("group.share.record.lock.duration.ms"));
        assert_eq!(config.set("min.record.lock.duration.ms", "1000"), Ok(true));
        assert_eq!(config.check(), Ok(()));
        assert_eq!(config.set("log.dirs", "/tmp"), Ok(false));
    }
}
