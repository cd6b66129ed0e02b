//! Events and actions of a whole producer.

use std::sync::Arc;

use grete_wire::frame::Frame;

use crate::cluster::ClusterLogEvent;
use crate::connection::CloseReason;
use crate::ids::ConnId;
use crate::producer::batch_promise::BatchPromise;
use crate::producer::error::FatalError;
use crate::producer::sender::event::SenderLogEvent;
use crate::producer::staged::{StagedCommit, StagedCommitResult};
use crate::producer::transaction::{CallId, TransactionCall, TransactionError, TransactionLogEvent};
use crate::sasl::GssResult;
use crate::time::Nanos;
use crate::transport::TransportAction;

/// Input of [`ProducerCore::step`](crate::producer::ProducerCore::step).
#[derive(Debug)]
pub enum ProducerEvent {
    /// The deadline has passed, or the core was woken without a more specific event.
    Tick,
    /// A socket is connected.
    Connected(ConnId),
    /// A complete Kafka frame was received.
    Frame(ConnId, Frame),
    /// A connection attempt failed, or an open connection was closed.
    Closed(ConnId, CloseReason),
    /// The GSSAPI library has answered a call for a connection.
    Gss(ConnId, GssResult),
    /// Records were appended, or a batch must be sent without further linger.
    Drain,
    /// A call about transactions. `TransactionDone` with the same id follows. Requires a `transactional.id`.
    Transaction(CallId, TransactionCall),
    /// Commit staged records and offsets in a transaction. `StagedCommitDone` follows, and no other commit of staged
    /// records or call about transactions may come before. Requires a `transactional.id`.
    CommitStaged(Box<StagedCommit>),
    /// Reject new records, send the pending ones, and drop what is left at the deadline. `Finished` follows.
    Close {
        /// Time at which the remaining batches are dropped.
        deadline: Nanos,
    },
}

/// Output of [`ProducerCore::step`](crate::producer::ProducerCore::step), to be carried out by the caller.
#[derive(Debug)]
pub enum ProducerAction {
    /// Perform this action on a connection.
    Transport(TransportAction),
    /// Records of this batch completed, and a caller waits for or watches its promise.
    Completed(Arc<BatchPromise>),
    /// Buffer memory is free again: wake the waiters on [`crate::producer::WaiterFutexes::memory`].
    MemoryAvailable,
    /// A flush completed: wake the waiters on [`crate::producer::WaiterFutexes::flush`].
    FlushCompleted,
    /// Partitions or the error of a topic are known: wake the waiters on [`crate::producer::WaiterFutexes::metadata`].
    MetadataAvailable,
    /// Result of a call about transactions.
    TransactionDone(CallId, Result<(), TransactionError>),
    /// Result of a [`StagedCommit`], by its id.
    StagedCommitDone(u32, StagedCommitResult),
    /// An event to log.
    LogEvent(ProducerLogEvent),
    /// The producer has failed for good; all batches are completed.
    Fatal(FatalError),
    /// The producer is closed; the loop may end.
    Finished,
}

/// Log event of a producer.
#[derive(Debug, Clone)]
pub enum ProducerLogEvent {
    /// Log event of connections or metadata.
    Cluster(ClusterLogEvent),
    /// Log event of batches or the producer id.
    Sender(SenderLogEvent),
    /// Log event of transactions.
    Transaction(TransactionLogEvent),
}
