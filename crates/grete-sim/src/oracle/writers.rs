//! Idempotence: no record of a producer is written twice, and the records of a partition keep their order.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct WriterCheck {
    written: BTreeSet<String>,
    /// Last number of each producer, by topic and partition.
    latest: BTreeMap<(String, String, i32), u64>,
}

impl WriterCheck {
    /// Checks a record. `stamp`: name of the producer's session, `#`, number of the record.
    pub(super) fn on_record(
        &mut self,
        topic: &str,
        partition: i32,
        stamp: &str,
        is_ordered: bool,
    ) -> Result<(), String> {
        let parsed = stamp.split_once('#').and_then(|(writer, number)| Some((writer, number.parse::<u64>().ok()?)));
        let Some((writer, number)) = parsed else { return Err(format!("{topic}-{partition} has the stamp {stamp:?}")) };
        if !self.written.insert(stamp.to_owned()) {
            return Err(format!("record {number} of {writer} is in {topic}-{partition} for the second time"));
        }
        let latest = self.latest.insert((writer.to_owned(), topic.to_owned(), partition), number);
        match latest {
            Some(latest) if latest > number && is_ordered => {
                Err(format!("record {number} of {writer} comes after record {latest} in {topic}-{partition}"))
            }
            _ => Ok(()),
        }
    }
}
