//! Allocations of a producer: per batch, not per record, for append, send and completion.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use grete_proto::cluster::PartitionMetadata;
use grete_proto::cluster::view::ClusterView;
use grete_proto::ids::{NodeId, TopicPartition};
use grete_proto::producer::{Accumulator, AppendAction, ProduceConfig, Sender, SenderAction, SenderEvent};
use grete_proto::request::{Channel, OutboundRequest, Reply, Request, Response};
use grete_proto::rng::Rng;
use grete_proto::time::{Nanos, SECOND};
use grete_wire::api::ApiKey;
use grete_wire::error_code::ErrorCode;
use grete_wire::frame::Frame;
use grete_wire::messages::produce::TopicProduceResponse;
use grete_wire::messages::{PartitionProduceResponse, ProduceResponse};
use grete_wire::records::ProducerRecord;

static COUNT: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; counting uses an atomic only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Relaxed);
        // SAFETY: the caller's contract is ours.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is ours.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Relaxed);
        // SAFETY: the caller's contract is ours.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PARTITIONS: usize = 4;
const LEADERS: [PartitionMetadata; PARTITIONS] =
    [PartitionMetadata { leader: 1, leader_epoch: 0, error: ErrorCode::NONE }; PARTITIONS];

/// A cluster in which one broker leads all partitions.
struct OneBroker;

impl ClusterView for OneBroker {
    fn leader(&self, _: &TopicPartition) -> Option<(NodeId, i32)> {
        Some((1, 0))
    }

    fn partitions(&self, _: &str) -> Option<Result<&[PartitionMetadata], ErrorCode>> {
        Some(Ok(&LEADERS))
    }

    fn missing_at(&self, _: &str) -> Option<Nanos> {
        None
    }

    fn topic_id(&self, _: &str) -> Option<u128> {
        Some(42)
    }

    fn api_version(&self, _: NodeId, _: Channel, _: ApiKey) -> Option<i16> {
        Some(13)
    }

    fn is_muted(&self, _: NodeId, _: Nanos) -> bool {
        false
    }

    fn metadata_version(&self) -> u64 {
        1
    }
}

/// Builds the reply of a broker that has written all batches.
fn written(outgoing: &OutboundRequest) -> Reply {
    let Request::Produce(body) = &outgoing.request else { panic!("unexpected: {outgoing:?}") };
    let part = |&(index, _): &(i32, _)| PartitionProduceResponse { index, ..Default::default() };
    let topic = |topic: &grete_wire::produce::ProduceTopic| TopicProduceResponse {
        topic_id: topic.id,
        partition_responses: topic.partitions.iter().map(part).collect(),
        ..Default::default()
    };
    let response = ProduceResponse { responses: body.topics.iter().map(topic).collect(), ..Default::default() };
    let mut frame = Vec::new();
    response.encode(13, &mut frame).expect("encodes");
    let response = Response { api: ApiKey::Produce, version: 13, frame: Frame::from(frame), body: 0 };
    Reply { token: outgoing.token, node: 1, result: Ok(response) }
}

/// Returns the allocations for this number of records of 100 bytes, and the number of batches.
fn allocations(records: u32, choose: impl Fn(u32) -> (Option<i32>, Option<[u8; 4]>)) -> (usize, u64) {
    let config = ProduceConfig { idempotent: false, linger: SECOND, batch_size: 32 << 10, ..ProduceConfig::default() };
    let accumulator = Arc::new(Mutex::new(Accumulator::new(&config, Rng::new(1))));
    let mut machine = Sender::new(config, Arc::clone(&accumulator), Rng::new(2));
    let topic = accumulator.lock().expect("no panic").topic("orders");
    let mut actions = Vec::with_capacity(64);
    machine.step(0, SenderEvent::MetadataChanged, &OneBroker, &mut actions);
    actions.clear();
    let (mut counted, mut batches) = (0, 0);
    // The first half is the warm-up.
    for record in 0..records * 2 {
        let (partition, key) = choose(record);
        let value = ProducerRecord {
            timestamp: i64::from(record / 100),
            key: key.as_ref().map(|key| &key[..]),
            value: Some(&[7; 100]),
            headers: &[],
        };
        let before = COUNT.load(Relaxed);
        let mut accumulator = accumulator.lock().expect("no panic");
        let wake = accumulator.append(1, topic, partition, &value).expect("there is room").action;
        drop(accumulator);
        let mut taken = COUNT.load(Relaxed) - before;
        if wake == AppendAction::Drain {
            let before = COUNT.load(Relaxed);
            machine.step(1, SenderEvent::Drain, &OneBroker, &mut actions);
            taken += COUNT.load(Relaxed) - before;
            let replies: Vec<Reply> = actions
                .drain(..)
                .map(|action| match action {
                    SenderAction::Send(outgoing) => written(&outgoing),
                    other => panic!("unexpected: {other:?}"),
                })
                .collect();
            batches += if record >= records { replies.len() as u64 } else { 0 };
            let before = COUNT.load(Relaxed);
            for reply in replies {
                machine.step(1, SenderEvent::Reply(reply), &OneBroker, &mut actions);
            }
            taken += COUNT.load(Relaxed) - before;
            assert!(actions.is_empty(), "{actions:?}");
        } else if record >= records {
            assert_eq!(taken, 0, "a record that fits its batch takes no memory");
        }
        counted += if record >= records { taken } else { 0 };
    }
    (counted, batches)
}

#[test]
fn appending_allocates_per_batch_and_not_per_record() {
    let explicit = allocations(100_000, |record| (Some((record % 4) as i32), None));
    let sticky = allocations(100_000, |_| (None, None));
    let keyed = allocations(100_000, |record| (None, Some(record.to_be_bytes())));
    for (name, (taken, batches)) in [("explicit", explicit), ("sticky", sticky), ("keyed", keyed)] {
        assert!(batches > 300, "{name}: {batches} batches");
        let each = taken as f64 / batches as f64;
        println!("{name}: {each:.2} allocations a batch");
        assert!(each <= 16.0, "{name}: {each:.2} allocations a batch");
    }
}
