//! Tests of record batches: against a plain model, against batches of other implementations, and with malformed bytes.

mod codecs;
mod encode;
mod java;
mod model;
mod pitfalls;
mod properties;
mod unpack;
mod vectors;

use grete_wire::buffer_pool::{BufferPool, PooledBuf};
use grete_wire::records::test_encoder::TestRecord;
use grete_wire::records::{Columns, DecodeLimits, Decoder, RecordError, iter_batches};
use model::Row;

const CODECS: [grete_wire::records::Compression; 5] = {
    use grete_wire::records::Compression::{Gzip, Lz4, None, Snappy, Zstd};
    [None, Gzip, Snappy, Lz4, Zstd]
};

fn decoder(limit: usize) -> Decoder {
    Decoder::new(BufferPool::new(1 << 20), DecodeLimits { max_decompressed_batch_bytes: limit })
}

/// Decodes all complete batches of `records`.
fn decode(records: &[u8], from_offset: i64) -> Result<Columns, RecordError> {
    let slab = PooledBuf::from(records.to_vec());
    let mut columns = Columns::default();
    let mut decoder = decoder(128 << 20);
    for item in iter_batches(&slab) {
        let (header, range) = item.expect("headers are good");
        decoder.decode(&slab, range, &header, from_offset, &mut columns)?;
    }
    Ok(columns)
}

fn rows(columns: &Columns) -> Vec<Row> {
    assert_eq!(columns.timestamps.len(), columns.len());
    assert_eq!(columns.keys.len(), columns.len());
    assert_eq!(columns.values.len(), columns.len());
    assert!(columns.headers.is_empty() || columns.headers.len() == columns.len());
    let row = |i: usize| Row {
        offset: columns.offsets[i],
        record: TestRecord {
            timestamp: columns.timestamps[i],
            key: columns.key(i).map(<[u8]>::to_vec),
            value: columns.value(i).map(<[u8]>::to_vec),
            headers: columns
                .headers(i)
                .map_while(Result::ok)
                .map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec)))
                .collect(),
        },
    };
    (0..columns.len()).map(row).collect()
}
