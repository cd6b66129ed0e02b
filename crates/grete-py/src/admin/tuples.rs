//! Conversion of descriptions to tuples, from which `grete.client` builds its classes.

use grete_client::{PartitionLag, ResetPlan};
use grete_proto::admin::{
    AclBinding, AclFilter, ActiveProducer, ClusterDescription, ConfigEntry, GroupDescription, GroupListing,
    MemberDescription, PartitionDescription, ShareOffset, TopicDescription, TransactionDescription, TransactionListing,
};
use grete_proto::ids::TopicPartition;

/// Id, leader, leader epoch, replicas, in-sync replicas.
pub(super) type PartitionTuple = (i32, Option<i32>, i32, Vec<i32>, Vec<i32>);
/// Name, id, internal, partitions, operations that the client may do.
pub(super) type TopicTuple = (String, u128, bool, Vec<PartitionTuple>, i32);
/// Id, host, port, rack.
pub(super) type BrokerTuple = (i32, String, i32, Option<String>);
/// Id, controller, brokers.
pub(super) type ClusterTuple = (String, Option<i32>, Vec<BrokerTuple>);
/// Name, value, source, read-only, sensitive.
pub(super) type ConfigTuple = (String, Option<String>, &'static str, bool, bool);
/// Group, protocol type, state, kind.
pub(super) type GroupListingTuple = (String, String, String, String);
/// Id, instance, client, host, partitions.
pub(super) type MemberTuple = (String, Option<String>, String, String, Vec<(String, i32)>);
/// Group, state, protocol, protocol type, assignor, coordinator, members.
pub(super) type GroupTuple = (String, String, &'static str, String, String, i32, Vec<MemberTuple>);
/// Resource type, name, pattern type, principal, host, operation, permission.
pub(super) type AclTuple = (i8, String, i8, String, String, i8, i8);
/// The same of a filter; None: every value.
pub(super) type AclFilterTuple = (i8, Option<String>, i8, Option<String>, Option<String>, i8, i8);
/// Transactional id, producer id, state, coordinator.
pub(super) type TransactionListingTuple = (String, i64, String, i32);
/// Transactional id, coordinator, state, timeout in ms, start in ms, producer id, producer epoch, partitions.
pub(super) type TransactionTuple = (String, i32, String, i32, Option<i64>, i64, i16, Vec<(String, i32)>);
/// Producer id, producer epoch, last sequence, last timestamp in ms, coordinator epoch, start of the transaction.
pub(super) type ProducerTuple = (i64, i32, i32, i64, i32, Option<i64>);
/// Topic, partition, committed, end.
pub(super) type LagTuple = (String, i32, i64, Option<i64>);
/// Topic, partition, start offset, records that are not done.
pub(super) type ShareOffsetTuple = (String, i32, Option<i64>, Option<i64>);
/// Topic, partition, before, after.
pub(super) type ResetTuple = (String, i32, Option<i64>, i64);

fn partition(partition: PartitionDescription) -> PartitionTuple {
    (partition.id, partition.leader, partition.leader_epoch, partition.replicas, partition.isr)
}

pub(super) fn topic(topic: TopicDescription) -> TopicTuple {
    (topic.name, topic.id, topic.internal, topic.partitions.into_iter().map(partition).collect(), topic.operations)
}

pub(super) fn cluster(cluster: ClusterDescription) -> ClusterTuple {
    let brokers = cluster.brokers.into_iter().map(|broker| (broker.id, broker.host, broker.port, broker.rack));
    (cluster.id, cluster.controller, brokers.collect())
}

pub(super) fn config(entry: ConfigEntry) -> ConfigTuple {
    (entry.name, entry.value, entry.source.name(), entry.read_only, entry.sensitive)
}

pub(super) fn listing(listing: GroupListing) -> GroupListingTuple {
    (listing.group, listing.protocol_type, listing.state, listing.kind)
}

fn member(member: MemberDescription) -> MemberTuple {
    let partitions = member.partitions.into_iter().map(|tp| (tp.topic.to_string(), tp.partition)).collect();
    (member.id, member.instance, member.client, member.host, partitions)
}

pub(super) fn group(group: GroupDescription) -> GroupTuple {
    let members = group.members.into_iter().map(member).collect();
    (group.group, group.state, group.protocol.name(), group.protocol_type, group.assignor, group.coordinator, members)
}

pub(super) fn transaction_listing(listing: TransactionListing) -> TransactionListingTuple {
    (listing.transactional_id, listing.producer_id, listing.state, listing.coordinator)
}

pub(super) fn transaction(found: TransactionDescription) -> TransactionTuple {
    let partitions = found.partitions.into_iter().map(|tp| (tp.topic.to_string(), tp.partition)).collect();
    let TransactionDescription { transactional_id, coordinator, state, timeout_ms, started_ms, .. } = found;
    (transactional_id, coordinator, state, timeout_ms, started_ms, found.producer_id, found.producer_epoch, partitions)
}

pub(super) fn producer(found: ActiveProducer) -> ProducerTuple {
    let ActiveProducer { producer_id, producer_epoch, last_sequence, last_timestamp, .. } = found;
    (producer_id, producer_epoch, last_sequence, last_timestamp, found.coordinator_epoch, found.transaction_start)
}

pub(super) fn lag(lag: PartitionLag) -> LagTuple {
    (lag.tp.topic.to_string(), lag.tp.partition, lag.committed, lag.end)
}

pub(super) fn share_offset((tp, offset): (TopicPartition, ShareOffset)) -> ShareOffsetTuple {
    (tp.topic.to_string(), tp.partition, offset.start, offset.lag)
}

pub(super) fn reset(plan: ResetPlan) -> ResetTuple {
    (plan.tp.topic.to_string(), plan.tp.partition, plan.before, plan.after)
}

pub(super) fn acl(acl: AclBinding) -> AclTuple {
    (acl.resource_type, acl.name, acl.pattern, acl.principal, acl.host, acl.operation, acl.permission)
}

pub(super) fn acl_from((resource_type, name, pattern, principal, host, operation, permission): AclTuple) -> AclBinding {
    AclBinding { resource_type, name, pattern, principal, host, operation, permission }
}

pub(super) fn acl_filter_from(
    (resource_type, name, pattern, principal, host, operation, permission): AclFilterTuple,
) -> AclFilter {
    AclFilter { resource_type, name, pattern, principal, host, operation, permission }
}
