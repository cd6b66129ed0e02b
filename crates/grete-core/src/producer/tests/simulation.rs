use std::sync::Arc;

use grete_wire::ApiKey;
use grete_wire::records::Compression;

use super::world::*;
use crate::cluster::ClusterConfig;
use crate::produce::{Outcome, ProduceConfig, ProduceError, Refused, Settled};
use crate::producer::*;
use crate::rng::Rng;
use crate::testing::each_seed;
use crate::time::{MILLI, SECOND};

/// Seeds that have failed once.
const REGRESSIONS: [u64; 0] = [];

/// From the end of all faults until everything must have come through: sleeping brokers, slow wires, backoffs.
const CALM: u64 = 40 * SECOND;

fn config(seed: u64, rng: &mut Rng) -> ProducerCoreConfig {
    let (acks, idempotent) = match seed % 8 {
        0..=4 => (-1, true),
        5 => (-1, false),
        6 => (1, false),
        _ => (0, false),
    };
    let codecs = [Compression::None, Compression::Lz4, Compression::Zstd, Compression::Snappy, Compression::Gzip];
    let request_timeout = (1 + rng.below(5)) * SECOND;
    let produce = ProduceConfig {
        acks,
        idempotent,
        linger: rng.below(3) * rng.below(20) * MILLI,
        batch_size: 150 + rng.below(3000) as usize,
        buffer_memory: 3000 + rng.below(40_000) as usize,
        max_request_size: 2000 + rng.below(8000) as usize,
        compression: codecs[rng.below(10) as usize % 5 * rng.below(2) as usize],
        level: None,
        delivery_timeout: request_timeout + (2 + rng.below(20) * rng.below(5)) * SECOND,
        request_timeout,
        max_in_flight: 1 + (rng.below(if idempotent { 5 } else { 12 }) * rng.below(2)) as usize,
        retry_backoff: (1 + rng.below(100)) * MILLI,
        retry_backoff_max: SECOND,
    };
    let cluster = ClusterConfig {
        bootstrap: vec![("b1".into(), 9092), ("b2".into(), 9092)],
        request_timeout,
        reconnect_backoff_max: SECOND,
        socket_connection_setup_timeout: 2 * SECOND,
        socket_connection_setup_timeout_max: 4 * SECOND,
        ..ClusterConfig::default()
    };
    ProducerCoreConfig { cluster, produce }
}

fn world(seed: u64) -> World {
    let mut rng = Rng::new(seed ^ 0x9e37);
    let mut world = World::with(config(seed, &mut rng), seed, 3);
    world.brokers.create("orders", 3);
    world.brokers.create("clicks", 2);
    world.brokers.tell_all();
    world.recreates = seed % 11 == 2;
    if seed.is_multiple_of(3) {
        let produce = [3, 6, 7, 8, 9, 10, 12][rng.below(7) as usize];
        world.brokers.max_versions.insert(ApiKey::Produce, produce);
        if rng.below(2) == 0 {
            // Without topic ids.
            world.brokers.max_versions.insert(ApiKey::Metadata, 9);
            // Nor can anybody tell such a topic from the one that was deleted.
            world.recreates = false;
        }
        // Some brokers have been upgraded already.
        world.brokers.new = (1..=3).filter(|_| rng.below(2) == 0).collect();
    }
    world.lazy = if rng.below(8) == 0 { 20 * SECOND } else { SECOND };
    world.brokers.hints = rng.below(2) == 0;
    world.brokers.bumps = rng.below(2) == 0;
    world.brokers.first_epoch = if rng.below(4) == 0 { i16::MAX - 3 } else { 0 };
    for log in world.brokers.logs.values_mut() {
        log.replica.states.must_be_known = seed % 7 == 1;
    }
    world
}

fn append(world: &mut World) {
    let topic = if world.rng.below(3) == 0 { "clicks" } else { "orders" };
    let partition = (world.rng.below(3) == 0).then(|| world.rng.below(2) as i32);
    let key = (world.rng.below(2) == 0).then(|| world.rng.below(100).to_be_bytes());
    let most = if world.rng.below(30) == 0 { 1500 } else { 100 };
    let len = 8 + world.rng.below(most) as usize;
    match world.append(topic, partition, key.as_ref().map(<[u8; 8]>::as_slice), len) {
        Ok(number) if world.rng.below(10) == 0 => world.wait(number),
        Ok(_) | Err(Refused::Full | Refused::NoMetadata | Refused::TooLarge { .. } | Refused::Topic(_)) => {}
        Err(refused) => panic!("{refused}"),
    }
}

/// All is well: whatever stands in the way of a record passes.
fn insist(world: &mut World, topic: &str, partition: i32) -> u64 {
    let end = world.now + 5 * SECOND;
    loop {
        match world.append(topic, Some(partition), None, 10) {
            Ok(number) => return number,
            Err(refused) => {
                world.tell(|| format!("not taken for {topic}-{partition}: {refused}"));
                assert!(world.now < end, "{topic}-{partition}: {refused}");
            }
        }
        world.pass(50 * MILLI);
    }
}

