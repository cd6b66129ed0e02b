//! Calls of a client's network thread: lanes, fetched data, positions and sessions in; committable offsets out.

use std::sync::Arc;

use super::dedup::DuplicateFilter;
use super::ids::{ClientId, LaneId};
use super::job::InFlightJob;
use super::job::staging::JobStaging;
use super::lane::{Lane, LaneFailure, LaneSpec, Phase};
use super::offset_map::OffsetMap;
use super::offsets::shared_tracker::Fenced;
use super::outbox::{Committable, HistoryRequest, Outbox};
use super::queue::ready_queue::{QueueEntry, ReadyKind};
use super::route_config::Pool;
use super::transaction::TransactionDemand;
use super::transaction::output_store::OutputStore;
use super::waits::unmoved::LaneWatch;
use super::{Dispatch, Mode, get, get_mut};
use crate::fetch::CompletedFetch;
use crate::ids::{PartitionHandle, TopicPartition};
use crate::time::Nanos;

/// State that the dispatcher keeps for each client.
#[derive(Debug, Default)]
pub(super) struct ClientState {
    pub(super) outbox: Outbox,
    /// End of the group member's session: lanes run jobs of records only until then. `None`: no session.
    pub(super) session_until: Option<Nanos>,
    /// Queue entries that wait for the session to be renewed.
    pub(super) waiting_for_session: Vec<(Pool, QueueEntry)>,
    /// Number of released bytes that wake the client, because the fetcher waits for memory; `None`: none.
    pub(super) awaited_bytes: Option<usize>,
    /// Bytes in `outbox.released`.
    pub(super) released_bytes: usize,
    pub(super) wake_pending: bool,
    /// No job of the client passes a limit before this time; `None`: never.
    pub(super) next_stall_check: Option<Nanos>,
    /// `Some`: jobs of the client are exactly once.
    pub(super) outputs: Option<Box<OutputStore>>,
    pub(super) commit_demand: TransactionDemand,
    /// An acknowledgement wakes the client, because it can be sent at once.
    pub(super) awaits_acks: bool,
    /// Lanes that do not move.
    pub(super) watch: LaneWatch,
}

impl ClientState {
    /// Returns the staging of a new job; `None`: jobs are not exactly once.
    pub(super) fn new_staging(&self) -> Option<JobStaging> {
        self.outputs.as_ref().map(|outputs| JobStaging::new(outputs.budget()))
    }
}

impl Dispatch {
    /// Adds a lane for a newly assigned partition.
    pub fn add_lane(&mut self, spec: LaneSpec) -> LaneId {
        self.generation += 1;
        let index = self.free_lanes.pop().unwrap_or_else(|| {
            self.lanes.push(None);
            u32::try_from(self.lanes.len() - 1).unwrap_or(u32::MAX)
        });
        let id = LaneId { index, generation: self.generation };
        let predecessor = self.departing.iter().copied().find(|other| {
            let lane = get(&self.lanes, *other);
            lane.is_some_and(|lane| lane.spec.client == spec.client && lane.spec.tp == spec.tp)
        });
        if let Some(predecessor) = predecessor {
            self.successors.entry(predecessor).or_default().push(id);
        }
        let tally = self.stats.place(&spec.policy);
        if let Some(outputs) = self.outputs_of(spec.client) {
            outputs.add_lane(id, &spec.tp, spec.assignment_epoch);
        }
        let mut lane = Lane::new(id, spec, tally, predecessor, self.now);
        if self.mode == Mode::Stopping {
            lane.phase = Phase::Finished;
        }
        if let Some(place) = self.lanes.get_mut(index as usize) {
            *place = Some(Box::new(lane));
        }
        self.schedule_tick(id);
        id
    }

    /// Adds fetched data to a lane. Returns whether to wake a worker.
    ///
    /// Data of an older assignment, or of a position that a seek has left, is dropped here before any worker decodes
    /// it.
    pub fn push(&mut self, now: Nanos, id: LaneId, mut chunk: CompletedFetch) -> bool {
        self.now = self.now.max(now);
        let quiet = self.is_quiet();
        let Some(lane) = self.lane_mut(id) else { return false };
        // A stopped lane keeps its data: the memory budget then stops the fetcher.
        let gone = match lane.spec.policy.queue {
            true => lane.phase != Phase::Active, // another member may have the records
            false => matches!(lane.phase, Phase::Leaving { .. } | Phase::Abandoned),
        };
        let gone = gone || (lane.spec.policy.queue && quiet);
        if gone || lane.fetch.generation() != Some(chunk.fetch_generation) {
            let (client, handle, bytes) = (lane.spec.client, lane.spec.handle, chunk.bytes);
            self.give_back(client, &chunk);
            self.release(client, handle, bytes);
            return false;
        }
        lane.acquire(&mut chunk);
        lane.fetch.push(now, chunk, &lane.spec.policy);
        self.enqueue_decode(id)
    }

