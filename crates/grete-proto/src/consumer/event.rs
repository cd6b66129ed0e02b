//! Events and actions of a consumer.

use std::sync::Arc;

use grete_wire::error_code::ErrorCode;
use grete_wire::frame::Frame;

use crate::admin::{AdminError, OffsetSpec};
use crate::cluster::ClusterLogEvent;
use crate::connection::CloseReason;
use crate::dispatch::{Committable, OffsetMap};
use crate::fetch::CompletedFetch;
use crate::group::{CommitOffset, CommitOutcome, GroupError, GroupLogEvent, TransactionResult};
use crate::ids::{ConnId, PartitionHandle, TopicPartition};
use crate::partition::error::PartitionError;
use crate::partition::log_event::FetchLogEvent;
use crate::position::StartPosition;
use crate::producer::GroupMetadata;
use crate::request::AddressFault;
use crate::sasl::GssResult;
use crate::share::{Acknowledgement, ShareLogEvent};
use crate::time::Nanos;
use crate::transport::TransportAction;

/// Start position of an assigned partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartOffset {
    /// The group's committed offset; without one, `auto.offset.reset` decides.
    Committed,
    /// A position given by the caller.
    At(StartPosition),
}

/// State of group membership, or of a manual assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MembershipStatus {
    /// Human-readable state: `stable`, `joining`, `revoking`, `assigned` (by hand) and so on.
    pub state: &'static str,
    /// Whether the assignment is complete: the group's assignment is applied, or the partitions were assigned by hand.
    pub ready: bool,
    /// Generation id of the group; -1 outside a group.
    pub generation: i32,
    /// Number of assigned partitions.
    pub partitions: usize,
}

/// Input of [`ConsumerCore::step`](super::ConsumerCore::step).
#[derive(Debug)]
pub enum ConsumerEvent {
    /// A deadline passed, or the network thread was woken.
    Tick,
    /// A connection is established.
    Connected(ConnId),
    /// A complete message arrived.
    Frame(ConnId, Frame),
    /// A connection is closed.
    Closed(ConnId, CloseReason),
    /// The GSSAPI library has answered a call for a connection.
    Gss(ConnId, GssResult),

    /// Consume these topics as a member of the group. Those that begin with `^` are patterns, see
    /// [`TopicPattern`](crate::topic_pattern::TopicPattern).
    Subscribe(Vec<Arc<str>>),
    /// Replace the assignment by these partitions, without the group coordinator.
    Assign {
        /// All partitions of the new assignment.
        partitions: Vec<(TopicPartition, StartOffset)>,
        /// Request id of the caller.
        id: u32,
    },
    /// Move the position of a partition.
    Seek(TopicPartition, StartOffset),
    /// Pause (true) or resume (false) fetching of a partition.
    Pause(TopicPartition, bool),
    /// Commit offsets. The answer is a [`ConsumerAction::Reply`], unless `id` is 0.
    Commit {
        /// Offsets to commit.
        offsets: Vec<Committable>,
        /// Request id of the caller; 0: no reply.
        id: u32,
    },
    /// Query the group's committed offsets.
    Committed {
        /// Partitions to query; duplicates are answered once.
        tps: Vec<TopicPartition>,
        /// Request id of the caller.
        id: u32,
    },
    /// Query offsets by specification. The reply keeps this order.
    ListOffsets {
        /// Partitions to query, each with its offset specification.
        starts: Vec<(TopicPartition, OffsetSpec)>,
        /// Request id of the caller.
        id: u32,
    },
    /// Query the number of partitions of a topic. The reply waits for the metadata.
    CountPartitions {
        /// Topic to query.
        topic: Arc<str>,
        /// Request id of the caller.
        id: u32,
    },
    /// Drop a query whose caller no longer waits.
    CancelQuery(u32),

