//! Check whether the lanes of a client have nothing left to do, and the early end of backoffs, for tests of handlers.

use std::collections::HashMap;

use super::Dispatch;
use super::ids::ClientId;
use super::lane::{Lane, Phase};
use super::queue::ready_queue::ReadyKind;
use crate::ids::TopicPartition;

impl Dispatch {
    /// Returns whether the client has just `lanes` lanes, and each of them has handed out all records below its end
    /// offset, runs nothing and waits for nothing.
    ///
    /// Records that were handed out and not marked may remain. A lane without an entry in `ends` needs no position.
    #[must_use]
    pub fn is_settled(&self, client: ClientId, lanes: usize, ends: &HashMap<TopicPartition, i64>) -> bool {
        let of_client = || self.lanes.iter().flatten().filter(|lane| lane.spec.client == client);
        of_client().count() == lanes && of_client().all(|lane| lane.is_settled(ends.get(&lane.spec.tp).copied()))
    }

    /// Returns whether the client has just `lanes` lanes, and each of them has its position.
    #[must_use]
    pub fn is_assigned(&self, client: ClientId, lanes: usize) -> bool {
        let of_client = || self.lanes.iter().flatten().filter(|lane| lane.spec.client == client);
        of_client().count() == lanes
            && of_client().all(|lane| lane.phase == Phase::Active && lane.offsets.position().is_some())
    }

    /// Ends the backoffs of all units at once, as if their time had come. Returns whether there were any.
    pub fn end_backoffs(&mut self) -> bool {
        let waiting = |lane: &Lane| {
            let units = lane.rows.units_by_slot();
            units.filter(|(_, unit)| unit.retry_at().is_some()).map(|(slot, _)| (lane.id, slot)).collect::<Vec<_>>()
        };
        let waiting: Vec<_> = self.lanes.iter().flatten().flat_map(|lane| waiting(lane)).collect();
        for (id, slot) in &waiting {
            let Some(lane) = super::get_mut(&mut self.lanes, *id) else { continue };
            lane.rows.unit_mut(*slot).set_retry_timer(&mut self.timers, *id, *slot, None);
            self.enqueue(*id, ReadyKind::Unit(*slot));
            self.enqueue(*id, ReadyKind::Unkeyed);
            if let Some(lane) = self.lane_mut(*id) {
                lane.drop_idle_unit(*slot);
            }
        }
        !waiting.is_empty()
    }
}

impl Lane {
    /// Returns whether the lane has handed out all records below `end`, runs nothing and waits for nothing.
    fn is_settled(&self, end: Option<i64>) -> bool {
        self.phase == Phase::Active
            && self.failure.is_none()
            && self.is_idle()
            && !self.is_ready()
            && !self.schedule.has_predecessor()
            && end.is_none_or(|end| self.offsets.position().is_some_and(|position| position >= end))
    }
}