/// A minute of faults; then quiet, in which everything must come through.
fn run(seed: u64, talk: bool) {
    let mut world = world(seed);
    world.talk = talk;
    world.tell(|| format!("{:?}", world.client.config.produce));
    if seed % 4 == 1 && seed % 7 != 1 && world.client.config.produce.idempotent {
        // Sequence numbers are about to run out.
        for topic in ["orders", "clicks"] {
            world.client.topic(topic);
        }
        world.step(ProducerEvent::Drain);
        world.pass(SECOND);
        let left = world.rng.below(300) as i32;
        world.client.count_from(5, i32::MAX - left);
    }
    world.chaos = true;
    let end = world.now + 60 * SECOND;
    while world.now < end {
        for _ in 0..world.rng.below(30) {
            append(&mut world);
        }
        let pause = world.rng.below(1500) * MILLI;
        world.pass(pause);
        if world.rng.below(2) == 0 {
            world.fault();
        }
        if world.rng.below(15) == 0 {
            world.flush();
        }
    }
    if world.rng.below(5) == 0 {
        return close_amid_faults(&mut world);
    }
    world.heal();
    let healed = world.now;
    let open = world.client.open().to_vec();
    world.pass(CALM);
    // What was not settled, and had the time, is there.
    let config = world.client.config.produce.clone();
    let timeout = config.delivery_timeout;
    for number in open {
        let row = &world.client.rows[number];
        // The time of a batch is that of its first record.
        let of_batch = world.client.rows.iter().find(|other| Arc::ptr_eq(&other.receipt, &row.receipt));
        if of_batch.is_some_and(|first| first.taken + timeout > healed + CALM) && config.acks != 0 {
            let settled = row.settled.as_ref();
            // What went wrong before may have lost it; its time has not.
            let late =
                |settled: &Settled| matches!(settled.error.as_deref(), Some(ProduceError::DeliveryTimeout { .. }));
            let fine = settled.is_some_and(|settled| !late(settled));
            assert!(fine, "record {number} of {} does not come through: {settled:?}", row.tp);
        }
    }
    world.pass(timeout + 2 * SECOND);
    assert_eq!(world.client.open(), [0; 0], "records that nobody settles");
    // And whatever follows is written.
    let mut last = Vec::new();
    for (topic, partitions) in [("orders", 3), ("clicks", 2)] {
        for partition in 0..partitions {
            last.push(insist(&mut world, topic, partition));
        }
    }
    if world.rng.below(2) == 0 {
        world.flush();
    }
    world.pass(config.linger + 200 * MILLI);
    for number in last {
        let expected = if config.acks == 0 { Outcome::Unknown } else { Outcome::Written };
        assert_eq!(world.client.outcome(number), Some(expected), "record {number}, all is well");
    }
    assert_eq!(world.client.accumulator().pending_records(), 0);
    assert_eq!(world.client.accumulator().used_bytes(), 0, "bytes that nobody gives back");
    world.check_logs();
    if world.rng.below(4) == 0 {
        // Connections are closed, topics forgotten, and found again.
        world.pass(700 * SECOND);
        if world.rng.below(2) == 0 {
            world.brokers.logs.values_mut().for_each(|log| log.replica.states.expire());
        }
        let number = insist(&mut world, "clicks", 0);
        world.pass(2 * SECOND);
        assert!(world.client.outcome(number).is_some(), "nobody wakes up");
    }
    world.close(5 * SECOND);
    world.pass(6 * SECOND);
    assert!(world.client.finished, "it does not end");
    assert_eq!(world.client.fatal, 0);
    let stats = world.client.stats();
    assert_eq!((stats.written + stats.not_written + stats.unknown) as usize, world.client.rows.len());
    world.check_logs();
}

/// GRETE_SEED=n runs one seed, and tells what happens; GRETE_SEEDS=n that many.
/// Everything is settled in time, and stays true when brokers carry out later what they had received.
fn close_amid_faults(world: &mut World) {
    let time = world.rng.below(10_000) * MILLI;
    world.tell(|| format!("close within {} ms", time / MILLI));
    world.close(time);
    let end = world.now + time + world.lazy;
    while world.now < end {
        world.pass(500 * MILLI);
        if world.rng.below(2) == 0 {
            world.fault();
        }
    }
    assert!(world.client.finished, "it does not end");
    assert_eq!(world.client.open(), [0; 0], "records that nobody settles");
    world.heal();
    world.pass(CALM);
    world.check_logs();
}

#[test]
fn producers_survive_faults() {
    each_seed(&REGRESSIONS, 120, run);
}
