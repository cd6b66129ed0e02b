//! What goes into the group machine and what comes out.

use std::sync::Arc;

use grete_wire::ErrorCode;

use super::error::{CommitError, GroupError};
use crate::ids::{NodeId, TopicPartition};
use crate::request::{Outgoing, Reply};
use crate::time::Nanos;

/// What happened outside.
#[derive(Debug, Clone)]
pub enum GroupEvent {
    /// Subscribe: join the group; again with other topics: change the subscription.
    Start {
        /// Topic names.
        topics: Vec<Arc<str>>,
    },
    /// Standalone use (`assign`): these partitions were assigned by the caller, under the caller's epoch. Nothing is
    /// joined; commits and positions go by generation -1.
    Assigned {
        /// The partitions.
        tps: Vec<TopicPartition>,
        /// The caller's assignment epoch.
        epoch: u32,
        /// Whether to look up their committed offsets; each is answered by [`GroupAction::Position`].
        load: bool,
    },
    /// Standalone use: these are no longer assigned.
    Unassigned {
        /// The partitions.
        tps: Vec<TopicPartition>,
    },
    /// The deadline has passed, or the driver just came by.
    Tick,
    /// The answer to one of our requests.
    Reply(Reply),
    /// Partition counts may have changed.
    MetadataChanged,
    /// The work on the partitions of this [`GroupAction::Revoke`] is done and committed.
    RevokeAcked {
        /// The epoch of the revocation.
        epoch: u32,
    },
    /// Commit these offsets.
    Commit {
        /// Newest wins per partition.
        offsets: Vec<CommitOffset>,
        /// Comes back in [`GroupAction::CommitResult`]; 0 for commits in the background.
        id: u32,
    },
    /// Revoke everything, commit what comes in until then, leave, and say [`GroupAction::Left`] by `deadline`.
    Leave {
        /// When to be done at the latest.
        deadline: Nanos,
    },
}

/// One partition's offset to commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitOffset {
    /// The partition.
    pub tp: TopicPartition,
    /// The next offset to be read.
    pub offset: i64,
    /// Leader epoch of the record before it; -1 if unknown.
    pub leader_epoch: i32,
    /// Free text that is stored with the offset.
    pub metadata: String,
    /// The assignment epoch under which the offset was earned.
    pub epoch: u32,
}

/// What became of one partition of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitOutcome {
    /// The partition.
    pub tp: TopicPartition,
    /// The offset that was stored or that failed; of several commits that were folded into one, the newest.
    pub offset: i64,
    /// Whether it is stored.
    pub result: Result<(), CommitError>,
}

/// What is to be done outside.
#[derive(Debug, Clone)]
pub enum GroupAction {
    /// Send it.
    Send(Outgoing),
    /// The coordinator's address; metadata may not know the node yet. Comes before the first request to it.
    LearnNode {
        /// The coordinator.
        node: NodeId,
        /// Host name or address.
        host: Arc<str>,
        /// Port.
        port: u16,
    },
    /// Keep metadata of these topics; as the leader we need those of other members, too.
    WatchTopics {
        /// All of them; replaces what was said before.
        topics: Vec<Arc<str>>,
    },
    /// These partitions are ours from now on, under this epoch. A [`GroupAction::Position`] follows for each.
    Assign {
        /// The partitions.
        tps: Vec<TopicPartition>,
        /// Their assignment epoch: larger than any before.
        epoch: u32,
    },
    /// Finish, commit and answer [`GroupEvent::RevokeAcked`] with this epoch. Commits of these partitions count until then.
    Revoke {
        /// The partitions.
        tps: Vec<TopicPartition>,
        /// Names the revocation (it is no assignment epoch).
        epoch: u32,
        /// When the group goes on without the answer.
        deadline: Nanos,
    },
    /// The deadline of a revocation has passed: its partitions are no longer ours, and their commits are refused.
    RevokeExpired {
        /// The partitions.
        tps: Vec<TopicPartition>,
        /// The revocation's.
        epoch: u32,
    },
    /// These partitions are gone already, somebody else may own them; those of an open revocation are among them.
    Lost {
        /// The partitions.
        tps: Vec<TopicPartition>,
    },
    /// Where an assigned partition starts.
    Position {
        /// The partition.
        tp: TopicPartition,
        /// Its assignment epoch.
        epoch: u32,
        /// The committed offset; `None` if the group has none, and only then.
        start: Option<i64>,
        /// The leader epoch stored with it; -1 if unknown.
        leader_epoch: i32,
        /// The text stored with it; empty without a commit.
        metadata: String,
    },
    /// What became of a commit.
    CommitResult {
        /// The commit's; 0 for those in the background.
        id: u32,
        /// One per partition.
        results: Vec<CommitOutcome>,
    },
    /// Out of the group, or as good as.
    Left,
    /// For logs and events.
    Notice(GroupNotice),
    /// The group cannot go on; nothing is owned any more.
    Fatal(GroupError),
}

