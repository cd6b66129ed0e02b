use std::sync::Arc;

use grete_wire::ApiKey;
use grete_wire::records::Compression;

use super::simulator::*;
use crate::cluster::ClusterConfig;
use crate::producer::*;
use crate::producer::{AppendError, Outcome, ProduceConfig, ProduceError, RecordResult};
use crate::rng::Rng;
use crate::test_util::for_each_seed;
use crate::time::{MILLI, SECOND};

/// Seeds that have failed once.
const REGRESSIONS: [u64; 0] = [];

/// Time from the end of all faults until every record must be written: covers sleeping brokers, slow connections and
/// backoffs.
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
        compression_level: None,
        delivery_timeout: request_timeout + (2 + rng.below(20) * rng.below(5)) * SECOND,
        max_block: (1 + rng.below(8)) * SECOND,
        metadata_propagation: Some(SECOND),
        request_timeout,
        max_in_flight: 1 + (rng.below(if idempotent { 5 } else { 12 }) * rng.below(2)) as usize,
        retry_backoff: (1 + rng.below(100)) * MILLI,
        retry_backoff_max: SECOND,
        ..ProduceConfig::default()
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

fn world(seed: u64) -> Simulator {
    let mut rng = Rng::new(seed ^ 0x9e37);
    let mut world = Simulator::with(config(seed, &mut rng), seed, 3);
    world.brokers.create("orders", 3);
    world.brokers.create("clicks", 2);
    world.brokers.update_all_metadata();
    world.recreates = seed % 11 == 2;
    world.queues = seed % 9 != 4;
    if seed.is_multiple_of(3) {
        let produce = [3, 6, 7, 8, 9, 10, 12][rng.below(7) as usize];
        world.brokers.max_versions.insert(ApiKey::Produce, produce);
        if rng.below(2) == 0 {
            // Brokers without topic ids.
            world.brokers.max_versions.insert(ApiKey::Metadata, 9);
            // Without ids, a recreated topic cannot be distinguished from the deleted one.
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

fn append(world: &mut Simulator) {
    let topic = match world.rng.below(12) {
        0 => "late",
        1..=3 => "clicks",
        _ => "orders",
    };
    let partition = (world.rng.below(3) == 0).then(|| world.rng.below(2) as i32);
    let key = (world.rng.below(2) == 0).then(|| world.rng.below(100).to_be_bytes());
    let most = if world.rng.below(30) == 0 { 1500 } else { 100 };
    let len = 8 + world.rng.below(most) as usize;
    // A caller in an event loop, and a caller on a thread that waits for the metadata.
    let queues = world.queues && world.rng.below(2) == 0;
    match world.append_as(topic, partition, key.as_ref().map(<[u8; 8]>::as_slice), len, queues) {
        Ok(number) if world.rng.below(10) == 0 => world.wait(number),
        Ok(_)
        | Err(
            AppendError::BufferFull | AppendError::NoMetadata | AppendError::TooLarge { .. } | AppendError::Topic(_),
        ) => {}
        Err(refused) => panic!("{refused}"),
    }
}

/// Writes a record after all faults have ended: every obstacle is temporary.
fn insist(world: &mut Simulator, topic: &str, partition: i32) -> u64 {
    let end = world.now + 5 * SECOND;
    loop {
        match world.append(topic, Some(partition), None, 10) {
            Ok(number) => return number,
            Err(refused) => {
                world.trace(|| format!("not taken for {topic}-{partition}: {refused}"));
                assert!(world.now < end, "{topic}-{partition}: {refused}");
            }
        }
        world.pass(50 * MILLI);
    }
}

/// Runs a minute of faults, then a calm phase in which every record must be written.
fn run(seed: u64, talk: bool) {
    let mut world = world(seed);
    world.talk = talk;
    world.trace(|| format!("{:?}", world.client.config.produce));
    if seed % 4 == 1 && seed % 7 != 1 && world.client.config.produce.idempotent {
        // Sequence numbers are about to wrap.
        for topic in ["orders", "clicks"] {
            world.client.topic(topic);
        }
        world.step(ProducerEvent::Drain);
        world.pass(SECOND);
        let left = world.rng.below(300) as i32;
        world.client.count_from(5, i32::MAX - left);
    }
    world.chaos = true;
    let at = world.now + world.rng.below(20) * SECOND;
    world.post(at, Event::Create("late".to_owned(), 2));
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
    // Every record that was incomplete and had enough time must be written.
    let config = world.client.config.produce.clone();
    let timeout = config.delivery_timeout;
    for number in open {
        let row = &world.client.rows[number];
        // The delivery timeout of a batch starts with its first record.
        let of_batch = world.client.rows.iter().find(|other| Arc::ptr_eq(&other.receipt, &row.receipt));
        if of_batch.is_some_and(|first| first.taken + timeout > healed + CALM + config.max_block) && config.acks != 0 {
            let settled = row.settled.as_ref();
            // An earlier fault may have lost the record, but its timeout must not have expired.
            let late =
                |settled: &RecordResult| matches!(settled.error.as_deref(), Some(ProduceError::DeliveryTimeout { .. }));
            let fine = settled.is_some_and(|settled| !late(settled));
            assert!(fine, "record {number} of {} does not come through: {settled:?}", row.tp());
        }
    }
    world.pass(timeout + 2 * SECOND);
    assert_eq!(world.client.open(), [0; 0], "records that are never completed");
    // Every later record is written, too.
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
    assert_eq!(world.client.accumulator().used_bytes(), 0, "bytes that are never released");
    world.check_logs();
    if world.rng.below(4) == 0 {
        // Connections are closed, topics untracked, and tracked again.
        world.pass(700 * SECOND);
        if world.rng.below(2) == 0 {
            world.brokers.logs.values_mut().for_each(|log| log.replica.states.expire());
        }
        let number = insist(&mut world, "clicks", 0);
        world.pass(2 * SECOND);
        assert!(world.client.outcome(number).is_some(), "record {number} is not completed");
    }
    world.close(5 * SECOND);
    world.pass(6 * SECOND);
    assert!(world.client.finished, "it does not end");
    assert_eq!(world.client.fatal, 0);
    let stats = world.client.stats();
    assert_eq!((stats.written + stats.not_written + stats.unknown) as usize, world.client.rows.len());
    world.check_logs();
}

/// Closes the producer amid faults: every record completes in time, and its result stays true when brokers later
/// execute requests that they had received.
fn close_amid_faults(world: &mut Simulator) {
    let time = world.rng.below(10_000) * MILLI;
    world.trace(|| format!("close within {} ms", time / MILLI));
    world.close(time);
    let end = world.now + time + world.lazy;
    while world.now < end {
        world.pass(500 * MILLI);
        if world.rng.below(2) == 0 {
            world.fault();
        }
    }
    assert!(world.client.finished, "it does not end");
    assert_eq!(world.client.open(), [0; 0], "records that are never completed");
    world.heal();
    world.pass(CALM);
    world.check_logs();
}

#[test]
fn producers_survive_faults() {
    for_each_seed(&REGRESSIONS, 120, run);
}
