//! Events and actions of a consumer group.

use std::sync::Arc;

use grete_wire::ErrorCode;

use super::error::{CommitError, GroupError};
use crate::ids::{NodeId, TopicPartition};
use crate::request::{OutboundRequest, Reply};
use crate::time::Nanos;

/// Input of [`ConsumerGroup::step`](super::ConsumerGroup::step).
#[derive(Debug, Clone)]
pub enum GroupEvent {
    /// Subscribe to topics: join the group or, if already subscribed, change the subscription.
    Subscribe {
        /// Topics of the subscription.
        topics: Vec<Arc<str>>,
    },
    /// Standalone use (`assign`): the caller assigned these partitions, under its own epoch. The group is not joined;
    /// commits carry generation -1.
    Assigned {
        /// Assigned partitions.
        tps: Vec<TopicPartition>,
        /// Assignment epoch of the caller.
        epoch: u32,
        /// Whether to look up the committed offsets; each is answered by [`GroupAction::Position`].
        fetch_offsets: bool,
    },
    /// Standalone use: the caller unassigned these partitions.
    Unassigned {
        /// Unassigned partitions.
        tps: Vec<TopicPartition>,
    },
    /// The deadline passed, or the driver polls.
    Tick,
    /// Response or failure of a request of the group.
    Reply(Reply),
    /// Partition counts may have changed.
    MetadataChanged,
    /// The work on the partitions of a [`GroupAction::Revoke`] is done and its offsets are committed.
    RevocationAcked {
        /// Epoch of the revocation.
        epoch: u32,
    },
    /// Commit these offsets.
    Commit {
        /// Offsets to commit; the newest one of a partition wins.
        offsets: Vec<CommitOffset>,
        /// Request id for [`GroupAction::CommitResult`]; 0 for background commits.
        id: u32,
    },
    /// The client closes: commits from now on are its last ones, and none of them waits for an ACL that is missing.
    Closing,
    /// Result of a [`GroupAction::CommitTransaction`].
    TransactionDone {
        /// Number of the transaction.
        number: u32,
        /// Result.
        result: TransactionResult,
    },
    /// The work on these partitions since their last commit does not count: their offsets must not be committed.
    Discard {
        /// Partitions.
        tps: Vec<TopicPartition>,
    },
    /// Revoke all partitions, commit the offsets that arrive until then, leave, and emit [`GroupAction::Left`] by
    /// `deadline`.
    Leave {
        /// Time by which the group must be left.
        deadline: Nanos,
        /// Whether a static member's place is kept for its successor (KIP-345), without LeaveGroup. A dynamic member
        /// leaves in any case.
        remain_in_group: bool,
    },
}

/// Offset of one partition to commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitOffset {
    /// Topic and partition.
    pub tp: TopicPartition,
    /// Id of the topic that the offset belongs to; 0: unknown; [`CommitOffset::DELETED_TOPIC`]: that topic no longer
    /// exists.
    pub topic_id: u128,
    /// Next offset to read.
    pub offset: i64,
    /// Leader epoch of the record before `offset`; -1 when unknown.
    pub leader_epoch: i32,
    /// Text stored with the offset.
    pub metadata: String,
    /// Assignment epoch under which the offset was processed.
    pub epoch: u32,
}

impl CommitOffset {
    /// Id that marks a deleted topic, even if a new topic of the same name exists. No topic has this id.
    pub const DELETED_TOPIC: u128 = u128::MAX;
}

/// Result of a transaction with offsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransactionResult {
    /// The offsets are committed.
    Committed,
    /// The transaction was aborted, because the group refused the offsets of this member.
    MemberReplaced(ErrorCode),
    /// The transaction was aborted: the offsets are committed again, in another one. With the cause.
    Aborted(String),
    /// No transaction can commit the offsets.
    Failed(ErrorCode),
}

