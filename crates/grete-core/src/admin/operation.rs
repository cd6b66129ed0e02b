//! What can be asked, and what is answered.

use std::sync::Arc;

use super::errands::{
    AlterConfigs, Alteration, ClusterDescription, CommitOffsets, CommittedOffset, ConfigEntry, CreatePartitions,
    CreateTopics, DeleteGroups, DeleteOffsets, DeleteRecords, DeleteTopics, DescribeCluster, DescribeConfigs,
    DescribeGroups, DescribeTopics, FetchOffsets, FoundOffset, GroupDescription, GroupListing, GroupProtocol,
    ListGroups, ListOffsets, NewTopic, PartitionResult, RemoveMembers, Resource, Spread, TopicDescription, When, Wish,
};
use super::error::AdminError;
use super::task::{Run, Task};
use crate::ids::{NodeId, TopicPartition};
use crate::rng::Backoff;
use crate::time::Nanos;

/// A question or an order. Names within one operation are given once.
#[derive(Debug, Clone)]
pub enum Operation {
    /// Answered with [`AdminReply::Done`], per topic.
    CreateTopics {
        /// Which.
        topics: Vec<NewTopic>,
        /// Only say whether it could be done.
        validate_only: bool,
    },
    /// Answered with [`AdminReply::Done`], per topic.
    DeleteTopics {
        /// Which.
        names: Vec<Arc<str>>,
    },
    /// Answered with [`AdminReply::Done`], per topic.
    CreatePartitions {
        /// Which topic shall have how many in all.
        totals: Vec<(Arc<str>, i32)>,
        /// Only say whether it could be done.
        validate_only: bool,
    },
    /// Answered with [`AdminReply::Done`], per broker, once it knows.
    Spread {
        /// Which brokers.
        nodes: Vec<NodeId>,
        /// What they shall know.
        wishes: Vec<(Arc<str>, Wish)>,
    },
    /// Answered with [`AdminReply::Topics`].
    DescribeTopics {
        /// Which; `None`: all.
        names: Option<Vec<Arc<str>>>,
    },
    /// Answered with [`AdminReply::Cluster`].
    DescribeCluster,
    /// Answered with [`AdminReply::Configs`], per resource.
    DescribeConfigs {
        /// Whose.
        resources: Vec<Resource>,
    },
    /// Answered with [`AdminReply::Done`], per resource.
    AlterConfigs {
        /// What.
        alterations: Vec<Alteration>,
        /// Only say whether it could be done.
        validate_only: bool,
    },
    /// Answered with [`AdminReply::Groups`], per broker.
    ListGroups {
        /// At these brokers.
        nodes: Vec<NodeId>,
        /// Only groups in these states; empty: in any.
        states: Vec<String>,
    },
    /// Answered with [`AdminReply::Described`], per group.
    DescribeGroups {
        /// Which.
        groups: Vec<Arc<str>>,
        /// Groups of the other protocol are not found.
        protocol: GroupProtocol,
    },
    /// Answered with [`AdminReply::Done`], per group.
    DeleteGroups {
        /// Which.
        groups: Vec<Arc<str>>,
    },
    /// Answered with [`AdminReply::Done`], per static member.
    RemoveMembers {
        /// Of which group.
        group: Arc<str>,
        /// Their `group.instance.id`s.
        instances: Vec<Arc<str>>,
    },
    /// Answered with [`AdminReply::Committed`].
    FetchOffsets {
        /// Whose.
        group: Arc<str>,
        /// Of which partitions; `None`: all that the group has.
        partitions: Option<Vec<TopicPartition>>,
        /// Wait for open transactions to decide about them (KIP-447).
        stable: bool,
    },
    /// Answered with [`AdminReply::Partitions`].
    CommitOffsets {
        /// Whose.
        group: Arc<str>,
        /// What.
        offsets: Vec<(TopicPartition, i64)>,
    },
    /// Answered with [`AdminReply::Partitions`].
    DeleteOffsets {
        /// Whose.
        group: Arc<str>,
        /// Of which partitions.
        partitions: Vec<TopicPartition>,
    },
    /// Answered with [`AdminReply::Offsets`], per start.
    ListOffsets {
        /// Which places of which partitions.
        starts: Vec<(TopicPartition, When)>,
        /// The end is where open transactions begin.
        read_committed: bool,
    },
    /// Answered with [`AdminReply::LowWatermarks`], per partition.
    DeleteRecords {
        /// All before these offsets; -1: all.
        before: Vec<(TopicPartition, i64)>,
    },
}

