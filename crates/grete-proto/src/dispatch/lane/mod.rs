//! Lane: one route's records of one assigned partition in this process.
//!
//! - `fetch`: fetched data, and what is known about the partition's log.
//! - `rows`, `unit`, `unit_table`: decoded rows that wait for jobs.
//! - `offsets`: position and marks.
//! - `schedule`, `hooks`: jobs that are ready or in flight, and hooks of the whole lane.
//! - `unmarked_pauses`, `stats`: reports and counters.

mod fetch;
mod hooks;
mod offsets;
mod rows;
mod schedule;
mod stats;
mod unit;
mod unit_table;
mod unmarked_pauses;

use std::sync::Arc;

use super::ids::{ClientId, LaneId};
use super::job::JobKind;
use super::job::state::JobState;
use super::offset_map::OffsetMap;
use super::offsets::shared_tracker::SharedTracker;
use super::offsets::tracker::PendingKind;
use super::queue::ready_queue::ReadyKind;
use super::queue::timers::Timers;
use super::route_config::{Concurrency, OffsetPolicy, RouteConfig};
use super::rows::decoded_batch::DecodedBatch;
use super::rows::row_slice::RowSlice;
use super::stats::RouteStats;
use crate::ids::{PartitionHandle, TopicPartition};
use crate::time::Nanos;
use fetch::LaneFetch;
use hooks::LaneHooks;
use offsets::LaneOffsets;
use rows::LaneRows;
use schedule::LaneSchedule;
use stats::LaneStats;
use unit::Unit;
use unmarked_pauses::UnmarkedPauses;

/// Constructor arguments of a lane.
#[derive(Debug, Clone)]
pub struct LaneSpec {
    /// Client that fetches the partition.
    pub client: ClientId,
    /// Index of the partition in the fetcher.
    pub handle: PartitionHandle,
    /// Topic and partition.
    pub tp: TopicPartition,
    /// Epoch of the assignment that contains the partition.
    pub assignment_epoch: u32,
    /// Settings of the route.
    pub policy: Arc<RouteConfig>,
}

/// Error that keeps a partition from being read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneFailure {
    /// Reason in one word: see [`PartitionError::reason`](crate::partition::error::PartitionError::reason).
    pub reason: &'static str,
    /// Error text for people.
    pub error: Arc<str>,
    /// Start of the failure.
    pub since: Nanos,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Active,
    Leaving {
        lost: bool,
    },
    Stopping,
    /// Past the revocation deadline, with jobs still running.
    Abandoned,
    /// Stopped; kept for its last offset.
    Finished,
}

/// State of one lane. Its parts are independent of each other; the methods here combine them.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) id: LaneId,
    pub(super) spec: LaneSpec,
    pub(super) phase: Phase,
    /// Error that keeps the partition from being read now.
    pub(super) failure: Option<Box<LaneFailure>>,
    pub(super) fetch: LaneFetch,
    pub(super) rows: LaneRows,
    pub(super) offsets: LaneOffsets,
    pub(super) schedule: LaneSchedule,
    pub(super) hooks: LaneHooks,
    pub(super) pauses: UnmarkedPauses,
    pub(super) stats: LaneStats,
}

impl Lane {
    /// Creates a lane. `stats_index`: index of the route's counters.
    pub(super) fn new(id: LaneId, spec: LaneSpec, stats_index: usize, predecessor: Option<LaneId>, now: Nanos) -> Self {
        Self {
            id,
            spec,
            phase: Phase::Active,
            failure: None,
            fetch: LaneFetch::default(),
            rows: LaneRows::default(),
            offsets: LaneOffsets::default(),
            schedule: LaneSchedule::new(predecessor),
            hooks: LaneHooks::new(now),
            pauses: UnmarkedPauses::default(),
            stats: LaneStats::new(stats_index),
        }
    }

    pub(super) fn policy(&self) -> &RouteConfig {
        &self.spec.policy
    }

