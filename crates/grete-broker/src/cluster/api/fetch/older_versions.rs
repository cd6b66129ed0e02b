//! Fetch that continues a session of a later version. The session may find a diverging epoch (KIP-595), for which the
//! version of the request has no form.

use std::borrow::Cow;

use grete_wire::ErrorCode;
use grete_wire::messages::{FetchRequest, FetchResponse, FetchTopic, FetchableTopicResponse, PartitionData};

use crate::fetch_session::SessionUse;

/// First version with diverging epochs.
pub(super) const FIRST_VERSION_WITH_DIVERGING_EPOCH: i16 = 12;

/// Returns the partitions that a request names, if its session may be of a version with diverging epochs.
pub(super) fn named_partitions(
    version: i16,
    session: SessionUse,
    request: &FetchRequest<'_>,
) -> Vec<(String, Vec<i32>)> {
    if version >= FIRST_VERSION_WITH_DIVERGING_EPOCH || !matches!(session, SessionUse::Incremental(_)) {
        return Vec::new();
    }
    let partitions = |topic: &FetchTopic<'_>| topic.partitions.iter().map(|wanted| wanted.partition).collect();
    request.topics.iter().map(|topic| (topic.topic.to_string(), partitions(topic))).collect()
}

/// Returns Kafka's response if the version has no form for a diverging epoch: an error for all that the request names.
pub(super) fn unsupported(session_id: i32, named: &[(String, Vec<i32>)]) -> FetchResponse<'static> {
    let partition = |&partition_index: &i32| PartitionData {
        partition_index,
        error_code: ErrorCode::UNSUPPORTED_VERSION.0,
        high_watermark: -1,
        aborted_transactions: Some(Vec::new()),
        records: Some(Cow::Borrowed(&[])),
        ..PartitionData::default()
    };
    let topic = |(name, partitions): &(String, Vec<i32>)| FetchableTopicResponse {
        topic: Cow::Owned(name.clone()),
        topic_id: 0,
        partitions: partitions.iter().map(partition).collect(),
    };
    FetchResponse {
        error_code: ErrorCode::UNSUPPORTED_VERSION.0,
        session_id,
        responses: named.iter().map(topic).collect(),
        ..FetchResponse::default()
    }
}
