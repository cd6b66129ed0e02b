//! Reading from followers (KIP-392).

use grete_wire::error_code::ErrorCode;

use super::simulator::{Simulator, batch, tp};
use crate::fetch::{FetchAction, FetchConfig, FetchEvent};
use crate::ids::{NodeId, PartitionHandle};
use crate::partition::fetch_wait::FetchWait;
use crate::partition::log_event::FetchLogEvent;
use crate::request::NO_NODE;
use crate::time::{MILLI, SECOND};

const LEADER: NodeId = 1;
const FOLLOWER: NodeId = 2;

/// A partition with a batch of ten records, whose follower is in the client's rack.
fn near() -> (Simulator, PartitionHandle) {
    with_config(FetchConfig { rack: "near".into(), ..FetchConfig::default() })
}

fn with_config(config: FetchConfig) -> (Simulator, PartitionHandle) {
    let mut world = Simulator::new(&[("orders", 2)], 2, 17, config);
    world.near = Some(FOLLOWER);
    world.log(&tp("orders", 0)).append(10, 100);
    let slot = world.assign(tp("orders", 0), 0);
    world.plan();
    (world, slot)
}

/// Returns the offset and the rack of the pending request of a node.
fn asked(world: &Simulator, node: NodeId) -> Option<(Vec<i64>, String)> {
    let (_, request) = world.request(node)?;
    let partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
    Some((partitions.map(|partition| partition.fetch_offset).collect(), request.rack_id.to_string()))
}

/// Follows the leader's word, and reads the batch from the follower.
fn follow(world: &mut Simulator, slot: PartitionHandle) {
    assert!(world.answer(LEADER));
    assert!(world.chunks.is_empty() && world.ends.is_empty(), "no records are not the end of the log");
    assert_eq!(world.partitions.source(slot), FOLLOWER);
    assert!(world.answer(FOLLOWER));
    assert_eq!((world.chunks.len(), world.partitions.fetch_offset(slot)), (1, 10));
}

fn notices(world: &mut Simulator) -> Vec<FetchLogEvent> {
    let is_event = |action| match action {
        FetchAction::LogEvent(event) => Some(event),
        _ => None,
    };
    std::mem::take(&mut world.actions).into_iter().filter_map(is_event).collect()
}

#[test]
fn records_come_from_the_follower_that_the_leader_names() {
    let (mut world, slot) = near();
    assert_eq!(asked(&world, LEADER), Some((vec![0], "near".into())));
    follow(&mut world, slot);
    assert_eq!(asked(&world, FOLLOWER), Some((vec![10], "near".into())));
    assert_eq!(asked(&world, LEADER), None, "no partition is fetched from the leader");
    world.log(&tp("orders", 0)).append(5, 100);
    world.answer(FOLLOWER);
    assert_eq!(world.partitions.fetch_offset(slot), 15);
}

#[test]
fn a_follower_that_refuses_is_left_for_the_leader_and_named_again_later() {
    for code in [ErrorCode::OFFSET_OUT_OF_RANGE, ErrorCode::NOT_LEADER_OR_FOLLOWER, ErrorCode::KAFKA_STORAGE_ERROR] {
        let (mut world, slot) = near();
        follow(&mut world, slot);
        world.log(&tp("orders", 0)).follower_error = Some(code);
        world.log(&tp("orders", 0)).append(5, 100);
        world.answer(FOLLOWER);
        let refused = FetchLogEvent::ReplicaRefused { tp: tp("orders", 0), node: FOLLOWER, code };
        assert_eq!(notices(&mut world), [refused], "a lookup of the position would reset it");
        assert_eq!(world.partitions.source(slot), LEADER);
        // The leader names the follower again, and is then asked without the rack.
        assert_eq!(asked(&world, LEADER), Some((vec![10], "near".into())));
        world.answer(LEADER);
        assert_eq!(world.partitions.source(slot), LEADER);
        assert_eq!(asked(&world, LEADER), Some((vec![], String::new())));
        world.answer(LEADER);
        assert_eq!(world.partitions.fetch_offset(slot), 15);
        world.now += SECOND;
        world.log(&tp("orders", 0)).follower_error = None;
        world.answer(LEADER);
        world.answer(LEADER);
        assert_eq!(world.partitions.source(slot), FOLLOWER);
    }
}

#[test]
fn a_follower_that_is_lost_is_avoided_for_the_time_of_a_restart() {
    let (mut world, slot) = near();
    follow(&mut world, slot);
    world.disconnect(FOLLOWER);
    let unreachable = FetchLogEvent::ReplicaUnreachable { node: FOLLOWER, partitions: 1 };
    assert_eq!(notices(&mut world), [unreachable]);
    world.log(&tp("orders", 0)).append(5, 100);
    for _ in 0..3 {
        world.answer(LEADER);
    }
    assert_eq!((world.partitions.source(slot), world.partitions.fetch_offset(slot)), (LEADER, 15));
    world.now += 30 * SECOND;
    world.answer(LEADER);
    world.answer(LEADER);
    assert_eq!(world.partitions.source(slot), FOLLOWER);
}

#[test]
fn a_follower_without_a_connection_holds_a_partition_up_for_a_second() {
    let (mut world, slot) = near();
    world.view.set_connected(FOLLOWER, false);
    world.answer(LEADER);
    assert_eq!(world.partitions.source(slot), FOLLOWER);
    assert!(world.actions.iter().any(|action| matches!(action, FetchAction::NeedNode(FOLLOWER))));
    world.now = world.fetcher.deadline().unwrap();
    world.step(FetchEvent::Tick);
    assert_eq!(world.partitions.source(slot), LEADER);
    for _ in 0..3 {
        world.answer(LEADER);
    }
    assert_eq!(world.partitions.fetch_offset(slot), 10);
}