    /// Returns whether records of one partition run concurrently, by key or unordered.
    pub(super) fn is_sharded(&self) -> bool {
        self.spec.policy.concurrency != Concurrency::Partition
    }

    /// Returns whether the rows and the decode queue of a job still belong to the lane.
    pub(super) fn is_current(&self, job: &JobState) -> bool {
        self.phase == Phase::Active && Arc::ptr_eq(&job.tracker, self.offsets.tracker()) && !job.is_fenced()
    }

    /// Records rows of a job as handed out for the first time: they are open from now on, or, at most once, done.
    pub(super) fn hand_out(&mut self, job: &JobState, batch: &DecodedBatch) {
        self.offsets.hand_out(job, batch, &self.spec.policy);
    }

    /// Sets the start position, with a new tracker.
    pub(super) fn start_at(&mut self, offset: i64, generation: u32, committed: bool, recovered_marks: OffsetMap) {
        self.fetch.set_generation(generation);
        let marked = self.offsets.start(offset, generation, committed, recovered_marks, &self.spec.policy);
        self.stats.on_tracker_replaced(marked);
    }

    /// Replaces the tracker that receives marks from now on.
    pub(super) fn replace_tracker(&mut self, tracker: Arc<SharedTracker>) {
        let marked = self.offsets.replace_tracker(tracker);
        self.stats.on_tracker_replaced(marked);
    }

    /// Adds what was done since the last call to the route's counters.
    pub(super) fn flush_stats(&mut self, now: Nanos, stats: &mut RouteStats) {
        self.stats.flush(now, self.offsets.tracker().marked_records(), stats);
    }

    /// At most once: counts rows that are dropped without an outcome from the handler as skipped. Rows that were handed
    /// out are past the committable offset and are not read again.
    pub(super) fn skip_at_most_once(&mut self, rows: usize) {
        if self.policy().offsets == OffsetPolicy::AtMostOnce && !self.offsets.tracker().is_fenced() {
            self.stats.add_skipped(rows);
        }
    }

    /// Drops a slot's unit that has nothing left, to free its memory. (The only unit of a lane without slots is kept
    /// for the next job.)
    pub(super) fn drop_idle_unit(&mut self, slot: u32) {
        if self.is_sharded() {
            self.rows.drop_idle_unit(slot);
        }
    }

    /// Clears the timers of the whole lane, before its removal.
    pub(super) fn clear_timers(&mut self, timers: &mut Timers) {
        self.schedule.clear_pause_timer(timers, self.id);
        self.hooks.set_tick_timer(timers, self.id, None);
        self.pauses.clear_timer(timers, self.id);
    }

    // ---- entries of the ready queue

    pub(super) fn is_queued(&self, claim: ReadyKind) -> bool {
        match claim {
            ReadyKind::Unit(slot) => self.rows.is_queued(slot),
            ReadyKind::Unkeyed => self.schedule.queued.unkeyed,
            ReadyKind::Decode => self.schedule.queued.decode,
            ReadyKind::LaneHook => self.schedule.queued.hook,
        }
    }

    pub(super) fn set_queued(&mut self, claim: ReadyKind, queued: bool) {
        match claim {
            ReadyKind::Unit(slot) => self.rows.set_queued(slot, queued),
            ReadyKind::Unkeyed => self.schedule.queued.unkeyed = queued,
            ReadyKind::Decode => self.schedule.queued.decode = queued,
            ReadyKind::LaneHook => self.schedule.queued.hook = queued,
        }
    }

    /// Returns whether the lane has an entry in the ready queue.
    pub(super) fn is_ready(&self) -> bool {
        self.rows.has_ready_unit() || self.schedule.queued.any()
    }

    // ---- what may run

