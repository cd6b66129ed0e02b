//! Staged records, one behind the other in a few allocations.

use std::sync::Arc;

use grete_wire::records::{ProducerHeader, ProducerRecord};

/// Bytes of memory that a staged record takes beside its contents.
const OVERHEAD: usize = std::mem::size_of::<Entry>() + 32;

/// Record that a job produces, lent to be copied.
#[derive(Debug, Clone, Copy)]
pub struct StagedRecord<'a> {
    /// Topic.
    pub topic: &'a Arc<str>,
    /// Partition that the caller has chosen; `None`: the key decides, when the record is sent.
    pub partition: Option<i32>,
    /// Contents. No field is longer than `u32::MAX`, because the caller has checked the record's size.
    pub record: &'a ProducerRecord<'a>,
    /// Bytes of a batch with this record alone.
    pub encoded: usize,
}

impl StagedRecord<'_> {
    /// Returns the bytes of memory that the copy takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.encoded + OVERHEAD + std::mem::size_of::<HeaderLengths>() * self.record.headers.len()
    }
}

/// Lengths of a header's key and value; `None`: null.
type HeaderLengths = (u32, Option<u32>);

/// Record, whose key, value and headers follow those of the record before.
#[derive(Debug, Clone)]
struct Entry {
    topic: u32,
    partition: Option<i32>,
    timestamp: i64,
    key: Option<u32>,
    value: Option<u32>,
    /// End of the record's contents, and of its headers.
    end: usize,
    headers_end: usize,
    bytes: usize,
}

/// Copies of records, in order.
#[derive(Debug, Clone, Default)]
pub struct StagedRecords {
    entries: Vec<Entry>,
    topics: Vec<Arc<str>>,
    headers: Vec<HeaderLengths>,
    /// Key, value, then key and value of each header, record after record. The keys of headers are UTF-8.
    contents: Vec<u8>,
}

impl StagedRecords {
    /// Returns the number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there is no record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the bytes of memory that the records take.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.bytes).sum()
    }

    /// Appends a copy of a record.
    pub(crate) fn push(&mut self, staged: &StagedRecord<'_>) {
        let record = staged.record;
        let topic = self.topics.iter().rposition(|topic| Arc::ptr_eq(topic, staged.topic)).unwrap_or_else(|| {
            self.topics.push(Arc::clone(staged.topic));
            self.topics.len() - 1
        });
        let contents = &mut self.contents;
        let mut copy = |field: &[u8]| {
            contents.extend_from_slice(field);
            u32::try_from(field.len()).unwrap_or(u32::MAX)
        };
        let (key, value) = (record.key.map(&mut copy), record.value.map(&mut copy));
        let headers = record.headers.iter().map(|header| (copy(header.key.as_bytes()), header.value.map(&mut copy)));
        self.headers.extend(headers);
        self.entries.push(Entry {
            topic: u32::try_from(topic).unwrap_or(u32::MAX),
            partition: staged.partition,
            timestamp: record.timestamp,
            key,
            value,
            end: self.contents.len(),
            headers_end: self.headers.len(),
            bytes: staged.bytes(),
        });
    }

    /// Lends the record at `index`; `None`: there is none.
    pub(crate) fn lend<R>(&self, index: usize, then: impl FnOnce(StagedRecord<'_>) -> R) -> Option<R> {
        let entry = self.entries.get(index)?;
        let before = index.checked_sub(1).and_then(|before| self.entries.get(before));
        let (start, headers_start) = before.map_or((0, 0), |before| (before.end, before.headers_end));
        let mut rest = self.contents.get(start..entry.end)?;
        let mut take = |len: u32| {
            let (field, left) = rest.split_at_checked(len as usize).unwrap_or((rest, &[]));
            rest = left;
            field
        };
        let (key, value) = (entry.key.map(&mut take), entry.value.map(&mut take));
        let headers = self.headers.get(headers_start..entry.headers_end)?.iter();
        let headers: Vec<ProducerHeader<'_>> = headers
            .map(|&(key, value)| ProducerHeader {
                key: std::str::from_utf8(take(key)).unwrap_or_default(),
                value: value.map(&mut take),
            })
            .collect();
        let record = ProducerRecord { timestamp: entry.timestamp, key, value, headers: &headers };
        let topic = self.topics.get(entry.topic as usize)?;
        let overhead = OVERHEAD + std::mem::size_of::<HeaderLengths>() * headers.len();
        let encoded = entry.bytes.saturating_sub(overhead);
        Some(then(StagedRecord { topic, partition: entry.partition, record: &record, encoded }))
    }

    /// Copies records out.
    pub(crate) fn copy(&self, range: std::ops::Range<usize>) -> Self {
        let mut copied = Self::default();
        range.for_each(|index| {
            let _ = self.lend(index, |record| copied.push(&record)); // as many as there are
        });
        copied
    }

    /// Removes the records from `len` on, and returns them.
    pub(crate) fn split_off(&mut self, len: usize) -> Self {
        let removed = self.copy(len..self.len());
        self.entries.truncate(len);
        let (end, headers_end) = self.entries.last().map_or((0, 0), |last| (last.end, last.headers_end));
        self.contents.truncate(end);
        self.headers.truncate(headers_end);
        removed
    }

    /// Returns memory that no record needs: nothing will be appended.
    pub(crate) fn shrink(&mut self) {
        self.entries.shrink_to_fit();
        self.contents.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_lent_as_they_were_copied() {
        let headers = [("a", Some(&b"1"[..])), ("", None), ("schl\u{fc}ssel", Some(b"")), ("a", Some(b"2"))]
            .map(|(key, value)| ProducerHeader { key, value });
        let topics: [Arc<str>; 2] = ["orders".into(), "invoices".into()];
        let fields = [None, Some(&b""[..]), Some(b"bytes")];
        let mut wanted = Vec::new();
        for key in fields {
            for value in fields {
                for headers in [&headers[..], &headers[..1], &[]] {
                    let partition = (wanted.len() % 3 > 0).then_some(wanted.len() as i32);
                    let timestamp = wanted.len() as i64;
                    wanted.push((partition, ProducerRecord { timestamp, key, value, headers }));
                }
            }
        }
        let mut records = StagedRecords::default();
        for (index, (partition, record)) in wanted.iter().enumerate() {
            let topic = &topics[index % 2];
            records.push(&StagedRecord { topic, partition: *partition, record, encoded: 100 + index });
        }
        let check = |records: &StagedRecords, from: usize, count: usize| {
            assert_eq!(records.len(), count);
            for (index, (partition, record)) in wanted.iter().enumerate().skip(from).take(count) {
                let found = records.lend(index - from, |lent| {
                    assert!(Arc::ptr_eq(lent.topic, &topics[index % 2]));
                    assert_eq!((lent.record, lent.partition, lent.encoded), (record, *partition, 100 + index));
                });
                assert!(found.is_some());
            }
            assert!(records.lend(count, |_| ()).is_none());
        };
        check(&records, 0, wanted.len());
        check(&records.copy(5..9), 5, 4);
        let bytes = records.bytes();
        let tail = records.split_off(7);
        records.shrink();
        check(&records, 0, 7);
        check(&tail, 7, wanted.len() - 7);
        assert_eq!(records.bytes() + tail.bytes(), bytes);
        let (partition, record) = &wanted[0];
        records.push(&StagedRecord { topic: &topics[0], partition: *partition, record, encoded: 100 });
        assert_eq!(records.lend(7, |lent| *lent.record == *record), Some(true));
    }
}
