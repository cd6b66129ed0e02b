//! Stored batches of a partition, in memory. Segments are boundaries only: retention deletes whole segments, and
//! compaction leaves the last one, as in Kafka.

use std::collections::VecDeque;
use std::mem::size_of;
use std::sync::Arc;

use grete_wire::records::BatchHeader;
use serde::{Deserialize, Serialize};

use crate::ids::Millis;

/// Batch as clients fetch the batch.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StoredBatch {
    pub base_offset: i64,
    pub last_offset: i64,
    /// Largest timestamp of the records; -1: none.
    pub max_timestamp: i64,
    pub bytes: Arc<Vec<u8>>,
}

impl StoredBatch {
    pub fn new(header: &BatchHeader, bytes: Arc<Vec<u8>>) -> Self {
        Self {
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            max_timestamp: header.max_timestamp,
            bytes,
        }
    }

    /// Decodes the header. `None` does not occur: each batch was checked before it was stored.
    pub fn header(&self) -> Option<BatchHeader> {
        BatchHeader::parse(&self.bytes).ok()
    }

    /// Returns the bytes of memory that the batch takes.
    fn heap_bytes(&self) -> usize {
        // The reference counts and the vector are allocated with the `Arc`.
        size_of::<Self>() + size_of::<[usize; 2]>() + size_of::<Vec<u8>>() + self.bytes.len()
    }
}

/// Segment: the batches from its base offset to the next segment's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Segment {
    pub base_offset: i64,
    /// Largest timestamp of the first batch; -1: none.
    pub first_timestamp: i64,
    /// Largest timestamp; -1: none.
    pub max_timestamp: i64,
    /// Time of the last append.
    pub last_append: Millis,
    /// Length of the batches.
    pub bytes: u64,
}

impl Segment {
    /// Returns the time by which retention and compaction judge the segment.
    pub fn largest_timestamp(&self) -> Millis {
        if self.max_timestamp >= 0 { self.max_timestamp } else { self.last_append }
    }

    /// Returns whether a batch begins a new segment.
    pub fn is_full(&self, batch_bytes: u64, max_timestamp: i64, segment_bytes: u64, segment_ms: i64) -> bool {
        let age = if self.first_timestamp >= 0 { max_timestamp.saturating_sub(self.first_timestamp) } else { 0 };
        self.bytes.saturating_add(batch_bytes) > segment_bytes || age > segment_ms
    }
}

/// Batches by ascending offset. Offsets may be missing between batches after compaction.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Batches {
    batches: VecDeque<StoredBatch>,
    segments: VecDeque<Segment>,
    size: u64,
    heap_bytes: usize,
}

impl Batches {
    /// Returns the length of all batches.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the bytes of memory that the batches take.
    pub fn heap_bytes(&self) -> usize {
        self.heap_bytes + self.segments.len() * size_of::<Segment>()
    }

    pub fn len(&self) -> usize {
        self.batches.len()
    }

    pub fn segments(&self) -> &VecDeque<Segment> {
        &self.segments
    }

    /// Replaces the segments, for example by those of a snapshot.
    pub fn set_segments(&mut self, segments: VecDeque<Segment>) {
        self.segments = segments;
    }

    /// Returns all batches.
    pub fn iter(&self) -> impl Iterator<Item = &StoredBatch> {
        self.batches.iter()
    }

    /// Returns the batches from the one on that contains `offset`, or the next one after the offset.
    pub fn from(&self, offset: i64) -> impl Iterator<Item = &StoredBatch> {
        let first = self.batches.partition_point(|batch| batch.last_offset < offset);
        self.batches.range(first..)
    }

    /// Appends a batch.
    pub fn push(&mut self, batch: StoredBatch, now: Millis, new_segment: bool) {
        let len = batch.bytes.len() as u64;
        match self.segments.back_mut() {
            Some(segment) if !new_segment => {
                segment.max_timestamp = segment.max_timestamp.max(batch.max_timestamp);
                segment.last_append = now;
                segment.bytes += len;
            }
            _ => self.segments.push_back(Segment {
                base_offset: batch.base_offset,
                first_timestamp: batch.max_timestamp,
                max_timestamp: batch.max_timestamp,
                last_append: now,
                bytes: len,
            }),
        }
        self.push_stored(batch);
    }

    /// Appends a batch whose segment exists already.
    pub fn push_stored(&mut self, batch: StoredBatch) {
        self.size += batch.bytes.len() as u64;
        self.heap_bytes += batch.heap_bytes();
        self.batches.push_back(batch);
    }

    /// Deletes the batches that end before `offset`, and the segments that are then empty.
    pub fn delete_before(&mut self, offset: i64) {
        while let Some(batch) = self.batches.pop_front_if(|batch| batch.last_offset < offset) {
            let len = batch.bytes.len() as u64;
            self.size -= len;
            self.heap_bytes -= batch.heap_bytes();
            while self.segments.get(1).is_some_and(|next| next.base_offset <= batch.base_offset) {
                self.segments.pop_front();
            }
            if let Some(segment) = self.segments.front_mut() {
                segment.bytes = segment.bytes.saturating_sub(len);
            }
        }
        let first = self.batches.front().map(|batch| batch.base_offset);
        while self.segments.get(1).is_some_and(|next| first.is_some_and(|first| next.base_offset <= first)) {
            self.segments.pop_front();
        }
        if first.is_none() {
            self.segments.clear();
        }
    }

    /// Replaces the batches below `end` by `batches`. The segments keep their boundaries; empty ones are merged into
    /// their predecessors, except for the last one.
    pub fn replace_before(&mut self, end: i64, batches: Vec<StoredBatch>) {
        let kept = self.batches.partition_point(|batch| batch.last_offset < end);
        self.batches.drain(..kept);
        for batch in batches.into_iter().rev() {
            self.batches.push_front(batch);
        }
        self.size = self.batches.iter().map(|batch| batch.bytes.len() as u64).sum();
        self.heap_bytes = self.batches.iter().map(StoredBatch::heap_bytes).sum();
        self.measure_segments();
    }

    fn measure_segments(&mut self) {
        for segment in &mut self.segments {
            (segment.bytes, segment.max_timestamp) = (0, -1);
        }
        let mut at = 0;
        for batch in &self.batches {
            while self.segments.get(at + 1).is_some_and(|next| next.base_offset <= batch.base_offset) {
                at += 1;
            }
            if let Some(segment) = self.segments.get_mut(at) {
                segment.bytes += batch.bytes.len() as u64;
                segment.max_timestamp = segment.max_timestamp.max(batch.max_timestamp);
            }
        }
        let active = self.segments.back().map(|segment| segment.base_offset);
        self.segments.retain(|segment| segment.bytes > 0 || Some(segment.base_offset) == active);
    }
}
