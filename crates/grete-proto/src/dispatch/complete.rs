//! End of a job: marks its offsets, puts back rows to retry, and makes the next jobs ready.

use std::sync::Arc;

use grete_wire::records::RecordError;

use super::ids::{ClientId, LaneId};
use super::job::state::JobState;
use super::job::{JobKind, JobOutcome};
use super::lane::{Lane, Phase};
use super::lease::Lease;
use super::outbox::CorruptBatch;
use super::queue::ready_queue::ReadyKind;
use super::retry::failure::{Decision, Failure, FailureKind};
use super::route_config::OffsetPolicy;
use super::rows::decode_queue::DecodeQueue;
use super::rows::decoded_batch::DecodedBatch;
use super::rows::key_partitioner::PartitionedRows;
use super::rows::row_slice::RowSlice;
use super::stats::JobEnd;
use super::{Dispatch, get_mut};
use crate::rng::Rng;
use crate::time::{MILLI, Nanos};

/// Result of a job's end.
#[derive(Debug, Default)]
struct Completion {
    released: usize,
    decision: Option<Decision>,
    /// Backoff of the unit; `None`: it may run at once.
    wait: Option<Nanos>,
    /// Milliseconds until the next row of the decode queue is old enough; `None`: no row is too young.
    due_in_ms: Option<i64>,
    corrupt: Option<(i64, RecordError)>,
    /// Slots that received rows.
    filled: Vec<u32>,
}

impl Dispatch {
    /// Completes a job. Returns the lane's client, and the decision after a failure.
    ///
    /// The caller then asks [`Dispatch::take_pending_wake`] whether to wake that client.
    pub fn complete(&mut self, now: Nanos, mut lease: Lease, finished: JobOutcome) -> (ClientId, Option<Decision>) {
        self.now = self.now.max(now);
        let (now, wall_ms) = (self.now, self.wall_clock_ms());
        let (id, client, kind, slot) = (lease.lane, lease.client, lease.kind, lease.slot);
        let running = self.jobs.remove(lease.job);
        if kind.handles_records()
            && let Some(route) = self.routes.get_mut(&lease.policy.route)
        {
            route.jobs.on_job_ended();
            if let Some((pool, entry)) = route.jobs.release() {
                self.ready.put(pool, entry);
            }
        }
        let (began, handled) = running.map_or((now, now), |running| (running.since, running.handled_at.unwrap_or(now)));
        // A job that stopped between two rows because its lane is leaving is done up to that row. The rest is left to
        // the next owner, as if the handler had asked for it again later: this counts as no failure.
        let yielded = matches!(finished, JobOutcome::Done) && lease.shared.has_yielded();
        let finished =
            if yielded { JobOutcome::Failed(Failure::new(FailureKind::RetryLater(0), "", "")) } else { finished };
        let failed = matches!(finished, JobOutcome::Failed(_)) && !yielded;
        let is_retry_later =
            matches!(&finished, JobOutcome::Failed(failure) if matches!(failure.kind, FailureKind::RetryLater(_)));
        let dead_lettered =
            kind == JobKind::DeadLetter && matches!(finished, JobOutcome::Done) && !lease.shared.is_fenced();
        let ran = kind != JobKind::Decode && matches!(finished, JobOutcome::Done | JobOutcome::Failed(_));
        let Some(lane) = get_mut(&mut self.lanes, id) else { return (client, failed.then_some(Decision::Fenced)) };
        lane.schedule.on_job_ended(kind);
        if kind.handles_records() {
            lane.rows.release_instance(lease.instance, &lease.policy);
        }
        lane.hooks.on_job_ended(now, kind, ran);
        // Before the rows are taken: records belong to rows.
        let staged = lease.shared.end_staging(matches!(finished, JobOutcome::Failed(_)), yielded);
        let mut ended = Completion { released: lease.release, ..Completion::default() };
        match kind {
            JobKind::Consume | JobKind::DeadLetter => {
                let feed = lease.decode_queue.take();
                let goes_on = lane.is_current(&lease.shared);
                lane.end_rows(lease, finished, goes_on, wall_ms, &mut self.rng, &mut ended);
                lane.return_decode_queue(feed, goes_on, &mut ended);
            }
            JobKind::Decode => {
                let feed = lease.decode_queue.take();
                let goes_on = lane.is_current(&lease.shared);
                lane.end_decoding(&lease, finished, wall_ms, &mut ended);
                lane.return_decode_queue(feed, goes_on, &mut ended);
            }
            _ => {}
        }
        if let Some(tally) = self.stats.get_mut(lane.stats.route()) {
            if ran {
                let (duration, failed) = (handled.saturating_sub(began), failed && !is_retry_later);
                tally.record_job(JobEnd { kind, duration, failed, decision: ended.decision });
            }
            if dead_lettered {
                tally.dead_letters += 1;
                lane.stats.on_progress(now);
            }
            lane.flush_stats(now, tally);
        }
        if let Some(wait) = ended.wait.filter(|_| lane.phase == Phase::Active) {
            let until = Some(now.saturating_add(wait));
            lane.rows.unit_mut(slot).set_retry_timer(&mut self.timers, id, slot, until);
        }
        if let Some(ms) = ended.due_in_ms {
            let wait = u64::try_from(ms.max(1)).unwrap_or(1).saturating_mul(MILLI);
            lane.fetch.set_not_before(now.saturating_add(wait));
        }
        if let Some(staged) = staged {
            self.deposit(id, client, staged);
        }
        self.collect_acks(id, ended.wait.is_some());
        self.release_bytes(id, ended.released);
        if let Some((offset, error)) = ended.corrupt.take() {
            self.request_refetch(id, offset, error);
            self.collect_acks(id, false);
        }
        self.enqueue_next(id, kind, slot, &ended.filled);
        (client, ended.decision.filter(|_| !yielded))
    }

