//! Checks of each API before its handler, as Kafka makes them.

use std::borrow::Cow;

use grete_wire::ErrorCode;
use grete_wire::messages::offset_delete::{OffsetDeleteResponsePartition, OffsetDeleteResponseTopic};
use grete_wire::messages::offset_fetch::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions, OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
};
use grete_wire::messages::*;

use crate::acl::Operation;
use crate::cluster::{Cluster, RequestContext};
use crate::ids::TopicId;
use crate::log::transactional_producers;
use crate::message::{Request, Response};

/// Types of a resource with settings.
const TOPIC: i8 = 2;
const GROUP_RESOURCE: i8 = 32;

/// Type of a coordinator's key.
const GROUP: i8 = 0;

/// First version of Produce, OffsetCommit and OffsetFetch that names topics by id.
const PRODUCE_BY_ID: i16 = 13;
const OFFSETS_BY_ID: i16 = 10;

/// First version of AddPartitionsToTxn that only brokers send.
const TRANSACTIONS_OF_BROKERS: i16 = 4;

/// Takes the entries that fail a check out of a list.
fn split<T>(list: &mut Vec<T>, is_allowed: impl FnMut(&T) -> bool) -> Vec<T> {
    let (allowed, refused) = std::mem::take(list).into_iter().partition(is_allowed);
    *list = allowed;
    refused
}

/// Takes the entries of a request's list that fail a check, and refuses them with an error.
macro_rules! refuse_entries {
    ($cluster:expr, $context:expr, $api:ident($request:expr).$list:ident, $error:ident, $is_allowed:expr) => {
        let refused = split(&mut $request.$list, $is_allowed);
        if !refused.is_empty() {
            let mut part = $request.clone();
            part.$list = refused;
            $cluster.refuse_part($context, &Request::$api(part), ErrorCode::$error);
        }
    };
}

