//! What follows from a change: who may be offered to workers, what time will bring, which lanes have come to their end.

use std::sync::Arc;

use super::alarm::Alarm;
use super::client::{Client, ClientId};
use super::job::{JobKind, Running};
use super::lane::{Lane, LaneId, Phase};
use super::outbox::{Remark, RemarkKind};
use super::ready::Claim;
use super::route::OffsetPolicy;
use super::{Dispatch, Mode, get_mut};
use crate::time::MILLI;

impl Dispatch {
    pub(super) fn lane_mut(&mut self, id: LaneId) -> Option<&mut Lane> {
        get_mut(&mut self.lanes, id)
    }

    pub(super) fn client_mut(&mut self, id: ClientId) -> Option<&mut Client> {
        self.clients.get_mut(id.0 as usize)
    }

    /// The time of day, in milliseconds since the epoch.
    pub(super) fn wall_ms(&self) -> i64 {
        (self.now / MILLI).cast_signed().saturating_add(self.wall_minus_mono_ms)
    }

    /// What these jobs have told as progress is marked; a lane that has waited for such marks goes on.
    pub(super) fn mark_progress(&mut self, of: impl Fn(&Running) -> bool) {
        let resumed = self.jobs.all().filter(|running| of(running)).filter(|running| {
            running.shared.mark_progress();
            running.shared.take_resumed()
        });
        let resumed: Vec<LaneId> = resumed.map(|running| running.unit.lane).collect();
        for id in resumed {
            self.offer_feed(id);
        }
    }

    /// Gives the claim a place in the order if there is something to run for it. Returns whether it was given one.
    pub(super) fn offer(&mut self, id: LaneId, claim: Claim) -> bool {
        let (now, running) = (self.now, self.mode == Mode::Running);
        let Some(lane) = get_mut(&mut self.lanes, id) else { return false };
        if lane.is_queued(claim) {
            return false;
        }
        let hook = |kind| matches!(kind, JobKind::Revoked { .. } | JobKind::Shutdown);
        if !lane.due(claim, now).is_some_and(|kind| running || hook(kind)) {
            return false;
        }
        lane.set_queued(claim, true);
        self.ready.add(now, &lane.spec.policy, id, claim);
        true
    }

    /// After the feed has grown, or has come back, or may be taken again.
    pub(super) fn offer_feed(&mut self, id: LaneId) -> bool {
        let now = self.now;
        let Some(lane) = get_mut(&mut self.lanes, id) else { return false };
        let claim = if lane.is_parted() { Claim::Decode } else { Claim::Unit(0) };
        if lane.phase == Phase::Active {
            let at = lane.feed_due_at(now);
            self.alarms.set(Alarm::Feed(id), &mut lane.feed_alarm, at);
        }
        let offered = self.offer(id, claim);
        if !offered {
            self.remark_unmarked(id);
        }
        offered
    }

    /// After something that kept the whole lane back.
    pub(super) fn offer_all(&mut self, id: LaneId) -> bool {
        let Some(lane) = self.lane_mut(id) else { return false };
        let slots = 0..u32::try_from(lane.units.len()).unwrap_or(u32::MAX);
        let waiting: Vec<u32> = slots.filter(|slot| lane.unit(*slot).is_some_and(super::unit::Unit::is_due)).collect();
        let mut any = waiting.into_iter().fold(false, |any, slot| self.offer(id, Claim::Unit(slot)) | any);
        any |= self.offer(id, Claim::Loose);
        any |= self.offer_feed(id);
        any | self.offer(id, Claim::Whole)
    }

    /// A lane that waits for marks says so, once.
    pub(super) fn remark_unmarked(&mut self, id: LaneId) {
        let Some(lane) = get_mut(&mut self.lanes, id) else { return };
        if lane.phase != Phase::Active || lane.unmarked_told {
            return;
        }
        let Some((records, first)) = lane.unmarked() else { return };
        lane.unmarked_told = true;
        let (tp, policy) = (lane.spec.tp.clone(), Arc::clone(&lane.spec.policy));
        let client = lane.spec.client;
        let what = match policy.offsets {
            OffsetPolicy::Manual => RemarkKind::Unmarked { open: records, first },
            _ => RemarkKind::Ahead { records, first },
        };
        self.remark(client, Remark { lane: id, tp, policy, what });
    }

    pub(super) fn remark(&mut self, client: ClientId, remark: Remark) {
        if let Some(entry) = self.client_mut(client) {
            entry.outbox.remarks.push(remark);
            entry.wake = true;
        }
    }

