//! KIP-219: the broker answers at once and asks the client to hold back for a while.

use grete_wire::api_key::ApiKey;

use crate::time::{MILLI, Nanos, SECOND};

/// A broker asks for at most a quota window (seconds); a wrong number must not mute it for weeks.
const LONGEST: Nanos = 300 * SECOND;

/// How long the broker asks the client to hold back; 0 for not at all.
#[must_use]
pub fn of_response(api: ApiKey, version: i16, body: &[u8]) -> Nanos {
    if version < first_version(api) {
        return 0;
    }
    match body.first_chunk::<4>() {
        Some(bytes) => of_millis(i32::from_be_bytes(*bytes)),
        None => 0,
    }
}

/// `throttle_time_ms` as a span of time.
#[must_use]
pub fn of_millis(millis: i32) -> Nanos {
    u64::try_from(millis).map_or(0, |millis| (millis * MILLI).min(LONGEST))
}

/// The first version whose response starts with `throttle_time_ms`. ApiVersions, OffsetDelete and Produce
/// have it further back; who decodes the last tells it ([`ClusterEvent::Throttled`](crate::cluster::ClusterEvent::Throttled)).
fn first_version(api: ApiKey) -> i16 {
    match api {
        ApiKey::InitProducerId | ApiKey::DescribeConfigs | ApiKey::CreatePartitions | ApiKey::DescribeCluster => 0,
        ApiKey::DeleteRecords | ApiKey::DeleteGroups | ApiKey::IncrementalAlterConfigs => 0,
        ApiKey::ConsumerGroupDescribe => 0,
        ApiKey::DescribeGroups | ApiKey::ListGroups | ApiKey::DeleteTopics => 1,
        ApiKey::CreateTopics => 2,
        ApiKey::Fetch | ApiKey::FindCoordinator | ApiKey::Heartbeat | ApiKey::LeaveGroup | ApiKey::SyncGroup => 1,
        ApiKey::ListOffsets | ApiKey::JoinGroup | ApiKey::OffsetForLeaderEpoch => 2,
        ApiKey::Metadata | ApiKey::OffsetCommit | ApiKey::OffsetFetch => 3,
        _ => i16::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_starts_with_the_field_is_read_and_nonsense_is_bounded() {
        let body = 250_i32.to_be_bytes();
        assert_eq!(of_response(ApiKey::Fetch, 12, &body), 250 * MILLI);
        assert_eq!(of_response(ApiKey::Fetch, 0, &body), 0);
        assert_eq!(of_response(ApiKey::ApiVersions, 3, &body), 0);
        assert_eq!(of_response(ApiKey::Fetch, 12, &body[..3]), 0);
        assert_eq!(of_millis(-1), 0);
        assert_eq!(of_millis(i32::MAX), LONGEST);
    }
}
