//! CreateTopics, CreatePartitions and the automatic creation of topics.

use std::borrow::Cow;
use std::collections::HashMap;

use grete_wire::messages::{
    CreatableTopic, CreatableTopicConfigs, CreatableTopicResult, CreatePartitionsRequest, CreatePartitionsResponse,
    CreatePartitionsTopic, CreatePartitionsTopicResult, CreateTopicsRequest, CreateTopicsResponse,
};
use grete_wire::{ErrorCode, counted, plural};

use crate::cluster::{Cluster, RequestContext};
use crate::ids::{BrokerId, TopicId};
use crate::message::Response;
use crate::topics::config::TOPIC_SETTINGS;
use crate::topics::{TopicChange, TopicConfig, check_topic_name};

/// Maximum number of partitions of a topic, so that one request cannot take all memory.
const MAX_PARTITIONS: i32 = 10_000;

type Refusal = (ErrorCode, String);

/// Topic that passed all checks.
struct PlannedTopic {
    replicas: Vec<Vec<BrokerId>>,
    config: TopicConfig,
}

impl Cluster {
    pub(in crate::cluster) fn create_topics(&mut self, context: &RequestContext, request: &CreateTopicsRequest<'_>) {
        let mut times: HashMap<&str, usize> = HashMap::new();
        for topic in &request.topics {
            *times.entry(&topic.name).or_default() += 1;
        }
        let mut topics = Vec::new();
        for topic in &request.topics {
            let result = match times.get(&*topic.name) {
                Some(2..) => Err((ErrorCode::INVALID_REQUEST, "Duplicate topic name.".to_owned())),
                _ => self.plan_topic(topic),
            };
            topics.push(match result {
                Ok(planned) => self.create_planned(&topic.name, planned, request.validate_only),
                Err((error, message)) => CreatableTopicResult {
                    name: Cow::Owned(topic.name.to_string()),
                    error_code: error.0,
                    error_message: Some(Cow::Owned(message)),
                    ..CreatableTopicResult::default()
                },
            });
        }
        self.reply(context, Response::CreateTopics(CreateTopicsResponse { topics, ..CreateTopicsResponse::default() }));
    }

    /// Creates a topic as a client's Metadata request does, with the defaults of the broker.
    pub(in crate::cluster) fn auto_create_topic(&mut self, name: &str) -> Result<(), Refusal> {
        self.create_topic(name, -1, &[])
    }

    /// Creates a topic. -1 partitions: `num.partitions`.
    ///
    /// # Errors
    /// Kafka's error code and the text for the client.
    pub fn create_topic(&mut self, name: &str, partitions: i32, configs: &[(&str, &str)]) -> Result<(), Refusal> {
        let configs = configs.iter().map(|&(name, value)| grete_wire::messages::CreatableTopicConfig {
            name: Cow::Borrowed(name),
            value: Some(Cow::Borrowed(value)),
        });
        let topic = CreatableTopic {
            name: Cow::Borrowed(name),
            num_partitions: partitions,
            replication_factor: -1,
            assignments: Vec::new(),
            configs: configs.collect(),
        };
        let planned = self.plan_topic(&topic)?;
        self.create_planned(name, planned, false);
        Ok(())
    }

    fn plan_topic(&self, topic: &CreatableTopic<'_>) -> Result<PlannedTopic, Refusal> {
        let name = &*topic.name;
        check_topic_name(name).map_err(|message| (ErrorCode::INVALID_TOPIC_EXCEPTION, message))?;
        if self.topics.get(name).is_some() {
            return Err((ErrorCode::TOPIC_ALREADY_EXISTS, format!("Topic '{name}' already exists.")));
        }
        if let Some(other) = self.topics.colliding(name) {
            let message = format!("Topic '{name}' collides with existing topic: {}", other.name);
            return Err((ErrorCode::INVALID_TOPIC_EXCEPTION, message));
        }
        let configs = topic.configs.iter().map(|config| (&*config.name, config.value.as_deref()));
        let config = TopicConfig::new(configs).map_err(|message| (ErrorCode::INVALID_CONFIG, message))?;
        let config = config.with_defaults(self.topics.defaults());
        config.check_lags().map_err(|message| (ErrorCode::INVALID_CONFIG, message))?;
        let replicas = if topic.assignments.is_empty() {
            self.plan_replicas(topic.num_partitions, topic.replication_factor)?
        } else {
            self.check_assignments(topic)?
        };
        Ok(PlannedTopic { replicas, config })
    }

