//! Batches written by Kafka's own classes, and the records that those classes read back: see
//! `tests/vectors/Batches.java`.

use grete_wire::buffer_pool::PooledBuf;
use grete_wire::records::{AbortedTransaction, AbortedTransactionFilter, Columns, iter_batches};

use crate::model::Row;
use crate::unpack::unpack;
use crate::{decode, decoder, model, rows};

const FILES: [(&str, &[u8]); 5] = [
    ("none", include_bytes!("../vectors/batches-none.bin")),
    ("gzip", include_bytes!("../vectors/batches-gzip.bin")),
    ("snappy", include_bytes!("../vectors/batches-snappy.bin")),
    ("lz4", include_bytes!("../vectors/batches-lz4.bin")),
    ("zstd", include_bytes!("../vectors/batches-zstd.bin")),
];
const EXPECTED: &str = include_str!("../vectors/batches.txt");

fn field(bytes: Option<&[u8]>) -> String {
    match bytes {
        None => "null".to_owned(),
        Some(bytes) if bytes.len() > 32 => format!("{}:{:x}", bytes.len(), crc32c::crc32c(bytes)),
        Some(bytes) => bytes.iter().fold("x".to_owned(), |text, byte| text + &format!("{byte:02x}")),
    }
}

pub fn line(row: &Row) -> String {
    let record = &row.record;
    let mut line = format!("{} {}", row.offset, record.timestamp);
    line += &format!(" {} {}", field(record.key.as_deref()), field(record.value.as_deref()));
    for (key, value) in &record.headers {
        line += &format!(" {}={}", field(Some(key)), field(value.as_deref()));
    }
    line
}

#[test]
fn what_java_wrote_is_read_as_java_reads_it() {
    for (codec, file) in FILES {
        let expected: Vec<&str> =
            EXPECTED.lines().filter_map(|line| line.strip_prefix(codec)?.strip_prefix(' ')).collect();
        assert!(expected.len() > 80, "{codec}: {} lines", expected.len());
        let lines: Vec<String> = rows(&decode(file, 0).unwrap()).iter().map(line).collect();
        assert_eq!(lines, expected, "{codec}");
        let by_model = iter_batches(file).flat_map(|item| model::decode(&file[item.unwrap().1], 0, unpack).unwrap());
        assert_eq!(by_model.map(|row| line(&row)).collect::<Vec<_>>(), expected, "{codec}");
    }
}

#[test]
fn what_java_aborted_is_not_delivered() {
    for (codec, file) in FILES {
        let slab = PooledBuf::from(file.to_vec());
        let (mut decoder, mut columns) = (decoder(1 << 20), Columns::default());
        let mut filter =
            AbortedTransactionFilter::new(vec![AbortedTransaction { producer_id: 77, first_offset: 4000 }]);
        let mut next_offset = 0;
        for item in iter_batches(&slab) {
            let (header, range) = item.unwrap();
            next_offset = header.next_offset();
            if filter.is_visible(&header, &slab[range.clone()]).unwrap() {
                decoder.decode(&slab, range, &header, 0, &mut columns).unwrap();
            }
        }
        assert_eq!((columns.offsets.last(), next_offset), (Some(&3069), 4002), "{codec}");
    }
}