    /// Sets the high watermark, and the end of the readable data, from a response without records. Returns whether to
    /// wake a worker.
    pub fn set_end_offsets(&mut self, id: LaneId, high_watermark: i64, readable_end: i64) -> bool {
        let Some(lane) = self.lane_mut(id) else { return false };
        lane.fetch.set_end_offsets(high_watermark, readable_end);
        self.enqueue(id, ReadyKind::LaneHook)
    }

    /// Sets the lane's position, and the generation that its fetched data carries from now on.
    ///
    /// `recovered_marks` are offsets from there on that were marked under an earlier assignment; they come only with a
    /// `committed` offset.
    ///
    /// A position that moved without the user (truncation, reset) makes queued data outdated. A position equal to the
    /// offset of a corrupt batch does not: rows that were decoded before that batch stay valid.
    pub fn set_position(
        &mut self,
        id: LaneId,
        offset: i64,
        generation: u32,
        committed: bool,
        recovered_marks: OffsetMap,
    ) {
        let Some(lane) = self.lane_mut(id) else { return };
        let refetch = lane.fetch.take_refetch();
        if lane.fetch.generation() == Some(generation) {
            return;
        }
        let positioned = lane.offsets.position().is_some();
        if positioned && lane.fetch.generation().is_none() && refetch == Some(offset) {
            lane.fetch.set_generation(generation);
            return;
        }
        if positioned {
            self.reset_lane(id);
        }
        let Some(lane) = self.lane_mut(id) else { return };
        lane.start_at(offset, generation, committed, recovered_marks);
        let client = lane.spec.client;
        self.start_dedup(id, offset, committed);
        if let Some(outputs) = self.outputs_of(client) {
            outputs.set_committed(id, committed.then_some(offset));
        }
        self.enqueue(id, ReadyKind::LaneHook);
    }

    /// Revokes a lane. Its jobs in flight end first, then its `revoked` hook runs; [`Outbox::drained`] reports the end.
    /// Returns whether to wake a worker.
    pub fn revoke(&mut self, id: LaneId, lost: bool) -> bool {
        let Some(lane) = self.lane_mut(id) else { return false };
        let before = lane.phase;
        if before == Phase::Abandoned || (matches!(before, Phase::Leaving { .. }) && !lost) {
            return false;
        }
        lane.phase = Phase::Leaving { lost };
        self.departing.insert(id);
        let Some(lane) = self.lane_mut(id) else { return false };
        lane.offsets.tracker().set_leaving();
        let client = lane.spec.client;
        if lost {
            // Another member may process the partition already.
            lane.offsets.tracker().fence();
            if let Some(outputs) = self.outputs_of(client) {
                outputs.drop_lane(id);
            }
        }
        if !matches!(before, Phase::Leaving { .. }) {
            self.drop_rows(id);
        }
        if lost {
            // After `drop_rows`: the end of the last job may remove the lane.
            self.release_suspended(id);
        }
        // A lane that was lost while it was being revoked has its hook in flight, or waits for jobs.
        !matches!(before, Phase::Leaving { .. }) && self.finish_if_idle(id)
    }

    /// Abandons a lane whose jobs still run after the revocation deadline: from now on these jobs mark nothing.
    ///
    /// Returns the jobs, for the report. When the last of them has come back, the lane's hook runs if a handler
    /// instance exists.
    pub fn abandon(&mut self, id: LaneId) -> Vec<InFlightJob> {
        let Some(lane) = self.lane_mut(id) else { return Vec::new() };
        lane.offsets.tracker().fence();
        lane.phase = Phase::Abandoned;
        let client = lane.spec.client;
        self.departing.insert(id);
        let running: Vec<InFlightJob> = self.jobs.of_lane(id).cloned().collect();
        if let Some(outputs) = self.outputs_of(client) {
            outputs.drop_lane(id);
        }
        self.drop_rows(id);
        // After `drop_rows`: the end of the last job may remove the lane.
        self.release_suspended(id);
        self.finish_if_idle(id);
        running
    }

    /// Drops a lane without a hook and without a last commit (a low-level client unassigned the partition).
    pub fn remove_lane(&mut self, id: LaneId) {
        if let Some(lane) = self.lane_mut(id) {
            lane.hooks.skip_end_hook();
        }
        self.abandon(id);
    }

