//! Allocations of a Fetch cycle in steady state: none per partition, however many the session has.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use grete_proto::cluster::PartitionMetadata;
use grete_proto::cluster::view::ClusterView;
use grete_proto::fetch::{FetchAction, FetchConfig, FetchEvent, Fetcher};
use grete_proto::ids::{NodeId, TopicPartition};
use grete_proto::partition::table::PartitionTable;
use grete_proto::position::{OffsetResolver, PositionConfig, PositionEvent, StartPosition};
use grete_proto::request::{Channel, OutboundRequest, Reply, Request, Response};
use grete_proto::rng::Rng;
use grete_proto::time::Nanos;
use grete_wire::api::ApiKey;
use grete_wire::error_code::ErrorCode;
use grete_wire::frame::Frame;
use grete_wire::messages::fetch::{FetchResponse, FetchableTopicResponse, PartitionData};

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

/// A cluster in which one broker leads all partitions.
struct OneBroker;

impl ClusterView for OneBroker {
    fn leader(&self, _: &TopicPartition) -> Option<(NodeId, i32)> {
        Some((1, 0))
    }

    fn partitions(&self, _: &str) -> Option<Result<&[PartitionMetadata], ErrorCode>> {
        None
    }

    fn missing_at(&self, _: &str) -> Option<Nanos> {
        None
    }

    fn topic_id(&self, _: &str) -> Option<u128> {
        Some(42)
    }

    fn api_version(&self, _: NodeId, _: Channel, _: ApiKey) -> Option<i16> {
        Some(17)
    }

    fn is_muted(&self, _: NodeId, _: Nanos) -> bool {
        false
    }

    fn metadata_version(&self) -> u64 {
        1
    }
}

fn batch(base_offset: i64) -> Vec<u8> {
    let mut out = base_offset.to_be_bytes().to_vec();
    out.extend_from_slice(&149_i32.to_be_bytes());
    out.extend_from_slice(&[0, 0, 0, 0, 2]);
    out.resize(57, 0);
    out.extend_from_slice(&1_i32.to_be_bytes());
    out.resize(161, 0);
    out
}

fn sent(actions: &mut Vec<FetchAction>) -> Option<OutboundRequest> {
    let mut sent = None;
    for action in actions.drain(..) {
        if let FetchAction::Send(outgoing) = action {
            sent = Some(outgoing);
        }
    }
    sent
}

/// Returns the allocations of one cycle: a response with data for `active` of `count` partitions, and the next request.
fn allocations_per_cycle(count: i32, active: i32) -> usize {
    let mut partitions = PartitionTable::new();
    let mut positions = OffsetResolver::new(PositionConfig::default(), Rng::new(1));
    let mut machine = Fetcher::new(FetchConfig::default(), Rng::new(1));
    let starts = (0..count)
        .map(|partition| (partitions.add(TopicPartition::new("orders", partition), 1), StartPosition::Offset(0), -1));
    let starts = starts.collect();
    positions.step(0, PositionEvent::StartMany(starts), &OneBroker, &mut partitions, &mut Vec::new());
    let mut actions = Vec::with_capacity(4096);
    machine.step(0, FetchEvent::Plan, &OneBroker, &mut partitions, &mut actions);
    let mut outgoing = sent(&mut actions).expect("a first request");
    let mut allocations = 0;
    for cycle in 0..20_i64 {
        let data = |partition_index| PartitionData {
            partition_index,
            high_watermark: cycle + 1,
            records: Some(batch(cycle).into()),
            ..Default::default()
        };
        // The first response contains every partition, like that of a broker.
        let named = if cycle == 0 { count } else { active };
        let topic =
            FetchableTopicResponse { topic_id: 42, partitions: (0..named).map(data).collect(), ..Default::default() };
        let response = FetchResponse { session_id: 7, responses: vec![topic], ..Default::default() };
        let mut frame = Vec::new();
        response.encode(17, &mut frame).expect("encodes");
        let response = Response { api: ApiKey::Fetch, version: 17, frame: Frame::from(frame), body: 0 };
        let reply = Reply { token: outgoing.token, node: 1, result: Ok(response) };
        if let Request::Raw { body, .. } = outgoing.request {
            machine.recycle(body);
        }

        let before = COUNT.load(Relaxed);
        machine.step(0, FetchEvent::Reply(reply), &OneBroker, &mut partitions, &mut actions);
        allocations = COUNT.load(Relaxed) - before;

        for action in &actions {
            if let FetchAction::Data(chunk) = action {
                partitions.release(chunk.slot, chunk.bytes);
            }
        }
        assert_eq!(actions.len(), usize::try_from(named).unwrap() + 1, "data and the next request");
        outgoing = sent(&mut actions).expect("the next request");
    }
    assert_eq!(machine.stats().chunks, u64::try_from(count + 19 * active).unwrap());
    allocations
}

#[test]
fn a_cycle_allocates_nothing_however_many_partitions_there_are() {
    for (count, active) in [(1, 1), (100, 100), (3000, 50), (3000, 3000)] {
        assert_eq!(allocations_per_cycle(count, active), 0, "{active} of {count} partitions had data");
    }
}
