//! Errors, corrupt batches and invalid positions.

use grete_wire::error_code::ErrorCode;
use grete_wire::messages::fetch::{
    FetchResponse, FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint, PartitionData,
};

use super::simulator::{Simulator, batch, tp};
use super::{failed, failure};
use crate::fetch::{FetchAction, FetchConfig, FetchEvent};
use crate::ids::PartitionHandle;
use crate::partition::error::{Corruption, PartitionError};
use crate::partition::log_event::FetchLogEvent;
use crate::partition::table::FetchState;
use crate::position::PositionEvent;
use crate::request::{Reply, Response};
use crate::time::SECOND;

/// One node with one partition, assigned from `offset`, with the first request pending.
fn one(offset: i64) -> (Simulator, PartitionHandle) {
    let mut world = Simulator::new(&[("orders", 1)], 1, 17, FetchConfig::default());
    let slot = world.assign(tp("orders", 0), offset);
    world.plan();
    (world, slot)
}

/// Answers the pending request with these records.
fn answer(world: &mut Simulator, high_watermark: i64, records: Vec<u8>) {
    let outgoing = world.take_pending(1).expect("a request is pending");
    let data = PartitionData { high_watermark, records: Some(records.into()), ..Default::default() };
    let response = respond(data);
    world.reply(1, &outgoing, 17, &response);
}

