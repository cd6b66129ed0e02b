//! What a client's network thread tells the dispatcher, and what it takes away.

use std::sync::Arc;

use super::alarm::Alarm;
use super::client::ClientId;
use super::job::Running;
use super::lane::{Lane, LaneId, LaneSpec, Phase};
use super::marks::{Fenced, Marks};
use super::offset_map::OffsetMap;
use super::outbox::{Committable, Outbox};
use super::ready::Claim;
use super::tracker::Tracker;
use super::{Dispatch, Mode, get_mut};
use crate::fetch::Chunk;
use crate::ids::{Slot, TopicPartition};
use crate::time::Nanos;

impl Dispatch {
    /// Adds a lane for a newly assigned partition.
    pub fn add_lane(&mut self, spec: LaneSpec) -> LaneId {
        self.generation += 1;
        let index = self.lanes.iter().position(Option::is_none).unwrap_or_else(|| {
            self.lanes.push(None);
            self.lanes.len() - 1
        });
        let id = LaneId { index: u32::try_from(index).unwrap_or(u32::MAX), generation: self.generation };
        let ghost = self.lanes.iter().flatten().find(|lane| {
            matches!(lane.phase, Phase::Abandoned | Phase::Leaving { .. })
                && lane.spec.client == spec.client
                && lane.spec.tp == spec.tp
        });
        let ghost = ghost.map(|lane| lane.id);
        let tally = self.tallies.place(&spec.policy);
        let mut lane = Lane::new(id, spec, tally, ghost, self.now);
        if self.mode == Mode::Stopping {
            lane.phase = Phase::Finished;
        }
        if let Some(place) = self.lanes.get_mut(index) {
            *place = Some(lane);
        }
        self.arm_tick(id);
        id
    }

    /// Fetched data for a lane. Returns whether a worker is worth waking. Data of an older assignment or of a position
    /// left by a seek is dropped here, before anybody decodes it.
    pub fn push(&mut self, now: Nanos, id: LaneId, chunk: Chunk) -> bool {
        self.now = self.now.max(now);
        let Some(lane) = self.lane_mut(id) else { return false };
        // A lane that was stopped keeps what it gets: the memory budget then stops the fetcher.
        let gone = matches!(lane.phase, Phase::Leaving { .. } | Phase::Abandoned);
        if gone || lane.fetch_generation != Some(chunk.fetch_generation) {
            let (client, slot, bytes) = (lane.spec.client, lane.spec.slot, chunk.bytes);
            self.release(client, slot, bytes);
            return false;
        }
        lane.high_watermark = chunk.high_watermark;
        lane.readable_end = chunk.readable_end;
        lane.next_ms = lane.next_ms.or(chunk.times.oldest);
        lane.newest_ms = chunk.times.newest.or(lane.newest_ms);
        lane.log_start_offset = chunk.log_start_offset;
        lane.queued_bytes += chunk.bytes;
        lane.eof_told = false;
        let records = if lane.policy().max_wait > 0 { super::feed::claimed_records(&chunk) } else { 0 };
        lane.feed.push(chunk, records, now);
        self.offer_feed(id)
    }

    /// The broker told where the partition ends, along with no data: its high watermark, and the end of what may be read.
    /// Returns whether a worker is worth waking.
    pub fn set_end(&mut self, id: LaneId, high_watermark: i64, readable_end: i64) -> bool {
        let Some(lane) = self.lane_mut(id) else { return false };
        (lane.high_watermark, lane.readable_end) = (high_watermark, readable_end);
        self.offer(id, Claim::Whole)
    }

    /// Where the lane starts, once that is known, and what its data carries from now on. `already`: offsets from there on
    /// that were marked in an earlier life of the partition (with a `committed` offset only).
    ///
    /// A position that moved by itself (truncation, reset) makes what is queued the past. One that is where a corrupt batch
    /// was makes nothing so: rows that were decoded before it are as good as ever.
    pub fn set_position(&mut self, id: LaneId, offset: i64, generation: u32, committed: bool, already: OffsetMap) {
        let Some(lane) = self.lane_mut(id) else { return };
        let refetch = lane.refetch.take();
        if lane.fetch_generation == Some(generation) {
            return;
        }
        if lane.position.is_some() && lane.fetch_generation.is_none() && refetch == Some(offset) {
            lane.fetch_generation = Some(generation);
            return;
        }
        if lane.position.is_some() {
            self.reset_lane(id);
        }
        let Some(lane) = self.lane_mut(id) else { return };
        lane.fetch_generation = Some(generation);
        lane.position = Some(offset);
        lane.renew_marks(Arc::new(Marks::new(Tracker::at(offset))));
        lane.committed =
            committed.then(|| (offset, if lane.policy().offset_map { already.clone() } else { OffsetMap::default() }));
        lane.already = (!already.is_empty()).then(|| Arc::new(already));
        self.offer(id, Claim::Whole);
    }

    /// The partition leaves this process. Its jobs in flight end first, then its `revoked` hook; [`Outbox::drained`] says
    /// when. Returns whether a worker is worth waking.
    pub fn revoke(&mut self, id: LaneId, lost: bool) -> bool {
        let Some(lane) = self.lane_mut(id) else { return false };
        let before = lane.phase;
        if before == Phase::Abandoned || (matches!(before, Phase::Leaving { .. }) && !lost) {
            return false;
        }
        lane.phase = Phase::Leaving { lost };
        lane.marks.leave();
        if lost {
            // Somebody else may be at work on it already.
            lane.marks.fence();
        }
        if matches!(before, Phase::Leaving { .. }) {
            return false; // lost while it was being given up
        }
        self.discard(id);
        self.settle(id)
    }

