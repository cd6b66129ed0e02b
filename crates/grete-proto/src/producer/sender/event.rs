//! Events and actions of the sender.

use std::sync::Arc;

use grete_wire::error_code::ErrorCode;

use crate::cluster::ClusterEvent;
use crate::ids::ProducerIdAndEpoch;
use crate::ids::{NodeId, TopicPartition};
use crate::producer::batch_promise::BatchPromise;
use crate::producer::error::{FatalError, LastError};
use crate::producer::transaction::TransactionCause;
use crate::request::{OutboundRequest, Reply};
use crate::time::Nanos;

/// Input of [`Sender::step`](crate::producer::Sender::step). After each event the sender sends what can be sent.
#[derive(Debug, Clone)]
pub enum SenderEvent {
    /// The deadline has passed.
    Tick,
    /// Records were appended, or a batch must be sent without further linger.
    Drain,
    /// Result of one of the sender's requests.
    Reply(Reply),
    /// A metadata response was received: partitions, leaders or topic errors may have changed.
    MetadataChanged,
    /// The produce connection of the node is ready.
    NodeReady(NodeId),
    /// The produce connection of the node was lost, or could not be opened.
    NodeLost(NodeId),
    /// The throttle time of the node is over (KIP-219).
    Unmuted(NodeId),
    /// Reject new records, send the pending ones, and drop what is left at the deadline.
    Close {
        /// Time at which the remaining batches are dropped.
        deadline: Nanos,
    },
    /// The producer has failed: nothing will be sent any more, and all batches complete now.
    Fatal(FatalError),
    /// A transaction begins.
    TransactionBegun,
    /// The coordinator has assigned this producer id and epoch. `explicit`: partitions are added by request.
    TransactionIdentity {
        /// Producer id and epoch.
        identity: ProducerIdAndEpoch,
        /// Partitions are added to the transaction by request.
        explicit: bool,
    },
    /// The transaction has these partitions.
    PartitionsAdded(Vec<TopicPartition>),
    /// The transaction is aborted: all batches complete now.
    TransactionAborted(Arc<TransactionCause>),
}

/// Reason why records are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// `delivery.timeout.ms` expired.
    Expired,
    /// No broker has named the topic's partitions within `max.block.ms`.
    NoMetadata,
    /// The close deadline of the producer passed.
    Closed,
    /// The producer has failed for good.
    Fatal,
    /// A broker rejected the records with a fatal error.
    Refused(ErrorCode),
    /// The transaction of the records was aborted.
    Aborted,
}

/// Dropped records of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedRecords {
    /// Partition of the records; number -1: the records had none yet.
    pub tp: TopicPartition,
    /// Number of batches; 0: the records waited for the topic's metadata.
    pub batches: u32,
    /// Number of records.
    pub records: u64,
    /// Number of these records that may have been written.
    pub unknown: u64,
}

/// Output of [`Sender::step`](crate::producer::Sender::step), to be carried out by the producer core.
#[derive(Debug)]
pub enum SenderAction {
    /// Send this request through the cluster state machine.
    Send(OutboundRequest),
    /// Open the produce connection of this node.
    NeedNode(NodeId),
    /// The metadata is stale: request it again.
    RefreshMetadata,
    /// The set of topics that need metadata has changed: [`crate::producer::Accumulator::tracked_topics`].
    TrackedTopicsChanged,
    /// Pass this event to the cluster: a leader hint, or a throttle time.
    Cluster(ClusterEvent),
    /// Records of this batch completed, and a caller waits for or watches its promise.
    Completed(Arc<BatchPromise>),
    /// Buffer memory is free again: wake the waiters on [`crate::producer::WaiterFutexes::memory`].
    MemoryAvailable,
    /// A flush completed: wake the waiters on [`crate::producer::WaiterFutexes::flush`].
    FlushCompleted,
    /// Partitions or the error of a topic are known, or one more response reports the topic as unknown: wake the
    /// waiters on [`crate::producer::WaiterFutexes::metadata`].
    MetadataAvailable,
    /// The transaction needs these partitions before their batches can be sent.
    PartitionsWanted(Vec<TopicPartition>),
    /// Records were not delivered, so that their transaction cannot be committed.
    BatchFailed(Arc<TransactionCause>),
    /// An event to log.
    LogEvent(SenderLogEvent),
    /// The producer has failed for good; all batches are completed.
    Fatal(FatalError),
    /// The producer is closed: all batches are complete and no response is pending.
    Finished,
}

/// Log event of the sender.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SenderLogEvent {
    /// Batches of one request will be sent again.
    Retried {
        /// Partition of the first batch.
        tp: TopicPartition,
        /// Number of batches.
        batches: u32,
        /// Number of records in these batches.
        records: u64,
        /// Cause of the first batch's retry.
        cause: LastError,
    },
    /// A batch was too large for the topic and is sent again as two halves.
    Split {
        /// Partition of the batch.
        tp: TopicPartition,
        /// Number of records in the batch.
        records: u32,
        /// Error code of the broker.
        code: ErrorCode,
    },
    /// Records were dropped. One event per step and reason.
    RecordsDropped {
        /// Reason of the drop.
        reason: DropReason,
        /// Dropped records by partition; not empty.
        dropped: Vec<DroppedRecords>,
    },
    /// A producer id was assigned (KIP-98), or its epoch was raised (KIP-360).
    ProducerIdAssigned {
        /// Producer id.
        producer_id: i64,
        /// Producer epoch.
        epoch: i16,
    },
    /// InitProducerId failed; it is retried after a backoff.
    ProducerIdFailed(LastError),
}

/// Counters since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SenderStats {
    /// Produce requests sent.
    pub requests: u64,
    /// Batches sent, including retries.
    pub batches: u64,
    /// Bytes of the batches sent, including retries.
    pub bytes: u64,
    /// Batches sent again.
    pub retries: u64,
    /// Batches split into halves.
    pub splits: u64,
    /// Records written.
    pub written: u64,
    /// Records not written.
    pub not_written: u64,
    /// Records with an unknown outcome.
    pub unknown: u64,
    /// Records that were not acknowledged when their transaction was aborted.
    pub aborted: u64,
}
