//! Responses with flipped, cut and inserted bytes: no panic, no position that moves backwards, and a valid response
//! still works.

use grete_wire::frame::Frame;
use grete_wire::messages::fetch::{FetchResponse, FetchableTopicResponse, PartitionData};
use proptest::prelude::*;

use super::simulator::{Simulator, batch, tp};
use crate::fetch::{FetchAction, FetchConfig, FetchEvent};
use crate::partition::table::FetchState;
use crate::request::{Reply, Response};

fn good_answer(version: i16) -> Vec<u8> {
    let data = |partition_index| PartitionData {
        partition_index,
        high_watermark: 40,
        log_start_offset: 0,
        records: Some([batch(10, 5, 1, 20), batch(15, 5, 1, 20)].concat().into()),
        ..Default::default()
    };
    let (topic, topic_id) = if version >= 13 { ("", 1001) } else { ("orders", 0) };
    let topic = FetchableTopicResponse { topic: topic.into(), topic_id, partitions: vec![data(0), data(1)] };
    let response = FetchResponse { session_id: 3, responses: vec![topic], ..Default::default() };
    let mut out = Vec::new();
    response.encode(version, &mut out).unwrap();
    out
}

#[derive(Debug, Clone)]
enum Damage {
    Set(usize, u8),
    Cut(usize),
    Insert(usize, u8),
}

fn damage() -> impl Strategy<Value = Damage> {
    let byte = prop_oneof![Just(0), Just(1), Just(0x7f), Just(0x80), Just(0xff), any::<u8>()];
    prop_oneof![
        8 => (any::<usize>(), byte.clone()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        1 => any::<usize>().prop_map(Damage::Cut),
        1 => (any::<usize>(), byte).prop_map(|(at, byte)| Damage::Insert(at, byte)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn damaged_answers_do_no_harm(
        version in 11_i16..=17,
        rounds in prop::collection::vec(prop::collection::vec(damage(), 0..6), 1..5),
    ) {
        let mut world = Simulator::new(&[("orders", 2)], 1, version, FetchConfig::default());
        let slots = [world.assign(tp("orders", 0), 12), world.assign(tp("orders", 1), 10)];
        world.plan();
        for damages in rounds {
            let before = slots.map(|slot| world.partitions.fetch_offset(slot));
            let mut bytes = good_answer(version);
            for damage in damages {
                let len = bytes.len().max(1);
                match damage {
                    Damage::Set(at, byte) => if let Some(place) = bytes.get_mut(at % len) { *place = byte },
                    Damage::Cut(at) => bytes.truncate(at % len),
                    Damage::Insert(at, byte) => bytes.insert(at % len, byte),
                }
            }
            let Some(outgoing) = world.take_pending(1) else {
                world.sleep();
                continue;
            };
            let response =
                Response { api: grete_wire::api::ApiKey::Fetch, version, frame: Frame::from(bytes), body: 0 };
            world.step(FetchEvent::Reply(Reply { token: outgoing.token, node: 1, result: Ok(response) }));
            for (slot, before) in slots.iter().zip(before) {
                prop_assert!(world.partitions.fetch_offset(*slot) >= before);
            }
            for chunk in std::mem::take(&mut world.chunks) {
                prop_assert!(chunk.next_offset > chunk.fetch_offset);
                if chunk.high_watermark >= 0 {
                    prop_assert!(chunk.next_offset <= chunk.high_watermark, "beyond the log");
                }
                world.release(&chunk);
            }
        }
        // Both partitions are served again from a position within the log, unless they stopped or their position is in
        // doubt.
        let doubtful = world.actions.iter().any(|action| {
            matches!(action, FetchAction::Position(_) | FetchAction::Failed { .. })
        });
        for slot in slots {
            prop_assert!(doubtful || world.partitions.state(slot) == FetchState::Fetching);
        }
        for _ in 0..10 {
            if world.pending.is_empty() && !doubtful {
                world.sleep();
            }
        }
        prop_assert!(doubtful || !world.pending.is_empty(), "it goes on");
    }
}
