//! Fetch v11 by hand on a blocking socket.

use std::ops::Range;

use crate::Failure;
use crate::wire::{Connection, check, skip, string, take};

const FETCH: i16 = 1;
const VERSION: i16 = 11;

/// How much to ask for. The same figures that the measured clients use.
#[derive(Clone, Copy)]
pub struct Limits {
    pub max_wait_ms: i32,
    pub min_bytes: i32,
    pub max_bytes: i32,
    pub partition_max_bytes: i32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_wait_ms: 500, min_bytes: 1, max_bytes: 50 << 20, partition_max_bytes: 1 << 20 }
    }
}

/// One connection that reads a topic.
pub struct Fetcher {
    connection: Connection,
    topic: String,
    limits: Limits,
}

/// Records of one partition inside [`Fetcher::bytes`].
pub struct Portion {
    pub partition: usize,
    pub records: Range<usize>,
}

impl Fetcher {
    pub fn new(connection: Connection, topic: &str, limits: Limits) -> Self {
        Self { connection, topic: topic.into(), limits }
    }

    /// Asks once for every partition from its offset in `offsets` and waits for the answer.
    pub fn fetch(&mut self, offsets: &[i64]) -> Result<Vec<Portion>, Failure> {
        let (topic, limits) = (&self.topic, self.limits);
        self.connection.ask(FETCH, VERSION, |out| encode(out, topic, limits, offsets))?;
        parse(self.connection.answer())
    }

    /// The last response; the ranges of its portions point into it.
    pub fn bytes(&self) -> &[u8] {
        self.connection.answer()
    }
}

fn encode(out: &mut Vec<u8>, topic: &str, limits: Limits, offsets: &[i64]) {
    out.extend((-1i32).to_be_bytes()); // replica: a consumer
    out.extend(limits.max_wait_ms.to_be_bytes());
    out.extend(limits.min_bytes.to_be_bytes());
    out.extend(limits.max_bytes.to_be_bytes());
    out.push(0); // read_uncommitted
    out.extend(0i32.to_be_bytes()); // no fetch session
    out.extend((-1i32).to_be_bytes());
    out.extend(1i32.to_be_bytes());
    string(out, topic);
    out.extend((offsets.len() as i32).to_be_bytes());
    for (partition, offset) in offsets.iter().enumerate() {
        out.extend((partition as i32).to_be_bytes());
        out.extend((-1i32).to_be_bytes()); // leader epoch unknown
        out.extend(offset.to_be_bytes());
        out.extend((-1i64).to_be_bytes()); // log start: followers only
        out.extend(limits.partition_max_bytes.to_be_bytes());
    }
    out.extend(0i32.to_be_bytes()); // nothing forgotten
    string(out, ""); // rack
}

fn parse(bytes: &[u8]) -> Result<Vec<Portion>, Failure> {
    let mut at = 4;
    let _throttle = i32::from_be_bytes(take(bytes, &mut at)?);
    check(i16::from_be_bytes(take(bytes, &mut at)?))?;
    let _session = i32::from_be_bytes(take(bytes, &mut at)?);
    let mut portions = Vec::new();
    for _ in 0..i32::from_be_bytes(take(bytes, &mut at)?) {
        let name = i16::from_be_bytes(take(bytes, &mut at)?);
        skip(bytes, &mut at, name.into())?;
        for _ in 0..i32::from_be_bytes(take(bytes, &mut at)?) {
            let partition = usize::try_from(i32::from_be_bytes(take(bytes, &mut at)?))?;
            check(i16::from_be_bytes(take(bytes, &mut at)?))?;
            skip(bytes, &mut at, 24)?; // high watermark, last stable offset, log start
            let aborted = i32::from_be_bytes(take(bytes, &mut at)?).max(0);
            skip(bytes, &mut at, i64::from(aborted) * 16)?;
            let _preferred_replica = i32::from_be_bytes(take(bytes, &mut at)?);
            let length = i32::from_be_bytes(take(bytes, &mut at)?).max(0);
            let start = at;
            skip(bytes, &mut at, length.into())?;
            portions.push(Portion { partition, records: start..at });
        }
    }
    Ok(portions)
}
