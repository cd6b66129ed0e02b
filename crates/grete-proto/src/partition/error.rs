//! Errors that stop a partition from being fetched.

use grete_wire::access::needed;
use grete_wire::error::WireError;
use grete_wire::error_code::ErrorCode;

use crate::ids::{NodeId, TopicPartition};

/// How an App recovers a partition that cannot be read. (A low-level consumer raises each error, and its caller
/// decides.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveryPolicy {
    /// The position is invalid: `auto.offset.reset` gives a new one. With `none` the partition stays failed until a
    /// seek.
    Reset,
    /// The client retries with growing backoff. The partition counts as failed meanwhile and recovers once the cause is
    /// gone.
    Retry,
}

/// Error that stopped one partition. Other partitions continue, and a new start position (seek) restarts the partition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PartitionError {
    /// The log does not contain the offset, and `auto.offset.reset=none` leaves the decision to the user.
    #[error(
        "{tp} has no offset {offset}: its log reaches from {log_start} to {log_end}; seek to an offset in that range or set auto.offset.reset to earliest or latest"
    )]
    OffsetOutOfRange {
        /// Partition that stopped.
        tp: TopicPartition,
        /// Offset of the Fetch.
        offset: i64,
        /// First offset of the log.
        log_start: i64,
        /// Log end offset (exclusive).
        log_end: i64,
    },
    /// The group has no committed offset for the partition, and `auto.offset.reset=none`.
    #[error("{tp} has no committed offset; seek to one or set auto.offset.reset to earliest or latest")]
    NoOffset {
        /// Partition that stopped.
        tp: TopicPartition,
    },
    /// An unclean leader election cut the log below the position (KIP-320), and `auto.offset.reset=none`.
    #[error(
        "the log of {tp} was truncated to offset {end_offset}, below the position {position}: records that were read no longer exist; seek to {end_offset} to continue, or set auto.offset.reset"
    )]
    LogTruncated {
        /// Partition that stopped.
        tp: TopicPartition,
        /// Position before the truncation.
        position: i64,
        /// First offset at which the logs diverge.
        end_offset: i64,
    },
    /// The principal lacks the ACL operation READ on the topic.
    #[error("not allowed to read {tp}: {}", needed("Read", "topic", &.tp.topic))]
    NotAuthorized {
        /// Partition that stopped.
        tp: TopicPartition,
    },
    /// A batch was corrupt, was fetched again, and is still corrupt.
    #[error(
        "{tp} has a corrupt batch at offset {offset} ({cause}), also after fetching it again: seek beyond the batch to skip it"
    )]
    Corrupt {
        /// Partition that stopped.
        tp: TopicPartition,
        /// Offset of the Fetch.
        offset: i64,
        /// Defect of the batch.
        cause: Corruption,
    },
    /// A batch exceeds the largest Fetch limit that the client would use.
    #[error("{tp} has a batch at offset {offset} that does not fit into {limit} bytes: raise fetch.max.bytes")]
    BatchTooLarge {
        /// Partition that stopped.
        tp: TopicPartition,
        /// Offset of the Fetch.
        offset: i64,
        /// Largest limit, in bytes.
        limit: i32,
    },
    /// The topic was deleted and created again: offsets of the old topic mean nothing in the new topic.
    #[error(
        "the topic of {tp} was deleted and created again while it was being read; seek to an offset of the new one"
    )]
    TopicRecreated {
        /// Partition that stopped.
        tp: TopicPartition,
    },
    /// The broker returned an error that no retry cures.
    #[error("{tp} cannot be read: {code:?}: {}", .code.message())]
    Refused {
        /// Partition that stopped.
        tp: TopicPartition,
        /// Error code of the response.
        code: ErrorCode,
    },
    /// The partition has had no leader for longer than an election takes.
    #[error(
        "{tp} has no leader: start the brokers that have its replicas, or create its topic again if that was deleted"
    )]
    NoLeader {
        /// Partition that stopped.
        tp: TopicPartition,
    },
    /// The leader has returned no data for longer than a broker restart takes.
    #[error("{tp} gets no data from its leader, broker {node} ({}): check that the broker is running and reachable, and that the topic still exists", fmt_code(*.code))]
    Unserved {
        /// Partition that stopped.
        tp: TopicPartition,
        /// Node id of the leader.
        node: NodeId,
        /// Error code of the leader's last response; `NONE`: no response.
        code: ErrorCode,
    },
    /// The start position could not be looked up for longer than a lookup takes.
    #[error("{tp} has no position yet: its committed offset, or an end of its log, could not be looked up ({})", fmt_code(*.code))]
    NoPosition {
        /// Partition that stopped.
        tp: TopicPartition,
        /// Error code of the last response; `NONE`: no response.
        code: ErrorCode,
    },
}