/// A broker that hangs, or is cut off: its connection stays.
#[test]
fn a_follower_that_does_not_answer_is_left_after_half_of_the_request_timeout() {
    let (mut world, slot) = near();
    follow(&mut world, slot);
    let (sent_at, half) = (world.now, FetchConfig::default().request_timeout / 2);
    assert_eq!(world.fetcher.deadline(), Some(sent_at + half));
    world.now = sent_at + 5 * SECOND;
    assert!(!world.fetcher.is_hindered(world.now), "it may wait for records");
    world.now = sent_at + 6 * SECOND;
    assert!(world.fetcher.is_hindered(world.now));
    let facts = world.fetcher.facts(world.now, slot, &world.view, &world.partitions);
    assert_eq!(facts.reason(), Some(FetchWait::Refused { node: FOLLOWER, code: ErrorCode::NONE }));
    world.now = sent_at + half;
    world.step(FetchEvent::Tick);
    assert_eq!(notices(&mut world), [FetchLogEvent::ReplicaUnreachable { node: FOLLOWER, partitions: 1 }]);
    world.log(&tp("orders", 0)).append(5, 100);
    for _ in 0..3 {
        world.answer(LEADER);
    }
    assert_eq!((world.partitions.source(slot), world.partitions.fetch_offset(slot)), (LEADER, 15));
    assert_ne!(world.fetcher.deadline(), Some(world.now), "no timer of a broker that is not read");
    // What the follower sends after all is not counted twice.
    world.answer(FOLLOWER);
    assert_eq!((world.partitions.source(slot), world.partitions.fetch_offset(slot)), (LEADER, 15));
}

/// `fetch.max.wait.ms` may be longer than half of `request.timeout.ms`.
#[test]
fn a_follower_without_new_records_is_awaited_for_as_long_as_it_may_take() {
    let (mut world, slot) =
        with_config(FetchConfig { rack: "near".into(), max_wait_ms: 20_000, ..FetchConfig::default() });
    follow(&mut world, slot);
    world.now += 24 * SECOND;
    world.step(FetchEvent::Tick);
    assert_eq!((world.partitions.source(slot), world.fetcher.is_hindered(world.now)), (FOLLOWER, false));
    world.now += SECOND;
    world.step(FetchEvent::Tick);
    assert_eq!(world.partitions.source(slot), LEADER);
}

#[test]
fn leaders_are_asked_again_when_their_word_is_old_or_new() {
    let (mut world, slot) = near();
    follow(&mut world, slot);
    for _ in 0..100 {
        world.now += 3 * SECOND;
        world.answer(FOLLOWER);
    }
    assert_eq!(world.partitions.source(slot), LEADER);
    world.answer(LEADER);
    world.answer(LEADER);
    assert_eq!(world.partitions.source(slot), FOLLOWER);
    let log = world.log(&tp("orders", 0));
    (log.leader, log.epoch) = (FOLLOWER, 2);
    world.sync_view();
    world.plan();
    assert_eq!((world.partitions.source(slot), world.partitions.read_replica(slot)), (FOLLOWER, NO_NODE));
}

#[test]
fn a_broker_that_the_metadata_does_not_have_is_not_followed() {
    let (mut world, slot) = near();
    world.near = Some(7);
    world.answer(LEADER);
    assert!(matches!(world.actions.as_slice(), [FetchAction::RefreshMetadata]));
    assert_eq!(world.partitions.source(slot), LEADER);
    assert_eq!(asked(&world, LEADER), Some((vec![], String::new())));
    world.near = None;
    world.answer(LEADER);
    assert_eq!(world.partitions.fetch_offset(slot), 10);
}

/// A selector of the cluster's own may go by addresses. Without a wait, the client would ask as fast as it can.
#[test]
fn a_leader_that_names_an_unreachable_follower_without_a_rack_is_asked_at_intervals() {
    let (mut world, slot) = with_config(FetchConfig::default());
    world.names_without_rack = true;
    follow(&mut world, slot);
    world.disconnect(FOLLOWER);
    world.actions.clear();
    world.log(&tp("orders", 0)).append(5, 100);
    for _ in 0..10 {
        world.answer(LEADER);
    }
    let wait = world.fetcher.deadline().unwrap() - world.now;
    assert!((50 * MILLI..200 * MILLI).contains(&wait), "{wait}");
    world.now += 31 * SECOND;
    world.step(FetchEvent::Tick);
    for _ in 0..3 {
        world.answer(LEADER);
    }
    world.answer(FOLLOWER);
    assert_eq!((world.partitions.source(slot), world.partitions.fetch_offset(slot)), (FOLLOWER, 15));
}

#[test]
fn a_corrupt_batch_of_a_follower_is_read_from_the_leader() {
    let (mut world, slot) = near();
    world.answer(LEADER);
    let outgoing = world.take_pending(FOLLOWER).expect("a request is pending");
    let (version, request) = Simulator::decode(&outgoing);
    let mut response = world.serve(FOLLOWER, version, &request);
    let mut bad = batch(0, 10, 1, 100);
    bad[16] = 1;
    response.responses[0].partitions[0].records = Some(bad.into());
    world.reply(FOLLOWER, &outgoing, version, &response);
    assert!(matches!(
        notices(&mut world).as_slice(),
        [FetchLogEvent::ReplicaRefused { code: ErrorCode::NONE, .. }, FetchLogEvent::CorruptBatch { .. }]
    ));
    for _ in 0..4 {
        world.answer(LEADER);
    }
    assert_eq!((world.partitions.source(slot), world.partitions.fetch_offset(slot)), (LEADER, 10));
}
