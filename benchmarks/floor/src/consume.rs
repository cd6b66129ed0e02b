//! Throughput: read a topic of known size from its start.

use std::hint::black_box;
use std::time::Instant;

use crate::Failure;
use crate::batch::Walk;
use crate::fetch::{Fetcher, Limits};
use crate::process::{cpu_time, peak_rss};
use crate::wire::Connection;

/// How much is done with the bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Walk the batch headers, nothing else.
    Read,
    /// And check each batch's CRC.
    Crc,
    /// And parse every record, summing the lengths of the values.
    CrcParse,
}

impl Mode {
    pub fn parse(word: &str) -> Result<Self, Failure> {
        match word {
            "read" => Ok(Self::Read),
            "crc" => Ok(Self::Crc),
            "crcparse" => Ok(Self::CrcParse),
            _ => Err(format!("unknown mode {word}: read, crc or crcparse").into()),
        }
    }
}

/// Reads the topic. `authority`: the PEM file of the CA, for TLS; None: plain text.
pub fn run(
    bootstrap: &str,
    topic: &str,
    partitions: usize,
    total: u64,
    mode: Mode,
    authority: Option<&str>,
) -> Result<(), Failure> {
    let connection = match authority {
        None => Connection::open(bootstrap)?,
        Some(file) => Connection::open_tls(bootstrap, file)?,
    };
    let mut fetcher = Fetcher::new(connection, topic, Limits::default());
    let mut offsets = vec![0; partitions];
    let (mut records, mut bytes) = (0u64, 0u64);
    let mut start = None;
    while records < total {
        let before = records;
        let portions = fetcher.fetch(&offsets)?;
        for portion in &portions {
            for batch in Walk(&fetcher.bytes()[portion.records.clone()]) {
                if mode != Mode::Read {
                    batch.check_crc()?;
                }
                if mode == Mode::CrcParse {
                    if batch.compressed {
                        return Err("crcparse reads uncompressed topics only: use crc".into());
                    }
                    batch.parse(|value| bytes += black_box(value).len() as u64)?;
                }
                records += batch.records as u64;
                offsets[portion.partition] = batch.next_offset;
            }
        }
        // The clock starts when the first records are there, and those do not count: as for every client.
        if start.is_none() && records > before {
            start = Some((records, Instant::now(), cpu_time()));
        }
    }
    let (first, wall, cpu) = start.ok_or("the topic is empty")?;
    println!(
        "{{\"pass\": \"{}\", \"records\": {records}, \"counted\": {}, \"bytes\": {}, \"seconds\": {:.6}, \
         \"cpu_seconds\": {:.6}, \"peak_rss\": {}, \"version\": \"Fetch v11, 1 in flight\"}}",
        match mode {
            Mode::Read => "read",
            Mode::Crc => "crc",
            Mode::CrcParse => "crcparse",
        },
        records - first,
        if mode == Mode::CrcParse { bytes.to_string() } else { "null".into() },
        wall.elapsed().as_secs_f64(),
        (cpu_time() - cpu).as_secs_f64(),
        peak_rss(),
    );
    Ok(())
}