/// Counts since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupStats {
    /// Assignments that were taken in.
    pub rebalances: u64,
    /// Partitions that went without a revocation.
    pub lost_partitions: u64,
    /// Offsets that the coordinator has stored; of several of a partition that were folded into one, that one.
    pub commits: u64,
    /// Offsets that it has not stored, and never will. (Not those of partitions that had been given up meanwhile.)
    pub commit_failures: u64,
}

/// Why partitions were lost without a revocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LostReason {
    /// No acknowledged heartbeat for the session timeout.
    #[error("no heartbeat was acknowledged for session.timeout.ms")]
    SessionExpired,
    /// The coordinator does not count us in any more.
    #[error("the coordinator has put this member out of the group: {0}")]
    Fenced(ErrorCode),
    /// The group cannot go on.
    #[error("the group cannot go on")]
    Fatal,
}

/// For logs and events; nothing needs to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupNotice {
    /// The coordinator is known.
    CoordinatorFound {
        /// Which broker.
        node: NodeId,
    },
    /// The coordinator has to be looked for again.
    CoordinatorLost {
        /// Which broker.
        node: NodeId,
        /// What it, or the connection, said.
        reason: String,
    },
    /// This member joins (again).
    RebalanceStarted {
        /// Why.
        reason: String,
    },
    /// The coordinator let us in.
    Joined {
        /// The group's generation.
        generation: i32,
        /// Whether we assign.
        leader: bool,
        /// Our id.
        member_id: String,
        /// The elected assignor.
        protocol: &'static str,
    },
    /// A generation is complete.
    Assigned {
        /// The group's generation.
        generation: i32,
        /// All that is ours.
        tps: Vec<TopicPartition>,
    },
    /// Out without a word: the coordinator keeps this static member's place for the session timeout.
    PlaceKept {
        /// `group.instance.id`.
        instance: Arc<str>,
        /// How long.
        session_ms: u64,
    },
    /// A revocation is over.
    Revoked {
        /// The partitions.
        tps: Vec<TopicPartition>,
        /// Whether nobody acknowledged it in time.
        expired: bool,
    },
    /// Partitions went without a revocation.
    Lost {
        /// The partitions.
        tps: Vec<TopicPartition>,
        /// Why.
        reason: LostReason,
    },
    /// A commit in the background was not stored.
    CommitFailed {
        /// The partition.
        tp: TopicPartition,
        /// The offset.
        offset: i64,
        /// Why.
        error: CommitError,
    },
    /// The broker stores no text of such a length: from now on commits go without.
    MetadataRefused {
        /// How many bytes of text were too many.
        bytes: usize,
    },
    /// A join was refused or failed; it is tried again.
    JoinRetried {
        /// What the broker or the connection said.
        reason: String,
    },
    /// A committed offset could not be read; it is tried again.
    LoadRetried {
        /// What the broker or the connection said.
        reason: String,
    },
    /// As the leader, we know no partitions of a topic that a member subscribes to.
    TopicUnknown {
        /// The topic.
        topic: Arc<str>,
    },
}
