//! Benchmark: nanoseconds per record of encoding into a reused buffer (records one by one, and many values at once),
//! and of finishing and stamping batches, with their compressed size:
//! `taskset -c 1 cargo run --release -p grete-wire --example encode_speed [FILTER [ROUNDS]]`
// A benchmark needs a clock.
#![allow(clippy::disallowed_methods)]

use std::hint::black_box;
use std::time::Instant;

use grete_wire::records::{BatchBuilder, Compression, Compressor, ProducerHeader, ProducerRecord};

const BATCH: usize = 256 * 1024;
/// Larger than the nearest caches: an application's values come from its heap, not from a loop.
const VALUES: usize = 8 << 20;
const HEADERS: [ProducerHeader<'_>; 2] = [
    ProducerHeader { key: "trace", value: Some(b"0123456789") },
    ProducerHeader { key: "agent", value: Some(b"0123456789") },
];

fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let rounds = std::env::args().nth(2).and_then(|rounds| rounds.parse().ok()).unwrap_or(200);
    let mut noise = 1u64;
    let text: Vec<u8> = (0..VALUES)
        .map(|_| {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Half random, half repeated: real data compresses to about that.
            if noise >> 63 == 0 { b'a' } else { (noise >> 40) as u8 }
        })
        .collect();
    for (name, value, key, headers) in [
        ("5 B", 5, 0, 0),
        ("12 B, key 8 B", 12, 8, 0),
        ("23 B", 23, 0, 0),
        ("100 B", 100, 0, 0),
        ("100 B, key 8 B", 100, 8, 0),
        ("100 B, key 36 B", 100, 36, 0),
        ("100 B, 2 headers", 100, 0, 2),
        ("mixed", usize::MAX, 8, 0),
        ("1 KB", 1000, 0, 0),
        ("10 KB", 10_000, 0, 0),
    ] {
        if name.contains(&filter) {
            let records = records(&text, value, key, headers);
            measure(name, &records, rounds);
        }
    }
}

/// Returns slightly more records than fit into a batch.
fn records(text: &[u8], value: usize, key: usize, headers: usize) -> Vec<ProducerRecord<'_>> {
    let (mut at, mut records) = (0, Vec::new());
    let mut next = |len: usize| {
        at = (at + len) % (VALUES - 16_384);
        &text[at..at + len]
    };
    while records.len() * value.min(30) < BATCH {
        let i = records.len();
        let mixed = value == usize::MAX;
        let random = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        let value = if mixed { random as usize % 60 } else { value };
        let key = if mixed && random & 64 == 0 { 0 } else { key };
        let jitter = if mixed { (random >> 8) as i64 % 100 } else { 0 };
        records.push(ProducerRecord {
            timestamp: 1_700_000_000_000 + i as i64 / 50 + jitter,
            key: (key > 0).then(|| next(key)),
            value: Some(next(value)),
            headers: &HEADERS[..headers],
        });
    }
    records
}

fn fill(records: &[ProducerRecord<'_>], buffer: Vec<u8>) -> BatchBuilder {
    let mut builder = BatchBuilder::new(buffer);
    for record in records {
        if builder.try_append(record, BATCH).is_none() {
            break;
        }
    }
    builder
}

fn fill_values(records: &[ProducerRecord<'_>], buffer: Vec<u8>) -> BatchBuilder {
    let mut builder = BatchBuilder::new(buffer);
    builder.append_values(1_700_000_000_000, records.iter().map(|record| record.value), BATCH);
    builder
}

fn measure(name: &str, records: &[ProducerRecord<'_>], rounds: usize) {
    let mut buffer = Vec::with_capacity(BATCH);
    let mut time = |fill: fn(&[ProducerRecord<'_>], Vec<u8>) -> BatchBuilder| {
        let mut times = Vec::new();
        for _ in 0..rounds {
            let start = Instant::now();
            let builder = fill(black_box(records), std::mem::take(&mut buffer));
            times.push(start.elapsed().as_nanos() as f64 / f64::from(builder.count()));
            buffer = black_box(builder).into_buffer();
        }
        best_and_median(times)
    };
    let (best, median) = time(fill);
    let (best_values, median_values) = time(fill_values);
    print!("{name:18} record by record: best {best:5.1} median {median:5.1} ns");
    print!("   values at once: best {best_values:5.1} median {median_values:5.1} ns   finished and stamped, best:");
    let mut compressor = Compressor::new();
    for codec in [Compression::None, Compression::Lz4, Compression::Zstd, Compression::Snappy, Compression::Gzip] {
        let mut times = Vec::new();
        let mut ratio = 0.0;
        for _ in 0..rounds.div_ceil(10) {
            let builder = fill(records, std::mem::take(&mut buffer));
            let (count, plain) = (builder.count(), builder.len());
            let start = Instant::now();
            let mut batch = builder.finish(codec, None, &mut compressor).expect("a batch");
            batch.set_producer_info(1, 1, 1);
            times.push(start.elapsed().as_nanos() as f64 / f64::from(count));
            ratio = batch.len() as f64 / plain as f64;
            buffer = batch.into_buffer().expect("a buffer without other owners");
        }
        print!("  {codec} {:.1} ({:.0}%)", best_and_median(times).0, ratio * 100.0);
    }
    println!();
}

fn best_and_median(mut rounds: Vec<f64>) -> (f64, f64) {
    rounds.sort_by(f64::total_cmp);
    (rounds[0], rounds[rounds.len() / 2])
}