    /// Requests the data behind a corrupt batch again. The network thread answers with a new position.
    fn request_refetch(&mut self, id: LaneId, offset: i64, error: RecordError) {
        let Some(lane) = get_mut(&mut self.lanes, id) else { return };
        let bytes = lane.fetch.drop_queued();
        let generation = match lane.spec.policy.queue {
            // The records go back to their leader, which sends them again.
            true => {
                lane.release_undecoded();
                lane.fetch.generation()
            }
            false => lane.fetch.refetch(offset),
        };
        let Some(generation) = generation else { return };
        let (client, handle, tp) = (lane.spec.client, lane.spec.handle, lane.spec.tp.clone());
        self.release_bytes(id, bytes);
        if let Some(entry) = self.client_mut(client) {
            entry.outbox.corrupt.push(CorruptBatch { lane: id, handle, tp, generation, offset, error });
            entry.wake_pending = true;
        }
    }

    /// Enqueues the jobs that may run after a job has ended.
    fn enqueue_next(&mut self, id: LaneId, kind: JobKind, slot: u32, filled: &[u32]) {
        let Some(lane) = get_mut(&mut self.lanes, id) else { return };
        if lane.phase != Phase::Active {
            lane.drop_idle_unit(slot);
            self.finish_if_idle(id);
            return;
        }
        let (parted, loose) = (lane.is_sharded(), lane.rows.has_unkeyed());
        let (whole, tick) = (lane.policy().eof || lane.policy().tick.is_some(), !lane.hooks.has_tick_timer());
        if lane.pauses.is_pausing()
            && lane.pending_records().is_none_or(|(count, _)| count <= lane.policy().max_unmarked / 2)
        {
            lane.pauses.end();
        }
        match kind {
            JobKind::Consume | JobKind::DeadLetter if parted => {
                self.enqueue(id, ReadyKind::Unit(slot));
                if let Some(lane) = get_mut(&mut self.lanes, id) {
                    lane.drop_idle_unit(slot);
                }
            }
            JobKind::Consume | JobKind::DeadLetter => {}
            JobKind::Decode => filled.iter().for_each(|slot| {
                self.enqueue(id, ReadyKind::Unit(*slot));
            }),
            _ => {
                self.enqueue_all(id);
            }
        }
        if loose {
            self.enqueue(id, ReadyKind::Unkeyed);
        }
        self.enqueue_decode(id);
        if whole {
            self.enqueue(id, ReadyKind::LaneHook);
            if tick {
                self.schedule_tick(id);
            }
        }
    }
}

