use super::world::*;
use crate::consumer::*;
use crate::fetch_notice::FetchNotice;
use crate::position::{ResetPolicy, StartAt};
use crate::slot_error::SlotError;
use crate::time::SECOND;

const EARLIEST: Start = Start::At(StartAt::Earliest);

/// Two partitions of three batches; the second batch of the first is spoilt so many times.
fn spoilt(times: u32) -> (World, usize) {
    let mut world = World::new(2);
    for _ in 0..3 {
        world.append(0, 10);
        world.append(1, 10);
    }
    world.brokers.logs.get_mut(&tp(0)).unwrap().batches[1].spoilt = times;
    let m = world.add(config());
    world.assign(m, &[(0, EARLIEST), (1, EARLIEST)]);
    world.pass(2 * SECOND);
    (world, m)
}

#[test]
fn a_batch_that_is_spoilt_on_its_way_is_fetched_again_and_nothing_comes_twice() {
    let (mut world, m) = spoilt(1);
    assert_eq!(world.delivered(m, 0), (0..30).collect::<Vec<_>>());
    assert!(world.members[m].failed.is_empty());
    world.pass(6 * SECOND);
    assert_eq!((world.committed(0), world.committed(1)), (Some(30), Some(30)));
    assert_eq!(world.members[m].core.partitions.queued_total(), 0);
}

#[test]
fn a_corrupt_batchs_own_base_offset_is_not_believed() {
    let mut world = World::new(1);
    for _ in 0..3 {
        world.append(0, 10);
    }
    let batch = &mut world.brokers.logs.get_mut(&tp(0)).unwrap().batches[1];
    (batch.spoilt, batch.shift) = (1, 3);
    let m = world.add(config());
    world.assign(m, &[(0, EARLIEST)]);
    world.pass(2 * SECOND);
    assert_eq!(world.delivered(m, 0), (0..30).collect::<Vec<_>>(), "three records are skipped");
}

#[test]
fn bytes_without_records_in_front_of_a_corrupt_batch_are_given_back() {
    let mut world = World::new(1);
    let log = world.brokers.logs.get_mut(&tp(0)).unwrap();
    log.append_emptied(10);
    log.append(10, 0);
    log.batches[1].spoilt = 1;
    let m = world.add(config());
    world.processed.insert(tp(0), (0..10).collect());
    world.assign(m, &[(0, EARLIEST)]);
    world.pass(7 * SECOND);
    assert_eq!(world.delivered(m, 0), (10..20).collect::<Vec<_>>());
    assert_eq!(world.committed(0), Some(20));
    assert_eq!(world.members[m].core.partitions.queued_total(), 0);
}

#[test]
fn a_batch_that_stays_corrupt_stops_its_partition_only_and_is_never_committed() {
    let (mut world, m) = spoilt(u32::MAX);
    assert_eq!(world.delivered(m, 0), (0..10).collect::<Vec<_>>());
    assert!(
        matches!(&world.members[m].failed[..], [SlotError::Corrupt { tp: which, offset: 10, .. }] if *which == tp(0)),
        "{:?}",
        world.members[m].failed
    );
    world.append(1, 5);
    world.pass(20 * SECOND);
    assert_eq!(world.delivered(m, 1).len(), 35);
    assert_eq!((world.committed(0), world.committed(1)), (Some(10), Some(35)));
    assert_eq!(world.members[m].core.partitions.queued_total(), 0);
    // A seek beyond it goes on.
    world.seek(m, 0, Start::At(StartAt::Offset(20)));
    world.pass(SECOND);
    assert_eq!(world.delivered(m, 0).last(), Some(&29));
}

#[test]
fn an_offset_out_of_range_is_reset_by_policy() {
    for (policy, expected) in
        [(ResetPolicy::Earliest, Some(12)), (ResetPolicy::Latest, Some(30)), (ResetPolicy::None, None)]
    {
        let mut world = World::new(1);
        for _ in 0..3 {
            world.append(0, 10);
        }
        world.brokers.logs.get_mut(&tp(0)).unwrap().start = 12;
        let mut config = config();
        config.position.reset = policy;
        let m = world.add(config);
        world.assign(m, &[(0, Start::At(StartAt::Offset(3)))]);
        world.pass(SECOND);
        world.append(0, 1);
        world.pass(SECOND);
        assert_eq!(world.delivered(m, 0).first().copied(), expected, "{policy:?}");
        let reset =
            |notice: &ConsumerNotice| matches!(notice, ConsumerNotice::Fetch(FetchNotice::OffsetReset { from: 3, .. }));
        assert_eq!(world.members[m].notices.iter().any(reset), expected.is_some());
        assert_eq!(world.members[m].failed.len(), usize::from(expected.is_none()));
    }
}

#[test]
fn out_of_range_is_believed_only_when_nothing_is_queued_and_then_at_once() {
    let mut world = World::new(1);
    world.append(0, 10);
    world.work = Work::Held;
    // No group: no heartbeat wakes anybody.
    let m = world.add(ConsumerCoreConfig { group: None, auto_commit: None, ..config() });
    world.assign(m, &[(0, EARLIEST)]);
    world.pass(SECOND);
    assert_eq!(world.jobs(m).len(), 1);
    // Retention overtakes us while the first records are in hand.
    let log = world.brokers.logs.get_mut(&tp(0)).unwrap();
    log.append(50, 0);
    log.start = 40;
    world.serve_polls();
    world.pass(2 * SECOND);
    let resets = |world: &World| {
        let reset = |notice: &&ConsumerNotice| matches!(notice, ConsumerNotice::Fetch(FetchNotice::OffsetReset { .. }));
        world.members[m].notices.iter().filter(reset).count()
    };
    assert_eq!(resets(&world), 0, "believed while records were in hand");
    world.work = Work::AtOnce;
    world.end_job(m, 0, crate::dispatch::Finished::Done);
    world.pass(SECOND / 10);
    assert_eq!(resets(&world), 1, "nobody woke the network thread");
    assert_eq!(world.delivered(m, 0), (0..10).chain(40..60).collect::<Vec<_>>());
}
