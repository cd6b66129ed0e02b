//! Committed offsets: nothing is committed that is not done, and no offset goes back.

use std::collections::BTreeMap;

use grete_broker::effects::group::CommittedOffset;
use grete_broker::effects::share_group::StoredRange;
use grete_proto::dispatch::OffsetMap;

use super::input::InputLog;
use crate::plan::INPUT;

#[derive(Debug, Default)]
pub(super) struct CommitCheck {
    committed: BTreeMap<i32, i64>,
}

impl CommitCheck {
    pub(super) fn on_commit(
        &mut self,
        input: &mut InputLog,
        partition: i32,
        committed: &CommittedOffset,
    ) -> Result<(), String> {
        let before = self.committed.insert(partition, committed.offset).unwrap_or(0);
        if committed.offset < before {
            return Err(format!("the offset of {INPUT}-{partition} goes back from {before} to {}", committed.offset));
        }
        if let Some(open) = input.first_open(partition, before, committed.offset) {
            let record = input.describe(partition, open);
            return Err(format!("offset {} is committed, and not done is {record}", committed.offset));
        }
        let marks = OffsetMap::decode(committed.offset, &committed.metadata);
        for run in marks.runs() {
            if let Some(open) = input.first_open(partition, run.start, run.end) {
                let record = input.describe(partition, open);
                return Err(format!("the offset map of {} has {run:?}, and not done is {record}", committed.offset));
            }
        }
        Ok(())
    }

    /// Checks a change of a share group: no record is done that is not processed.
    pub(super) fn on_shared(
        &mut self,
        input: &InputLog,
        partition: i32,
        start: i64,
        ranges: &[StoredRange],
    ) -> Result<(), String> {
        let before = self.committed.insert(partition, start).unwrap_or(0);
        if start < before {
            return Err(format!("the start offset of {INPUT}-{partition} goes back from {before} to {start}"));
        }
        for range in ranges.iter().filter(|range| range.deliveries.is_none()) {
            if let Some(open) = input.first_open(partition, range.first, range.last + 1) {
                let record = input.describe(partition, open);
                return Err(format!("{range:?} is done for the share group, and not done is {record}"));
            }
        }
        Ok(())
    }

    pub(super) fn unsettled(&self, input: &InputLog) -> Option<String> {
        input.ends().find_map(|(partition, end)| {
            let committed = self.committed.get(&partition).copied().unwrap_or(0);
            let open = input.first_open(partition, 0, end).map(|open| input.describe(partition, open));
            (committed < end || open.is_some()).then(|| {
                let open = open.unwrap_or_else(|| "none".to_owned());
                format!("{INPUT}-{partition} is committed up to {committed} of {end}; first open: {open}")
            })
        })
    }
}
