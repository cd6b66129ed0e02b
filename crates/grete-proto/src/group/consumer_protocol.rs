//! Metadata that members exchange inside JoinGroup and SyncGroup: ConsumerProtocolSubscription and
//! ConsumerProtocolAssignment, versions 0 to 3. Brokers do not check these bytes, so another member's bytes are as
//! untrusted as any network input.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grete_wire::WireError;
use grete_wire::primitives::Reader;
use grete_wire::primitives::writer::{put_array_len, put_i16, put_i32, put_nullable_bytes, put_nullable_str, put_str};

use super::assignor::{Assignor, MemberClaim};
use crate::ids::TopicPartition;

/// `protocol_type` in JoinGroup.
pub const PROTOCOL_TYPE: &str = "consumer";

/// Version to write. Newer versions are read as this one, because fields are only ever appended.
const VERSION: i16 = 3;

/// Encodes a member's topics and owned partitions. `generation` is the generation in which the member owned `owned`
/// (-1: none), `rack` the `client.rack` (KIP-881). A member that offers `sticky` has given up what it owned: `owned` is its last assignment.
///
/// # Errors
/// A topic name is too long for the protocol.
pub fn encode_subscription<'t>(
    assignor: Assignor,
    topics: impl IntoIterator<Item = &'t Arc<str>>,
    owned: impl IntoIterator<Item = &'t TopicPartition>,
    generation: i32,
    rack: Option<&str>,
) -> Result<Vec<u8>, WireError> {
    let mut out = Vec::new();
    let topics: BTreeSet<&Arc<str>> = topics.into_iter().collect();
    put_i16(&mut out, VERSION);
    put_array_len(&mut out, false, Some(topics.len()))?;
    for topic in topics {
        put_str(&mut out, false, topic)?;
    }
    let mut user_data = Vec::new();
    if assignor == Assignor::Sticky {
        encode_partitions(&mut user_data, owned)?;
        put_i32(&mut user_data, generation);
        put_nullable_bytes(&mut out, false, Some(&user_data))?;
        encode_partitions(&mut out, [])?;
    } else {
        // Before the generation field of version 2, members find the generation in the user data of cooperative-sticky.
        put_i32(&mut user_data, generation);
        put_nullable_bytes(&mut out, false, Some(&*user_data).filter(|_| assignor == Assignor::CooperativeSticky))?;
        encode_partitions(&mut out, owned)?;
    }
    put_i32(&mut out, generation);
    put_nullable_str(&mut out, false, rack)?;
    Ok(out)
}

/// Decodes another member's subscription to the elected assignor. A malformed subscription still counts as a member, because otherwise one
/// broken client would stop the whole group: its readable topics count, but its claim is empty.
#[must_use]
pub fn decode_subscription(
    assignor: Assignor,
    member_id: &str,
    instance_id: Option<&str>,
    metadata: &[u8],
) -> MemberClaim {
    let mut claim = MemberClaim {
        member_id: member_id.to_owned(),
        instance_id: instance_id.map(str::to_owned),
        generation: -1,
        ..MemberClaim::default()
    };
    let mut r = Reader::new(metadata);
    let Ok((version, topics)) = decode_topics(&mut r) else { return claim };
    claim.topics = topics;
    if let Ok((owned, generation, rack)) = decode_claim(&mut r, version, assignor) {
        claim.owned = owned;
        claim.generation = generation;
        claim.rack = rack.filter(|rack| !rack.is_empty()).map(Arc::from);
    }
    claim
}

fn decode_topics(r: &mut Reader<'_>) -> Result<(i16, BTreeSet<Arc<str>>), WireError> {
    let version = r.i16()?;
    if version < 0 {
        return Err(WireError::UnsupportedVersion { api: "ConsumerProtocolSubscription", version });
    }
    let topics = r.array(false, 2, |r| Ok(Arc::from(r.string()?)))?;
    Ok((version, topics.into_iter().collect()))
}

/// Owned partitions, the generation in which they were owned (-1: unknown), and the rack.
type OwnedInRack<'a> = (BTreeSet<TopicPartition>, i32, Option<&'a str>);

fn decode_claim<'a>(r: &mut Reader<'a>, version: i16, assignor: Assignor) -> Result<OwnedInRack<'a>, WireError> {
    let mut user_data = Reader::new(r.nullable_bytes()?.unwrap_or_default());
    let mut owned = if version >= 1 { decode_partitions(r)? } else { Vec::new() };
    let mut generation = if version >= 2 { Some(r.i32()?) } else { None };
    let rack = if version >= 3 { r.nullable_string()? } else { None };
    if assignor == Assignor::Sticky {
        // StickyAssignor's last assignment, which its member has given up. Before KIP-341 it had no generation.
        (owned, generation) = match decode_partitions(&mut user_data) {
            Ok(last) => (last, None),
            Err(_) => (Vec::new(), Some(-1)), // a new member has none
        };
    }
    let generation = generation.unwrap_or_else(|| user_data.i32().unwrap_or(-1));
    Ok((checked(owned)?, generation, rack))
}

