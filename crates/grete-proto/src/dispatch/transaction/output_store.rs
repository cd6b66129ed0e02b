//! Staged records of ended jobs, until the transaction that has them is committed.
//!
//! Invariant: the offset that is committed for a partition covers just the rows whose records the same transaction has,
//! or earlier ones. Records are therefore kept with their rows, and dropped only with the rows' marks.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::dispatch::ids::LaneId;
use crate::dispatch::job::staging::EndedStaging;
use crate::group::CommitOffset;
use crate::ids::TopicPartition;
use crate::producer::{StagedOutputs, StagingBudget};

/// Records of ended jobs of one client, by lane.
#[derive(Debug)]
pub(in crate::dispatch) struct OutputStore {
    budget: Arc<StagingBudget>,
    lanes: BTreeMap<LaneId, LaneOutputs>,
    /// Epoch of the last assignment of each partition that was lost: its records are dropped.
    lost: BTreeMap<TopicPartition, u32>,
    in_flight: Option<InFlightTransaction>,
}

/// Transaction in flight.
#[derive(Debug)]
pub(in crate::dispatch) struct InFlightTransaction {
    number: u32,
    /// Lane of each of its outputs, with the last offset of their rows.
    pub(in crate::dispatch) lanes: Vec<(LaneId, Option<i64>)>,
    /// Partitions whose offsets it has.
    pub(in crate::dispatch) partitions: Vec<TopicPartition>,
}

/// Records of a lane's jobs, in the order in which the jobs ended.
#[derive(Debug)]
struct LaneOutputs {
    tp: TopicPartition,
    assignment_epoch: u32,
    groups: Vec<OutputGroup>,
    /// Offset that was last returned for a commit.
    returned: Option<i64>,
    /// Offset up to which all rows were done then; `returned` may be lower, because an offset divides no job.
    done_before: i64,
    /// The lane is gone: what its last commit does not take is dropped.
    has_left: bool,
    /// Jobs with rows before this offset end after a trial: no broker takes a record of one of them.
    trial_before: i64,
}

#[derive(Debug)]
struct OutputGroup {
    /// First and last offset of the rows; `None`: the records belong to no row, and any transaction takes them.
    rows: Option<(i64, i64)>,
    outputs: Arc<StagedOutputs>,
    /// Transaction that has the records; 0: none.
    sent_in: u32,
}

impl OutputStore {
    pub(in crate::dispatch) fn new(budget: Arc<StagingBudget>) -> Self {
        Self { budget, lanes: BTreeMap::new(), lost: BTreeMap::new(), in_flight: None }
    }

    pub(in crate::dispatch) fn budget(&self) -> &Arc<StagingBudget> {
        &self.budget
    }

    /// Adds a lane, before its first job.
    pub(in crate::dispatch) fn add_lane(&mut self, id: LaneId, tp: &TopicPartition, assignment_epoch: u32) {
        let outputs = LaneOutputs {
            tp: tp.clone(),
            assignment_epoch,
            groups: Vec::new(),
            returned: None,
            done_before: i64::MIN,
            has_left: false,
            trial_before: i64::MIN,
        };
        self.lanes.insert(id, outputs);
    }

    /// Adds the records of a job that has ended.
    pub(in crate::dispatch) fn deposit(&mut self, id: LaneId, ended: EndedStaging) {
        let Some(lane) = self.lanes.get_mut(&id).filter(|lane| !lane.has_left) else { return };
        for (rows, mut outputs) in ended.groups {
            outputs.end_job();
            lane.groups.push(OutputGroup { rows, outputs: Arc::new(outputs), sent_in: 0 });
        }
    }

    /// Returns the greatest offset up to `offset` that divides the rows of no job.
    ///
    /// Rows of concurrent jobs interleave. A job whose rows lie on both sides of an offset would be committed in part.
    /// One pass from the last job to the first is enough: a job that was passed lies behind the offset as a whole.
    pub(in crate::dispatch) fn cut(&self, id: LaneId, offset: i64) -> i64 {
        let Some(lane) = self.lanes.get(&id) else { return offset };
        let mut rows: Vec<(i64, i64)> = lane.groups.iter().filter_map(|group| group.rows).collect();
        rows.sort_unstable_by(|a, b| b.cmp(a));
        rows.into_iter().fold(offset, |cut, (first, last)| if first < cut && cut <= last { first } else { cut })
    }

    /// Returns whether jobs end, and none can be committed: each offset up to which all rows are done divides a job.
    ///
    /// `done_before` is such an offset, and `cut` what is left of it. Concurrent jobs that always overlap would go on like
    /// this without end. A lane that waits for one slow job is another case: there, `done_before` stands still.
    pub(in crate::dispatch) fn is_divided_again(&mut self, id: LaneId, done_before: i64, cut: i64) -> bool {
        let Some(lane) = self.lanes.get_mut(&id) else { return false };
        let before = std::mem::replace(&mut lane.done_before, done_before);
        cut < done_before && before < done_before && lane.returned == Some(cut)
    }

    /// Returns whether a lane has something to commit at `offset`, and remembers that the offset is returned for a
    /// commit.
    pub(in crate::dispatch) fn on_returned(&mut self, id: LaneId, offset: i64, all: bool) -> bool {
        let Some(lane) = self.lanes.get_mut(&id) else { return false };
        let has_new = lane.groups.iter().any(|group| group.sent_in == 0 && group.is_within(offset));
        let is_new = lane.returned != Some(offset);
        lane.returned = Some(offset);
        all || is_new || has_new
    }

