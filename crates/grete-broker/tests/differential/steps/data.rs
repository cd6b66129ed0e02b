//! Requests of producers and consumers to partitions.

use std::borrow::Cow;

use grete_wire::ApiKey;
use grete_wire::messages::*;
use grete_wire::records::Compression;
use grete_wire::records::test_encoder::{BatchOptions, TestRecord, build_batch, set_length_and_crc};

use super::{Dice, s};
use crate::message::{Ask, ask};
use crate::side::{Learn, PRODUCERS, Side, UNKNOWN_PRODUCER};

/// Asks for the last stable offsets of the topics of a run.
pub fn latest_offsets(side: &Side) -> Ask {
    let partition = |partition_index| ListOffsetsPartition { partition_index, current_leader_epoch: -1, timestamp: -1 };
    let topic = |name| ListOffsetsTopic { name: s(name), partitions: (0..6).map(partition).collect() };
    let request = ListOffsetsRequest {
        replica_id: -1,
        isolation_level: 1,
        topics: side.topic_names().map(topic).collect(),
        timeout_ms: 1000,
    };
    ask(10, &request).expect("encodes")
}

/// Builds a request. `None`: not an API of this file.
pub fn build(api: ApiKey, dice: &mut Dice<'_>, side: &Side, conn: usize) -> Option<Ask> {
    let version = dice.version(api)?;
    match api {
        ApiKey::Produce => produce(version, dice, side),
        ApiKey::Fetch => fetch(version, dice, side, conn),
        ApiKey::ListOffsets => list_offsets(version, dice, side),
        ApiKey::OffsetForLeaderEpoch => {
            let topics = dice.each(
                2,
                |x: &OffsetForLeaderTopic<'_>| x.topic.to_string(),
                |dice| OffsetForLeaderTopic {
                    topic: s(dice.topic(side)),
                    partitions: dice.each(
                        2,
                        |x: &OffsetForLeaderPartition| x.partition,
                        |dice| OffsetForLeaderPartition {
                            partition: dice.partition(),
                            current_leader_epoch: dice.leader_epoch(),
                            leader_epoch: dice.pick(&[0, 0, 0, 1, -1, 7]),
                        },
                    ),
                },
            );
            ask(version, &OffsetForLeaderEpochRequest { replica_id: if version >= 3 { -1 } else { -2 }, topics })
        }
        _ => None,
    }
}

fn produce(version: i16, dice: &mut Dice<'_>, side: &Side) -> Option<Ask> {
    let slot = if dice.chance(65) { Some(dice.below(PRODUCERS)) } else { None };
    let is_transactional = slot.is_some_and(|slot| slot < PRODUCERS / 2);
    let topic_count = if dice.chance(80) { 1 } else { 2 };
    let mut counts = Vec::new();
    let mut names = Vec::new();
    let mut topic_data = Vec::new();
    for _ in 0..topic_count {
        let name = dice.topic(side);
        if is_listed(&names, &name, version, side) {
            continue;
        }
        names.push(name.clone());
        let mut partitions = vec![dice.partition()];
        if dice.chance(20) {
            let other = dice.partition();
            if !partitions.contains(&other) {
                partitions.push(other);
            }
        }
        let partition_data = partitions
            .into_iter()
            .map(|index| {
                let count = 1 + dice.below(3);
                counts.push((name.clone(), index, count as i32));
                let records = batch(dice, side, slot, is_transactional, &name, index, count);
                PartitionProduceData { index, records }
            })
            .collect();
        topic_data.push(TopicProduceData {
            topic_id: if version >= 13 { side.topic_id(&name) } else { 0 },
            name: s(name),
            partition_data,
        });
    }
    let transactional_id = match slot {
        Some(slot) if is_transactional && !dice.chance(3) => Some(s(format!("{}x{slot}", side.run))),
        _ if dice.chance(2) => Some(s(format!("{}x0", side.run))),
        _ => None,
    };
    let acks = if is_transactional { -1 } else { dice.pick(&[-1, -1, -1, 1, 1, 5]) };
    let mut ask = ask(version, &ProduceRequest { transactional_id, acks, timeout_ms: 5000, topic_data })?;
    if let Some(slot) = slot {
        ask.learn = Learn::Sequence(slot, counts);
    }
    Some(ask)
}

