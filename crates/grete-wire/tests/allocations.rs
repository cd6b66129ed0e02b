//! Decoding and encoding in steady state take no memory per record, and hostile batches take no more than the limit.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use grete_wire::records::testing::{BatchOptions, TestRecord, build_batch, compress, seal};
use grete_wire::records::{
    BatchBuilder, Columns, Compression, Compressor, DecodeLimits, Decoder, NewHeader, NewRecord, walk,
};
use grete_wire::slab::{Slab, SlabPool};

static COUNT: AtomicUsize = AtomicUsize::new(0);
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

fn grew(bytes: usize) {
    COUNT.fetch_add(1, Relaxed);
    let live = LIVE.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(live, Relaxed);
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches atomics only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grew(layout.size());
        // SAFETY: the caller's contract is ours.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grew(layout.size());
        // SAFETY: the caller's contract is ours.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's contract is ours.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grew(size);
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's contract is ours.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const CODECS: [Compression; 5] =
    [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

fn decode_all(decoder: &mut Decoder, slab: &Slab, columns: &mut Columns) {
    columns.clear();
    for item in walk(slab) {
        let (header, range) = item.unwrap();
        decoder.decode(slab, range, &header, 0, columns).unwrap();
    }
}

fn steady_state_takes_no_memory_per_record() {
    const BATCHES: usize = 20;
    const ROUNDS: usize = 10;
    let records: Vec<TestRecord> = (0..500)
        .map(|i| TestRecord {
            timestamp: i,
            key: (i % 3 != 0).then(|| format!("key {i}").into_bytes()),
            value: (i % 7 != 0).then(|| format!("a value of some length, number {i}").into_bytes()),
            headers: if i % 5 == 0 { vec![(b"trace".to_vec(), Some(b"1".to_vec()))] } else { Vec::new() },
        })
        .collect();
    for codec in CODECS {
        let options = BatchOptions { compression: codec, ..BatchOptions::default() };
        let batches: Vec<u8> = (0..BATCHES).flat_map(|i| build_batch(i as i64 * 500, &records, &options)).collect();
        let slab = Slab::from(batches);
        let mut decoder = Decoder::new(SlabPool::new(64 << 20), DecodeLimits::default());
        let mut columns = Columns::default();
        for _ in 0..3 {
            decode_all(&mut decoder, &slab, &mut columns);
        }
        assert_eq!(columns.len(), BATCHES * records.len());
        let before = COUNT.load(Relaxed);
        for _ in 0..ROUNDS {
            decode_all(&mut decoder, &slab, &mut columns);
        }
        let per_round = (COUNT.load(Relaxed) - before).div_ceil(ROUNDS);
        // An unpacked batch is a slab of its own, and what counts its owners is allocated.
        let allowed = if codec == Compression::None { 0 } else { BATCHES };
        assert!(per_round <= allowed, "{codec}: {per_round} allocations for {BATCHES} batches");
    }
}

fn bombs_take_no_more_than_the_limit_allows() {
    const LIMIT: usize = 4 << 20;
    /// A codec's context.
    const CONTEXT: usize = 256 << 10;
    for codec in CODECS.into_iter().skip(1) {
        let options = BatchOptions { compression: codec, ..BatchOptions::default() };
        let mut batch = build_batch(0, &[TestRecord::value(0, "x")], &options);
        batch.truncate(61);
        batch.extend(compress(codec, &vec![0; 16 << 20]));
        seal(&mut batch);
        let slab = Slab::from(batch);
        let (header, range) = walk(&slab).next().unwrap().unwrap();
        let mut columns = Columns::default();
        let mut decoder = Decoder::new(SlabPool::new(0), DecodeLimits { max_decompressed_batch_bytes: LIMIT });
        let before = LIVE.load(Relaxed);
        PEAK.store(before, Relaxed);
        decoder.decode(&slab, range, &header, 0, &mut columns).unwrap_err();
        let peak = PEAK.load(Relaxed) - before;
        let allowed = 2 * slab.len() + 2 * LIMIT + CONTEXT;
        assert!(peak <= allowed, "{codec}: {peak} bytes for {} packed", slab.len());
    }
}

fn encoding_in_a_recycled_buffer_takes_no_memory_per_record() {
    const ROUNDS: usize = 20;
    let header = NewHeader { key: "trace", value: Some(b"1") };
    let value = [b'v'; 100];
    for codec in CODECS {
        let mut compressor = Compressor::new();
        let mut buffer = Vec::with_capacity(256 * 1024);
        let mut round = || {
            let mut builder = BatchBuilder::new(std::mem::take(&mut buffer));
            for i in 0..500 {
                let headers: &[_] = if i % 5 == 0 { &[header] } else { &[] };
                let record = NewRecord { timestamp: i, key: Some(b"key"), value: Some(&value), headers };
                builder.append(&record).unwrap();
                builder.append_within(&record, usize::MAX).unwrap();
            }
            assert_eq!(builder.append_values(7, std::iter::repeat_n(Some(&value[..]), 500), usize::MAX), 500);
            let mut batch = builder.finish(codec, None, &mut compressor).unwrap();
            batch.stamp(1, 2, 3);
            let sent = batch.bytes().clone();
            drop(sent);
            buffer = batch.into_buffer().unwrap();
        };
        round();
        let before = COUNT.load(Relaxed);
        (0..ROUNDS).for_each(|_| round());
        // What counts the owners of a batch's bytes, and nothing else, whatever the codec.
        assert_eq!(COUNT.load(Relaxed) - before, ROUNDS, "{codec}");
    }
}

/// One test, since the counters are the process's.
#[test]
fn allocations() {
    steady_state_takes_no_memory_per_record();
    bombs_take_no_more_than_the_limit_allows();
    encoding_in_a_recycled_buffer_takes_no_memory_per_record();
}
