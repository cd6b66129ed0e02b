//! Replies to the operations of an admin client.

use super::error::AdminError;
use super::transaction_types::{ActiveProducer, TransactionDescription, TransactionListing};
use super::types::{
    AclBinding, ClusterDescription, CommittedOffset, ConfigEntry, GroupDescription, GroupListing, ListedOffset,
    PartitionResult, ShareOffset, TopicDescription,
};

/// One result per item, in the order of the operation's items.
pub type PerItem<T> = Vec<Result<T, AdminError>>;

/// Reply to an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum AdminReply {
    /// Success or error of each item.
    Done(PerItem<()>),
    /// One item: the requested topics, or all.
    Topics(PerItem<Vec<(String, Result<TopicDescription, AdminError>)>>),
    /// One item: the cluster.
    Cluster(PerItem<ClusterDescription>),
    /// Settings of each resource.
    Configs(PerItem<Vec<ConfigEntry>>),
    /// One item: the ACLs that were found.
    Acls(PerItem<Vec<AclBinding>>),
    /// One item: the result of each ACL.
    CreatedAcls(PerItem<PerItem<()>>),
    /// One item: the ACLs that each filter has removed.
    DeletedAcls(PerItem<PerItem<Vec<AclBinding>>>),
    /// Groups of each broker.
    GroupListings(PerItem<Vec<GroupListing>>),
    /// Description of each group.
    GroupDescriptions(PerItem<GroupDescription>),
    /// Transactional ids of each broker.
    TransactionListings(PerItem<Vec<TransactionListing>>),
    /// Description of each transactional id.
    TransactionDescriptions(PerItem<TransactionDescription>),
    /// Producers of each partition.
    Producers(PerItem<Vec<ActiveProducer>>),
    /// One item: the committed offsets; `None`: no offset is committed.
    Committed(PerItem<Vec<PartitionResult<Option<CommittedOffset>>>>),
    /// One item: the offsets of a share group.
    ShareOffsets(PerItem<Vec<PartitionResult<ShareOffset>>>),
    /// One item: the result of each partition.
    Partitions(PerItem<Vec<PartitionResult<()>>>),
    /// Offset of each position.
    Offsets(PerItem<ListedOffset>),
    /// First remaining offset of each partition.
    LowWatermarks(PerItem<i64>),
}