    /// The deadline for leaving has passed while jobs still run: from now on nothing that they do counts. Returns the jobs,
    /// for the report. When the last of them has come back the lane's hook runs, if there is somebody to run it for.
    pub fn abandon(&mut self, id: LaneId) -> Vec<Running> {
        let Some(lane) = self.lane_mut(id) else { return Vec::new() };
        lane.marks.fence();
        lane.phase = Phase::Abandoned;
        let running: Vec<Running> = self.jobs.of(id).cloned().collect();
        self.discard(id);
        self.settle(id);
        running
    }

    /// Drops a lane without hooks or a last commit (a low-level client unassigned it).
    pub fn remove_lane(&mut self, id: LaneId) {
        if let Some(lane) = self.lane_mut(id) {
            lane.silent = true;
        }
        self.abandon(id);
    }

    /// The position moves (seek, or truncation): what is queued belongs to the past, and so does whatever still arrives
    /// before the new position is known.
    pub fn reset_lane(&mut self, id: LaneId) {
        self.discard(id);
        let Some(lane) = self.lane_mut(id) else { return };
        lane.fetch_generation = None;
        lane.refetch = None;
        lane.position = None;
        lane.newest_ms = None;
        lane.already = None;
        lane.eof_told = false;
        lane.unmarked_told = false;
        lane.marks.fence();
        // A lane that is given up, or lost, stays fenced.
        if matches!(lane.phase, Phase::Active | Phase::Stopping | Phase::Finished) {
            lane.renew_marks(Arc::default());
        }
    }

    /// Keeps the lane's data but hands none out, until then or until [`Dispatch::resume`].
    pub fn pause(&mut self, id: LaneId, until: Option<Nanos>) {
        let Some(lane) = get_mut(&mut self.lanes, id) else { return };
        lane.paused = true;
        self.alarms.set(Alarm::Pause(id), &mut lane.paused_until, until);
    }

    /// Ends the user's pause. Returns whether a worker is worth waking.
    pub fn resume(&mut self, id: LaneId) -> bool {
        let Some(lane) = get_mut(&mut self.lanes, id) else { return false };
        lane.paused = false;
        self.alarms.set(Alarm::Pause(id), &mut lane.paused_until, None);
        self.offer_all(id)
    }

    /// A mark has ended the lane's wait for marks: see [`JobShared::take_resumed`]. Returns whether a worker is worth waking.
    pub fn marked(&mut self, id: LaneId) -> bool {
        self.offer_feed(id)
    }

    /// The group's session is alive until then. `None`: there is no session to mind. Returns whether lanes became ready.
    pub fn set_session(&mut self, client: ClientId, until: Option<Nanos>) -> bool {
        let Some(entry) = self.client_mut(client) else { return false };
        entry.session_until = until;
        let held = std::mem::take(&mut entry.held);
        let any = !held.is_empty();
        for (pool, place) in held {
            self.ready.put(pool, place);
        }
        any
    }

    /// While set, releases of memory wake the client. So do those that it has not heard of yet: a worker may have ended
    /// its job between what the client saw and this call, and woken nobody.
    pub fn set_starved(&mut self, client: ClientId, starved: bool) {
        if let Some(entry) = self.client_mut(client) {
            entry.starved = starved;
            entry.wake |= starved && !entry.outbox.released.is_empty();
        }
    }

    /// What has happened since the last call.
    pub fn take_outbox(&mut self, client: ClientId) -> Outbox {
        self.client_mut(client).map(|entry| std::mem::take(&mut entry.outbox)).unwrap_or_default()
    }

    /// Whether the client should be woken; asking clears it.
    pub fn take_wake(&mut self, client: ClientId) -> bool {
        self.client_mut(client).is_some_and(|entry| std::mem::take(&mut entry.wake))
    }

    /// Offsets that have grown since they were last told; with `all`, unchanged ones, too. What jobs in flight have marked,
    /// or told as progress, counts.
    pub fn committables(&mut self, client: ClientId, all: bool) -> Vec<Committable> {
        self.mark_progress(|running| running.client == client);
        let lanes = self.lanes.iter_mut().flatten().filter(|lane| lane.spec.client == client);
        lanes.filter_map(|lane| lane.take_committable(all)).collect()
    }

    /// What may be committed of one lane now, unchanged or not; what its jobs in flight have marked, or told as progress,
    /// counts.
    ///
    /// # Errors
    /// When the lane is not this process's any more.
    pub fn committable(&mut self, id: LaneId) -> Result<Option<Committable>, Fenced> {
        self.mark_progress(|running| running.unit.lane == id);
        let lane = self.lane_mut(id).filter(|lane| !lane.marks.is_fenced()).ok_or(Fenced)?;
        Ok(lane.take_committable(true))
    }

    /// These were told by [`Dispatch::committables`] but did not reach the group: they are told again.
    pub fn forget_committed(&mut self, client: ClientId, tps: &[TopicPartition]) {
        for lane in self.lanes.iter_mut().flatten() {
            if lane.spec.client == client && tps.contains(&lane.spec.tp) {
                lane.committed = None;
            }
        }
    }

    /// Bytes of `slot` are not held any more.
    pub fn release(&mut self, client: ClientId, slot: Slot, bytes: usize) {
        if let Some(entry) = self.client_mut(client).filter(|_| bytes > 0) {
            entry.outbox.released.push((slot, bytes));
            entry.wake |= entry.starved;
        }
    }
}