fn batch(
    dice: &mut Dice<'_>,
    side: &Side,
    slot: Option<usize>,
    transactional: bool,
    topic: &str,
    partition: i32,
    count: usize,
) -> Option<Cow<'static, [u8]>> {
    let mut options = BatchOptions { transactional, ..BatchOptions::default() };
    options.compression = dice.pick(&[
        Compression::None,
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ]);
    if let Some(slot) = slot {
        let producer = &side.producers[slot];
        let next = producer.sequences.get(&(topic.to_owned(), partition)).copied().unwrap_or(0);
        options.producer_id = producer.id;
        options.producer_epoch = producer.epoch;
        options.base_sequence = next;
        match dice.below(20) {
            0 => options.base_sequence = (next - count as i32).max(0),
            1 => options.base_sequence = next + 5,
            2 => options.producer_epoch += dice.pick(&[-1, 1]),
            3 => options.producer_id = UNKNOWN_PRODUCER + 7,
            4 => options.base_sequence = -1,
            5 => options.transactional = !transactional,
            _ => {}
        }
    }
    let base = side.start - 3_600_000 + dice.below(5000) as i64;
    let has_keys = dice.chance(80);
    let records: Vec<TestRecord> = (0..count)
        .map(|index| {
            let value = vec![b'v'; 1 + dice.below(40)];
            let key = if dice.chance(50) { "a" } else { "b" };
            let at = base + (index as i64) * dice.pick(&[0, 10, -10]);
            if has_keys { TestRecord::keyed(at, key, value) } else { TestRecord::value(at, value) }
        })
        .collect();
    let mut bytes = build_batch(0, &records, &options);
    if dice.chance(90) {
        return Some(Cow::Owned(bytes));
    }
    match dice.below(14) {
        0 => bytes[25] ^= 1,
        1 => bytes.truncate(bytes.len() - 3),
        2 => bytes.clear(),
        3 => bytes.extend(build_batch(0, &records, &options)),
        4 => {
            bytes[60] += 1;
            set_length_and_crc(&mut bytes);
        }
        5 => {
            bytes[22] |= 0x20;
            set_length_and_crc(&mut bytes);
        }
        6 => bytes[16] = 1,
        7 => {
            let far = vec![TestRecord::value(side.start + 86_400_000, "late")];
            bytes = build_batch(0, &far, &options);
        }
        8 => {
            let large = vec![TestRecord::keyed(base, "a", vec![7; 1 << 20])];
            bytes = build_batch(0, &large, &BatchOptions { compression: Compression::None, ..options });
        }
        9 => bytes = build_batch(55, &records, &options),
        10 => {
            options.last_offset_delta = Some(40);
            bytes = build_batch(0, &records, &options);
        }
        11 => {
            options.offset_deltas = Some((0..count as i32).map(|delta| delta * 2).collect());
            bytes = build_batch(0, &records, &options);
        }
        12 => bytes = vec![1, 2, 3],
        _ => {
            options.log_append = Some(base + 3);
            bytes = build_batch(0, &records, &options);
        }
    }
    Some(Cow::Owned(bytes))
}

