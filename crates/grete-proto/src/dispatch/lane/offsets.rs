//! Offsets of a lane: its position, the tracker of its marks, and what was last returned for a commit.

use std::sync::Arc;

use crate::dispatch::job::state::JobState;
use crate::dispatch::offset_map::{MAX_METADATA, OffsetMap};
use crate::dispatch::offsets::in_flight_range::Offsets;
use crate::dispatch::offsets::shared_tracker::SharedTracker;
use crate::dispatch::offsets::tracker::OffsetTracker;
use crate::dispatch::route_config::{Concurrency, OffsetPolicy, RouteConfig};
use crate::dispatch::rows::decoded_batch::DecodedBatch;
use crate::optional::OptionalI64;

/// Position and marks of a lane.
#[derive(Debug, Default)]
pub(in crate::dispatch) struct LaneOffsets {
    /// Next offset to hand out.
    position: OptionalI64,
    /// Generation at the time when the position was set from which all marks in `tracker` count.
    first_generation: Option<u32>,
    /// Offsets beyond the start position that were marked under an earlier assignment of the partition.
    recovered_marks: Option<Arc<OffsetMap>>,
    tracker: Arc<SharedTracker>,
    /// Offset that was last returned for a commit.
    committed: OptionalI64,
    /// Marks that were last returned with `committed`; `None`: none.
    committed_map: Option<Box<OffsetMap>>,
}

/// Offset to commit, and what belongs to it.
#[derive(Debug)]
pub(in crate::dispatch) struct CommittableOffset {
    pub(in crate::dispatch) offset: i64,
    /// Leader epoch of the last record before `offset`; -1 if unknown.
    pub(in crate::dispatch) leader_epoch: i32,
    /// Generation of the position from which the records were processed; `None`: the user gave the offset.
    pub(in crate::dispatch) generation: Option<u32>,
    /// Marks beyond `offset`, as the text of an [`OffsetMap`], or empty.
    pub(in crate::dispatch) metadata: String,
}

impl LaneOffsets {
    pub(in crate::dispatch) fn tracker(&self) -> &Arc<SharedTracker> {
        &self.tracker
    }

    /// Replaces the tracker that receives marks from now on. Returns the number of records marked in the old one.
    pub(super) fn replace_tracker(&mut self, tracker: Arc<SharedTracker>) -> u64 {
        std::mem::replace(&mut self.tracker, tracker).marked_records()
    }

    pub(in crate::dispatch) fn position(&self) -> Option<i64> {
        self.position.get()
    }

    /// Moves the position forward to this offset.
    pub(in crate::dispatch) fn advance(&mut self, next_offset: i64) {
        self.position = self.position.get().max(Some(next_offset)).into();
    }

    /// Sets the start position. Returns the number of records marked in the tracker up to now.
    pub(super) fn start(
        &mut self,
        offset: i64,
        generation: u32,
        committed: bool,
        recovered_marks: OffsetMap,
        policy: &RouteConfig,
    ) -> u64 {
        self.position = Some(offset).into();
        self.first_generation = Some(generation);
        let tracker = if policy.queue { OffsetTracker::of_acquired() } else { OffsetTracker::from_offset(offset) };
        let marked = self.replace_tracker(Arc::new(SharedTracker::new(tracker)));
        let map = if policy.offset_map { recovered_marks.clone() } else { OffsetMap::default() };
        self.set_committed(committed.then_some((offset, map)));
        self.recovered_marks = (!recovered_marks.is_empty()).then(|| Arc::new(recovered_marks));
        marked
    }

    /// Forgets the position, and fences the tracker.
    pub(in crate::dispatch) fn reset(&mut self) {
        self.position = OptionalI64::NONE;
        self.first_generation = None;
        self.recovered_marks = None;
        self.tracker.fence();
    }

    /// Returns the offsets that were marked under an earlier assignment and are not handed out yet.
    pub(in crate::dispatch) fn recovered_marks(&self) -> Option<Arc<OffsetMap>> {
        self.recovered_marks.clone()
    }

    /// Records rows of a job as handed out for the first time: they are open from now on, or, at most once, done.
    pub(in crate::dispatch) fn hand_out(&mut self, job: &JobState, batch: &DecodedBatch, policy: &RouteConfig) {
        let outlives = policy.concurrency != Concurrency::Partition || policy.offsets == OffsetPolicy::Manual;
        let once = policy.offsets == OffsetPolicy::AtMostOnce;
        // The tracker of a job that was fenced meanwhile is not used any more: its error is ignored.
        let _ = job.tracker.with(|tracker| {
            if once {
                tracker.hand_out_done(batch.next_offset, batch.leader_epoch);
            } else {
                let (offsets, timestamp) = (Offsets::from_batch(batch, outlives), batch.first_timestamp());
                tracker.hand_out(offsets, batch.next_offset, batch.leader_epoch, timestamp);
            }
        });
        let all_passed = |map: &OffsetMap| map.runs().last().is_none_or(|run| run.end <= batch.next_offset);
        if self.recovered_marks.as_deref().is_some_and(all_passed) {
            self.recovered_marks = None;
        }
    }

    /// Returns the offset to commit if it or its metadata has changed since the last call, or if `all` is set; else
    /// `None`.
    pub(in crate::dispatch) fn take_committable(
        &mut self,
        all: bool,
        policy: &RouteConfig,
    ) -> Option<CommittableOffset> {
        let maps = policy.offset_map;
        let nothing = OffsetMap::default();
        let already = self.recovered_marks.as_deref().unwrap_or(&nothing);
        // Fenced: the partition's new owner commits.
        let snapshot = self.tracker.with(|tracker| {
            tracker.skip_known(already);
            let map = if maps { tracker.offset_map(already) } else { OffsetMap::default() };
            (tracker.committable(), map)
        });
        let (committable, map) = snapshot.ok()?;
        let (offset, leader_epoch) = committable?;
        let map = if map.runs().iter().all(|run| run.end <= offset) { nothing } else { map };
        let metadata = if maps { map.encode(offset, MAX_METADATA) } else { String::new() };
        let unchanged = self.committed.get() == Some(offset)
            && self.committed_map.as_deref().map_or(map.is_empty(), |committed| *committed == map);
        if !all && unchanged {
            return None;
        }
        self.set_committed(Some((offset, map)));
        Some(CommittableOffset { offset, leader_epoch, generation: self.first_generation, metadata })
    }

    /// Forgets what was last returned for a commit, so that it is returned again.
    pub(in crate::dispatch) fn forget_committed(&mut self) {
        self.set_committed(None);
    }

    fn set_committed(&mut self, committed: Option<(i64, OffsetMap)>) {
        let (offset, map) = committed.unzip();
        self.committed = offset.into();
        self.committed_map = map.filter(|map| !map.is_empty()).map(Box::new);
    }
}