impl Cluster {
    /// Takes what the client may not do out of a request. `None`: the whole request was refused, and is answered.
    pub(in crate::cluster) fn admit<'a>(
        &mut self,
        context: &RequestContext,
        mut request: Request<'a>,
    ) -> Option<Request<'a>> {
        if let Some(error) = self.refusal_of_all(context, &request) {
            self.refuse(context, &request, error);
            return None;
        }
        match &mut request {
            Request::Produce(produce) => {
                let by_id = context.version >= PRODUCE_BY_ID;
                let may = |topic: &TopicProduceData<'_>| {
                    self.may_use(context, Operation::Write, by_id, topic.topic_id, &topic.name)
                };
                refuse_entries!(self, context, Produce(produce).topic_data, TOPIC_AUTHORIZATION_FAILED, may);
            }
            Request::ListOffsets(list) => {
                let may = |topic: &ListOffsetsTopic<'_>| self.may_topic(context, Operation::Describe, &topic.name);
                refuse_entries!(self, context, ListOffsets(list).topics, TOPIC_AUTHORIZATION_FAILED, may);
            }
            Request::OffsetForLeaderEpoch(asked) => {
                let may = |topic: &OffsetForLeaderTopic<'_>| self.may_topic(context, Operation::Describe, &topic.topic);
                refuse_entries!(self, context, OffsetForLeaderEpoch(asked).topics, TOPIC_AUTHORIZATION_FAILED, may);
            }
            Request::Metadata(metadata) => self.admit_metadata(context, metadata),
            Request::DescribeTopicPartitions(described) => self.admit_topic_pages(context, described),
            Request::OffsetCommit(commit) => {
                let by_id = context.version >= OFFSETS_BY_ID;
                let may = |topic: &offset_commit::OffsetCommitRequestTopic<'_>| {
                    self.may_use(context, Operation::Read, by_id, topic.topic_id, &topic.name)
                };
                refuse_entries!(self, context, OffsetCommit(commit).topics, TOPIC_AUTHORIZATION_FAILED, may);
            }
            Request::TxnOffsetCommit(commit) => {
                let may = |topic: &txn_offset_commit::TxnOffsetCommitRequestTopic<'_>| {
                    self.may_topic(context, Operation::Read, &topic.name)
                };
                refuse_entries!(self, context, TxnOffsetCommit(commit).topics, TOPIC_AUTHORIZATION_FAILED, may);
            }
            Request::OffsetFetch(fetch) => self.admit_offset_fetch(context, fetch),
            Request::OffsetDelete(delete) => self.admit_offset_delete(context, delete),
            Request::FindCoordinator(find) => {
                let is_group = find.key_type == GROUP;
                let may = |key: &Cow<'_, str>| self.may_find(context, is_group, key);
                let refused = split(&mut find.coordinator_keys, may);
                let part = FindCoordinatorRequest { coordinator_keys: refused, ..find.clone() };
                if !part.coordinator_keys.is_empty() {
                    self.refuse_part(context, &Request::FindCoordinator(part), coordinator_error(is_group));
                }
            }
            Request::DescribeGroups(described) => {
                let may = |group: &Cow<'_, str>| self.may_group(context, Operation::Describe, group);
                refuse_entries!(self, context, DescribeGroups(described).groups, GROUP_AUTHORIZATION_FAILED, may);
            }
            Request::ConsumerGroupDescribe(described) => {
                let may = |group: &Cow<'_, str>| self.may_group(context, Operation::Describe, group);
                refuse_entries!(
                    self,
                    context,
                    ConsumerGroupDescribe(described).group_ids,
                    GROUP_AUTHORIZATION_FAILED,
                    may
                );
            }
            Request::ShareGroupDescribe(described) => {
                let may = |group: &Cow<'_, str>| self.may_group(context, Operation::Describe, group);
                refuse_entries!(
                    self,
                    context,
                    ShareGroupDescribe(described).group_ids,
                    GROUP_AUTHORIZATION_FAILED,
                    may
                );
            }
            Request::DescribeShareGroupOffsets(described) => {
                type Group<'a> = describe_share_group_offsets::DescribeShareGroupOffsetsRequestGroup<'a>;
                let may = |group: &Group<'_>| self.may_group(context, Operation::Describe, &group.group_id);
                refuse_entries!(
                    self,
                    context,
                    DescribeShareGroupOffsets(described).groups,
                    GROUP_AUTHORIZATION_FAILED,
                    may
                );
            }
            Request::DeleteGroups(deleted) => {
                let may = |group: &Cow<'_, str>| self.may_group(context, Operation::Delete, group);
                refuse_entries!(self, context, DeleteGroups(deleted).groups_names, GROUP_AUTHORIZATION_FAILED, may);
            }
            Request::CreateTopics(created) if !self.may_cluster(context, Operation::Create) => {
                let may = |topic: &CreatableTopic<'_>| self.may_topic(context, Operation::Create, &topic.name);
                refuse_entries!(self, context, CreateTopics(created).topics, TOPIC_AUTHORIZATION_FAILED, may);
            }
            Request::DeleteTopics(deleted) => {
                let may =
                    |topic: &DeleteTopicState<'_>| self.may_delete(context, topic.name.as_deref(), topic.topic_id);
                refuse_entries!(self, context, DeleteTopics(deleted).topics, TOPIC_AUTHORIZATION_FAILED, may);
                let may = |name: &Cow<'_, str>| self.may_delete(context, Some(name), 0);
                refuse_entries!(self, context, DeleteTopics(deleted).topic_names, TOPIC_AUTHORIZATION_FAILED, may);
            }
            Request::CreatePartitions(created) => {
                let may = |topic: &CreatePartitionsTopic<'_>| self.may_topic(context, Operation::Alter, &topic.name);
                refuse_entries!(self, context, CreatePartitions(created).topics, TOPIC_AUTHORIZATION_FAILED, may);
            }
            Request::DeleteRecords(deleted) => {
                let may = |topic: &DeleteRecordsTopic<'_>| self.may_topic(context, Operation::Delete, &topic.name);
                refuse_entries!(self, context, DeleteRecords(deleted).topics, TOPIC_AUTHORIZATION_FAILED, may);
            }
            Request::DescribeProducers(described) => {
                let may = |topic: &describe_producers::TopicRequest<'_>| {
                    self.may_topic(context, Operation::Read, &topic.name)
                };
                refuse_entries!(self, context, DescribeProducers(described).topics, TOPIC_AUTHORIZATION_FAILED, may);
            }
            Request::DescribeTransactions(described) => {
                let may = |id: &Cow<'_, str>| self.may_transact(context, Operation::Describe, id);
                refuse_entries!(
                    self,
                    context,
                    DescribeTransactions(described).transactional_ids,
                    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                    may
                );
            }
            Request::DescribeConfigs(described) => {
                let is_topic = |resource: &DescribeConfigsResource<'_>| resource.resource_type == TOPIC;
                let may = |resource: &DescribeConfigsResource<'_>| {
                    !is_topic(resource) || self.may_topic(context, Operation::DescribeConfigs, &resource.resource_name)
                };
                refuse_entries!(self, context, DescribeConfigs(described).resources, TOPIC_AUTHORIZATION_FAILED, may);
                let may_cluster = self.may_cluster(context, Operation::DescribeConfigs);
                let may = |resource: &DescribeConfigsResource<'_>| match resource.resource_type {
                    GROUP_RESOURCE => self.may_group(context, Operation::DescribeConfigs, &resource.resource_name),
                    _ => true,
                };
                refuse_entries!(self, context, DescribeConfigs(described).resources, GROUP_AUTHORIZATION_FAILED, may);
                let may = |resource: &DescribeConfigsResource<'_>| {
                    [TOPIC, GROUP_RESOURCE].contains(&resource.resource_type) || may_cluster
                };
                refuse_entries!(self, context, DescribeConfigs(described).resources, CLUSTER_AUTHORIZATION_FAILED, may);
            }
            Request::IncrementalAlterConfigs(altered) => {
                type Resource<'a> = IncrementalAlterConfigsRequestAlterConfigsResource<'a>;
                let may = |resource: &Resource<'_>| {
                    self.may_alter_configs(context, TOPIC, resource.resource_type, &resource.resource_name)
                };
                refuse_entries!(
                    self,
                    context,
                    IncrementalAlterConfigs(altered).resources,
                    TOPIC_AUTHORIZATION_FAILED,
                    may
                );
                let may = |resource: &Resource<'_>| match resource.resource_type {
                    GROUP_RESOURCE => self.may_group(context, Operation::AlterConfigs, &resource.resource_name),
                    _ => true,
                };
                refuse_entries!(
                    self,
                    context,
                    IncrementalAlterConfigs(altered).resources,
                    GROUP_AUTHORIZATION_FAILED,
                    may
                );
                let may_cluster = self.may_cluster(context, Operation::AlterConfigs);
                let may =
                    |resource: &Resource<'_>| [TOPIC, GROUP_RESOURCE].contains(&resource.resource_type) || may_cluster;
                refuse_entries!(
                    self,
                    context,
                    IncrementalAlterConfigs(altered).resources,
                    CLUSTER_AUTHORIZATION_FAILED,
                    may
                );
            }
            Request::AlterConfigs(altered) => {
                type Resource<'a> = AlterConfigsRequestAlterConfigsResource<'a>;
                let may = |resource: &Resource<'_>| {
                    self.may_alter_configs(context, TOPIC, resource.resource_type, &resource.resource_name)
                };
                refuse_entries!(self, context, AlterConfigs(altered).resources, TOPIC_AUTHORIZATION_FAILED, may);
                let may_cluster = self.may_cluster(context, Operation::AlterConfigs);
                let may = |resource: &Resource<'_>| resource.resource_type == TOPIC || may_cluster;
                refuse_entries!(self, context, AlterConfigs(altered).resources, CLUSTER_AUTHORIZATION_FAILED, may);
            }
            Request::AddPartitionsToTxn(added) if context.version < TRANSACTIONS_OF_BROKERS => {
                let may = |topic: &AddPartitionsToTxnTopic<'_>| self.may_topic(context, Operation::Write, &topic.name);
                let refused = split(&mut added.v3_and_below_topics, may);
                if !refused.is_empty() {
                    // All partitions are added or none.
                    let part = AddPartitionsToTxnRequest { v3_and_below_topics: refused, ..added.clone() };
                    let part = Request::AddPartitionsToTxn(part);
                    self.refuse_part(context, &part, ErrorCode::TOPIC_AUTHORIZATION_FAILED);
                    self.refuse(context, &request, ErrorCode::OPERATION_NOT_ATTEMPTED);
                    return None;
                }
            }
            _ => {}
        }
        Some(request)
    }

    /// Returns the error of a request that is refused as a whole.
    fn refusal_of_all(&self, context: &RequestContext, request: &Request<'_>) -> Option<ErrorCode> {
        const GROUP_FAILED: ErrorCode = ErrorCode::GROUP_AUTHORIZATION_FAILED;
        const CLUSTER_FAILED: ErrorCode = ErrorCode::CLUSTER_AUTHORIZATION_FAILED;
        const TRANSACTION_FAILED: ErrorCode = ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
        let read = |group: &str| (!self.may_group(context, Operation::Read, group)).then_some(GROUP_FAILED);
        let cluster = |operation| (!self.may_cluster(context, operation)).then_some(CLUSTER_FAILED);
        let write = |id: &str| (!self.may_transact(context, Operation::Write, id)).then_some(TRANSACTION_FAILED);
        match request {
            Request::Produce(produce) => {
                let id = produce.transactional_id.as_deref()?;
                let mut batches = produce.topic_data.iter().flat_map(|topic| &topic.partition_data);
                let is_transactional = batches.any(|data| {
                    data.records.as_deref().is_some_and(|bytes| !transactional_producers(bytes).is_empty())
                });
                write(id).filter(|_| is_transactional)
            }
            Request::JoinGroup(request) => read(&request.group_id),
            Request::SyncGroup(request) => read(&request.group_id),
            Request::Heartbeat(request) => read(&request.group_id),
            Request::LeaveGroup(request) => read(&request.group_id),
            Request::ConsumerGroupHeartbeat(request) => read(&request.group_id).or_else(|| {
                let mut names = request.subscribed_topic_names.iter().flatten();
                let may_all = names.all(|name| self.may_topic(context, Operation::Describe, name));
                (!may_all).then_some(ErrorCode::TOPIC_AUTHORIZATION_FAILED)
            }),
            Request::ShareGroupHeartbeat(request) => read(&request.group_id).or_else(|| {
                let mut names = request.subscribed_topic_names.iter().flatten();
                let may_all = names.all(|name| self.may_topic(context, Operation::Describe, name));
                (!may_all).then_some(ErrorCode::TOPIC_AUTHORIZATION_FAILED)
            }),
            // The topics are checked partition by partition, when they are read.
            Request::ShareFetch(request) => read(request.group_id.as_deref().unwrap_or_default()),
            Request::ShareAcknowledge(request) => read(request.group_id.as_deref().unwrap_or_default()),
            Request::AlterShareGroupOffsets(request) => read(&request.group_id),
            Request::DeleteShareGroupOffsets(request) => {
                (!self.may_group(context, Operation::Delete, &request.group_id)).then_some(GROUP_FAILED)
            }
            Request::OffsetCommit(request) => read(&request.group_id),
            Request::OffsetDelete(request) => {
                (!self.may_group(context, Operation::Delete, &request.group_id)).then_some(GROUP_FAILED)
            }
            // Later versions have a list of keys.
            Request::FindCoordinator(request) if context.version < 4 => {
                let is_group = request.key_type == GROUP;
                (!self.may_find(context, is_group, &request.key)).then_some(coordinator_error(is_group))
            }
            Request::InitProducerId(request) => match request.transactional_id.as_deref() {
                Some(id) => write(id),
                None => (!self.may_write_idempotently(context)).then_some(CLUSTER_FAILED),
            },
            Request::AddPartitionsToTxn(request) if context.version < TRANSACTIONS_OF_BROKERS => {
                write(&request.v3_and_below_transactional_id)
            }
            Request::AddPartitionsToTxn(_) => cluster(Operation::ClusterAction),
            Request::AddOffsetsToTxn(request) => write(&request.transactional_id).or_else(|| read(&request.group_id)),
            Request::EndTxn(request) => write(&request.transactional_id),
            Request::TxnOffsetCommit(request) => write(&request.transactional_id).or_else(|| read(&request.group_id)),
            Request::DescribeLogDirs(_) | Request::DescribeAcls(_) => cluster(Operation::Describe),
            // Administrators may, as brokers do.
            Request::WriteTxnMarkers(_) => cluster(Operation::Alter).and_then(|_| cluster(Operation::ClusterAction)),
            Request::CreateAcls(_) | Request::DeleteAcls(_) => cluster(Operation::Alter),
            _ => None,
        }
    }

    /// Returns whether the client may use a topic. A topic id that does not exist is left to the handler.
    fn may_use(&self, context: &RequestContext, operation: Operation, by_id: bool, id: TopicId, name: &str) -> bool {
        match by_id {
            true => self.topics.by_id(id).is_none_or(|topic| self.may_topic(context, operation, &topic.name)),
            false => self.may_topic(context, operation, name),
        }
    }

    fn may_find(&self, context: &RequestContext, is_group: bool, key: &str) -> bool {
        match is_group {
            true => self.may_group(context, Operation::Describe, key),
            false => self.may_transact(context, Operation::Describe, key),
        }
    }

    fn may_alter_configs(&self, context: &RequestContext, topic: i8, resource_type: i8, name: &str) -> bool {
        resource_type != topic || self.may_topic(context, Operation::AlterConfigs, name)
    }

    /// Returns whether a topic may be deleted. One that does not exist is left to the handler, if the client may know.
    fn may_delete(&self, context: &RequestContext, name: Option<&str>, id: TopicId) -> bool {
        let found = name.map_or_else(|| self.topics.by_id(id), |name| self.topics.get(name));
        let may = |operation, name: &str| self.may_topic(context, operation, name);
        match (found, name) {
            (Some(topic), _) => may(Operation::Describe, &topic.name) && may(Operation::Delete, &topic.name),
            (None, Some(name)) => may(Operation::Describe, name),
            (None, None) => true,
        }
    }

    fn admit_metadata(&mut self, context: &RequestContext, request: &mut MetadataRequest<'_>) {
        let creates = request.allow_auto_topic_creation && self.config.auto_create_topics;
        let Some(mut topics) = request.topics.take() else { return };
        let name_of = |topic: &MetadataRequestTopic<'_>| match topic.topic_id {
            0 => topic.name.as_deref().map(ToOwned::to_owned),
            id => self.topics.by_id(id).map(|topic| topic.name.to_string()),
        };
        let may = |topic: &MetadataRequestTopic<'_>| {
            let Some(name) = name_of(topic) else { return true };
            let may_create =
                || self.may_cluster(context, Operation::Create) || self.may_topic(context, Operation::Create, &name);
            let is_created = creates && self.topics.get(&name).is_none();
            self.may_topic(context, Operation::Describe, &name) && (!is_created || may_create())
        };
        let refused = split(&mut topics, may);
        request.topics = Some(topics);
        let refusal = |topic: MetadataRequestTopic<'_>| MetadataResponseTopic {
            error_code: ErrorCode::TOPIC_AUTHORIZATION_FAILED.0,
            // The name of an id is not revealed.
            name: (topic.topic_id == 0).then(|| topic.name.unwrap_or_default().into_owned().into()),
            topic_id: topic.topic_id,
            ..MetadataResponseTopic::default()
        };
        if !refused.is_empty() {
            let topics = refused.into_iter().map(refusal).collect();
            self.keep_refusal(context.id, Response::Metadata(MetadataResponse { topics, ..Default::default() }));
        }
    }

    /// A request without names gets the names that the client may describe, so that pages have the right size.
    fn admit_topic_pages(&mut self, context: &RequestContext, request: &mut DescribeTopicPartitionsRequest<'_>) {
        type Topic<'a> = DescribeTopicPartitionsRequestTopicRequest<'a>;
        let may = |topic: &Topic<'_>| self.may_topic(context, Operation::Describe, &topic.name);
        if request.topics.is_empty() {
            let topic = |topic: &crate::topics::Topic| Topic { name: Cow::Owned(topic.name.to_string()) };
            request.topics = self.topics.iter().map(topic).filter(may).collect();
            return;
        }
        refuse_entries!(self, context, DescribeTopicPartitions(request).topics, TOPIC_AUTHORIZATION_FAILED, may);
    }

    fn admit_offset_fetch(&mut self, context: &RequestContext, request: &mut OffsetFetchRequest<'_>) {
        const FAILED: i16 = ErrorCode::TOPIC_AUTHORIZATION_FAILED.0;
        let by_id = context.version >= OFFSETS_BY_ID;
        let mut refused_topics = Vec::new();
        for group in &mut request.groups {
            let Some(topics) = &mut group.topics else { continue };
            let refused =
                split(topics, |topic| self.may_use(context, Operation::Describe, by_id, topic.topic_id, &topic.name));
            let partition = |&partition_index: &i32| OffsetFetchResponsePartitions {
                partition_index,
                committed_offset: -1,
                committed_leader_epoch: -1,
                error_code: FAILED,
                ..OffsetFetchResponsePartitions::default()
            };
            let topic = |topic: offset_fetch::OffsetFetchRequestTopics<'_>| OffsetFetchResponseTopics {
                name: Cow::Owned(topic.name.into_owned()),
                topic_id: topic.topic_id,
                partitions: topic.partition_indexes.iter().map(partition).collect(),
            };
            if !refused.is_empty() {
                refused_topics.push(OffsetFetchResponseGroup {
                    group_id: Cow::Owned(group.group_id.to_string()),
                    topics: refused.into_iter().map(topic).collect(),
                    ..OffsetFetchResponseGroup::default()
                });
            }
        }
        let mut older_topics = Vec::new();
        if let Some(topics) = &mut request.topics {
            let partition = |&partition_index: &i32| OffsetFetchResponsePartition {
                partition_index,
                committed_offset: -1,
                committed_leader_epoch: -1,
                error_code: FAILED,
                ..OffsetFetchResponsePartition::default()
            };
            for topic in split(topics, |topic| self.may_topic(context, Operation::Describe, &topic.name)) {
                older_topics.push(OffsetFetchResponseTopic {
                    partitions: topic.partition_indexes.iter().map(partition).collect(),
                    name: Cow::Owned(topic.name.into_owned()),
                });
            }
        }
        let may = |group: &offset_fetch::OffsetFetchRequestGroup<'_>| {
            self.may_group(context, Operation::Describe, &group.group_id)
        };
        refuse_entries!(self, context, OffsetFetch(request).groups, GROUP_AUTHORIZATION_FAILED, may);
        refused_topics.retain(|group| self.may_group(context, Operation::Describe, &group.group_id));
        if !refused_topics.is_empty() || !older_topics.is_empty() {
            let response =
                OffsetFetchResponse { groups: refused_topics, topics: older_topics, ..OffsetFetchResponse::default() };
            self.keep_refusal(context.id, Response::OffsetFetch(response));
        }
    }

    fn admit_offset_delete(&mut self, context: &RequestContext, request: &mut OffsetDeleteRequest<'_>) {
        let refused = split(&mut request.topics, |topic| self.may_topic(context, Operation::Read, &topic.name));
        let partition = |partition: &offset_delete::OffsetDeleteRequestPartition| OffsetDeleteResponsePartition {
            partition_index: partition.partition_index,
            error_code: ErrorCode::TOPIC_AUTHORIZATION_FAILED.0,
        };
        let topic = |topic: offset_delete::OffsetDeleteRequestTopic<'_>| OffsetDeleteResponseTopic {
            partitions: topic.partitions.iter().map(partition).collect(),
            name: Cow::Owned(topic.name.into_owned()),
        };
        if !refused.is_empty() {
            let topics = refused.into_iter().map(topic).collect();
            self.keep_refusal(
                context.id,
                Response::OffsetDelete(OffsetDeleteResponse { topics, ..Default::default() }),
            );
        }
    }
}

fn coordinator_error(is_group: bool) -> ErrorCode {
    if is_group { ErrorCode::GROUP_AUTHORIZATION_FAILED } else { ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED }
}
