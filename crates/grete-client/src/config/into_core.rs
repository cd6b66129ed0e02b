//! Conversion of settings to the configurations of the sans-IO cores.

use std::sync::Arc;
use std::time::Duration;

use grete_proto::admin::{AdminCoreConfig, OperationsConfig};
use grete_proto::cluster::ClusterConfig;
use grete_proto::consumer::ConsumerCoreConfig;
use grete_proto::fetch::FetchConfig;
use grete_proto::group::{Assignor, GroupConfig, GroupConfigError, GroupProtocol};
use grete_proto::position::{PositionConfig, ResetPolicy};
use grete_proto::producer::ProduceConfig;
use grete_proto::producer::ProducerCoreConfig;
use grete_proto::share::ShareConfig;
use grete_proto::time::Nanos;
use grete_wire::records::Compression;

use super::{Acks, AdminConfig, ConfigError, ConsumerConfig, OffsetReset, ProducerConfig, Settings, invalid};

fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}

impl Settings {
    /// Returns the cluster configuration, which every client needs.
    pub(crate) fn to_cluster(&self) -> ClusterConfig {
        let ms = |name: &str| nanos(self.millis(name));
        ClusterConfig {
            bootstrap: self.bootstrap().to_vec(),
            client_id: self.client_id().into(),
            request_timeout: ms("request.timeout.ms"),
            reconnect_backoff: ms("reconnect.backoff.ms"),
            reconnect_backoff_max: ms("reconnect.backoff.max.ms"),
            retry_backoff: ms("retry.backoff.ms"),
            retry_backoff_max: ms("retry.backoff.max.ms"),
            metadata_max_age: ms("metadata.max.age.ms"),
            connections_max_idle: ms("connections.max.idle.ms"),
            socket_connection_setup_timeout: ms("socket.connection.setup.timeout.ms"),
            socket_connection_setup_timeout_max: ms("socket.connection.setup.timeout.max.ms"),
            allow_auto_create_topics: self.flag("allow.auto.create.topics"),
            sasl: self.security().sasl.as_ref().map(|sasl| Arc::new(sasl.to_core())),
            ..ClusterConfig::default()
        }
    }
}

impl AdminConfig {
    /// Returns the core configuration of an admin client.
    pub(crate) fn to_core(&self) -> AdminCoreConfig {
        let ms = |name: &str| nanos(self.millis(name));
        AdminCoreConfig {
            cluster: self.to_cluster(),
            operations: OperationsConfig {
                request_timeout: ms("request.timeout.ms"),
                retry_backoff: ms("retry.backoff.ms"),
                retry_backoff_max: ms("retry.backoff.max.ms"),
            },
        }
    }
}

impl ConsumerConfig {
    /// Returns the core configuration of a consumer. `commits`: offsets are committed periodically.
    ///
    /// # Errors
    /// Fails if settings contradict each other.
    pub(crate) fn to_core(&self, commits: bool) -> Result<ConsumerCoreConfig, ConfigError> {
        let ms = |name: &str| nanos(self.millis(name));
        let int = |name: &str| i32::try_from(self.number(name)).unwrap_or(i32::MAX);
        let request_timeout = ms("request.timeout.ms");
        let (retry_backoff, retry_backoff_max) = (ms("retry.backoff.ms"), ms("retry.backoff.max.ms"));
        let group = self.group_id().map(|group_id| GroupConfig {
            instance_id: self.instance_id().map(Into::into),
            protocol: self.group_protocol(),
            classic_setting: self.classic_setting(),
            remote_assignor: self.remote_assignor().map(Into::into),
            member_ids: self.member_ids().cloned(),
            rack: self.rack().map(Into::into),
            session_timeout: ms("session.timeout.ms"),
            heartbeat_interval: ms("heartbeat.interval.ms"),
            max_poll_interval: ms("max.poll.interval.ms"),
            assignors: self.assignors().filter_map(Assignor::by_name).collect(),
            request_timeout,
            retry_backoff,
            retry_backoff_max,
            commit_timeout: ms("default.api.timeout.ms"),
            ..GroupConfig::new(group_id)
        });
        if let Some(group) = &group {
            group.check().map_err(|error| {
                let setting = match error {
                    GroupConfigError::InstanceId { .. } => "group.instance.id",
                    _ => "group.id",
                };
                invalid(setting, error.to_string())
            })?;
        }
        Ok(ConsumerCoreConfig {
            cluster: self.to_cluster(),
            fetch: FetchConfig {
                max_wait_ms: int("fetch.max.wait.ms"),
                min_bytes: int("fetch.min.bytes"),
                max_bytes: int("fetch.max.bytes"),
                partition_bytes: int("max.partition.fetch.bytes"),
                read_committed: self.read_committed(),
                queued_bytes: usize::try_from(self.number("queued_bytes")).unwrap_or(usize::MAX),
                request_timeout,
                retry_backoff,
                retry_backoff_max,
                rack: self.rack().unwrap_or_default().into(),
                read_replica_max_age: ms("metadata.max.age.ms"),
                ..FetchConfig::default()
            },
            position: PositionConfig {
                reset: match self.offset_reset() {
                    OffsetReset::Earliest => ResetPolicy::Earliest,
                    OffsetReset::Latest => ResetPolicy::Latest,
                    OffsetReset::None => ResetPolicy::None,
                },
                read_committed: self.read_committed(),
                request_timeout,
                retry_backoff,
                retry_backoff_max,
                ..PositionConfig::default()
            },
            auto_commit: commits.then(|| ms("auto.commit.interval.ms")),
            transactional: false,
            group,
            share: None,
            partition_recovery: None,
        })
    }

