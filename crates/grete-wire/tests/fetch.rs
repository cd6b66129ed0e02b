//! Compares the hand-written Fetch codec with the generated one, and feeds it malformed bytes.

use std::borrow::Cow;

use grete_wire::fetch::{FetchParams, FetchPartitionEntry, TopicKey, VERSIONS, request, response};
use grete_wire::messages::{
    AbortedTransaction, FetchPartition, FetchRequest, FetchResponse, FetchResponseEpochEndOffset,
    FetchResponseLeaderIdAndEpoch, FetchResponseNodeEndpoint, FetchTopic, FetchableTopicResponse, ForgottenTopic,
    PartitionData,
};
use grete_wire::{ErrorCode, Reader, WireError};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

type Topic<T> = (String, u128, Vec<T>);

fn topics<T: std::fmt::Debug>(partition: impl Strategy<Value = T>) -> impl Strategy<Value = Vec<Topic<T>>> {
    vec(("[a-z]{1,300}", any::<u128>(), vec(partition, 0..4)), 0..4)
}

fn entry() -> impl Strategy<Value = FetchPartitionEntry> {
    any::<(i32, i32, i64, i32, i64, i32)>().prop_map(|(partition, a, fetch_offset, b, log_start_offset, max_bytes)| {
        FetchPartitionEntry {
            partition,
            current_leader_epoch: a,
            fetch_offset,
            last_fetched_epoch: b,
            log_start_offset,
            max_bytes,
        }
    })
}

fn key<T>(version: i16, topic: &Topic<T>) -> TopicKey<'_> {
    if version >= 13 { TopicKey::Id(topic.1) } else { TopicKey::Name(&topic.0) }
}

/// Returns the topic's name and id as the version carries them, the other one at its default.
fn names<T>(version: i16, topic: &Topic<T>) -> (Cow<'_, str>, u128) {
    if version >= 13 { ("".into(), topic.1) } else { (Cow::Borrowed(topic.0.as_str()), 0) }
}

fn partition() -> impl Strategy<Value = PartitionData<'static>> {
    let aborted = option::of(vec(
        any::<(i64, i64)>().prop_map(|(producer_id, first_offset)| AbortedTransaction { producer_id, first_offset }),
        0..5,
    ));
    (any::<(i32, i16, i64, i64, i64, i32)>(), option::of((0i32.., 0i64..)), option::of((0i32.., 0i32..)), aborted, {
        option::of(vec(any::<u8>(), 0..200))
    })
        .prop_map(|(fixed, diverging, leader, aborted_transactions, records)| {
            let mut partition = PartitionData {
                partition_index: fixed.0,
                error_code: fixed.1,
                high_watermark: fixed.2,
                last_stable_offset: fixed.3,
                log_start_offset: fixed.4,
                preferred_read_replica: fixed.5,
                aborted_transactions,
                records: records.map(Cow::Owned),
                ..PartitionData::default()
            };
            if let Some((epoch, end_offset)) = diverging {
                partition.diverging_epoch = FetchResponseEpochEndOffset { epoch, end_offset };
                partition.snapshot_id.end_offset = end_offset; // a tag that is skipped
            }
            if let Some((leader_id, leader_epoch)) = leader {
                partition.current_leader = FetchResponseLeaderIdAndEpoch { leader_id, leader_epoch };
            }
            partition
        })
}

fn encode_response(
    version: i16,
    topics: &[Topic<PartitionData<'static>>],
    endpoints: &[(i32, String, i32)],
) -> Vec<u8> {
    let plain = |mut partition: PartitionData<'static>| {
        if version < 12 {
            partition.diverging_epoch = Default::default();
            partition.current_leader = Default::default();
            partition.snapshot_id = Default::default();
        }
        partition
    };
    let topic = |topic: &Topic<PartitionData<'static>>| FetchableTopicResponse {
        topic: names(version, topic).0.into_owned().into(),
        topic_id: names(version, topic).1,
        partitions: topic.2.iter().cloned().map(plain).collect(),
    };
    let endpoint = |(node_id, host, port): &(i32, String, i32)| FetchResponseNodeEndpoint {
        node_id: *node_id,
        host: host.clone().into(),
        port: *port,
        rack: (port % 2 == 0).then(|| host.clone().into()),
    };
    let message = FetchResponse {
        throttle_time_ms: 17,
        error_code: 70,
        session_id: 12345,
        responses: topics.iter().map(topic).collect(),
        node_endpoints: if version >= 16 { endpoints.iter().map(endpoint).collect() } else { Vec::new() },
    };
    let mut out = Vec::new();
    message.encode(version, &mut out).unwrap();
    out
}

