//! A partition at its broker: record batches as they lie on disk, and the records that a consumer is to see.

use std::collections::BTreeMap;

use grete_wire::records::testing::{BatchOptions, build_batch, build_marker};
use grete_wire::records::{AbortedTransaction, Compression};

use super::record::Record;

/// How a batch lies in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Plain,
    Packed(Compression),
    /// Compaction has left gaps between the records, and one behind them.
    Sparse,
    /// Followed by the marker of a transaction that was committed.
    Committed,
    /// Nobody is to see these: their transaction was aborted.
    Aborted,
    /// Compaction has left nothing.
    Emptied,
}

#[derive(Debug)]
struct Stored {
    base: i64,
    next: i64,
    bytes: Vec<u8>,
}

/// What a broker answers.
#[derive(Debug)]
pub struct Fetched {
    pub bytes: Vec<u8>,
    pub next_offset: i64,
    pub aborted: Vec<AbortedTransaction>,
}

#[derive(Debug)]
pub struct Log {
    pub partition: i32,
    /// Those that a consumer sees.
    pub records: BTreeMap<i64, Record>,
    pub end: i64,
    stored: Vec<Stored>,
    /// Producer, first offset, offset of the marker.
    aborted: Vec<(i64, i64, i64)>,
    /// The batch at this offset is damaged on its way, so many times.
    pub damage: Option<(i64, u32)>,
}

impl Log {
    pub fn new(partition: i32) -> Self {
        Self { partition, records: BTreeMap::new(), end: 0, stored: Vec::new(), aborted: Vec::new(), damage: None }
    }

    /// Writes the records, whose offsets it chooses.
    pub fn append(&mut self, mut records: Vec<Record>, shape: Shape) {
        let base = self.end;
        let stride = if shape == Shape::Sparse { 3 } else { 1 };
        let deltas: Vec<i32> = (0..records.len() as i32).map(|i| i * stride).collect();
        let last = deltas.last().copied().unwrap_or(0) + if shape == Shape::Sparse { 2 } else { 0 };
        for (record, delta) in records.iter_mut().zip(&deltas) {
            record.offset = base + i64::from(*delta);
        }
        let mut options =
            BatchOptions { last_offset_delta: Some(last), offset_deltas: Some(deltas), ..Default::default() };
        match shape {
            Shape::Packed(codec) => options.compression = codec,
            Shape::Committed | Shape::Aborted => {
                (options.transactional, options.producer_id, options.producer_epoch) = (true, base + 1000, 0);
            }
            Shape::Plain | Shape::Sparse | Shape::Emptied => {}
        }
        let visible = !matches!(shape, Shape::Aborted | Shape::Emptied);
        let encoded: Vec<_> = match shape {
            Shape::Emptied => Vec::new(),
            _ => records.iter().map(|record| record.encode(self.partition)).collect(),
        };
        self.store(base, base + i64::from(last) + 1, build_batch(base, &encoded, &options));
        if visible {
            self.records.extend(records.into_iter().map(|record| (record.offset, record)));
        }
        if options.transactional {
            let marker = self.end;
            if shape == Shape::Aborted {
                self.aborted.push((options.producer_id, base, marker));
            }
            self.store(marker, marker + 1, build_marker(marker, options.producer_id, shape == Shape::Committed));
        }
    }

    fn store(&mut self, base: i64, next: i64, bytes: Vec<u8>) {
        self.stored.push(Stored { base, next, bytes });
        self.end = next;
    }

    /// Up to `most` whole batches from the one that holds `offset` on; `None` at the end.
    pub fn fetch(&mut self, offset: i64, most: usize) -> Option<Fetched> {
        let first = self.stored.partition_point(|batch| batch.next <= offset);
        let batches = self.stored.get(first..)?;
        let batches = &batches[..batches.len().min(most.max(1))];
        let (from, next_offset) = (batches.first()?.base, batches.last()?.next);
        let mut bytes = Vec::new();
        for batch in batches {
            let start = bytes.len();
            bytes.extend(&batch.bytes);
            if let Some((at, times)) =
                self.damage.filter(|(at, times)| (batch.base..batch.next).contains(at) && *times > 0)
            {
                // Behind the checksum, which then tells.
                bytes[start + 30] ^= 1;
                self.damage = (times > 1).then_some((at, times - 1));
            }
        }
        let aborted = self.aborted.iter().filter(|(_, first, marker)| *first < next_offset && *marker >= from);
        let aborted = aborted.map(|&(producer_id, first_offset, _)| AbortedTransaction { producer_id, first_offset });
        Some(Fetched { bytes, next_offset, aborted: aborted.collect() })
    }
}
