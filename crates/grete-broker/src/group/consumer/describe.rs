//! Description of a group of the consumer protocol.

use std::sync::Arc;

use super::ConsumerGroup;
use crate::effects::consumer_group::{ConsumerMember, Partitions};
use crate::group::GroupCoordinator;

/// Group as ConsumerGroupDescribe shows it, with ids of topics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerDescription {
    /// Kafka's name of the state.
    pub state: &'static str,
    /// Group epoch.
    pub epoch: i32,
    /// Group epoch of the target assignment.
    pub target_epoch: i32,
    /// Name of the assignor.
    pub assignor: &'static str,
    /// Members, by member id.
    pub members: Vec<DescribedMember>,
}

/// Member as ConsumerGroupDescribe shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedMember {
    /// Member with its current assignment.
    pub member: ConsumerMember,
    /// Target assignment.
    pub target: Partitions,
}

impl GroupCoordinator {
    /// Describes a group of the consumer protocol. `None`: there is no such group, or it is of the classic protocol.
    #[must_use]
    pub fn describe_consumer(&self, group: &str) -> Option<ConsumerDescription> {
        let group = self.groups.get(group)?.consumer.as_ref()?;
        let member = |(id, member): (&Arc<str>, &ConsumerMember)| DescribedMember {
            member: member.clone(),
            target: group.target.get(id).cloned().unwrap_or_default(),
        };
        Some(ConsumerDescription {
            state: group.state(),
            epoch: group.epoch,
            target_epoch: group.target_epoch,
            assignor: group.assignor(&self.config.consumer).name(),
            members: group.members.iter().map(member).collect(),
        })
    }
}

impl ConsumerGroup {
    /// Returns member id and `client.id` of each member.
    pub(in crate::group) fn member_names(&self) -> Vec<(Arc<str>, Arc<str>)> {
        let name = |(id, member): (&Arc<str>, &ConsumerMember)| (Arc::clone(id), Arc::clone(&member.client_id));
        self.members.iter().map(name).collect()
    }
}