/// Result of a commit for one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitOutcome {
    /// Topic and partition.
    pub tp: TopicPartition,
    /// Offset that was stored or failed; if several commits were merged, the newest offset.
    pub offset: i64,
    /// `Ok` if the offset is stored.
    pub result: Result<(), CommitError>,
}

/// Output of [`ConsumerGroup::step`](super::ConsumerGroup::step), for the consumer to carry out.
#[derive(Debug, Clone)]
pub enum GroupAction {
    /// Send a request through the cluster.
    Send(OutboundRequest),
    /// Address of the coordinator, which the metadata may not contain yet. Precedes the first request to that node.
    LearnNode {
        /// Node id of the coordinator.
        node: NodeId,
        /// Host name or address.
        host: Arc<str>,
        /// TCP port.
        port: u16,
    },
    /// Keep the metadata of these topics; a leader needs the other members' topics, too.
    WatchTopics {
        /// All topics; replaces the previous list.
        topics: Vec<Arc<str>>,
    },
    /// This member now owns these partitions, under this epoch. A [`GroupAction::Position`] follows for each.
    Assign {
        /// Assigned partitions.
        tps: Vec<TopicPartition>,
        /// Assignment epoch, larger than any before.
        epoch: u32,
    },
    /// Finish, commit, and answer with [`GroupEvent::RevocationAcked`]. Commits of these partitions count until then.
    Revoke {
        /// Partitions to revoke.
        tps: Vec<TopicPartition>,
        /// Epoch of the revocation (not an assignment epoch).
        epoch: u32,
        /// Time at which the group continues without the acknowledgement.
        deadline: Nanos,
    },
    /// The deadline of a revocation passed: the member no longer owns its partitions, and their commits are refused.
    RevocationExpired {
        /// Revoked partitions.
        tps: Vec<TopicPartition>,
        /// Epoch of the revocation.
        epoch: u32,
    },
    /// The member has lost these partitions, including those of open revocations; other members may own them already.
    Lost {
        /// Lost partitions.
        tps: Vec<TopicPartition>,
    },
    /// Start position of an assigned partition.
    Position {
        /// Topic and partition.
        tp: TopicPartition,
        /// Assignment epoch of the partition.
        epoch: u32,
        /// Committed offset; `None` only if the group has certainly no committed offset.
        start: Option<i64>,
        /// Leader epoch stored with the offset; -1 when unknown.
        leader_epoch: i32,
        /// Metadata stored with the offset; empty without a committed offset.
        metadata: String,
    },
    /// The member may not read the committed offset of an assigned partition; the lookup is retried.
    NotAuthorized {
        /// Topic and partition.
        tp: TopicPartition,
    },
    /// The metadata is stale: the coordinator does not know a topic that the metadata contains.
    RefreshMetadata,
    /// Commit these offsets, and the work that belongs to them, in a transaction. Answer with
    /// [`GroupEvent::TransactionDone`].
    CommitTransaction {
        /// Number of the transaction, from 1.
        number: u32,
        /// Generation of the member; -1 outside the group.
        generation: i32,
        /// Id of the member; empty outside the group.
        member_id: String,
        /// Offsets, one for each partition.
        offsets: Vec<CommitOffset>,
    },
    /// Result of a commit.
    CommitResult {
        /// Request id of the commit; 0 for background commits.
        id: u32,
        /// One result per partition.
        results: Vec<CommitOutcome>,
    },
    /// The member has left the group, or the deadline for leaving passed.
    Left,
    /// Log this event.
    LogEvent(GroupLogEvent),
    /// The group failed for good; the member owns no partitions.
    Fatal(GroupError),
}

/// Counters since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupStats {
    /// Assignments that were applied.
    pub rebalances: u64,
    /// Partitions lost without a revocation.
    pub lost_partitions: u64,
    /// Offsets that the coordinator stored; commits of one partition that were merged count once.
    pub commits: u64,
    /// Offsets that failed for good. (Offsets of partitions that were revoked meanwhile do not count.)
    pub commit_failures: u64,
}

