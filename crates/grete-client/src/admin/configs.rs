//! Settings of topics and brokers.

use grete_core::admin::{AdminReply, Alteration, ConfigEntry, Operation, Resource};

use super::{Admin, Call};
use crate::error::{ClientError, Subject};

fn subject(resource: &Resource) -> Subject {
    match resource {
        Resource::Topic(name) => Subject::Topic(name.to_string()),
        Resource::Broker(node) => Subject::Other(format!("broker {node}")),
        Resource::AllBrokers => Subject::Other("all brokers".into()),
    }
}

impl Admin {
    /// All settings of a topic or a broker.
    ///
    /// # Errors
    /// When there is no such topic or broker, or it does not answer in time.
    pub fn describe_config(&self, call: &Call<'_>, resource: Resource) -> Result<Vec<ConfigEntry>, ClientError> {
        let subject = subject(&resource);
        match self.ask(call, Operation::DescribeConfigs { resources: vec![resource] })? {
            AdminReply::Configs(results) => call.only(results, subject),
            other => Err(call.misplaced(&other)),
        }
    }

    /// Changes some settings of a topic or a broker; the others stay as they are.
    ///
    /// # Errors
    /// When a setting or value is refused: then none of them has changed.
    pub fn alter_config(
        &self,
        call: &Call<'_>,
        alteration: Alteration,
        validate_only: bool,
    ) -> Result<(), ClientError> {
        let subject = subject(&alteration.resource);
        match self.ask(call, Operation::AlterConfigs { alterations: vec![alteration], validate_only })? {
            AdminReply::Done(results) => call.only(results, subject),
            other => Err(call.misplaced(&other)),
        }
    }
}
