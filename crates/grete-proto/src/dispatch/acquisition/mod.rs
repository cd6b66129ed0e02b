//! Lanes whose records a share group hands out: each record is acknowledged, in any order.
//!
//! What a lane acquires, a handler gets, or the lane gives back. Records that wait when the lane leaves go back at once,
//! so that another member gets them; those of running jobs stay until these have ended.

use super::Dispatch;
use super::get_mut;
use super::ids::{ClientId, LaneId};
use super::lane::Lane;
use crate::fetch::{AcquiredRange, CompletedFetch};
use crate::share::{AckType, Acknowledgement};

impl Dispatch {
    /// Moves the acknowledgements of a lane to the outbox of its client. `delayed`: a record waits for a later attempt,
    /// so that the client may acquire another one.
    pub(super) fn collect_acks(&mut self, id: LaneId, delayed: bool) {
        let Some(lane) = get_mut(&mut self.lanes, id).filter(|lane| lane.spec.policy.queue) else { return };
        let acks = lane.take_acks();
        if acks.is_empty() && !delayed {
            return;
        }
        let (client, handle) = (lane.spec.client, lane.spec.handle);
        if let Some(entry) = self.client_mut(client) {
            entry.outbox.acks.push((handle, acks));
            entry.wake_pending |= entry.awaits_acks;
        }
    }

    /// Collects the acknowledgements that a job has made before its end.
    pub fn on_acknowledged(&mut self, id: LaneId) {
        self.collect_acks(id, false);
    }

    /// Gives back the records of a fetch that no lane takes.
    pub fn give_back(&mut self, client: ClientId, chunk: &CompletedFetch) {
        let Some(acquired) = &chunk.acquired else { return };
        let release =
            |range: &AcquiredRange| Acknowledgement { first: range.first, last: range.last, kind: AckType::Release };
        let acks = acquired.iter().map(release).collect();
        if let Some(entry) = self.client_mut(client) {
            entry.outbox.acks.push((chunk.slot, acks));
            entry.wake_pending |= entry.awaits_acks;
        }
    }

    /// Sets whether an acknowledgement wakes the client. Those that the client has not collected count, too.
    pub fn set_awaiting_acks(&mut self, client: ClientId, awaits: bool) {
        if let Some(entry) = self.client_mut(client) {
            entry.awaits_acks = awaits;
            entry.wake_pending |= awaits && !entry.outbox.acks.is_empty();
        }
    }

    /// Returns how many records of the client's lanes wait for a later attempt.
    #[must_use]
    pub fn delayed_records(&self, client: ClientId) -> usize {
        let lanes = self.lanes.iter().flatten().filter(|lane| lane.spec.client == client && lane.spec.policy.queue);
        lanes.map(|lane| lane.rows.delayed_rows()).sum()
    }
}

impl Lane {
    /// Adds the acquired records of a fetch: all of them, if the fetch names none (tests of handlers have no leader).
    pub(super) fn acquire(&mut self, chunk: &mut CompletedFetch) {
        if self.spec.policy.queue && chunk.acquired.is_none() {
            let all = AcquiredRange { first: chunk.fetch_offset, last: chunk.next_offset - 1, deliveries: 1 };
            chunk.acquired = Some([all].into());
        }
        if let Some(ranges) = &chunk.acquired {
            self.with_acquired(|records| records.acquire(ranges));
        }
    }

    fn with_acquired<R>(
        &self,
        act: impl FnOnce(&mut crate::dispatch::offsets::acquired_records::AcquiredRecords) -> R,
    ) -> Option<R> {
        if !self.spec.policy.queue {
            return None;
        }
        self.offsets.tracker().with(|tracker| tracker.acquired().map(act)).ok().flatten()
    }

    /// Returns how many records are acquired and not acknowledged; `None`: the lane has no queue.
    pub(in crate::dispatch) fn acquired_records(&self) -> Option<u64> {
        self.with_acquired(|records| records.len() as u64)
    }

    /// Acknowledges records that no handler gets.
    pub(super) fn finish_acquired(&mut self, acks: Vec<Acknowledgement>) {
        self.with_acquired(|records| acks.into_iter().for_each(|ack| records.finish(ack)));
    }

    /// Gives back those of the records that are not acknowledged.
    pub(super) fn release_acquired(&mut self, offsets: impl Iterator<Item = i64>) {
        self.with_acquired(|records| {
            offsets.for_each(|offset| records.finish(Acknowledgement::one(offset, AckType::Release)));
        });
    }

    /// Gives back the records that are not decoded.
    pub(super) fn release_undecoded(&mut self) {
        self.with_acquired(|records| records.release_undecoded());
    }

    /// Gives back all records that are left.
    pub(super) fn release_all_acquired(&mut self) {
        self.with_acquired(|records| records.release_all());
    }

    fn take_acks(&mut self) -> Vec<Acknowledgement> {
        self.with_acquired(|records| records.take_acks()).unwrap_or_default()
    }

    /// Returns how often the record was delivered before this delivery; 0: the lane has no queue.
    pub(super) fn earlier_deliveries(&self, offset: Option<i64>) -> u32 {
        let deliveries = offset.and_then(|offset| self.with_acquired(|records| records.deliveries(offset)));
        deliveries.map_or(0, |deliveries| deliveries - 1)
    }

    /// Returns how many runs of the record to add to those that its unit has counted.
    pub(super) fn earlier_runs(&self, offset: Option<i64>, slot: u32) -> u32 {
        // After a failure the unit has counted the earlier deliveries, too.
        let counted = self.rows.unit(slot).is_some_and(|unit| unit.attempt() > 1);
        if counted { 0 } else { self.earlier_deliveries(offset) }
    }
}
