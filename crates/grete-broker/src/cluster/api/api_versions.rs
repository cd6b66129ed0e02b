//! ApiVersions: the APIs, versions and features that the brokers offer.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use grete_wire::messages::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use grete_wire::{ApiKey, ErrorCode};

use crate::cluster::Cluster;

/// APIs that only listeners with SASL answer.
const SASL: &[ApiKey] = &[ApiKey::SaslHandshake, ApiKey::SaslAuthenticate];

/// Feature of share groups (KIP-932).
const SHARE_VERSION: &str = "share.version";

/// First version whose features may begin with version 0.
const FIRST_VERSION_WITH_ZERO: i16 = 4;

/// First version with the name and version of the client's software (KIP-511).
const FIRST_VERSION_WITH_SOFTWARE: i16 = 3;

/// Returns whether a name consists of letters and digits, and of `inner` characters neither first nor last.
fn is_software_name(name: &str, inner: &[char]) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric();
    name.starts_with(is_plain) && name.ends_with(is_plain) && name.chars().all(|c| is_plain(c) || inner.contains(&c))
}

impl Cluster {
    /// Returns the versions of an API that the brokers answer. `None`: the API is not implemented.
    #[must_use]
    pub fn offered_versions(&self, api: ApiKey) -> Option<RangeInclusive<i16>> {
        if SASL.contains(&api) && self.config.sasl.is_none() {
            return None;
        }
        let versions = self.config.release.versions(api)?;
        // After version 0 of SaslHandshake, the messages of the login have no header: Kafka 0.10 did that.
        let oldest = if api == ApiKey::SaslHandshake { 1 } else { *versions.start() };
        // The pattern of transactional ids in version 2 of ListTransactions (KIP-1152) is not implemented.
        let newest = if api == ApiKey::ListTransactions { 1 } else { *versions.end() };
        Some(oldest..=newest.min(*versions.end()))
    }

    pub(in crate::cluster) fn api_versions(
        &self,
        version: i16,
        request: &ApiVersionsRequest<'_>,
    ) -> ApiVersionsResponse<'static> {
        let is_named = is_software_name(&request.client_software_name, &['-', '.'])
            && is_software_name(&request.client_software_version, &['-', '.']);
        if version >= FIRST_VERSION_WITH_SOFTWARE && !is_named {
            return ApiVersionsResponse { error_code: ErrorCode::INVALID_REQUEST.0, ..ApiVersionsResponse::default() };
        }
        let api = |&api: &ApiKey| {
            let versions = self.offered_versions(api)?;
            // Kafka lists the versions 0 to 2 of Produce, which it refuses, because librdkafka looks for them.
            let min_version = if api == ApiKey::Produce { 0 } else { *versions.start() };
            Some(ApiVersion { api_key: api.key(), min_version, max_version: *versions.end() })
        };
        let features = [
            ("metadata.version", self.config.release.min_metadata_version(), self.config.release.metadata_version()),
            ("transaction.version", 0, self.transactions.config().version),
            ("group.version", 0, self.config.release.group_version()),
            (SHARE_VERSION, 0, self.config.release.share_version()),
        ];
        ApiVersionsResponse {
            api_keys: ApiKey::ALL.iter().filter_map(api).collect(),
            supported_features: features
                .iter()
                // Releases before share groups do not know the feature.
                .filter(|&&(name, _, max_version)| name != SHARE_VERSION || max_version > 0)
                // Older clients refuse a feature that begins with version 0.
                .filter(|&&(_, min_version, _)| version >= FIRST_VERSION_WITH_ZERO || min_version > 0)
                .map(|&(name, min_version, max_version)| SupportedFeatureKey {
                    name: Cow::Borrowed(name),
                    min_version,
                    max_version,
                })
                .collect(),
            finalized_features_epoch: 1,
            finalized_features: features
                .iter()
                .filter(|&&(_, _, level)| level > 0)
                .map(|&(name, _, level)| FinalizedFeatureKey {
                    name: Cow::Borrowed(name),
                    max_version_level: level,
                    min_version_level: level,
                })
                .collect(),
            ..ApiVersionsResponse::default()
        }
    }

    /// Returns the response to a version of ApiVersions that the brokers do not know (KIP-511).
    pub(in crate::cluster) fn api_versions_unsupported(&self) -> ApiVersionsResponse<'static> {
        let versions = self.offered_versions(ApiKey::ApiVersions).unwrap_or(0..=0);
        ApiVersionsResponse {
            error_code: ErrorCode::UNSUPPORTED_VERSION.0,
            api_keys: vec![ApiVersion {
                api_key: ApiKey::ApiVersions.key(),
                min_version: *versions.start(),
                max_version: *versions.end(),
            }],
            ..ApiVersionsResponse::default()
        }
    }
}
