//! Allocations of a Produce request and its response on their way through the cluster state machine.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use grete_proto::cluster::{Cluster, ClusterAction, ClusterConfig, ClusterEvent};
use grete_proto::ids::ConnId;
use grete_proto::request::{Channel, OutboundRequest, Request, RequestOwner, Target, Token};
use grete_proto::rng::Rng;
use grete_proto::time::SECOND;
use grete_proto::transport::TransportAction;
use grete_wire::api::ApiKey;
use grete_wire::frame::{encode_response, parse_request_header};
use grete_wire::messages::{
    ApiVersion, ApiVersionsResponse, MetadataResponse, MetadataResponseBroker, ProduceResponse,
};
use grete_wire::produce::{ProduceRequestBody, ProduceTopic};
use grete_wire::{Frame, SegmentedBuf};

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; counting uses a cell of this thread only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's contract is ours.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is ours.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's contract is ours.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Builds a broker's response to a request.
fn answer(request: &[u8]) -> Frame {
    let head = parse_request_header(&request[4..]).expect("a request");
    let versions = |api: &ApiKey| ApiVersion {
        api_key: api.key(),
        min_version: *api.valid().start(),
        max_version: *api.valid().end(),
    };
    let body = |out: &mut SegmentedBuf| match head.api {
        ApiKey::ApiVersions => {
            let api_keys = ApiKey::ALL.iter().map(versions).collect();
            ApiVersionsResponse { api_keys, ..Default::default() }.encode(head.version, out.tail())
        }
        ApiKey::Metadata => {
            let broker = MetadataResponseBroker { node_id: 1, host: "b1".into(), port: 9092, ..Default::default() };
            MetadataResponse { brokers: vec![broker], ..Default::default() }.encode(head.version, out.tail())
        }
        _ => ProduceResponse::default().encode(head.version, out.tail()),
    };
    let out = encode_response(head.api, head.version, head.correlation_id, 64, body).expect("an answer");
    Frame::from(out.to_vec().split_off(4))
}

struct World {
    cluster: Cluster,
    actions: Vec<ClusterAction>,
}

impl World {
    /// Creates one broker with a Produce connection.
    fn new() -> Self {
        let config = ClusterConfig { bootstrap: vec![("b1".into(), 9092)], ..Default::default() };
        let mut world = Self { cluster: Cluster::new(config, Rng::new(1)), actions: Vec::with_capacity(64) };
        world.play(ClusterEvent::Tick);
        world.play(ClusterEvent::NeedNode(1, Channel::Produce));
        assert!(world.cluster.is_ready(1, Channel::Produce));
        world
    }

    /// Steps the cluster and plays the broker until there is no more work.
    fn play(&mut self, event: ClusterEvent) {
        self.cluster.step(SECOND, event, &mut self.actions);
        while !self.actions.is_empty() {
            for action in std::mem::take(&mut self.actions) {
                let event = match action {
                    ClusterAction::Transport(TransportAction::Connect { conn, .. }) => {
                        Some(ClusterEvent::Connected(conn))
                    }
                    ClusterAction::Transport(TransportAction::Write { conn, bytes }) => {
                        Some(ClusterEvent::Frame(conn, answer(&bytes.to_vec())))
                    }
                    _ => None,
                };
                if let Some(event) = event {
                    self.cluster.step(SECOND, event, &mut self.actions);
                }
            }
        }
    }

    /// Returns the allocations of a step, and its only action.
    fn count(&mut self, event: ClusterEvent) -> (usize, ClusterAction) {
        let before = COUNT.get();
        self.cluster.step(SECOND, event, &mut self.actions);
        let count = COUNT.get() - before;
        let action = self.actions.pop().expect("an action");
        assert!(self.actions.is_empty(), "one action only");
        (count, action)
    }

    fn request(&mut self, batch: usize) -> (usize, ConnId, Frame) {
        let partitions = vec![(0, Arc::new(vec![7; batch]))];
        let topics = vec![ProduceTopic { name: "orders".into(), id: 7, partitions }];
        let request = Request::Produce(ProduceRequestBody { acks: -1, topics, ..Default::default() });
        let token = Token { owner: RequestOwner::Produce, id: 1 };
        let target = Target::Node(1);
        let outgoing = OutboundRequest { target, channel: Channel::Produce, request, token, timeout: 30 * SECOND };
        match self.count(ClusterEvent::Send(outgoing)) {
            (count, ClusterAction::Transport(TransportAction::Write { conn, bytes })) => {
                (count, conn, answer(&bytes.to_vec()))
            }
            (_, other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_request_allocates_its_head_and_its_list_of_segments() {
    let mut world = World::new();
    // The segment after a batch that is not copied is one more allocation.
    for (batch, expected) in [(200, 2), (100_000, 3)] {
        for round in 0..10 {
            let (count, conn, answer) = world.request(batch);
            let (answered, action) = world.count(ClusterEvent::Frame(conn, answer));
            assert!(matches!(action, ClusterAction::Reply(_)), "{action:?}");
            if round > 0 {
                assert_eq!((count, answered), (expected, 0), "allocations for {batch} bytes");
            }
        }
    }
}
