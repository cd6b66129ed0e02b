//! Settings of a cluster.

use std::sync::Arc;

use super::release::Release;
use crate::acl::AclConfig;
use crate::group::config::{Assignor, ConsumerGroupConfig, GroupConfig};
use crate::ids::{BrokerId, Millis};
use crate::sasl::{MECHANISMS, SaslConfig};
use crate::share::config::ShareGroupConfig;
use crate::topics::TopicConfig;
use crate::topics::config::TOPIC_SETTINGS;

/// Kafka's authorizer, whose decisions these brokers make, too.
const STANDARD_AUTHORIZER: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";

/// Kafka's selector of read replicas by racks.
const RACK_AWARE_SELECTOR: &str = "org.apache.kafka.common.replica.RackAwareReplicaSelector";

/// First part of the names of settings of share groups.
const SHARE_PREFIX: &str = "group.share.";

/// Address of a virtual broker, as clients get it in Metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerAddress {
    /// `node.id`, unique in the cluster.
    pub id: BrokerId,
    /// Advertised host.
    pub host: Arc<str>,
    /// Advertised port.
    pub port: u16,
    /// `broker.rack`; `None`: no rack.
    pub rack: Option<Arc<str>>,
}

/// Settings of a cluster. The names are those of Kafka's broker settings where there is one.
#[derive(Debug, Clone)]
pub struct ClusterConfig {
    /// Virtual brokers, at least one. The first is the controller while it is up.
    pub brokers: Vec<BrokerAddress>,
    /// Whether leaders name a follower in the consumer's rack to read from (`replica.selector.class`, KIP-392).
    pub rack_aware_reads: bool,
    /// `cluster.id`; `None`: derived from the seed.
    pub cluster_id: Option<Arc<str>>,
    /// Seed of all ids: topic ids, member ids, session ids.
    pub seed: u64,
    /// Kafka release whose API versions the brokers offer.
    pub release: Release,
    /// `auto.create.topics.enable`.
    pub auto_create_topics: bool,
    /// `num.partitions`.
    pub num_partitions: i32,
    /// `default.replication.factor`. `None`: the number of brokers, 3 at most.
    pub default_replication_factor: Option<i16>,
    /// `min.insync.replicas` of topics that do not set it.
    pub min_insync_replicas: i32,
    /// Maximum bytes of record batches in all partitions. Produce requests beyond it fail with KAFKA_STORAGE_ERROR.
    pub max_bytes: usize,
    /// `group.initial.rebalance.delay.ms`. Kafka's default is 3,000; 0 starts tests at once.
    pub group_initial_rebalance_delay_ms: i64,
    /// `group.min.session.timeout.ms`.
    pub group_min_session_timeout_ms: i64,
    /// Settings of groups of the consumer protocol, `group.consumer.*`.
    pub consumer_groups: ConsumerGroupConfig,
    /// Settings of share groups, `group.share.*`.
    pub share_groups: ShareGroupConfig,
    /// `connections.max.idle.ms`: time after which a connection without a request is closed. Negative: never.
    pub connections_max_idle_ms: Millis,
    /// `broker.session.timeout.ms`: time after which a broker that hangs loses its partitions.
    pub broker_session_timeout_ms: Millis,
    /// Defaults of topics that differ from Kafka's, such as `message.max.bytes`.
    pub topic_defaults: TopicConfig,
    /// `log.retention.check.interval.ms`.
    pub retention_check_interval_ms: i64,
    /// `log.cleaner.backoff.ms`: time between two looks for logs to compact.
    pub log_cleaner_backoff_ms: i64,
    /// Maximum entries of the request log; older entries are dropped.
    pub max_logged_requests: usize,
    /// Users and mechanisms; `None`: clients do not log in.
    pub sasl: Option<SaslConfig>,
    /// Authorizer; `None`: everyone may do everything.
    pub acls: Option<AclConfig>,
}

