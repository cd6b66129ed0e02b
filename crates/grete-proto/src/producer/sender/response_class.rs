//! Classification of a broker's response to a batch.

use grete_wire::error_code::ErrorCode;

/// Meaning of an error code for the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseClass {
    /// The batch was written.
    Written,
    /// The batch was written by an earlier attempt.
    Duplicate,
    /// A later attempt may succeed. `maybe_written`: this attempt may have been written.
    Retriable { maybe_written: bool },
    /// The batch is too large; not written.
    TooLarge,
    /// The broker expects an earlier sequence number first; not written.
    OutOfOrder,
    /// The broker has no state of the producer; this attempt was not written.
    UnknownProducer,
    /// The broker has seen a newer epoch of the producer; this attempt was not written.
    Fenced,
    /// No attempt will succeed. `maybe_written`: this attempt may have been written nevertheless.
    Fatal { maybe_written: bool },
}

impl ResponseClass {
    pub fn from_code(code: ErrorCode, acks: i16) -> Self {
        match code {
            ErrorCode::NONE => Self::Written,
            ErrorCode::DUPLICATE_SEQUENCE_NUMBER => Self::Duplicate,
            ErrorCode::MESSAGE_TOO_LARGE | ErrorCode::RECORD_LIST_TOO_LARGE => Self::TooLarge,
            ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER => Self::OutOfOrder,
            ErrorCode::UNKNOWN_PRODUCER_ID => Self::UnknownProducer,
            ErrorCode::INVALID_PRODUCER_EPOCH | ErrorCode::PRODUCER_FENCED | ErrorCode::INVALID_PRODUCER_ID_MAPPING => {
                Self::Fenced
            }
            // The leader appended the batch and then waited for its followers. An error of that wait does not undo the
            // append.
            ErrorCode::REQUEST_TIMED_OUT | ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND => {
                Self::Retriable { maybe_written: true }
            }
            // Refused at once, or during the wait for followers: with acks=all, a leader that is deposed meanwhile
            // responds with the same code.
            ErrorCode::NOT_LEADER_OR_FOLLOWER | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => {
                Self::Retriable { maybe_written: acks != 1 }
            }
            // A disk failure during the append, possibly after a follower has fetched the batch.
            ErrorCode::KAFKA_STORAGE_ERROR | ErrorCode::NETWORK_EXCEPTION => Self::Retriable { maybe_written: true },
            code if code.is_retriable() => Self::Retriable { maybe_written: false },
            ErrorCode::UNKNOWN_SERVER_ERROR => Self::Fatal { maybe_written: true },
            code => Self::Fatal { maybe_written: !ErrorCode::ALL.contains(&code) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_that_waited_for_followers_may_have_written() {
        let maybe = |code, acks| match ResponseClass::from_code(code, acks) {
            ResponseClass::Retriable { maybe_written: maybe } | ResponseClass::Fatal { maybe_written: maybe } => maybe,
            other => panic!("{code}: {other:?}"),
        };
        assert!(maybe(ErrorCode::REQUEST_TIMED_OUT, -1) && maybe(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND, -1));
        assert!(maybe(ErrorCode::NOT_LEADER_OR_FOLLOWER, -1) && !maybe(ErrorCode::NOT_LEADER_OR_FOLLOWER, 1));
        assert!(maybe(ErrorCode::KAFKA_STORAGE_ERROR, 1));
        assert!(!maybe(ErrorCode::NOT_ENOUGH_REPLICAS, -1) && !maybe(ErrorCode::CORRUPT_MESSAGE, -1));
        assert!(maybe(ErrorCode::UNKNOWN_SERVER_ERROR, -1) && !maybe(ErrorCode::INVALID_RECORD, -1));
        assert!(maybe(ErrorCode(999), -1), "who knows what a code of tomorrow means");
    }
}
