//! Partition log on a simulated broker: stored record batches, and the records visible to a consumer.

use std::collections::BTreeMap;

use grete_wire::records::test_encoder::{BatchOptions, build_batch, build_control_batch};
use grete_wire::records::{AbortedTransaction, Compression};

use super::record::Record;

/// Shape of a batch in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Plain,
    Packed(Compression),
    /// Compaction has left gaps between the records, and one gap behind them.
    Sparse,
    /// A transactional batch, followed by its commit marker.
    Committed,
    /// A batch of an aborted transaction: its records are invisible.
    Aborted,
    /// Compaction has left no record.
    Emptied,
}

#[derive(Debug)]
struct Stored {
    base: i64,
    next: i64,
    bytes: Vec<u8>,
}

/// Fetch response of the broker.
#[derive(Debug)]
pub struct Fetched {
    pub bytes: Vec<u8>,
    pub next_offset: i64,
    pub aborted: Vec<AbortedTransaction>,
}

#[derive(Debug)]
pub struct Log {
    pub partition: i32,
    /// Records visible to a consumer.
    pub records: BTreeMap<i64, Record>,
    pub end: i64,
    stored: Vec<Stored>,
    /// Aborted transactions: producer ID, first offset, offset of the marker.
    aborted: Vec<(i64, i64, i64)>,
    /// Offset of a batch that is corrupted in responses, and how many more times.
    pub damage: Option<(i64, u32)>,
}

impl Log {
    pub fn new(partition: i32) -> Self {
        Self { partition, records: BTreeMap::new(), end: 0, stored: Vec::new(), aborted: Vec::new(), damage: None }
    }

    /// Appends records, and assigns their offsets.
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
            self.store(marker, marker + 1, build_control_batch(marker, options.producer_id, shape == Shape::Committed));
        }
    }

    fn store(&mut self, base: i64, next: i64, bytes: Vec<u8>) {
        self.stored.push(Stored { base, next, bytes });
        self.end = next;
    }

    /// Returns up to `most` whole batches from the batch that contains `offset` on; `None` at the end.
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
                // A byte that the checksum covers, so the corruption is detected.
                bytes[start + 30] ^= 1;
                self.damage = (times > 1).then_some((at, times - 1));
            }
        }
        let aborted = self.aborted.iter().filter(|(_, first, marker)| *first < next_offset && *marker >= from);
        let aborted = aborted.map(|&(producer_id, first_offset, _)| AbortedTransaction { producer_id, first_offset });
        Some(Fetched { bytes, next_offset, aborted: aborted.collect() })
    }
}
