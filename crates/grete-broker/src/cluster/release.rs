//! Releases of Kafka that a broker can answer as, and the API versions of each.

use std::fmt;
use std::ops::RangeInclusive;

use grete_wire::ApiKey;

/// APIs of share groups (KIP-932).
const SHARE_GROUPS: &[ApiKey] = &[
    ApiKey::ShareGroupHeartbeat,
    ApiKey::ShareGroupDescribe,
    ApiKey::ShareFetch,
    ApiKey::ShareAcknowledge,
    ApiKey::DescribeShareGroupOffsets,
    ApiKey::AlterShareGroupOffsets,
    ApiKey::DeleteShareGroupOffsets,
];

/// Release of Apache Kafka, by its API versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Release {
    /// Kafka 3.3.
    V3_3,
    /// Kafka 3.9.
    V3_9,
    /// Kafka 4.1.
    V4_1,
    /// Kafka 4.3.
    V4_3,
}

impl Release {
    /// All releases, the oldest first.
    pub const ALL: &[Release] = &[Release::V3_3, Release::V3_9, Release::V4_1, Release::V4_3];
    /// Newest release.
    pub const LATEST: Release = Release::V4_3;

    /// Returns the release with this name, for example `3.9`. `None`: the name is not in [`Release::ALL`].
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|release| release.name() == name)
    }

    /// Returns the name, for example `3.9`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V3_3 => "3.3",
            Self::V3_9 => "3.9",
            Self::V4_1 => "4.1",
            Self::V4_3 => "4.3",
        }
    }

    /// Returns the level of `metadata.version` that the cluster has finalized.
    #[must_use]
    pub const fn metadata_version(self) -> i16 {
        match self {
            Self::V3_3 => 7,
            Self::V3_9 => 21,
            Self::V4_1 => 27,
            Self::V4_3 => 30,
        }
    }

    /// Returns the lowest level of `metadata.version` that the brokers support.
    #[must_use]
    pub const fn min_metadata_version(self) -> i16 {
        match self {
            Self::V3_3 | Self::V3_9 => 1,
            Self::V4_1 | Self::V4_3 => 7,
        }
    }

    /// Returns the level of `transaction.version` that the cluster has finalized: 2 came with 4.0 (KIP-890).
    #[must_use]
    pub const fn transaction_version(self) -> i16 {
        match self {
            Self::V3_3 | Self::V3_9 => 0,
            Self::V4_1 | Self::V4_3 => 2,
        }
    }

    /// Returns the level of `group.version` that the cluster has finalized: 1 came with 4.0 (KIP-848).
    #[must_use]
    pub const fn group_version(self) -> i16 {
        match self {
            Self::V3_3 | Self::V3_9 => 0,
            Self::V4_1 | Self::V4_3 => 1,
        }
    }

    /// Returns the level of `share.version` that the cluster has finalized: 1 came with 4.2 (KIP-932).
    #[must_use]
    pub const fn share_version(self) -> i16 {
        match self {
            Self::V3_3 | Self::V3_9 | Self::V4_1 => 0,
            Self::V4_3 => 1,
        }
    }

    /// Returns the versions of an API that the brokers answer, or `None` if the release lacks the API.
    #[must_use]
    pub fn versions(self, api: ApiKey) -> Option<RangeInclusive<i16>> {
        if self.share_version() == 0 && SHARE_GROUPS.contains(&api) {
            return None;
        }
        let newest = match (self, api) {
            (Self::V4_3, _) => *api.valid().end(),
            (Self::V4_1, api) => max_version_4_1(api),
            (Self::V3_9, api) => max_version_3_9(api),
            (Self::V3_3, api) => max_version_3_3(api)?,
        };
        let range = *api.valid().start()..=newest.min(*api.valid().end());
        (!range.is_empty()).then_some(range)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn max_version_4_1(api: ApiKey) -> i16 {
    match api {
        ApiKey::ListOffsets => 10,
        ApiKey::OffsetCommit | ApiKey::OffsetFetch => 9,
        ApiKey::DescribeLogDirs => 4,
        ApiKey::WriteTxnMarkers => 1,
        _ => *api.valid().end(),
    }
}

fn max_version_3_9(api: ApiKey) -> i16 {
    match api {
        ApiKey::Produce => 11,
        ApiKey::Fetch => 17,
        ApiKey::ListOffsets | ApiKey::OffsetCommit | ApiKey::OffsetFetch => 9,
        ApiKey::Metadata => 12,
        ApiKey::DescribeGroups => 5,
        ApiKey::EndTxn | ApiKey::TxnOffsetCommit | ApiKey::DescribeLogDirs => 4,
        ApiKey::DescribeCluster | ApiKey::ListTransactions | ApiKey::WriteTxnMarkers => 1,
        ApiKey::ConsumerGroupDescribe | ApiKey::ConsumerGroupHeartbeat => 0,
        _ => *api.valid().end(),
    }
}

fn max_version_3_3(api: ApiKey) -> Option<i16> {
    Some(match api {
        ApiKey::Produce => 9,
        ApiKey::Fetch => 13,
        ApiKey::ListOffsets => 7,
        ApiKey::Metadata => 12,
        ApiKey::OffsetCommit | ApiKey::OffsetFetch => 8,
        ApiKey::DescribeGroups => 5,
        ApiKey::FindCoordinator | ApiKey::ListGroups | ApiKey::InitProducerId | ApiKey::DescribeLogDirs => 4,
        ApiKey::ApiVersions
        | ApiKey::AddPartitionsToTxn
        | ApiKey::AddOffsetsToTxn
        | ApiKey::EndTxn
        | ApiKey::TxnOffsetCommit => 3,
        ApiKey::WriteTxnMarkers => 1,
        ApiKey::DescribeCluster | ApiKey::ListTransactions => 0,
        ApiKey::ConsumerGroupDescribe | ApiKey::ConsumerGroupHeartbeat | ApiKey::DescribeTopicPartitions => {
            return None;
        }
        _ => *api.valid().end(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_of_a_release_can_be_decoded() {
        for &release in Release::ALL {
            assert_eq!(Release::from_name(release.name()), Some(release));
            for &api in ApiKey::ALL {
                if let Some(versions) = release.versions(api) {
                    let valid = api.valid();
                    assert!(valid.contains(versions.start()) && valid.contains(versions.end()), "{release} {api}");
                }
            }
        }
    }

    #[test]
    fn older_releases_lack_newer_apis_and_versions() {
        assert_eq!(Release::V3_3.versions(ApiKey::ConsumerGroupDescribe), None);
        assert_eq!(Release::V3_9.versions(ApiKey::Fetch), Some(4..=17));
        // Transactions of version 2 (KIP-890) came with 4.0.
        assert_eq!(Release::V3_9.versions(ApiKey::EndTxn), Some(0..=4));
        assert_eq!(Release::V4_1.versions(ApiKey::EndTxn), Some(0..=5));
        assert_eq!(Release::LATEST.versions(ApiKey::Fetch), Some(4..=18));
    }
}
