//! A stream in reads of any size gives the frames that a naive reader finds, in bounded memory.
#![no_main]

use grete_fuzz::counting::bounded;
use grete_wire::buffer_pool::BufferPool;
use grete_wire::{FrameReader, WireError};
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 8 * 1024 * 1024;
const LONGEST_STREAM: usize = 6 * 1024 * 1024;
/// The common buffer of 64 KiB, 1 MiB that an announced size may cost, and room for bookkeeping.
const CAP: usize = (64 + 1024 + 64) * 1024;
/// A growing frame holds its old buffer while the new one is filled. The new one has four times the received bytes,
/// rounded up to a power of two, and the pool may have kept another.
const FACTOR: usize = 16;

fuzz_target!(|data: &[u8]| {
    let Some((&pace, data)) = data.split_first() else { return };
    let stream = stream(data);
    let (expected, error) = naive(&stream);
    bounded(stream.len(), FACTOR, CAP, || {
        let mut reader = FrameReader::new(BufferPool::new(1 << 20), LIMIT);
        let mut rest = stream.as_slice();
        let mut seen = 0;
        let mut pace = usize::from(pace) + 1;
        while !rest.is_empty() {
            let buffer = reader.read_buf();
            assert!(!buffer.is_empty());
            let n = buffer.len().min(rest.len()).min(pace);
            buffer[..n].copy_from_slice(&rest[..n]);
            reader.advance(n);
            rest = &rest[n..];
            // Ever larger reads: from single bytes near the headers up to megabytes.
            pace += pace / 3 + 1;
            loop {
                match reader.next() {
                    Ok(Some(frame)) => {
                        assert!(expected.get(seen) == Some(&&frame[..]));
                        seen += 1;
                    }
                    Ok(None) => break,
                    Err(found) => {
                        assert_eq!((Some(found), seen), (error, expected.len()));
                        return;
                    }
                }
            }
        }
        assert_eq!((error, seen), (None, expected.len()));
    });
});

/// Expands the input to a long stream. A byte below 0xe0 is a number of bytes to copy; another announces a frame whose
/// size is in the next three bytes.
fn stream(mut data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some((&op, rest)) = data.split_first() {
        data = rest;
        if op < 0xe0 {
            let (literal, rest) = data.split_at(data.len().min(op.into()));
            out.extend_from_slice(literal);
            data = rest;
        } else if let Some((&[a, b, c], rest)) = data.split_first_chunk::<3>() {
            let size = u32::from_be_bytes([0, a & 0x3f, b, c]);
            data = rest;
            if out.len() + size as usize > LONGEST_STREAM {
                break;
            }
            out.extend_from_slice(&size.to_be_bytes());
            out.resize(out.len() + size as usize, op);
        }
    }
    out
}

fn naive(mut stream: &[u8]) -> (Vec<&[u8]>, Option<WireError>) {
    let mut frames = Vec::new();
    while let Some((&prefix, rest)) = stream.split_first_chunk::<4>() {
        match prefix {
            _ if !frames.is_empty() => {}
            [b'H', b'T', b'T', b'P'] => return (frames, Some(WireError::LooksLikeHttp)),
            [0x15 | 0x16, 3, ..] => return (frames, Some(WireError::LooksLikeTls)),
            _ => {}
        }
        let size = i32::from_be_bytes(prefix);
        if size < 0 {
            return (frames, Some(WireError::BadLength { what: "a frame", value: size.into() }));
        }
        let size = size as usize;
        if size > LIMIT {
            return (frames, Some(WireError::FrameTooLarge { size, limit: LIMIT }));
        }
        let Some((frame, after)) = rest.split_at_checked(size) else { break };
        frames.push(frame);
        stream = after;
    }
    (frames, None)
}
