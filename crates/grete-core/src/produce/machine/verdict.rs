//! What a broker's answer means for a batch.

use grete_wire::error_code::ErrorCode;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is in the log.
    Written,
    /// It is in the log, from an earlier attempt.
    Duplicate,
    /// It may succeed later. `maybe`: and this attempt may have been written.
    Again { maybe: bool },
    /// It is too large; not written.
    TooLarge,
    /// The broker misses what comes before it; not written.
    OutOfOrder,
    /// The broker knows the producer no more; this attempt was not written.
    Forgotten,
    /// The broker has seen a newer epoch of the producer; this attempt was not written.
    Fenced,
    /// It will never succeed. `maybe`: nevertheless this attempt may have been written.
    Refused { maybe: bool },
}

impl Verdict {
    pub fn of(code: ErrorCode, acks: i16) -> Self {
        match code {
            ErrorCode::NONE => Self::Written,
            ErrorCode::DUPLICATE_SEQUENCE_NUMBER => Self::Duplicate,
            ErrorCode::MESSAGE_TOO_LARGE | ErrorCode::RECORD_LIST_TOO_LARGE => Self::TooLarge,
            ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER => Self::OutOfOrder,
            ErrorCode::UNKNOWN_PRODUCER_ID => Self::Forgotten,
            ErrorCode::INVALID_PRODUCER_EPOCH | ErrorCode::PRODUCER_FENCED | ErrorCode::INVALID_PRODUCER_ID_MAPPING => {
                Self::Fenced
            }
            // The leader appended it and then waited for its followers: what it says of that wait does not unwrite it.
            ErrorCode::REQUEST_TIMED_OUT | ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND => Self::Again { maybe: true },
            // Refused at the door, or while it waited: with acks=all a leader that is deposed meanwhile answers the
            // same.
            ErrorCode::NOT_LEADER_OR_FOLLOWER | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => {
                Self::Again { maybe: acks != 1 }
            }
            // A disk that fails in the middle of it, after a follower has read the batch perhaps.
            ErrorCode::KAFKA_STORAGE_ERROR | ErrorCode::NETWORK_EXCEPTION => Self::Again { maybe: true },
            code if code.is_retriable() => Self::Again { maybe: false },
            ErrorCode::UNKNOWN_SERVER_ERROR => Self::Refused { maybe: true },
            code => Self::Refused { maybe: !ErrorCode::ALL.contains(&code) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_that_waited_for_followers_may_have_written() {
        let maybe = |code, acks| match Verdict::of(code, acks) {
            Verdict::Again { maybe } | Verdict::Refused { maybe } => maybe,
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
