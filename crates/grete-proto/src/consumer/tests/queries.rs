use grete_wire::{ApiKey, ErrorCode};

use super::simulator::*;
use crate::admin::OffsetSpec;
use crate::consumer::*;
use crate::time::SECOND;

fn send_query(world: &mut Simulator, m: usize, event: ConsumerEvent) {
    world.send_event(m, event);
}

fn count(topic: &str, id: u32) -> ConsumerEvent {
    ConsumerEvent::CountPartitions { topic: topic.into(), id }
}

fn partitions(world: &Simulator, m: usize, id: u32) -> Option<Result<i32, ErrorCode>> {
    world.members[m].replies.iter().find_map(|(other, reply)| match reply {
        ConsumerReply::Partitions(answer) if *other == id => Some(*answer),
        _ => None,
    })
}

fn offsets(world: &Simulator, m: usize, id: u32) -> Option<Vec<i64>> {
    world.members[m].replies.iter().find_map(|(other, reply)| match reply {
        ConsumerReply::Offsets(found) if *other == id => {
            Some(found.iter().map(|offset| *offset.as_ref().unwrap()).collect())
        }
        _ => None,
    })
}

fn committed(world: &Simulator, m: usize, id: u32) -> Option<Vec<(i32, Option<i64>)>> {
    world.members[m].replies.iter().find_map(|(other, reply)| match reply {
        ConsumerReply::Committed(Ok(found)) if *other == id => {
            Some(found.iter().map(|(tp, offset)| (tp.partition, *offset)).collect())
        }
        _ => None,
    })
}

fn list(starts: &[(i32, OffsetSpec)], id: u32) -> ConsumerEvent {
    ConsumerEvent::ListOffsets { starts: starts.iter().map(|&(partition, at)| (tp(partition), at)).collect(), id }
}

/// A member that processes three partitions of thirty records each.
fn working() -> (Simulator, usize) {
    let mut world = Simulator::new(3);
    for _ in 0..3 {
        for partition in 0..3 {
            world.append(partition, 10);
        }
        world.now += SECOND;
    }
    let m = world.add(config());
    world.subscribe(m);
    world.advance(7 * SECOND);
    (world, m)
}

#[test]
fn partitions_are_counted_once_metadata_has_come() {
    let mut world = Simulator::new(3);
    let m = world.add(config());
    world.brokers.silent.insert(ApiKey::Metadata);
    send_query(&mut world, m, count("orders", 1));
    send_query(&mut world, m, count("missing", 2));
    world.advance(SECOND);
    assert_eq!(partitions(&world, m, 1), None);
    world.brokers.silent.clear();
    world.disconnect(m, |_| true);
    world.advance(3 * SECOND);
    assert_eq!(partitions(&world, m, 1), Some(Ok(3)));
    assert_eq!(partitions(&world, m, 2), Some(Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)));
    // A topic that was unknown a moment ago is looked up again.
    world.brokers.create("missing", 2);
    send_query(&mut world, m, count("missing", 3));
    world.advance(SECOND);
    assert_eq!(partitions(&world, m, 3), Some(Ok(2)));
}

#[test]
fn offsets_are_listed_in_the_order_of_the_question_even_of_one_partition_twice() {
    let (mut world, m) = working();
    let starts =
        [(1, OffsetSpec::Latest), (0, OffsetSpec::Timestamp(1500)), (1, OffsetSpec::Earliest), (1, OffsetSpec::Latest)];
    send_query(&mut world, m, list(&starts, 5));
    send_query(&mut world, m, list(&[], 6));
    world.advance(SECOND);
    assert_eq!(offsets(&world, m, 5), Some(vec![30, 10, 0, 30]));
    assert_eq!(offsets(&world, m, 6), Some(vec![]));
}

#[test]
fn committed_offsets_are_returned_once_per_partition() {
    let (mut world, m) = working();
    send_query(&mut world, m, ConsumerEvent::Committed { tps: vec![tp(1), tp(0), tp(1)], id: 9 });
    send_query(&mut world, m, ConsumerEvent::Committed { tps: vec![], id: 10 });
    world.advance(SECOND);
    let mut committed_offsets = committed(&world, m, 9).unwrap();
    committed_offsets.sort_unstable();
    assert_eq!(committed_offsets, [(0, Some(30)), (1, Some(30))]);
    assert_eq!(committed(&world, m, 10), Some(vec![]));
}

