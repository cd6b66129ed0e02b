//! Responses of a broker that share the batches of a log instead of copying them.

use std::sync::Arc;

use crate::error::WireError;
use crate::messages::{FetchResponse, FetchResponseNodeEndpoint, FetchableTopicResponse, PartitionData};
use crate::primitives::writer;
use crate::schema::{Form, Value};
use crate::segmented_buf::SegmentedBuf;

/// First version with an error and a session for the whole response (KIP-227).
const FIRST_SESSION_VERSION: i16 = 7;
/// First version with the addresses of leaders (KIP-951).
const FIRST_VERSION_WITH_ENDPOINTS: i16 = 16;

/// Response whose records are sent from where they are.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SharedFetchResponse {
    /// The response. A partition with batches has neither records of its own nor tagged fields.
    pub response: FetchResponse<'static>,
    /// Batches of each partition, in the order of the response. Partitions without a place have none.
    pub batches: Vec<Vec<Arc<Vec<u8>>>>,
}

impl From<FetchResponse<'static>> for SharedFetchResponse {
    fn from(response: FetchResponse<'static>) -> Self {
        Self { response, batches: Vec::new() }
    }
}

impl SharedFetchResponse {
    /// Appends the body; batches become shared segments.
    ///
    /// # Errors
    /// The version is not supported or lacks a field that is set, a length exceeds the protocol, or a partition with
    /// batches has a tagged field.
    pub fn encode(&self, version: i16, out: &mut SegmentedBuf) -> Result<(), WireError> {
        if !FetchResponse::VERSIONS.contains(&version) {
            return Err(WireError::UnsupportedVersion { api: "FetchResponse", version });
        }
        let form = Form { version, flexible: version >= FetchResponse::FLEXIBLE_FROM, nullable: false };
        let FetchResponse { throttle_time_ms, error_code, session_id, responses, node_endpoints } = &self.response;
        let head = out.tail();
        writer::put_i32(head, *throttle_time_ms);
        if version >= FIRST_SESSION_VERSION {
            writer::put_i16(head, *error_code);
            writer::put_i32(head, *session_id);
        } else if *session_id != 0 {
            return Err(WireError::unsupported_field("FetchResponse", "session_id", version));
        }
        writer::put_array_len(head, form.flexible, Some(responses.len()))?;
        let mut batches = self.batches.iter();
        for topic in responses {
            put_topic(topic, &mut batches, form, out)?;
        }
        if form.flexible {
            put_endpoints(node_endpoints, form, out.tail())?;
        }
        Ok(())
    }
}

fn put_topic<'b>(
    topic: &FetchableTopicResponse<'_>,
    batches: &mut impl Iterator<Item = &'b Vec<Arc<Vec<u8>>>>,
    form: Form,
    out: &mut SegmentedBuf,
) -> Result<(), WireError> {
    let head = out.tail();
    if form.version >= super::FIRST_TOPIC_ID_VERSION {
        writer::put_uuid(head, topic.topic_id);
    } else {
        writer::put_str(head, form.flexible, &topic.topic)?;
    }
    writer::put_array_len(head, form.flexible, Some(topic.partitions.len()))?;
    for partition in &topic.partitions {
        match batches.next() {
            Some(batches) if !batches.is_empty() => put_partition(partition, batches, form, out)?,
            _ => partition.write(form, out.tail())?,
        }
    }
    if form.flexible {
        writer::put_uvarint(out.tail(), 0);
    }
    Ok(())
}

/// Appends a partition with its batches: the records are the last field before the tagged ones.
fn put_partition(
    partition: &PartitionData<'_>,
    batches: &[Arc<Vec<u8>>],
    form: Form,
    out: &mut SegmentedBuf,
) -> Result<(), WireError> {
    // No records and no tagged fields.
    let end: &[u8] = if form.flexible { &[1, 0] } else { &[0, 0, 0, 0] };
    let tail = out.tail();
    partition.write(form, tail)?;
    if !tail.ends_with(end) || partition.records.as_ref().is_none_or(|records| !records.is_empty()) {
        return Err(WireError::unsupported_field("PartitionData", "records", form.version));
    }
    tail.truncate(tail.len() - end.len());
    writer::put_bytes_len(tail, form.flexible, batches.iter().map(|batch| batch.len()).sum())?;
    for batch in batches {
        out.push_shared(Arc::clone(batch));
    }
    if form.flexible {
        writer::put_uvarint(out.tail(), 0);
    }
    Ok(())
}

