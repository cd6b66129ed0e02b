//! Configuration of groups of the consumer protocol.

use super::Assignor;

/// Broker options of groups of the consumer protocol, with Kafka's defaults except for the assignment interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerGroupConfig {
    /// `group.consumer.session.timeout.ms`. A member without a heartbeat for this time is fenced.
    pub session_timeout_ms: i32,
    /// `group.consumer.min.session.timeout.ms`: the smallest value that [`ConsumerGroupConfig::check`] accepts.
    pub min_session_timeout_ms: i32,
    /// `group.consumer.max.session.timeout.ms`: the largest value that [`ConsumerGroupConfig::check`] accepts.
    pub max_session_timeout_ms: i32,
    /// `group.consumer.heartbeat.interval.ms`, which members get in each response.
    pub heartbeat_interval_ms: i32,
    /// `group.consumer.min.heartbeat.interval.ms`: the smallest value that [`ConsumerGroupConfig::check`] accepts.
    pub min_heartbeat_interval_ms: i32,
    /// `group.consumer.max.heartbeat.interval.ms`: the largest value that [`ConsumerGroupConfig::check`] accepts.
    pub max_heartbeat_interval_ms: i32,
    /// `group.consumer.max.size`, in members.
    pub max_size: usize,
    /// `group.consumer.assignors`, the default first. At least one.
    pub assignors: Vec<Assignor>,
    /// `group.consumer.assignment.interval.ms`: smallest time between two target assignments of a group. Kafka waits for
    /// 1000 ms; the default here is 0, because tests start groups often.
    pub assignment_interval_ms: i64,
}

impl Default for ConsumerGroupConfig {
    fn default() -> Self {
        Self {
            session_timeout_ms: 45_000,
            min_session_timeout_ms: 45_000,
            max_session_timeout_ms: 60_000,
            heartbeat_interval_ms: 5_000,
            min_heartbeat_interval_ms: 5_000,
            max_heartbeat_interval_ms: 15_000,
            max_size: i32::MAX as usize,
            assignors: Assignor::ALL.to_vec(),
            assignment_interval_ms: 0,
        }
    }
}

impl ConsumerGroupConfig {
    /// Returns the assignor of groups whose members prefer none.
    #[must_use]
    pub fn default_assignor(&self) -> Assignor {
        self.assignors.first().copied().unwrap_or(Assignor::Uniform)
    }

    /// Checks that the values fit each other, as Kafka does at its start.
    ///
    /// # Errors
    /// A value is not between its bounds, or a session is not longer than the interval of the heartbeats.
    pub fn check(&self) -> Result<(), String> {
        let between = |name: &str, value: i32, min: i32, max: i32| match (min..=max).contains(&value) {
            true => Ok(()),
            false => Err(format!(
                "group.consumer.{name} is {value}, and not from {min} to {max}: change it, or group.consumer.min.{name} \
                 and group.consumer.max.{name}"
            )),
        };
        between(
            "session.timeout.ms",
            self.session_timeout_ms,
            self.min_session_timeout_ms,
            self.max_session_timeout_ms,
        )?;
        between(
            "heartbeat.interval.ms",
            self.heartbeat_interval_ms,
            self.min_heartbeat_interval_ms,
            self.max_heartbeat_interval_ms,
        )?;
        if self.heartbeat_interval_ms >= self.session_timeout_ms {
            return Err(format!(
                "group.consumer.heartbeat.interval.ms is {}, and not less than group.consumer.session.timeout.ms, {}: \
                 sessions would end between two heartbeats",
                self.heartbeat_interval_ms, self.session_timeout_ms
            ));
        }
        Ok(())
    }
}