#[test]
fn a_group_that_may_not_be_asked_is_an_answer_and_later_questions_are_asked_anew() {
    let (mut world, m) = working();
    world.brokers.fetch_error = Some(ErrorCode::GROUP_AUTHORIZATION_FAILED);
    send_query(&mut world, m, ConsumerEvent::Committed { tps: vec![tp(0)], id: 1 });
    send_query(&mut world, m, ConsumerEvent::Committed { tps: vec![tp(1)], id: 2 });
    world.advance(2 * SECOND);
    let refused = |id: u32| {
        let replies = &world.members[m].replies;
        replies.iter().any(|(other, reply)| *other == id && matches!(reply, ConsumerReply::Committed(Err(_))))
    };
    assert!(refused(1) && refused(2), "{:?}", world.members[m].replies);
    world.brokers.fetch_error = None;
    send_query(&mut world, m, ConsumerEvent::Committed { tps: vec![tp(1)], id: 3 });
    world.advance(2 * SECOND);
    assert_eq!(committed(&world, m, 3), Some(vec![(1, Some(30))]));
    assert!(world.members[m].hooks.is_empty(), "the membership is not affected");
}

#[test]
fn questions_do_not_disturb_the_assignment() {
    let (mut world, m) = working();
    let delivered = world.members[m].delivered.len();
    for id in 10..20 {
        send_query(&mut world, m, list(&[(0, OffsetSpec::Earliest), (1, OffsetSpec::Latest)], id));
        send_query(&mut world, m, ConsumerEvent::Committed { tps: vec![tp(0), tp(2)], id: id + 100 });
        send_query(&mut world, m, count("orders", id + 200));
    }
    world.append(0, 5);
    world.advance(6 * SECOND);
    for id in 10..20 {
        assert_eq!(offsets(&world, m, id).map(|found| found[0]), Some(0));
        assert_eq!(committed(&world, m, id + 100).map(|found| found.len()), Some(2));
        assert_eq!(partitions(&world, m, id + 200), Some(Ok(3)));
    }
    assert_eq!(world.members[m].delivered.len(), delivered + 5);
    assert_eq!(world.committed(0), Some(35));
    assert!(world.members[m].hooks.is_empty());
    assert_eq!(world.times(m, ApiKey::JoinGroup).len(), 2);
}

#[test]
fn a_cancelled_query_ignores_its_late_response() {
    let (mut world, m) = working();
    world.brokers.silent = [ApiKey::ListOffsets, ApiKey::OffsetFetch, ApiKey::Metadata].into();
    send_query(&mut world, m, list(&[(0, OffsetSpec::Earliest), (2, OffsetSpec::Earliest)], 1));
    send_query(&mut world, m, list(&[(1, OffsetSpec::Latest)], 2));
    send_query(&mut world, m, ConsumerEvent::Committed { tps: vec![tp(0)], id: 3 });
    send_query(&mut world, m, ConsumerEvent::Committed { tps: vec![tp(1)], id: 4 });
    send_query(&mut world, m, count("other", 5));
    world.advance(SECOND);
    for id in [1, 3, 5] {
        send_query(&mut world, m, ConsumerEvent::CancelQuery(id));
    }
    world.brokers.silent.clear();
    world.brokers.create("other", 1);
    world.disconnect(m, |_| true);
    world.advance(10 * SECOND);
    assert_eq!(offsets(&world, m, 2), Some(vec![30]));
    assert_eq!(committed(&world, m, 4), Some(vec![(1, Some(30))]));
    for id in [1, 3, 5] {
        assert!(world.members[m].replies.iter().all(|(other, _)| *other != id), "{id} was answered");
    }
}

#[test]
fn without_a_group_nothing_is_committed() {
    let mut world = Simulator::new(1);
    let m = world.add(ConsumerCoreConfig { group: None, ..config() });
    send_query(&mut world, m, ConsumerEvent::Committed { tps: vec![tp(0)], id: 1 });
    send_query(&mut world, m, ConsumerEvent::Commit { offsets: Vec::new(), id: 2 });
    assert_eq!(committed(&world, m, 1), Some(vec![]));
    assert_eq!(world.members[m].replies.len(), 2);
}
