//! Decoded rows of a lane: rows that wait for their units, and the number of rows in flight.

use std::collections::VecDeque;

use super::unit::{Unit, take_front};
use super::unit_table::{NumberSet, UnitTable};
use crate::dispatch::ids::LaneId;
use crate::dispatch::queue::timers::Timers;
use crate::dispatch::route_config::RouteConfig;
use crate::dispatch::rows::row_slice::RowSlice;

/// Smallest part of `max_in_flight` that is decoded at once, in a lane without a fixed number of slots: 1 / 64. One
/// wake-up of the decoding thread then serves many records, and the part that stays unused is small.
const MIN_GROUP: usize = 64;

/// Units of a lane, and rows that belong to no unit.
#[derive(Debug, Default)]
pub(in crate::dispatch) struct LaneRows {
    units: UnitTable,
    /// `None`: the lane has had no such rows and instances.
    sharded: Option<Box<ShardedRows>>,
    /// Rows that are handed out, or decoded and waiting, and not done.
    in_flight: u32,
    /// Number of units in the ready queue.
    ready_units: u32,
}

/// Rows and handler instances of a lane whose records run concurrently.
#[derive(Debug, Default)]
struct ShardedRows {
    /// Rows without a key, which any slot may take.
    unkeyed: VecDeque<RowSlice>,
    /// Numbers of the handler instances that jobs use, in a lane without a fixed number of slots.
    instances: NumberSet,
}

impl LaneRows {
    // ---- units

    pub(in crate::dispatch) fn unit(&self, slot: u32) -> Option<&Unit> {
        self.units.get(slot)
    }

    /// Returns the unit of a slot, created on first use.
    pub(in crate::dispatch) fn unit_mut(&mut self, slot: u32) -> &mut Unit {
        self.units.get_or_create(slot)
    }

    pub(in crate::dispatch) fn units(&self) -> impl Iterator<Item = &Unit> {
        self.units.iter().map(|(_, unit)| unit)
    }

    /// Returns the units with their slots.
    pub(in crate::dispatch) fn units_by_slot(&self) -> impl Iterator<Item = (u32, &Unit)> {
        self.units.iter()
    }

    /// Returns the slots whose units have rows and may run them now.
    pub(in crate::dispatch) fn due_slots(&self) -> Vec<u32> {
        self.units.iter().filter(|(_, unit)| unit.is_due()).map(|(slot, _)| slot).collect()
    }

    /// Returns the lowest free slot, so that few slots and few handler instances are in use; `None`: all are busy.
    /// `slots` of 0: there is always a free one.
    pub(in crate::dispatch) fn free_slot(&self, slots: u32) -> Option<u32> {
        if slots == 0 {
            return Some(self.units.lowest_free());
        }
        let free = |unit: &Unit| unit.is_free() && !unit.has_rows();
        (0..slots).find(|slot| self.unit(*slot).is_none_or(free))
    }

    /// Frees the memory of a slot's unit that has nothing left.
    pub(super) fn drop_idle_unit(&mut self, slot: u32) {
        self.units.drop_idle(slot);
    }

    /// Frees the memory of all units that have nothing left.
    pub(super) fn drop_idle_units(&mut self) {
        self.units.drop_all_idle();
    }

    /// Returns the handler instance for a job of this slot, in use until [`LaneRows::release_instance`]. Without a
    /// fixed number of slots that is the lowest free one, so that no more instances exist than jobs have run at once.
    pub(in crate::dispatch) fn take_instance(&mut self, slot: u32, policy: &RouteConfig) -> u32 {
        if policy.is_unit_per_key() { self.sharded.get_or_insert_default().instances.take_lowest() } else { slot }
    }

    pub(in crate::dispatch) fn release_instance(&mut self, instance: u32, policy: &RouteConfig) {
        if policy.is_unit_per_key()
            && let Some(sharded) = &mut self.sharded
        {
            sharded.instances.remove(instance);
        }
    }

    pub(super) fn is_queued(&self, slot: u32) -> bool {
        self.unit(slot).is_some_and(Unit::is_queued)
    }

    /// Records whether the unit of a slot is in the ready queue.
    pub(super) fn set_queued(&mut self, slot: u32, queued: bool) {
        if self.unit_mut(slot).set_queued(queued) {
            self.ready_units = if queued { self.ready_units + 1 } else { self.ready_units.saturating_sub(1) };
        }
    }

    /// Returns whether a unit is in the ready queue.
    pub(super) fn has_ready_unit(&self) -> bool {
        self.ready_units > 0
    }

    /// Ends the backoff of all units.
    pub(super) fn clear_retry_timers(&mut self, timers: &mut Timers, lane: LaneId) {
        for (slot, unit) in self.units.iter_mut() {
            unit.set_retry_timer(timers, lane, slot, None);
        }
    }

    // ---- rows without a key

    pub(in crate::dispatch) fn has_unkeyed(&self) -> bool {
        self.unkeyed().next().is_some()
    }