    /// What time alone has brought.
    pub(super) fn run_alarms(&mut self) {
        while let Some((_, alarm)) = self.alarms.pop(self.now) {
            match alarm {
                Alarm::Unit(id, slot) => {
                    if let Some(lane) = self.lane_mut(id) {
                        lane.unit_mut(slot).until = None;
                        self.offer(id, Claim::Unit(slot));
                        self.offer(id, Claim::Loose);
                        if let Some(lane) = self.lane_mut(id) {
                            lane.tidy(slot);
                        }
                    }
                }
                Alarm::Feed(id) => {
                    let now = self.now;
                    if let Some(lane) = self.lane_mut(id) {
                        lane.feed_alarm = None;
                        lane.feed_until = if lane.feed_until > now { lane.feed_until } else { 0 };
                        self.offer_feed(id);
                    }
                }
                Alarm::Pause(id) => {
                    if let Some(lane) = self.lane_mut(id) {
                        lane.paused_until = None;
                        self.resume(id);
                    }
                }
                Alarm::Tick(id) => {
                    if let Some(lane) = self.lane_mut(id) {
                        lane.tick_alarm = None;
                        if !self.offer(id, Claim::Whole) {
                            self.arm_tick(id);
                        }
                    }
                }
                Alarm::Rate(route) => {
                    if let Some(route) = self.routes.get_mut(&route) {
                        route.alarm = None;
                        for (pool, place) in route.held.drain(..) {
                            self.ready.put(pool, place);
                        }
                    }
                }
            }
        }
    }

    /// An idle lane's next tick; a busy one is asked again after as long.
    pub(super) fn arm_tick(&mut self, id: LaneId) {
        let (now, running) = (self.now, self.mode == Mode::Running);
        let Some(lane) = get_mut(&mut self.lanes, id) else { return };
        let Some(every) = lane.policy().tick.filter(|_| running && lane.phase == Phase::Active) else { return };
        let at = lane.tick_at().filter(|at| *at > now).unwrap_or(now.saturating_add(every.max(MILLI)));
        self.alarms.set(Alarm::Tick(id), &mut lane.tick_alarm, Some(at));
    }

    /// A lane that has left, or has been stopped, and has nothing more to run is told as drained or finished.
    pub(super) fn settle(&mut self, id: LaneId) -> bool {
        let Some(lane) = get_mut(&mut self.lanes, id) else { return false };
        if lane.jobs > 0 {
            return false;
        }
        if lane.hook_due() || lane.phase == Phase::Active {
            return self.offer(id, Claim::Whole);
        }
        match lane.phase {
            Phase::Leaving { lost } => {
                let (client, drained) = (lane.spec.client, lane.drained(lost));
                if let Some(entry) = self.client_mut(client) {
                    entry.outbox.drained.push(drained);
                    entry.wake = true;
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

    /// Drops what the lane has fetched or decoded and not handed out, and what its units wait for.
    pub(super) fn discard(&mut self, id: LaneId) {
        let Some(lane) = get_mut(&mut self.lanes, id) else { return };
        let bytes = lane.drop_fetched() + lane.drop_waiting();
        self.alarms.set(Alarm::Feed(id), &mut lane.feed_alarm, None);
        let mut emptied = Vec::new();
        for (slot, unit) in (0_u32..).zip(&mut lane.units) {
            if let Some(unit) = unit {
                self.alarms.set(Alarm::Unit(id, slot), &mut unit.until, None);
                emptied.push(slot);
            }
        }
        emptied.into_iter().for_each(|slot| lane.tidy(slot));
        self.give_back(id, bytes);
    }

    /// Bytes that the lane held are free.
    pub(super) fn give_back(&mut self, id: LaneId, bytes: usize) {
        let Some(lane) = get_mut(&mut self.lanes, id).filter(|_| bytes > 0) else { return };
        lane.queued_bytes = lane.queued_bytes.saturating_sub(bytes);
        let (client, slot) = (lane.spec.client, lane.spec.slot);
        self.release(client, slot, bytes);
    }

    /// Returns whether that made another lane ready: one of the same partition may have waited for this one.
    pub(super) fn remove(&mut self, id: LaneId) -> bool {
        if let Some(lane) = get_mut(&mut self.lanes, id) {
            if let Some(tally) = self.tallies.get_mut(lane.tally) {
                lane.count(self.now, tally);
            }
            self.alarms.set(Alarm::Pause(id), &mut lane.paused_until, None);
            self.alarms.set(Alarm::Tick(id), &mut lane.tick_alarm, None);
        }
        if let Some(place) = self.lanes.get_mut(id.index as usize)
            && place.as_ref().is_some_and(|lane| lane.id == id)
        {
            *place = None;
        }
        let waiting = self.lanes.iter_mut().flatten().filter(|lane| lane.waits_for == Some(id));
        let waiting = waiting.map(|lane| {
            lane.waits_for = None;
            lane.id
        });
        let waiting: Vec<LaneId> = waiting.collect();
        waiting.into_iter().fold(false, |any, lane| self.offer_all(lane) | any)
    }
}