/// Returns the code as text, or "no answer" for `NONE`.
fn fmt_code(code: ErrorCode) -> String {
    if code == ErrorCode::NONE { "no answer".to_owned() } else { code.to_string() }
}

impl PartitionError {
    /// Returns how the partition recovers in an App. This is the only place that decides it.
    pub fn policy(&self) -> RecoveryPolicy {
        match self {
            Self::OffsetOutOfRange { .. }
            | Self::NoOffset { .. }
            | Self::LogTruncated { .. }
            | Self::TopicRecreated { .. } => RecoveryPolicy::Reset,
            Self::NotAuthorized { .. }
            | Self::Corrupt { .. }
            | Self::BatchTooLarge { .. }
            | Self::Refused { .. }
            | Self::NoLeader { .. }
            | Self::Unserved { .. }
            | Self::NoPosition { .. } => RecoveryPolicy::Retry,
        }
    }

    /// Returns the kind of error as one machine-readable word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::OffsetOutOfRange { .. } => "offset_out_of_range",
            Self::NoOffset { .. } => "no_offset",
            Self::LogTruncated { .. } => "log_truncated",
            Self::TopicRecreated { .. } => "topic_recreated",
            Self::NotAuthorized { .. } => "not_authorized",
            Self::Corrupt { .. } => "corrupt_batch",
            Self::BatchTooLarge { .. } => "batch_too_large",
            Self::Refused { .. } => "refused",
            Self::NoLeader { .. } => "no_leader",
            Self::Unserved { .. } => "unserved",
            Self::NoPosition { .. } => "no_position",
        }
    }

    /// Returns the partition that stopped.
    pub fn partition(&self) -> &TopicPartition {
        match self {
            Self::OffsetOutOfRange { tp, .. }
            | Self::NoOffset { tp }
            | Self::LogTruncated { tp, .. }
            | Self::NotAuthorized { tp }
            | Self::Corrupt { tp, .. }
            | Self::BatchTooLarge { tp, .. }
            | Self::TopicRecreated { tp }
            | Self::NoLeader { tp }
            | Self::Unserved { tp, .. }
            | Self::NoPosition { tp, .. }
            | Self::Refused { tp, .. } => tp,
        }
    }
}

/// Defect of a batch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Corruption {
    /// The batch header cannot be decoded.
    #[error(transparent)]
    Header(#[from] WireError),
    /// The batch ends before the fetch offset, or before the end of the previous batch.
    #[error("it ends at offset {last_offset} where {expected} or more was expected")]
    Behind {
        /// Offset of the last record of the batch.
        last_offset: i64,
        /// Smallest valid value.
        expected: i64,
    },
    /// The batch starts before the previous batch ends.
    #[error("it starts at offset {base_offset}, inside the batch that ends before {expected}")]
    Overlap {
        /// Base offset of the batch.
        base_offset: i64,
        /// Smallest valid value.
        expected: i64,
    },
    /// The batch reaches beyond the high watermark.
    #[error("it ends at offset {last_offset}, beyond the high watermark {high_watermark}")]
    Beyond {
        /// Offset of the last record of the batch.
        last_offset: i64,
        /// High watermark in the same response.
        high_watermark: i64,
    },
    /// The checksum or the content is wrong, which the decoder found.
    #[error("its checksum or its content is wrong")]
    Content,
}
