//! Write queue on a stream that takes a few bytes at a time.

use std::io::{self, Write};
use std::sync::Arc;

use grete_wire::SegmentedBuf;

use crate::server::write_queue::WriteQueue;

/// Takes `step` bytes, then nothing for one call, then `step` bytes again.
struct SlowWriter {
    step: usize,
    is_ready: bool,
    taken: Vec<u8>,
    calls: usize,
}

impl SlowWriter {
    fn new(step: usize) -> Self {
        Self { step, is_ready: false, taken: Vec::new(), calls: 0 }
    }
}

impl Write for SlowWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.is_ready = !self.is_ready;
        if !self.is_ready {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.calls += 1;
        let n = bytes.len().min(self.step);
        self.taken.extend_from_slice(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Response with a head, shared bytes and a tail.
fn response(number: u8, shared: usize) -> SegmentedBuf {
    let mut bytes = SegmentedBuf::from(vec![number; 20]);
    bytes.push_shared(Arc::new((0..shared).map(|at| (at % 251) as u8 ^ number).collect()));
    bytes.tail().push(number);
    bytes
}

#[test]
fn all_bytes_are_written_in_order_however_few_fit() {
    for step in [1, 7, 100, 20_000, 1 << 20] {
        let (mut queue, mut expected) = (WriteQueue::default(), Vec::new());
        let mut stream = SlowWriter::new(step);
        for (number, shared) in [(1, 0), (2, 600), (3, 16 << 10), (4, (16 << 10) + 1), (5, 100_000), (6, 3)] {
            let bytes = response(number, shared);
            expected.extend(bytes.to_vec());
            queue.push(bytes);
            let _ = queue.write_to(&mut stream).unwrap();
        }
        while !queue.write_to(&mut stream).unwrap() {
            assert_eq!(queue.len(), expected.len() - stream.taken.len());
        }
        assert!(queue.is_empty());
        assert_eq!(stream.taken, expected, "{step} bytes at a time");
    }
}

#[test]
fn small_responses_are_one_write() {
    let mut queue = WriteQueue::default();
    (0..20).for_each(|number| queue.push(response(number, 1000)));
    let mut stream = SlowWriter::new(usize::MAX);
    assert!(queue.write_to(&mut stream).unwrap());
    assert_eq!((stream.calls, stream.taken.len()), (1, 20 * 1021));
}

#[test]
fn a_stream_that_takes_nothing_is_broken() {
    let mut queue = WriteQueue::default();
    queue.push(response(1, 0));
    assert_eq!(queue.write_to(&mut [0_u8; 0][..]).unwrap_err().kind(), io::ErrorKind::WriteZero);
}