    /// Bytes of partitions were released from the queue.
    Released(Vec<(PartitionHandle, usize)>),
    /// Further (decompressed) bytes of a partition are held.
    Charged(PartitionHandle, usize),
    /// Records of a share group are done or given back.
    Acknowledge {
        /// Acknowledgements by partition.
        acks: Vec<(PartitionHandle, Vec<Acknowledgement>)>,
        /// Number of held records that wait for a later attempt.
        delayed: usize,
    },
    /// Send what is acknowledged. The reply, an empty [`ConsumerReply::Commit`], comes when the leaders have answered.
    FlushAcks {
        /// Request id of the caller.
        id: u32,
    },
    /// Number of records of a share group that can be processed at once from now on.
    Concurrency(usize),
    /// A batch failed its check.
    Corrupt {
        /// Partition of the batch.
        slot: PartitionHandle,
        /// Generation under which the batch was fetched.
        generation: u32,
        /// Offset to fetch again from.
        offset: i64,
    },
    /// A revoked lane has drained. It has this offset left to commit, if any.
    Drained(PartitionHandle, Option<Committable>),
    /// There is something to commit: within the interval, or at once. Only with transactions.
    CommitDue {
        /// Whether the commit does not wait for the interval.
        at_once: bool,
    },
    /// Result of a [`ConsumerAction::CommitTransaction`], after
    /// [`Dispatch::end_transaction`](crate::dispatch::Dispatch::end_transaction). The partitions in `discarded` go on from
    /// their committed offsets, and other offsets of theirs are not committed.
    TransactionDone {
        /// Number of the transaction.
        number: u32,
        /// Result.
        result: TransactionResult,
        /// Partitions whose work does not count.
        discarded: Vec<TopicPartition>,
    },
    /// Stop periodic commits, commit `offsets`, leave the group and end the fetch sessions.
    Close {
        /// Offsets of the last commit. `None`: commit nothing, not even the offsets of lanes that drain while closing.
        offsets: Option<Vec<Committable>>,
        /// Time by which the close must be complete.
        deadline: Nanos,
        /// Whether to stay in the group: see [`crate::group::GroupEvent::Leave`].
        remain_in_group: bool,
    },
}

/// Output of [`ConsumerCore::step`](super::ConsumerCore::step), for the driver to carry out.
#[derive(Debug)]
pub enum ConsumerAction {
    /// Perform this action on a connection.
    Transport(TransportAction),

    /// A partition was assigned.
    AddPartition {
        /// Handle of the partition.
        slot: PartitionHandle,
        /// Topic and partition.
        tp: TopicPartition,
        /// Epoch of the assignment.
        assignment_epoch: u32,
    },
    /// The partition has a new position. Data fetched from now on carries this generation.
    Position {
        /// Partition with the new position.
        slot: PartitionHandle,
        /// First offset to deliver.
        offset: i64,
        /// Generation of the position.
        generation: u32,
        /// Whether that offset is the group's committed offset.
        committed: bool,
        /// Offsets beyond the position that are already processed, according to the commit's metadata.
        recovered_marks: OffsetMap,
    },
    /// Decode these batches.
    Push(CompletedFetch),
    /// The end of a partition became known or unknown.
    HighWatermark {
        /// Partition with the new end.
        slot: PartitionHandle,
        /// High watermark; -1 when unknown.
        high_watermark: i64,
        /// End of the readable records: the last stable offset with read_committed; -1 when unknown.
        readable_end: i64,
    },
    /// Revoke the partition: end its job, run its hook, then send [`ConsumerEvent::Drained`].
    RevokePartition {
        /// Partition to revoke.
        slot: PartitionHandle,
        /// Whether the group has already taken the partition away.
        lost: bool,
    },
    /// Abandon the partition's job, which missed the revocation deadline. Its result no longer counts.
    AbandonPartition(PartitionHandle),
    /// The user unassigned the partition.
    RemovePartition(PartitionHandle),
    /// Session deadline until which lanes of the group may run; `None`: there is no session.
    Session(Option<Nanos>),
    /// Collect the offsets that have advanced and send [`ConsumerEvent::Commit`] with id 0.
    CollectOffsets,
    /// Commit these offsets in a transaction, with the records that belong to them. Answer with
    /// [`ConsumerEvent::TransactionDone`].
    CommitTransaction {
        /// Number of the transaction, from 1.
        number: u32,
        /// Member of the group.
        member: Arc<GroupMetadata>,
        /// Offsets, one for each partition.
        offsets: Vec<CommitOffset>,
    },
    /// The commit of these partitions failed.
    CommitFailed(Vec<TopicPartition>),
    /// Number of bytes whose release the fetcher waits for; `None`: the fetcher does not wait for memory.
    AwaitingMemory(Option<usize>),
    /// Whether an acknowledgement can be sent at once, so that it wakes the network thread.
    AwaitsAcknowledgements(bool),