fn respond(data: PartitionData<'static>) -> FetchResponse<'static> {
    FetchResponse {
        session_id: 9,
        responses: vec![FetchableTopicResponse { topic_id: 1001, partitions: vec![data], ..Default::default() }],
        ..Default::default()
    }
}

#[test]
fn p1_emptied_batches_and_batches_without_their_last_record_advance() {
    let (mut world, slot) = one(0);
    let mut emptied = batch(0, 10, 1, 0);
    emptied[57..61].copy_from_slice(&0_i32.to_be_bytes());
    let mut short = batch(10, 10, 1, 50);
    short[57..61].copy_from_slice(&2_i32.to_be_bytes());
    answer(&mut world, 20, [emptied, short].concat());
    assert_eq!(world.partitions.fetch_offset(slot), 20);
    assert_eq!(world.chunks[0].next_offset, 20);
    assert_eq!(world.request(1).unwrap().1.topics[0].partitions[0].fetch_offset, 20);
}

#[test]
fn p2_a_tail_of_control_batches_advances() {
    let (mut world, slot) = one(7);
    let mut control = batch(7, 1, 1, 10);
    control[22] = 0x30;
    answer(&mut world, 8, control);
    assert_eq!(world.partitions.fetch_offset(slot), 8);
    assert_eq!((world.chunks[0].fetch_offset, world.chunks[0].next_offset), (7, 8));
}

#[test]
fn p3_a_truncated_tail_is_neither_data_nor_an_error() {
    let (mut world, slot) = one(0);
    let mut records = [batch(0, 5, 1, 30), batch(5, 5, 1, 30)].concat();
    records.truncate(130);
    answer(&mut world, 10, records);
    assert_eq!((world.chunks[0].bytes, world.partitions.fetch_offset(slot)), (91, 5));
    assert!(world.actions.is_empty());
}

#[test]
fn a_first_batch_that_is_cut_off_gets_a_larger_limit_and_at_last_an_error() {
    let config = FetchConfig { max_bytes: 3 << 20, partition_bytes: 1 << 20, ..FetchConfig::default() };
    let mut world = Simulator::new(&[("orders", 1)], 1, 17, config);
    world.assign(tp("orders", 0), 0);
    world.plan();
    for expected in [1 << 20, 2 << 20, 3 << 20] {
        assert_eq!(world.request(1).unwrap().1.topics[0].partitions[0].partition_max_bytes, expected);
        let mut records = batch(0, 1, 1, 1000);
        records.truncate(500);
        answer(&mut world, 1, records);
    }
    assert_eq!(failure(&world), PartitionError::BatchTooLarge { tp: tp("orders", 0), offset: 0, limit: 3 << 20 });
    assert!(world.pending.is_empty());
}

#[test]
fn a_batch_below_the_fetch_offset_is_fetched_once_more_and_then_stops_the_slot() {
    let (mut world, slot) = one(10);
    answer(&mut world, 20, batch(0, 5, 1, 10));
    assert!(matches!(
        world.actions.as_slice(),
        [FetchAction::LogEvent(FetchLogEvent::CorruptBatch { offset: 10, cause: Corruption::Behind { .. }, .. })]
    ));
    assert_eq!(world.partitions.fetch_offset(slot), 10);
    answer(&mut world, 20, batch(0, 5, 1, 10));
    let cause = Corruption::Behind { last_offset: 4, expected: 10 };
    assert_eq!(failure(&world), PartitionError::Corrupt { tp: tp("orders", 0), offset: 10, cause });
    assert!(world.chunks.is_empty() && world.pending.is_empty());
}

#[test]
fn good_batches_before_a_bad_header_are_kept() {
    let (mut world, slot) = one(0);
    let bad = batch(3, 5, 1, 10);
    answer(&mut world, 20, [batch(0, 5, 1, 10), bad.clone()].concat());
    assert_eq!((world.partitions.fetch_offset(slot), world.chunks.len()), (5, 1));
    let mut old = batch(5, 5, 1, 10);
    old[16] = 1;
    answer(&mut world, 20, old.clone());
    answer(&mut world, 20, old);
    assert!(matches!(failure(&world), PartitionError::Corrupt { offset: 5, cause: Corruption::Header(_), .. }));
}

#[test]
fn an_append_between_watermark_and_read_is_not_a_corruption() {
    let (mut world, slot) = one(0);
    answer(&mut world, 5, [batch(0, 5, 1, 10), batch(5, 5, 1, 10)].concat());
    assert_eq!(world.partitions.fetch_offset(slot), 5, "cut at the high watermark");
    answer(&mut world, 5, batch(5, 5, 1, 10));
    assert!(world.actions.is_empty() && world.pending.len() == 1, "at once, without a log event");
    answer(&mut world, 10, batch(5, 5, 1, 10));
    assert_eq!(world.partitions.fetch_offset(slot), 10);
    for _ in 0..2 {
        answer(&mut world, 10, batch(1 << 40, 5, 1, 10));
    }
    assert!(matches!(failure(&world), PartitionError::Corrupt { cause: Corruption::Beyond { .. }, .. }));
}

#[test]
fn out_of_range_is_believed_only_when_nothing_queued_can_be_corrupt() {
    let (mut world, slot) = one(0);
    world.log(&tp("orders", 0)).append(5, 10);
    world.answer(1);
    // Simulates the effect of a corrupt header.
    world.partitions.set_fetch_offset(slot, 900);
    world.partitions.set_last_fetched_epoch(slot, -1);
    world.answer(1);
    world.answer(1);
    assert!(world.actions.is_empty() && world.pending.is_empty(), "the lookup waits for the checksum");
    assert!(world.fetcher.awaited_bytes().is_some() && world.fetcher.deadline().is_none());
    assert_eq!(world.partitions.state(slot), FetchState::Fetching);

    // The worker finds the corruption: the position returns to the old offset.
    let chunk = world.chunks[0].clone();
    world.step(FetchEvent::Refetch { slot, fetch_generation: chunk.fetch_generation, offset: 0 });
    world.release(&chunk);
    world.answer(1);
    assert_eq!(world.chunks.last().unwrap().fetch_offset, 0);
    assert!(!world.actions.iter().any(|action| matches!(action, FetchAction::Position(_))));

    // The worker finds no corruption: the leader is asked again, and its response is trusted.
    world.partitions.set_fetch_offset(slot, 900);
    world.partitions.set_last_fetched_epoch(slot, -1);
    world.settle();
    world.release_all();
    world.settle();
    assert!(matches!(world.actions.last(), Some(FetchAction::Position(PositionEvent::OutOfRange { .. }))));
    assert_eq!(world.partitions.state(slot), FetchState::Resolving);
    assert!(world.pending.is_empty());
}

#[test]
fn a_divergence_waits_for_queued_batches_too() {
    let (mut world, slot) = one(0);
    for _ in 0..4 {
        world.log(&tp("orders", 0)).append(5, 10);
    }
    world.settle();
    assert_eq!(world.partitions.fetch_offset(slot), 20);
    let log = world.log(&tp("orders", 0));
    log.batches.truncate(2);
    log.batches[1].2 = 0;
    log.batches[0].2 = 0;
    log.epoch = 3;
    world.sync_view();
    world.settle();
    world.now += SECOND;
    world.step(FetchEvent::Tick);
    world.settle();
    assert!(!world.actions.iter().any(|action| matches!(action, FetchAction::Position(_))));
    world.release_all();
    world.settle();
    assert!(matches!(
        world.actions.last(),
        Some(FetchAction::Position(PositionEvent::Diverged { epoch: 0, end_offset: 10, .. }))
    ));
}

#[test]
fn a_batch_with_a_wrong_checksum_is_fetched_once_more_and_then_stops_the_slot() {
    let (mut world, slot) = one(0);
    world.log(&tp("orders", 0)).append(5, 10);
    world.log(&tp("orders", 0)).append(5, 10);
    world.settle();
    let first = world.chunks.remove(0);
    world.step(FetchEvent::Refetch { slot, fetch_generation: first.fetch_generation, offset: 5 });
    assert!(!world.partitions.is_current(slot, first.assignment_epoch, first.fetch_generation));
    assert_eq!(world.partitions.fetch_offset(slot), 5);
    // A second report of the first fetch is stale.
    world.step(FetchEvent::Refetch { slot, fetch_generation: first.fetch_generation, offset: 5 });
    assert!(!failed(&world));
    world.release(&first);
    world.settle();
    let again = world.chunks.remove(0);
    assert_eq!(again.fetch_offset, 5);
    world.step(FetchEvent::Refetch { slot, fetch_generation: again.fetch_generation, offset: 5 });
    assert!(matches!(failure(&world), PartitionError::Corrupt { offset: 5, cause: Corruption::Content, .. }));
}

#[test]
fn without_the_right_the_slot_stops_and_others_go_on() {
    let mut world = Simulator::new(&[("orders", 1), ("secrets", 1)], 1, 17, FetchConfig::default());
    world.assign(tp("orders", 0), 0);
    world.assign(tp("secrets", 0), 0);
    world.log(&tp("secrets", 0)).error = Some(ErrorCode::TOPIC_AUTHORIZATION_FAILED);
    world.plan();
    world.answer(1);
    assert_eq!(failure(&world), PartitionError::NotAuthorized { tp: tp("secrets", 0) });
    world.log(&tp("orders", 0)).append(1, 1);
    world.settle();
    assert_eq!(world.chunks.len(), 1);
    world.check_sessions();
}

#[test]
fn a_leader_that_moved_is_followed_by_the_hint() {
    let mut world = Simulator::new(&[("orders", 1)], 2, 17, FetchConfig::default());
    world.assign(tp("orders", 0), 0);
    world.plan();
    let log = world.log(&tp("orders", 0));
    (log.leader, log.epoch) = (2, 2);
    log.append(1, 1);
    let outgoing = world.take_pending(1).unwrap();
    let mut response = respond(PartitionData {
        error_code: ErrorCode::NOT_LEADER_OR_FOLLOWER.0,
        current_leader: LeaderIdAndEpoch { leader_id: 2, leader_epoch: 2 },
        ..Default::default()
    });
    response.node_endpoints =
        vec![NodeEndpoint { node_id: 2, host: "kafka-2".into(), port: 9092, ..Default::default() }];
    world.reply(1, &outgoing, 17, &response);
    let FetchAction::LeaderHint { leader, epoch, endpoint, .. } = &world.actions[0] else { panic!("no hint") };
    assert_eq!((*leader, *epoch, endpoint.clone()), (2, 2, Some(("kafka-2".to_owned(), 9092))));
    assert!(matches!(world.actions[1], FetchAction::RefreshMetadata));
    world.sync_view();
    world.plan();
    assert!(world.request(2).is_some(), "at once, without the wait of a failure");
    world.settle();
    assert_eq!(world.chunks.len(), 1);
}

#[test]
fn p11_leaders_that_move_all_the_time_do_not_make_it_spin() {
    let mut world = Simulator::new(&[("orders", 1)], 2, 17, FetchConfig::default());
    world.assign(tp("orders", 0), 0);
    world.log(&tp("orders", 0)).error = Some(ErrorCode::NOT_LEADER_OR_FOLLOWER);
    world.plan();
    let start = world.now;
    for round in 0..40 {
        while !(world.answer(1) || world.answer(2)) {
            world.sleep();
        }
        let log = world.log(&tp("orders", 0));
        (log.leader, log.epoch) = (round % 2 + 1, round + 2);
        world.sync_view();
        world.plan();
    }
    assert!(world.now - start >= 10 * SECOND, "40 rounds took {} ms", (world.now - start) / 1_000_000);
    assert!(world.actions.iter().any(|action| matches!(action, FetchAction::LogEvent(FetchLogEvent::Retrying { .. }))));
}

#[test]
fn an_error_of_a_former_leader_does_not_hold_back_the_new_one() {
    let mut world = Simulator::new(&[("orders", 1)], 2, 17, FetchConfig::default());
    world.assign(tp("orders", 0), 0);
    world.plan();
    let log = world.log(&tp("orders", 0));
    (log.leader, log.epoch) = (2, 2);
    world.sync_view();
    world.plan();
    assert_eq!(world.pending.len(), 2);
    world.answer(1);
    assert!(world.actions.is_empty());
    world.answer(2);
    assert!(world.request(2).is_some());
}

#[test]
fn p13_a_topic_made_again_is_not_fetched() {
    let (mut world, slot) = one(3);
    world.answer(1);
    world.view.set_topic_id("orders", 2002);
    world.plan();
    assert_eq!(failure(&world), PartitionError::TopicRecreated { tp: tp("orders", 0) });
    assert_eq!(world.partitions.state(slot), FetchState::Failed);
    world.answer(1);
    assert!(world.pending.is_empty());
}

#[test]
fn garbage_is_a_notice_a_wait_and_a_new_session() {
    for garbage in [vec![], vec![0; 9], vec![0xff; 200], vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 200]] {
        let (mut world, _) = one(0);
        let outgoing = world.take_pending(1).unwrap();
        let response = Response {
            api: grete_wire::api::ApiKey::Fetch,
            version: 17,
            frame: grete_wire::frame::Frame::from(garbage),
            body: 0,
        };
        world.step(FetchEvent::Reply(Reply { token: outgoing.token, node: 1, result: Ok(response) }));
        assert!(
            world
                .actions
                .iter()
                .any(|action| matches!(action, FetchAction::LogEvent(FetchLogEvent::BadResponse { .. })))
                || world.actions.iter().any(|a| matches!(a, FetchAction::LogEvent(FetchLogEvent::SessionError { .. }))),
            "{:?}",
            world.actions
        );
        assert!(world.pending.is_empty());
        world.sleep();
        assert_eq!(world.request(1).unwrap().1.session_epoch, 0);
    }
}

#[test]
fn a_partition_that_is_named_twice_or_never_asked_for_changes_nothing_twice() {
    let (mut world, slot) = one(0);
    let outgoing = world.take_pending(1).unwrap();
    let data = PartitionData { high_watermark: 5, records: Some(batch(0, 5, 1, 10).into()), ..Default::default() };
    let mut response = respond(data.clone());
    response.responses[0].partitions.push(data.clone());
    response.responses[0].partitions.push(PartitionData { partition_index: 77, ..data.clone() });
    response.responses.push(FetchableTopicResponse { topic_id: 3, partitions: vec![data], ..Default::default() });
    world.reply(1, &outgoing, 17, &response);
    assert_eq!((world.chunks.len(), world.partitions.fetch_offset(slot)), (1, 5));
}
