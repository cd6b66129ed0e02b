//! In the steady state, decoding and encoding allocate no memory per record. Malicious batches take no more memory than
//! the limit.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use grete_wire::buffer_pool::{BufferPool, PooledBuf};
use grete_wire::records::test_encoder::{BatchOptions, TestRecord, build_batch, compress, set_length_and_crc};
use grete_wire::records::{
    BatchBuilder, Columns, Compression, Compressor, DecodeLimits, Decoder, ProducerHeader, ProducerRecord, iter_batches,
};

static COUNT: AtomicUsize = AtomicUsize::new(0);
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

fn grew(bytes: usize) {
    COUNT.fetch_add(1, Relaxed);
    let live = LIVE.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(live, Relaxed);
}

// SAFETY: every call goes to the system's allocator unchanged; the counters are atomics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grew(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grew(layout.size());
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grew(size);
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const CODECS: [Compression; 5] =
    [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

fn decode_all(decoder: &mut Decoder, slab: &PooledBuf, columns: &mut Columns) {
    columns.clear();
    for item in iter_batches(slab) {
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
        let slab = PooledBuf::from(batches);
        let mut decoder = Decoder::new(BufferPool::new(64 << 20), DecodeLimits::default());
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
        // A decompressed batch has its own buffer, whose reference count is allocated.
        let allowed = if codec == Compression::None { 0 } else { BATCHES };
        assert!(per_round <= allowed, "{codec}: {per_round} allocations for {BATCHES} batches");
    }
}

fn bombs_take_no_more_than_the_limit_allows() {
    const LIMIT: usize = 4 << 20;
    /// Memory of a codec's context.
    const CONTEXT: usize = 256 << 10;
    for codec in CODECS.into_iter().skip(1) {
        let options = BatchOptions { compression: codec, ..BatchOptions::default() };
        let mut batch = build_batch(0, &[TestRecord::value(0, "x")], &options);
        batch.truncate(61);
        batch.extend(compress(codec, &vec![0; 16 << 20]));
        set_length_and_crc(&mut batch);
        let slab = PooledBuf::from(batch);
        let (header, range) = iter_batches(&slab).next().unwrap().unwrap();
        let mut columns = Columns::default();
        let mut decoder = Decoder::new(BufferPool::new(0), DecodeLimits { max_decompressed_batch_bytes: LIMIT });
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
    let header = ProducerHeader { key: "trace", value: Some(b"1") };
    let value = [b'v'; 100];
    for codec in CODECS {
        let mut compressor = Compressor::new();
        let mut buffer = Vec::with_capacity(256 * 1024);
        let mut round = || {
            let mut builder = BatchBuilder::new(std::mem::take(&mut buffer));
            for i in 0..500 {
                let headers: &[_] = if i % 5 == 0 { &[header] } else { &[] };
                let record = ProducerRecord { timestamp: i, key: Some(b"key"), value: Some(&value), headers };
                builder.append(&record).unwrap();
                builder.try_append(&record, usize::MAX).unwrap();
            }
            assert_eq!(builder.append_values(7, std::iter::repeat_n(Some(&value[..]), 500), usize::MAX), 500);
            let mut batch = builder.finish(codec, None, &mut compressor).unwrap();
            batch.set_producer_info(1, 2, 3);
            let sent = batch.bytes().clone();
            drop(sent);
            buffer = batch.into_buffer().unwrap();
        };
        round();
        let before = COUNT.load(Relaxed);
        (0..ROUNDS).for_each(|_| round());
        // Only the reference count of a batch's bytes is allocated, with every codec.
        assert_eq!(COUNT.load(Relaxed) - before, ROUNDS, "{codec}");
    }
}

/// A single test, since the counters are global to the process.
#[test]
fn allocations() {
    steady_state_takes_no_memory_per_record();
    bombs_take_no_more_than_the_limit_allows();
    encoding_in_a_recycled_buffer_takes_no_memory_per_record();
}
