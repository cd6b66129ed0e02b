//! Bytes that a socket has still to write.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};

use crate::segmented_buf::{Segment, SegmentedBuf};

/// Maximum number of segments in one system call; a request with few batches fits.
const MAX_IOVECS: usize = 64;

/// Unwritten segments in order. A batch that is shared with other owners is written in place, without a copy.
#[derive(Debug, Default)]
pub struct WriteBuffer {
    segments: VecDeque<Segment>,
    /// Number of bytes of the first segment that are already written.
    written: usize,
    len: usize,
}

impl WriteBuffer {
    /// Returns the number of unwritten bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether all bytes are written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: SegmentedBuf) {
        self.len += bytes.len();
        self.segments.extend(bytes.into_segments().into_iter().filter(|segment| !segment.is_empty()));
    }

    /// Writes until the buffer is empty or `stream` accepts no more. Returns whether the buffer is empty.
    ///
    /// # Errors
    /// The stream failed, or it accepts nothing and does not say that it would block.
    pub fn write_to(&mut self, mut stream: impl Write) -> io::Result<bool> {
        while !self.segments.is_empty() {
            match self.write_once(&mut stream) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.advance(n),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn write_once(&self, stream: &mut impl Write) -> io::Result<usize> {
        let first = self.segments.front().and_then(|first| first.get(self.written..)).unwrap_or_default();
        if self.segments.len() == 1 {
            return stream.write(first);
        }
        let mut slices = [IoSlice::new(first); MAX_IOVECS];
        for (place, segment) in slices.iter_mut().zip(&self.segments).skip(1) {
            *place = IoSlice::new(segment);
        }
        stream.write_vectored(slices.get(..self.segments.len()).unwrap_or(&slices))
    }

    fn advance(&mut self, mut n: usize) {
        self.len = self.len.saturating_sub(n);
        while let Some(first) = self.segments.front() {
            let left = first.len().saturating_sub(self.written);
            if n < left {
                self.written += n;
                return;
            }
            n -= left;
            self.written = 0;
            self.segments.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Accepts a given number of bytes per call, then nothing, then continues.
    struct LimitedWriter {
        takes: Vec<usize>,
        taken: Vec<u8>,
        calls: usize,
    }

    impl Write for LimitedWriter {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.write_vectored(&[IoSlice::new(buf)])
        }

        fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
            self.calls += 1;
            match self.takes.pop() {
                None | Some(0) => Err(io::ErrorKind::WouldBlock.into()),
                Some(n) => {
                    let all: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
                    let n = n.min(all.len());
                    self.taken.extend_from_slice(&all[..n]);
                    Ok(n)
                }
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn message(number: u8) -> SegmentedBuf {
        let mut out = SegmentedBuf::from(vec![number; 3]);
        out.push_shared(Arc::new((0..600_u16).map(|n| number.wrapping_add(n.to_be_bytes()[1])).collect()));
        out.tail().push(number);
        out
    }

    #[test]
    fn it_goes_on_anywhere_inside_a_segment() {
        for step in [1, 2, 3, 7, 100, 599, 600, 604, 605, 1000, 3000] {
            let (mut unwritten, mut expected) = (WriteBuffer::default(), Vec::new());
            let mut stream = LimitedWriter { takes: vec![], taken: vec![], calls: 0 };
            for number in 1..4 {
                unwritten.push(message(number));
                expected.extend(message(number).to_vec());
            }
            let mut rounds = 0;
            stream.takes = vec![step];
            while !unwritten.write_to(&mut stream).unwrap() {
                stream.takes = vec![step];
                rounds += 1;
                assert!(rounds < 10_000);
                assert_eq!(unwritten.len(), expected.len() - stream.taken.len());
            }
            assert!(unwritten.is_empty());
            assert_eq!(stream.taken, expected, "{step} bytes at a time");
        }
    }

    #[test]
    fn what_fits_goes_in_one_call() {
        let mut stream = LimitedWriter { takes: vec![1 << 20], taken: vec![], calls: 0 };
        let mut unwritten = WriteBuffer::default();
        for number in 0..20 {
            unwritten.push(message(number));
        }
        assert!(unwritten.write_to(&mut stream).unwrap());
        assert_eq!((stream.calls, stream.taken.len()), (1, 20 * 604));
    }

    #[test]
    fn a_stream_that_takes_nothing_is_broken() {
        let mut unwritten = WriteBuffer::default();
        unwritten.push(message(1));
        let error = unwritten.write_to(&mut [0_u8; 0][..]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WriteZero);
    }
}