/// Reason why partitions were lost without a revocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LostReason {
    /// No heartbeat was acknowledged for the session timeout.
    #[error("no heartbeat was acknowledged for session.timeout.ms")]
    SessionExpired,
    /// The coordinator no longer counts this member in.
    #[error("the coordinator removed this member from the group: {0}")]
    Fenced(ErrorCode),
    /// The group failed for good.
    #[error("the group failed for good")]
    Fatal,
}

/// Log event of a group; requires no action.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupLogEvent {
    /// The coordinator was found.
    CoordinatorFound {
        /// Node id of the coordinator.
        node: NodeId,
    },
    /// The coordinator failed and must be looked up again.
    CoordinatorLost {
        /// Node id of the coordinator.
        node: NodeId,
        /// Error of the request or connection.
        reason: String,
    },
    /// The member starts to join (again).
    RebalanceStarted {
        /// Reason for the join.
        reason: String,
    },
    /// The coordinator accepted the member.
    Joined {
        /// Generation id of the group, or member epoch.
        generation: i32,
        /// Whether this member is the group leader.
        leader: bool,
        /// Member id from the coordinator.
        member_id: String,
        /// Elected assignor, or `consumer protocol` (KIP-848).
        protocol: &'static str,
    },
    /// With `group.protocol=auto`: the member uses the classic protocol.
    ClassicProtocol {
        /// Reason against the consumer protocol.
        reason: String,
    },
    /// The member has its assignment of a new generation.
    Assigned {
        /// Generation id of the group.
        generation: i32,
        /// All partitions of this member.
        tps: Vec<TopicPartition>,
    },
    /// The member gave up the place of the process before, in its name.
    PredecessorReleased {
        /// Member id of the process before.
        member_id: Arc<str>,
        /// Whether its supervisor has reaped it; otherwise it had the `group.instance.id` of this member.
        is_dead: bool,
    },
    /// A static member closed without LeaveGroup: the coordinator keeps its place for the session timeout.
    RemainedInGroup {
        /// `group.instance.id`.
        instance: Arc<str>,
        /// `session.timeout.ms`.
        session_ms: u64,
    },
    /// A revocation ended.
    Revoked {
        /// Revoked partitions.
        tps: Vec<TopicPartition>,
        /// Whether the deadline passed without an acknowledgement.
        expired: bool,
    },
    /// Partitions were lost without a revocation.
    Lost {
        /// Lost partitions.
        tps: Vec<TopicPartition>,
        /// Reason of the loss.
        reason: LostReason,
    },
    /// A commit that no caller waits for failed for good.
    CommitFailed {
        /// Topic and partition.
        tp: TopicPartition,
        /// Offset of the commit.
        offset: i64,
        /// Error of the commit.
        error: CommitError,
        /// Number of other partitions whose offsets failed with this one.
        others: usize,
    },
    /// The broker refused the commit metadata for its length: commits carry no metadata from now on.
    CommitMetadataRejected {
        /// Length of the refused metadata, in bytes.
        bytes: usize,
    },
    /// A join was refused or failed, and is retried.
    JoinRetried {
        /// Error of the broker or the connection.
        reason: String,
    },
    /// The ACL on the group is missing; the request is retried.
    NotAuthorized {
        /// [`GroupError::GroupAuthorization`].
        error: GroupError,
        /// Whether the ACL was missing before.
        again: bool,
    },
    /// The ACL on the group is there again.
    Authorized,
    /// A committed offset could not be read; the lookup is retried.
    OffsetFetchRetried {
        /// Error of the broker or the connection.
        reason: String,
    },
    /// This member is the leader, and the metadata contains no partitions of a topic in a member's subscription.
    UnknownTopic {
        /// Topic without partitions.
        topic: Arc<str>,
        /// Whether the topic may exist: the brokers do not say, because the client has no Describe on it.
        concealed: bool,
    },
}