    /// Resets a lane whose position moves (seek or truncation). Queued data is dropped, and so is data that arrives
    /// before the new position is known.
    pub fn reset_lane(&mut self, id: LaneId) {
        self.drop_rows(id);
        let Some(lane) = self.lane_mut(id) else { return };
        lane.fetch.reset_position();
        lane.offsets.reset();
        lane.pauses.end();
        let client = lane.spec.client;
        if let Some(outputs) = self.outputs_of(client) {
            outputs.on_reset(id);
        }
        let Some(lane) = self.lane_mut(id) else { return };
        // The records whose marks were dropped are read again, or the user has chosen to skip them.
        lane.failure.take_if(|failure| failure.reason == super::suspended_jobs::UNDELIVERED);
        // A lane that is leaving, lost or abandoned stays fenced.
        if matches!(lane.phase, Phase::Active | Phase::Stopping | Phase::Finished) {
            lane.replace_tracker(Arc::default());
        }
        self.release_suspended(id);
    }

    /// Resets a lane whose topic was deleted and created again. Like [`Dispatch::reset_lane`], and the end of the
    /// partition is unknown from now on.
    pub fn reset_recreated_topic(&mut self, id: LaneId) {
        self.reset_lane(id);
        if let Some(lane) = self.lane_mut(id) {
            lane.fetch.forget_log_offsets();
            lane.offsets.forget_committed();
        }
    }

    /// Sets or clears the error that keeps the partition from being read. Data that is fetched already is processed
    /// either way.
    pub fn set_failure(&mut self, id: LaneId, failure: Option<LaneFailure>) {
        if let Some(lane) = self.lane_mut(id) {
            lane.failure = failure.map(Box::new);
        }
    }

    /// Pauses a lane until `until` or until [`Dispatch::resume`]: its data is kept and not handed out. `None`: without
    /// end.
    pub fn pause(&mut self, id: LaneId, until: Option<Nanos>) {
        let Some(lane) = get_mut(&mut self.lanes, id) else { return };
        lane.schedule.pause(&mut self.timers, id, until);
    }

    /// Ends the user's pause. Returns whether to wake a worker.
    pub fn resume(&mut self, id: LaneId) -> bool {
        let Some(lane) = get_mut(&mut self.lanes, id) else { return false };
        lane.schedule.resume(&mut self.timers, id);
        self.enqueue_all(id)
    }

    /// Continues a lane whose wait for marks has ended; see [`JobState::take_resumed`](super::JobState::take_resumed).
    /// Returns whether to wake a worker.
    pub fn on_marks_resumed(&mut self, id: LaneId) -> bool {
        self.enqueue_decode(id)
    }

    /// Sets the time until which the group session is alive; `None`: the client has no session. Returns whether lanes
    /// became ready.
    pub fn set_session(&mut self, client: ClientId, until: Option<Nanos>) -> bool {
        let Some(entry) = self.client_mut(client) else { return false };
        entry.session_until = until;
        let held = std::mem::take(&mut entry.waiting_for_session);
        let any = !held.is_empty();
        for (pool, place) in held {
            self.ready.put(pool, place);
        }
        any
    }

    /// Sets how many bytes the fetcher waits for; `None`: it does not wait. The release of so many bytes wakes the
    /// client.
    ///
    /// Releases that the client has not yet collected count, too. A worker may have completed its job between the
    /// client's last check and this call, without waking any thread.
    pub fn set_awaiting_memory(&mut self, client: ClientId, awaited_bytes: Option<usize>) {
        if let Some(entry) = self.client_mut(client) {
            entry.awaited_bytes = awaited_bytes;
            entry.wake_pending |= awaited_bytes.is_some_and(|awaited| entry.released_bytes >= awaited);
        }
    }

    /// Takes everything that was collected for the client since the last call.
    pub fn take_outbox(&mut self, client: ClientId) -> Outbox {
        let Some(entry) = self.client_mut(client) else { return Outbox::default() };
        entry.released_bytes = 0;
        std::mem::take(&mut entry.outbox)
    }

    /// Returns whether to wake the client, and clears that flag.
    pub fn take_pending_wake(&mut self, client: ClientId) -> bool {
        self.client_mut(client).is_some_and(|entry| std::mem::take(&mut entry.wake_pending))
    }

    /// Returns offsets that have grown since they were last returned; with `all`, unchanged offsets, too. Marks and
    /// reported progress of jobs in flight count.
    pub fn take_committables(&mut self, client: ClientId, all: bool) -> Vec<Committable> {
        if self.outputs_of(client).is_some() {
            return self.take_transactional(client, all);
        }
        self.apply_progress(|running| running.client == client);
        let lanes = self.lanes.iter_mut().flatten().filter(|lane| lane.spec.client == client);
        lanes.filter_map(|lane| lane.take_committable(all)).collect()
    }

