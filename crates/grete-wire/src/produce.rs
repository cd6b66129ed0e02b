//! Produce requests that share their batches instead of copying them. Responses are
//! [`crate::messages::ProduceResponse`].

use std::fmt;
use std::sync::Arc;

use crate::error::WireError;
use crate::primitives::writer;
use crate::segmented_buf::SegmentedBuf;

/// First version with topic ids instead of names (KIP-516).
const FIRST_TOPIC_ID_VERSION: i16 = 13;
const FIRST_FLEXIBLE_VERSION: i16 = 9;
/// First version that adds the partitions to the transaction (KIP-890).
const FIRST_ADDING_VERSION: i16 = 12;

/// Body of a Produce request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProduceRequestBody {
    /// `transactional.id`; `None` outside of transactions.
    pub transactional_id: Option<Arc<str>>,
    /// The producer has added the partitions to its transaction: versions that add them must not be used.
    pub has_added_partitions: bool,
    /// Replicas that must have the batch before the broker responds: -1 for all in sync, 1, or 0 for no response at
    /// all.
    pub acks: i16,
    /// Time in ms that the broker may wait for the replicas.
    pub timeout_ms: i32,
    /// Batches by topic.
    pub topics: Vec<ProduceTopic>,
}

/// Topic of a [`ProduceRequestBody`].
#[derive(Clone, PartialEq, Eq)]
pub struct ProduceTopic {
    /// Topic name, for versions up to 12.
    pub name: Arc<str>,
    /// Topic id, for versions from 13; 0: unknown.
    pub id: u128,
    /// Partition and batch of each partition.
    pub partitions: Vec<(i32, Arc<Vec<u8>>)>,
}

impl fmt::Debug for ProduceTopic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = self.partitions.iter().map(|(index, batch)| (index, batch.len()));
        write!(f, "ProduceTopic({}, {:#x}, bytes by partition: ", self.name, self.id)?;
        f.debug_map().entries(sizes).finish()?;
        f.write_str(")")
    }
}

impl ProduceRequestBody {
    /// Returns the highest version that can carry the body. Versions from 13 on need the id of every topic.
    pub fn max_version(&self) -> i16 {
        if self.has_added_partitions {
            FIRST_ADDING_VERSION - 1
        } else if self.topics.iter().any(|topic| topic.id == 0) {
            FIRST_TOPIC_ID_VERSION - 1
        } else {
            FIRST_TOPIC_ID_VERSION
        }
    }

    /// Appends the body; batches become shared segments.
    ///
    /// # Errors
    /// The version is not among 3 to 13, or a length exceeds the protocol.
    pub fn encode(&self, version: i16, out: &mut SegmentedBuf) -> Result<(), WireError> {
        if !(3..=13).contains(&version) {
            return Err(WireError::UnsupportedVersion { api: "ProduceRequest", version });
        }
        let flexible = version >= FIRST_FLEXIBLE_VERSION;
        let head = out.tail();
        writer::put_nullable_str(head, flexible, self.transactional_id.as_deref())?;
        writer::put_i16(head, self.acks);
        writer::put_i32(head, self.timeout_ms);
        writer::put_array_len(head, flexible, Some(self.topics.len()))?;
        for topic in &self.topics {
            let head = out.tail();
            if version >= FIRST_TOPIC_ID_VERSION {
                writer::put_uuid(head, topic.id);
            } else {
                writer::put_str(head, flexible, &topic.name)?;
            }
            writer::put_array_len(head, flexible, Some(topic.partitions.len()))?;
            for (index, batch) in &topic.partitions {
                let head = out.tail();
                writer::put_i32(head, *index);
                writer::put_bytes_len(head, flexible, batch.len())?;
                out.push_shared(Arc::clone(batch));
                put_empty_tags(flexible, out);
            }
            put_empty_tags(flexible, out);
        }
        put_empty_tags(flexible, out);
        Ok(())
    }
}

