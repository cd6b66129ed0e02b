//! Copy of a record that no batch holds yet.

use grete_wire::records::{ProducerHeader, ProducerRecord};

/// Record with its bytes in one allocation: key, value, then key and value of each header.
#[derive(Debug, Clone)]
pub(in crate::producer) struct OwnedRecord {
    timestamp: i64,
    /// Length of the key; `None`: null.
    key: Option<u32>,
    /// Length of the value; `None`: a tombstone.
    value: Option<u32>,
    /// Lengths of each header's key and value.
    headers: Box<[(u32, Option<u32>)]>,
    /// The keys of headers are UTF-8.
    bytes: Box<[u8]>,
}

impl OwnedRecord {
    /// Copies a record. No field is longer than `u32::MAX`, because the caller has checked the record's size.
    pub fn new(record: &ProducerRecord<'_>) -> Self {
        let header_bytes = |header: &ProducerHeader<'_>| header.key.len() + header.value.map_or(0, <[u8]>::len);
        let fields = record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len);
        let mut bytes = Vec::with_capacity(fields + record.headers.iter().map(header_bytes).sum::<usize>());
        let mut copy = |field: &[u8]| {
            bytes.extend_from_slice(field);
            u32::try_from(field.len()).unwrap_or(u32::MAX)
        };
        let (key, value) = (record.key.map(&mut copy), record.value.map(&mut copy));
        let headers = record.headers.iter().map(|header| (copy(header.key.as_bytes()), header.value.map(&mut copy)));
        let headers = headers.collect();
        Self { timestamp: record.timestamp, key, value, headers, bytes: bytes.into() }
    }

    /// Returns the bytes of memory that the headers take beside their contents.
    pub fn headers_overhead(record: &ProducerRecord<'_>) -> usize {
        std::mem::size_of_val::<[(u32, Option<u32>)]>(&[(0, None)]) * record.headers.len()
    }

    /// Lends the record.
    pub fn with<R>(&self, then: impl FnOnce(&ProducerRecord<'_>) -> R) -> R {
        let mut rest = &*self.bytes;
        let mut take = |len: u32| {
            let (field, left) = rest.split_at_checked(len as usize).unwrap_or((rest, &[]));
            rest = left;
            field
        };
        let (key, value) = (self.key.map(&mut take), self.value.map(&mut take));
        let headers = self.headers.iter().map(|&(key, value)| ProducerHeader {
            key: std::str::from_utf8(take(key)).unwrap_or_default(),
            value: value.map(&mut take),
        });
        let headers: Vec<ProducerHeader<'_>> = headers.collect();
        then(&ProducerRecord { timestamp: self.timestamp, key, value, headers: &headers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_lent_as_they_were_copied() {
        let headers = [("a", Some(&b"1"[..])), ("", None), ("schlüssel", Some(b"")), ("a", Some(b"2"))]
            .map(|(key, value)| ProducerHeader { key, value });
        let fields = [None, Some(&b""[..]), Some(b"bytes")];
        for key in fields {
            for value in fields {
                for headers in [&headers[..], &headers[..1], &[]] {
                    let record = ProducerRecord { timestamp: 5, key, value, headers };
                    OwnedRecord::new(&record).with(|lent| assert_eq!(*lent, record));
                }
            }
        }
    }
}
