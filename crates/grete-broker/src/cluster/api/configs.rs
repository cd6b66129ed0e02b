//! DescribeConfigs and IncrementalAlterConfigs.

use std::borrow::Cow;

use grete_wire::ErrorCode;
use grete_wire::messages::{
    AlterConfigsRequest, AlterConfigsRequestAlterConfigsResource as ReplaceResource, AlterConfigsResponse,
    AlterConfigsResponseAlterConfigsResourceResponse as ReplacedResource, DescribeConfigsRequest,
    DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResponse, DescribeConfigsResult,
    DescribeConfigsSynonym, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterConfigsResource as AlterConfigsResource,
    IncrementalAlterConfigsRequestAlterableConfig as IncrementalConfig, IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse as AlterConfigsResourceResponse,
};

use crate::cluster::{Cluster, RequestContext};
use crate::ids::TopicId;
use crate::message::{Request, Response};
use crate::share::config::GROUP_SETTINGS;
use crate::topics::config::{ConfigType, TOPIC_SETTINGS, TopicSetting, topic_setting};
use crate::topics::{Topic, TopicChange, TopicConfig, check_topic_name};

/// Types of a resource.
const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const GROUP: i8 = 32;

/// Sources of a value.
const DYNAMIC_TOPIC_CONFIG: i8 = 1;
const DYNAMIC_DEFAULT_BROKER_CONFIG: i8 = 3;
const STATIC_BROKER_CONFIG: i8 = 4;
const DEFAULT_CONFIG: i8 = 5;
const GROUP_CONFIG: i8 = 8;

/// A cluster with eligible leader replicas (KIP-966) has a dynamic default of this setting from its first start on.
const MIN_INSYNC_REPLICAS: &str = "min.insync.replicas";

/// Settings whose default is no value of a single setting of the broker.
const WITHOUT_SYNONYMS: &[&str] = &[
    "flush.ms",
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
    "retention.ms",
    "segment.jitter.ms",
    "segment.ms",
];

/// Operations on a setting.
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

type Refusal = (ErrorCode, String);

/// Returns where the value of a topic's setting comes from.
pub(super) fn source_of(config: &TopicConfig, name: &str) -> i8 {
    match (config.overridden(name), config.broker_default(name)) {
        (Some(_), _) => DYNAMIC_TOPIC_CONFIG,
        (None, Some(_)) => STATIC_BROKER_CONFIG,
        (None, None) if name == MIN_INSYNC_REPLICAS => DYNAMIC_DEFAULT_BROKER_CONFIG,
        (None, None) => DEFAULT_CONFIG,
    }
}

