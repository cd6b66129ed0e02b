//! Bytes that a connection has still to write.

use std::collections::VecDeque;
use std::io::{self, Write};

use grete_wire::SegmentedBuf;
use grete_wire::segmented_buf::Segment;

/// Segments up to this size are copied into one write; a larger one is written from where it is, in bytes.
const MAX_COPIED_BYTES: usize = 16 << 10;

/// Size from which on no more segments are copied to the end of another one, in bytes.
const FULL_BYTES: usize = 64 << 10;

/// Unwritten bytes in order.
///
/// Each segment is one send(2). A gathering write would save calls, but the standard library's raises SIGPIPE where the
/// program has not ignored the signal.
#[derive(Debug, Default)]
pub(super) struct WriteQueue {
    segments: VecDeque<Segment>,
    /// Number of bytes of the first segment that are already written.
    written: usize,
    len: usize,
}

impl WriteQueue {
    /// Returns the number of unwritten bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn push(&mut self, bytes: SegmentedBuf) {
        for segment in bytes.into_segments() {
            self.len += segment.len();
            match (self.segments.back_mut(), &segment) {
                (_, segment) if segment.is_empty() => {}
                (Some(Segment::Owned(last)), segment)
                    if segment.len() <= MAX_COPIED_BYTES && last.len() < FULL_BYTES =>
                {
                    last.extend_from_slice(segment);
                }
                (_, Segment::Shared(shared)) if shared.len() <= MAX_COPIED_BYTES => {
                    self.segments.push_back(Segment::Owned(shared.to_vec()));
                }
                _ => self.segments.push_back(segment),
            }
        }
    }

    /// Writes until the queue is empty or `stream` accepts no more. Returns whether the queue is empty.
    pub(super) fn write_to(&mut self, mut stream: impl Write) -> io::Result<bool> {
        while let Some(first) = self.segments.front() {
            match stream.write(first.get(self.written..).unwrap_or_default()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    self.len = self.len.saturating_sub(n);
                    self.written += n;
                    if self.written >= first.len() {
                        self.written = 0;
                        self.segments.pop_front();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
