//! A batch of any records, with any codec, decodes as in a naive decoder. Memory is bounded by the batch's size and the
//! limit for decompressed bytes.
#![no_main]

use std::cell::RefCell;

use grete_fuzz::counting::bounded;
use grete_wire::buffer_pool::{BufferPool, PooledBuf};
use grete_wire::records::test_encoder::{compress, set_length_and_crc};
use grete_wire::records::{
    AbortedTransaction, AbortedTransactionFilter, Columns, Compression, DecodeLimits, Decoder, RecordError,
    iter_batches,
};
use libfuzzer_sys::fuzz_target;

#[path = "../../crates/grete-wire/tests/records/model.rs"]
mod model;

const BASE_OFFSET: i64 = 3;
const LIMIT: usize = 64 * 1024;
/// Bytes per byte of input. The shortest record has 7 bytes; its row takes 64, and the column of headers may be copied
/// while it grows.
const FACTOR: usize = 16;
/// Decompressed bytes while their buffer grows, their rows, and a codec's context.
const CAP: usize = 2 * LIMIT + FACTOR * LIMIT + 512 * 1024;

fuzz_target!(|data: &[u8]| {
    let Some((&[kind, flags, count, gap, from], rest)) = data.split_first_chunk() else { return };
    if kind == 0xff {
        return raw(rest);
    }
    let codec = [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd]
        [usize::from(kind % 5)];
    // Half of the inputs are compressed here, so that the decompressed data is covered, too. In a quarter, one byte of
    // the compressed form is damaged.
    let pack = kind >= 0x80;
    let packed = match rest.split_first_chunk() {
        _ if pack => compress(codec, rest),
        Some((&[at, change], rest)) if kind >= 0x40 && codec != Compression::None => {
            let mut packed = compress(codec, rest);
            let at = usize::from(at) % packed.len();
            packed[at] ^= change;
            packed
        }
        _ => rest.to_vec(),
    };
    let batch = batch(codec, flags, count, gap, &packed);
    let buffer = PooledBuf::from(batch);
    let Some(Ok((header, range))) = iter_batches(&buffer).next() else { return };
    let (columns, result) = bounded(buffer.len(), FACTOR, CAP, || {
        let mut columns = Columns::default();
        let result = DECODER
            .with_borrow_mut(|decoder| decoder.decode(&buffer, range.clone(), &header, from.into(), &mut columns));
        (columns, result)
    });
    read(&columns);
    if codec == Compression::None || pack {
        let expected = model::decode(&buffer, from.into(), |_, _| Ok(rest.to_vec()));
        match (result, expected) {
            (Ok(()), Ok(expected)) => assert!(rows(&columns) == expected),
            (Err(RecordError::Malformed { .. }), Err(model::Refused)) => assert!(columns.is_empty()),
            (Err(RecordError::TooLarge { .. }), _) => assert!(rest.len() > LIMIT),
            (result, expected) => panic!("{result:?}, but the model says {expected:?}"),
        }
    }
});

thread_local! {
    /// One decoder for all inputs: a codec's context must survive refused data.
    static DECODER: RefCell<Decoder> =
        Decoder::new(BufferPool::new(0), DecodeLimits { max_decompressed_batch_bytes: LIMIT }).into();
}

/// Handles any bytes like received ones: iterates, filters, decodes.
fn raw(data: &[u8]) {
    let buffer = PooledBuf::from(data.to_vec());
    bounded(buffer.len(), FACTOR, CAP, || {
        let aborted = (0..4).map(|i| AbortedTransaction { producer_id: i, first_offset: i * i });
        let mut filter = AbortedTransactionFilter::new(aborted.collect());
        let mut columns = Columns::default();
        for (header, range) in iter_batches(&buffer).flatten() {
            assert!(header.next_offset() > header.base_offset);
            if filter.is_visible(&header, &buffer[range.clone()]).unwrap_or(true) {
                let _ = DECODER.with_borrow_mut(|decoder| decoder.decode(&buffer, range, &header, 0, &mut columns));
            }
        }
        read(&columns);
    });
}

fn batch(codec: Compression, flags: u8, count: u8, gap: u8, packed: &[u8]) -> Vec<u8> {
    let codec = match codec {
        Compression::None => 0,
        Compression::Gzip => 1,
        Compression::Snappy => 2,
        Compression::Lz4 => 3,
        Compression::Zstd => 4,
    };
    let mut batch = Vec::new();
    batch.extend(BASE_OFFSET.to_be_bytes());
    batch.extend([0; 8]);
    batch.push(2);
    batch.extend([0; 4]);
    batch.extend((i16::from(flags & 0x38) | codec).to_be_bytes());
    batch.extend((i32::from(count) + i32::from(gap)).to_be_bytes());
    batch.extend(1_700_000_000_000i64.to_be_bytes());
    batch.extend(1_700_000_000_777i64.to_be_bytes());
    batch.extend([0; 14]);
    batch.extend(i32::from(count).to_be_bytes());
    batch.extend(packed);
    set_length_and_crc(&mut batch);
    batch
}

/// Accesses all parts of the columns.
fn read(columns: &Columns) {
    let mut bytes = 0;
    for row in 0..columns.len() {
        bytes += columns.key(row).map_or(0, <[u8]>::len) + columns.value(row).map_or(0, <[u8]>::len);
        bytes +=
            columns.headers(row).flatten().map(|(key, value)| key.len() + value.map_or(0, <[u8]>::len)).sum::<usize>();
    }
    std::hint::black_box(bytes);
}

fn rows(columns: &Columns) -> Vec<model::Row> {
    let owned = |bytes: &[u8]| bytes.to_vec();
    let row = |i| model::Row {
        offset: columns.offsets[i],
        record: grete_wire::records::test_encoder::TestRecord {
            timestamp: columns.timestamps[i],
            key: columns.key(i).map(owned),
            value: columns.value(i).map(owned),
            headers: columns
                .headers(i)
                .map_while(Result::ok)
                .map(|(key, value)| (owned(key), value.map(owned)))
                .collect(),
        },
    };
    (0..columns.len()).map(row).collect()
}
