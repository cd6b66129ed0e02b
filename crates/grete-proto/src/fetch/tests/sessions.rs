//! Sessions, planning and the memory budget.

use grete_wire::error_code::ErrorCode;

use super::simulator::{Simulator, tp};
use crate::fetch::{FetchAction, FetchConfig, FetchEvent};
use crate::partition::table::FetchState;
use crate::time::{MILLI, SECOND};

fn one_node(partitions: i32) -> Simulator {
    Simulator::new(&[("orders", partitions)], 1, 17, FetchConfig::default())
}

/// Returns the partitions that the pending request names, and those that it forgets.
fn named(world: &Simulator, node: i32) -> (Vec<i32>, Vec<i32>) {
    let (_, request) = world.request(node).expect("a request is pending");
    (
        request.topics.iter().flat_map(|topic| topic.partitions.iter().map(|p| p.partition)).collect(),
        request.forgotten_topics_data.iter().flat_map(|topic| topic.partitions.clone()).collect(),
    )
}

#[test]
fn a_full_request_first_then_only_what_changed() {
    let mut world = one_node(3);
    for partition in 0..3 {
        world.assign(tp("orders", partition), 0);
    }
    world.plan();
    let (_, request) = world.request(1).unwrap();
    assert_eq!((request.session_id, request.session_epoch), (0, 0));
    assert_eq!((request.max_wait_ms, request.min_bytes), (500, 1));
    assert_eq!(named(&world, 1).0.len(), 3);
    world.answer(1);
    let (_, request) = world.request(1).unwrap();
    assert_eq!((request.session_id, request.session_epoch), (101, 1));
    assert_eq!(named(&world, 1), (vec![], vec![]));
    world.log(&tp("orders", 1)).append(10, 100);
    world.answer(1);
    assert_eq!(named(&world, 1), (vec![1], vec![]));
    let (_, request) = world.request(1).unwrap();
    let part = &request.topics[0].partitions[0];
    assert_eq!((part.fetch_offset, part.last_fetched_epoch, part.current_leader_epoch), (10, 1, 1));
    world.check_sessions();
}

#[test]
fn idling_costs_one_request_per_answer_and_no_timer() {
    let mut world = one_node(20);
    for partition in 0..20 {
        world.assign(tp("orders", partition), 0);
    }
    world.plan();
    for _ in 0..10 {
        assert_eq!(world.fetcher.deadline(), None);
        world.plan();
        world.answer(1);
    }
    let stats = world.fetcher.stats();
    assert_eq!((stats.fetches, stats.full_fetches, stats.empty_responses), (11, 1, 10));
    assert!(world.actions.is_empty() && world.chunks.is_empty());
    let ends: Vec<_> = (0..20).map(|slot| (crate::ids::PartitionHandle(slot), 0)).collect();
    world.ends.sort_by_key(|(slot, _)| slot.0);
    assert_eq!(world.ends, ends, "each reported its end once: at its beginning");
}

#[test]
fn a_request_plans_what_has_changed_however_many_partitions_there_are() {
    const COUNT: i32 = 1000;
    let mut world = one_node(COUNT);
    for partition in 0..COUNT {
        world.assign(tp("orders", partition), 0);
    }
    world.plan();
    world.answer(1);
    let before = world.fetcher.stats().planned;
    for round in 0..10 {
        world.log(&tp("orders", 7 * round)).append(1, 100);
        world.answer(1);
        assert_eq!(named(&world, 1), (vec![7 * round], vec![]));
        world.release_all();
    }
    world.step(FetchEvent::Pause(crate::ids::PartitionHandle(3)));
    world.answer(1);
    assert_eq!(named(&world, 1), (vec![], vec![3]));
    assert_eq!(world.fetcher.stats().planned - before, 11);
    world.check_sessions();
}

#[test]
fn p7_what_a_full_answer_leaves_out_is_named_again() {
    let mut world = one_node(2);
    world.assign(tp("orders", 0), 0);
    world.assign(tp("orders", 1), 0);
    world.plan();
    let outgoing = world.take_pending(1).unwrap();
    let response = grete_wire::messages::FetchResponse { session_id: 55, ..Default::default() };
    world.reply(1, &outgoing, 17, &response);
    assert_eq!(named(&world, 1).0, [0, 1]);
    assert_eq!(world.request(1).unwrap().1.session_epoch, 1);
}

#[test]
fn p8_a_new_leader_epoch_is_sent_although_nothing_else_changed() {
    let mut world = one_node(1);
    world.assign(tp("orders", 0), 0);
    world.plan();
    world.answer(1);
    world.log(&tp("orders", 0)).epoch = 2;
    world.sync_view();
    world.answer(1);
    world.now += SECOND;
    world.step(FetchEvent::Tick);
    let (_, request) = world.request(1).unwrap();
    assert_eq!(request.topics[0].partitions[0].current_leader_epoch, 2);
    world.answer(1);
    world.check_sessions();
    assert!(!super::failed(&world));
}