fn checked(tps: Vec<TopicPartition>) -> Result<BTreeSet<TopicPartition>, WireError> {
    match tps.iter().find(|tp| tp.partition < 0) {
        Some(tp) => Err(WireError::BadLength { what: "a partition number", value: tp.partition.into() }),
        None => Ok(tps.into_iter().collect()),
    }
}

/// Encodes one member's assignment.
///
/// # Errors
/// A topic name is too long for the protocol.
pub fn encode_assignment(tps: &[TopicPartition]) -> Result<Vec<u8>, WireError> {
    let mut out = Vec::new();
    put_i16(&mut out, VERSION);
    encode_partitions(&mut out, tps)?;
    put_nullable_bytes(&mut out, false, None)?;
    Ok(out)
}

/// Decodes this member's assignment. Empty bytes mean that the leader assigned no partitions.
///
/// # Errors
/// The bytes are not a valid assignment.
pub fn decode_assignment(bytes: &[u8]) -> Result<BTreeSet<TopicPartition>, WireError> {
    if bytes.is_empty() {
        return Ok(BTreeSet::new());
    }
    let mut r = Reader::new(bytes);
    let version = r.i16()?;
    if version < 0 {
        return Err(WireError::UnsupportedVersion { api: "ConsumerProtocolAssignment", version });
    }
    checked(decode_partitions(&mut r)?)
}

fn decode_partitions(r: &mut Reader<'_>) -> Result<Vec<TopicPartition>, WireError> {
    let topics = r.array(false, 6, |r| {
        let topic: Arc<str> = Arc::from(r.string()?);
        Ok((topic, r.array(false, 4, Reader::i32)?))
    })?;
    let flat = topics.into_iter().flat_map(|(topic, partitions)| {
        partitions.into_iter().map(move |partition| TopicPartition { topic: topic.clone(), partition })
    });
    Ok(flat.collect())
}

