//! Handlers of the admin operations, one file per noun, and their items.

mod acls;
mod await_propagation;
mod configs;
mod describe_cluster;
mod describe_groups;
mod describe_topics;
mod group_offsets;
mod groups;
mod items;
mod list_offsets;
mod remove_members;
mod topics;
mod transactions;
mod util;

pub(super) use acls::{CreateAcls, DeleteAcls, DescribeAcls};
pub(super) use await_propagation::AwaitPropagation;
pub(super) use configs::{AlterConfigs, DescribeConfigs};
pub(super) use describe_cluster::DescribeCluster;
pub(super) use describe_groups::{DescribeClassicGroups, DescribeConsumerGroups, DescribeShareGroups};
pub(super) use describe_topics::DescribeTopics;
pub(super) use group_offsets::{
    AlterShareOffsets, CommitOffsets, DeleteOffsets, DeleteShareOffsets, FetchOffsets, FetchShareOffsets,
};
pub(super) use groups::{DeleteGroups, ListGroups};
pub(super) use items::{Broker, Group, LoneTransactionalId, OnlyItem, StaticMember, Topic, TransactionalId};
pub(super) use list_offsets::{DeleteRecords, ListOffsets};
pub(super) use remove_members::RemoveMembers;
pub(super) use topics::{CreatePartitions, CreateTopics, DeleteTopics};
pub(super) use transactions::{
    AbortTransaction, DescribeProducers, DescribeTransactions, FenceProducers, ListTransactions,
};
