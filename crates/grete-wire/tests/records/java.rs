//! Kafka's own classes read the batches of the builder.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use grete_wire::records::test_encoder::TestRecord;
use grete_wire::records::{Compression, Compressor};

use crate::CODECS;
use crate::encode::build;
use crate::model::Row;
use crate::vectors::line;

/// Returns records with every length of every varint, nulls, empty values, duplicate headers, descending timestamps,
/// and a value of several blocks of each codec.
fn records() -> Vec<TestRecord> {
    let text = |len: usize| -> Vec<u8> { (0..len).map(|i| b"Kafka, Grete, Ottla"[i * i / 7 % 19]).collect() };
    let mut records: Vec<_> = [0, 1, 5, 62, 63, 64, 65, 8190, 8191, 8192, 70_000, 300_000]
        .into_iter()
        .map(|len| TestRecord::keyed(1_700_000_000_000 - len as i64 * 1000, text(len / 50), text(len)))
        .collect();
    records.push(TestRecord { timestamp: 1_700_100_000_000, ..TestRecord::default() });
    records.push(TestRecord { key: Some(b"gone".to_vec()), timestamp: 0, ..TestRecord::default() });
    let mut headers = TestRecord::value(1_700_000_000_001, "with headers");
    for (key, value) in [("a", Some("1")), ("b", None), ("a", Some("1")), ("", Some("")), ("größer", Some("ß"))] {
        headers.headers.push((key.into(), value.map(Into::into)));
    }
    records.push(headers);
    records.extend((0..9000).map(|i| TestRecord::value(1_700_000_000_000 + i, i.to_string())));
    records
}

#[test]
#[ignore = "needs Java 17, and KAFKA_CLASSPATH with kafka-clients and the codecs' jars (`.../jars/*` will do)"]
fn kafkas_own_classes_read_what_the_builder_writes() {
    let records = records();
    let max_timestamp = records.iter().map(|record| record.timestamp).max().unwrap();
    let (mut sent, mut expected) = (Vec::new(), String::new());
    let mut compressor = Compressor::new();
    for codec in CODECS {
        let levels: &[_] = match codec {
            Compression::Gzip => &[None, Some(1), Some(9)],
            Compression::Zstd => &[None, Some(-5), Some(1), Some(9)],
            _ => &[None],
        };
        for (sequence, &level) in levels.iter().enumerate() {
            let mut batch = build(&records).finish(codec, level, &mut compressor).unwrap();
            batch.set_producer_info(1 << 40, 12, sequence as i32);
            sent.extend_from_slice(batch.bytes());
            let (count, last) = (records.len(), records.len() - 1);
            expected += &format!("batch {codec} {count} {last} {max_timestamp} {} 12 {sequence}\n", 1u64 << 40);
            for (i, record) in records.iter().enumerate() {
                expected += &(line(&Row { offset: i as i64, record: record.clone() }) + "\n");
            }
        }
    }
    expected += &format!("{0} of {0} bytes\n", sent.len());

    let mut java = Command::new("java")
        .arg("-cp")
        .arg(std::env::var_os("KAFKA_CLASSPATH").expect("set KAFKA_CLASSPATH"))
        .args([concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/Batches.java"), "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("java runs");
    // Java responds only at the end, so writing everything first cannot block.
    java.stdin.take().unwrap().write_all(&sent).unwrap();
    let mut answer = String::new();
    java.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
    assert!(java.wait().unwrap().success(), "{answer}");
    for (answer, expected) in answer.lines().zip(expected.lines()) {
        assert_eq!(answer, expected);
    }
    assert_eq!(answer.lines().count(), expected.lines().count());
}
