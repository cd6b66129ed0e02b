//! API versions that one broker supports: its ApiVersions response.

use grete_wire::api::ApiKey;
use grete_wire::messages::ApiVersionsResponse;

use crate::request::RequestError;

/// Feature that selects the protocol of transactions (KIP-890).
const TRANSACTION_VERSION: &str = "transaction.version";
/// Feature that allows the consumer protocol (KIP-848).
const GROUP_VERSION: &str = "group.version";

/// Features that a cluster has finalized. The highest epoch is the newest; levels are 0 if the feature is not finalized.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FinalizedFeatures {
    /// Epoch of the features; -1: the broker does not know them.
    pub epoch: i64,
    /// Level of `transaction.version` (KIP-890).
    pub transaction_version: i16,
    /// Level of `group.version` (KIP-848).
    pub group_version: i16,
}

/// Version ranges of a broker, and the features that its cluster has finalized.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiVersions {
    ranges: Vec<(i16, i16, i16)>, // key, min, max; sorted by key
    features: FinalizedFeatures,
}

impl ApiVersions {
    /// Converts the response.
    pub fn new(answer: &ApiVersionsResponse<'_>) -> Self {
        let mut ranges: Vec<_> =
            answer.api_keys.iter().map(|api| (api.api_key, api.min_version, api.max_version)).collect();
        ranges.sort_unstable();
        ranges.dedup_by_key(|range| range.0);
        let level = |name: &str| {
            let feature = answer.finalized_features.iter().find(|feature| feature.name == name);
            feature.map_or(0, |feature| feature.max_version_level)
        };
        let features = FinalizedFeatures {
            epoch: answer.finalized_features_epoch,
            transaction_version: level(TRANSACTION_VERSION),
            group_version: level(GROUP_VERSION),
        };
        Self { ranges, features }
    }

    /// Returns the features that the broker knows to be finalized.
    pub fn features(&self) -> FinalizedFeatures {
        self.features
    }

    /// Returns the broker's lowest and highest version of an API; `None`: the broker does not support the API.
    pub fn range(&self, key: i16) -> Option<(i16, i16)> {
        let index = self.ranges.binary_search_by_key(&key, |range| range.0).ok()?;
        self.ranges.get(index).map(|&(_, min, max)| (min, max))
    }

    /// Returns the highest version that both sides support.
    pub fn negotiate(&self, api: ApiKey) -> Result<i16, RequestError> {
        self.negotiate_up_to(api, i16::MAX)
    }

    /// Returns the highest version, up to `max`, that both sides support.
    pub fn negotiate_up_to(&self, api: ApiKey, max: i16) -> Result<i16, RequestError> {
        let ours = (*api.ours().start(), max.min(*api.ours().end()));
        let broker = self.range(api.key());
        match broker {
            Some((min, max)) if min.max(ours.0) <= max.min(ours.1) => Ok(max.min(ours.1)),
            _ => Err(RequestError::Unsupported { api, broker, ours }),
        }
    }

    /// Returns `version` if the broker supports it.
    pub fn check_version(&self, api: ApiKey, version: i16) -> Result<i16, RequestError> {
        let broker = self.range(api.key());
        match broker {
            Some((min, max)) if (min..=max).contains(&version) => Ok(version),
            _ => Err(RequestError::Unsupported { api, broker, ours: (version, version) }),
        }
    }
}
