//! Synchronous produce: one idempotent batch of one record, acks=all, then the next.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::Failure;
use crate::process::{cpu_time, peak_rss, voluntary_switches};
use crate::wire::{Connection, check, skip, string, take};

const PRODUCE: i16 = 0;
const PRODUCE_VERSION: i16 = 3;
const INIT_PRODUCER_ID: i16 = 22;
const INIT_PRODUCER_ID_VERSION: i16 = 0;
const COORDINATOR_LOAD_IN_PROGRESS: i16 = 14;

/// Producer id and epoch, by which the broker checks sequences.
struct Identity {
    id: i64,
    epoch: i16,
}

/// Sends the records. `authority`: the PEM file of the CA, for TLS; None: plain text.
pub fn run(
    bootstrap: &str,
    topic: &str,
    warm_up: usize,
    records: usize,
    value: &[u8],
    authority: Option<&str>,
) -> Result<(), Failure> {
    let mut connection = match authority {
        None => Connection::open(bootstrap)?,
        Some(file) => Connection::open_tls(bootstrap, file)?,
    };
    let identity = identify(&mut connection)?;
    let mut sequence = 0;
    let mut send = || -> Result<(), Failure> {
        produce(&mut connection, topic, &identity, sequence, value)?;
        sequence += 1;
        Ok(())
    };
    for _ in 0..warm_up {
        send()?;
    }
    let mut latencies = Vec::with_capacity(records);
    let (switches, cpu) = (voluntary_switches(), cpu_time());
    for _ in 0..records {
        let start = Instant::now();
        send()?;
        latencies.push(start.elapsed().as_nanos());
    }
    let (cpu, switches) = (cpu_time() - cpu, voluntary_switches() - switches);
    println!(
        "{{\"pass\": \"only\", \"sent\": {}, \"latencies_ns\": {latencies:?}, \"cpu_seconds\": {:.6}, \
         \"caller_switches\": {switches}, \"process_switches\": {switches}, \"peak_rss\": {}, \
         \"version\": \"Produce v{PRODUCE_VERSION}, 1 in flight\"}}",
        warm_up + records,
        cpu.as_secs_f64(),
        peak_rss(),
    );
    Ok(())
}

fn identify(connection: &mut Connection) -> Result<Identity, Failure> {
    loop {
        match ask_identity(connection)? {
            Some(identity) => return Ok(identity),
            // A broker that has just started has no block of ids yet, and sends no notice when it has.
            None => thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn ask_identity(connection: &mut Connection) -> Result<Option<Identity>, Failure> {
    connection.ask(INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, |out| {
        out.extend((-1i16).to_be_bytes()); // no transactional id
        out.extend(60_000i32.to_be_bytes());
    })?;
    let (answer, mut at) = (connection.answer(), 4);
    let _throttle = i32::from_be_bytes(take(answer, &mut at)?);
    let error = i16::from_be_bytes(take(answer, &mut at)?);
    if error == COORDINATOR_LOAD_IN_PROGRESS {
        return Ok(None);
    }
    check(error)?;
    let (id, epoch) = (i64::from_be_bytes(take(answer, &mut at)?), i16::from_be_bytes(take(answer, &mut at)?));
    Ok(Some(Identity { id, epoch }))
}

fn produce(
    connection: &mut Connection,
    topic: &str,
    identity: &Identity,
    sequence: i32,
    value: &[u8],
) -> Result<(), Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64;
    connection.ask(PRODUCE, PRODUCE_VERSION, |out| {
        out.extend((-1i16).to_be_bytes()); // no transactional id
        out.extend((-1i16).to_be_bytes()); // acks=all
        out.extend(30_000i32.to_be_bytes());
        out.extend(1i32.to_be_bytes());
        string(out, topic);
        out.extend(1i32.to_be_bytes());
        out.extend(0i32.to_be_bytes()); // partition
        let size_at = out.len();
        out.extend([0; 4]);
        batch(out, identity, sequence, now, value);
        let size = (out.len() - size_at - 4) as i32;
        out[size_at..size_at + 4].copy_from_slice(&size.to_be_bytes());
    })?;
    let (answer, mut at) = (connection.answer(), 8); // correlation id, the number of topics: one
    let name = i16::from_be_bytes(take(answer, &mut at)?);
    skip(answer, &mut at, name.into())?;
    skip(answer, &mut at, 8)?; // one partition, 0
    check(i16::from_be_bytes(take(answer, &mut at)?))
}

/// A batch of one record without key and headers.
fn batch(out: &mut Vec<u8>, identity: &Identity, sequence: i32, now: i64, value: &[u8]) {
    let start = out.len();
    out.extend(0i64.to_be_bytes()); // base offset
    out.extend([0; 4]); // length, filled in below
    out.extend((-1i32).to_be_bytes()); // leader epoch
    out.push(2); // magic
    out.extend([0; 4]); // CRC, filled in below
    let checked = out.len();
    out.extend(0i16.to_be_bytes()); // attributes
    out.extend(0i32.to_be_bytes()); // last offset delta
    out.extend(now.to_be_bytes());
    out.extend(now.to_be_bytes());
    out.extend(identity.id.to_be_bytes());
    out.extend(identity.epoch.to_be_bytes());
    out.extend(sequence.to_be_bytes());
    out.extend(1i32.to_be_bytes());
    // Attributes, both deltas, a null key; then the value and no headers.
    let head = [0, 0, 0, 1];
    varint(out, head.len() + varint_length(value.len()) + value.len() + 1);
    out.extend(head);
    varint(out, value.len());
    out.extend(value);
    out.push(0);
    let length = (out.len() - start - 12) as i32;
    out[start + 8..start + 12].copy_from_slice(&length.to_be_bytes());
    let crc = crc32c::crc32c(&out[checked..]);
    out[checked - 4..checked].copy_from_slice(&crc.to_be_bytes());
}

/// Zigzag of a number that is not negative.
fn varint(out: &mut Vec<u8>, value: usize) {
    let mut rest = value << 1;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn varint_length(value: usize) -> usize {
    let bits = usize::BITS - (value << 1 | 1).leading_zeros();
    bits.div_ceil(7) as usize
}