#[test]
fn p9_without_a_topic_id_names_are_sent_and_with_one_a_new_session_starts() {
    let mut world = Simulator::new(&[("orders", 1), ("clicks", 1)], 1, 17, FetchConfig::default());
    world.view.set_topic_id("clicks", 0);
    world.assign(tp("orders", 0), 0);
    let clicks = world.assign(tp("clicks", 0), 0);
    world.plan();
    let (version, request) = world.request(1).unwrap();
    assert_eq!((version, request.topics.len()), (12, 2));
    world.answer(1);
    assert_eq!(world.request(1).unwrap().1.session_epoch, 1);
    let id = world.ids["clicks"];
    world.view.set_topic_id("clicks", id);
    world.answer(1);
    let (version, request) = world.request(1).unwrap();
    assert_eq!((version, request.session_id, request.session_epoch), (17, 101, 0));
    world.answer(1);
    assert_eq!(world.brokers[&1].sessions.len(), 1, "the old session was closed by the new");
    world.check_sessions();
    assert_eq!(world.partitions.state(clicks), FetchState::Fetching);
}

#[test]
fn a_topic_with_an_id_for_some_of_its_partitions_is_found_by_name() {
    let mut world = one_node(2);
    world.assign(tp("orders", 0), 0);
    world.assign(tp("orders", 1), 0);
    world.plan();
    world.answer(1);
    world.view.set_topic_id("orders", 0);
    world.assign(tp("orders", 0), 0);
    world.plan();
    world.answer(1);
    assert_eq!((world.request(1).unwrap().0, named(&world, 1).0.len()), (12, 2));
    world.answer(1);
    assert_eq!(named(&world, 1), (vec![], vec![]), "the response named both partitions");
    world.check_sessions();
}

#[test]
fn a_forgotten_session_is_replaced_by_one_full_request_and_nothing_spins() {
    let mut world = one_node(2);
    world.assign(tp("orders", 0), 0);
    world.assign(tp("orders", 1), 0);
    world.plan();
    world.answer(1);
    world.brokers.get_mut(&1).unwrap().sessions.clear();
    world.answer(1);
    let (_, request) = world.request(1).unwrap();
    assert_eq!((request.session_id, request.session_epoch, request.topics[0].partitions.len()), (0, 0, 2));
    for code in [ErrorCode::INVALID_FETCH_SESSION_EPOCH, ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR] {
        world.answer(1);
        for attempt in 0..5 {
            let outgoing = world.take_pending(1).unwrap();
            let refused = grete_wire::messages::FetchResponse { error_code: code.0, ..Default::default() };
            world.reply(1, &outgoing, 17, &refused);
            // The first attempt is immediate, later ones wait.
            assert_eq!(world.pending.len(), usize::from(attempt == 0), "{code:?}, attempt {attempt}");
            if attempt > 0 {
                assert!(world.fetcher.deadline().unwrap() >= world.now + 80 * MILLI);
                world.sleep();
            }
        }
        assert_eq!(world.request(1).unwrap().1.session_epoch, 0);
        world.answer(1);
        world.check_sessions();
    }
}

#[test]
fn without_a_session_every_partition_has_its_turn() {
    let config = FetchConfig { max_bytes: 1, ..FetchConfig::default() };
    let mut world = Simulator::new(&[("orders", 3), ("clicks", 2)], 1, 17, config);
    world.brokers.get_mut(&1).unwrap().sessionless = true;
    let tps: Vec<_> = world.logs.keys().cloned().collect();
    for tp in &tps {
        world.assign(tp.clone(), 0);
        for _ in 0..50 {
            world.log(tp).append(1, 100);
        }
    }
    world.plan();
    for _ in 0..25 {
        world.answer(1);
        assert_eq!(world.request(1).unwrap().1.session_epoch, 0);
    }
    for tp in &tps {
        let slot = world.partitions.handle(tp).unwrap();
        assert!(world.partitions.fetch_offset(slot) >= 2, "{tp} starves");
    }
}

#[test]
fn over_the_budget_nothing_is_sent_until_bytes_are_released() {
    let config = FetchConfig { queued_bytes: 1000, partition_bytes: 4000, ..FetchConfig::default() };
    let mut world = Simulator::new(&[("orders", 2)], 1, 17, config);
    world.assign(tp("orders", 0), 0);
    world.assign(tp("orders", 1), 0);
    for _ in 0..10 {
        world.log(&tp("orders", 0)).append(1, 1200);
    }
    world.plan();
    world.answer(1);
    assert!(world.partitions.queued_total() > 1000, "a batch is never refused on arrival");
    assert!(world.pending.is_empty());
    assert_eq!((world.fetcher.deadline(), world.fetcher.awaited_bytes().is_some()), (None, true));
    world.release_all();
    assert_eq!((world.pending.len(), world.fetcher.awaited_bytes().is_some()), (1, false));
}