impl ClusterConfig {
    /// Creates the settings of a cluster on these addresses, with the defaults of a development broker.
    #[must_use]
    pub fn new(brokers: Vec<BrokerAddress>) -> Self {
        Self {
            brokers,
            rack_aware_reads: false,
            cluster_id: None,
            seed: 0,
            release: Release::LATEST,
            auto_create_topics: true,
            num_partitions: 1,
            default_replication_factor: None,
            min_insync_replicas: 1,
            max_bytes: 1 << 30,
            group_initial_rebalance_delay_ms: 0,
            group_min_session_timeout_ms: GroupConfig::default().min_session_timeout_ms,
            consumer_groups: ConsumerGroupConfig::default(),
            share_groups: ShareGroupConfig::default(),
            connections_max_idle_ms: 600_000,
            broker_session_timeout_ms: 9_000,
            topic_defaults: TopicConfig::default(),
            retention_check_interval_ms: 300_000,
            log_cleaner_backoff_ms: 15_000,
            max_logged_requests: 10_000,
            sasl: None,
            acls: None,
        }
    }

    /// Sets a broker setting by Kafka's name.
    ///
    /// # Errors
    /// The brokers do not have the setting, or the value is invalid.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        fn parsed<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, String> {
            value.parse().map_err(|_| format!("{name} cannot be {value:?}: give a number or a word as Kafka does"))
        }
        let groups = &mut self.consumer_groups;
        match name {
            "group.consumer.session.timeout.ms" => groups.session_timeout_ms = parsed(name, value)?,
            "group.consumer.min.session.timeout.ms" => groups.min_session_timeout_ms = parsed(name, value)?,
            "group.consumer.max.session.timeout.ms" => groups.max_session_timeout_ms = parsed(name, value)?,
            "group.consumer.heartbeat.interval.ms" => groups.heartbeat_interval_ms = parsed(name, value)?,
            "group.consumer.min.heartbeat.interval.ms" => groups.min_heartbeat_interval_ms = parsed(name, value)?,
            "group.consumer.max.heartbeat.interval.ms" => groups.max_heartbeat_interval_ms = parsed(name, value)?,
            "group.consumer.max.size" => groups.max_size = parsed::<std::num::NonZeroU32>(name, value)?.get() as usize,
            "group.consumer.assignment.interval.ms" => groups.assignment_interval_ms = parsed(name, value)?,
            "group.consumer.migration.policy" if value.eq_ignore_ascii_case("disabled") => {}
            "group.consumer.migration.policy" => {
                return Err(format!("{name} cannot be {value:?}: these brokers convert no live groups (disabled)"));
            }
            "group.consumer.assignors" => {
                let known = value.split(',').map(|name| Assignor::from_name(name.trim())).collect::<Option<_>>();
                groups.assignors = known.ok_or_else(|| {
                    let names = Assignor::ALL.map(Assignor::name).join(", ");
                    format!("{name} cannot be {value:?}: the brokers have {names}")
                })?;
            }
            "auto.create.topics.enable" => self.auto_create_topics = parsed(name, value)?,
            "num.partitions" => self.num_partitions = parsed(name, value)?,
            "default.replication.factor" => self.default_replication_factor = Some(parsed(name, value)?),
            "min.insync.replicas" => self.min_insync_replicas = parsed(name, value)?,
            "group.initial.rebalance.delay.ms" => self.group_initial_rebalance_delay_ms = parsed(name, value)?,
            "group.min.session.timeout.ms" => self.group_min_session_timeout_ms = parsed(name, value)?,
            "connections.max.idle.ms" => self.connections_max_idle_ms = parsed(name, value)?,
            "broker.session.timeout.ms" => self.broker_session_timeout_ms = parsed(name, value)?,
            "log.retention.check.interval.ms" => self.retention_check_interval_ms = parsed(name, value)?,
            "log.cleaner.backoff.ms" => self.log_cleaner_backoff_ms = parsed(name, value)?,
            "super.users" => {
                let users =
                    value.split(';').map(str::trim).filter(|user| !user.is_empty()).map(str::to_owned).collect();
                self.acls.get_or_insert_default().super_users = users;
            }
            "allow.everyone.if.no.acl.found" => {
                self.acls.get_or_insert_default().allow_everyone_if_no_acl_found = parsed(name, value)?;
            }
            "authorizer.class.name" => match value {
                STANDARD_AUTHORIZER => drop(self.acls.get_or_insert_default()),
                "" => self.acls = None,
                _ => return Err(format!("{name} cannot be {value:?}: these brokers have {STANDARD_AUTHORIZER}")),
            },
            "replica.selector.class" => match value {
                RACK_AWARE_SELECTOR => self.rack_aware_reads = true,
                "" => self.rack_aware_reads = false,
                _ => return Err(format!("{name} cannot be {value:?}: these brokers have {RACK_AWARE_SELECTOR}")),
            },
            "connections.max.reauth.ms" => self.sasl(name)?.max_reauth_ms = parsed(name, value)?,
            "sasl.enabled.mechanisms" => {
                let known = |wanted: &str| MECHANISMS.into_iter().find(|known| *known == wanted.trim());
                let unknown = || format!("{name} cannot be {value:?}: the brokers have {}", MECHANISMS.join(", "));
                self.sasl(name)?.mechanisms = value.split(',').map(known).collect::<Option<_>>().ok_or_else(unknown)?;
            }
            _ if name.starts_with(SHARE_PREFIX) => {
                let short = name.strip_prefix(SHARE_PREFIX).unwrap_or_default();
                if !self.share_groups.set(short, value)? {
                    return Err(format!("these brokers do not have the setting {name}"));
                }
            }
            // The states of share groups are no topic here.
            _ if name.starts_with("share.coordinator.") => {}
            _ => {
                let setting = TOPIC_SETTINGS.iter().find(|setting| setting.broker_name == name);
                let setting = setting.ok_or_else(|| format!("these brokers do not have the setting {name}"))?;
                self.topic_defaults.set(setting.name, value)?;
            }
        }
        Ok(())
    }
}