impl Cluster {
    pub(in crate::cluster) fn describe_configs(
        &mut self,
        context: &RequestContext,
        request: &DescribeConfigsRequest<'_>,
    ) {
        let describe = |resource: &DescribeConfigsResource<'_>| {
            let (error, message, configs) = match self.described_resource(resource, request.include_synonyms) {
                Ok(configs) => (ErrorCode::NONE, None, configs),
                Err((error, message)) => (error, Some(Cow::Owned(message)), Vec::new()),
            };
            DescribeConfigsResult {
                error_code: error.0,
                error_message: message,
                resource_type: resource.resource_type,
                resource_name: Cow::Owned(resource.resource_name.to_string()),
                configs,
            }
        };
        if request.resources.iter().any(|resource| ![TOPIC, BROKER, GROUP].contains(&resource.resource_type)) {
            let request = Request::DescribeConfigs(request.clone());
            return self.refuse(context, &request, ErrorCode::INVALID_REQUEST);
        }
        let results = request.resources.iter().map(describe).collect();
        let response = DescribeConfigsResponse { results, ..DescribeConfigsResponse::default() };
        self.reply(context, Response::DescribeConfigs(response));
    }

    fn described_resource(
        &self,
        resource: &DescribeConfigsResource<'_>,
        with_synonyms: bool,
    ) -> Result<Vec<DescribeConfigsResourceResult<'static>>, Refusal> {
        let is_wanted = |name: &str| {
            let keys = resource.configuration_keys.as_ref();
            keys.is_none_or(|keys| keys.is_empty() || keys.iter().any(|key| key == name))
        };
        let name = &*resource.resource_name;
        match resource.resource_type {
            TOPIC => {
                check_topic_name(name).map_err(|message| (ErrorCode::INVALID_TOPIC_EXCEPTION, message))?;
                let topic = self.topics.get(name).ok_or_else(|| {
                    // Kafka gives no text here.
                    (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, String::new())
                })?;
                let wanted = TOPIC_SETTINGS.iter().filter(|setting| is_wanted(setting.name));
                Ok(wanted.map(|setting| described_topic_setting(&topic.config, setting, with_synonyms)).collect())
            }
            BROKER => {
                let is_known = name.is_empty() || name.parse().is_ok_and(|id| self.live_broker(id).is_some());
                if !is_known {
                    return Err((
                        ErrorCode::INVALID_REQUEST,
                        format!("Unexpected broker id {name}: no such broker is up."),
                    ));
                }
                let settings = if name.is_empty() { Vec::new() } else { self.broker_settings(name) };
                Ok(settings.into_iter().filter(|setting| is_wanted(&setting.name)).collect())
            }
            GROUP => self.described_group(name, &is_wanted),
            other => Err((ErrorCode::INVALID_REQUEST, format!("Unsupported resource type: {other}"))),
        }
    }

    fn described_group(
        &self,
        group: &str,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<DescribeConfigsResourceResult<'static>>, Refusal> {
        check_group_id(group)?;
        let (settings, overrides) = (self.share.settings(group), self.share.overrides(group));
        let wanted = GROUP_SETTINGS.into_iter().filter(|(name, _)| is_wanted(name));
        let described = wanted.map(|(name, kind)| {
            let source = if overrides.contains_key(name) { GROUP_CONFIG } else { DEFAULT_CONFIG };
            described(name, settings.value(name), source, kind, false)
        });
        Ok(described.collect())
    }

    /// Changes settings of a group. The group does not have to exist.
    fn alter_group(&mut self, resource: &AlterConfigsResource<'_>, validate_only: bool) -> Result<(), Refusal> {
        let group = &*resource.resource_name;
        check_group_id(group)?;
        let mut overrides = self.share.overrides(group);
        for entry in &resource.configs {
            match (entry.config_operation, &entry.value) {
                (DELETE, _) => drop(overrides.remove(&*entry.name)),
                (SET, Some(value)) => drop(overrides.insert(entry.name.to_string(), value.to_string())),
                (SET, None) => {
                    let message = format!("Null value not supported for : {}", entry.name);
                    return Err((ErrorCode::INVALID_REQUEST, message));
                }
                _ => check_is_list(&entry.name)?,
            }
        }
        let mut settings = self.share.config().defaults.clone();
        for (name, value) in &overrides {
            let set = settings.set(self.share.config(), name, value);
            set.map_err(|message| (ErrorCode::INVALID_CONFIG, message))?;
        }
        if !validate_only {
            self.share.configure(group, overrides, &mut self.effects);
        }
        Ok(())
    }

    fn broker_settings(&self, id: &str) -> Vec<DescribeConfigsResourceResult<'static>> {
        let config = &self.config;
        let factor =
            config.default_replication_factor.map_or(config.brokers.len().min(3).to_string(), |n| n.to_string());
        let own = [
            ("node.id", id.to_owned(), 3),
            ("broker.id", id.to_owned(), 3),
            ("auto.create.topics.enable", config.auto_create_topics.to_string(), 1),
            ("num.partitions", config.num_partitions.to_string(), 3),
            ("default.replication.factor", factor, 3),
            ("group.initial.rebalance.delay.ms", config.group_initial_rebalance_delay_ms.to_string(), 3),
            ("connections.max.idle.ms", config.connections_max_idle_ms.to_string(), 5),
            ("log.retention.check.interval.ms", config.retention_check_interval_ms.to_string(), 5),
        ];
        let own = own.into_iter().map(|(name, value, kind)| described(name, value, STATIC_BROKER_CONFIG, kind, true));
        let topics =
            TOPIC_SETTINGS.iter().filter(|setting| setting.broker_name != MIN_INSYNC_REPLICAS).map(|setting| {
                let defaults = self.topics.defaults();
                let (value, source) = (defaults.value(setting.name).to_owned(), source_of(defaults, setting.name));
                described(setting.broker_name, value, source, setting.kind.id(), true)
            });
        let isr = config.min_insync_replicas.to_string();
        own.chain(topics).chain([described(MIN_INSYNC_REPLICAS, isr, STATIC_BROKER_CONFIG, 3, true)]).collect()
    }

    pub(in crate::cluster) fn incremental_alter_configs(
        &mut self,
        context: &RequestContext,
        request: &IncrementalAlterConfigsRequest<'_>,
    ) {
        let mut operations = request.resources.iter().flat_map(|resource| &resource.configs);
        if operations.any(|config| !(SET..=SUBTRACT).contains(&config.config_operation)) {
            let request = Request::IncrementalAlterConfigs(request.clone());
            return self.refuse(context, &request, ErrorCode::UNKNOWN_SERVER_ERROR);
        }
        let mut responses = Vec::new();
        for resource in &request.resources {
            let (error, message) = match self.alter_resource(resource, request.validate_only) {
                Ok(()) => (ErrorCode::NONE, None),
                Err((error, message)) => (error, Some(Cow::Owned(message))),
            };
            responses.push(AlterConfigsResourceResponse {
                error_code: error.0,
                error_message: message,
                resource_type: resource.resource_type,
                resource_name: Cow::Owned(resource.resource_name.to_string()),
            });
        }
        let response = IncrementalAlterConfigsResponse { responses, ..IncrementalAlterConfigsResponse::default() };
        self.reply(context, Response::IncrementalAlterConfigs(response));
    }

    fn alter_resource(&mut self, resource: &AlterConfigsResource<'_>, validate_only: bool) -> Result<(), Refusal> {
        if resource.resource_type == GROUP {
            return self.alter_group(resource, validate_only);
        }
        check_is_topic(resource.resource_type)?;
        let is_null = |config: &&IncrementalConfig<'_>| config.config_operation != DELETE && config.value.is_none();
        if let Some(config) = resource.configs.iter().find(is_null) {
            return Err((ErrorCode::INVALID_REQUEST, format!("Null value not supported for : {}", config.name)));
        }
        let mut lists = resource.configs.iter().filter(|config| [APPEND, SUBTRACT].contains(&config.config_operation));
        lists.try_for_each(|config| check_is_list(&config.name))?;
        check_resource_name(&resource.resource_name)?;
        // The values are checked before the topic.
        let topic = self.topics.get(&resource.resource_name);
        let defaults = self.topics.defaults();
        let mut config = topic.map_or_else(TopicConfig::default, |topic| topic.config.clone()).with_defaults(defaults);
        let invalid = |message: String| (ErrorCode::INVALID_CONFIG, message);
        for entry in &resource.configs {
            let (name, value) = (&*entry.name, entry.value.as_deref());
            match (entry.config_operation, value) {
                (DELETE, _) => config.reset(name),
                (SET, Some(value)) => config.set(name, value).map_err(invalid)?,
                (APPEND | SUBTRACT, Some(value)) => {
                    let list = changed_list(&config, name, value, entry.config_operation == APPEND);
                    config.set(name, &list).map_err(invalid)?;
                }
                (SET | APPEND | SUBTRACT, None) => {
                    let message = format!("Null value not supported for : {name}");
                    return Err((ErrorCode::INVALID_REQUEST, message));
                }
                (other, _) => return Err((ErrorCode::INVALID_REQUEST, format!("Unknown operation type {other}"))),
            }
        }
        config.check_lags().map_err(invalid)?;
        let id = self.configurable_topic(&resource.resource_name)?.id;
        self.configure(id, &config, validate_only);
        Ok(())
    }
}