    /// Answer to the request with this id.
    Reply(u32, ConsumerReply),
    /// Log this event.
    LogEvent(ConsumerLogEvent),
    /// The position belongs to a deleted topic of the same name: fetched data and finished work no longer count. A
    /// [`ConsumerAction::Position`] follows.
    InvalidatePosition(PartitionHandle),
    /// A partition cannot be read.
    PartitionFailed {
        /// Failed partition.
        slot: PartitionHandle,
        /// Error that stopped the partition.
        error: PartitionError,
        /// Time of the failure.
        since: Nanos,
        /// Whether this repeats the report of a lasting failure.
        again: bool,
    },
    /// A failed partition is read again.
    PartitionRecovered {
        /// Recovered partition.
        slot: PartitionHandle,
        /// Error that had stopped the partition.
        error: PartitionError,
        /// Duration of the failure, in nanoseconds.
        lasted: Nanos,
    },
    /// The client has stopped for good.
    Fatal(ConsumerFatal),
    /// The close is complete: the driver's loop may end.
    Finished,
}

/// Answer to a caller's request.
#[derive(Debug)]
pub enum ConsumerReply {
    /// The assignment is in effect.
    Assigned,
    /// Result of a commit, per partition.
    Commit(Vec<CommitOutcome>),
    /// Committed offsets; `None`: no committed offset.
    Committed(Result<Vec<(TopicPartition, Option<i64>)>, AdminError>),
    /// Offset or error of each partition, in the order of the query.
    Offsets(Vec<Result<i64, AdminError>>),
    /// Partition count, or the topic's error code.
    Partitions(Result<i32, ErrorCode>),
}

/// Log event of a consumer.
#[derive(Debug, Clone)]
pub enum ConsumerLogEvent {
    /// Brokers and metadata.
    Cluster(ClusterLogEvent),
    /// Positions and fetching.
    Fetch(FetchLogEvent),
    /// Membership and commits.
    Group(GroupLogEvent),
    /// Records of share groups.
    Share(ShareLogEvent),
    /// A topic was deleted and created again. `auto.offset.reset` gave its partition a new position.
    TopicRecreated {
        /// Topic and partition.
        tp: TopicPartition,
        /// Position in the old topic.
        from: i64,
        /// Position in the new topic.
        to: i64,
    },
    /// Other topics match the patterns of the subscription.
    TopicsMatched {
        /// Patterns, separated by commas.
        patterns: String,
        /// Number of topics that match.
        topics: usize,
        /// Topics that match now and did not before, at most ten.
        added: Vec<Arc<str>>,
        /// Topics that matched before and do not exist any more, at most ten.
        removed: Vec<Arc<str>>,
    },
    /// A handler did not return before the revocation deadline.
    JobAbandoned(TopicPartition),
    /// The topic of manually assigned partitions does not exist (yet).
    UnknownTopic {
        /// Missing topic.
        topic: Arc<str>,
    },
    /// Manually assigned partitions do not exist in the topic.
    UnknownPartitions {
        /// Topic of the partitions.
        topic: Arc<str>,
        /// Missing partitions, sorted.
        partitions: Vec<i32>,
        /// Number of partitions of the topic.
        count: i32,
    },
}

/// Reason why the client stops for good.
#[derive(Debug, Clone)]
pub enum ConsumerFatal {
    /// No bootstrap server is a Kafka broker.
    Unusable(AddressFault),
    /// The group coordinator rejected the member for good.
    Group(GroupError),
}