fn encode_partitions<'t>(
    out: &mut Vec<u8>,
    tps: impl IntoIterator<Item = &'t TopicPartition>,
) -> Result<(), WireError> {
    let mut topics: BTreeMap<&Arc<str>, Vec<i32>> = BTreeMap::new();
    for tp in tps {
        topics.entry(&tp.topic).or_default().push(tp.partition);
    }
    put_array_len(out, false, Some(topics.len()))?;
    for (topic, partitions) in topics {
        put_str(out, false, topic)?;
        put_array_len(out, false, Some(partitions.len()))?;
        for partition in partitions {
            put_i32(out, partition);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use grete_wire::messages::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};
    use proptest::prelude::*;

    use super::*;

    fn tp(topic: &str, partition: i32) -> TopicPartition {
        TopicPartition::new(topic, partition)
    }

    /// Checks the bytes of Kafka 2.4 to 2.8 members (version 1, generation in the user data).
    #[test]
    fn a_version_1_member_has_its_generation_in_the_user_data() {
        let mut bytes = vec![0, 1, 0, 0, 0, 1, 0, 1, b't'];
        bytes.extend([0, 0, 0, 4, 0, 0, 0, 7]);
        bytes.extend([0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3]);
        let claim = decode_subscription(Assignor::CooperativeSticky, "m", None, &bytes);
        assert_eq!(claim.generation, 7);
        assert_eq!(claim.owned, [tp("t", 0), tp("t", 3)].into());
        assert_eq!(claim.topics, [Arc::from("t")].into());
    }

    /// The bytes of Kafka's StickyAssignor: the last assignment and its generation are in the user data.
    #[test]
    fn a_member_with_sticky_claims_its_last_assignment_and_owns_nothing() {
        let topics = [Arc::from("t")];
        let bytes = encode_subscription(Assignor::Sticky, &topics, &[tp("t", 0), tp("t", 3)], 7, None).unwrap();
        let mut java = vec![0, 3, 0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 23];
        let last = [0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 7];
        assert_eq!(last.len(), 23);
        java.extend(last);
        java.extend([0, 0, 0, 0, 0, 0, 0, 7, 255, 255]);
        assert_eq!(bytes, java);
        let claim = decode_subscription(Assignor::Sticky, "m", None, &bytes);
        assert_eq!((claim.owned, claim.generation), ([tp("t", 0), tp("t", 3)].into(), 7));
        // Before KIP-341 without a generation, and at first without user data.
        java.truncate(13 + 19);
        java[12] = 19;
        java.extend([0, 0, 0, 0, 0, 0, 0, 7, 255, 255]);
        let claim = decode_subscription(Assignor::Sticky, "m", None, &java);
        assert_eq!((claim.owned.len(), claim.generation), (2, -1));
        let claim =
            decode_subscription(Assignor::Sticky, "m", None, &[0, 0, 0, 0, 0, 1, 0, 1, b't', 255, 255, 255, 255]);
        assert_eq!((claim.topics.len(), claim.owned.len()), (1, 0));
    }

    #[test]
    fn a_version_0_member_claims_nothing() {
        let claim = decode_subscription(
            Assignor::CooperativeSticky,
            "m",
            Some("i"),
            &[0, 0, 0, 0, 0, 1, 0, 1, b't', 255, 255, 255, 255],
        );
        assert_eq!(claim.topics, [Arc::from("t")].into());
        assert!(claim.owned.is_empty());
        assert_eq!((claim.generation, claim.instance_id.as_deref()), (-1, Some("i")));
    }

    #[test]
    fn version_3_bytes_are_those_of_the_schema() {
        let topics = [Arc::from("t")];
        let bytes = encode_subscription(Assignor::Range, &topics, &[tp("t", 5)], 9, None).unwrap();
        let expected = [
            &[0, 3, 0, 0, 0, 1, 0, 1, b't', 255, 255, 255, 255][..],
            &[0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 5],
            &[0, 0, 0, 9, 255, 255],
        ];
        assert_eq!(bytes, expected.concat());
    }

    /// P23: a malformed member neither claims partitions nor stops the leader.
    #[test]
    fn p23_a_malformed_member_gets_an_empty_claim() {
        let topics = [Arc::from("t")];
        let bytes = encode_subscription(Assignor::CooperativeSticky, &topics, &[tp("t", 5)], 9, None).unwrap();
        for cut in 0..bytes.len() - 2 {
            let claim = decode_subscription(Assignor::CooperativeSticky, "m", None, &bytes[..cut]);
            assert!(claim.owned.is_empty(), "cut at {cut}");
            assert_eq!(claim.topics.is_empty(), cut < 9, "cut at {cut}");
        }
        let newer = [&[0, 9], &bytes[2..], &[1, 2, 3]].concat();
        assert_eq!(decode_subscription(Assignor::CooperativeSticky, "m", None, &newer).owned, [tp("t", 5)].into());
        assert_eq!(
            decode_subscription(Assignor::CooperativeSticky, "m", None, &[255, 255, 0, 0, 0, 0]).topics.len(),
            0
        );
    }

    /// The generated codec reads the bytes of this module, so the bytes match the schema.
    #[test]
    fn the_schemas_own_codec_agrees() {
        let topics = [Arc::from("b"), Arc::from("a")];
        let owned = [tp("b", 1), tp("a", 0), tp("b", 0)];
        let bytes = encode_subscription(Assignor::CooperativeSticky, &topics, &owned, 4, Some("b-1")).unwrap();
        let mut r = Reader::new(&bytes[2..]);
        let read = ConsumerProtocolSubscription::decode(3, &mut r).unwrap();
        assert_eq!(r.finish(), Ok(()));
        assert_eq!(
            (read.topics.join(","), read.generation_id, read.rack_id),
            ("a,b".to_owned(), 4, Some("b-1".into()))
        );
        assert_eq!(
            read.owned_partitions.iter().map(|t| t.partitions.as_slice()).collect::<Vec<_>>(),
            [&[0][..], &[1, 0]]
        );
        assert_eq!(read.user_data.as_deref(), Some(&[0, 0, 0, 4][..]));
        let bytes = encode_assignment(&owned).unwrap();
        let mut r = Reader::new(&bytes[2..]);
        let read = ConsumerProtocolAssignment::decode(3, &mut r).unwrap();
        assert_eq!(r.finish(), Ok(()));
        assert_eq!(read.assigned_partitions.len(), 2);
    }

    #[test]
    fn an_empty_assignment_has_no_bytes() {
        assert_eq!(decode_assignment(&[]), Ok(BTreeSet::new()));
        assert!(decode_assignment(&[0]).is_err());
        assert!(
            decode_assignment(&[0, 1, 0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 255, 255, 255, 255, 0, 0, 0, 0]).is_err()
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            topics in proptest::collection::btree_set("[a-c]{1,3}", 0..4),
            owned in proptest::collection::btree_set(("[a-c]{1,2}", 0..9_i32), 0..12),
            generation in -1..100_i32,
            rack in proptest::option::of("[a-z]{1,3}"),
        ) {
            let topics: BTreeSet<Arc<str>> = topics.iter().map(|t| Arc::from(t.as_str())).collect();
            let owned: BTreeSet<TopicPartition> = owned.iter().map(|(t, p)| tp(t, *p)).collect();
            for assignor in Assignor::ALL {
                let bytes = encode_subscription(assignor, &topics, &owned, generation, rack.as_deref()).unwrap();
                let claim = decode_subscription(assignor, "m", None, &bytes);
                prop_assert_eq!((&claim.topics, &claim.owned, claim.generation), (&topics, &owned, generation));
                prop_assert_eq!(claim.rack.as_deref(), rack.as_deref());
            }
            let tps: Vec<_> = owned.iter().cloned().collect();
            prop_assert_eq!(decode_assignment(&encode_assignment(&tps).unwrap()).unwrap(), owned);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            for assignor in Assignor::ALL {
                let _ = decode_subscription(assignor, "m", None, &bytes);
            }
            let _ = decode_assignment(&bytes);
        }
    }
}