#[test]
fn a_partition_over_its_queue_limit_is_forgotten_until_below_half() {
    let config = FetchConfig { queued_bytes: 100_000, partition_bytes: 500, ..FetchConfig::default() };
    assert_eq!(config.partition_queue_limit(), 6250);
    let mut world = Simulator::new(&[("orders", 2)], 1, 17, config);
    let slot = world.assign(tp("orders", 0), 0);
    world.assign(tp("orders", 1), 0);
    for _ in 0..100 {
        world.log(&tp("orders", 0)).append(1, 439); // 500 bytes each
    }
    world.plan();
    for _ in 0..13 {
        world.answer(1);
    }
    assert_eq!(named(&world, 1), (vec![], vec![0]));
    assert_eq!(world.partitions.queued_bytes(slot), 6500);
    assert!(world.fetcher.awaited_bytes().is_some());
    world.answer(1);
    world.step(FetchEvent::Released(vec![(slot, 3000)]));
    world.answer(1);
    assert_eq!(named(&world, 1), (vec![], vec![]));
    world.step(FetchEvent::Released(vec![(slot, 500)]));
    world.answer(1);
    assert_eq!(named(&world, 1), (vec![0], vec![]));
    world.check_sessions();
}

#[test]
fn p26_a_pause_is_forgotten_by_the_broker_and_by_the_next_assignment() {
    let mut world = one_node(2);
    let first = world.assign(tp("orders", 0), 0);
    world.assign(tp("orders", 1), 0);
    world.plan();
    world.step(FetchEvent::Pause(first));
    world.log(&tp("orders", 0)).append(1, 10);
    world.answer(1);
    assert_eq!(world.chunks.len(), 1, "data requested before the pause is kept");
    assert_eq!(named(&world, 1), (vec![], vec![0]));
    world.answer(1);
    world.step(FetchEvent::Resume(first));
    world.answer(1);
    assert_eq!(named(&world, 1), (vec![0], vec![]));
    world.step(FetchEvent::Pause(first));
    world.step(FetchEvent::PartitionsRemoved(vec![first]));
    let second = world.assign(tp("orders", 0), 1);
    assert!(!world.fetcher.is_paused(second));
    world.answer(1);
    world.check_sessions();
    world.log(&tp("orders", 0)).append(1, 10);
    world.settle();
    assert_eq!(world.chunks.last().map(|chunk| (chunk.slot, chunk.fetch_offset)), Some((second, 1)));
}

#[test]
fn p30_a_response_to_the_old_assignment_is_ignored() {
    let mut world = one_node(1);
    let old = world.assign(tp("orders", 0), 0);
    world.log(&tp("orders", 0)).append(5, 10);
    world.plan();
    world.step(FetchEvent::PartitionsRemoved(vec![old]));
    let new = world.assign(tp("orders", 0), 3);
    world.plan();
    world.answer(1);
    assert!(world.chunks.is_empty());
    world.settle();
    let slots: Vec<_> = world.chunks.iter().map(|chunk| (chunk.slot, chunk.fetch_offset)).collect();
    assert_eq!(slots, [(new, 3)], "the batch that holds offset 3");
}

#[test]
fn a_partition_that_is_assigned_again_learns_where_its_log_ends() {
    let mut world = one_node(2);
    let old = world.assign(tp("orders", 0), 0);
    world.assign(tp("orders", 1), 0);
    world.log(&tp("orders", 0)).append(5, 10);
    world.plan();
    world.settle();
    world.step(FetchEvent::PartitionsRemoved(vec![old]));
    let new = world.assign(tp("orders", 0), 5);
    world.plan();
    world.answer(1); // to the request that was in flight
    world.answer(1);
    // The broker has no news of the partition: the end is that which the old handle had.
    assert!(world.ends.contains(&(new, 5)), "{:?}", world.ends);
    assert_eq!(world.partitions.high_watermark(new), 5);
}

#[test]
fn p30_nor_is_an_answer_to_an_earlier_seek_to_the_same_offset() {
    let mut world = one_node(1);
    let slot = world.assign(tp("orders", 0), 0);
    world.log(&tp("orders", 0)).append(5, 10);
    world.plan();
    world.seek(slot, 0);
    world.answer(1);
    assert!(world.chunks.is_empty());
    world.answer(1);
    assert_eq!(world.chunks.len(), 1);
}

