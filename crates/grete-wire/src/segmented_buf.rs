//! Output buffer in segments. A record batch is written to the socket from where it was encoded, without being copied
//! into the request.

use std::ops::Deref;
use std::sync::Arc;

use zeroize::Zeroizing;

/// Maximum size of shared bytes that are copied: for so few bytes a copy costs less than a segment.
const MAX_COPIED_BYTES: usize = 512;

/// Contiguous bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// Bytes written for this message.
    Owned(Vec<u8>),
    /// Bytes shared with another owner, which may have to send them again.
    Shared(Arc<Vec<u8>>),
    /// Bytes with a secret, which are overwritten at the drop.
    Secret(Zeroizing<Vec<u8>>),
}

impl Deref for Segment {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Shared(bytes) => bytes,
            Self::Secret(bytes) => bytes,
        }
    }
}

/// Bytes to write, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SegmentedBuf {
    segments: Vec<Segment>,
}

impl SegmentedBuf {
    /// Returns the open end for appending. The bytes appended so far are not moved by
    /// [`push_shared`](Self::push_shared).
    pub fn tail(&mut self) -> &mut Vec<u8> {
        if !matches!(self.segments.last(), Some(Segment::Owned(_))) {
            self.segments.push(Segment::Owned(Vec::new()));
        }
        match self.segments.last_mut() {
            Some(Segment::Owned(tail)) => tail,
            _ => unreachable!("the last segment is owned: checked or pushed above"),
        }
    }

    /// Appends bytes without copying them, unless they are few.
    pub fn push_shared(&mut self, bytes: Arc<Vec<u8>>) {
        if bytes.len() > MAX_COPIED_BYTES {
            self.segments.push(Segment::Shared(bytes));
        } else {
            self.tail().extend_from_slice(&bytes);
        }
    }

    /// Returns the same bytes, which are overwritten once they are written or dropped. Shared ones are not.
    ///
    /// A buffer that has grown has left its former memory as it was: give it the capacity that it needs.
    #[must_use]
    pub fn into_secret(self) -> Self {
        let kept = |segment| match segment {
            Segment::Owned(bytes) => Segment::Secret(Zeroizing::new(bytes)),
            segment => segment,
        };
        Self { segments: self.segments.into_iter().map(kept).collect() }
    }

    /// Returns the number of bytes in all segments.
    pub fn len(&self) -> usize {
        self.segments.iter().map(|segment| segment.len()).sum()
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.segments.iter().all(|segment| segment.is_empty())
    }

    /// Returns the segments, in order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the segments, in order.
    #[must_use]
    pub fn into_segments(self) -> Vec<Segment> {
        self.segments
    }

    /// Returns a copy of all bytes in one piece, for tests and scripted brokers.
    pub fn to_vec(&self) -> Vec<u8> {
        self.segments.iter().flat_map(|segment| segment.iter().copied()).collect()
    }

    /// Returns the first segment, for a size field that is written last. `None`: the first segment is shared.
    pub(crate) fn first_segment_mut(&mut self) -> Option<&mut Vec<u8>> {
        match self.segments.first_mut() {
            Some(Segment::Owned(head)) => Some(head),
            _ => None,
        }
    }
}

impl From<Vec<u8>> for SegmentedBuf {
    fn from(bytes: Vec<u8>) -> Self {
        // Capacity for a batch and the bytes after it.
        let mut segments = Vec::with_capacity(3);
        segments.push(Segment::Owned(bytes));
        Self { segments }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_keeps_its_bytes_where_they_are() {
        let mut out = SegmentedBuf::from(b"user".to_vec());
        out.push_shared(Arc::new(vec![b'.'; MAX_COPIED_BYTES + 1]));
        out.tail().extend_from_slice(b"password");
        let (bytes, at) = (out.to_vec(), out.segments().first().map(|first| first.as_ptr()));
        let secret = out.into_secret();
        assert_eq!((secret.to_vec(), secret.segments().first().map(|first| first.as_ptr())), (bytes, at));
        let kinds = [0, 1, 2].map(|at| matches!(secret.segments()[at], Segment::Secret(_)));
        assert_eq!(kinds, [true, false, true]);
    }

    #[test]
    fn shared_bytes_stand_where_they_were_pushed_and_are_not_copied() {
        let batch = Arc::new(vec![b'.'; MAX_COPIED_BYTES + 1]);
        let mut out = SegmentedBuf::default();
        assert!(out.is_empty());
        out.tail().extend_from_slice(b"he");
        out.tail().extend_from_slice(b"ad ");
        out.push_shared(Arc::clone(&batch));
        out.push_shared(Arc::new(b" few".to_vec()));
        out.tail().extend_from_slice(b" tail");
        assert_eq!(out.to_vec(), [&b"head "[..], &batch, b" few tail"].concat());
        assert_eq!((out.len(), out.segments().len()), (MAX_COPIED_BYTES + 15, 3));
        let Some(Segment::Shared(shared)) = out.into_segments().into_iter().nth(1) else { panic!("no shared segment") };
        assert!(Arc::ptr_eq(&shared, &batch));
    }
}
