//! Bytes to be written, in segments: a batch of records goes from where it was encoded to the socket without being copied
//! into the request that carries it.

use std::ops::Deref;
use std::sync::Arc;

/// To copy so few bytes costs less than a segment of their own.
const COPIED: usize = 512;

/// A run of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// Made for this message.
    Owned(Vec<u8>),
    /// Kept by somebody else too, who may have to send it again.
    Shared(Arc<Vec<u8>>),
}

impl Deref for Segment {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

/// Bytes to be written, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outbound {
    segments: Vec<Segment>,
}

impl Outbound {
    /// The open end, to append to: what has been appended so far is not moved by a [`push_shared`](Self::push_shared).
    pub fn tail(&mut self) -> &mut Vec<u8> {
        if !matches!(self.segments.last(), Some(Segment::Owned(_))) {
            self.segments.push(Segment::Owned(Vec::new()));
        }
        match self.segments.last_mut() {
            Some(Segment::Owned(tail)) => tail,
            _ => unreachable!("the last segment is owned: it has just been looked at, or put there"),
        }
    }

    /// Appends bytes without copying them, unless they are very few.
    pub fn push_shared(&mut self, bytes: Arc<Vec<u8>>) {
        if bytes.len() > COPIED {
            self.segments.push(Segment::Shared(bytes));
        } else {
            self.tail().extend_from_slice(&bytes);
        }
    }

    /// Bytes of all segments.
    #[must_use]
    pub fn len(&self) -> usize {
        self.segments.iter().map(|segment| segment.len()).sum()
    }

    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.segments.iter().all(|segment| segment.is_empty())
    }

    /// The segments, in order.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The segments, in order.
    #[must_use]
    pub fn into_segments(self) -> Vec<Segment> {
        self.segments
    }

    /// All bytes in one piece: a copy, for tests and scripted brokers.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.segments.iter().flat_map(|segment| segment.iter().copied()).collect()
    }

    /// The bytes at the very beginning, to put a size into that is known at the end. `None` if the first segment is shared.
    pub(crate) fn head_mut(&mut self) -> Option<&mut Vec<u8>> {
        match self.segments.first_mut() {
            Some(Segment::Owned(head)) => Some(head),
            _ => None,
        }
    }
}

impl From<Vec<u8>> for Outbound {
    fn from(bytes: Vec<u8>) -> Self {
        // Room for a batch and what follows it.
        let mut segments = Vec::with_capacity(3);
        segments.push(Segment::Owned(bytes));
        Self { segments }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_bytes_stand_where_they_were_pushed_and_are_not_copied() {
        let batch = Arc::new(vec![b'.'; COPIED + 1]);
        let mut out = Outbound::default();
        assert!(out.is_empty());
        out.tail().extend_from_slice(b"he");
        out.tail().extend_from_slice(b"ad ");
        out.push_shared(Arc::clone(&batch));
        out.push_shared(Arc::new(b" few".to_vec()));
        out.tail().extend_from_slice(b" tail");
        assert_eq!(out.to_vec(), [&b"head "[..], &batch, b" few tail"].concat());
        assert_eq!((out.len(), out.segments().len()), (COPIED + 15, 3));
        let Some(Segment::Shared(shared)) = out.into_segments().into_iter().nth(1) else { panic!("no shared segment") };
        assert!(Arc::ptr_eq(&shared, &batch));
    }
}