    /// Returns the core configuration of a member of a share group, which processes `concurrency` records at once.
    ///
    /// # Errors
    /// Fails without `group.id`, or if settings contradict each other.
    pub(crate) fn to_share_core(&self, concurrency: usize) -> Result<ConsumerCoreConfig, ConfigError> {
        let mut core = self.to_core(false)?;
        let Some(group) = &mut core.group else {
            return Err(invalid("group.id", "a queue needs group.id: its members share the records".to_owned()));
        };
        // Members of share groups have neither places to come back to nor another protocol.
        (group.protocol, group.instance_id, group.classic_setting) = (GroupProtocol::Share, None, None);
        core.share = Some(ShareConfig {
            concurrency,
            max_wait: nanos(self.millis("fetch.max.wait.ms")),
            min_bytes: core.fetch.min_bytes,
            max_bytes: core.fetch.max_bytes,
            queued_bytes: core.fetch.queued_bytes,
            request_timeout: core.fetch.request_timeout,
            retry_backoff: core.fetch.retry_backoff,
            retry_backoff_max: core.fetch.retry_backoff_max,
            ..ShareConfig::new(Arc::clone(&group.group_id))
        });
        Ok(core)
    }
}

impl ProducerConfig {
    /// Returns the core configuration of a producer.
    pub(crate) fn to_core(&self) -> ProducerCoreConfig {
        let ms = |name: &str| nanos(self.millis(name));
        let size = |name: &str| usize::try_from(self.number(name)).unwrap_or(usize::MAX);
        ProducerCoreConfig {
            cluster: self.to_cluster(),
            produce: ProduceConfig {
                acks: match self.acks() {
                    Acks::None => 0,
                    Acks::Leader => 1,
                    Acks::All => -1,
                },
                idempotent: self.idempotent(),
                linger: ms("linger.ms"),
                batch_size: size("batch.size"),
                buffer_memory: size("buffer.memory"),
                max_request_size: size("max.request.size"),
                compression: match self.compression() {
                    "gzip" => Compression::Gzip,
                    "snappy" => Compression::Snappy,
                    "lz4" => Compression::Lz4,
                    "zstd" => Compression::Zstd,
                    _ => Compression::None,
                },
                compression_level: self.compression_level(),
                delivery_timeout: nanos(self.delivery_timeout()),
                max_block: nanos(self.millis("max.block.ms")),
                metadata_propagation: (!self.flag("allow.auto.create.topics"))
                    .then(|| ms("topic.metadata.propagation.max.ms")),
                request_timeout: ms("request.timeout.ms"),
                max_in_flight: size("max.in.flight.requests.per.connection"),
                principal: self.principal(),
                transactional_id: self.transactional_id().map(Into::into),
                transaction_timeout: ms("transaction.timeout.ms"),
                retry_backoff: ms("retry.backoff.ms"),
                retry_backoff_max: ms("retry.backoff.max.ms"),
            },
        }
    }
}
