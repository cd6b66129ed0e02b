//! Tests of lanes whose records a share group hands out.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::fetch::AcquiredRange;
use crate::share::AckType;

use AckType::{Accept, Gap, Reject, Release};

fn queue() -> RouteConfig {
    RouteConfig {
        queue: true,
        concurrency: Concurrency::Unordered,
        max_messages: 1,
        dead_letter: true,
        retry: RetryPolicy { attempts: Some(3), ..RetryPolicy::default() },
        ..RouteConfig::default()
    }
}

impl Harness {
    /// Pushes a batch of records from `base` on, of which these ranges (with their delivery counts) are acquired.
    fn acquire(&mut self, lane: LaneId, base: i64, count: usize, acquired: &[(i64, i64, u16)]) {
        let records: Vec<_> = (0..count).map(|i| TestRecord::value(0, format!("v{i}"))).collect();
        self.acquire_bytes(lane, build_batch(base, &records, &BatchOptions::default()), acquired);
    }

    fn acquire_bytes(&mut self, lane: LaneId, bytes: Vec<u8>, acquired: &[(i64, i64, u16)]) {
        let range = |&(first, last, deliveries)| AcquiredRange { first, last, deliveries };
        let ranges: Vec<AcquiredRange> = acquired.iter().map(range).collect();
        let next = ranges.last().map_or(0, |range| range.last + 1);
        let chunk = CompletedFetch {
            slot: PartitionHandle(lane.index),
            assignment_epoch: 1,
            fetch_generation: 1,
            range: 0..bytes.len(),
            bytes: bytes.len(),
            timestamps: TimestampRange::from_batches(&bytes),
            frame: PooledBuf::from(bytes),
            fetch_offset: ranges.first().map_or(0, |range| range.first),
            next_offset: next,
            aborted_transactions: Vec::new(),
            high_watermark: -1,
            readable_end: -1,
            log_start_offset: -1,
            leader_epoch: 0,
            source: 1,
            acquired: Some(ranges.into()),
        };
        self.held += chunk.bytes;
        self.dispatch.push(self.now, lane, chunk);
    }

    /// Takes the acknowledgements since the last call, by offset.
    fn acks(&mut self) -> BTreeMap<i64, AckType> {
        let outbox = self.dispatch.take_outbox(self.client);
        let released: usize = outbox.released.iter().map(|(_, bytes)| bytes).sum();
        self.held -= released;
        self.drained.extend(outbox.drained);
        self.corrupt.extend(outbox.corrupt);
        let mut found = BTreeMap::new();
        for ack in outbox.acks.into_iter().flat_map(|(_, acks)| acks) {
            for offset in ack.offsets() {
                assert_eq!(found.insert(offset, ack.kind), None, "{offset} is acknowledged twice");
            }
        }
        found
    }
}

#[test]
fn acquired_records_alone_are_handed_out_one_by_one_and_accepted() {
    let mut world = Harness::new();
    let lane = world.lane_with(queue());
    world.acquire(lane, 10, 6, &[(11, 12, 1), (14, 14, 1)]);
    let jobs = world.take_all();
    let mut rows: Vec<_> = jobs.iter().flat_map(offsets).collect();
    rows.sort_unstable();
    assert_eq!(rows, [11, 12, 14], "at the same time, and no others");
    assert_eq!(world.acks(), BTreeMap::new());
    jobs.into_iter().for_each(|job| world.done(job));
    assert_eq!(world.acks(), [(11, Accept), (12, Accept), (14, Accept)].into());
    assert_eq!(world.committable(), Vec::<i64>::new(), "no offset is committed");
    world.assert_empty();
}

#[test]
fn a_record_that_was_released_comes_again_behind_later_ones() {
    let mut world = Harness::new();
    let lane = world.lane_with(queue());
    world.acquire(lane, 20, 2, &[(20, 21, 1)]);
    let later = world.take_all();
    world.acquire(lane, 5, 1, &[(5, 5, 3)]);
    let again = world.take(0).expect("the earlier record runs beside the later ones");
    assert_eq!((offsets(&again), again.attempt), (vec![5], 3), "deliveries are attempts");
    world.done(again);
    assert_eq!(world.acks(), [(5, Accept)].into());
    later.into_iter().for_each(|job| world.done(job));
    assert_eq!(world.acks(), [(20, Accept), (21, Accept)].into());
    world.assert_empty();
}

