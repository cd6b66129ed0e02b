//! Scheduling after a change: makes units ready, sets timers, and finishes lanes that have nothing left to run.

use std::sync::Arc;

use super::ids::{ClientId, LaneId};
use super::job::InFlightJob;
use super::lane::{Lane, Phase};
use super::network::ClientState;
use super::outbox::{LaneEvent, LaneEventKind};
use super::queue::ready_queue::ReadyKind;
use super::queue::timers::Timer;
use super::route_config::OffsetPolicy;
use super::{Dispatch, Mode, get_mut};
use crate::optional::OptionalNanos;
use crate::time::{MILLI, Nanos, SECOND};

/// Shortest time between two reports of a lane's pauses, where `stall_after` is off.
const PAUSES_SAID: Nanos = 30 * SECOND;

impl Dispatch {
    pub(super) fn lane_mut(&mut self, id: LaneId) -> Option<&mut Lane> {
        get_mut(&mut self.lanes, id)
    }

    pub(super) fn client_mut(&mut self, id: ClientId) -> Option<&mut ClientState> {
        self.clients.get_mut(id.0 as usize)
    }

    /// Returns the wall-clock time, in milliseconds since the epoch.
    pub(super) fn wall_clock_ms(&self) -> i64 {
        (self.now / MILLI).cast_signed().saturating_add(self.wall_clock_offset_ms)
    }

    /// Marks the records that these jobs have reported as progress. A lane that waited for such marks continues.
    pub(super) fn apply_progress(&mut self, of: impl Fn(&InFlightJob) -> bool) {
        // What an exactly-once job has done counts at its end, with what it produced.
        let counts = |running: &&InFlightJob| of(running) && !running.shared.is_exactly_once();
        let resumed = self.jobs.all().filter(counts).filter(|running| {
            running.shared.apply_progress();
            running.shared.take_resumed()
        });
        let resumed: Vec<LaneId> = resumed.map(|running| running.unit.lane).collect();
        for id in resumed {
            self.enqueue_decode(id);
        }
    }

    /// Adds an entry to the ready queue if a job can run for it. Returns whether an entry was added.
    pub(super) fn enqueue(&mut self, id: LaneId, claim: ReadyKind) -> bool {
        let (now, running) = (self.now, self.mode == Mode::Running);
        let Some(lane) = get_mut(&mut self.lanes, id) else { return false };
        if lane.is_queued(claim) {
            return false;
        }
        if !lane.runnable_job(claim, now).is_some_and(|kind| running || kind.is_end_hook()) {
            return false;
        }
        lane.set_queued(claim, true);
        self.ready.add(now, &lane.spec.policy, id, claim);
        true
    }

    /// Enqueues decoding, after the decode queue has grown, has come back from a job, or may be taken again.
    pub(super) fn enqueue_decode(&mut self, id: LaneId) -> bool {
        let now = self.now;
        let Some(lane) = get_mut(&mut self.lanes, id) else { return false };
        let claim = if lane.is_sharded() { ReadyKind::Decode } else { ReadyKind::Unit(0) };
        if lane.phase == Phase::Active {
            lane.fetch.set_timer(&mut self.timers, id, now, &lane.spec.policy);
        }
        let offered = self.enqueue(id, claim);
        if !offered {
            self.warn_unmarked(id);
        }
        offered
    }

    /// Enqueues everything that the lane can run, after the end of a condition that blocked the whole lane.
    pub(super) fn enqueue_all(&mut self, id: LaneId) -> bool {
        let Some(lane) = self.lane_mut(id) else { return false };
        let mut any =
            lane.rows.due_slots().into_iter().fold(false, |any, slot| self.enqueue(id, ReadyKind::Unit(slot)) | any);
        any |= self.enqueue(id, ReadyKind::Unkeyed);
        any |= self.enqueue_decode(id);
        any | self.enqueue(id, ReadyKind::LaneHook)
    }

    /// Records that a lane begins to wait for marks.
    pub(super) fn warn_unmarked(&mut self, id: LaneId) {
        let Some(lane) = get_mut(&mut self.lanes, id) else { return };
        if lane.phase != Phase::Active || lane.pauses.is_pausing() || lane.blocking_unmarked().is_none() {
            return;
        }
        lane.pauses.begin();
        self.emit_pauses(id);
    }

    /// Reports the lane's pauses at most once within `stall_after`, with their number.
    ///
    /// A lane whose marks come late pauses many times a second, hence the limit. A lane that still waits at the end of
    /// that time is reported then.
    fn emit_pauses(&mut self, id: LaneId) {
        let now = self.now;
        let Some(lane) = get_mut(&mut self.lanes, id) else { return };
        let Some((records, first)) = lane.blocking_unmarked().filter(|_| lane.phase == Phase::Active) else { return };
        let every = lane.spec.policy.stall_after.unwrap_or(PAUSES_SAID);
        let Some(pauses) = lane.pauses.take_report(&mut self.timers, id, now, every) else { return };
        let (tp, policy) = (lane.spec.tp.clone(), Arc::clone(&lane.spec.policy));
        let client = lane.spec.client;
        let what = match policy.offsets {
            OffsetPolicy::Manual => LaneEventKind::Unmarked { open: records, first, pauses },
            _ => LaneEventKind::AheadOfUnmarked { records, first, pauses },
        };
        self.emit_lane_event(client, LaneEvent { lane: id, tp, policy, kind: what });
    }