proptest! {
    #[test]
    fn requests_are_what_the_schema_says(
        version in VERSIONS,
        ints in any::<(i32, i32, i32, i8, i32, i32)>(),
        rack_id in "[a-z]{0,20}",
        wanted in topics(entry()),
        forgotten in topics(any::<i32>()),
    ) {
        let params = FetchParams {
            max_wait_ms: ints.0, min_bytes: ints.1, max_bytes: ints.2, isolation_level: ints.3,
            session_id: ints.4, session_epoch: ints.5, rack_id: &rack_id,
        };
        let mut out = Vec::new();
        request::encode_body(
            version,
            &params,
            wanted.iter().map(|topic| (key(version, topic), topic.2.iter().copied())),
            forgotten.iter().map(|topic| (key(version, topic), topic.2.iter().copied())),
            &mut out,
        ).unwrap();

        let partition = |entry: &FetchPartitionEntry| FetchPartition {
            partition: entry.partition,
            current_leader_epoch: entry.current_leader_epoch,
            fetch_offset: entry.fetch_offset,
            last_fetched_epoch: if version >= 12 { entry.last_fetched_epoch } else { -1 },
            log_start_offset: entry.log_start_offset,
            partition_max_bytes: entry.max_bytes,
            ..FetchPartition::default()
        };
        let expected = FetchRequest {
            max_wait_ms: ints.0, min_bytes: ints.1, max_bytes: ints.2, isolation_level: ints.3,
            session_id: ints.4, session_epoch: ints.5, rack_id: rack_id.as_str().into(),
            topics: wanted.iter().map(|topic| FetchTopic {
                topic: names(version, topic).0, topic_id: names(version, topic).1,
                partitions: topic.2.iter().map(partition).collect(),
            }).collect(),
            forgotten_topics_data: forgotten.iter().map(|topic| ForgottenTopic {
                topic: names(version, topic).0, topic_id: names(version, topic).1, partitions: topic.2.clone(),
            }).collect(),
            ..FetchRequest::default()
        };
        let mut r = Reader::new(&out);
        prop_assert_eq!(FetchRequest::decode(version, &mut r).unwrap(), expected.clone());
        prop_assert_eq!(r.remaining(), 0);
        let mut generated = Vec::new();
        expected.encode(version, &mut generated).unwrap();
        prop_assert_eq!(out, generated);
    }

    #[test]
    fn responses_are_read_as_the_schema_says(
        version in VERSIONS,
        topics in topics(partition()),
        endpoints in vec((any::<i32>(), "[a-z.]{1,30}", any::<i32>()), 0..3),
    ) {
        let body = encode_response(version, &topics, &endpoints);
        let (head, mut partitions) = response::parse(version, &body).unwrap();
        prop_assert_eq!((head.throttle_time_ms, head.error_code, head.session_id), (17, ErrorCode(70), 12345));
        for topic in &topics {
            for expected in &topic.2 {
                let got = partitions.next().unwrap().unwrap();
                prop_assert_eq!(got.topic, key(version, topic));
                prop_assert_eq!(got.partition, expected.partition_index);
                prop_assert_eq!(got.error_code.0, expected.error_code);
                prop_assert_eq!(got.high_watermark, expected.high_watermark);
                prop_assert_eq!(got.last_stable_offset, expected.last_stable_offset);
                prop_assert_eq!(got.log_start_offset, expected.log_start_offset);
                prop_assert_eq!(got.preferred_read_replica, expected.preferred_read_replica);
                let aborted: Vec<_> = got.aborted().map(|a| (a.producer_id, a.first_offset)).collect();
                let listed = expected.aborted_transactions.iter().flatten();
                prop_assert_eq!(aborted, listed.map(|a| (a.producer_id, a.first_offset)).collect::<Vec<_>>());
                prop_assert_eq!(&body[got.records.clone()], expected.records.as_deref().unwrap_or_default());
                let tagged = version >= 12;
                let (diverging, leader) = (&expected.diverging_epoch, &expected.current_leader);
                let diverging = (diverging.epoch, diverging.end_offset);
                let leader = (leader.leader_id, leader.leader_epoch);
                prop_assert_eq!(got.diverging_epoch, Some(diverging).filter(|&d| tagged && d != (-1, -1)));
                prop_assert_eq!(got.current_leader, Some(leader).filter(|&l| tagged && l != (-1, -1)));
            }
        }
        prop_assert!(partitions.next().is_none());
        let got: Vec<_> = partitions.node_endpoints().iter().map(|e| (e.node_id, e.host, e.port, e.rack)).collect();
        let rack = |e: &(i32, String, i32)| e.2 % 2 == 0;
        let expected = endpoints.iter().filter(|_| version >= 16);
        let expected: Vec<_> = expected.map(|e| (e.0, &*e.1, e.2, rack(e).then_some(&*e.1))).collect();
        prop_assert_eq!(got, expected);

        // Every truncation is an error, and ends the iteration.
        for cut in 0..body.len() {
            if let Ok((_, mut partitions)) = response::parse(version, &body[..cut]) {
                prop_assert!(partitions.any(|item| item.is_err()), "cut at {}", cut);
                prop_assert!(partitions.next().is_none());
            }
        }
    }

    #[test]
    fn damaged_responses_never_panic(
        version in VERSIONS,
        topics in topics(partition()),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let mut body = encode_response(version, &topics, &[]);
        for (at, byte) in damage {
            let at = at.index(body.len());
            body[at] = byte;
        }
        if let Ok((_, partitions)) = response::parse(version, &body) {
            for partition in partitions.flatten() {
                prop_assert!(body.get(partition.records.clone()).is_some());
                prop_assert!(partition.aborted().count() <= body.len() / 16);
            }
        }
    }
}