/// Records that were released come behind later ones, in one batch with them. The halves of a bisection stay in front of
/// each other, and a dead letter is found wherever its record waits.
#[test]
fn a_poison_record_of_a_batch_without_order_is_found_and_no_other_is_left() {
    for poison in 0..6 {
        let mut world = Harness::new();
        let retry = RetryPolicy { attempts: Some(2), ..RetryPolicy::default() };
        let lane = world.lane_with(RouteConfig { max_messages: 100, retry, ..queue() });
        for (base, count) in [(4, 2), (0, 3), (3, 1)] {
            let acquired = (base, base + i64::try_from(count).unwrap() - 1, 1);
            world.acquire(lane, base, count, &[acquired]);
        }
        let (mut acks, mut runs) = (BTreeMap::new(), 0);
        while let Some(job) = world.take(world.now).or_else(|| {
            let at = world.advance_to_deadline();
            world.take(at)
        }) {
            runs += 1;
            assert!(runs < 40, "{poison} is not found: {acks:?}");
            if job.kind == JobKind::Consume && offsets(&job).contains(&poison) {
                world.end(job, failed());
            } else {
                world.done(job);
            }
            acks.extend(world.acks());
            if acks.len() == 6 {
                break;
            }
        }
        let kind = |offset| if offset == poison { Reject } else { Accept };
        assert_eq!(acks, (0..6).map(|offset| (offset, kind(offset))).collect(), "poison {poison}");
        world.assert_empty();
    }
}

/// 3, 4, 1, 6, 7 are as many as there are from the first to the last of them, and not those.
#[test]
fn records_that_come_in_another_order_are_all_acknowledged() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { max_messages: 100, ..queue() });
    for (base, count) in [(3, 2), (1, 1), (6, 2)] {
        let acquired = (base, base + i64::try_from(count).unwrap() - 1, 1);
        world.acquire(lane, base, count, &[acquired]);
    }
    world.run();
    assert_eq!(world.acks(), [1, 3, 4, 6, 7].map(|offset| (offset, Accept)).into());
    world.assert_empty();
}

#[test]
fn expired_records_alone_are_rejected_in_any_order() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { max_age_ms: Some(1000), max_messages: 100, ..queue() });
    world.dispatch.set_wall_clock_offset(100_000);
    for (base, times) in [(10, [99_500, 99_600]), (4, [1, 99_700])] {
        let records = times.map(|time| TestRecord::value(time, "record"));
        world.acquire_bytes(lane, build_batch(base, &records, &BatchOptions::default()), &[(base, base + 1, 1)]);
    }
    world.run();
    assert_eq!(world.acks(), [(4, Reject), (5, Accept), (10, Accept), (11, Accept)].into());
    world.assert_empty();
}

#[test]
fn deliveries_in_other_processes_count_as_attempts() {
    let mut world = Harness::new();
    let lane = world.lane_with(queue());
    world.acquire(lane, 0, 1, &[(0, 0, 2)]);
    let second = world.take(0).expect("a job");
    assert_eq!(second.attempt, 2);
    let decision = world.end(second, failed());
    assert!(matches!(decision, Some(Decision::Retry { attempt: 3, .. })), "{decision:?}");
    assert_eq!(world.dispatch.delayed_records(world.client), 1, "it takes no handler's place");
    let at = world.advance_to_deadline();
    let third = world.take(at).expect("the retry");
    assert_eq!(third.attempt, 3);
    assert_eq!(world.end(third, failed()), Some(Decision::DeadLetter { offset: 0 }));
    let letter = world.take(at).expect("a dead letter");
    assert_eq!(
        (letter.kind, letter.failure_history.as_ref().map(|history| history.attempts)),
        (JobKind::DeadLetter, Some(3))
    );
    assert_eq!(world.acks(), BTreeMap::new());
    world.done(letter);
    assert_eq!(world.acks(), [(0, Reject)].into());
    world.assert_empty();
}

#[test]
fn offsets_without_a_record_are_gaps_and_expired_records_are_rejected() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { max_age_ms: Some(1000), ..queue() });
    world.dispatch.set_wall_clock_offset(100_000);
    let records = [TestRecord::value(99_500, "new"), TestRecord::value(1, "old"), TestRecord::value(99_900, "new")];
    world.acquire_bytes(lane, build_batch(0, &records, &BatchOptions::default()), &[(0, 2, 1)]);
    // A compacted batch: what it covers and does not have are gaps.
    let options = BatchOptions { last_offset_delta: Some(4), ..BatchOptions::default() };
    world.acquire_bytes(lane, build_batch(10, &[TestRecord::value(99_999, "last")], &options), &[(10, 14, 1)]);
    let mut rows: Vec<_> = world.run().into_iter().flatten().collect();
    rows.sort_unstable();
    assert_eq!(rows, [0, 2, 10]);
    let expected = [(0, Accept), (1, Reject), (2, Accept), (10, Accept), (11, Gap), (12, Gap), (13, Gap), (14, Gap)];
    assert_eq!(world.acks(), expected.into());
    world.assert_empty();
}

#[test]
fn a_lane_that_leaves_gives_back_what_no_handler_has() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { hooks: false, ..queue() });
    world.acquire(lane, 0, 3, &[(0, 2, 1)]);
    let (runs, fails) = (world.take(0).expect("a job"), world.take(0).expect("a job"));
    let (first, second) = (offsets(&runs)[0], offsets(&fails)[0]);
    let third = 3 - first - second;
    world.acquire(lane, 3, 2, &[(3, 4, 1)]);
    world.dispatch.revoke(lane, false);
    assert_eq!(world.acks(), [(third, Release), (3, Release), (4, Release)].into(), "at once");
    world.done(runs);
    assert_eq!(world.acks(), [(first, Accept)].into());
    world.end(fails, failed());
    assert_eq!(world.acks(), [(second, Release)].into());
    assert_eq!(world.drained.len(), 1);
    world.assert_empty();
}

