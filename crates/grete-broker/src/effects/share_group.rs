//! Changes of share groups (KIP-932): members, settings, and the states of records.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::consumer_group::Partitions;
use crate::ids::TopicId;

/// Change of a share group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShareChange {
    /// `group.id`.
    pub group: Arc<str>,
    /// Part of the group that changed.
    pub change: ShareGroupChange,
}

/// Part of a share group that changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ShareGroupChange {
    /// The group has a new epoch: members or topics changed.
    Epoch(i32),
    /// A member joined or changed.
    Member(ShareMember),
    /// A member left, or its session ended.
    MemberRemoved {
        /// Member id.
        member_id: Arc<str>,
    },
    /// The group was deleted, with the states of its records. Its settings stay.
    Deleted,
    /// The settings of the group were changed: all that differ from the broker's, by name.
    Configured(Vec<(String, String)>),
    /// Records of a partition have a new state.
    Partition {
        /// Topic.
        topic: TopicId,
        /// Index of the partition.
        partition: i32,
        /// First offset that is not done (share-partition start offset).
        start: i64,
        /// Ranges with a new state.
        ranges: Vec<StoredRange>,
    },
    /// The states of a partition's records are gone: its topic was deleted, or its offsets were.
    PartitionDeleted {
        /// Topic.
        topic: TopicId,
        /// Index of the partition.
        partition: i32,
    },
}

/// Consecutive offsets of one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRange {
    /// First offset.
    pub first: i64,
    /// Last offset.
    pub last: i64,
    /// Number of deliveries of records that members get again. `None`: no member gets the records again.
    pub deliveries: Option<i16>,
}

/// Member of a share group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareMember {
    /// Member id.
    pub member_id: Arc<str>,
    /// `client.rack`.
    pub rack_id: Option<Arc<str>>,
    /// `client.id`.
    pub client_id: Arc<str>,
    /// Address of the client.
    pub client_host: Arc<str>,
    /// Names of the subscribed topics.
    pub topics: BTreeSet<Arc<str>>,
    /// Member epoch. 0: the member joins.
    pub epoch: i32,
    /// Member epoch before the last change.
    pub previous_epoch: i32,
    /// Partitions that the member reads. Several members may read one.
    pub assigned: Partitions,
}