    fn plan_replicas(&self, partitions: i32, replication_factor: i16) -> Result<Vec<Vec<BrokerId>>, Refusal> {
        if replication_factor == 0 || replication_factor < -1 {
            let message =
                format!("Replication factor must be larger than 0, or -1 for the default, not {replication_factor}.");
            return Err((ErrorCode::INVALID_REPLICATION_FACTOR, message));
        }
        let partitions = if partitions == -1 { self.config.num_partitions } else { partitions };
        if !(1..=MAX_PARTITIONS).contains(&partitions) {
            let message = format!(
                "Number of partitions was set to an invalid value: use 1 to {MAX_PARTITIONS}, not {partitions}."
            );
            return Err((ErrorCode::INVALID_PARTITIONS, message));
        }
        let brokers = self.config.brokers.len();
        let default =
            self.config.default_replication_factor.unwrap_or_else(|| i16::try_from(brokers.min(3)).unwrap_or(3));
        let factor = if replication_factor == -1 { default } else { replication_factor };
        match usize::try_from(factor) {
            // As in Kafka, brokers that are down count as long as they are registered.
            Ok(factor) if (1..=brokers).contains(&factor) => {
                let first = self.topics.len();
                Ok(self.assign_replicas(first, usize::try_from(partitions).unwrap_or(0), factor))
            }
            _ => Err((
                ErrorCode::INVALID_REPLICATION_FACTOR,
                format!("Unable to replicate the partition {factor} time(s): {brokers} broker(s) are registered."),
            )),
        }
    }

    fn check_assignments(&self, topic: &CreatableTopic<'_>) -> Result<Vec<Vec<BrokerId>>, Refusal> {
        let refused = |message: &str| Err((ErrorCode::INVALID_REPLICA_ASSIGNMENT, message.to_owned()));
        if topic.num_partitions != -1 || topic.replication_factor != -1 {
            let message = "A manual partition assignment was specified, but numPartitions or replicationFactor was not set to -1.";
            return Err((ErrorCode::INVALID_REQUEST, message.to_owned()));
        }
        let mut replicas = vec![Vec::new(); topic.assignments.len()];
        for assignment in &topic.assignments {
            let place = usize::try_from(assignment.partition_index).ok().and_then(|index| replicas.get_mut(index));
            let Some(place) = place else {
                return refused("Partitions must be a consecutive 0-based integer sequence.");
            };
            if !place.is_empty() {
                return refused("A partition is assigned twice.");
            }
            self.check_replicas(&assignment.broker_ids)?;
            place.clone_from(&assignment.broker_ids);
        }
        let counts: Vec<usize> = replicas.iter().map(Vec::len).collect();
        match counts.windows(2).all(|pair| pair.first() == pair.last()) {
            true => Ok(replicas),
            false => refused("All partitions must have the same number of replicas."),
        }
    }

    fn check_replicas(&self, replicas: &[BrokerId]) -> Result<(), Refusal> {
        let refused = |message: String| Err((ErrorCode::INVALID_REPLICA_ASSIGNMENT, message));
        if replicas.is_empty() {
            return refused("The manual partition assignment includes an empty replica list.".to_owned());
        }
        for (place, id) in replicas.iter().enumerate() {
            if replicas.iter().take(place).any(|earlier| earlier == id) {
                return refused(format!("The manual partition assignment includes the broker {id} more than once."));
            }
            if !self.config.brokers.iter().any(|broker| broker.id == *id) {
                return refused(format!(
                    "The manual partition assignment includes broker {id}, but no such broker is registered."
                ));
            }
        }
        Ok(())
    }

