//! Transactions of exactly-once Apps: a record or an offset counts when its transaction is committed.

use std::collections::{BTreeMap, HashMap};

use grete_broker::effects::group::CommittedOffset;

/// Attributes of a batch (KIP-98).
const TRANSACTIONAL: i16 = 0x10;
pub(super) const CONTROL: i16 = 0x20;

/// Record of a transaction: topic, partition, offset and value.
pub(super) type WrittenRecord = (String, i32, i64, String);

/// Records and offsets of open transactions, by producer id.
#[derive(Debug, Default)]
pub(super) struct OpenTransactions {
    records: BTreeMap<(i64, String, i32), Vec<WrittenRecord>>,
    offsets: HashMap<i64, Vec<(i32, CommittedOffset)>>,
    /// Offsets that were committed in the step in progress. Their records may be committed later in the same step.
    pub(super) committed: Vec<(i32, CommittedOffset)>,
}

pub(super) fn is_transactional(attributes: i16) -> bool {
    attributes & TRANSACTIONAL != 0
}

impl OpenTransactions {
    pub(super) fn add_record(&mut self, producer_id: i64, record: WrittenRecord) {
        self.records.entry((producer_id, record.0.clone(), record.1)).or_default().push(record);
    }

    pub(super) fn add_offset(&mut self, producer_id: i64, partition: i32, offset: &CommittedOffset) {
        self.offsets.entry(producer_id).or_default().push((partition, offset.clone()));
    }

    /// Takes the records of a partition whose transaction ends there.
    pub(super) fn end_records(&mut self, producer_id: i64, topic: &str, partition: i32) -> Vec<WrittenRecord> {
        self.records.remove(&(producer_id, topic.to_owned(), partition)).unwrap_or_default()
    }

    pub(super) fn end_offsets(&mut self, producer_id: i64, commit: bool) {
        let offsets = self.offsets.remove(&producer_id).unwrap_or_default();
        if commit {
            self.committed.extend(offsets);
        }
    }

    /// Describes what is left open; `None`: nothing.
    pub(super) fn hanging(&self) -> Option<String> {
        self.records.keys().next().map(|(producer, topic, partition)| {
            format!("the transaction of producer {producer} hangs in {topic}-{partition}")
        })
    }
}