/// One result for each item, in the order of the question.
pub type Each<T> = Vec<Result<T, AdminError>>;

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub enum AdminReply {
    /// It is done.
    Done(Each<()>),
    /// One item: the topics, those that were named or all.
    Topics(Each<Vec<(String, Result<TopicDescription, AdminError>)>>),
    /// One item.
    Cluster(Each<ClusterDescription>),
    /// The settings of each resource.
    Configs(Each<Vec<ConfigEntry>>),
    /// The groups of each broker.
    Groups(Each<Vec<GroupListing>>),
    /// The groups.
    Described(Each<GroupDescription>),
    /// One item: the offsets.
    Committed(Each<Vec<PartitionResult<Option<CommittedOffset>>>>),
    /// One item: what became of each partition.
    Partitions(Each<Vec<PartitionResult<()>>>),
    /// The offsets.
    Offsets(Each<FoundOffset>),
    /// The first offsets still there.
    LowWatermarks(Each<i64>),
}

impl Operation {
    pub(super) fn start(self, end: Nanos, backoff: &Backoff) -> Box<dyn Run> {
        match self {
            Self::CreateTopics { topics, validate_only } => {
                Box::new(Task::new(CreateTopics::new(topics, validate_only), end, backoff))
            }
            Self::DeleteTopics { names } => Box::new(Task::new(DeleteTopics { names }, end, backoff)),
            Self::CreatePartitions { totals, validate_only } => {
                Box::new(Task::new(CreatePartitions::new(totals, validate_only), end, backoff))
            }
            Self::Spread { nodes, wishes } => Box::new(Task::new(Spread::new(nodes, wishes), end, backoff)),
            Self::DescribeTopics { names } => Box::new(Task::new(DescribeTopics { names }, end, backoff)),
            Self::DescribeCluster => Box::new(Task::new(DescribeCluster, end, backoff)),
            Self::DescribeConfigs { resources } => Box::new(Task::new(DescribeConfigs { resources }, end, backoff)),
            Self::AlterConfigs { alterations, validate_only } => {
                Box::new(Task::new(AlterConfigs::new(alterations, validate_only), end, backoff))
            }
            Self::ListGroups { nodes, states } => Box::new(Task::new(ListGroups { nodes, states }, end, backoff)),
            Self::DescribeGroups { groups, protocol } => {
                Box::new(Task::new(DescribeGroups { groups, protocol }, end, backoff))
            }
            Self::DeleteGroups { groups } => Box::new(Task::new(DeleteGroups { groups }, end, backoff)),
            Self::RemoveMembers { group, instances } => {
                Box::new(Task::new(RemoveMembers { group, instances }, end, backoff))
            }
            Self::FetchOffsets { group, partitions, stable } => {
                Box::new(Task::new(FetchOffsets { group, partitions, stable }, end, backoff))
            }
            Self::CommitOffsets { group, offsets } => {
                Box::new(Task::new(CommitOffsets { group, offsets }, end, backoff))
            }
            Self::DeleteOffsets { group, partitions } => {
                Box::new(Task::new(DeleteOffsets { group, partitions }, end, backoff))
            }
            Self::ListOffsets { starts, read_committed } => {
                Box::new(Task::new(ListOffsets { starts, read_committed }, end, backoff))
            }
            Self::DeleteRecords { before } => Box::new(Task::new(DeleteRecords { before }, end, backoff)),
        }
    }
}