impl Cluster {
    /// Handles AlterConfigs, which replaces all settings of a topic.
    pub(in crate::cluster) fn alter_configs(&mut self, context: &RequestContext, request: &AlterConfigsRequest<'_>) {
        let mut responses = Vec::new();
        for resource in &request.resources {
            let (error, message) = match self.replace_configs(resource, request.validate_only) {
                Ok(()) => (ErrorCode::NONE, None),
                Err((error, message)) => (error, Some(Cow::Owned(message))),
            };
            responses.push(ReplacedResource {
                error_code: error.0,
                error_message: message,
                resource_type: resource.resource_type,
                resource_name: Cow::Owned(resource.resource_name.to_string()),
            });
        }
        let response = AlterConfigsResponse { responses, ..AlterConfigsResponse::default() };
        self.reply(context, Response::AlterConfigs(response));
    }

    fn replace_configs(&mut self, resource: &ReplaceResource<'_>, validate_only: bool) -> Result<(), Refusal> {
        check_is_topic(resource.resource_type)?;
        if let Some(config) = resource.configs.iter().find(|config| config.value.is_none()) {
            return Err((ErrorCode::INVALID_REQUEST, format!("Null value not supported for : {}", config.name)));
        }
        check_resource_name(&resource.resource_name)?;
        let configs = resource.configs.iter().map(|config| (&*config.name, config.value.as_deref()));
        let invalid = |message: String| (ErrorCode::INVALID_CONFIG, message);
        let config = TopicConfig::new(configs).map_err(invalid)?.with_defaults(self.topics.defaults());
        config.check_lags().map_err(invalid)?;
        let id = self.configurable_topic(&resource.resource_name)?.id;
        self.configure(id, &config, validate_only);
        Ok(())
    }

