//! Benchmark: nanoseconds per record of decoding to columns, including the checksum:
//! `taskset -c 1 cargo run --release -p grete-wire --features testing --example decode_speed [FILTER [ROUNDS]]`
// A benchmark needs a clock.
#![allow(clippy::disallowed_methods)]

use std::hint::black_box;
use std::time::Instant;

use grete_wire::buffer_pool::{BufferPool, PooledBuf};
use grete_wire::records::test_encoder::{BatchOptions, TestRecord, build_batch};
use grete_wire::records::{Columns, Compression, DecodeLimits, Decoder, iter_batches};

const RECORDS: usize = 16_384;

fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let rounds = std::env::args().nth(2).and_then(|rounds| rounds.parse().ok()).unwrap_or(60);
    let mut noise = 1u64;
    let mut byte = move || {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Half random, half repeated: real data compresses to about that.
        if noise >> 63 == 0 { b'a' } else { (noise >> 40) as u8 }
    };
    for (name, value, key, headers) in [
        ("5 B", 5, 0, 0),
        ("12 B, key 8 B", 12, 8, 0),
        ("23 B", 23, 0, 0),
        ("100 B", 100, 0, 0),
        ("100 B, key 8 B", 100, 8, 0),
        ("100 B, key 36 B", 100, 36, 0),
        ("100 B, 2 headers", 100, 0, 2),
        // Lengths, keys and timestamps that a branch predictor cannot foresee.
        ("mixed", usize::MAX, 8, 0),
        ("1 KB", 1000, 0, 0),
        ("10 KB", 10_000, 0, 0),
    ] {
        for codec in [Compression::None, Compression::Lz4, Compression::Zstd, Compression::Snappy, Compression::Gzip] {
            let label = format!("{name} {codec}");
            if !label.contains(&filter) || (value == 10_000 && codec != Compression::None) {
                continue;
            }
            let records: Vec<TestRecord> = (0..RECORDS)
                .map(|i| {
                    let mixed = value == usize::MAX;
                    let random = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
                    let value = if mixed { random as usize % 60 } else { value };
                    let key = if mixed && random & 64 == 0 { 0 } else { key };
                    let jitter = if mixed { (random >> 8) as i64 % 100 } else { 0 };
                    let mut bytes = |n: usize| (0..n).map(|_| byte()).collect::<Vec<u8>>();
                    TestRecord {
                        timestamp: 1_700_000_000_000 + i as i64 / 50 + jitter,
                        key: (key > 0).then(|| bytes(key)),
                        value: Some(bytes(value)),
                        headers: (0..headers).map(|_| (bytes(5), Some(bytes(10)))).collect(),
                    }
                })
                .collect();
            let batch = build_batch(1 << 33, &records, &BatchOptions { compression: codec, ..BatchOptions::default() });
            measure(&label, batch, rounds);
        }
    }
}

fn measure(label: &str, batch: Vec<u8>, count: usize) {
    let bytes = batch.len();
    let slab = PooledBuf::from(batch);
    let mut decoder = Decoder::new(BufferPool::new(256 << 20), DecodeLimits::default());
    let mut columns = Columns::default();
    let mut rounds = Vec::new();
    for _ in 0..count {
        let start = Instant::now();
        columns.clear();
        for item in iter_batches(&slab) {
            let (header, range) = item.expect("a batch of our own");
            decoder.decode(&slab, range, &header, 0, &mut columns).expect("a batch of our own");
        }
        black_box(&columns);
        rounds.push(start.elapsed().as_nanos() as f64 / columns.len() as f64);
    }
    let crc = Instant::now();
    for _ in 0..20 {
        black_box(crc32c::crc32c(black_box(&slab[21..])));
    }
    let crc = crc.elapsed().as_nanos() as f64 / 20.0 / RECORDS as f64;
    rounds.sort_by(f64::total_cmp);
    let (best, median) = (rounds[0], rounds[rounds.len() / 2]);
    println!(
        "{label:28} {:6.1} B/record   best {best:6.2}   median {median:6.2}   crc alone {crc:5.2} ns",
        bytes as f64 / RECORDS as f64
    );
}
