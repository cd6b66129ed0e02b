//! Events and actions of the fetcher.

use crate::fetch::CompletedFetch;
use crate::ids::{NodeId, PartitionHandle, TopicPartition};
use crate::partition::error::PartitionError;
use crate::partition::log_event::FetchLogEvent;
use crate::position::PositionEvent;
use crate::request::{OutboundRequest, Reply};

/// Input of [`Fetcher::step`](super::Fetcher::step). Each event ends with planning the next requests. A burst of
/// changes (an assignment with many positions) should therefore be applied first and announced by one
/// [`FetchEvent::Plan`]. Otherwise a Fetch would leave with the first partition alone and hold up the others for
/// `fetch.max.wait.ms`.
#[derive(Debug, Clone)]
pub enum FetchEvent {
    /// The deadline passed.
    Tick,
    /// Partitions became ready, the metadata changed, or a broker's throttling ended.
    Plan,
    /// Response or failure of a Fetch.
    Reply(Reply),
    /// The fetch connection to the node is ready.
    NodeReady(NodeId),
    /// The fetch connection to the node is lost.
    NodeLost(NodeId),
    /// Bytes of completed fetches were decoded and are no longer held: partitions, and the number of bytes. If a fetch
    /// contains a corrupt batch, this event follows its `Refetch`: once a partition holds no bytes, all its batches were
    /// valid.
    Released(Vec<(PartitionHandle, usize)>),
    /// Further (decompressed) bytes are held for the partition.
    Charged {
        /// Partition of the bytes.
        slot: PartitionHandle,
        /// Number of bytes.
        bytes: usize,
    },
    /// Pause fetching of the partition.
    Pause(PartitionHandle),
    /// Resume fetching of the partition.
    Resume(PartitionHandle),
    /// A batch was corrupt: drop the data fetched from `offset` on and fetch it once more.
    Refetch {
        /// Partition of the batch.
        slot: PartitionHandle,
        /// Generation of the completed fetch.
        fetch_generation: u32,
        /// End of the batches before the corrupt one, because the offset in its own header is not proven.
        offset: i64,
    },
    /// The partitions are no longer assigned.
    PartitionsRemoved(Vec<PartitionHandle>),
    /// End the brokers' fetch sessions and fetch nothing more.
    Close,
}

/// Output of [`Fetcher::step`](super::Fetcher::step), for the consumer to carry out.
#[derive(Debug, Clone)]
pub enum FetchAction {
    /// Send a request through the cluster.
    Send(OutboundRequest),
    /// A fetch connection to the node is needed and missing.
    NeedNode(NodeId),
    /// Decode these batches.
    Data(CompletedFetch),
    /// The partition has no further data yet.
    CaughtUp {
        /// Partition at its end.
        slot: PartitionHandle,
        /// High watermark; -1 when unknown.
        high_watermark: i64,
        /// End of the readable records: the last stable offset with read_committed; -1 when unknown.
        readable_end: i64,
    },
    /// Pass this event to the offset resolver. The partition is not fetched until the resolver sets a new position.
    Position(PositionEvent),
    /// The metadata is stale.
    RefreshMetadata,
    /// A broker named the current leader (KIP-951).
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
    /// The failure is over. Either all data fetched again after a corrupt batch was valid, or the broker responded
    /// without an error and without new data.
    Recovered {
        /// Recovered partition.
        slot: PartitionHandle,
    },
    /// The partition stopped, or waits for a retry: see
    /// [`FetchConfig::fatal_retry_backoff_max`](super::FetchConfig::fatal_retry_backoff_max).
    Failed {
        /// Failed partition.
        slot: PartitionHandle,
        /// Error that stopped the partition.
        error: PartitionError,
    },
    /// Log this event.
    LogEvent(FetchLogEvent),
}

/// Counters since the start, for metrics and tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RawFetchStats {
    /// Requests sent.
    pub fetches: u64,
    /// Requests that named every partition (included in `fetches`).
    pub full_fetches: u64,
    /// Partitions planned for requests. Within a session these are the partitions that have changed.
    pub planned: u64,
    /// Responses without an error.
    pub responses: u64,
    /// Responses without any batch.
    pub empty_responses: u64,
    /// Completed fetches handed to the dispatcher.
    pub chunks: u64,
    /// Bytes of their batches.
    pub bytes: u64,
    /// Records in their batches, according to the headers.
    pub records: u64,
}