#[test]
fn a_topic_key_that_the_version_cannot_carry_is_refused() {
    let params = FetchParams {
        max_wait_ms: 0,
        min_bytes: 0,
        max_bytes: 0,
        isolation_level: 0,
        session_id: 0,
        session_epoch: 0,
        rack_id: "",
    };
    let encode = |version, topic| {
        let wanted = [(topic, std::iter::empty::<FetchPartitionEntry>())];
        let forgotten = [(topic, [0]); 0];
        request::encode_body(version, &params, wanted, forgotten, &mut Vec::new())
    };
    assert!(matches!(encode(12, TopicKey::Id(1)), Err(WireError::UnsupportedField { .. })));
    assert!(matches!(encode(13, TopicKey::Name("t")), Err(WireError::UnsupportedField { .. })));
    assert!(matches!(encode(10, TopicKey::Name("t")), Err(WireError::UnsupportedVersion { .. })));
    assert!(matches!(encode(18, TopicKey::Id(1)), Err(WireError::UnsupportedVersion { .. })));
    assert_eq!(encode(13, TopicKey::Id(1)), Ok(()));
}

#[test]
fn lying_counts_end_at_once() {
    for version in VERSIONS {
        let mut body = vec![0; 10];
        body.extend(if version >= 12 { vec![0xff, 0xff, 0xff, 0xff, 0x0f] } else { vec![0x7f, 0xff, 0xff, 0xff] });
        let (_, partitions) = response::parse(version, &body).unwrap();
        assert_eq!(partitions.map(|item| item.is_err()).collect::<Vec<_>>(), [true]);
    }
}
