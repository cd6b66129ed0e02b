//! Events and actions of the offset resolver.

use crate::ids::PartitionHandle;
use crate::partition::error::PartitionError;
use crate::partition::log_event::FetchLogEvent;
use crate::request::{OutboundRequest, Reply};

/// Start position of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartPosition {
    /// The given offset.
    Offset(i64),
    /// First offset of the log.
    Earliest,
    /// End of the log.
    Latest,
    /// First record with this timestamp (milliseconds since the epoch) or a later one; without one, the end of the log.
    Timestamp(i64),
    /// Position given by `auto.offset.reset`, because there is no committed offset.
    Reset,
}

/// Input of [`OffsetResolver::step`](super::OffsetResolver::step). Each event sends the requests that are ready. Many
/// start positions should therefore come in one [`PositionEvent::StartMany`].
#[derive(Debug, Clone)]
pub enum PositionEvent {
    /// A new position: the first one, or a seek. Queued and in-flight data of the partition becomes stale.
    Start {
        /// Partition to start.
        slot: PartitionHandle,
        /// New position.
        at: StartPosition,
        /// Leader epoch of the record before the offset, as committed; -1 when unknown.
        leader_epoch: i32,
    },
    /// A new position will follow in another event. Queued and in-flight data of the partition becomes stale.
    AwaitStart {
        /// Partition that waits.
        slot: PartitionHandle,
    },
    /// New positions of many partitions, looked up together: handle, position and leader epoch as in `Start`.
    StartMany(Vec<(PartitionHandle, StartPosition, i32)>),
    /// The fetcher found that the log does not contain the offset.
    OutOfRange {
        /// Partition with the invalid offset.
        slot: PartitionHandle,
    },
    /// The fetcher found that the leader's log diverges from the data read (KIP-320).
    Diverged {
        /// Partition with the divergence.
        slot: PartitionHandle,
        /// Last epoch that both logs have in common; -1 when undefined.
        epoch: i32,
        /// End offset of that epoch; -1 when undefined.
        end_offset: i64,
    },
    /// The fetcher requests a comparison of the position with the new leader's log.
    Validate {
        /// Partition to validate.
        slot: PartitionHandle,
    },
    /// Response or failure of a request of the resolver.
    Reply(Reply),
    /// The metadata changed.
    MetadataChanged,
    /// The deadline passed.
    Tick,
}

/// Output of [`OffsetResolver::step`](super::OffsetResolver::step), for the consumer to carry out.
#[derive(Debug, Clone)]
pub enum PositionAction {
    /// Send a request through the cluster.
    Send(OutboundRequest),
    /// The partition can be fetched. The consumer sends one `FetchEvent::Plan` after all actions.
    Ready {
        /// Partition with the new position.
        slot: PartitionHandle,
        /// Offset to fetch from.
        offset: i64,
    },
    /// The metadata is stale.
    RefreshMetadata,
    /// The partition stopped, or waits for a retry: see
    /// [`PositionConfig::fatal_retry_backoff_max`](super::PositionConfig::fatal_retry_backoff_max).
    Failed {
        /// Failed partition.
        slot: PartitionHandle,
        /// Error that stopped the partition.
        error: PartitionError,
    },
    /// Log this event.
    LogEvent(FetchLogEvent),
}