fn fetch(version: i16, dice: &mut Dice<'_>, side: &Side, conn: usize) -> Option<Ask> {
    let mut topics = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let count = 1 + dice.below(2);
    for _ in 0..count {
        let name = dice.topic(side);
        if is_listed(&names, &name, version, side) {
            continue;
        }
        let mut indexes: Vec<i32> = dice.distinct(3, Dice::partition);
        indexes.sort_unstable();
        indexes.dedup();
        let partitions = indexes
            .into_iter()
            .map(|partition| FetchPartition {
                partition,
                current_leader_epoch: if version >= 9 { dice.leader_epoch() } else { -1 },
                fetch_offset: dice.pick(&[0, 0, 0, 1, 2, 3, 4, 6, 8, 1000, -1]),
                last_fetched_epoch: if version >= 12 { dice.pick(&[-1, -1, -1, 0, 3]) } else { -1 },
                log_start_offset: -1,
                partition_max_bytes: dice.pick(&[1 << 20, 1 << 20, 1 << 20, 1, 150]),
                ..FetchPartition::default()
            })
            .collect();
        topics.push(FetchTopic {
            topic_id: if version >= 13 { side.topic_id(&name) } else { 0 },
            topic: s(name.clone()),
            partitions,
        });
        names.push(name);
    }
    let is_waiting = dice.chance(8);
    let mut request = FetchRequest {
        replica_id: -1,
        max_wait_ms: if is_waiting { 60_000 } else { 0 },
        min_bytes: if is_waiting { 1 } else { dice.pick(&[0, 1, 1, 100]) },
        max_bytes: dice.pick(&[1 << 20, 1 << 20, 1 << 20, 1, 200]),
        isolation_level: if dice.chance(50) { 1 } else { 0 },
        session_epoch: -1,
        topics,
        ..FetchRequest::default()
    };
    let mut learn = Learn::Nothing;
    if version >= 7 && dice.chance(50) {
        learn = Learn::Session(conn, version >= 13);
        // A session keeps its way to name topics; Kafka notices another way only by a topic in the request.
        let is_same = side.session_ids[conn] == (version >= 13);
        (request.session_id, request.session_epoch) = side.sessions[conn];
        match dice.below(16) {
            0 => request.session_epoch = 77,
            1 => request.session_epoch = -1,
            2 => request.session_id = 12_345,
            3 => request.session_epoch = 0,
            4..8 if is_same && request.session_epoch > 0 => request.topics.clear(),
            8 | 9 if is_same && request.session_epoch > 0 => {
                request.forgotten_topics_data = std::mem::take(&mut request.topics)
                    .into_iter()
                    .map(|topic| ForgottenTopic {
                        topic: topic.topic,
                        topic_id: topic.topic_id,
                        partitions: topic.partitions.iter().map(|partition| partition.partition).collect(),
                    })
                    .collect();
            }
            _ => {}
        }
    }
    let mut ask = ask(version, &request)?;
    ask.learn = learn;
    Some(ask)
}

/// Whether a request has a topic already, by name or by id.
fn is_listed(names: &[String], name: &str, version: i16, side: &Side) -> bool {
    names.iter().any(|known| known == name || (version >= 13 && side.topic_id(known) == side.topic_id(name)))
}

fn list_offsets(version: i16, dice: &mut Dice<'_>, side: &Side) -> Option<Ask> {
    let topics = dice.each(
        2,
        |x: &ListOffsetsTopic<'_>| x.name.to_string(),
        |dice| ListOffsetsTopic {
            name: s(dice.topic(side)),
            partitions: dice.each(
                2,
                |x: &ListOffsetsPartition| x.partition_index,
                |dice| {
                    let timestamps = [-1, -1, -2, -2, -3, -4, -5, -6, -7, 0, side.start - 3_600_000];
                    let partition_index = dice.partition();
                    let mut timestamp = match dice.below(3) {
                        0 => side.start - 3_600_000 + dice.below(5000) as i64,
                        _ => dice.pick(&timestamps),
                    };
                    if timestamp == -3 && partition_index != 0 {
                        timestamp = -1;
                    }
                    ListOffsetsPartition {
                        partition_index,
                        current_leader_epoch: if version >= 4 { dice.leader_epoch() } else { -1 },
                        timestamp,
                    }
                },
            ),
        },
    );
    let isolation_level = i8::from(version >= 2 && dice.chance(40));
    ask(version, &ListOffsetsRequest { replica_id: -1, isolation_level, topics, timeout_ms: 1000 })
}
