//! Ids of the records that a lane has read. A record whose id came before is a duplicate, and is skipped.
//!
//! The log alone decides: a record is a duplicate of one with the same id at a smaller offset of the same partition that
//! is at most the window older. Outcomes of jobs do not count. Therefore a record that runs again, after a failure, an
//! aborted transaction or a rebalance, is no duplicate of itself, and the ids before a committed offset are restored
//! by reading the log before that offset again.

use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{HashMap, VecDeque};
use std::hash::Hasher;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use grete_wire::records::Columns;

use super::json_field::json_field;

/// Bytes of memory that an id takes: its entries in the map and in the queue, at the lowest load of both.
const ID_BYTES: usize = 112;

/// Header of a record that was sent again on purpose, from a dead letter topic. Such a record is no duplicate.
const REPLAYED: &[u8] = b"grete.replayed";

/// Part of a record that identifies the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdSource {
    /// Value of the first header with this name.
    Header(String),
    /// Key.
    Key,
    /// Field of this name of a JSON object, as its bytes are written.
    Field(String),
}

/// Deduplication of a route's records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DedupPolicy {
    /// Part of a record that identifies the record. A record without this part is no duplicate.
    pub id: IdSource,
    /// Greatest difference of the timestamps of a record and its duplicate, in milliseconds.
    pub window_ms: i64,
    /// Bytes of memory for the ids of one partition.
    pub max_bytes: usize,
}

impl DedupPolicy {
    /// Returns the number of ids of a partition that fit into the memory.
    #[must_use]
    pub fn capacity(&self) -> usize {
        (self.max_bytes / ID_BYTES).max(1)
    }
}

/// Filter of a lane, from one set position to the next.
#[derive(Debug)]
pub struct DuplicateFilter {
    policy: Arc<DedupPolicy>,
    /// Keys of the hash: a client that chooses ids cannot make two of them collide.
    salts: [u64; 2],
    known: Mutex<KnownIds>,
}

#[derive(Debug, Default)]
struct KnownIds {
    by_hash: HashMap<u128, KnownId>,
    /// Offsets and hashes of the ids, by offset.
    order: VecDeque<(i64, u128)>,
    /// Offset behind the last record that was read. Records before it are read again, and teach nothing.
    end: i64,
    newest_ms: i64,
    /// Ids that were dropped since the last call, within their window.
    forgotten: usize,
}

#[derive(Debug, Clone, Copy)]
struct KnownId {
    offset: i64,
    timestamp: i64,
}

/// Duplicates among rows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::dispatch) struct Duplicates {
    /// Indexes in the range, ascending.
    pub(in crate::dispatch) rows: Vec<usize>,
    /// Ids that were dropped within their window, because the memory is full.
    pub(in crate::dispatch) forgotten: usize,
}

impl DuplicateFilter {
    pub(in crate::dispatch) fn new(policy: Arc<DedupPolicy>, salts: [u64; 2]) -> Self {
        Self { policy, salts, known: Mutex::new(KnownIds { newest_ms: -1, ..KnownIds::default() }) }
    }

    /// Learns the ids of records before the lane's position, in the order of their offsets.
    pub fn learn(&self, columns: &Columns, rows: Range<usize>) {
        self.find(columns, rows, |_| true);
    }

    /// Returns the duplicates among the rows for which `wanted` returns true, and learns the ids of the others.
    /// Both count rows from the start of the range.
    pub(in crate::dispatch) fn find(
        &self,
        columns: &Columns,
        range: Range<usize>,
        wanted: impl Fn(usize) -> bool,
    ) -> Duplicates {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rows = Vec::new();
        for (index, row) in range.enumerate().filter(|(index, _)| wanted(*index)) {
            let (Some(&offset), Some(&timestamp)) = (columns.offsets.get(row), columns.timestamps.get(row)) else {
                continue;
            };
            let Some(hash) = self.hash(columns, row) else { continue };
            if known.is_duplicate(hash, KnownId { offset, timestamp }, self.policy.window_ms) {
                rows.push(index);
            }
        }
        known.drop_old(self.policy.window_ms, self.policy.capacity());
        Duplicates { rows, forgotten: std::mem::take(&mut known.forgotten) }
    }

    /// Returns the hash of a record's id; `None`: the record has no id, or is a replay.
    fn hash(&self, columns: &Columns, row: usize) -> Option<u128> {
        let mut headers = columns.headers(row).map_while(Result::ok);
        if headers.clone().any(|(name, _)| name == REPLAYED) {
            return None;
        }
        let id = match &self.policy.id {
            IdSource::Header(name) => headers.find(|(found, _)| *found == name.as_bytes())?.1?,
            IdSource::Key => columns.key(row)?,
            IdSource::Field(name) => json_field(columns.value(row)?, name)?,
        };
        let half = |salt: u64| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u64(salt);
            hasher.write(id);
            u128::from(hasher.finish())
        };
        Some(half(self.salts[0]) << 64 | half(self.salts[1]))
    }
}

impl KnownIds {
    /// Returns whether an earlier record has the id, within the window; else remembers this record.
    fn is_duplicate(&mut self, hash: u128, record: KnownId, window_ms: i64) -> bool {
        let is_new = record.offset >= self.end;
        if is_new {
            self.end = record.offset + 1;
            self.newest_ms = self.newest_ms.max(record.timestamp);
        }
        match self.by_hash.entry(hash) {
            Entry::Occupied(mut found) => {
                let first = *found.get();
                if first.offset < record.offset && first.is_within(record, window_ms) {
                    return true;
                }
                if is_new {
                    // The window of the record before is over. Its place in the queue is passed over later.
                    found.insert(record);
                    self.order.push_back((record.offset, hash));
                }
            }
            Entry::Vacant(place) if is_new => {
                place.insert(record);
                self.order.push_back((record.offset, hash));
            }
            Entry::Vacant(_) => {}
        }
        false
    }

    /// Drops ids whose window is over, and then the oldest ones until at most `capacity` are left.
    fn drop_old(&mut self, window_ms: i64, capacity: usize) {
        while let Some(&(offset, hash)) = self.order.front() {
            let known = self.by_hash.get(&hash).filter(|known| known.offset == offset);
            let newest = KnownId { offset: i64::MAX, timestamp: self.newest_ms };
            let is_over = known.is_none_or(|known| !known.is_within(newest, window_ms));
            if !is_over && self.order.len() <= capacity {
                break;
            }
            self.forgotten += usize::from(!is_over);
            if known.is_some() {
                self.by_hash.remove(&hash);
            }
            self.order.pop_front();
        }
    }
}

impl KnownId {
    /// Returns whether a later record is within the window of this one. Records without a timestamp (-1) are.
    fn is_within(self, later: Self, window_ms: i64) -> bool {
        let has_times = self.timestamp >= 0 && later.timestamp >= 0;
        !has_times || later.timestamp.saturating_sub(self.timestamp) <= window_ms
    }
}