impl ClusterConfig {
    fn sasl(&mut self, name: &str) -> Result<&mut SaslConfig, String> {
        self.sasl.as_mut().ok_or_else(|| format!("{name} needs users: give at least one (sasl, --sasl USER:PASSWORD)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_the_names_of_kafka() {
        let mut config = ClusterConfig::new(Vec::new());
        config.set("num.partitions", "4").unwrap();
        config.set("group.min.session.timeout.ms", "500").unwrap();
        config.set("message.max.bytes", "2000").unwrap();
        assert_eq!((config.num_partitions, config.group_min_session_timeout_ms), (4, 500));
        assert_eq!(config.topic_defaults.value("max.message.bytes"), "2000");
        assert!(config.set("num.partitions", "many").unwrap_err().contains("num.partitions"));
        assert!(config.set("message.max.bytes", "-1").is_err());
        config.set("group.consumer.max.size", "2").unwrap();
        config.set("group.consumer.migration.policy", "DISABLED").unwrap();
        assert!(config.set("group.consumer.migration.policy", "upgrade").unwrap_err().contains("no live groups"));
        config.set("group.consumer.assignors", "range, uniform").unwrap();
        assert_eq!(config.consumer_groups.default_assignor(), Assignor::Range);
        assert!(config.set("group.consumer.assignors", "sticky").unwrap_err().contains("uniform, range"));
        assert_eq!(config.consumer_groups.check(), Ok(()));
        config.set("group.consumer.session.timeout.ms", "4000").unwrap();
        let error = config.consumer_groups.check().unwrap_err();
        assert!(error.contains("group.consumer.min.session.timeout.ms"), "{error}");
        config.set("group.consumer.min.session.timeout.ms", "1000").unwrap();
        let error = config.consumer_groups.check().unwrap_err();
        assert!(error.contains("between two heartbeats"), "{error}");
        config.set("replica.selector.class", "org.apache.kafka.common.replica.RackAwareReplicaSelector").unwrap();
        assert!(config.rack_aware_reads);
        assert!(config.set("replica.selector.class", "Mine").unwrap_err().contains("RackAwareReplicaSelector"));
        config.set("group.share.delivery.count.limit", "3").unwrap();
        assert_eq!(config.share_groups.defaults.delivery_count_limit, 3);
        assert!(config.set("group.share.colour", "3").unwrap_err().contains("group.share.colour"));
        assert!(config.set("log.dirs", "/tmp").unwrap_err().contains("log.dirs"));
    }
}
