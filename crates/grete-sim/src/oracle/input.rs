//! Records of the input topic, and what became of each.

use std::collections::BTreeMap;

use super::{Origin, is_poison};
use crate::plan::{INPUT, RecordPlan};

#[derive(Debug)]
struct InputRecord {
    plan: RecordPlan,
    /// Whether each output is written.
    outputs: Vec<bool>,
    is_handled: bool,
    is_dead_letter: bool,
}

impl InputRecord {
    /// Returns whether the record's effect is stored, so that its offset may be committed.
    fn is_done(&self) -> bool {
        let has_effect = if self.outputs.is_empty() { self.is_handled } else { self.outputs.iter().all(|done| *done) };
        self.is_dead_letter || (has_effect && !is_poison(&self.plan))
    }
}

#[derive(Debug, Default)]
pub(super) struct InputLog {
    partitions: BTreeMap<i32, BTreeMap<i64, InputRecord>>,
    /// Last output that was written for the first time, by partition and key.
    latest: BTreeMap<(i32, u8), Origin>,
}

impl InputLog {
    pub(super) fn append(&mut self, partition: i32, offset: i64, plan: RecordPlan) {
        let outputs = vec![false; plan.outputs as usize];
        let record = InputRecord { plan, outputs, is_handled: false, is_dead_letter: false };
        self.partitions.entry(partition).or_default().insert(offset, record);
    }

    pub(super) fn len(&self) -> usize {
        self.partitions.values().map(BTreeMap::len).sum()
    }

    fn get_mut(&mut self, partition: i32, offset: i64) -> Option<&mut InputRecord> {
        self.partitions.get_mut(&partition)?.get_mut(&offset)
    }

    pub(super) fn on_handled(&mut self, partition: i32, offset: i64) {
        if let Some(record) = self.get_mut(partition, offset) {
            record.is_handled = true;
        }
    }

    /// Checks that an output or a dead letter is the only effect of its record.
    pub(super) fn check_once(&mut self, is_output: bool, origin: Origin) -> Result<(), String> {
        let Origin { partition, offset, number } = origin;
        let Some(record) = self.get_mut(partition, offset) else { return Ok(()) };
        let place = || format!("{INPUT}-{partition} offset {offset}");
        match is_output {
            true if record.outputs.get(number as usize) == Some(&true) => {
                Err(format!("output {number} of {} is committed twice", place()))
            }
            true if record.is_dead_letter => Err(format!("{} has an output, and is a dead letter", place())),
            false if record.is_dead_letter => Err(format!("{} is a dead letter twice", place())),
            false if record.outputs.contains(&true) => Err(format!("{} is a dead letter, and has outputs", place())),
            _ => Ok(()),
        }
    }

    pub(super) fn on_output(&mut self, origin: Origin, is_ordered: bool) -> Result<(), String> {
        let Origin { partition, offset, number } = origin;
        let unknown = || format!("an output names {INPUT}-{partition} offset {offset}, which has no output {number}");
        let record = self.get_mut(partition, offset).ok_or_else(unknown)?;
        let written = record.outputs.get_mut(number as usize).ok_or_else(unknown)?;
        let is_first = !std::mem::replace(written, true);
        // A dead letter leaves the order. Its record may succeed when the member works through the partition again.
        let is_ordered = is_ordered && !record.is_dead_letter;
        let Some(key) = record.plan.key.filter(|_| is_first && is_ordered) else { return Ok(()) };
        let latest = self.latest.insert((partition, key), origin);
        match latest {
            Some(latest) if latest > origin => Err(format!(
                "order of key {key}: the output of {INPUT}-{partition} offset {offset} comes after that of offset {}",
                latest.offset
            )),
            _ => Ok(()),
        }
    }

    /// `may_die`: whether a record may become a dead letter.
    pub(super) fn on_dead_letter(
        &mut self,
        origin: Origin,
        may_die: impl Fn(&RecordPlan) -> bool,
    ) -> Result<(), String> {
        let Origin { partition, offset, .. } = origin;
        let record = self
            .get_mut(partition, offset)
            .ok_or_else(|| format!("a dead letter names {INPUT}-{partition} offset {offset}, which does not exist"))?;
        record.is_dead_letter = true;
        if may_die(&record.plan) {
            return Ok(());
        }
        Err(format!(
            "{INPUT}-{partition} offset {offset} ({:?}) is a dead letter, although a retry would succeed",
            record.plan.nature
        ))
    }

    /// Returns the first record before `end` whose effect is not stored.
    pub(super) fn first_open(&self, partition: i32, from: i64, end: i64) -> Option<i64> {
        let records = self.partitions.get(&partition)?;
        records.range(from..end.max(from)).find(|(_, record)| !record.is_done()).map(|(offset, _)| *offset)
    }

    /// Returns each partition with the offset after its last record.
    pub(super) fn ends(&self) -> impl Iterator<Item = (i32, i64)> {
        self.partitions
            .iter()
            .map(|(partition, records)| (*partition, records.last_key_value().map_or(0, |(offset, _)| offset + 1)))
    }

    /// Describes a record for a report.
    pub(super) fn describe(&self, partition: i32, offset: i64) -> String {
        match self.partitions.get(&partition).and_then(|records| records.get(&offset)) {
            Some(InputRecord { plan, outputs, is_handled, is_dead_letter }) => format!(
                "{INPUT}-{partition} offset {offset} (record {}, {:?}, outputs {outputs:?}, handled: {is_handled}, dead \
                 letter: {is_dead_letter})",
                plan.id, plan.nature
            ),
            None => format!("{INPUT}-{partition} offset {offset}, which does not exist"),
        }
    }
}
