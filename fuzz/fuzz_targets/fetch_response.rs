//! The Fetch decoder reads any response like the generated message, and needs hardly any memory.
#![no_main]

use grete_fuzz::counting::bounded;
use grete_wire::Reader;
use grete_wire::fetch::{TopicKey, response};
use grete_wire::messages::FetchResponse;
use grete_wire::records::iter_batches;
use libfuzzer_sys::fuzz_target;

/// Only the list of endpoints is allocated: an entry takes 56 bytes in memory and 11 on the wire.
const FACTOR: usize = 6;
const CAP: usize = 1024;

fuzz_target!(|data: &[u8]| {
    let Some((&version, body)) = data.split_first() else { return };
    let version = 11 + i16::from(version % 7);
    let whole = bounded(body.len(), FACTOR, CAP, || {
        let Ok((_, mut partitions)) = response::parse(version, body) else { return false };
        let mut whole = true;
        for partition in partitions.by_ref() {
            let Ok(partition) = partition else {
                whole = false;
                continue;
            };
            assert!(partition.aborted().count() <= body.len() / 16);
            for (_, range) in iter_batches(&body[partition.records]).flatten() {
                assert!(!range.is_empty());
            }
        }
        assert!(partitions.next().is_none());
        whole
    });
    let mut r = Reader::new(body);
    match FetchResponse::decode(version, &mut r) {
        Ok(message) if r.remaining() == 0 => {
            assert!(whole);
            compare(version, body, &message);
        }
        // The decoder skips the snapshot id, which only followers need.
        _ if version >= 12 => {}
        _ => assert!(!whole),
    }
});

fn compare(version: i16, body: &[u8], message: &FetchResponse<'_>) {
    let (head, mut partitions) = response::parse(version, body).unwrap();
    assert_eq!(head.throttle_time_ms, message.throttle_time_ms);
    assert_eq!(head.error_code.0, message.error_code);
    assert_eq!(head.session_id, message.session_id);
    for topic in &message.responses {
        for expected in &topic.partitions {
            let got = partitions.next().unwrap().unwrap();
            let key = if version >= 13 { TopicKey::Id(topic.topic_id) } else { TopicKey::Name(&topic.topic) };
            assert_eq!(got.topic, key);
            assert_eq!(got.partition, expected.partition_index);
            assert_eq!(got.error_code.0, expected.error_code);
            assert_eq!(got.high_watermark, expected.high_watermark);
            assert_eq!(got.last_stable_offset, expected.last_stable_offset);
            assert_eq!(got.log_start_offset, expected.log_start_offset);
            assert_eq!(got.preferred_read_replica, expected.preferred_read_replica);
            assert_eq!(body[got.records.clone()], *expected.records.as_deref().unwrap_or_default());
            let aborted = expected.aborted_transactions.iter().flatten();
            assert!(
                got.aborted()
                    .map(|a| (a.producer_id, a.first_offset))
                    .eq(aborted.map(|a| (a.producer_id, a.first_offset)))
            );
            let (diverging, leader) = (&expected.diverging_epoch, &expected.current_leader);
            assert_eq!(got.diverging_epoch.unwrap_or((-1, -1)), (diverging.epoch, diverging.end_offset));
            assert_eq!(got.current_leader.unwrap_or((-1, -1)), (leader.leader_id, leader.leader_epoch));
        }
    }
    assert!(partitions.next().is_none());
    assert_eq!(partitions.node_endpoints().len(), message.node_endpoints.len());
    for (got, expected) in partitions.node_endpoints().iter().zip(&message.node_endpoints) {
        assert_eq!((got.node_id, got.host, got.port), (expected.node_id, &*expected.host, expected.port));
        assert_eq!(got.rack, expected.rack.as_deref());
    }
}