    /// Returns the job that a worker would run now for this kind of entry.
    pub(super) fn runnable_job(&self, claim: ReadyKind, now: Nanos) -> Option<JobKind> {
        match claim {
            ReadyKind::LaneHook => self.lane_hook_due(now),
            _ if self.phase != Phase::Active || !self.schedule.is_open() => None,
            ReadyKind::Unit(slot) => self.unit_due(slot, now).then_some(JobKind::Consume),
            ReadyKind::Unkeyed => (self.rows.has_unkeyed() && self.free_slot().is_some()).then_some(JobKind::Consume),
            ReadyKind::Decode => self.decode_due(now).then_some(JobKind::Decode),
        }
    }

    /// Returns the lowest free slot; `None`: all are busy.
    pub(super) fn free_slot(&self) -> Option<u32> {
        self.rows.free_slot(self.policy().key_slots)
    }

    fn unit_due(&self, slot: u32, now: Nanos) -> bool {
        let unit = self.rows.unit(slot);
        if unit.is_some_and(|unit| !unit.is_free()) {
            return false;
        }
        unit.is_some_and(Unit::has_rows) || (!self.is_sharded() && self.decode_queue_due(now))
    }

    fn decode_due(&self, now: Nanos) -> bool {
        self.is_sharded() && self.decode_window() > 0 && self.decode_queue_due(now)
    }

    /// Returns how many rows may be decoded now; 0: none.
    pub(super) fn decode_window(&self) -> usize {
        if self.schedule.has_barrier() && self.rows.in_flight() > 0 {
            return 0;
        }
        let open = self.rows.decode_window(self.policy(), !self.schedule.has_jobs());
        if open > 0 { open.min(self.unmarked_room()) } else { 0 }
    }

    /// Returns how many rows may be handed out before `max_unmarked` is exceeded.
    fn unmarked_room(&self) -> usize {
        match self.pending_records() {
            Some((count, _)) => self.policy().max_unmarked.saturating_sub(count) + 1,
            None => usize::MAX,
        }
    }

    /// Returns whether the decode queue has data for a job now and may be taken.
    fn decode_queue_due(&self, now: Nanos) -> bool {
        self.fetch.is_due(now, self.policy()) && self.below_unmarked_limit()
    }

    /// Returns which records `max_unmarked` limits; `None`: none.
    ///
    /// With slots, other slots continue while one slot is stuck, and the committable offset is stuck with that slot.
    /// Records that they process meanwhile are processed again after a crash, so the records since the first open one
    /// count.
    fn pending_kind(&self) -> Option<PendingKind> {
        match (self.is_sharded(), self.policy().offsets) {
            (true, _) => Some(PendingKind::FromFirstUnmarked),
            (false, OffsetPolicy::Manual) => Some(PendingKind::Unmarked),
            (false, _) => None,
        }
    }

    /// Returns how many records count for `max_unmarked`, and the first open offset.
    pub(super) fn pending_records(&self) -> Option<(usize, Option<i64>)> {
        let measure = self.pending_kind()?;
        let tracker = self.offsets.tracker();
        tracker.with(|tracker| (tracker.pending_records(measure), tracker.first_open())).ok()
    }

    /// Returns whether the records that count are within `max_unmarked`. If not, the tracker signals when they are.
    fn below_unmarked_limit(&self) -> bool {
        let Some(measure) = self.pending_kind() else { return true };
        let limit = self.policy().max_unmarked;
        self.offsets.tracker().with(|tracker| tracker.wait_until_below(measure, limit)).unwrap_or(true)
    }

    /// Returns the number of records, and the first open offset, that keep the decode queue from being taken.
    pub(super) fn blocking_unmarked(&self) -> Option<(usize, i64)> {
        if !self.fetch.has_data() {
            return None;
        }
        let (count, first) = self.pending_records()?;
        Some((count, first?)).filter(|(count, _)| *count > self.policy().max_unmarked)
    }