    pub(super) fn emit_lane_event(&mut self, client: ClientId, event: LaneEvent) {
        if let Some(entry) = self.client_mut(client) {
            entry.outbox.lane_events.push(event);
            entry.wake_pending = true;
        }
    }

    /// Handles all timers that are due.
    pub(super) fn run_timers(&mut self) {
        while let Some((_, alarm)) = self.timers.pop(self.now) {
            match alarm {
                Timer::Unit(id, slot) => {
                    if let Some(lane) = self.lane_mut(id) {
                        lane.rows.unit_mut(slot).on_retry_timer();
                        self.enqueue(id, ReadyKind::Unit(slot));
                        self.enqueue(id, ReadyKind::Unkeyed);
                        if let Some(lane) = self.lane_mut(id) {
                            lane.drop_idle_unit(slot);
                        }
                    }
                }
                Timer::Decode(id) => {
                    let now = self.now;
                    if let Some(lane) = self.lane_mut(id) {
                        lane.fetch.on_timer(now);
                        self.enqueue_decode(id);
                    }
                }
                Timer::Pause(id) => {
                    if let Some(lane) = self.lane_mut(id) {
                        lane.schedule.on_pause_timer();
                        self.resume(id);
                    }
                }
                Timer::Unmarked(id) => {
                    if self.lane_mut(id).is_some_and(|lane| lane.pauses.on_timer()) {
                        self.emit_pauses(id);
                    }
                }
                Timer::Tick(id) => {
                    if let Some(lane) = self.lane_mut(id) {
                        lane.hooks.on_tick_timer();
                        if !self.enqueue(id, ReadyKind::LaneHook) {
                            self.schedule_tick(id);
                        }
                    }
                }
                Timer::Rate(route) => {
                    if let Some(route) = self.routes.get_mut(&route) {
                        route.timer = OptionalNanos::NONE;
                        for (pool, place) in route.rate_limited.drain(..) {
                            self.ready.put(pool, place);
                        }
                    }
                }
            }
        }
    }

    /// Sets the timer of the lane's next tick. The timer of a busy lane is set again one interval later.
    pub(super) fn schedule_tick(&mut self, id: LaneId) {
        let (now, running) = (self.now, self.mode == Mode::Running);
        let Some(lane) = get_mut(&mut self.lanes, id) else { return };
        let Some(every) = lane.policy().tick.filter(|_| running && lane.phase == Phase::Active) else { return };
        let at = lane.tick_at().filter(|at| *at > now).unwrap_or(now.saturating_add(every.max(MILLI)));
        lane.hooks.set_tick_timer(&mut self.timers, id, Some(at));
    }

    /// Finishes a revoked or stopped lane that has nothing left to run: reports it as drained, or sets it to finished.
    pub(super) fn finish_if_idle(&mut self, id: LaneId) -> bool {
        let Some(lane) = get_mut(&mut self.lanes, id) else { return false };
        if lane.schedule.has_jobs() {
            return false;
        }
        if lane.end_hook_due() || lane.phase == Phase::Active {
            return self.enqueue(id, ReadyKind::LaneHook);
        }
        lane.release_all_acquired();
        self.collect_acks(id, false);
        let Some(lane) = get_mut(&mut self.lanes, id) else { return false };
        match lane.phase {
            Phase::Leaving { lost } => {
                let (client, mut drained) = (lane.spec.client, lane.drain_result(lost));
                self.end_transactional_lane(client, id, &mut drained);
                if let Some(entry) = self.client_mut(client) {
                    entry.outbox.drained.push(drained);
                    entry.wake_pending = true;
                }
                self.remove(id)
            }
            Phase::Abandoned => self.remove(id),
            _ => {
                lane.phase = Phase::Finished;
                false
            }
        }
    }

    /// Drops the lane's fetched rows and waiting rows, and clears the retry timers of its units.
    pub(super) fn drop_rows(&mut self, id: LaneId) {
        let Some(lane) = get_mut(&mut self.lanes, id) else { return };
        let bytes = lane.drop_rows(&mut self.timers);
        self.release_bytes(id, bytes);
        self.collect_acks(id, false);
    }

    /// Releases bytes that the lane held.
    pub(super) fn release_bytes(&mut self, id: LaneId, bytes: usize) {
        let Some(lane) = get_mut(&mut self.lanes, id).filter(|_| bytes > 0) else { return };
        lane.fetch.release(bytes);
        let (client, handle) = (lane.spec.client, lane.spec.handle);
        self.release(client, handle, bytes);
    }

    /// Removes a lane. Returns whether another lane became ready: a lane of the same partition may have waited for this
    /// one.
    pub(super) fn remove(&mut self, id: LaneId) -> bool {
        if let Some(lane) = get_mut(&mut self.lanes, id) {
            if let Some(tally) = self.stats.get_mut(lane.stats.route()) {
                lane.flush_stats(self.now, tally);
            }
            lane.clear_timers(&mut self.timers);
        }
        if let Some(place) = self.lanes.get_mut(id.index as usize)
            && place.as_ref().is_some_and(|lane| lane.id == id)
        {
            *place = None;
            self.free_lanes.push(id.index);
        }
        self.departing.remove(&id);
        let waiting = self.successors.remove(&id).unwrap_or_default();
        waiting.into_iter().fold(false, |any, next| {
            let waited = self.lane_mut(next).is_some_and(|lane| lane.schedule.on_lane_removed(id));
            (waited && self.enqueue_all(next)) | any
        })
    }
}
