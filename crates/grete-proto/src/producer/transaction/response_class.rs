//! Meaning of each error code for each request of a transaction.

use grete_wire::error_code::ErrorCode;

/// Request of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// FindCoordinator for the transactional id.
    FindCoordinator,
    /// FindCoordinator for a group.
    FindGroupCoordinator,
    InitProducerId,
    AddPartitions,
    AddOffsets,
    CommitOffsets,
    /// EndTxn.
    Commit,
    /// EndTxn.
    Abort,
}

impl RequestKind {
    #[cfg(test)]
    pub const ALL: [Self; 8] = [
        Self::FindCoordinator,
        Self::FindGroupCoordinator,
        Self::InitProducerId,
        Self::AddPartitions,
        Self::AddOffsets,
        Self::CommitOffsets,
        Self::Commit,
        Self::Abort,
    ];

    /// Returns Kafka's name of the request.
    pub fn name(self) -> &'static str {
        match self {
            Self::FindCoordinator | Self::FindGroupCoordinator => "FindCoordinator",
            Self::InitProducerId => "InitProducerId",
            Self::AddPartitions => "AddPartitionsToTxn",
            Self::AddOffsets => "AddOffsetsToTxn",
            Self::CommitOffsets => "TxnOffsetCommit",
            Self::Commit | Self::Abort => "EndTxn",
        }
    }
}

/// Meaning of an error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseClass {
    Done,
    /// Send the request again after a backoff.
    Retry,
    /// The transaction before is still being completed: send the request again after a short backoff.
    RetrySoon,
    /// The coordinator has moved: look it up, then send the request again.
    FindAgain,
    /// The transaction can only be aborted.
    Abortable,
    /// Same as `Abortable`; the coordinator does not know the producer id, so a new one replaces EndTxn.
    AbortableWithoutEnd,
    /// Another producer has taken over.
    Fenced,
    /// The user must not use the transactional id.
    Unauthorized,
    /// The producer cannot continue.
    Fatal,
}

impl ResponseClass {
    /// Returns the meaning of an error code. A table by request, because the same code means different things (P41): a
    /// coordinator that answers INVALID_PRODUCER_EPOCH has fenced the producer, a partition's leader may only be late.
    pub fn from_code(kind: RequestKind, code: ErrorCode) -> Self {
        match code {
            ErrorCode::NONE => return Self::Done,
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED => return Self::Unauthorized,
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS => return Self::Retry,
            _ => {}
        }
        match kind {
            RequestKind::FindCoordinator | RequestKind::FindGroupCoordinator => match code {
                ErrorCode::GROUP_AUTHORIZATION_FAILED if kind == RequestKind::FindGroupCoordinator => Self::Abortable,
                ErrorCode::INVALID_GROUP_ID if kind == RequestKind::FindGroupCoordinator => Self::Abortable,
                code if code.is_retriable() || code == ErrorCode::UNKNOWN_SERVER_ERROR => Self::Retry,
                _ => Self::Fatal,
            },
            _ => Self::from_coordinator(kind, code),
        }
    }

    /// Returns whether the request is sent again.
    pub fn is_retried(self) -> bool {
        matches!(self, Self::Retry | Self::RetrySoon | Self::FindAgain)
    }

    fn from_coordinator(kind: RequestKind, code: ErrorCode) -> Self {
        match (kind, code) {
            (_, ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE) => Self::FindAgain,
            (RequestKind::CommitOffsets, ErrorCode::REQUEST_TIMED_OUT) => Self::FindAgain,
            // Not a success, whatever the request (KIP-890): the markers of the transaction before are not written yet.
            (_, ErrorCode::CONCURRENT_TRANSACTIONS) => Self::RetrySoon,
            // In place of an abort, the coordinator assigns another epoch.
            (RequestKind::Abort, ErrorCode::TRANSACTION_ABORTABLE) => Self::AbortableWithoutEnd,
            // No transaction is open here.
            (RequestKind::InitProducerId, ErrorCode::TRANSACTION_ABORTABLE) => Self::Retry,
            (_, ErrorCode::TRANSACTION_ABORTABLE) => Self::Abortable,
            (_, ErrorCode::PRODUCER_FENCED | ErrorCode::INVALID_PRODUCER_EPOCH) => Self::Fenced,
            (RequestKind::InitProducerId, ErrorCode::CLUSTER_AUTHORIZATION_FAILED) => Self::Unauthorized,
            (RequestKind::InitProducerId, ErrorCode::INVALID_PRODUCER_ID_MAPPING | ErrorCode::UNKNOWN_PRODUCER_ID) => {
                Self::Fatal
            }
            (_, ErrorCode::INVALID_PRODUCER_ID_MAPPING | ErrorCode::UNKNOWN_PRODUCER_ID) => Self::AbortableWithoutEnd,
            (RequestKind::AddPartitions, ErrorCode::TOPIC_AUTHORIZATION_FAILED) => Self::Abortable,
            (RequestKind::AddPartitions, ErrorCode::INVALID_TOPIC_EXCEPTION) => Self::Abortable,
            (RequestKind::AddOffsets | RequestKind::CommitOffsets, ErrorCode::GROUP_AUTHORIZATION_FAILED) => {
                Self::Abortable
            }
            // A member that the group has replaced (KIP-447), and an offset that the group refuses.
            (
                RequestKind::CommitOffsets,
                ErrorCode::ILLEGAL_GENERATION
                | ErrorCode::UNKNOWN_MEMBER_ID
                | ErrorCode::FENCED_INSTANCE_ID
                | ErrorCode::STALE_MEMBER_EPOCH
                | ErrorCode::GROUP_ID_NOT_FOUND
                | ErrorCode::REBALANCE_IN_PROGRESS
                | ErrorCode::TOPIC_AUTHORIZATION_FAILED
                | ErrorCode::OFFSET_METADATA_TOO_LARGE
                | ErrorCode::INVALID_COMMIT_OFFSET_SIZE,
            ) => Self::Abortable,
            // Another partition of the request was refused.
            (RequestKind::AddPartitions, ErrorCode::OPERATION_NOT_ATTEMPTED) => Self::Retry,
            (_, code) if code.is_retriable() => Self::Retry,
            _ => Self::Fatal,
        }
    }
}

/// Returns whether the code says that the group has replaced the member.
pub(super) fn is_member_replaced(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::ILLEGAL_GENERATION
            | ErrorCode::UNKNOWN_MEMBER_ID
            | ErrorCode::FENCED_INSTANCE_ID
            | ErrorCode::STALE_MEMBER_EPOCH
            | ErrorCode::REBALANCE_IN_PROGRESS
    )
}
