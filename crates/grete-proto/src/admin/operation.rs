//! Operations of an admin client.

use std::sync::Arc;

use super::transaction_types::{AbortMarker, TransactionFilter};
use super::types::{
    AclBinding, AclFilter, ConfigAlteration, ConfigResource, ExpectedTopicState, GroupProtocol, NewTopic, OffsetSpec,
};
use crate::ids::{NodeId, TopicPartition};

/// Operation of an admin client; its reply is an [`AdminReply`](super::AdminReply). The names in one operation
/// must be unique.
#[derive(Debug, Clone)]
pub enum Operation {
    /// Creates topics. Reply: `AdminReply::Done`, per topic.
    CreateTopics {
        /// Topics to create.
        topics: Vec<NewTopic>,
        /// Only validate the request.
        validate_only: bool,
    },
    /// Deletes topics. Reply: `AdminReply::Done`, per topic.
    DeleteTopics {
        /// Names of the topics.
        names: Vec<Arc<str>>,
    },
    /// Adds partitions to topics. Reply: `AdminReply::Done`, per topic.
    CreatePartitions {
        /// Topics and their new total number of partitions.
        totals: Vec<(Arc<str>, i32)>,
        /// Only validate the request.
        validate_only: bool,
    },
    /// Waits until brokers know a change. Reply: `AdminReply::Done`, per broker.
    AwaitPropagation {
        /// Brokers to wait for.
        nodes: Vec<NodeId>,
        /// Expected state of each topic.
        expected: Vec<(Arc<str>, ExpectedTopicState)>,
    },
    /// Describes topics. Reply: `AdminReply::Topics`.
    DescribeTopics {
        /// Names of the topics; `None`: all.
        names: Option<Vec<Arc<str>>>,
    },
    /// Describes the cluster. Reply: `AdminReply::Cluster`.
    DescribeCluster,
    /// Describes settings. Reply: `AdminReply::Configs`, per resource.
    DescribeConfigs {
        /// Topics or brokers.
        resources: Vec<ConfigResource>,
    },
    /// Changes settings. Reply: `AdminReply::Done`, per resource.
    AlterConfigs {
        /// Changes of each resource.
        alterations: Vec<ConfigAlteration>,
        /// Only validate the request.
        validate_only: bool,
    },
    /// Lists the ACLs that a filter finds. Reply: `AdminReply::Acls`.
    DescribeAcls {
        /// Filter.
        filter: AclFilter,
    },
    /// Adds ACLs. Reply: `AdminReply::CreatedAcls`.
    CreateAcls {
        /// ACLs.
        acls: Vec<AclBinding>,
    },
    /// Removes the ACLs that filters find. Reply: `AdminReply::DeletedAcls`.
    DeleteAcls {
        /// Filters.
        filters: Vec<AclFilter>,
    },
    /// Lists groups. Reply: `AdminReply::GroupListings`, per broker.
    ListGroups {
        /// Brokers to query.
        nodes: Vec<NodeId>,
        /// States to filter by; empty: all states.
        states: Vec<String>,
    },
    /// Describes groups. Reply: `AdminReply::GroupDescriptions`, per group.
    DescribeGroups {
        /// Group ids.
        groups: Vec<Arc<str>>,
        /// Protocol of the groups; groups of the other protocol are not found.
        protocol: GroupProtocol,
    },
    /// Deletes groups. Reply: `AdminReply::Done`, per group.
    DeleteGroups {
        /// Group ids.
        groups: Vec<Arc<str>>,
    },
    /// Removes static members from a group. Reply: `AdminReply::Done`, per member.
    RemoveMembers {
        /// Group id.
        group: Arc<str>,
        /// `group.instance.id`s of the members.
        instances: Vec<Arc<str>>,
    },
    /// Lists transactional ids. Reply: `AdminReply::TransactionListings`, per broker.
    ListTransactions {
        /// Brokers to query.
        nodes: Vec<NodeId>,
        /// Filter.
        filter: TransactionFilter,
    },
    /// Describes transactional ids. Reply: `AdminReply::TransactionDescriptions`, per id.
    DescribeTransactions {
        /// Transactional ids.
        ids: Vec<Arc<str>>,
    },
    /// Describes the producers of partitions. Reply: `AdminReply::Producers`, per partition.
    DescribeProducers {
        /// Partitions.
        partitions: Vec<TopicPartition>,
    },
    /// Aborts the open transactions of ids, and fences their producers. Reply: `AdminReply::Done`, per id.
    FenceProducers {
        /// Transactional ids.
        ids: Vec<Arc<str>>,
    },
    /// Aborts a transaction in one partition. Reply: `AdminReply::Done`, one item.
    AbortTransaction {
        /// Partition.
        partition: TopicPartition,
        /// Producer whose transaction is aborted.
        marker: AbortMarker,
    },
    /// Fetches committed offsets. Reply: `AdminReply::Committed`.
    FetchOffsets {
        /// Group id.
        group: Arc<str>,
        /// Partitions; `None`: all with a committed offset.
        partitions: Option<Vec<TopicPartition>>,
        /// Wait for pending transactional offsets (KIP-447).
        stable: bool,
    },
    /// Fetches the offsets of a share group in all partitions that it has read. Reply: `AdminReply::ShareOffsets`.
    FetchShareOffsets {
        /// Group id.
        group: Arc<str>,
    },
    /// Sets the start offsets of a share group without members. Reply: `AdminReply::Partitions`.
    AlterShareOffsets {
        /// Group id.
        group: Arc<str>,
        /// Offset of the first record to hand out, per partition.
        offsets: Vec<(TopicPartition, i64)>,
    },
    /// Deletes the offsets of a share group without members, in all partitions of the topics named here. Reply:
    /// `AdminReply::Partitions`.
    DeleteShareOffsets {
        /// Group id.
        group: Arc<str>,
        /// Partitions to report on.
        partitions: Vec<TopicPartition>,
    },
    /// Commits offsets. Reply: `AdminReply::Partitions`.
    CommitOffsets {
        /// Group id.
        group: Arc<str>,
        /// Next offset to read, per partition.
        offsets: Vec<(TopicPartition, i64)>,
    },
    /// Deletes committed offsets. Reply: `AdminReply::Partitions`.
    DeleteOffsets {
        /// Group id.
        group: Arc<str>,
        /// Partitions whose offsets are deleted.
        partitions: Vec<TopicPartition>,
    },
    /// Lists offsets of the log. Reply: `AdminReply::Offsets`, per position.
    ListOffsets {
        /// Requested position of each partition.
        specs: Vec<(TopicPartition, OffsetSpec)>,
        /// Use the last stable offset as the end of the log.
        read_committed: bool,
    },
    /// Deletes records. Reply: `AdminReply::LowWatermarks`, per partition.
    DeleteRecords {
        /// First offset to keep, per partition; -1: delete all records.
        before: Vec<(TopicPartition, i64)>,
    },
}
