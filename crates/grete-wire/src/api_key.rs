//! Which requests exist, and in which versions we speak them.

use std::fmt;
use std::ops::RangeInclusive;

use crate::error::WireError;

macro_rules! apis {
    ($($(#[$doc:meta])* $name:ident = $key:literal, valid $valid:expr, flexible $flexible:expr, ours $ours:expr;)*) => {
        /// A Kafka API.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(i16)]
        pub enum ApiKey { $($(#[$doc])* $name = $key,)* }

        impl ApiKey {
            /// Every API that has messages here, by key.
            pub const ALL: &[ApiKey] = &[$(ApiKey::$name,)*];

            /// Kafka's name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// The versions that can be encoded and decoded here (Kafka 4.3's stable ones).
            #[must_use]
            pub const fn valid(self) -> RangeInclusive<i16> {
                match self { $(Self::$name => $valid,)* }
            }

            /// The versions that our client offers to brokers 3.3 to 4.3; the highest that both sides have is used.
            #[must_use]
            pub const fn ours(self) -> RangeInclusive<i16> {
                match self { $(Self::$name => $ours,)* }
            }

            /// Whether `version` has compact types and tagged fields (KIP-482).
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

// Where a message has two shapes (FindCoordinator 4, OffsetFetch 8, DeleteTopics 6), only the newer is ours: every
// broker from 3.3 has it, and the older would be a path that no test walks.
apis! {
    /// Appends record batches.
    Produce = 0, valid 3..=13, flexible 9, ours 3..=13;
    /// Reads record batches.
    Fetch = 1, valid 4..=18, flexible 12, ours 11..=17;
    /// Finds offsets by time, or the ends of a partition.
    ListOffsets = 2, valid 1..=11, flexible 6, ours 4..=11;
    /// Brokers, topics, leaders.
    Metadata = 3, valid 0..=13, flexible 9, ours 7..=13;
    /// Stores a group's offsets. Version 10 would need topic ids.
    OffsetCommit = 8, valid 2..=10, flexible 8, ours 6..=9;
    /// Reads a group's offsets. Version 10 would need topic ids.
    OffsetFetch = 9, valid 1..=10, flexible 6, ours 8..=9;
    /// Finds a group's or a transaction's coordinator. Version 6 is for share groups.
    FindCoordinator = 10, valid 0..=6, flexible 3, ours 4..=5;
    /// Enters a classic group.
    JoinGroup = 11, valid 0..=9, flexible 6, ours 5..=9;
    /// Keeps a membership alive.
    Heartbeat = 12, valid 0..=4, flexible 4, ours 3..=4;
    /// Leaves a group.
    LeaveGroup = 13, valid 0..=5, flexible 4, ours 3..=5;
    /// Hands out the leader's assignment.
    SyncGroup = 14, valid 0..=5, flexible 4, ours 3..=5;
    /// Describes classic groups.
    DescribeGroups = 15, valid 0..=6, flexible 5, ours 4..=6;
    /// Lists groups.
    ListGroups = 16, valid 0..=5, flexible 3, ours 3..=5;
    /// Picks a SASL mechanism.
    SaslHandshake = 17, valid 0..=1, flexible NEVER, ours 1..=1;
    /// What the broker speaks. Version 0 is the answer to a version that it does not know (KIP-511).
    ApiVersions = 18, valid 0..=4, flexible 3, ours 0..=4;
    /// Creates topics.
    CreateTopics = 19, valid 2..=7, flexible 5, ours 4..=7;
    /// Deletes topics.
    DeleteTopics = 20, valid 1..=6, flexible 4, ours 6..=6;
    /// Deletes the records before an offset.
    DeleteRecords = 21, valid 0..=2, flexible 2, ours 2..=2;
    /// Producer id and epoch (idempotence, transactions).
    InitProducerId = 22, valid 0..=5, flexible 2, ours 2..=5;
    /// Where a leader epoch ended (log truncation, KIP-320).
    OffsetForLeaderEpoch = 23, valid 2..=4, flexible 4, ours 3..=4;
    /// Reads settings of brokers and topics.
    DescribeConfigs = 32, valid 1..=4, flexible 4, ours 1..=4;
    /// SASL bytes.
    SaslAuthenticate = 36, valid 0..=2, flexible 2, ours 1..=2;
    /// Adds partitions to topics.
    CreatePartitions = 37, valid 0..=3, flexible 2, ours 2..=3;
    /// Deletes groups without members.
    DeleteGroups = 42, valid 0..=2, flexible 2, ours 2..=2;
    /// Changes some settings of a topic or a broker and leaves the others as they are.
    IncrementalAlterConfigs = 44, valid 0..=1, flexible 1, ours 1..=1;
    /// Deletes a group's offsets of topics that it does not read.
    OffsetDelete = 47, valid 0..=0, flexible NEVER, ours 0..=0;
    /// The cluster's id, controller and brokers.
    DescribeCluster = 60, valid 0..=2, flexible 0, ours 0..=2;
    /// Describes groups of the newer protocol (KIP-848); brokers before 3.7 do not know it.
    ConsumerGroupDescribe = 69, valid 0..=1, flexible 0, ours 0..=1;
}

impl ApiKey {
    /// The number on the wire.
    #[must_use]
    pub const fn key(self) -> i16 {
        self as i16
    }

    /// Request header version: 2 has tagged fields.
    #[must_use]
    pub const fn request_header_version(self, version: i16) -> i16 {
        if self.is_flexible(version) { 2 } else { 1 }
    }

    /// Response header version: 1 has tagged fields. ApiVersions always answers with 0, because the client may not know
    /// yet which version the broker answers in (KIP-511).
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_lies_within_valid_and_keys_round_trip() {
        for &api in ApiKey::ALL {
            assert!(api.valid().contains(api.ours().start()) && api.valid().contains(api.ours().end()), "{api}");
            assert!(!api.ours().is_empty(), "{api}");
            assert_eq!(ApiKey::try_from(api.key()), Ok(api));
        }
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