impl Lane {
    /// Takes back the decode queue from which the job decoded.
    fn return_decode_queue(&mut self, feed: Option<Box<DecodeQueue>>, goes_on: bool, ended: &mut Completion) {
        if let Some(mut feed) = feed {
            self.finish_acquired(feed.take_acks());
            ended.released += self.fetch.return_decode_queue(feed, goes_on && ended.corrupt.is_none());
        }
    }

    /// Applies the outcome of decoding that produced no rows.
    fn end_without_rows(&mut self, shared: &JobState, finished: JobOutcome, wall_ms: i64, ended: &mut Completion) {
        match finished {
            JobOutcome::Skipped { next_offset } => {
                let _ = shared.tracker.with(|tracker| tracker.skip(next_offset));
                self.offsets.advance(next_offset);
            }
            JobOutcome::NotDue { until_ms } => ended.due_in_ms = Some(until_ms.saturating_sub(wall_ms)),
            JobOutcome::Corrupt { offset, error } => ended.corrupt = Some((offset, error)),
            _ => {}
        }
    }

    fn end_decoding(&mut self, lease: &Lease, finished: JobOutcome, wall_ms: i64, ended: &mut Completion) {
        let goes_on = self.is_current(&lease.shared);
        let PartitionedRows { batch, memory: parcel, slots, unkeyed: loose } = match finished {
            JobOutcome::Decoded(parted) => parted,
            other if goes_on => return self.end_without_rows(&lease.shared, other, wall_ms, ended),
            _ => return,
        };
        let rows = batch.rows.len();
        if !goes_on {
            ended.released += parcel.release_rows(rows);
            self.release_acquired(batch.offsets().iter().copied());
            return;
        }
        self.schedule.set_barrier(false);
        self.hand_out(&lease.shared, &batch);
        self.rows.add_in_flight(rows);
        self.offsets.advance(batch.next_offset);
        for (slot, piece) in slots {
            self.rows.unit_mut(slot).push_back(piece);
            ended.filled.push(slot);
        }
        self.rows.add_unkeyed(loose);
    }

    fn end_rows(
        &mut self,
        mut lease: Lease,
        finished: JobOutcome,
        goes_on: bool,
        wall_ms: i64,
        rng: &mut Rng,
        ended: &mut Completion,
    ) {
        let slot = lease.slot;
        self.rows.unit_mut(slot).set_running(false);
        if matches!(finished, JobOutcome::Failed(_)) {
            lease.shared.apply_progress();
        }
        // Rows of a lease that was never prepared are left over, too.
        let rest = lease.leftover.drain(..).chain(lease.rows.take());
        let rest: Vec<RowSlice> = rest.collect();
        let done = match lease.shared.take_batch() {
            Some(batch) => self.end_batch(&lease, batch, finished, goes_on, rng, ended),
            None if goes_on => {
                self.end_without_rows(&lease.shared, finished, wall_ms, ended);
                0
            }
            None => 0,
        };
        let (mut dropped, is_queue) = (0, self.policy().queue);
        for piece in rest {
            if goes_on {
                self.rows.unit_mut(slot).put_back(piece, is_queue);
            } else {
                self.release_acquired(piece.offsets());
                dropped += piece.len();
                ended.released += piece.memory.release_rows(piece.len());
            }
        }
        self.skip_at_most_once(dropped);
        self.rows.remove_in_flight(done + dropped);
    }

