//! The hot half of Produce: requests whose batches are shared, not copied. Answers are [`crate::messages::ProduceResponse`].

use std::fmt;
use std::sync::Arc;

use crate::error::WireError;
use crate::outbound::Outbound;
use crate::primitives::writer;

/// Topic ids replace names from here on (KIP-516).
const FIRST_WITH_IDS: i16 = 13;
const FIRST_FLEXIBLE: i16 = 9;

/// A Produce request's body.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProduceBody {
    /// The transactional id; `None` outside of transactions.
    pub transactional_id: Option<Arc<str>>,
    /// How many replicas have to have it before the broker answers: -1 for all in sync, 1, or 0 for no answer at all.
    pub acks: i16,
    /// How long the broker may wait for them.
    pub timeout_ms: i32,
    /// What goes where.
    pub topics: Vec<ProduceTopic>,
}

/// One topic of a [`ProduceBody`].
#[derive(Clone, PartialEq, Eq)]
pub struct ProduceTopic {
    /// Its name, for versions up to 12.
    pub name: Arc<str>,
    /// Its id, for versions from 13; 0 while unknown.
    pub id: u128,
    /// Partition number and batch.
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

impl ProduceBody {
    /// The highest version that can carry it: without every topic's id none that names topics by id.
    #[must_use]
    pub fn max_version(&self) -> i16 {
        if self.topics.iter().any(|topic| topic.id == 0) { FIRST_WITH_IDS - 1 } else { FIRST_WITH_IDS }
    }

    /// Appends the body, batches as shared segments.
    ///
    /// # Errors
    /// A version that is not among 3 to 13, or a length that the protocol cannot carry.
    pub fn encode(&self, version: i16, out: &mut Outbound) -> Result<(), WireError> {
        if !(3..=13).contains(&version) {
            return Err(WireError::UnsupportedVersion { api: "ProduceRequest", version });
        }
        let flexible = version >= FIRST_FLEXIBLE;
        let head = out.tail();
        writer::put_nullable_str(head, flexible, self.transactional_id.as_deref())?;
        writer::put_i16(head, self.acks);
        writer::put_i32(head, self.timeout_ms);
        writer::put_array_len(head, flexible, Some(self.topics.len()))?;
        for topic in &self.topics {
            let head = out.tail();
            if version >= FIRST_WITH_IDS {
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
                end(flexible, out);
            }
            end(flexible, out);
        }
        end(flexible, out);
        Ok(())
    }
}

/// No tagged fields.
fn end(flexible: bool, out: &mut Outbound) {
    if flexible {
        writer::put_uvarint(out.tail(), 0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::messages::{PartitionProduceData, ProduceRequest, TopicProduceData};
    use crate::outbound::Segment;

    fn generated(body: &ProduceBody) -> ProduceRequest<'_> {
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
        // A name of a hundred and odd bytes is where its compact length takes two.
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
            let body = ProduceBody { transactional_id, acks, timeout_ms, topics };
            let mut out = Outbound::default();
            body.encode(version, &mut out).unwrap();
            let mut expected = Vec::new();
            generated(&body).encode(version, &mut expected).unwrap();
            prop_assert!(out.to_vec() == expected);
            prop_assert_eq!(out.len(), expected.len());
            let shared = |segment: &Segment| matches!(segment, Segment::Shared(_));
            for (_, batch) in body.topics.iter().flat_map(|topic| &topic.partitions).filter(|(_, b)| b.len() > 1024) {
                // Held by the body and by the request: it has not been copied.
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
        let body = ProduceBody { topics: (0..200).map(topic).collect(), ..Default::default() };
        for version in 3..=13 {
            let (mut out, mut expected) = (Outbound::default(), Vec::new());
            body.encode(version, &mut out).unwrap();
            generated(&body).encode(version, &mut expected).unwrap();
            assert!(out.to_vec() == expected, "version {version}");
        }
    }

    #[test]
    fn a_topic_without_an_id_holds_the_version_down() {
        let topic = |id| ProduceTopic { name: "orders".into(), id, partitions: vec![] };
        let mut body = ProduceBody { topics: vec![topic(7)], ..Default::default() };
        assert_eq!(body.max_version(), 13);
        body.topics.push(topic(0));
        assert_eq!(body.max_version(), 12);
        assert!(body.encode(14, &mut Outbound::default()).is_err());
    }
}
