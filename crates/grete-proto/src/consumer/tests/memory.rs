use grete_wire::ApiKey;

use super::simulator::*;
use crate::consumer::*;
use crate::dispatch::JobOutcome;
use crate::position::StartPosition;
use crate::time::{MILLI, SECOND};

const EARLIEST: StartOffset = StartOffset::At(StartPosition::Earliest);

/// A backlog, handlers that hold their records, and no group whose heartbeats would wake the network thread.
fn backlog(partition_bytes: i32, queued_bytes: usize) -> (Simulator, usize) {
    let mut world = Simulator::new(3);
    for _ in 0..60 {
        for partition in 0..3 {
            world.append(partition, 50);
        }
    }
    world.work = Work::Held;
    let mut config = ConsumerCoreConfig { group: None, auto_commit: None, ..config() };
    (config.fetch.partition_bytes, config.fetch.queued_bytes) = (partition_bytes, queued_bytes);
    let m = world.add(config);
    world.assign(m, &[(0, EARLIEST), (1, EARLIEST), (2, EARLIEST)]);
    world.advance(5 * SECOND);
    (world, m)
}

#[test]
fn over_the_budget_nothing_is_fetched_and_a_release_sets_it_going_again() {
    // The last case has a budget below one partition's queue limit.
    for (partition_bytes, queued_bytes) in [(4000, 20_000), (2000, 9000), (100_000, 20_000), (1 << 20, 3000)] {
        let (mut world, m) = backlog(partition_bytes, queued_bytes);
        let held = world.members[m].core.partitions.queued_total();
        assert!(held >= queued_bytes.min(8000), "{held}");
        let fetches = world.times(m, ApiKey::Fetch).len();
        world.advance(20 * SECOND);
        assert_eq!(world.times(m, ApiKey::Fetch).len(), fetches, "a Fetch over the budget of {queued_bytes}");
        // Everything is read, with less than a second between two jobs: only releases wake the network thread.
        let before = world.now;
        while let Some(&(partition, _)) = world.jobs(m).first() {
            world.end_job(m, partition, JobOutcome::Done);
            if world.jobs(m).is_empty() {
                world.advance(50 * MILLI);
            }
        }
        assert_eq!(world.members[m].delivered.len(), 9000, "it stalls with a budget of {queued_bytes}");
        assert!(world.now - before < 60 * SECOND);
        world.send_event(m, ConsumerEvent::Tick);
        assert_eq!(world.members[m].core.partitions.queued_total(), 0);
        assert_eq!(world.members[m].starved.last(), Some(&false));
    }
}

/// A partition with more data than its queue holds, beside partitions without data on the same node.
#[test]
fn a_full_queue_that_empties_does_not_wait_for_data_of_the_other_partitions() {
    let mut world = Simulator::new(3);
    for _ in 0..300 {
        world.append(0, 50);
    }
    world.work = Work::Held;
    let mut config = ConsumerCoreConfig { group: None, auto_commit: None, ..config() };
    (config.fetch.partition_bytes, config.fetch.queued_bytes) = (2000, 30_000);
    let m = world.add(config);
    world.assign(m, &[(0, EARLIEST), (1, EARLIEST), (2, EARLIEST)]);
    world.advance(5 * SECOND);
    // A handler that is stuck costs few requests more than the long polls of two nodes, two in each second.
    let fetches = world.times(m, ApiKey::Fetch).len();
    world.advance(60 * SECOND);
    let fetches = world.times(m, ApiKey::Fetch).len() - fetches;
    assert!((230..=250).contains(&fetches), "{fetches} requests in 60 s");

    let before = world.now;
    while world.delivered(m, 0).len() < 15_000 || !world.jobs(m).is_empty() {
        if let Some(&(partition, _)) = world.jobs(m).first() {
            world.end_job(m, partition, JobOutcome::Done);
        }
        world.advance(MILLI);
        assert!(world.now - before < 20 * SECOND, "{} of 15,000 records", world.delivered(m, 0).len());
    }
    let took = (world.now - before) / MILLI;
    assert!(took < 2000, "{took} ms: the partition waited for the long polls of the others");
}

#[test]
fn one_stuck_partition_does_not_starve_the_others() {
    let (mut world, m) = backlog(2000, 30_000);
    // Partition 0 stays in flight; the others are read to their ends.
    for _ in 0..1000 {
        if let Some(&(partition, _)) = world.jobs(m).iter().find(|(partition, _)| *partition != 0) {
            world.end_job(m, partition, JobOutcome::Done);
        }
        world.advance(5 * MILLI);
    }
    assert_eq!((world.delivered(m, 1).len(), world.delivered(m, 2).len()), (3000, 3000));
    assert!(world.delivered(m, 0).len() < 1000);
}

#[test]
fn bytes_of_partitions_that_went_come_back() {
    let (mut world, m) = backlog(4000, 20_000);
    world.assign(m, &[(0, StartOffset::At(StartPosition::Latest))]);
    for partition in 0..3 {
        world.end_job(m, partition, JobOutcome::Done);
    }
    world.advance(SECOND);
    assert_eq!(world.members[m].core.partitions.queued_total(), 0);
}
