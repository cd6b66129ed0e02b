//! Fetch v11 by hand on a blocking socket.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Range;

use crate::Failure;

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

/// One connection; the response buffer is reused.
pub struct Fetcher {
    stream: TcpStream,
    topic: String,
    limits: Limits,
    correlation: i32,
    request: Vec<u8>,
    response: Vec<u8>,
}

/// Records of one partition inside [`Fetcher::bytes`].
pub struct Portion {
    pub partition: usize,
    pub records: Range<usize>,
}

impl Fetcher {
    pub fn connect(bootstrap: &str, topic: &str, limits: Limits) -> Result<Self, Failure> {
        let stream = TcpStream::connect(bootstrap)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, topic: topic.into(), limits, correlation: 0, request: Vec::new(), response: Vec::new() })
    }

    /// Asks once for every partition from its offset in `offsets` and waits for the answer.
    pub fn fetch(&mut self, offsets: &[i64]) -> Result<Vec<Portion>, Failure> {
        self.correlation += 1;
        self.encode(offsets);
        self.stream.write_all(&self.request)?;
        let mut size = [0; 4];
        self.stream.read_exact(&mut size)?;
        let size = usize::try_from(i32::from_be_bytes(size))?;
        if self.response.len() < size {
            self.response.resize(size, 0);
        }
        self.stream.read_exact(&mut self.response[..size])?;
        parse(&self.response[..size], self.correlation)
    }

    /// The last response; the ranges of its portions point into it.
    pub fn bytes(&self) -> &[u8] {
        &self.response
    }

    fn encode(&mut self, offsets: &[i64]) {
        let out = &mut self.request;
        out.clear();
        out.extend([0; 4]); // size, filled in below
        out.extend(FETCH.to_be_bytes());
        out.extend(VERSION.to_be_bytes());
        out.extend(self.correlation.to_be_bytes());
        string(out, "floor");
        out.extend((-1i32).to_be_bytes()); // replica: a consumer
        out.extend(self.limits.max_wait_ms.to_be_bytes());
        out.extend(self.limits.min_bytes.to_be_bytes());
        out.extend(self.limits.max_bytes.to_be_bytes());
        out.push(0); // read_uncommitted
        out.extend(0i32.to_be_bytes()); // no fetch session
        out.extend((-1i32).to_be_bytes());
        out.extend(1i32.to_be_bytes());
        string(out, &self.topic);
        out.extend((offsets.len() as i32).to_be_bytes());
        for (partition, offset) in offsets.iter().enumerate() {
            out.extend((partition as i32).to_be_bytes());
            out.extend((-1i32).to_be_bytes()); // leader epoch unknown
            out.extend(offset.to_be_bytes());
            out.extend((-1i64).to_be_bytes()); // log start: followers only
            out.extend(self.limits.partition_max_bytes.to_be_bytes());
        }
        out.extend(0i32.to_be_bytes()); // nothing forgotten
        string(out, ""); // rack
        let size = (out.len() - 4) as i32;
        out[..4].copy_from_slice(&size.to_be_bytes());
    }
}

fn string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as i16).to_be_bytes());
    out.extend(text.as_bytes());
}

fn parse(bytes: &[u8], correlation: i32) -> Result<Vec<Portion>, Failure> {
    let mut at = 0;
    if i32::from_be_bytes(take(bytes, &mut at)?) != correlation {
        return Err("the answer is for another request".into());
    }
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

fn take<const N: usize>(bytes: &[u8], at: &mut usize) -> Result<[u8; N], Failure> {
    let found = bytes.get(*at..).and_then(|rest| rest.first_chunk::<N>()).ok_or("the Fetch response ends early")?;
    *at += N;
    Ok(*found)
}

fn skip(bytes: &[u8], at: &mut usize, length: i64) -> Result<(), Failure> {
    let end = usize::try_from(length).ok().and_then(|length| at.checked_add(length));
    *at = end.filter(|end| *end <= bytes.len()).ok_or("the Fetch response ends early")?;
    Ok(())
}

fn check(error: i16) -> Result<(), Failure> {
    if error == 0 { Ok(()) } else { Err(format!("the broker answered Fetch with error {error}").into()) }
}