/// Appends an empty section of tagged fields, in flexible versions.
fn put_empty_tags(flexible: bool, out: &mut SegmentedBuf) {
    if flexible {
        writer::put_uvarint(out.tail(), 0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::messages::{PartitionProduceData, ProduceRequest, TopicProduceData};
    use crate::segmented_buf::Segment;

    fn generated(body: &ProduceRequestBody) -> ProduceRequest<'_> {
        let partition = |(index, batch): &(i32, Arc<Vec<u8>>)| PartitionProduceData {
            index: *index,
            records: Some(batch.to_vec().into()),
        };
        ProduceRequest {
            transactional_id: body.transactional_id.as_deref().map(Into::into),
            acks: body.acks,
            timeout_ms: body.timeout_ms,
            topic_data: (body.topics.iter())
                .map(|topic| TopicProduceData {
                    name: (&*topic.name).into(),
                    topic_id: topic.id,
                    partition_data: topic.partitions.iter().map(partition).collect(),
                })
                .collect(),
        }
    }

    fn a_topic() -> impl Strategy<Value = ProduceTopic> {
        let batch = prop_oneof![
            9 => prop::collection::vec(any::<u8>(), 0..1500),
            // Compact lengths of three and of four bytes.
            1 => (any::<u8>(), prop_oneof![16_380_usize..16_390, 2_097_150_usize..2_097_154])
                .prop_map(|(byte, n)| vec![byte; n]),
        ];
        // Beyond about a hundred bytes, a compact length takes two bytes.
        ("[a-z]{1,249}", any::<u128>(), prop::collection::vec((any::<i32>(), batch.prop_map(Arc::new)), 0..4))
            .prop_map(|(name, id, partitions)| ProduceTopic { name: name.into(), id, partitions })
    }

    proptest! {
        #[test]
        fn the_bytes_are_those_of_the_generated_codec(
            transactional_id in prop::option::of("[a-zß]{0,200}"),
            acks: i16,
            timeout_ms: i32,
            topics in prop::collection::vec(a_topic(), 0..4),
            version in 3_i16..=13,
        ) {
            let transactional_id = transactional_id.map(Arc::from);
            let body = ProduceRequestBody { transactional_id, acks, timeout_ms, topics, ..Default::default() };
            let mut out = SegmentedBuf::default();
            body.encode(version, &mut out).unwrap();
            let mut expected = Vec::new();
            generated(&body).encode(version, &mut expected).unwrap();
            prop_assert!(out.to_vec() == expected);
            prop_assert_eq!(out.len(), expected.len());
            let shared = |segment: &Segment| matches!(segment, Segment::Shared(_));
            for (_, batch) in body.topics.iter().flat_map(|topic| &topic.partitions).filter(|(_, b)| b.len() > 1024) {
                // Held by the body and the request: the batch was not copied.
                prop_assert_eq!(Arc::strong_count(batch), 2);
            }
            prop_assert!(out.segments().iter().filter(|segment| shared(segment)).all(|segment| segment.len() > 256));
        }
    }

    #[test]
    fn counts_above_a_compact_byte() {
        let topic = |i: i32| ProduceTopic {
            name: format!("topic-{i}").into(),
            id: i as u128,
            partitions: (0..i).map(|partition| (partition, Arc::new(vec![7; 3]))).collect(),
        };
        let body = ProduceRequestBody { topics: (0..200).map(topic).collect(), ..Default::default() };
        for version in 3..=13 {
            let (mut out, mut expected) = (SegmentedBuf::default(), Vec::new());
            body.encode(version, &mut out).unwrap();
            generated(&body).encode(version, &mut expected).unwrap();
            assert!(out.to_vec() == expected, "version {version}");
        }
    }

    #[test]
    fn a_topic_without_an_id_holds_the_version_down() {
        let topic = |id| ProduceTopic { name: "orders".into(), id, partitions: vec![] };
        let mut body = ProduceRequestBody { topics: vec![topic(7)], ..Default::default() };
        assert_eq!(body.max_version(), 13);
        body.has_added_partitions = true;
        assert_eq!(body.max_version(), 11, "version 12 would add the partitions again");
        body.has_added_partitions = false;
        body.topics.push(topic(0));
        assert_eq!(body.max_version(), 12);
        assert!(body.encode(14, &mut SegmentedBuf::default()).is_err());
    }
}
