//! Changes of groups of the consumer protocol (KIP-848), and the members that they store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{Millis, TopicId};

/// Partitions of a target assignment, by topic.
pub type Partitions = BTreeMap<TopicId, BTreeSet<i32>>;

/// Partitions that a member has, by topic, with the epoch at which the member got each (KIP-1251).
pub type OwnedPartitions = BTreeMap<TopicId, BTreeMap<i32, i32>>;

/// Topics that the members subscribe to and that exist, by name: id and number of partitions.
pub type SubscribedTopics = BTreeMap<Arc<str>, (TopicId, i32)>;

/// Change of a group of the consumer protocol. The first one makes a group of the classic protocol, which has no members
/// then, a group of the consumer protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ConsumerChange {
    /// The group has a new epoch: members or topics changed.
    Epoch {
        /// Group epoch, from 2.
        epoch: i32,
        /// Topics on which the epoch is based.
        topics: SubscribedTopics,
    },
    /// The coordinator computed a target assignment.
    Target {
        /// Group epoch of which the assignment is.
        epoch: i32,
        /// Time of the computation.
        computed_at: Millis,
        /// Members whose target changed, with all partitions of the new one.
        changed: Vec<(Arc<str>, Partitions)>,
    },
    /// A member joined or changed.
    Member(ConsumerMember),
    /// A member left or was fenced, with its target.
    MemberRemoved {
        /// Member id.
        member_id: Arc<str>,
    },
}

/// How far a member has come on its way to the target assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberState {
    /// The member has got the assignment of its epoch.
    Stable,
    /// The member has to give up partitions before it can have a newer epoch.
    UnrevokedPartitions,
    /// The member waits for partitions that other members have not given up yet.
    UnreleasedPartitions,
}

/// Member of a group of the consumer protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumerMember {
    /// Member id.
    pub member_id: Arc<str>,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<Arc<str>>,
    /// `client.rack`.
    pub rack_id: Option<Arc<str>>,
    /// `client.id`.
    pub client_id: Arc<str>,
    /// Address of the client.
    pub client_host: Arc<str>,
    /// Time in milliseconds in which the member has to give up partitions. -1: the member has not said it.
    pub rebalance_timeout_ms: i32,
    /// `group.remote.assignor`. `None`: the group's default.
    pub assignor: Option<Arc<str>>,
    /// Names of the subscribed topics.
    pub topics: BTreeSet<Arc<str>>,
    /// Subscribed regular expression. Empty: none.
    pub regex: Arc<str>,
    /// Member epoch. 0: the member joins. -2: the static member has left, and its place is kept.
    pub epoch: i32,
    /// Member epoch before the last change.
    pub previous_epoch: i32,
    /// Progress towards the target assignment.
    pub state: MemberState,
    /// Partitions that the member may have.
    pub assigned: OwnedPartitions,
    /// Partitions that the member has to give up. They are not assigned any more.
    pub revoking: OwnedPartitions,
}
