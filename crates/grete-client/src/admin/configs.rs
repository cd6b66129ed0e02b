//! Configurations of topics and brokers.

use grete_proto::admin::{AdminReply, ConfigAlteration, ConfigEntry, ConfigResource, Operation};

use super::{Admin, CallContext};
use crate::error::{ClientError, Subject};

fn resource_subject(resource: &ConfigResource) -> Subject {
    match resource {
        ConfigResource::Topic(name) => Subject::Topic(name.to_string()),
        ConfigResource::Broker(node) => Subject::Other(format!("broker {node}")),
        ConfigResource::Group(name) => Subject::Group(name.to_string()),
        ConfigResource::AllBrokers => Subject::Other("all brokers".into()),
    }
}

impl Admin {
    /// Returns all settings of a topic or a broker.
    ///
    /// # Errors
    /// Fails if the topic or broker does not exist, or does not answer in time.
    pub fn describe_config(
        &self,
        call: &CallContext<'_>,
        resource: ConfigResource,
    ) -> Result<Vec<ConfigEntry>, ClientError> {
        let subject = resource_subject(&resource);
        match self.execute(call, Operation::DescribeConfigs { resources: vec![resource] })? {
            AdminReply::Configs(results) => call.single_result(results, subject),
            other => Err(call.wrong_reply_type(&other)),
        }
    }

    /// Changes some settings of a topic or a broker; the others keep their values.
    ///
    /// # Errors
    /// Fails if a setting or value is refused; none of the settings has changed then.
    pub fn alter_config(
        &self,
        call: &CallContext<'_>,
        alteration: ConfigAlteration,
        validate_only: bool,
    ) -> Result<(), ClientError> {
        let subject = resource_subject(&alteration.resource);
        match self.execute(call, Operation::AlterConfigs { alterations: vec![alteration], validate_only })? {
            AdminReply::Done(results) => call.single_result(results, subject),
            other => Err(call.wrong_reply_type(&other)),
        }
    }
}
