//! APIs: their keys, the versions that Grete supports, and the trait that ties a request to its response.

use std::fmt;
use std::ops::RangeInclusive;

use crate::error::WireError;
use crate::primitives::Reader;

macro_rules! apis {
    ($($(#[$doc:meta])* $name:ident = $key:literal, valid $valid:expr, flexible $flexible:expr, ours $ours:expr;)*) => {
        /// A Kafka API.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(i16)]
        pub enum ApiKey { $($(#[$doc])* $name = $key,)* }

        impl ApiKey {
            /// All APIs that have messages in this crate, by key.
            pub const ALL: &[ApiKey] = &[$(ApiKey::$name,)*];

            /// Returns Kafka's name of the API.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// Returns the versions that this crate can encode and decode (the stable ones of Kafka 4.3).
            #[must_use]
            pub const fn valid(self) -> RangeInclusive<i16> {
                match self { $(Self::$name => $valid,)* }
            }

            /// Returns the versions that Grete's client offers to brokers 3.3 to 4.3. The client uses the highest
            /// version that both sides have. Empty: the client does not use the API.
            #[must_use]
            pub const fn ours(self) -> RangeInclusive<i16> {
                match self { $(Self::$name => $ours,)* }
            }

            /// Returns whether `version` has compact types and tagged fields (KIP-482).
            #[must_use]
            pub const fn is_flexible(self, version: i16) -> bool {
                version >= match self { $(Self::$name => $flexible,)* }
            }
        }

        impl TryFrom<i16> for ApiKey {
            type Error = WireError;
            fn try_from(key: i16) -> Result<Self, WireError> {
                match key { $($key => Ok(Self::$name),)* _ => Err(WireError::UnknownApi { key }) }
            }
        }
    };
}

const NEVER: i16 = i16::MAX;
const NONE: RangeInclusive<i16> = RangeInclusive::new(0, -1);

// Some messages have two forms (FindCoordinator 4, OffsetFetch 8, DeleteTopics 6); the client uses only the newer one.
// Every broker from 3.3 on has the newer form, and the older one would be a code path without tests.
apis! {
    /// Appends record batches.
    Produce = 0, valid 3..=13, flexible 9, ours 3..=13;
    /// Reads record batches.
    Fetch = 1, valid 4..=18, flexible 12, ours 11..=17;
    /// Finds offsets by time, or the ends of a partition.
    ListOffsets = 2, valid 1..=11, flexible 6, ours 4..=11;
    /// Returns brokers, topics and partition leaders.
    Metadata = 3, valid 0..=13, flexible 9, ours 7..=13;
    /// Stores a group's offsets. Version 10 names topics by id, so that an offset of a deleted topic is refused.
    OffsetCommit = 8, valid 2..=10, flexible 8, ours 6..=10;
    /// Reads a group's offsets. Version 10 would need topic ids.
    OffsetFetch = 9, valid 1..=10, flexible 6, ours 8..=9;
    /// Finds a group's or a transaction's coordinator. Version 6 is for share groups.
    FindCoordinator = 10, valid 0..=6, flexible 3, ours 4..=5;
    /// Joins a classic group.
    JoinGroup = 11, valid 0..=9, flexible 6, ours 5..=9;
    /// Keeps a membership alive.
    Heartbeat = 12, valid 0..=4, flexible 4, ours 3..=4;
    /// Leaves a group.
    LeaveGroup = 13, valid 0..=5, flexible 4, ours 3..=5;
    /// Distributes the leader's assignment.
    SyncGroup = 14, valid 0..=5, flexible 4, ours 3..=5;
    /// Describes classic groups.
    DescribeGroups = 15, valid 0..=6, flexible 5, ours 4..=6;
    /// Lists groups.
    ListGroups = 16, valid 0..=5, flexible 3, ours 3..=5;
    /// Selects a SASL mechanism.
    SaslHandshake = 17, valid 0..=1, flexible NEVER, ours 1..=1;
    /// Returns the API versions that the broker supports. Version 0 is the response to a request version that the
    /// broker does not know (KIP-511).
    ApiVersions = 18, valid 0..=4, flexible 3, ours 0..=4;
    /// Creates topics.
    CreateTopics = 19, valid 2..=7, flexible 5, ours 4..=7;
    /// Deletes topics.
    DeleteTopics = 20, valid 1..=6, flexible 4, ours 6..=6;
    /// Deletes the records before an offset.
    DeleteRecords = 21, valid 0..=2, flexible 2, ours 2..=2;
    /// Returns a producer id and epoch (idempotence, transactions).
    InitProducerId = 22, valid 0..=5, flexible 2, ours 2..=5;
    /// Returns the end offset of a leader epoch (log truncation, KIP-320).
    OffsetForLeaderEpoch = 23, valid 2..=4, flexible 4, ours 3..=4;
    /// Adds partitions to a transaction. Versions from 4 on are for brokers: several transactions, and verification only.
    AddPartitionsToTxn = 24, valid 0..=5, flexible 3, ours 3..=3;
    /// Adds a group's offsets to a transaction.
    AddOffsetsToTxn = 25, valid 0..=4, flexible 3, ours 3..=4;
    /// Commits or aborts a transaction. Version 5 returns a new producer epoch (KIP-890).
    EndTxn = 26, valid 0..=5, flexible 3, ours 3..=5;
    /// Ends transactions in partitions. Version 2 names the version of the transaction.
    WriteTxnMarkers = 27, valid 1..=2, flexible 1, ours 1..=2;
    /// Stores a group's offsets as part of a transaction.
    TxnOffsetCommit = 28, valid 0..=5, flexible 3, ours 3..=5;
    /// Lists ACLs. Version 0 is without pattern types (KIP-290).
    DescribeAcls = 29, valid 1..=3, flexible 2, ours 1..=3;
    /// Adds ACLs.
    CreateAcls = 30, valid 1..=3, flexible 2, ours 1..=3;
    /// Removes the ACLs that fit filters.
    DeleteAcls = 31, valid 1..=3, flexible 2, ours 1..=3;
    /// Reads the configuration of brokers and topics.
    DescribeConfigs = 32, valid 1..=4, flexible 4, ours 1..=4;
    /// Replaces the configuration of a topic or a broker.
    AlterConfigs = 33, valid 0..=2, flexible 2, ours NONE;
    /// Returns the log directories of a broker, and the size of each partition.
    DescribeLogDirs = 35, valid 1..=5, flexible 2, ours NONE;
    /// Exchanges SASL tokens.
    SaslAuthenticate = 36, valid 0..=2, flexible 2, ours 1..=2;
    /// Adds partitions to topics.
    CreatePartitions = 37, valid 0..=3, flexible 2, ours 2..=3;
    /// Deletes groups without members.
    DeleteGroups = 42, valid 0..=2, flexible 2, ours 2..=2;
    /// Changes some settings of a topic or a broker, and leaves the others unchanged.
    IncrementalAlterConfigs = 44, valid 0..=1, flexible 1, ours 1..=1;
    /// Deletes a group's offsets of topics that the group does not subscribe to.
    OffsetDelete = 47, valid 0..=0, flexible NEVER, ours 0..=0;
    /// Returns the cluster's id, controller and brokers.
    DescribeCluster = 60, valid 0..=2, flexible 0, ours 0..=2;
    /// Returns the producers that a partition's leader knows.
    DescribeProducers = 61, valid 0..=0, flexible 0, ours 0..=0;
    /// Describes transactions.
    DescribeTransactions = 65, valid 0..=0, flexible 0, ours 0..=0;
    /// Lists transactions.
    ListTransactions = 66, valid 0..=2, flexible 0, ours 0..=2;
    /// Joins a group of the consumer protocol (KIP-848), stays in it and leaves it. Version 0 lets the coordinator make
    /// member ids, and is not used (KIP-1082).
    ConsumerGroupHeartbeat = 68, valid 0..=1, flexible 0, ours 1..=1;
    /// Describes groups of the consumer protocol (KIP-848); brokers before 3.7 do not support it.
    ConsumerGroupDescribe = 69, valid 0..=1, flexible 0, ours 0..=1;
    /// Returns the partitions of topics, page by page (KIP-966).
    DescribeTopicPartitions = 75, valid 0..=0, flexible 0, ours NONE;
    /// Joins a share group (KIP-932), stays in it and leaves it. Version 0 was an early access of Kafka 4.0.
    ShareGroupHeartbeat = 76, valid 1..=1, flexible 0, ours 1..=1;
    /// Describes share groups.
    ShareGroupDescribe = 77, valid 1..=1, flexible 0, ours 1..=1;
    /// Acquires records for a member of a share group. Version 2 renews locks (KIP-1222).
    ShareFetch = 78, valid 1..=2, flexible 0, ours 1..=2;
    /// Acknowledges records that a member of a share group has acquired.
    ShareAcknowledge = 79, valid 1..=2, flexible 0, ours 1..=2;
    /// Returns the start offsets and lags of share groups.
    DescribeShareGroupOffsets = 90, valid 0..=1, flexible 0, ours 0..=1;
    /// Moves the start offsets of a share group.
    AlterShareGroupOffsets = 91, valid 0..=0, flexible 0, ours 0..=0;
    /// Deletes the start offsets of a share group.
    DeleteShareGroupOffsets = 92, valid 0..=0, flexible 0, ours 0..=0;
}

impl ApiKey {
    /// Returns the number on the wire.
    #[must_use]
    pub const fn key(self) -> i16 {
        self as i16
    }

    /// Returns the request header version: 2 has tagged fields, 1 has none.
    #[must_use]
    pub const fn request_header_version(self, version: i16) -> i16 {
        if self.is_flexible(version) { 2 } else { 1 }
    }

    /// Returns the response header version: 1 has tagged fields, 0 has none. A response of ApiVersions always has
    /// header version 0, because the client may not know yet which version the broker responds in (KIP-511).
    #[must_use]
    pub const fn response_header_version(self, version: i16) -> i16 {
        if matches!(self, Self::ApiVersions) || !self.is_flexible(version) { 0 } else { 1 }
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Request of a Kafka API, with the type of its response.
pub trait KafkaRequest {
    /// API of the request.
    const KEY: ApiKey;
    /// Type of the response, which borrows from the frame.
    type Response<'r>;

    /// Appends the request's body.
    fn encode_body(&self, version: i16, out: &mut Vec<u8>) -> Result<(), WireError>;

    /// Decodes the response's body.
    fn decode_response<'r>(version: i16, r: &mut Reader<'r>) -> Result<Self::Response<'r>, WireError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_lies_within_valid_and_keys_round_trip() {
        for &api in ApiKey::ALL {
            assert!(api.ours().all(|version| api.valid().contains(&version)), "{api}");
            assert_eq!(ApiKey::try_from(api.key()), Ok(api));
        }
        let unused: Vec<i16> = ApiKey::ALL.iter().filter(|api| api.ours().is_empty()).map(|api| api.key()).collect();
        assert_eq!(unused, [33, 35, 75]);
        assert_eq!(ApiKey::try_from(4), Err(WireError::UnknownApi { key: 4 }));
    }

    #[test]
    fn headers_follow_flexibility_except_for_api_versions() {
        assert_eq!(ApiKey::Metadata.request_header_version(8), 1);
        assert_eq!(ApiKey::Metadata.request_header_version(9), 2);
        assert_eq!(ApiKey::Metadata.response_header_version(9), 1);
        assert_eq!(ApiKey::ApiVersions.request_header_version(3), 2);
        assert_eq!(ApiKey::ApiVersions.response_header_version(3), 0);
        assert_eq!(ApiKey::SaslHandshake.request_header_version(1), 1);
    }
}