#[test]
fn a_session_that_the_broker_closed_or_mixed_up_is_not_continued() {
    for session_id in [0, 4711] {
        let mut world = one_node(1);
        world.assign(tp("orders", 0), 0);
        world.plan();
        world.answer(1);
        let outgoing = world.take_pending(1).unwrap();
        world.reply(1, &outgoing, 17, &grete_wire::messages::FetchResponse { session_id, ..Default::default() });
        let (_, request) = world.request(1).unwrap();
        assert_eq!((request.session_id, request.session_epoch), (0, 0));
        assert_eq!(named(&world, 1).0, [0]);
    }
}

#[test]
fn a_lost_node_is_asked_again_after_a_wait_with_everything() {
    let mut world = one_node(2);
    world.assign(tp("orders", 0), 0);
    world.assign(tp("orders", 1), 0);
    world.plan();
    world.answer(1);
    world.disconnect(1);
    assert!(world.pending.is_empty());
    assert!(matches!(world.actions.as_slice(), [FetchAction::RefreshMetadata]));
    world.sleep();
    let (_, request) = world.request(1).unwrap();
    assert_eq!((request.session_id, request.session_epoch), (101, 0), "the old session is closed on the way");
    world.answer(1);
    world.check_sessions();
}

#[test]
fn a_missing_connection_is_asked_for_once_a_second() {
    let mut world = one_node(1);
    world.view.set_fetch_version(1, None);
    world.assign(tp("orders", 0), 0);
    world.plan();
    world.plan();
    assert!(matches!(world.actions.as_slice(), [FetchAction::NeedNode(1)]));
    world.sleep();
    assert!(matches!(world.actions[1..], [FetchAction::NeedNode(1), FetchAction::RefreshMetadata]));
    let slot = world.partitions.live()[0];
    world.step(FetchEvent::Pause(slot));
    assert_eq!(world.fetcher.deadline(), None, "a paused slot needs no connection");
    world.step(FetchEvent::Resume(slot));
    world.view.set_fetch_version(1, Some(13));
    world.step(FetchEvent::NodeReady(1));
    assert_eq!(world.request(1).unwrap().0, 13);
}

#[test]
fn a_muted_node_is_left_alone() {
    let mut world = one_node(1);
    world.assign(tp("orders", 0), 0);
    world.view.mute_until(1, world.now + SECOND / 2);
    world.plan();
    assert!(world.pending.is_empty());
    world.sleep();
    assert_eq!(world.pending.len(), 1);
}

#[test]
fn request_buffers_come_back() {
    let mut world = one_node(1);
    world.assign(tp("orders", 0), 0);
    let buffer = Vec::with_capacity(4096);
    let address = buffer.as_ptr();
    world.fetcher.recycle(buffer);
    world.plan();
    let outgoing = world.take_pending(1).unwrap();
    let crate::request::Request::Raw { body, .. } = outgoing.request else { panic!("bytes") };
    assert_eq!(body.as_ptr(), address);
}

#[test]
fn closing_frees_the_brokers_sessions() {
    let mut world = one_node(1);
    world.assign(tp("orders", 0), 0);
    world.plan();
    world.answer(1);
    let lost = world.take_pending(1).unwrap();
    world.step(FetchEvent::Close);
    let (_, request) = world.request(1).unwrap();
    assert_eq!((request.session_id, request.session_epoch, request.max_wait_ms), (101, -1, 500));
    world.answer(1);
    assert!(world.brokers[&1].sessions.is_empty());
    world.reply(1, &lost, 17, &grete_wire::messages::FetchResponse::default());
    assert!(world.pending.is_empty());
}

/// Returns the partitions and their simulator, with a session. A change of which nothing is noted must be found: see
/// `full_walk`.
fn in_session() -> (Simulator, crate::ids::PartitionHandle) {
    let mut world = one_node(2);
    let slot = world.assign(tp("orders", 0), 0);
    world.assign(tp("orders", 1), 0);
    world.plan();
    world.answer(1);
    (world, slot)
}

fn plan_without_the_change(mut world: Simulator) {
    world.partitions.drain_changed(|_| {});
    world.answer(1);
}

#[test]
#[should_panic(expected = "orders[0] was not planned again")]
fn a_missed_change_of_a_stage_is_found() {
    let (mut world, slot) = in_session();
    world.partitions.set_state(slot, FetchState::Resolving);
    plan_without_the_change(world);
}

#[test]
#[should_panic(expected = "orders[0] was not planned again")]
fn a_missed_change_of_a_position_is_found() {
    let (mut world, slot) = in_session();
    world.partitions.set_fetch_offset(slot, 7);
    plan_without_the_change(world);
}

#[test]
#[should_panic(expected = "orders[0] was not planned again")]
fn a_missed_change_of_a_generation_is_found() {
    let (mut world, slot) = in_session();
    world.partitions.new_generation(slot);
    plan_without_the_change(world);
}
