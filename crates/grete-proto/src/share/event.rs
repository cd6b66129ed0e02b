//! Events and actions of the acquirer.

use super::acknowledgement::Acknowledgement;
use crate::fetch::CompletedFetch;
use crate::ids::{NodeId, PartitionHandle, TopicPartition};
use crate::partition::error::PartitionError;
use crate::request::{OutboundRequest, Reply};
use crate::time::Nanos;

/// Input of [`ShareAcquirer::step`](super::ShareAcquirer::step).
#[derive(Debug, Clone)]
pub enum ShareEvent {
    /// The deadline passed.
    Tick,
    /// Partitions were assigned, the metadata changed, or a broker's throttling ended.
    Plan,
    /// Response or failure of a request.
    Reply(Reply),
    /// A connection to the node is ready.
    NodeReady(NodeId),
    /// A connection to the node is lost. The broker releases the records of its sessions when their connection ends.
    NodeLost(NodeId),
    /// These records are done, or given back. Those that the member does not hold any more are ignored.
    Acknowledge(Vec<(PartitionHandle, Vec<Acknowledgement>)>),
    /// Bytes of completed fetches are no longer held.
    Released(Vec<(PartitionHandle, usize)>),
    /// Further (decompressed) bytes are held for the partition.
    Charged {
        /// Partition of the bytes.
        slot: PartitionHandle,
        /// Number of bytes.
        bytes: usize,
    },
    /// Number of records that can be processed at once from now on; 0: nothing more is acquired.
    Concurrency(usize),
    /// Number of held records that wait for a later attempt: they take no handler's place.
    Delayed(usize),
    /// Acquire no records of the partition.
    Pause(PartitionHandle),
    /// Acquire records of the partition again.
    Resume(PartitionHandle),
    /// The partitions are no longer assigned. What is held of them may still be acknowledged.
    PartitionsRemoved(Vec<PartitionHandle>),
    /// Acquire nothing more.
    Quiesce,
    /// Send what is left, release what is held, and end the sessions. [`ShareAction::Closed`] follows.
    Close,
}

/// Output of [`ShareAcquirer::step`](super::ShareAcquirer::step), for the consumer to carry out.
#[derive(Debug, Clone)]
pub enum ShareAction {
    /// Send a request through the cluster.
    Send(OutboundRequest),
    /// A connection to the node is needed and missing.
    NeedNode(NodeId),
    /// Decode the acquired records of these batches.
    Data(CompletedFetch),
    /// The metadata is stale.
    RefreshMetadata,
    /// A broker named the current leader.
    LeaderHint {
        /// Topic and partition.
        tp: TopicPartition,
        /// Node id of the leader.
        leader: NodeId,
        /// Leader epoch.
        epoch: i32,
        /// Host and port of the leader, if the broker named them.
        endpoint: Option<(String, u16)>,
    },
    /// Records of the partition cannot be acquired. They are tried again.
    Failed {
        /// Failed partition.
        slot: PartitionHandle,
        /// Error.
        error: PartitionError,
    },
    /// The partition was served without an error.
    Recovered {
        /// Recovered partition.
        slot: PartitionHandle,
    },
    /// Whether an acknowledgement could be sent at once, so that the acquirer wants to learn of it.
    AwaitsAcknowledgements(bool),
    /// All sessions are closed.
    Closed,
    /// Log this event.
    LogEvent(ShareLogEvent),
}

/// Log event of the acquirer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShareLogEvent {
    /// Acknowledgements were refused, because the locks had ended: the records are delivered again.
    LocksLost {
        /// Topic and partition.
        tp: TopicPartition,
        /// Number of records.
        records: usize,
        /// First offset.
        first: i64,
        /// Whether the broker may have executed an earlier request with them, so that nothing is delivered again.
        uncertain: bool,
    },
    /// Locks ended before they were renewed, because this process stood still, or the leader was away or cannot renew:
    /// others may have processed these records, too. A leader does not refuse the acknowledgement of a record that
    /// another member has done.
    LocksExpired {
        /// Topic and partition.
        tp: TopicPartition,
        /// Number of records.
        records: usize,
        /// First offset.
        first: i64,
    },
    /// The brokers cannot renew locks (before Kafka 4.2): records whose handlers outlast the lock are delivered again.
    NoRenewal {
        /// Node id of the broker.
        node: NodeId,
        /// Duration of a lock.
        lock: Nanos,
    },
    /// A leader refused the session; a new one begins.
    SessionLost {
        /// Node id of the leader.
        node: NodeId,
        /// Error code.
        code: grete_wire::ErrorCode,
    },
    /// A response claims more acquired records than it can have.
    ImplausibleResponse {
        /// Node id of the leader.
        node: NodeId,
    },
}

/// Counters since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShareStats {
    /// ShareFetch requests sent.
    pub fetches: u64,
    /// ShareAcknowledge requests sent.
    pub acknowledges: u64,
    /// Records acquired, each delivery counted.
    pub acquired: u64,
    /// Records acquired that had been delivered before.
    pub redelivered: u64,
    /// Records accepted.
    pub accepted: u64,
    /// Records released.
    pub released: u64,
    /// Records rejected.
    pub rejected: u64,
    /// Locks renewed.
    pub renewed: u64,
    /// Acknowledgements refused because the lock had ended.
    pub locks_lost: u64,
    /// Bytes of fetched batches.
    pub bytes: u64,
    /// Records held now.
    pub held: u64,
}
