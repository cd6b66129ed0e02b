//! Why a partition is not fetched any more.

use grete_wire::error::WireError;
use grete_wire::error_code::ErrorCode;

use crate::ids::TopicPartition;

/// A slot stopped; others go on. A new start position (seek) revives it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SlotError {
    /// The log does not have the offset, and `auto.offset.reset=none` leaves the decision to the user.
    #[error(
        "{tp} has no offset {offset}: its log reaches from {log_start} to {log_end}; seek to an offset in that range or set auto.offset.reset to earliest or latest"
    )]
    OffsetOutOfRange {
        /// Which partition.
        tp: TopicPartition,
        /// The offset that was asked for.
        offset: i64,
        /// First offset of the log.
        log_start: i64,
        /// The offset after the last.
        log_end: i64,
    },
    /// There is no committed offset, and `auto.offset.reset=none`.
    #[error("{tp} has no committed offset; seek to one or set auto.offset.reset to earliest or latest")]
    NoOffset {
        /// Which partition.
        tp: TopicPartition,
    },
    /// An unclean election cut the log below our position (KIP-320), and `auto.offset.reset=none`.
    #[error(
        "the log of {tp} was truncated to offset {end_offset}, below the position {position}: records that were read are gone; seek to {end_offset} to go on, or set auto.offset.reset"
    )]
    LogTruncated {
        /// Which partition.
        tp: TopicPartition,
        /// Where we were.
        position: i64,
        /// Where the logs diverge.
        end_offset: i64,
    },
    /// The user lacks the right to read the topic.
    #[error("not allowed to read {tp}: give the principal the ACL operation READ on topic {}", .tp.topic)]
    NotAuthorized {
        /// Which partition.
        tp: TopicPartition,
    },
    /// A batch was corrupt, was fetched again, and still is.
    #[error("{tp} has a corrupt batch at offset {offset} ({cause}); it was fetched twice: seek beyond it to skip it")]
    Corrupt {
        /// Which partition.
        tp: TopicPartition,
        /// The offset that was fetched.
        offset: i64,
        /// What is wrong with it.
        cause: Corruption,
    },
    /// A batch does not fit into any Fetch response that we would ask for.
    #[error("{tp} has a batch at offset {offset} that does not fit into {limit} bytes: raise fetch.max.bytes")]
    BatchTooLarge {
        /// Which partition.
        tp: TopicPartition,
        /// The offset that was fetched.
        offset: i64,
        /// The limit in bytes.
        limit: i32,
    },
    /// The topic was deleted and made again: offsets of the old one mean nothing in the new one.
    #[error(
        "the topic of {tp} was deleted and created again while it was being read; seek to an offset of the new one"
    )]
    TopicRecreated {
        /// Which partition.
        tp: TopicPartition,
    },
    /// The broker answered with an error that no retry cures.
    #[error("{tp} cannot be read: {code:?}: {}", .code.message())]
    Refused {
        /// Which partition.
        tp: TopicPartition,
        /// The broker's code.
        code: ErrorCode,
    },
}

impl SlotError {
    /// Which partition stopped.
    #[must_use]
    pub fn partition(&self) -> &TopicPartition {
        match self {
            Self::OffsetOutOfRange { tp, .. }
            | Self::NoOffset { tp }
            | Self::LogTruncated { tp, .. }
            | Self::NotAuthorized { tp }
            | Self::Corrupt { tp, .. }
            | Self::BatchTooLarge { tp, .. }
            | Self::TopicRecreated { tp }
            | Self::Refused { tp, .. } => tp,
        }
    }
}

/// What is wrong with a batch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Corruption {
    /// Its header cannot be read.
    #[error(transparent)]
    Header(#[from] WireError),
    /// It ends before the offset that was asked for, or before the batch in front of it.
    #[error("it ends at offset {last_offset} where {expected} or more was expected")]
    Behind {
        /// Offset of its last record.
        last_offset: i64,
        /// The smallest legal value.
        expected: i64,
    },
    /// It starts before the batch in front of it ends.
    #[error("it starts at offset {base_offset}, inside the batch that ends before {expected}")]
    Overlap {
        /// Its base offset.
        base_offset: i64,
        /// The smallest legal value.
        expected: i64,
    },
    /// It reaches beyond what the broker says is replicated.
    #[error("it ends at offset {last_offset}, beyond the high watermark {high_watermark}")]
    Beyond {
        /// Offset of its last record.
        last_offset: i64,
        /// The high watermark of the same answer.
        high_watermark: i64,
    },
    /// Its checksum or its content is wrong: found when it was decoded.
    #[error("its checksum or its content is wrong")]
    Content,
}
