//! Throttle time (KIP-219): the broker responds at once and requires the client to pause.

use grete_wire::api::ApiKey;

use crate::time::{MILLI, Nanos, SECOND};

/// Maximum throttle time. A broker requests at most a quota window (seconds); an invalid value must not mute the broker
/// for weeks.
const MAX_THROTTLE: Nanos = 300 * SECOND;

/// Returns the throttle time in a response; 0: none.
#[must_use]
pub fn from_response(api: ApiKey, version: i16, body: &[u8]) -> Nanos {
    if version < first_version(api) {
        return 0;
    }
    match body.first_chunk::<4>() {
        Some(bytes) => from_millis(i32::from_be_bytes(*bytes)),
        None => 0,
    }
}

/// Converts `throttle_time_ms`; negative values count as 0.
#[must_use]
pub fn from_millis(millis: i32) -> Nanos {
    u64::try_from(millis).map_or(0, |millis| (millis * MILLI).min(MAX_THROTTLE))
}

/// Returns the first version whose response starts with `throttle_time_ms`. ApiVersions, OffsetDelete and Produce have
/// the field at a later position. The sender state machine decodes Produce responses and reports the time
/// ([`ClusterEvent::Throttled`](crate::cluster::ClusterEvent::Throttled)).
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
        assert_eq!(from_response(ApiKey::Fetch, 12, &body), 250 * MILLI);
        assert_eq!(from_response(ApiKey::Fetch, 0, &body), 0);
        assert_eq!(from_response(ApiKey::ApiVersions, 3, &body), 0);
        assert_eq!(from_response(ApiKey::Fetch, 12, &body[..3]), 0);
        assert_eq!(from_millis(-1), 0);
        assert_eq!(from_millis(i32::MAX), MAX_THROTTLE);
    }
}
