//! Kafka's error codes, each with one line of advice.

use std::fmt;

/// Error code as sent by brokers. Unknown codes are kept unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ErrorCode(pub i16);

macro_rules! codes {
    ($($name:ident = $code:literal, $retriable:ident, $message:literal;)*) => {
        impl ErrorCode {
            $(#[doc = $message] pub const $name: ErrorCode = ErrorCode($code);)*

            /// All codes of Kafka 4.3.
            pub const ALL: &[ErrorCode] = &[$(ErrorCode($code),)*];

            /// Returns Kafka's name, or `UNKNOWN_ERROR_CODE` for a code that is newer than this table.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self.0 { $($code => stringify!($name),)* _ => "UNKNOWN_ERROR_CODE" }
            }

            /// Returns whether the same request may succeed later, perhaps at another broker.
            #[must_use]
            pub const fn is_retriable(self) -> bool {
                match self.0 { $($code => $retriable,)* _ => false }
            }

            /// Returns the cause and the cure in one line.
            #[must_use]
            pub const fn message(self) -> &'static str {
                match self.0 { $($code => $message,)* _ => "The broker sent an error code that this version of Grete does not know." }
            }
        }
    };
}

// Retriable means the same as in Kafka's Java client (RetriableException). That excludes the errors that a group member
// cures by joining again (ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS): repeating the request would
// not help.
codes! {
    UNKNOWN_SERVER_ERROR = -1, false, "The broker failed unexpectedly: its log has the cause.";
    NONE = 0, false, "No error.";
    OFFSET_OUT_OF_RANGE = 1, false, "The partition does not have this offset: it was deleted by retention, or never written.";
    CORRUPT_MESSAGE = 2, true, "A record batch was damaged on its way, or has no key although the topic is compacted.";
    UNKNOWN_TOPIC_OR_PARTITION = 3, true, "This broker does not have the partition: check the topic's name, or wait until its creation has spread.";
    INVALID_FETCH_SIZE = 4, false, "The fetch size is not valid.";
    LEADER_NOT_AVAILABLE = 5, true, "The partition has no leader right now; an election should end that soon.";
    NOT_LEADER_OR_FOLLOWER = 6, true, "The broker no longer leads (or follows) the partition: the metadata was stale.";
    REQUEST_TIMED_OUT = 7, true, "The broker did not finish the request in time.";
    BROKER_NOT_AVAILABLE = 8, false, "The broker is not available.";
    REPLICA_NOT_AVAILABLE = 9, true, "The replica is not available for this partition.";
    MESSAGE_TOO_LARGE = 10, false, "A record batch is larger than the topic takes: see max.message.bytes.";
    STALE_CONTROLLER_EPOCH = 11, false, "The controller has moved to another broker.";
    OFFSET_METADATA_TOO_LARGE = 12, false, "The text committed with the offset is too long: see offset.metadata.max.bytes on the broker.";
    NETWORK_EXCEPTION = 13, true, "The connection broke before the answer came.";
    COORDINATOR_LOAD_IN_PROGRESS = 14, true, "The coordinator is still loading its state.";
    COORDINATOR_NOT_AVAILABLE = 15, true, "There is no coordinator right now.";
    NOT_COORDINATOR = 16, true, "The coordinator has moved to another broker.";
    INVALID_TOPIC_EXCEPTION = 17, false, "The topic's name is not legal, or the topic cannot be used like this.";
    RECORD_LIST_TOO_LARGE = 18, false, "A record batch is larger than a log segment of the broker: see segment.bytes.";
    NOT_ENOUGH_REPLICAS = 19, true, "Too few replicas are in sync to accept the write: see min.insync.replicas.";
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, true, "The write reached fewer in-sync replicas than demanded: see min.insync.replicas.";
    INVALID_REQUIRED_ACKS = 21, false, "acks must be 0, 1 or all.";
    ILLEGAL_GENERATION = 22, false, "The group has moved on to a newer generation: the member has to join again.";
    INCONSISTENT_GROUP_PROTOCOL = 23, false, "The group's members share no assignor with this one: check partition.assignment.strategy on all of them.";
    INVALID_GROUP_ID = 24, false, "The group id is not valid: it must not be empty.";
    UNKNOWN_MEMBER_ID = 25, false, "The coordinator does not know this member any more: it has to join again.";
    INVALID_SESSION_TIMEOUT = 26, false, "session.timeout.ms is outside of what the broker allows: see group.min.session.timeout.ms and group.max.session.timeout.ms.";
    REBALANCE_IN_PROGRESS = 27, false, "The group is rebalancing: the member has to join again.";
    INVALID_COMMIT_OFFSET_SIZE = 28, false, "The commit is larger than the coordinator can store at once.";
    TOPIC_AUTHORIZATION_FAILED = 29, false, "This user may not do that with the topic: ask for the ACL.";
    GROUP_AUTHORIZATION_FAILED = 30, false, "This user may not use the group: ask for the ACL.";
    CLUSTER_AUTHORIZATION_FAILED = 31, false, "This user may not do that with the cluster: ask for the ACL.";
    INVALID_TIMESTAMP = 32, false, "A record's timestamp is outside of what the topic accepts: see message.timestamp.before.max.ms and message.timestamp.after.max.ms.";
    UNSUPPORTED_SASL_MECHANISM = 33, false, "The broker does not offer this sasl.mechanism.";
    ILLEGAL_SASL_STATE = 34, false, "The broker did not expect this request during authentication: does its listener speak SASL?";
    UNSUPPORTED_VERSION = 35, false, "The broker does not speak this version of the request.";
    TOPIC_ALREADY_EXISTS = 36, false, "A topic with this name exists already.";
    INVALID_PARTITIONS = 37, false, "The number of partitions must be at least 1, and can only grow.";
    INVALID_REPLICATION_FACTOR = 38, false, "The replication factor must be at least 1 and at most the number of brokers.";
    INVALID_REPLICA_ASSIGNMENT = 39, false, "The replica assignment is not valid.";
    INVALID_CONFIG = 40, false, "A setting is not valid.";
    NOT_CONTROLLER = 41, true, "The broker is not the controller of this cluster.";
    INVALID_REQUEST = 42, false, "The broker found the request malformed; its log has the details.";
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, false, "The broker stores this topic in a format that is too old for the request.";
    POLICY_VIOLATION = 44, false, "A policy of the broker forbids this.";
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, false, "A record batch of this producer is missing before this one.";
    DUPLICATE_SEQUENCE_NUMBER = 46, false, "The broker has this record batch already.";
    INVALID_PRODUCER_EPOCH = 47, false, "A newer producer with the same id has taken over.";
    INVALID_TXN_STATE = 48, false, "The transaction is not in a state that allows this.";
    INVALID_PRODUCER_ID_MAPPING = 49, false, "The producer id does not belong to the transactional id.";
    INVALID_TRANSACTION_TIMEOUT = 50, false, "transaction.timeout.ms exceeds the broker's transaction.max.timeout.ms.";
    CONCURRENT_TRANSACTIONS = 51, true, "The previous transaction is still being completed.";
    TRANSACTION_COORDINATOR_FENCED = 52, false, "A newer transaction coordinator has taken over.";
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, false, "This user may not use the transactional id: ask for the ACL.";
    SECURITY_DISABLED = 54, false, "The broker has its security features switched off.";
    OPERATION_NOT_ATTEMPTED = 55, false, "The broker did not try this, because another part of the request failed.";
    KAFKA_STORAGE_ERROR = 56, true, "The broker's disk failed for this partition.";
    LOG_DIR_NOT_FOUND = 57, false, "The broker has no such log directory.";
    SASL_AUTHENTICATION_FAILED = 58, false, "User name, password or token were refused.";
    UNKNOWN_PRODUCER_ID = 59, false, "The broker has forgotten this producer, as its last records were deleted by retention.";
    REASSIGNMENT_IN_PROGRESS = 60, false, "The partition is being reassigned.";
    DELEGATION_TOKEN_AUTH_DISABLED = 61, false, "The broker has delegation tokens switched off.";
    DELEGATION_TOKEN_NOT_FOUND = 62, false, "The broker does not have this delegation token.";
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, false, "The delegation token belongs to another user.";
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, false, "Delegation tokens cannot be managed over this kind of connection.";
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, false, "This user may not do that with the delegation token.";
    DELEGATION_TOKEN_EXPIRED = 66, false, "The delegation token has expired.";
    INVALID_PRINCIPAL_TYPE = 67, false, "This kind of principal is not supported.";
    NON_EMPTY_GROUP = 68, false, "The group still has members: stop them first.";
    GROUP_ID_NOT_FOUND = 69, false, "There is no such group.";
    FETCH_SESSION_ID_NOT_FOUND = 70, true, "The broker has dropped the fetch session: a new one starts.";
    INVALID_FETCH_SESSION_EPOCH = 71, true, "Client and broker disagree about the fetch session: a new one starts.";
    LISTENER_NOT_FOUND = 72, true, "The leader has no listener of the name that the client came in by.";
    TOPIC_DELETION_DISABLED = 73, false, "The broker forbids deletion of topics: see delete.topic.enable.";
    FENCED_LEADER_EPOCH = 74, true, "The partition has a newer leader than the client knows.";
    UNKNOWN_LEADER_EPOCH = 75, true, "The client knows a newer leader than this broker does.";
    UNSUPPORTED_COMPRESSION_TYPE = 76, false, "This version of the request cannot carry the topic's compression.";
    STALE_BROKER_EPOCH = 77, false, "The broker has been restarted in between.";
    OFFSET_NOT_AVAILABLE = 78, true, "The new leader does not know its high watermark yet.";
    MEMBER_ID_REQUIRED = 79, false, "The coordinator has handed out a member id to join again with.";
    PREFERRED_LEADER_NOT_AVAILABLE = 80, true, "The preferred leader is not available.";
    GROUP_MAX_SIZE_REACHED = 81, false, "The group is full: see group.max.size on the broker.";
    FENCED_INSTANCE_ID = 82, false, "Another consumer runs with the same group.instance.id: give each its own.";
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, true, "No replica that may lead is available.";
    ELECTION_NOT_NEEDED = 84, true, "The partition needs no election.";
    NO_REASSIGNMENT_IN_PROGRESS = 85, false, "The partition is not being reassigned.";
    GROUP_SUBSCRIBED_TO_TOPIC = 86, false, "The group still reads the topic: its offsets cannot be deleted.";
    INVALID_RECORD = 87, false, "The broker's checks refused a record.";
    UNSTABLE_OFFSET_COMMIT = 88, true, "A transaction has not decided yet about the group's offsets.";
    THROTTLING_QUOTA_EXCEEDED = 89, true, "The quota for such requests is used up for now.";
    PRODUCER_FENCED = 90, false, "A newer producer with the same transactional.id has taken over.";
    RESOURCE_NOT_FOUND = 91, false, "The request names something that does not exist.";
    DUPLICATE_RESOURCE = 92, false, "The request names the same thing twice.";
    UNACCEPTABLE_CREDENTIAL = 93, false, "The credential does not meet the broker's rules.";
    INCONSISTENT_VOTER_SET = 94, false, "Sender or receiver is not among the expected voters.";
    INVALID_UPDATE_VERSION = 95, false, "The update's version is not valid.";
    FEATURE_UPDATE_FAILED = 96, false, "The broker failed to update its features; its log has the cause.";
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, false, "Brokers cannot read each other's principals: their security settings disagree.";
    SNAPSHOT_NOT_FOUND = 98, false, "There is no such snapshot.";
    POSITION_OUT_OF_RANGE = 99, false, "The position lies outside of the snapshot.";
    UNKNOWN_TOPIC_ID = 100, true, "This broker does not know the topic's id: the topic was deleted, or created again.";
    DUPLICATE_BROKER_REGISTRATION = 101, false, "The broker id is taken.";
    BROKER_ID_NOT_REGISTERED = 102, false, "No broker is registered under this id.";
    INCONSISTENT_TOPIC_ID = 103, true, "The topic's id does not match: the topic was deleted and created again.";
    INCONSISTENT_CLUSTER_ID = 104, false, "The broker belongs to another cluster.";
    TRANSACTIONAL_ID_NOT_FOUND = 105, false, "There is no such transactional id.";
    FETCH_SESSION_TOPIC_ID_ERROR = 106, true, "The fetch session mixes topic ids and names: a new one starts.";
    INELIGIBLE_REPLICA = 107, false, "A replica of the new in-sync set may not be in it.";
    NEW_LEADER_ELECTED = 108, false, "The partition has a new leader since.";
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, false, "The offset lies in tiered storage now.";
    FENCED_MEMBER_EPOCH = 110, false, "The coordinator has fenced this member: it has to give up its partitions and join again.";
    UNRELEASED_INSTANCE_ID = 111, false, "Another member still uses this group.instance.id.";
    UNSUPPORTED_ASSIGNOR = 112, false, "The group does not offer this assignor.";
    STALE_MEMBER_EPOCH = 113, false, "The member's epoch is old: the next heartbeat brings the new one.";
    MISMATCHED_ENDPOINT_TYPE = 114, false, "The request went to the wrong kind of endpoint (broker or controller).";
    UNSUPPORTED_ENDPOINT_TYPE = 115, false, "This kind of endpoint is not supported yet.";
    UNKNOWN_CONTROLLER_ID = 116, false, "There is no controller with this id.";
    UNKNOWN_SUBSCRIPTION_ID = 117, false, "The telemetry subscription is not valid any more.";
    TELEMETRY_TOO_LARGE = 118, false, "The telemetry is larger than the broker takes.";
    INVALID_REGISTRATION = 119, false, "The controller refused the broker's registration.";
    TRANSACTION_ABORTABLE = 120, false, "The transaction failed: abort it, then go on with the same transactional.id.";
    INVALID_RECORD_STATE = 121, false, "The record cannot be acknowledged in its present state.";
    SHARE_SESSION_NOT_FOUND = 122, true, "The broker has dropped the share session.";
    INVALID_SHARE_SESSION_EPOCH = 123, true, "Client and broker disagree about the share session.";
    FENCED_STATE_EPOCH = 124, false, "The share group's state is newer than the request.";
    INVALID_VOTER_KEY = 125, false, "The voter key is not that of the replica asked.";
    DUPLICATE_VOTER = 126, false, "This voter is in the set already.";
    VOTER_NOT_FOUND = 127, false, "This voter is not in the set.";
    INVALID_REGULAR_EXPRESSION = 128, false, "The regular expression is not valid (brokers use RE2's syntax).";
    REBOOTSTRAP_REQUIRED = 129, false, "The client's metadata is too old: it has to start again from bootstrap.servers.";
    STREAMS_INVALID_TOPOLOGY = 130, false, "The streams topology is not valid.";
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, false, "The streams topology's epoch is not valid.";
    STREAMS_TOPOLOGY_FENCED = 132, false, "The streams topology's epoch is old.";
    SHARE_SESSION_LIMIT_REACHED = 133, true, "The broker has no room for another share session.";
}

