//! Settings of topics and brokers.

use std::sync::Arc;

use grete_wire::WireError;
use grete_wire::api_key::ApiKey;
use grete_wire::messages::describe_configs_request::DescribeConfigsResource;
use grete_wire::messages::describe_configs_response::DescribeConfigsResourceResult;
use grete_wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use grete_wire::messages::{
    DescribeConfigsRequest, DescribeConfigsResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};

use super::super::errand::{Errand, Outcomes, Place, outcome};
use super::super::error::AdminError;
use super::super::operation::AdminReply;
use super::owned;
use crate::cluster::Cluster;
use crate::ids::NodeId;
use crate::request::{Request, Response};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const SET: i8 = 0;
const DELETE: i8 = 1;

/// Whose settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    /// A topic's.
    Topic(Arc<str>),
    /// A broker's; that broker is asked.
    Broker(NodeId),
    /// Those that all brokers have in common.
    AllBrokers,
}

impl Resource {
    fn kind(&self) -> i8 {
        match self {
            Self::Topic(_) => TOPIC,
            Self::Broker(_) | Self::AllBrokers => BROKER,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Topic(name) => name.to_string(),
            Self::Broker(node) => node.to_string(),
            Self::AllBrokers => String::new(),
        }
    }

    fn place(&self) -> Place<'_> {
        match self {
            Self::Broker(node) => Place::Node(*node),
            Self::Topic(_) | Self::AllBrokers => Place::Any,
        }
    }

    fn subject(&self) -> String {
        match self {
            Self::Topic(name) => format!("topic {name}"),
            Self::Broker(node) => format!("broker {node}"),
            Self::AllBrokers => "all brokers".to_owned(),
        }
    }
}

/// Where a setting's value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigSource {
    /// Set for this topic.
    Topic,
    /// Set for this broker, while it ran.
    DynamicBroker,
    /// Set for all brokers, while they ran.
    DynamicDefault,
    /// From the broker's own file.
    StaticBroker,
    /// Kafka's default.
    Default,
    /// Something else.
    Other,
}

impl ConfigSource {
    fn from_wire(code: i8) -> Self {
        match code {
            1 => Self::Topic,
            2 => Self::DynamicBroker,
            3 => Self::DynamicDefault,
            4 => Self::StaticBroker,
            5 => Self::Default,
            _ => Self::Other,
        }
    }

    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Topic => "topic",
            Self::DynamicBroker => "dynamic-broker",
            Self::DynamicDefault => "dynamic-default",
            Self::StaticBroker => "static-broker",
            Self::Default => "default",
            Self::Other => "other",
        }
    }
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Its name.
    pub name: String,
    /// Its value; none for sensitive ones.
    pub value: Option<String>,
    /// Where that comes from.
    pub source: ConfigSource,
    /// Whether it cannot be changed.
    pub read_only: bool,
    /// Whether brokers keep its value to themselves.
    pub sensitive: bool,
}

#[derive(Debug)]
pub(crate) struct DescribeConfigs {
    pub resources: Vec<Resource>,
}

impl Errand for DescribeConfigs {
    type Value = Vec<ConfigEntry>;

    fn api(&self) -> ApiKey {
        ApiKey::DescribeConfigs
    }

    fn len(&self) -> usize {
        self.resources.len()
    }

