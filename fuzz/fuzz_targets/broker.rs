//! Frames of any content for a cluster: no panic, and memory in proportion to the input.
//!
//! An input is a list of events. Most frames are requests whose API, version and body come from the input; others are
//! raw bytes.
#![no_main]

use grete_broker::cluster::{Action, BrokerAddress, Cluster, ClusterConfig, Event};
use grete_broker::ids::ConnId;
use grete_fuzz::counting::bounded;
use grete_wire::{ApiKey, Frame};
use libfuzzer_sys::fuzz_target;

/// Connections of an input.
const CONNECTIONS: u64 = 4;

/// Bytes of record batches that the cluster keeps.
const MAX_BYTES: usize = 1 << 20;

/// Memory in proportion to the input. A request of 4 bytes without a body took 669 times its size, the most of 2.5
/// million inputs: its entry in the log of requests, and a response of ApiVersions.
const FACTOR: usize = 1024;
/// Stored batches, and a batch that decompresses: 250 bytes of zstd become 8 MiB. An idle cluster takes 2 KB.
const CAP: usize = (16 << 20) + MAX_BYTES;

fuzz_target!(|data: &[u8]| {
    bounded(data.len(), FACTOR, CAP, || run(data));
});

fn run(mut data: &[u8]) {
    let address = |id| BrokerAddress { id, host: "127.0.0.1".into(), port: 9092, rack: None };
    let mut config = ClusterConfig::new(vec![address(1), address(2)]);
    config.max_bytes = MAX_BYTES;
    config.max_logged_requests = 16;
    let mut cluster = Cluster::new(config);
    let mut actions = Vec::new();
    let mut now = 1_000_000;
    for conn in 1..=CONNECTIONS {
        accept(&mut cluster, now, ConnId(conn));
    }
    while let Some((&[op, target, version, len], rest)) = data.split_first_chunk::<4>() {
        let (body, rest) = rest.split_at(rest.len().min(len.into()));
        data = rest;
        let conn = ConnId(u64::from(op) % CONNECTIONS + 1);
        let event = match op >> 5 {
            0 => Event::Tick,
            1 if target == 0 => Event::Closed { conn },
            1 => Event::Frame { conn, frame: Frame::from(body.to_vec()) },
            _ => Event::Frame { conn, frame: Frame::from(request(target, version, body)) },
        };
        now += i64::from(op & 0x1f) * i64::from(version);
        cluster.step(now, event, &mut actions);
        // The bytes of the actions are the driver's. A closed connection opens again, so that the rest has an effect.
        for action in std::mem::take(&mut actions) {
            if let Action::Close { conn } = action {
                accept(&mut cluster, now, conn);
            }
        }
    }
}

fn accept(cluster: &mut Cluster, now: i64, conn: ConnId) {
    let broker = if conn.0 % 2 == 0 { 2 } else { 1 };
    cluster.step(now, Event::Accepted { conn, broker, client_host: "127.0.0.1".into() }, &mut Vec::new());
}

/// Builds a request with a header in the form of its version.
fn request(target: u8, version: u8, body: &[u8]) -> Vec<u8> {
    let api = ApiKey::ALL[usize::from(target) % ApiKey::ALL.len()];
    let versions = api.valid();
    let span = versions.end() - versions.start() + 1;
    let version = versions.start() + i16::from(version) % span;
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&api.key().to_be_bytes());
    bytes.extend_from_slice(&version.to_be_bytes());
    bytes.extend_from_slice(&7_i32.to_be_bytes());
    bytes.extend_from_slice(&[0, 1, b'f']);
    if api.request_header_version(version) >= 2 {
        bytes.push(0);
    }
    bytes.extend_from_slice(body);
    bytes
}