impl ErrorCode {
    /// Returns whether the code is NONE (0).
    #[must_use]
    pub const fn is_ok(self) -> bool {
        self.0 == 0
    }

    /// Returns whether the client needs fresh metadata: Java's InvalidMetadataException, and leader epochs that are
    /// ahead.
    #[must_use]
    pub const fn requires_metadata_refresh(self) -> bool {
        matches!(
            self,
            Self::UNKNOWN_TOPIC_OR_PARTITION
                | Self::LEADER_NOT_AVAILABLE
                | Self::NOT_LEADER_OR_FOLLOWER
                | Self::REPLICA_NOT_AVAILABLE
                | Self::NETWORK_EXCEPTION
                | Self::KAFKA_STORAGE_ERROR
                | Self::LISTENER_NOT_FOUND
                | Self::FENCED_LEADER_EPOCH
                | Self::UNKNOWN_LEADER_EPOCH
                | Self::PREFERRED_LEADER_NOT_AVAILABLE
                | Self::ELIGIBLE_LEADERS_NOT_AVAILABLE
                | Self::UNKNOWN_TOPIC_ID
                | Self::INCONSISTENT_TOPIC_ID
        )
    }
}

impl From<i16> for ErrorCode {
    fn from(code: i16) -> Self {
        Self(code)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.name(), self.0, self.message())
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_gapless_and_every_line_says_something() {
        let codes: Vec<i16> = ErrorCode::ALL.iter().map(|code| code.0).collect();
        assert_eq!(codes, (-1..=133).collect::<Vec<i16>>());
        for code in ErrorCode::ALL {
            assert!(code.message().ends_with(['.', '?']), "{code:?}");
        }
    }

    #[test]
    fn an_unknown_code_survives() {
        let code = ErrorCode::from(999);
        assert_eq!(code.0, 999);
        assert_eq!(code.name(), "UNKNOWN_ERROR_CODE");
        assert!(!code.is_retriable() && !code.is_ok());
    }

    #[test]
    fn rejoin_errors_are_not_retriable() {
        assert!(!ErrorCode::REBALANCE_IN_PROGRESS.is_retriable());
        assert!(!ErrorCode::ILLEGAL_GENERATION.is_retriable());
        assert!(ErrorCode::NOT_COORDINATOR.is_retriable());
        assert!(ErrorCode::NOT_LEADER_OR_FOLLOWER.requires_metadata_refresh());
    }
}