    fn lane_hook_due(&self, now: Nanos) -> Option<JobKind> {
        if self.schedule.has_jobs() {
            return None;
        }
        match self.phase {
            Phase::Leaving { lost } => self.end_hook_due().then_some(JobKind::Revoked { lost }),
            Phase::Abandoned => self.end_hook_due().then_some(JobKind::Revoked { lost: true }),
            Phase::Stopping => self.end_hook_due().then_some(JobKind::Shutdown),
            Phase::Finished => None,
            Phase::Active if self.schedule.has_predecessor() => None,
            Phase::Active if self.is_idle() && !self.schedule.is_paused() && self.eof_due() => Some(JobKind::Eof),
            Phase::Active => self.tick_due(now).then_some(JobKind::Tick),
        }
    }

    /// Returns whether the lane's end must still run a hook.
    pub(super) fn end_hook_due(&self) -> bool {
        self.hooks.is_end_hook_due(&self.spec.policy)
    }

    /// Returns whether the tick is due. A lane that has records and hands none out ticks, too: it may wait for an
    /// action of the tick, such as marks or the end of a pause.
    fn tick_due(&self, now: Nanos) -> bool {
        self.tick_at().is_some_and(|at| at <= now)
            && (self.is_idle() || self.schedule.is_paused() || self.blocking_unmarked().is_some())
    }

    /// Returns when the next tick is due if the lane stays idle; `None`: the route has no ticks.
    pub(super) fn tick_at(&self) -> Option<Nanos> {
        self.hooks.tick_at(&self.spec.policy)
    }

    /// Returns whether the lane waits for nothing but data.
    pub(super) fn is_idle(&self) -> bool {
        !self.schedule.has_jobs() && self.rows.in_flight() == 0 && self.fetch.is_empty()
    }

    fn eof_due(&self) -> bool {
        self.policy().eof && self.fetch.is_eof_due(self.offsets.position())
    }

    // ---- dropped rows

    /// Drops fetched rows and rows that wait for units, and clears the timers of both. Returns the released bytes.
    pub(super) fn drop_rows(&mut self, timers: &mut Timers) -> usize {
        let fetched = self.fetch.drop_queued();
        if self.policy().queue {
            let waiting: Vec<i64> = self.rows.waiting_offsets().collect();
            self.release_acquired(waiting.into_iter());
            self.release_undecoded();
        }
        let (rows, waiting) = self.rows.drop_waiting();
        self.skip_at_most_once(rows);
        self.fetch.clear_timer(timers, self.id);
        self.rows.clear_retry_timers(timers, self.id);
        if self.is_sharded() {
            self.rows.drop_idle_units();
        }
        fetched + waiting
    }

    /// Takes the row for a dead letter. Returns the row, and the bytes released by the rows before it.
    ///
    /// Rows before it are dropped at most once only: they are not retried.
    pub(super) fn take_dead_letter(&mut self, slot: u32, offset: i64) -> (Option<RowSlice>, usize) {
        let row = self.rows.unit_mut(slot).take_row(offset);
        if self.policy().offsets != OffsetPolicy::AtMostOnce {
            return (row, 0);
        }
        let (rows, bytes) = self.rows.drop_before(slot, offset);
        self.skip_at_most_once(rows);
        (row, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lane exists for each assigned partition, and there may be ten thousand. State that few lanes have at a time is
    /// boxed.
    #[test]
    fn a_lane_is_small() {
        let sizes = [
            size_of::<LaneSpec>(),
            size_of::<LaneFetch>(),
            size_of::<LaneRows>(),
            size_of::<LaneOffsets>(),
            size_of::<LaneSchedule>(),
            size_of::<LaneHooks>(),
            size_of::<UnmarkedPauses>(),
            size_of::<LaneStats>(),
        ];
        assert!(size_of::<Lane>() <= 360, "{} bytes, of which {sizes:?}", size_of::<Lane>());
        assert!(size_of::<SharedTracker>() <= 120, "{} bytes", size_of::<SharedTracker>());
        assert!(size_of::<Unit>() <= 56, "{} bytes", size_of::<Unit>());
    }
}
