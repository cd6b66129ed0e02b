use super::simulator::*;
use crate::consumer::*;
use crate::partition::error::PartitionError;
use crate::partition::log_event::FetchLogEvent;
use crate::position::{ResetPolicy, StartPosition};
use crate::time::SECOND;

const EARLIEST: StartOffset = StartOffset::At(StartPosition::Earliest);

/// Two partitions of three batches; the second batch of the first partition is sent corrupt `times` times.
fn spoilt(times: u32) -> (Simulator, usize) {
    let mut world = Simulator::new(2);
    for _ in 0..3 {
        world.append(0, 10);
        world.append(1, 10);
    }
    world.brokers.logs.get_mut(&tp(0)).unwrap().batches[1].spoilt = times;
    let m = world.add(config());
    world.assign(m, &[(0, EARLIEST), (1, EARLIEST)]);
    world.advance(2 * SECOND);
    (world, m)
}

#[test]
fn a_batch_that_is_spoilt_on_its_way_is_fetched_again_and_nothing_comes_twice() {
    let (mut world, m) = spoilt(1);
    assert_eq!(world.delivered(m, 0), (0..30).collect::<Vec<_>>());
    assert!(world.members[m].failed.is_empty());
    world.advance(6 * SECOND);
    assert_eq!((world.committed(0), world.committed(1)), (Some(30), Some(30)));
    assert_eq!(world.members[m].core.partitions.queued_total(), 0);
}

#[test]
fn a_corrupt_batchs_own_base_offset_is_not_believed() {
    let mut world = Simulator::new(1);
    for _ in 0..3 {
        world.append(0, 10);
    }
    let batch = &mut world.brokers.logs.get_mut(&tp(0)).unwrap().batches[1];
    (batch.spoilt, batch.shift) = (1, 3);
    let m = world.add(config());
    world.assign(m, &[(0, EARLIEST)]);
    world.advance(2 * SECOND);
    assert_eq!(world.delivered(m, 0), (0..30).collect::<Vec<_>>(), "three records are skipped");
}

#[test]
fn bytes_without_records_in_front_of_a_corrupt_batch_are_given_back() {
    let mut world = Simulator::new(1);
    let log = world.brokers.logs.get_mut(&tp(0)).unwrap();
    log.append_emptied(10);
    log.append(10, 0);
    log.batches[1].spoilt = 1;
    let m = world.add(config());
    world.processed.insert(tp(0), (0..10).collect());
    world.assign(m, &[(0, EARLIEST)]);
    world.advance(7 * SECOND);
    assert_eq!(world.delivered(m, 0), (10..20).collect::<Vec<_>>());
    assert_eq!(world.committed(0), Some(20));
    assert_eq!(world.members[m].core.partitions.queued_total(), 0);
}

#[test]
fn a_batch_that_stays_corrupt_stops_its_partition_only_and_is_never_committed() {
    let (mut world, m) = spoilt(u32::MAX);
    assert_eq!(world.delivered(m, 0), (0..10).collect::<Vec<_>>());
    assert!(
        matches!(&world.members[m].failed[..], [PartitionError::Corrupt { tp: which, offset: 10, .. }] if *which == tp(0)),
        "{:?}",
        world.members[m].failed
    );
    world.append(1, 5);
    world.advance(20 * SECOND);
    assert_eq!(world.delivered(m, 1).len(), 35);
    assert_eq!((world.committed(0), world.committed(1)), (Some(10), Some(35)));
    assert_eq!(world.members[m].core.partitions.queued_total(), 0);
    // A seek beyond the corrupt batch continues.
    world.seek(m, 0, StartOffset::At(StartPosition::Offset(20)));
    world.advance(SECOND);
    assert_eq!(world.delivered(m, 0).last(), Some(&29));
}

#[test]
fn an_offset_out_of_range_is_reset_by_policy() {
    for (policy, expected) in
        [(ResetPolicy::Earliest, Some(12)), (ResetPolicy::Latest, Some(30)), (ResetPolicy::None, None)]
    {
        let mut world = Simulator::new(1);
        for _ in 0..3 {
            world.append(0, 10);
        }
        world.brokers.logs.get_mut(&tp(0)).unwrap().start = 12;
        let mut config = config();
        config.position.reset = policy;
        let m = world.add(config);
        world.assign(m, &[(0, StartOffset::At(StartPosition::Offset(3)))]);
        world.advance(SECOND);
        world.append(0, 1);
        world.advance(SECOND);
        assert_eq!(world.delivered(m, 0).first().copied(), expected, "{policy:?}");
        let reset = |notice: &ConsumerLogEvent| {
            matches!(notice, ConsumerLogEvent::Fetch(FetchLogEvent::OffsetReset { from: 3, .. }))
        };
        assert_eq!(world.members[m].notices.iter().any(reset), expected.is_some());
        assert_eq!(world.members[m].failed.len(), usize::from(expected.is_none()));
    }
}

#[test]
fn out_of_range_is_believed_only_when_nothing_is_queued_and_then_at_once() {
    let mut world = Simulator::new(1);
    world.append(0, 10);
    world.work = Work::Held;
    // Without a group, no heartbeat wakes the network thread.
    let m = world.add(ConsumerCoreConfig { group: None, auto_commit: None, ..config() });
    world.assign(m, &[(0, EARLIEST)]);
    world.advance(SECOND);
    assert_eq!(world.jobs(m).len(), 1);
    // Retention deletes ahead of the position while the first records are in flight.
    let log = world.brokers.logs.get_mut(&tp(0)).unwrap();
    log.append(50, 0);
    log.start = 40;
    world.serve_polls();
    world.advance(2 * SECOND);
    let resets = |world: &Simulator| {
        let reset =
            |notice: &&ConsumerLogEvent| matches!(notice, ConsumerLogEvent::Fetch(FetchLogEvent::OffsetReset { .. }));
        world.members[m].notices.iter().filter(reset).count()
    };
    assert_eq!(resets(&world), 0, "trusted while records were in flight");
    world.work = Work::AtOnce;
    world.end_job(m, 0, crate::dispatch::JobOutcome::Done);
    world.advance(SECOND / 10);
    assert_eq!(resets(&world), 1, "the network thread was not woken");
    assert_eq!(world.delivered(m, 0), (0..10).chain(40..60).collect::<Vec<_>>());
}