    /// Returns the unkeyed rows, by batch.
    fn unkeyed(&self) -> impl Iterator<Item = &RowSlice> {
        self.sharded.iter().flat_map(|sharded| &sharded.unkeyed)
    }

    pub(in crate::dispatch) fn add_unkeyed(&mut self, rows: Option<RowSlice>) {
        if rows.is_some() {
            self.sharded.get_or_insert_default().unkeyed.extend(rows);
        }
    }

    /// Returns how many unkeyed rows one job takes: a fair share, because other jobs may run at the same time.
    pub(in crate::dispatch) fn unkeyed_share(&self, policy: &RouteConfig) -> usize {
        let front = self.unkeyed().next().map_or(0, RowSlice::len);
        let max = policy.max_messages.max(1);
        if policy.max_wait > 0 {
            return front.min(max); // a route with `max_wait` asks for full jobs
        }
        if policy.shares == 0 {
            return front.min(1);
        }
        let rows: usize = self.unkeyed().map(RowSlice::len).sum();
        front.min(rows.div_ceil(policy.shares as usize)).min(max)
    }

    /// Takes the first unkeyed rows of one batch, at most `rows`; `None`: there are none.
    pub(in crate::dispatch) fn take_unkeyed(&mut self, rows: usize) -> Option<RowSlice> {
        take_front(&mut self.sharded.as_mut()?.unkeyed, rows)
    }

    // ---- rows in flight

    pub(in crate::dispatch) fn in_flight(&self) -> usize {
        self.in_flight as usize
    }

    /// Counts rows that are decoded and waiting, or handed out.
    pub(in crate::dispatch) fn add_in_flight(&mut self, rows: usize) {
        self.in_flight = self.in_flight.saturating_add(u32::try_from(rows).unwrap_or(u32::MAX));
    }

    /// Counts rows that are done or dropped.
    pub(in crate::dispatch) fn remove_in_flight(&mut self, rows: usize) {
        self.in_flight = self.in_flight.saturating_sub(u32::try_from(rows).unwrap_or(u32::MAX));
    }

    /// Returns how many rows `max_in_flight` lets the lane decode now; 0: none.
    ///
    /// A single finished row does not open the window: rows are decoded in groups of at least an eighth of
    /// `max_in_flight`. But decoding never waits while no unit is ready, because a worker may be idle.
    ///
    /// Without a fixed number of slots no unit stays ready, whatever the number of rows. There, groups are at least
    /// one part in [`MIN_GROUP`] of `max_in_flight`, and only a lane without a job in flight (`idle`) decodes less.
    pub(super) fn decode_window(&self, policy: &RouteConfig, idle: bool) -> usize {
        let max = policy.max_in_flight.max(1);
        let open = max.saturating_sub(self.in_flight());
        let starving = self.ready_units == 0 && !self.has_unkeyed();
        let enough = match policy.is_unit_per_key() {
            true => open >= max.div_ceil(MIN_GROUP) || (starving && idle),
            false => open >= max.div_ceil(8) || starving,
        };
        if enough { open } else { 0 }
    }

    /// Returns how many rows wait for the end of a backoff.
    pub(in crate::dispatch) fn delayed_rows(&self) -> usize {
        let delayed = self.units().filter(|unit| unit.retry_at().is_some());
        delayed.map(|unit| unit.waiting_offsets().count()).sum()
    }

    /// Returns the offsets of all rows that wait for units.
    pub(super) fn waiting_offsets(&self) -> impl Iterator<Item = i64> {
        let in_units = self.units().flat_map(Unit::waiting_offsets);
        in_units.chain(self.unkeyed().flat_map(RowSlice::offsets))
    }

    /// Takes all rows that wait for units, and resets the retry state of the units. Returns the number of rows and the
    /// released bytes.
    pub(super) fn drop_waiting(&mut self) -> (usize, usize) {
        let waiting = self.units.iter_mut().flat_map(|(_, unit)| unit.clear());
        let (rows, bytes) = waiting
            .chain(self.sharded.iter_mut().flat_map(|sharded| sharded.unkeyed.drain(..)))
            .fold((0, 0), |(rows, bytes), piece| (rows + piece.len(), bytes + piece.memory.release_rows(piece.len())));
        self.remove_in_flight(rows);
        (rows, bytes)
    }

    /// Takes the rows of a unit before this offset. Returns their number and the released bytes.
    pub(super) fn drop_before(&mut self, slot: u32, offset: i64) -> (usize, usize) {
        let unit = self.unit_mut(slot);
        let (mut rows, mut bytes) = (0, 0);
        while let Some(piece) = unit.take_front_before(offset) {
            rows += piece.len();
            bytes += piece.memory.release_rows(piece.len());
        }
        self.remove_in_flight(rows);
        (rows, bytes)
    }

    /// Returns the timestamp of the record with this offset; `None`: the record does not wait for a job.
    pub(in crate::dispatch) fn timestamp_of(&self, offset: i64) -> Option<i64> {
        let in_units = self.units().find_map(|unit| unit.timestamp_of(offset));
        in_units.or_else(|| self.unkeyed().find_map(|piece| piece.timestamp_of(offset)))
    }
}