    /// Marks the job's rows as done, or puts them back to retry. Returns how many rows are no longer in flight.
    fn end_batch(
        &mut self,
        lease: &Lease,
        batch: DecodedBatch,
        finished: JobOutcome,
        goes_on: bool,
        rng: &mut Rng,
        ended: &mut Completion,
    ) -> usize {
        let counts = !lease.shared.is_fenced();
        let kept = match finished {
            JobOutcome::Failed(_) if !counts => {
                ended.decision = Some(Decision::Fenced);
                None
            }
            JobOutcome::Failed(_) if !goes_on => {
                // The lane is leaving: its next owner processes the unmarked records.
                ended.decision = Some(Decision::Halt);
                self.release_acquired(batch.offsets().iter().copied());
                let done = self.count_done_at_most_once(lease, batch.rows.len());
                self.skip_at_most_once(batch.rows.len() - done);
                None
            }
            JobOutcome::Failed(failure) => self.apply_failure(lease, &batch, failure, rng, ended),
            _ => {
                // With manual offsets only marks count. A dead letter was sent, and that counts as a mark.
                if lease.kind == JobKind::DeadLetter {
                    let _ = lease.shared.tracker.with(|tracker| tracker.mark_dead_lettered(batch.offsets()));
                } else if self.policy().offsets == OffsetPolicy::AtMostOnce {
                    self.stats.add_records(if counts { batch.rows.len() } else { 0 });
                } else if self.policy().offsets == OffsetPolicy::Auto {
                    let _ = lease.shared.tracker.with(|tracker| tracker.mark_offsets(batch.offsets()));
                }
                None
            }
        };
        if counts && kept.is_none() && !self.is_sharded() {
            self.offsets.advance(batch.next_offset);
        }
        let done = batch.rows.len() - kept.as_ref().map_or(0, |kept| kept.rows.len());
        let Some(parcel) = &lease.memory else { return done };
        let freed = parcel.release_rows(done);
        if freed > 0 {
            batch.columns.pin();
        }
        ended.released += freed;
        if let Some(kept) = kept {
            let is_queue = self.policy().queue;
            self.rows.unit_mut(lease.slot).put_back(RowSlice::contiguous(kept, Arc::clone(parcel)), is_queue);
        }
        done
    }

    /// Applies a failure to the unit's retry state. Returns the rows to run again; `None`: none.
    fn apply_failure(
        &mut self,
        lease: &Lease,
        batch: &DecodedBatch,
        failure: Failure,
        rng: &mut Rng,
        ended: &mut Completion,
    ) -> Option<DecodedBatch> {
        let policy = Arc::clone(&self.spec.policy);
        let offsets = batch.offsets();
        let open: Vec<bool> = if policy.offsets == OffsetPolicy::AtMostOnce {
            let done = self.count_done_at_most_once(lease, offsets.len());
            (0..offsets.len()).map(|row| row >= done).collect()
        } else {
            let open =
                lease.shared.tracker.with(|tracker| offsets.iter().map(|offset| tracker.is_open(*offset)).collect());
            open.unwrap_or_default()
        };
        let unmarked = offsets.iter().zip(&open).filter(|(_, open)| **open).map(|(offset, _)| *offset);
        let earlier = self.earlier_deliveries(batch.offsets().first().copied());
        let decision = self.rows.unit_mut(lease.slot).on_failure(unmarked, failure, &policy, rng, earlier);
        if let Decision::Retry { wait, .. } | Decision::RetryLater { wait } = decision {
            ended.wait = Some(wait).filter(|wait| *wait > 0);
        }
        ended.decision = Some(decision);
        if decision == Decision::Skipped {
            self.skip_at_most_once(open.iter().filter(|open| **open).count());
            return None;
        }
        batch.filter_rows(|row| open.get(row).copied().unwrap_or(false))
    }

    /// Counts rows of a failed at-most-once job that its handler reported as done. Returns their number, at most
    /// `rows`; 0 for all other jobs.
    fn count_done_at_most_once(&mut self, lease: &Lease, rows: usize) -> usize {
        if self.policy().offsets != OffsetPolicy::AtMostOnce || lease.kind != JobKind::Consume {
            return 0;
        }
        let done = lease.shared.completed_rows().min(rows);
        self.stats.add_records(done);
        done
    }
}