/// Appends the tagged fields of the response, which are the addresses of leaders.
fn put_endpoints(
    endpoints: &Vec<FetchResponseNodeEndpoint<'_>>,
    form: Form,
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    if endpoints.is_empty() {
        writer::put_uvarint(out, 0);
        return Ok(());
    }
    if form.version < FIRST_VERSION_WITH_ENDPOINTS {
        return Err(WireError::unsupported_field("FetchResponse", "node_endpoints", form.version));
    }
    writer::put_uvarint(out, 1);
    writer::put_tag(out, 0, |out| endpoints.write(form, out))
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use proptest::prelude::*;

    use super::*;
    use crate::messages::FetchResponseLeaderIdAndEpoch;

    fn batches() -> impl Strategy<Value = Vec<Arc<Vec<u8>>>> {
        prop::collection::vec((any::<u8>(), 0_usize..2000).prop_map(|(byte, n)| Arc::new(vec![byte; n])), 0..4)
    }

    /// Partitions with batches, and without any but with a leader.
    fn partition() -> impl Strategy<Value = (PartitionData<'static>, Vec<Arc<Vec<u8>>>)> {
        (any::<i32>(), any::<i64>(), any::<bool>(), batches()).prop_map(|(partition_index, at, moved, batches)| {
            let leader_id = if moved && batches.is_empty() { 3 } else { -1 };
            let data = PartitionData {
                partition_index,
                high_watermark: at,
                current_leader: FetchResponseLeaderIdAndEpoch { leader_id, leader_epoch: -1 },
                records: Some(Cow::Borrowed(&[])),
                ..PartitionData::default()
            };
            (data, batches)
        })
    }

    proptest! {
        #[test]
        fn the_bytes_are_those_of_a_response_with_copied_records(
            version in FetchResponse::VERSIONS,
            topics in prop::collection::vec(prop::collection::vec(partition(), 0..4), 0..4),
            has_endpoints: bool,
        ) {
            let mut shared = SharedFetchResponse::default();
            let mut copied = FetchResponse { session_id: i32::from(version >= 7), ..FetchResponse::default() };
            if has_endpoints && version >= 16 {
                copied.node_endpoints = vec![FetchResponseNodeEndpoint { node_id: 2, port: 9092, ..Default::default() }];
            }
            shared.response = copied.clone();
            for (id, partitions) in (1_u128..).zip(topics) {
                let mut topic = FetchableTopicResponse {
                    topic: Cow::Owned(if version < 13 { format!("t{id}") } else { String::new() }),
                    topic_id: if version < 13 { 0 } else { id },
                    partitions: Vec::new(),
                };
                let mut with_records = topic.clone();
                for (data, batches) in partitions {
                    let data = if version < 12 { PartitionData { current_leader: Default::default(), ..data } } else { data };
                    topic.partitions.push(data.clone());
                    let records = batches.iter().flat_map(|batch| batch.iter().copied()).collect();
                    with_records.partitions.push(PartitionData { records: Some(Cow::Owned(records)), ..data });
                    shared.batches.push(batches);
                }
                shared.response.responses.push(topic);
                copied.responses.push(with_records);
            }
            let (mut expected, mut out) = (Vec::new(), SegmentedBuf::default());
            copied.encode(version, &mut expected).unwrap();
            shared.encode(version, &mut out).unwrap();
            prop_assert_eq!(out.to_vec(), expected);
        }
    }

    #[test]
    fn a_partition_with_batches_has_no_other_records() {
        let data = PartitionData { records: Some(Cow::Borrowed(b"x")), ..PartitionData::default() };
        let topic = FetchableTopicResponse { partitions: vec![data], ..FetchableTopicResponse::default() };
        let response = FetchResponse { responses: vec![topic], ..FetchResponse::default() };
        let shared = SharedFetchResponse { response, batches: vec![vec![Arc::new(vec![1; 600])]] };
        shared.encode(17, &mut SegmentedBuf::default()).unwrap_err();
    }
}