    /// Sets the offset that the group has for the lane.
    pub(in crate::dispatch) fn set_committed(&mut self, id: LaneId, offset: Option<i64>) {
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.returned = offset;
        }
    }

    /// Begins a transaction with these offsets. Returns the records that belong to them, in order. Removes the offsets of
    /// partitions that were lost while the transaction waited for the one before: without their records, the offsets
    /// would skip what was never written.
    pub(in crate::dispatch) fn begin(
        &mut self,
        number: u32,
        offsets: &mut Vec<CommitOffset>,
    ) -> Vec<Arc<StagedOutputs>> {
        offsets.retain(|offset| self.lost.get(&offset.tp).is_none_or(|lost| offset.epoch > *lost));
        let (mut lanes, mut taken) = (Vec::new(), Vec::new());
        for (id, lane) in &mut self.lanes {
            let is_it = |offset: &&CommitOffset| offset.tp == lane.tp && offset.epoch == lane.assignment_epoch;
            let Some(CommitOffset { offset, .. }) = offsets.iter().find(is_it) else { continue };
            for group in lane.groups.iter_mut().filter(|group| group.is_within(*offset)) {
                group.sent_in = number;
                lanes.push((*id, group.rows.map(|(_, last)| last)));
                taken.push(Arc::clone(&group.outputs));
            }
        }
        let partitions = offsets.iter().map(|offset| offset.tp.clone()).collect();
        self.in_flight = Some(InFlightTransaction { number, lanes, partitions });
        taken
    }

    /// Ends the transaction with this number; `None`: there is none.
    pub(in crate::dispatch) fn end(&mut self, number: u32) -> Option<InFlightTransaction> {
        self.in_flight.take_if(|transaction| transaction.number == number)
    }

    /// Returns the lanes of these partitions.
    pub(in crate::dispatch) fn lanes_of(&self, partitions: &[TopicPartition]) -> Vec<LaneId> {
        let lanes = self.lanes.iter().filter(|(_, lane)| partitions.contains(&lane.tp));
        lanes.map(|(id, _)| *id).collect()
    }

    /// Returns whether a job ends only after a trial of its records. `first`: offset of its first row.
    pub(in crate::dispatch) fn needs_trial(&self, id: LaneId, first: i64) -> bool {
        self.lanes.get(&id).is_some_and(|lane| first < lane.trial_before)
    }

    /// Drops all records of a lane, because no broker takes one of them: one of a job with rows up to `last`. Returns the
    /// partition.
    pub(in crate::dispatch) fn refuse(&mut self, id: LaneId, last: Option<i64>) -> Option<TopicPartition> {
        if let (Some(lane), Some(last)) = (self.lanes.get_mut(&id), last) {
            lane.trial_before = lane.trial_before.max(last + 1);
        }
        let tp = self.lanes.get(&id).map(|lane| lane.tp.clone());
        self.clear(id);
        tp
    }

    /// Drops the records of a transaction that is committed.
    pub(in crate::dispatch) fn on_committed(&mut self, transaction: u32) {
        self.lanes.values_mut().for_each(|lane| lane.groups.retain(|group| group.sent_in != transaction));
        self.drop_left();
    }

    /// Keeps the records of a transaction that was aborted, for the next one.
    pub(in crate::dispatch) fn on_aborted(&mut self, transaction: u32) {
        let groups = self.lanes.values_mut().flat_map(|lane| &mut lane.groups);
        groups.filter(|group| group.sent_in == transaction).for_each(|group| group.sent_in = 0);
    }

    /// The offset of a partition will not be committed: it is returned again. A lane that has left is dropped.
    pub(in crate::dispatch) fn on_commit_failed(&mut self, tp: &TopicPartition) {
        for lane in self.lanes.values_mut().filter(|lane| lane.tp == *tp) {
            lane.returned = None;
            if lane.has_left {
                lane.groups.clear();
            }
        }
        self.drop_left();
    }

    /// The lane is gone. `commits`: its last offset is about to be committed.
    pub(in crate::dispatch) fn on_left(&mut self, id: LaneId, commits: Option<i64>) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        lane.has_left = true;
        lane.groups.retain(|group| group.sent_in != 0 || commits.is_some_and(|offset| group.is_within(offset)));
        self.drop_left();
    }

    /// Drops all records of a lane, because the marks of their rows do not count. The lane goes on.
    pub(in crate::dispatch) fn clear(&mut self, id: LaneId) {
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.groups.clear();
            lane.returned = None;
        }
        self.drop_left();
    }

    /// The position of a lane moves. Records whose rows are about to be committed go with the next transaction; the
    /// others are dropped, as the marks of their rows are.
    pub(in crate::dispatch) fn on_reset(&mut self, id: LaneId) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        let returned = lane.returned.take();
        lane.groups.retain(|group| group.sent_in != 0 || returned.is_some_and(|offset| group.is_within(offset)));
        lane.groups.iter_mut().for_each(|group| group.rows = None);
    }

    /// Drops all records of a lane that is gone.
    pub(in crate::dispatch) fn drop_lane(&mut self, id: LaneId) {
        if let Some(LaneOutputs { tp, assignment_epoch, .. }) = self.lanes.remove(&id) {
            let epoch = self.lost.entry(tp).or_default();
            *epoch = assignment_epoch.max(*epoch);
        }
    }

    /// Drops everything.
    pub(in crate::dispatch) fn drop_all(&mut self) {
        self.lanes.clear();
    }

    fn drop_left(&mut self) {
        self.lanes.retain(|_, lane| !lane.has_left || !lane.groups.is_empty());
    }
}

impl OutputGroup {
    /// Returns whether a transaction that commits `offset` takes the records.
    fn is_within(&self, offset: i64) -> bool {
        self.rows.is_none_or(|(_, last)| last < offset)
    }
}
