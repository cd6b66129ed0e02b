//! DescribeConfigs and AlterConfigs: settings of topics and brokers.

use grete_wire::messages::describe_configs::{DescribeConfigsResource, DescribeConfigsResourceResult};
use grete_wire::messages::incremental_alter_configs::{AlterConfigsResource, AlterableConfig};
use grete_wire::messages::{
    DescribeConfigsRequest, DescribeConfigsResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};

use super::super::handler::{ApiHandler, ItemResults};
use super::super::reply::{AdminReply, PerItem};
use super::super::types::{ConfigAlteration, ConfigEntry, ConfigResource, ConfigSource};
use super::util::owned;
use crate::cluster::Cluster;
use crate::request::Request;

const RESOURCE_TYPE_TOPIC: i8 = 2;
const RESOURCE_TYPE_BROKER: i8 = 4;
const RESOURCE_TYPE_GROUP: i8 = 32;
const OPERATION_SET: i8 = 0;
const OPERATION_DELETE: i8 = 1;

impl ConfigResource {
    fn resource_type(&self) -> i8 {
        match self {
            Self::Topic(_) => RESOURCE_TYPE_TOPIC,
            Self::Broker(_) | Self::AllBrokers => RESOURCE_TYPE_BROKER,
            Self::Group(_) => RESOURCE_TYPE_GROUP,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Topic(name) | Self::Group(name) => name.to_string(),
            Self::Broker(node) => node.to_string(),
            Self::AllBrokers => String::new(),
        }
    }

    fn from_wire(resource_type: i8, name: &str) -> Option<Self> {
        match resource_type {
            RESOURCE_TYPE_TOPIC => Some(Self::Topic(name.into())),
            RESOURCE_TYPE_BROKER if name.is_empty() => Some(Self::AllBrokers),
            RESOURCE_TYPE_GROUP => Some(Self::Group(name.into())),
            RESOURCE_TYPE_BROKER => name.parse().ok().map(Self::Broker),
            _ => None,
        }
    }
}

impl ConfigSource {
    fn from_wire(code: i8) -> Self {
        match code {
            1 => Self::Topic,
            2 => Self::DynamicBroker,
            3 => Self::DynamicDefault,
            4 => Self::StaticBroker,
            5 => Self::Default,
            8 => Self::Group,
            _ => Self::Other,
        }
    }
}

#[derive(Debug)]
pub(crate) struct DescribeConfigs;

impl ApiHandler for DescribeConfigs {
    type Api = DescribeConfigsRequest<'static>;
    type Item = (ConfigResource, ());
    type Value = Vec<ConfigEntry>;

    const REPLY: fn(PerItem<Vec<ConfigEntry>>) -> AdminReply = AdminReply::Configs;

    fn build_request(&self, items: &[&Self::Item], _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let resource = |(resource, ()): &&Self::Item| DescribeConfigsResource {
            resource_type: resource.resource_type(),
            resource_name: owned(&resource.name()),
            configuration_keys: None,
        };
        let resources = items.iter().map(resource).collect();
        Request::from_message(DescribeConfigsRequest { resources, ..Default::default() })
    }

    fn parse_response(&self, response: &DescribeConfigsResponse<'_>, results: &mut ItemResults<'_, Self>) {
        let entry = |entry: &DescribeConfigsResourceResult<'_>| ConfigEntry {
            name: entry.name.to_string(),
            value: entry.value.as_deref().map(str::to_owned),
            source: ConfigSource::from_wire(entry.config_source),
            read_only: entry.read_only,
            sensitive: entry.is_sensitive,
        };
        for result in &response.results {
            let Some(resource) = ConfigResource::from_wire(result.resource_type, &result.resource_name) else {
                continue;
            };
            results.set(&resource, result.error_code, result.error_message.as_deref(), || {
                result.configs.iter().map(entry).collect()
            });
        }
    }
}

#[derive(Debug)]
pub(crate) struct AlterConfigs {
    pub validate_only: bool,
}

impl ApiHandler for AlterConfigs {
    type Api = IncrementalAlterConfigsRequest<'static>;
    type Item = (ConfigResource, ConfigAlteration);
    type Value = ();

    const REPLY: fn(PerItem<()>) -> AdminReply = AdminReply::Done;

    fn build_request(&self, items: &[&Self::Item], _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let change = |name: &str, config_operation, value: Option<&str>| AlterableConfig {
            name: owned(name),
            config_operation,
            value: value.map(owned),
        };
        let resource = |(resource, alteration): &&Self::Item| {
            let set = alteration.set.iter().map(|(name, value)| change(name, OPERATION_SET, Some(value)));
            let delete = alteration.delete.iter().map(|name| change(name, OPERATION_DELETE, None));
            AlterConfigsResource {
                resource_type: resource.resource_type(),
                resource_name: owned(&resource.name()),
                configs: set.chain(delete).collect(),
            }
        };
        let resources = items.iter().map(resource).collect();
        Request::from_message(IncrementalAlterConfigsRequest { resources, validate_only: self.validate_only })
    }

    fn parse_response(&self, response: &IncrementalAlterConfigsResponse<'_>, results: &mut ItemResults<'_, Self>) {
        for result in &response.responses {
            let Some(resource) = ConfigResource::from_wire(result.resource_type, &result.resource_name) else {
                continue;
            };
            results.set(&resource, result.error_code, result.error_message.as_deref(), || ());
        }
    }
}
