//! How often a Produce request and its answer allocate on their way through the cluster.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use grete_core::cluster::{Cluster, ClusterAction, ClusterConfig, ClusterEvent};
use grete_core::ids::ConnId;
use grete_core::request::{Channel, Outgoing, Owner, Request, Target, Token};
use grete_core::rng::Rng;
use grete_core::time::SECOND;
use grete_wire::Frame;
use grete_wire::api_key::ApiKey;
use grete_wire::frame::{encode_response, request_header};
use grete_wire::messages::{
    ApiVersion, ApiVersionsResponse, MetadataResponse, MetadataResponseBroker, ProduceResponse,
};
use grete_wire::produce::{ProduceBody, ProduceTopic};

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; counting touches a cell of this thread only.
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

/// What a broker says to a request.
fn answer(request: &[u8]) -> Frame {
    let head = request_header(&request[4..]).expect("a request");
    let mut out = Vec::new();
    let versions = |api: &ApiKey| ApiVersion {
        api_key: api.key(),
        min_version: *api.valid().start(),
        max_version: *api.valid().end(),
    };
    let body = |out: &mut Vec<u8>| match head.api {
        ApiKey::ApiVersions => {
            let api_keys = ApiKey::ALL.iter().map(versions).collect();
            ApiVersionsResponse { api_keys, ..Default::default() }.encode(head.version, out)
        }
        ApiKey::Metadata => {
            let broker = MetadataResponseBroker { node_id: 1, host: "b1".into(), port: 9092, ..Default::default() };
            MetadataResponse { brokers: vec![broker], ..Default::default() }.encode(head.version, out)
        }
        _ => ProduceResponse::default().encode(head.version, out),
    };
    encode_response(head.api, head.version, head.correlation_id, body, &mut out).expect("an answer");
    Frame::from(out.split_off(4))
}

struct World {
    cluster: Cluster,
    actions: Vec<ClusterAction>,
}

impl World {
    /// One broker, with a connection for Produce.
    fn new() -> Self {
        let config = ClusterConfig { bootstrap: vec![("b1".into(), 9092)], ..Default::default() };
        let mut world = Self { cluster: Cluster::new(config, Rng::new(1)), actions: Vec::with_capacity(64) };
        world.play(ClusterEvent::Tick);
        world.play(ClusterEvent::NeedNode(1, Channel::Produce));
        assert!(world.cluster.is_ready(1, Channel::Produce));
        world
    }

    /// Steps, and lets the broker answer, until nothing moves.
    fn play(&mut self, event: ClusterEvent) {
        self.cluster.step(SECOND, event, &mut self.actions);
        while !self.actions.is_empty() {
            for action in std::mem::take(&mut self.actions) {
                let event = match action {
                    ClusterAction::Connect { conn, .. } => Some(ClusterEvent::Connected(conn)),
                    ClusterAction::Write { conn, bytes } => Some(ClusterEvent::Frame(conn, answer(&bytes.to_vec()))),
                    _ => None,
                };
                if let Some(event) = event {
                    self.cluster.step(SECOND, event, &mut self.actions);
                }
            }
        }
    }

    /// Allocations of a step, and its only action.
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
        let request = Request::Produce(ProduceBody { acks: -1, topics, ..Default::default() });
        let token = Token { owner: Owner::Produce, id: 1 };
        let target = Target::Node(1);
        let outgoing = Outgoing { target, channel: Channel::Produce, request, token, timeout: 30 * SECOND };
        match self.count(ClusterEvent::Send(outgoing)) {
            (count, ClusterAction::Write { conn, bytes }) => (count, conn, answer(&bytes.to_vec())),
            (_, other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_request_allocates_its_head_and_its_list_of_segments() {
    let mut world = World::new();
    // What follows a batch that is not copied is a segment, too.
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
