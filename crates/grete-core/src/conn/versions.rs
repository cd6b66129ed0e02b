//! What one broker speaks: its answer to ApiVersions.

use grete_wire::api_key::ApiKey;
use grete_wire::messages::ApiVersionsResponse;

use crate::request::RequestError;

/// A broker's version ranges and the cluster's finalized features (KIP-584).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Versions {
    ranges: Vec<(i16, i16, i16)>, // key, min, max; sorted by key
    finalized: Vec<(String, i16)>,
    epoch: i64,
}

impl Versions {
    /// Takes what matters out of the answer.
    #[must_use]
    pub fn new(answer: &ApiVersionsResponse<'_>) -> Self {
        let mut ranges: Vec<_> =
            answer.api_keys.iter().map(|api| (api.api_key, api.min_version, api.max_version)).collect();
        ranges.sort_unstable();
        ranges.dedup_by_key(|range| range.0);
        let finalized =
            answer.finalized_features.iter().map(|f| (f.name.clone().into_owned(), f.max_version_level)).collect();
        Self { ranges, finalized, epoch: answer.finalized_features_epoch }
    }

    /// The broker's lowest and highest version of an API.
    #[must_use]
    pub fn range(&self, key: i16) -> Option<(i16, i16)> {
        let index = self.ranges.binary_search_by_key(&key, |range| range.0).ok()?;
        self.ranges.get(index).map(|&(_, min, max)| (min, max))
    }

    /// The highest version that both sides speak.
    pub fn pick(&self, api: ApiKey) -> Result<i16, RequestError> {
        self.pick_up_to(api, i16::MAX)
    }

    /// The highest version, up to `max`, that both sides speak.
    pub fn pick_up_to(&self, api: ApiKey, max: i16) -> Result<i16, RequestError> {
        let ours = (*api.ours().start(), max.min(*api.ours().end()));
        let broker = self.range(api.key());
        match broker {
            Some((min, max)) if min.max(ours.0) <= max.min(ours.1) => Ok(max.min(ours.1)),
            _ => Err(RequestError::Unsupported { api, broker, ours }),
        }
    }

    /// Whether the broker speaks that very version.
    pub fn check(&self, api: ApiKey, version: i16) -> Result<i16, RequestError> {
        let broker = self.range(api.key());
        match broker {
            Some((min, max)) if (min..=max).contains(&version) => Ok(version),
            _ => Err(RequestError::Unsupported { api, broker, ours: (version, version) }),
        }
    }

    /// A finalized feature's level, `metadata.version` say.
    #[must_use]
    pub fn finalized(&self, feature: &str) -> Option<i16> {
        self.finalized.iter().find(|(name, _)| name == feature).map(|&(_, level)| level)
    }

    /// Counts up whenever features are finalized; -1 if the broker does not say.
    #[must_use]
    pub fn features_epoch(&self) -> i64 {
        self.epoch
    }
}