    /// Returns the committable offset of one lane, unchanged or not. Marks and reported progress of jobs in flight
    /// count.
    ///
    /// # Errors
    /// [`Fenced`] if the lane does not belong to this process any more.
    pub fn committable(&mut self, id: LaneId) -> Result<Option<Committable>, Fenced> {
        self.apply_progress(|running| running.unit.lane == id);
        let lane = self.lane_mut(id).filter(|lane| !lane.offsets.tracker().is_fenced()).ok_or(Fenced)?;
        let (client, committable) = (lane.spec.client, lane.take_committable(true));
        Ok(committable.and_then(|found| self.within_jobs(client, id, found, true)))
    }

    /// Records a failed commit: [`Dispatch::take_committables`] returns the offsets of these partitions again.
    pub fn on_commit_failed(&mut self, client: ClientId, tps: &[TopicPartition]) {
        for lane in self.lanes.iter_mut().flatten() {
            if lane.spec.client == client && tps.contains(&lane.spec.tp) {
                lane.offsets.forget_committed();
            }
        }
        self.on_transactional_commit_failed(client, tps);
    }

    /// Releases bytes of the partition `handle`.
    pub fn release(&mut self, client: ClientId, handle: PartitionHandle, bytes: usize) {
        if let Some(entry) = self.client_mut(client).filter(|_| bytes > 0) {
            entry.outbox.released.push((handle, bytes));
            entry.released_bytes = entry.released_bytes.saturating_add(bytes);
            entry.wake_pending |= entry.awaited_bytes.is_some_and(|awaited| entry.released_bytes >= awaited);
        }
    }
}

/// `reason` of the failure of a lane whose history cannot be read.
const HISTORY_FAILED: &str = "dedup_history";

/// Deduplication. The fetcher reads from the committed offset on, while the history before that offset is read. The lane
/// decodes nothing until the history is complete: a duplicate would pass otherwise.
impl Dispatch {
    /// Gives a lane of a route with deduplication its filter, at a new position. `is_committed`: the records before the
    /// position were processed, so that their ids count.
    ///
    /// After a seek they do not count: the user wants the records from there on.
    fn start_dedup(&mut self, id: LaneId, position: i64, is_committed: bool) {
        let salts = [self.rng.next_u64(), self.rng.next_u64()];
        let Some(lane) = self.lane_mut(id) else { return };
        let Some(policy) = lane.spec.policy.dedup.clone() else { return };
        let filter = Arc::new(DuplicateFilter::new(Arc::clone(&policy), salts));
        let waits = is_committed && position > 0;
        lane.fetch.set_duplicates(Arc::clone(&filter), waits);
        if !waits {
            return;
        }
        let (client, tp) = (lane.spec.client, lane.spec.tp.clone());
        let (records, window_ms) = (policy.capacity(), policy.window_ms);
        if let Some(entry) = self.client_mut(client) {
            let request = HistoryRequest { lane: id, tp, before: position, records, window_ms, filter };
            entry.outbox.histories.push(request);
            entry.wake_pending = true;
        }
    }

    /// Returns whether the lane still waits for this history. It does not if its position has moved, or if it is gone.
    pub fn awaits_history(&mut self, request: &HistoryRequest) -> bool {
        self.lane_mut(request.lane).is_some_and(|lane| lane.fetch.awaits_history(&request.filter))
    }

    /// Ends the wait for a history that was learned. Returns whether to wake a worker.
    pub fn end_history(&mut self, request: &HistoryRequest) -> bool {
        let Some(lane) = self.lane_mut(request.lane).filter(|lane| lane.fetch.awaits_history(&request.filter)) else {
            return false;
        };
        lane.fetch.end_history();
        lane.failure.take_if(|failure| failure.reason == HISTORY_FAILED);
        self.enqueue_decode(request.lane)
    }

    /// Records why the history cannot be read now. The lane waits on.
    pub fn fail_history(&mut self, request: &HistoryRequest, error: &str) {
        let since = self.now;
        let Some(lane) = self.lane_mut(request.lane).filter(|lane| lane.fetch.awaits_history(&request.filter)) else {
            return;
        };
        let since = lane.failure.as_ref().map_or(since, |failure| failure.since);
        lane.failure = Some(Box::new(LaneFailure { reason: HISTORY_FAILED, error: error.into(), since }));
    }
}