#[test]
fn a_quiet_dispatcher_gives_back_what_waits() {
    let mut world = Harness::new();
    let lane = world.lane_with(queue());
    world.acquire(lane, 0, 3, &[(0, 2, 1)]);
    let runs = world.take(0).expect("a job");
    let own = offsets(&runs)[0];
    world.dispatch.quiet();
    let acks = world.acks();
    assert_eq!(acks.len(), 2);
    assert!(acks.values().all(|kind| *kind == Release) && !acks.contains_key(&own), "{acks:?}");
    world.acquire(lane, 7, 1, &[(7, 7, 1)]);
    assert_eq!(world.acks(), [(7, Release)].into());
    world.done(runs);
    assert_eq!(world.acks(), [(own, Accept)].into());
    world.assert_empty();
}

#[test]
fn a_corrupt_batch_goes_back_to_its_leader() {
    let mut world = Harness::new();
    let lane = world.lane_with(queue());
    let mut bytes = build_batch(0, &[TestRecord::value(0, "a"), TestRecord::value(0, "b")], &BatchOptions::default());
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    world.acquire_bytes(lane, bytes, &[(0, 1, 1)]);
    assert!(world.take(0).is_none());
    assert_eq!(world.acks(), [(0, Release), (1, Release)].into());
    assert_eq!(world.corrupt.len(), 1);
    world.acquire(lane, 0, 2, &[(0, 1, 2)]);
    assert_eq!(world.run().len(), 2, "the lane goes on");
    assert_eq!(world.acks(), [(0, Accept), (1, Accept)].into());
    world.assert_empty();
}

#[derive(Debug, Clone)]
enum Step {
    Acquire { base: i64, records: usize, every: usize },
    Take,
    Done(usize),
    Fail(usize),
    Later(usize),
    Wait,
    Revoke,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..40_i64, 1..8_usize, 1..3_usize).prop_map(|(base, records, every)| Step::Acquire { base, records, every }),
        5 => Just(Step::Take),
        4 => any::<usize>().prop_map(Step::Done),
        2 => any::<usize>().prop_map(Step::Fail),
        1 => any::<usize>().prop_map(Step::Later),
        2 => Just(Step::Wait),
        1 => Just(Step::Revoke),
    ]
}

proptest! {
    /// Whatever happens, each acquired record is acknowledged exactly once, and no record runs twice at the same time.
    #[test]
    fn each_acquired_record_is_acknowledged_once(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = Harness::new();
        let mut lane = world.lane_with(RouteConfig { hooks: false, ..queue() });
        let (mut held, mut running): (BTreeSet<i64>, Vec<Lease>) = (BTreeSet::new(), Vec::new());
        let settle = |world: &mut Harness, held: &mut BTreeSet<i64>| {
            for (offset, kind) in world.acks() {
                prop_assert!(held.remove(&offset), "{} is acknowledged ({:?}) and not held", offset, kind);
            }
            Ok(())
        };
        for step in steps {
            match step {
                Step::Acquire { base, records, every } => {
                    // The acquirer passes on no record that is held already.
                    let wanted = (base..base + records as i64).step_by(every).filter(|offset| !held.contains(offset));
                    let ranges: Vec<_> = wanted.map(|offset| (offset, offset, 1)).collect();
                    if !ranges.is_empty() {
                        held.extend(ranges.iter().map(|(offset, ..)| offset));
                        world.acquire(lane, base, records, &ranges);
                    }
                }
                Step::Take => {
                    if let Some(lease) = world.take(world.now) {
                        let twice = running.iter().any(|other| offsets(other) == offsets(&lease));
                        prop_assert!(!twice, "{:?} runs twice", offsets(&lease));
                        running.push(lease);
                    }
                }
                Step::Done(at) if !running.is_empty() => {
                    let lease = running.remove(at % running.len());
                    world.end(lease, JobOutcome::Done);
                }
                Step::Fail(at) if !running.is_empty() => {
                    let lease = running.remove(at % running.len());
                    world.end(lease, failed());
                }
                Step::Later(at) if !running.is_empty() => {
                    let lease = running.remove(at % running.len());
                    world.end(lease, failed_with(FailureKind::RetryLater(MILLI), None));
                }
                Step::Wait if world.dispatch.next_deadline().is_some() => drop(world.advance_to_deadline()),
                Step::Revoke => {
                    world.dispatch.revoke(lane, false);
                    lane = world.add(0, RouteConfig { hooks: false, ..queue() });
                }
                _ => {}
            }
            settle(&mut world, &mut held)?;
        }
        world.dispatch.revoke(lane, false);
        for lease in running.drain(..) {
            world.end(lease, JobOutcome::Done);
        }
        settle(&mut world, &mut held)?;
        prop_assert!(held.is_empty(), "never acknowledged: {:?}", held);
    }
}