    fn create_planned(
        &mut self,
        name: &str,
        planned: PlannedTopic,
        validate_only: bool,
    ) -> CreatableTopicResult<'static> {
        let id: TopicId = self.rng.uuid();
        let PlannedTopic { replicas, config } = planned;
        let result = CreatableTopicResult {
            name: Cow::Owned(name.to_owned()),
            topic_id: id,
            error_message: None,
            num_partitions: i32::try_from(replicas.len()).unwrap_or(i32::MAX),
            replication_factor: replicas.first().map_or(-1, |first| i16::try_from(first.len()).unwrap_or(-1)),
            configs: Some(described_configs(&config)),
            ..CreatableTopicResult::default()
        };
        if !validate_only {
            let overrides = config.overrides().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            self.change_topics(TopicChange::Created { name: name.into(), id, replicas, overrides });
            self.elect_all();
            if self.next_retention_check == i64::MIN {
                self.next_retention_check = self.now.saturating_add(self.config.retention_check_interval_ms);
            }
        }
        result
    }

    pub(in crate::cluster) fn create_partitions(
        &mut self,
        context: &RequestContext,
        request: &CreatePartitionsRequest<'_>,
    ) {
        let mut results = Vec::new();
        for topic in &request.topics {
            let result = self.add_partitions(topic, request.validate_only);
            let (error, message) = match result {
                Ok(()) => (ErrorCode::NONE, None),
                Err((error, message)) => (error, Some(Cow::Owned(message))),
            };
            results.push(CreatePartitionsTopicResult {
                name: Cow::Owned(topic.name.to_string()),
                error_code: error.0,
                error_message: message,
            });
        }
        let response = CreatePartitionsResponse { results, ..CreatePartitionsResponse::default() };
        self.reply(context, Response::CreatePartitions(response));
    }

    fn add_partitions(&mut self, topic: &CreatePartitionsTopic<'_>, validate_only: bool) -> Result<(), Refusal> {
        // Kafka gives no text here.
        let unknown = || (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, String::new());
        let found = self.topics.get(&topic.name).ok_or_else(unknown)?;
        let (id, old) = (found.id, i32::try_from(found.partitions.len()).unwrap_or(i32::MAX));
        let factor = found.partitions.first().map_or(1, |partition| partition.replicas.len());
        if topic.count <= old || topic.count > MAX_PARTITIONS {
            let (name, count) = (&topic.name, topic.count);
            let message = match count == old {
                true => format!("Topic already has {old} partition(s)."),
                false if count > MAX_PARTITIONS => format!("A topic has at most {MAX_PARTITIONS} partitions here."),
                false => {
                    format!("The topic {name} currently has {old} partition(s); {count} would not be an increase.")
                }
            };
            return Err((ErrorCode::INVALID_PARTITIONS, message));
        }
        let added = usize::try_from(topic.count - old).unwrap_or(0);
        let replicas = match &topic.assignments {
            None => self.assign_replicas(usize::try_from(old).unwrap_or(0), added, factor),
            Some(assignments) if assignments.len() == added => {
                assignments.iter().try_for_each(|assignment| self.check_replicas(&assignment.broker_ids))?;
                assignments.iter().map(|assignment| assignment.broker_ids.clone()).collect()
            }
            Some(assignments) => {
                let given = assignments.len();
                let message = format!(
                    "{} {} added, but {} {} given.",
                    counted(added, "partition"),
                    plural(added, "is", "are"),
                    counted(given, "assignment"),
                    plural(given, "is", "are")
                );
                return Err((ErrorCode::INVALID_REPLICA_ASSIGNMENT, message));
            }
        };
        if !validate_only {
            self.change_topics(TopicChange::PartitionsAdded { id, replicas });
            self.elect_all();
        }
        Ok(())
    }
}

fn described_configs(config: &TopicConfig) -> Vec<CreatableTopicConfigs<'static>> {
    let described = |setting: &crate::topics::config::TopicSetting| CreatableTopicConfigs {
        name: Cow::Borrowed(setting.name),
        value: Some(Cow::Owned(config.given(setting.name).to_owned())),
        read_only: false,
        config_source: super::configs::source_of(config, setting.name),
        is_sensitive: false,
    };
    TOPIC_SETTINGS.iter().map(described).collect()
}
