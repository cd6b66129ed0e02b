//! Random events in random order: no panic, and no deadline that stays in the past.

use grete_wire::Frame;
use proptest::prelude::*;

use super::simulator::*;
use crate::admin::OffsetSpec;
use crate::connection::CloseReason;
use crate::consumer::*;
use crate::dispatch::Committable;
use crate::ids::{ConnId, TopicPartition};
use crate::position::StartPosition;
use crate::time::MILLI;

fn any_tp() -> impl Strategy<Value = TopicPartition> {
    (prop_oneof![3 => Just("orders"), 1 => Just("missing")], -1..4_i32)
        .prop_map(|(topic, partition)| TopicPartition::new(topic, partition))
}

fn any_at() -> impl Strategy<Value = StartPosition> {
    prop_oneof![
        any::<i64>().prop_map(StartPosition::Offset),
        (0..40_i64).prop_map(StartPosition::Offset),
        Just(StartPosition::Earliest),
        Just(StartPosition::Latest),
        Just(StartPosition::Reset),
        any::<i64>().prop_map(StartPosition::Timestamp),
    ]
}

fn any_when() -> impl Strategy<Value = OffsetSpec> {
    prop_oneof![Just(OffsetSpec::Earliest), Just(OffsetSpec::Latest), any::<i64>().prop_map(OffsetSpec::Timestamp)]
}

fn any_start() -> impl Strategy<Value = StartOffset> {
    prop_oneof![1 => Just(StartOffset::Committed), 3 => any_at().prop_map(StartOffset::At)]
}

fn any_offset() -> impl Strategy<Value = Committable> {
    let fields = (any_tp(), -1..50_i64, -1..3_i32, 0..5_u32, "(grete1:[A-Z]{0,6})?");
    fields.prop_map(|(tp, offset, leader_epoch, assignment_epoch, metadata)| Committable {
        generation: None,
        tp,
        offset,
        leader_epoch,
        assignment_epoch,
        metadata,
    })
}