    fn place(&self, item: usize) -> Place<'_> {
        self.resources.get(item).map_or(Place::Any, Resource::place)
    }

    fn subject(&self, item: usize) -> String {
        self.resources.get(item).map_or_else(String::new, Resource::subject)
    }

    fn request(&self, items: &mut Vec<usize>, _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let resource = |resource: &Resource| DescribeConfigsResource {
            resource_type: resource.kind(),
            resource_name: owned(&resource.name()),
            configuration_keys: None,
        };
        let resources = items.iter().filter_map(|&item| self.resources.get(item)).map(resource).collect();
        Request::any(DescribeConfigsRequest { resources, ..Default::default() })
    }

    fn read(
        &mut self,
        items: &[usize],
        _node: NodeId,
        response: &Response,
        out: &mut Outcomes<Vec<ConfigEntry>>,
    ) -> Result<(), WireError> {
        let answer = response.decode(DescribeConfigsResponse::decode)?;
        let entry = |entry: &DescribeConfigsResourceResult<'_>| ConfigEntry {
            name: entry.name.to_string(),
            value: entry.value.as_deref().map(str::to_owned),
            source: ConfigSource::from_wire(entry.config_source),
            read_only: entry.read_only,
            sensitive: entry.is_sensitive,
        };
        for result in &answer.results {
            let item = find(&self.resources, items, result.resource_type, &result.resource_name);
            let found = outcome(result.error_code, result.error_message.as_deref(), || {
                result.configs.iter().map(entry).collect()
            });
            out.extend(item.map(|item| (item, found)));
        }
        Ok(())
    }

    fn reply(&self, results: Vec<Result<Vec<ConfigEntry>, AdminError>>) -> AdminReply {
        AdminReply::Configs(results)
    }
}

/// What is to become of some settings of one resource; the others stay as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alteration {
    /// Whose.
    pub resource: Resource,
    /// Names and new values.
    pub set: Vec<(String, String)>,
    /// Names of those that go back to their default.
    pub delete: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct AlterConfigs {
    alterations: Vec<Alteration>,
    resources: Vec<Resource>,
    validate_only: bool,
}

impl AlterConfigs {
    pub fn new(alterations: Vec<Alteration>, validate_only: bool) -> Self {
        let resources = alterations.iter().map(|alteration| alteration.resource.clone()).collect();
        Self { alterations, resources, validate_only }
    }
}

impl Errand for AlterConfigs {
    type Value = ();

    fn api(&self) -> ApiKey {
        ApiKey::IncrementalAlterConfigs
    }

    fn len(&self) -> usize {
        self.alterations.len()
    }

    fn place(&self, item: usize) -> Place<'_> {
        self.resources.get(item).map_or(Place::Any, Resource::place)
    }

    fn subject(&self, item: usize) -> String {
        self.resources.get(item).map_or_else(String::new, Resource::subject)
    }

    fn request(&self, items: &mut Vec<usize>, _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let change = |name: &str, config_operation, value: Option<&str>| AlterableConfig {
            name: owned(name),
            config_operation,
            value: value.map(owned),
        };
        let resource = |alteration: &Alteration| {
            let set = alteration.set.iter().map(|(name, value)| change(name, SET, Some(value)));
            let delete = alteration.delete.iter().map(|name| change(name, DELETE, None));
            AlterConfigsResource {
                resource_type: alteration.resource.kind(),
                resource_name: owned(&alteration.resource.name()),
                configs: set.chain(delete).collect(),
            }
        };
        let resources = items.iter().filter_map(|&item| self.alterations.get(item)).map(resource).collect();
        Request::any(IncrementalAlterConfigsRequest { resources, validate_only: self.validate_only })
    }

    fn read(
        &mut self,
        items: &[usize],
        _node: NodeId,
        response: &Response,
        out: &mut Outcomes<()>,
    ) -> Result<(), WireError> {
        let answer = response.decode(IncrementalAlterConfigsResponse::decode)?;
        for result in &answer.responses {
            let item = find(&self.resources, items, result.resource_type, &result.resource_name);
            let found = outcome(result.error_code, result.error_message.as_deref(), || ());
            out.extend(item.map(|item| (item, found)));
        }
        Ok(())
    }

    fn reply(&self, results: Vec<Result<(), AdminError>>) -> AdminReply {
        AdminReply::Done(results)
    }
}

fn find(resources: &[Resource], items: &[usize], kind: i8, name: &str) -> Option<usize> {
    let named = |item: &usize| resources.get(*item).is_some_and(|known| known.kind() == kind && known.name() == name);
    items.iter().copied().find(named)
}