    fn configurable_topic(&self, name: &str) -> Result<&Topic, Refusal> {
        self.topics
            .get(name)
            .ok_or_else(|| (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, format!("The topic '{name}' does not exist.")))
    }

    fn configure(&mut self, id: TopicId, config: &TopicConfig, validate_only: bool) {
        if !validate_only {
            let overrides = config.overrides().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            self.change_topics(TopicChange::Configured { id, overrides });
        }
    }
}

fn check_group_id(group: &str) -> Result<(), Refusal> {
    match group.is_empty() {
        true => Err((ErrorCode::INVALID_REQUEST, "Default group resources are not allowed.".to_owned())),
        false => Ok(()),
    }
}

fn check_is_topic(resource_type: i8) -> Result<(), Refusal> {
    if resource_type == TOPIC {
        return Ok(());
    }
    let message = "This broker changes settings of topics only: give settings of brokers when it starts.";
    Err((ErrorCode::INVALID_REQUEST, message.to_owned()))
}

/// Returns a list with words added or removed.
fn changed_list(config: &TopicConfig, name: &str, words: &str, adds: bool) -> String {
    let words: Vec<&str> = words.split(',').map(str::trim).collect();
    let mut list: Vec<&str> = config.value(name).split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    if adds {
        let new: Vec<&str> = words.into_iter().filter(|word| !list.contains(word)).collect();
        list.extend(new);
    } else {
        list.retain(|word| !words.contains(word));
    }
    list.join(",")
}

fn check_resource_name(name: &str) -> Result<(), Refusal> {
    if name.is_empty() {
        return Err((ErrorCode::INVALID_REQUEST, "Default topic resources are not allowed.".to_owned()));
    }
    check_topic_name(name).map_err(|message| (ErrorCode::INVALID_TOPIC_EXCEPTION, message))
}

fn check_is_list(name: &str) -> Result<(), Refusal> {
    if topic_setting(name).is_some_and(|setting| matches!(setting.kind, ConfigType::List(_))) {
        return Ok(());
    }
    let message = format!("Can't append or subtract config {name}: the setting is not a list.");
    Err((ErrorCode::INVALID_CONFIG, message))
}

fn described_topic_setting(
    config: &TopicConfig,
    setting: &TopicSetting,
    with_synonyms: bool,
) -> DescribeConfigsResourceResult<'static> {
    let value = config.described(setting);
    let source = source_of(config, setting.name);
    let mut result = described(setting.name, value.clone(), source, setting.kind.id(), false);
    if with_synonyms {
        let synonym = |name: &'static str, value: &str, source| DescribeConfigsSynonym {
            name: Cow::Borrowed(name),
            value: Some(Cow::Owned(value.to_owned())),
            source,
        };
        if config.overridden(setting.name).is_some() {
            result.synonyms.push(synonym(setting.name, &value, DYNAMIC_TOPIC_CONFIG));
        }
        if WITHOUT_SYNONYMS.contains(&setting.name) {
            return result;
        }
        if let Some(value) = config.broker_default(setting.name) {
            result.synonyms.push(synonym(setting.broker_name, value, STATIC_BROKER_CONFIG));
        } else if setting.name == MIN_INSYNC_REPLICAS {
            result.synonyms.push(synonym(setting.name, setting.default, DYNAMIC_DEFAULT_BROKER_CONFIG));
        }
        result.synonyms.push(synonym(setting.broker_name, setting.default, DEFAULT_CONFIG));
    }
    result
}

fn described(
    name: &'static str,
    value: String,
    source: i8,
    config_type: i8,
    read_only: bool,
) -> DescribeConfigsResourceResult<'static> {
    DescribeConfigsResourceResult {
        name: Cow::Borrowed(name),
        value: Some(Cow::Owned(value)),
        read_only,
        config_source: source,
        is_sensitive: false,
        synonyms: Vec::new(),
        config_type,
        documentation: None,
    }
}
