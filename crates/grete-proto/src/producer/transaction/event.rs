//! Events and actions of the transaction manager.

use std::sync::Arc;

use grete_wire::error_code::ErrorCode;

use super::error::{TransactionCause, TransactionError};
use crate::ids::ProducerIdAndEpoch;
use crate::ids::{NodeId, TopicPartition};
use crate::request::{OutboundRequest, Reply, RequestError};

/// Id of a call, chosen by the caller.
pub type CallId = u32;

/// Member of a group whose offsets a transaction commits (KIP-447). Brokers refuse the offsets of a member that the
/// group has replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMetadata {
    /// `group.id`.
    pub group_id: Arc<str>,
    /// Id of the member; empty: no member, so that brokers check nothing.
    pub member_id: Arc<str>,
    /// Generation of the group, or epoch of the member; -1: no member.
    pub generation: i32,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<Arc<str>>,
}

/// Position from which a group continues once the transaction is committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionOffset {
    /// Partition that was read.
    pub tp: TopicPartition,
    /// Offset of the next record to read.
    pub position: i64,
    /// Leader epoch of the last record; -1: unknown.
    pub leader_epoch: i32,
}

/// A user's call. Each gets one [`TransactionAction::Done`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransactionCall {
    /// Get a producer id and epoch, and fence earlier producers with the same `transactional.id`.
    Init,
    /// Begin a transaction; implies `Init`.
    Begin,
    /// Make a group's offsets part of the transaction.
    SendOffsets {
        /// Member that has read the partitions.
        group: Arc<GroupMetadata>,
        /// Positions of the group.
        offsets: Vec<TransactionOffset>,
    },
    /// Deliver all records and commit.
    Commit,
    /// Drop what is not sent and abort.
    Abort,
    /// The caller of this call waits no longer. The call completes at once, and its work continues if it must.
    Cancel(CallId),
}

/// Input of [`TransactionManager::step`](super::TransactionManager::step).
#[derive(Debug, Clone)]
pub enum TransactionEvent {
    /// The deadline has passed.
    Tick,
    /// Level of `transaction.version` that the cluster has finalized.
    Version(i16),
    /// A user's call.
    Call(CallId, TransactionCall),
    /// The sender has batches for partitions that the transaction does not have yet.
    PartitionsWanted(Vec<TopicPartition>),
    /// Records of the transaction were not delivered.
    BatchFailed(Arc<TransactionCause>),
    /// All batches are complete, and no response is pending. `gap`: sequence numbers of some partition were lost, so
    /// that only a new epoch can continue.
    Settled {
        /// Sequence numbers were lost.
        gap: bool,
    },
    /// Result of one of the manager's requests.
    Reply(Reply),
    /// The producer closes: an open transaction is aborted.
    Close,
}

/// Whether the accumulator takes records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransactionGate {
    /// There is no transaction.
    Closed,
    /// Records become part of the transaction.
    Open,
    /// The transaction can only be aborted.
    Failed(Arc<TransactionCause>),
    /// The transaction is being committed or aborted.
    Ending,
}

/// Output of [`TransactionManager::step`](super::TransactionManager::step), to be carried out by the producer core.
#[derive(Debug, Clone, PartialEq)]
pub enum TransactionAction {
    /// Send this request through the cluster state machine.
    Send(OutboundRequest),
    /// A coordinator has this address.
    LearnNode {
        /// Node id.
        node: NodeId,
        /// Host name or address.
        host: Arc<str>,
        /// Port.
        port: u16,
    },
    /// Batches have this producer id and epoch from now on. `explicit`: partitions are added to transactions by request.
    Identity {
        /// Producer id and epoch.
        identity: ProducerIdAndEpoch,
        /// Partitions are added by request (before `transaction.version` 2).
        explicit: bool,
    },
    /// The transaction has these partitions: their batches may be sent.
    PartitionsAdded(Vec<TopicPartition>),
    /// Whether the accumulator takes records from now on.
    Gate(TransactionGate),
    /// All batches that are not delivered end as aborted.
    Drop(Arc<TransactionCause>),
    /// All lingering batches become ready: the commit waits for them.
    Flush,
    /// Result of a call.
    Done(CallId, Result<(), TransactionError>),
    /// An event to log.
    LogEvent(TransactionLogEvent),
    /// The producer cannot continue.
    Fatal(TransactionError),
}

/// Log event of transactions.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum TransactionLogEvent {
    /// The coordinator has assigned a producer id and epoch.
    Initialized {
        /// Producer id.
        producer_id: i64,
        /// Producer epoch.
        epoch: i16,
        /// Level of `transaction.version` in use.
        version: i16,
    },
    /// The transaction can only be aborted.
    Failed(Arc<TransactionCause>),
    /// A transaction was committed.
    Committed,
    /// A transaction was aborted.
    Aborted(Arc<TransactionCause>),
    /// A request is repeated after a backoff.
    Retried {
        /// Kafka's name of the request.
        request: &'static str,
        /// Error of the attempt.
        cause: RetryCause,
    },
}

/// Reason for which a request is repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RetryCause {
    /// The coordinator answered with a retriable error.
    #[error("{} {}", .0.name(), .0.message())]
    Code(ErrorCode),
    /// No response, or none that can be decoded.
    #[error(transparent)]
    Request(RequestError),
}
