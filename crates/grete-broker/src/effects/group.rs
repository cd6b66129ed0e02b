//! Changes of groups and of their offsets. They are in the folder of the effects, because the coordinator itself
//! depends on the effects.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::consumer_group::ConsumerChange;
use crate::ids::{Millis, TopicPartition};

/// Change of a group, like a record of Kafka's topic `__consumer_offsets`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum GroupChange {
    /// The group has new metadata: a generation is complete, a static member was replaced, or the group is empty.
    Metadata {
        /// `group.id`.
        group: Arc<str>,
        /// State that a restarted coordinator continues with.
        metadata: GroupMetadata,
    },
    /// Offsets were committed. They create the group if necessary.
    Offsets {
        /// `group.id`.
        group: Arc<str>,
        /// Producer whose transaction contains the offsets. `None`: the offsets are valid at once.
        producer_id: Option<i64>,
        /// Offsets, in the order of the request.
        offsets: Vec<(TopicPartition, CommittedOffset)>,
    },
    /// Offsets were deleted or expired, also those of open transactions.
    OffsetsDeleted {
        /// `group.id`.
        group: Arc<str>,
        /// Partitions that have no offset any more.
        partitions: Vec<TopicPartition>,
    },
    /// A transaction ended. Its offsets become valid or disappear, in all groups.
    TransactionEnded {
        /// Producer of the transaction.
        producer_id: i64,
        /// Whether the transaction was committed.
        commit: bool,
    },
    /// The group was deleted with all its offsets.
    Deleted {
        /// `group.id`.
        group: Arc<str>,
    },
    /// A group of the consumer protocol changed.
    Consumer {
        /// `group.id`.
        group: Arc<str>,
        /// Change.
        change: ConsumerChange,
    },
}

/// Durable state of a group's membership: the last generation that was complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupMetadata {
    /// Protocol type, for example `consumer`. `None`: no member has ever joined.
    pub protocol_type: Option<Arc<str>>,
    /// Elected protocol. `None`: the group is empty.
    pub protocol: Option<Arc<str>>,
    /// Member id of the leader. `None`: the group is empty.
    pub leader: Option<Arc<str>>,
    /// Generation id, from 0.
    pub generation: i32,
    /// Time at which the group entered its state. The retention of an empty group's offsets begins here.
    pub state_since: Millis,
    /// Members. None: the group is empty.
    pub members: Vec<MemberMetadata>,
}

/// Durable state of a member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemberMetadata {
    /// Member id.
    pub member_id: Arc<str>,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<Arc<str>>,
    /// `client.id`.
    pub client_id: Arc<str>,
    /// Address of the client.
    pub client_host: Arc<str>,
    /// Rebalance timeout in milliseconds.
    pub rebalance_timeout_ms: i64,
    /// Session timeout in milliseconds.
    pub session_timeout_ms: i64,
    /// Metadata of the member for the elected protocol.
    pub subscription: Arc<[u8]>,
    /// Assignment by the leader. Empty: the leader assigned nothing.
    pub assignment: Arc<[u8]>,
}

/// Committed offset of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommittedOffset {
    /// Offset of the next record to read.
    pub offset: i64,
    /// Leader epoch of the last record that was read. -1: unknown.
    pub leader_epoch: i32,
    /// Text of the client.
    pub metadata: Arc<str>,
    /// Time of the commit.
    pub committed_at: Millis,
    /// Time at which the offset expires, from the retention time in a request before version 5. `None`: the broker's
    /// retention is in force.
    pub expires_at: Option<Millis>,
}