#[derive(Debug, Clone)]
enum Step {
    Pass(u64),
    Append(i32),
    Cut,
    Connected(u32),
    Garbage(u32, Vec<u8>),
    Closed(u32),
    Subscribe(u8),
    Assign(Vec<(TopicPartition, StartOffset)>),
    Seek(TopicPartition, StartOffset),
    Pause(TopicPartition, bool),
    Commit(Vec<Committable>, u32),
    Committed(Vec<TopicPartition>, u32),
    List(Vec<(TopicPartition, OffsetSpec)>, u32),
    Count(bool, u32),
    Forget(u32),
    Released(u32, usize),
    Charged(u32, usize),
    Corrupt(u32, u32, i64),
    Drained(u32, Option<Committable>),
    Close(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let few = |max| 0..max as u32;
    prop_oneof![
        12 => (0..3000_u64).prop_map(Step::Pass),
        2 => (0..40_000_u64).prop_map(Step::Pass),
        3 => (0..3_i32).prop_map(Step::Append),
        1 => Just(Step::Cut),
        1 => few(9).prop_map(Step::Connected),
        1 => (few(9), prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(conn, bytes)| Step::Garbage(conn, bytes)),
        1 => few(9).prop_map(Step::Closed),
        2 => (0..4_u8).prop_map(Step::Subscribe),
        3 => prop::collection::vec((any_tp(), any_start()), 0..4).prop_map(Step::Assign),
        3 => (any_tp(), any_start()).prop_map(|(tp, start)| Step::Seek(tp, start)),
        2 => (any_tp(), any::<bool>()).prop_map(|(tp, paused)| Step::Pause(tp, paused)),
        2 => (prop::collection::vec(any_offset(), 0..4), few(9)).prop_map(|(offsets, id)| Step::Commit(offsets, id)),
        1 => (prop::collection::vec(any_tp(), 0..4), few(9)).prop_map(|(tps, id)| Step::Committed(tps, id)),
        1 => (prop::collection::vec((any_tp(), any_when()), 0..4), few(9)).prop_map(|(starts, id)| Step::List(starts, id)),
        1 => (any::<bool>(), few(9)).prop_map(|(known, id)| Step::Count(known, id)),
        1 => few(9).prop_map(Step::Forget),
        1 => (few(9), any::<usize>()).prop_map(|(slot, bytes)| Step::Released(slot, bytes)),
        1 => (few(9), 0..100_000_usize).prop_map(|(slot, bytes)| Step::Charged(slot, bytes)),
        1 => (few(9), few(20), any::<i64>()).prop_map(|(slot, generation, offset)| Step::Corrupt(slot, generation, offset)),
        1 => (few(9), prop::option::of(any_offset())).prop_map(|(slot, offset)| Step::Drained(slot, offset)),
        1 => (0..20_000_u64).prop_map(Step::Close),
    ]
}

/// Applies one random step. It closes only unknown connections, because the simulator must know of each close.
fn act(world: &mut Simulator, step: Step) {
    let now = world.now;
    let event = match step {
        Step::Pass(ms) => return world.advance(ms * MILLI),
        Step::Append(partition) => return world.append(partition, 3),
        Step::Cut => return world.disconnect(0, |_| true),
        Step::Connected(conn) => ConsumerEvent::Connected(ConnId(conn)),
        Step::Garbage(conn, bytes) => ConsumerEvent::Frame(ConnId(conn), Frame::from(bytes)),
        Step::Closed(conn) => ConsumerEvent::Closed(ConnId(conn + 100_000), CloseReason::Eof),
        Step::Subscribe(topics) => {
            let names = ["orders", "missing"].into_iter().enumerate().filter(|(bit, _)| topics & (1 << bit) != 0);
            ConsumerEvent::Subscribe(names.map(|(_, name)| name.into()).collect())
        }
        Step::Assign(partitions) => ConsumerEvent::Assign { partitions, id: 1 },
        Step::Seek(tp, start) => ConsumerEvent::Seek(tp, start),
        Step::Pause(tp, paused) => ConsumerEvent::Pause(tp, paused),
        Step::Commit(offsets, id) => ConsumerEvent::Commit { offsets, id },
        Step::Committed(tps, id) => ConsumerEvent::Committed { tps, id },
        Step::List(starts, id) => ConsumerEvent::ListOffsets { starts, id },
        Step::Count(known, id) => {
            let topic = if known { "orders" } else { "missing" };
            ConsumerEvent::CountPartitions { topic: topic.into(), id }
        }
        Step::Forget(id) => ConsumerEvent::CancelQuery(id),
        Step::Released(slot, bytes) => ConsumerEvent::Released(vec![(PartitionHandle(slot), bytes)]),
        Step::Charged(slot, bytes) => ConsumerEvent::Charged(PartitionHandle(slot), bytes),
        Step::Corrupt(slot, generation, offset) => {
            ConsumerEvent::Corrupt { slot: PartitionHandle(slot), generation, offset }
        }
        Step::Drained(slot, offset) => ConsumerEvent::Drained(PartitionHandle(slot), offset),
        Step::Close(ms) => ConsumerEvent::Close {
            offsets: (ms % 2 == 0).then(Vec::new),
            deadline: now + ms * MILLI,
            remain_in_group: true,
        },
    };
    world.send_event(0, event);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn random_events_never_panic_and_never_spin(steps in prop::collection::vec(step(), 1..80), grouped in any::<bool>()) {
        let mut world = Simulator::new(3);
        // Offsets that no handler has processed are committed here.
        world.unchecked = true;
        let mut config = config();
        config.group = config.group.filter(|_| grouped);
        world.add(config);
        for step in steps {
            act(&mut world, step);
            if world.members[0].finished {
                break;
            }
        }
        world.advance(60_000 * MILLI);
    }
}
