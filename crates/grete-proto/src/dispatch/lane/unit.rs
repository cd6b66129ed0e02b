//! Unit of scheduling: a lane, or one of its slots.

use std::collections::VecDeque;

use crate::dispatch::ids::LaneId;
use crate::dispatch::queue::timers::{Timer, Timers};
use crate::dispatch::retry::failure::{Decision, Failure};
use crate::dispatch::retry::{NextRun, RetryState};
use crate::dispatch::route_config::RouteConfig;
use crate::dispatch::rows::row_slice::RowSlice;
use crate::optional::OptionalNanos;
use crate::rng::Rng;
use crate::time::Nanos;

/// Waiting rows and state of one slot.
#[derive(Debug, Default)]
pub(in crate::dispatch) struct Unit {
    /// Waiting rows, by ascending offset except in queues. Rows that a failed job has left are in front.
    waiting: VecDeque<RowSlice>,
    /// Number of slices at the front that were put back since the last job ended; counted in queues only.
    returned: u32,
    retry_state: RetryState,
    running: bool,
    /// The unit is in the ready queue.
    queued: bool,
    /// The unit runs no more jobs until the lane leaves or its position is reset.
    halted: bool,
    /// End of the backoff after a failure.
    retry_at: OptionalNanos,
}

impl Unit {
    /// Returns whether the unit has no rows and no state worth keeping.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && !self.running && !self.queued && !self.halted && self.retry_at().is_none()
    }

    /// Returns whether the unit has rows and may run them now.
    pub(super) fn is_due(&self) -> bool {
        self.has_rows() && self.is_free()
    }

    /// Returns whether the unit may run a job now.
    pub(super) fn is_free(&self) -> bool {
        !self.running && !self.halted && self.retry_at().is_none()
    }

    pub(in crate::dispatch) fn has_rows(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn is_queued(&self) -> bool {
        self.queued
    }

    /// Records whether the unit is in the ready queue. Returns whether that is a change.
    pub(super) fn set_queued(&mut self, queued: bool) -> bool {
        std::mem::replace(&mut self.queued, queued) != queued
    }

    pub(in crate::dispatch) fn is_halted(&self) -> bool {
        self.halted
    }

    pub(in crate::dispatch) fn set_running(&mut self, running: bool) {
        self.running = running;
        self.returned = 0;
    }

    // ---- rows

    /// Adds rows behind all waiting rows.
    pub(in crate::dispatch) fn push_back(&mut self, piece: RowSlice) {
        self.waiting.push_back(piece);
    }

    /// Puts back rows of the job that has ended, ordered by offset. The records of a queue have no order: there the rows go
    /// to the front, in the order of the calls, so that a bisection goes on with the rows of its job.
    pub(in crate::dispatch) fn put_back(&mut self, piece: RowSlice, is_queue: bool) {
        let Some(first) = piece.offset(0) else { return };
        if is_queue {
            self.waiting.insert((self.returned as usize).min(self.waiting.len()), piece);
            self.returned += 1;
            return;
        }
        let at = self.waiting.partition_point(|other| other.offset(0).is_some_and(|offset| offset < first));
        self.waiting.insert(at, piece);
    }

    /// Returns the number of rows that [`Unit::take_front`] can take; `None`: no row waits.
    pub(in crate::dispatch) fn front_len(&self) -> Option<usize> {
        self.waiting.front().map(RowSlice::len)
    }

    /// Takes the first waiting rows of one batch, at most `rows`; `None`: no row waits.
    pub(in crate::dispatch) fn take_front(&mut self, rows: usize) -> Option<RowSlice> {
        take_front(&mut self.waiting, rows)
    }

    /// Takes out the row with this offset; `None`: no waiting row has it.
    pub(super) fn take_row(&mut self, offset: i64) -> Option<RowSlice> {
        let index_in = |piece: &RowSlice| piece.offsets().position(|other| other == offset);
        let by_order = self
            .waiting
            .partition_point(|piece| piece.offset(piece.len().saturating_sub(1)).is_some_and(|last| last < offset));
        let found = self.waiting.get(by_order).and_then(index_in).map(|index| (by_order, index));
        // In a queue, the row may be anywhere.
        let (at, index) = found.or_else(|| {
            self.waiting.iter().enumerate().find_map(|(at, piece)| index_in(piece).map(|index| (at, index)))
        })?;
        let mut piece = self.waiting.remove(at)?;
        let before = piece.split_to(index);
        let row = piece.split_to(1);
        for rest in [piece, before] {
            if rest.len() > 0 {
                self.waiting.insert(at, rest);
            }
        }
        Some(row)
    }

    /// Takes the first waiting rows of one batch, if the first of them is before this offset.
    pub(super) fn take_front_before(&mut self, offset: i64) -> Option<RowSlice> {
        self.waiting.pop_front_if(|piece| piece.offset(0).is_some_and(|first| first < offset))
    }

    /// Returns the offsets of the waiting rows.
    pub(super) fn waiting_offsets(&self) -> impl Iterator<Item = i64> {
        self.waiting.iter().flat_map(RowSlice::offsets)
    }

    /// Takes all waiting rows, and resets the retry state.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = RowSlice> {
        self.retry_state.reset();
        self.halted = false;
        self.waiting.drain(..)
    }

    /// Returns the timestamp of the row with this offset; `None`: no waiting row has it.
    pub(super) fn timestamp_of(&self, offset: i64) -> Option<i64> {
        self.waiting.iter().find_map(|piece| piece.timestamp_of(offset))
    }

    // ---- retries

    /// Returns what to run next. [`NextRun::Halt`] halts the unit.
    pub(in crate::dispatch) fn plan(&mut self) -> NextRun {
        let next = self.retry_state.plan(self.waiting.iter().flat_map(RowSlice::offsets));
        self.halted |= matches!(next, NextRun::Halt);
        next
    }

    /// Applies a failure of the unit's job: see [`RetryState::on_failure`]. `earlier`: runs of the first record in other
    /// processes.
    pub(in crate::dispatch) fn on_failure(
        &mut self,
        unmarked: impl Iterator<Item = i64>,
        failure: Failure,
        policy: &RouteConfig,
        rng: &mut Rng,
        earlier: u32,
    ) -> Decision {
        self.retry_state.set_earlier_runs(earlier, failure.at_ms);
        let decision = self.retry_state.on_failure(unmarked, failure, policy, rng);
        self.halted |= decision == Decision::Halt;
        decision
    }

    /// Returns the number of the run that is next, or in flight.
    pub(in crate::dispatch) fn attempt(&self) -> u32 {
        self.retry_state.attempt()
    }

    /// Returns the offset of the first waiting row; `None`: no row waits.
    pub(in crate::dispatch) fn first_offset(&self) -> Option<i64> {
        self.waiting.front()?.offset(0)
    }

    /// Returns the end of the backoff after a failure; `None`: there is no backoff.
    pub(in crate::dispatch) fn retry_at(&self) -> Option<Nanos> {
        self.retry_at.get()
    }

    /// Sets the end of the backoff, and its timer; `None`: ends the backoff.
    pub(in crate::dispatch) fn set_retry_timer(
        &mut self,
        timers: &mut Timers,
        lane: LaneId,
        slot: u32,
        at: Option<Nanos>,
    ) {
        timers.set(Timer::Unit(lane, slot), &mut self.retry_at, at);
    }

    pub(in crate::dispatch) fn on_retry_timer(&mut self) {
        self.retry_at = OptionalNanos::NONE;
    }
}

/// Takes the first rows of a queue, at most `rows`, all of one batch; `None`: the queue is empty.
pub(super) fn take_front(queue: &mut VecDeque<RowSlice>, rows: usize) -> Option<RowSlice> {
    let front = queue.front_mut()?;
    if front.len() > rows { Some(front.split_to(rows)) } else { queue.pop_front() }
}
