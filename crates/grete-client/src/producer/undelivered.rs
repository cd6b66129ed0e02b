//! Records that a closing producer left undelivered.

use std::collections::BTreeMap;

/// Records that were dropped while the producer closed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Undelivered {
    /// Records by topic.
    pub by_topic: BTreeMap<String, u64>,
    /// Records that no broker has written.
    pub not_written: u64,
    /// Records that may have been written.
    pub unknown: u64,
}

impl Undelivered {
    /// Returns the number of undelivered records.
    pub fn count(&self) -> u64 {
        self.not_written + self.unknown
    }

    pub(super) fn add(&mut self, topic: &str, records: u64, unknown: bool) {
        *self.by_topic.entry(topic.to_owned()).or_default() += records;
        *(if unknown { &mut self.unknown } else { &mut self.not_written }) += records;
    }
}
