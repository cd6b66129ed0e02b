//! Cuts responses down to what the client may see, and says what the client may do.

use grete_wire::ErrorCode;
use grete_wire::messages::consumer_group_describe::DescribedGroup;

use crate::acl::{CLUSTER_NAME, Operation, ResourceType};
use crate::cluster::{Cluster, RequestContext};
use crate::message::Response;

/// Value of a field of allowed operations that the client did not ask for.
const NOT_ASKED: i32 = i32::MIN;

/// First version of CreateTopics whose response has the settings of the topic (KIP-525).
const FIRST_VERSION_WITH_CONFIGS: i16 = 5;

/// Text of a group that has topics which the client may not describe.
const HIDDEN_TOPICS: &str = "The group has topics that the client may not describe.";

impl Cluster {
    /// Removes topics, groups and transactions that the client may not describe from the lists of a response, and
    /// the operations that the client may not do from the fields of allowed operations.
    pub(super) fn conceal(&self, context: &RequestContext, response: &mut Response) {
        let may_describe = |topic: &str| self.may(context, Operation::Describe, ResourceType::Topic, topic);
        match response {
            Response::Metadata(metadata) => {
                metadata.topics.retain(|topic| topic.name.as_deref().is_none_or(may_describe));
                for topic in &mut metadata.topics {
                    let name = topic.name.as_deref().unwrap_or_default();
                    self.limit(context, ResourceType::Topic, name, &mut topic.topic_authorized_operations);
                }
                self.limit_cluster(context, &mut metadata.cluster_authorized_operations);
            }
            Response::DescribeCluster(cluster) => {
                self.limit_cluster(context, &mut cluster.cluster_authorized_operations);
            }
            Response::DescribeTopicPartitions(described) => {
                for topic in &mut described.topics {
                    let name = topic.name.as_deref().unwrap_or_default();
                    self.limit(context, ResourceType::Topic, name, &mut topic.topic_authorized_operations);
                }
            }
            Response::DescribeGroups(described) => {
                for group in &mut described.groups {
                    self.limit(context, ResourceType::Group, &group.group_id, &mut group.authorized_operations);
                }
            }
            Response::ConsumerGroupDescribe(described) => {
                for group in &mut described.groups {
                    self.conceal_members(&may_describe, group);
                    self.limit(context, ResourceType::Group, &group.group_id, &mut group.authorized_operations);
                }
            }
            Response::ShareGroupDescribe(described) => {
                for group in &mut described.groups {
                    let topics = group.members.iter().flat_map(|member| &member.subscribed_topic_names);
                    if !topics.into_iter().all(|topic| may_describe(topic)) {
                        group.error_code = ErrorCode::TOPIC_AUTHORIZATION_FAILED.0;
                        group.error_message = Some(HIDDEN_TOPICS.into());
                        group.members.clear();
                    }
                    self.limit(context, ResourceType::Group, &group.group_id, &mut group.authorized_operations);
                }
            }
            Response::ListGroups(list)
                if !self.may(context, Operation::Describe, ResourceType::Cluster, CLUSTER_NAME) =>
            {
                let may = |group: &str| self.may(context, Operation::Describe, ResourceType::Group, group);
                list.groups.retain(|group| may(&group.group_id));
            }
            Response::OffsetFetch(fetched) => {
                // Topics that the request named were checked before; ids stand for names in later versions.
                for group in &mut fetched.groups {
                    let is_hidden = |topic: &str| !topic.is_empty() && !may_describe(topic);
                    group.topics.retain(|topic| match self.topics.by_id(topic.topic_id) {
                        Some(found) => may_describe(&found.name),
                        None => !is_hidden(&topic.name),
                    });
                }
                fetched.topics.retain(|topic| may_describe(&topic.name));
            }
            Response::ListTransactions(list) => {
                let may = |id: &str| self.may(context, Operation::Describe, ResourceType::TransactionalId, id);
                list.transaction_states.retain(|state| may(&state.transactional_id));
            }
            Response::DescribeTransactions(described) => {
                for state in &mut described.transaction_states {
                    state.topics.retain(|topic| may_describe(&topic.topic));
                }
            }
            Response::CreateTopics(created) if context.version >= FIRST_VERSION_WITH_CONFIGS => {
                for topic in created.topics.iter_mut().filter(|topic| topic.error_code == 0) {
                    if !self.may(context, Operation::DescribeConfigs, ResourceType::Topic, &topic.name) {
                        (topic.num_partitions, topic.replication_factor) = (-1, -1);
                        topic.configs = None;
                        topic.topic_config_error_code = ErrorCode::TOPIC_AUTHORIZATION_FAILED.0;
                    }
                }
            }
            _ => {}
        }
    }

    /// Hides the members of a group that has topics which the client may not describe.
    fn conceal_members(&self, may_describe: &dyn Fn(&str) -> bool, group: &mut DescribedGroup<'_>) {
        let topics = group.members.iter().flat_map(|member| {
            let assigned = member.assignment.topic_partitions.iter().chain(&member.target_assignment.topic_partitions);
            assigned.map(|topic| &topic.topic_name).chain(&member.subscribed_topic_names)
        });
        if topics.into_iter().all(|topic| may_describe(topic)) {
            return;
        }
        *group = DescribedGroup {
            group_id: std::mem::take(&mut group.group_id),
            error_code: ErrorCode::TOPIC_AUTHORIZATION_FAILED.0,
            error_message: Some(HIDDEN_TOPICS.into()),
            ..DescribedGroup::default()
        };
    }

    /// Leaves the operations that the client may do. The cluster's are shown to those who may describe the cluster.
    fn limit_cluster(&self, context: &RequestContext, operations: &mut i32) {
        if *operations != NOT_ASKED && !self.may(context, Operation::Describe, ResourceType::Cluster, CLUSTER_NAME) {
            *operations = 0;
        }
        self.limit(context, ResourceType::Cluster, CLUSTER_NAME, operations);
    }

    fn limit(&self, context: &RequestContext, kind: ResourceType, name: &str, operations: &mut i32) {
        if *operations == NOT_ASKED {
            return;
        }
        for number in 0..=i8::try_from(i32::BITS - 2).unwrap_or(i8::MAX) {
            let may = || Operation::from_number(number).is_some_and(|one| self.may(context, one, kind, name));
            if *operations & (1 << number) != 0 && !may() {
                *operations &= !(1 << number);
            }
        }
    }
}
