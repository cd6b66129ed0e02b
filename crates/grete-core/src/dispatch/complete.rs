//! A job's end: what it earned, what waits again, what may run next.

use std::sync::Arc;

use grete_wire::records::RecordError;

use super::alarm::Alarm;
use super::batch::Batch;
use super::client::ClientId;
use super::failure::{Decision, Failure, Verdict};
use super::feed::Feed;
use super::job::{Finished, JobKind};
use super::lane::{Lane, LaneId, Phase};
use super::lease::Lease;
use super::outbox::Corrupt;
use super::piece::Piece;
use super::ready::Claim;
use super::route::OffsetPolicy;
use super::shared::JobShared;
use super::spread::Parted;
use super::take::hand_out;
use super::tally::Ending;
use super::{Dispatch, get_mut};
use crate::rng::Rng;
use crate::time::{MILLI, Nanos};

/// What the end of a job came to.
#[derive(Debug, Default)]
struct Ended {
    released: usize,
    decision: Option<Decision>,
    /// The unit waits so long.
    wait: Option<Nanos>,
    /// The feed's next row is due in so many milliseconds.
    due_in_ms: Option<i64>,
    corrupt: Option<(i64, RecordError)>,
    /// Slots that were given rows.
    filled: Vec<u32>,
}

impl Dispatch {
    /// The job's end. Returns the lane's client, whose wake-up [`Dispatch::take_wake`] tells, and what a failure leads to.
    pub fn complete(&mut self, now: Nanos, mut lease: Lease, finished: Finished) -> (ClientId, Option<Decision>) {
        self.now = self.now.max(now);
        let (now, wall_ms) = (self.now, self.wall_ms());
        let (id, client, kind, slot) = (lease.lane, lease.client, lease.kind, lease.slot);
        let began = self.jobs.remove(lease.job).map_or(now, |running| running.since);
        // A job that stopped between two rows, because its lane leaves, is done as far as it came. The rest is run as if asked
        // for again, by the next owner: no failure of anything.
        let cut = matches!(finished, Finished::Done) && lease.shared.is_cut();
        let finished = if cut { Finished::Failed(Failure::new(Verdict::Later(0), "", "")) } else { finished };
        let failed = matches!(finished, Finished::Failed(_)) && !cut;
        let asked_to_wait =
            matches!(&finished, Finished::Failed(failure) if matches!(failure.verdict, Verdict::Later(_)));
        let buried = kind == JobKind::DeadLetter && matches!(finished, Finished::Done) && !lease.shared.is_fenced();
        let ran = kind != JobKind::Decode && matches!(finished, Finished::Done | Finished::Failed(_));
        let Some(lane) = get_mut(&mut self.lanes, id) else { return (client, failed.then_some(Decision::Refused)) };
        lane.jobs = lane.jobs.saturating_sub(1);
        lane.idle_since = now;
        lane.touched |= ran;
        let mut ended = Ended { released: lease.release, ..Ended::default() };
        match kind {
            JobKind::Consume | JobKind::DeadLetter => {
                let feed = lease.feed.take();
                let goes_on = lane.goes_on(&lease);
                lane.end_rows(lease, finished, goes_on, wall_ms, &mut self.rng, &mut ended);
                lane.end_feed(feed, goes_on, &mut ended);
            }
            JobKind::Decode => {
                let feed = lease.feed.take();
                let goes_on = lane.goes_on(&lease);
                lane.end_decoding(&lease, finished, wall_ms, &mut ended);
                lane.end_feed(feed, goes_on, &mut ended);
            }
            _ => {
                lane.exclusive = false;
                // The hook has run, whatever it came to; there is no instance any more.
                lane.touched &= !matches!(kind, JobKind::Revoked { .. } | JobKind::Shutdown);
            }
        }
        if let Some(tally) = self.tallies.get_mut(lane.tally) {
            if ran {
                let (duration, failed) = (now.saturating_sub(began), failed && !asked_to_wait);
                tally.ended(Ending { kind, duration, failed, decision: ended.decision });
            }
            if buried {
                tally.dead_letters += 1;
                lane.progress_at = Some(now);
            }
            lane.count(now, tally);
        }
        if let Some(wait) = ended.wait.filter(|_| lane.phase == Phase::Active) {
            let until = &mut lane.unit_mut(slot).until;
            self.alarms.set(Alarm::Unit(id, slot), until, Some(now.saturating_add(wait)));
        }
        if let Some(ms) = ended.due_in_ms {
            lane.feed_until = now.saturating_add(u64::try_from(ms.max(1)).unwrap_or(1).saturating_mul(MILLI));
        }
        self.give_back(id, ended.released);
        if let Some((offset, error)) = ended.corrupt.take() {
            self.refetch(id, offset, error);
        }
        self.go_on(id, kind, slot, &ended.filled);
        (client, ended.decision.filter(|_| !cut))
    }

    /// Whatever was fetched behind a batch that did not pass comes again; a new position says from where.
    fn refetch(&mut self, id: LaneId, offset: i64, error: RecordError) {
        let Some(lane) = get_mut(&mut self.lanes, id) else { return };
        let bytes = lane.drop_fetched();
        let Some(generation) = lane.fetch_generation.take() else { return };
        lane.refetch = Some(offset);
        let (client, slot, tp) = (lane.spec.client, lane.spec.slot, lane.spec.tp.clone());
        self.give_back(id, bytes);
        if let Some(entry) = self.client_mut(client) {
            entry.outbox.corrupt.push(Corrupt { lane: id, slot, tp, generation, offset, error });
            entry.wake = true;
        }
    }

    /// What may run after a job has ended.
    fn go_on(&mut self, id: LaneId, kind: JobKind, slot: u32, filled: &[u32]) {
        let Some(lane) = get_mut(&mut self.lanes, id) else { return };
        if lane.phase != Phase::Active {
            lane.tidy(slot);
            self.settle(id);
            return;
        }
        let (parted, loose) = (lane.is_parted(), !lane.loose.is_empty());
        let (whole, tick) = (lane.policy().eof || lane.policy().tick.is_some(), lane.tick_alarm.is_none());
        if lane.unmarked_told && lane.measured().is_none_or(|(count, _)| count <= lane.policy().max_unmarked / 2) {
            lane.unmarked_told = false;
        }
        match kind {
            JobKind::Consume | JobKind::DeadLetter if parted => {
                self.offer(id, Claim::Unit(slot));
                if let Some(lane) = get_mut(&mut self.lanes, id) {
                    lane.tidy(slot);
                }
            }
            JobKind::Consume | JobKind::DeadLetter => {}
            JobKind::Decode => filled.iter().for_each(|slot| {
                self.offer(id, Claim::Unit(*slot));
            }),
            _ => {
                self.offer_all(id);
            }
        }
        if loose {
            self.offer(id, Claim::Loose);
        }
        self.offer_feed(id);
        if whole {
            self.offer(id, Claim::Whole);
            if tick {
                self.arm_tick(id);
            }
        }
    }
}

impl Lane {
    /// Whether a job's rows and feed are still the lane's.
    pub(super) fn goes_on(&self, lease: &Lease) -> bool {
        self.phase == Phase::Active && Arc::ptr_eq(&lease.shared.marks, &self.marks) && !lease.shared.is_fenced()
    }

    /// The job gives back the feed that it decoded from.
    fn end_feed(&mut self, feed: Option<Feed>, goes_on: bool, ended: &mut Ended) {
        let Some(mut feed) = feed else { return };
        self.feed_out = false;
        if goes_on && ended.corrupt.is_none() {
            feed.append(std::mem::take(&mut self.feed));
            self.feed = feed;
        } else {
            ended.released += feed.clear();
        }
    }

    /// What decoding came to, if it was no rows.
    fn end_rowless(&mut self, shared: &JobShared, finished: Finished, wall_ms: i64, ended: &mut Ended) {
        match finished {
            Finished::Skipped { next_offset } => {
                let _ = shared.marks.with(|tracker| tracker.skip(next_offset));
                self.position = self.position.max(Some(next_offset));
            }
            Finished::NotDue { until_ms } => ended.due_in_ms = Some(until_ms.saturating_sub(wall_ms)),
            Finished::Corrupt { offset, error } => ended.corrupt = Some((offset, error)),
            _ => {}
        }
    }

    fn end_decoding(&mut self, lease: &Lease, finished: Finished, wall_ms: i64, ended: &mut Ended) {
        let goes_on = self.goes_on(lease);
        let Parted { batch, parcel, slots, loose } = match finished {
            Finished::Decoded(parted) => parted,
            other if goes_on => return self.end_rowless(&lease.shared, other, wall_ms, ended),
            _ => return,
        };
        let rows = batch.rows.len();
        if !goes_on {
            ended.released += parcel.finish(rows);
            return;
        }
        hand_out(self, &lease.shared, &batch);
        self.in_flight += rows;
        self.position = self.position.max(Some(batch.next_offset));
        for (slot, piece) in slots {
            self.unit_mut(slot).waiting.push_back(piece);
            ended.filled.push(slot);
        }
        self.loose.extend(loose);
    }

    fn end_rows(
        &mut self,
        mut lease: Lease,
        finished: Finished,
        goes_on: bool,
        wall_ms: i64,
        rng: &mut Rng,
        ended: &mut Ended,
    ) {
        let slot = lease.slot;
        self.unit_mut(slot).running = false;
        if matches!(finished, Finished::Failed(_)) {
            lease.shared.mark_progress();
        }
        // A piece that nobody has prepared is a rest, too.
        let rest = lease.rest.drain(..).chain(lease.piece.take());
        let rest: Vec<Piece> = rest.collect();
        let done = match lease.shared.take_batch() {
            Some(batch) => self.end_batch(&lease, batch, finished, goes_on, rng, ended),
            None if goes_on => {
                self.end_rowless(&lease.shared, finished, wall_ms, ended);
                0
            }
            None => 0,
        };
        let mut dropped = 0;
        for piece in rest {
            if goes_on {
                self.unit_mut(slot).put_back(piece);
            } else {
                dropped += piece.len();
                ended.released += piece.parcel.finish(piece.len());
            }
        }
        self.skip_once(dropped);
        self.in_flight = self.in_flight.saturating_sub(done + dropped);
    }

    /// The job's rows are done, or wait again. Returns how many the lane is rid of.
    fn end_batch(
        &mut self,
        lease: &Lease,
        batch: Batch,
        finished: Finished,
        goes_on: bool,
        rng: &mut Rng,
        ended: &mut Ended,
    ) -> usize {
        let counts = !lease.shared.is_fenced();
        let kept = match finished {
            Finished::Failed(_) if !counts => {
                ended.decision = Some(Decision::Refused);
                None
            }
            Finished::Failed(_) if !goes_on => {
                // On its way out: what is not marked is the next owner's.
                ended.decision = Some(Decision::Hold);
                let done = self.done_once(lease, batch.rows.len());
                self.skip_once(batch.rows.len() - done);
                None
            }
            Finished::Failed(failure) => self.failed(lease, &batch, failure, rng, ended),
            _ => {
                // Where marks alone count they say what is done; a dead letter was sent, and that is a mark.
                if lease.kind == JobKind::DeadLetter {
                    let _ = lease.shared.marks.with(|tracker| tracker.bury(batch.offsets()));
                } else if self.policy().offsets == OffsetPolicy::AtMostOnce {
                    self.records += if counts { batch.rows.len() as u64 } else { 0 };
                } else if self.policy().offsets == OffsetPolicy::Auto {
                    let _ = lease.shared.marks.with(|tracker| tracker.mark_each(batch.offsets()));
                }
                None
            }
        };
        if counts && kept.is_none() && !self.is_parted() {
            self.position = self.position.max(Some(batch.next_offset));
        }
        let done = batch.rows.len() - kept.as_ref().map_or(0, |kept| kept.rows.len());
        let Some(parcel) = &lease.parcel else { return done };
        let freed = parcel.finish(done);
        if freed > 0 {
            batch.columns.pin();
        }
        ended.released += freed;
        if let Some(kept) = kept {
            self.unit_mut(lease.slot).put_back(Piece::run(kept, Arc::clone(parcel)));
        }
        done
    }

    /// Which rows come again, if any do.
    fn failed(
        &mut self,
        lease: &Lease,
        batch: &Batch,
        failure: Failure,
        rng: &mut Rng,
        ended: &mut Ended,
    ) -> Option<Batch> {
        let policy = Arc::clone(&self.spec.policy);
        let offsets = batch.offsets();
        let open: Vec<bool> = if policy.offsets == OffsetPolicy::AtMostOnce {
            let done = self.done_once(lease, offsets.len());
            (0..offsets.len()).map(|row| row >= done).collect()
        } else {
            let open =
                lease.shared.marks.with(|tracker| offsets.iter().map(|offset| tracker.is_open(*offset)).collect());
            open.unwrap_or_default()
        };
        let unmarked = offsets.iter().zip(&open).filter(|(_, open)| **open).map(|(offset, _)| *offset);
        let unit = self.unit_mut(lease.slot);
        let decision = unit.attempts.failed(unmarked, failure, &policy, rng);
        match decision {
            Decision::Retry { wait, .. } | Decision::Later { wait } => ended.wait = Some(wait).filter(|wait| *wait > 0),
            Decision::Hold => unit.held = true,
            _ => {}
        }
        ended.decision = Some(decision);
        if decision == Decision::Skipped {
            self.skip_once(open.iter().filter(|open| **open).count());
            return None;
        }
        batch.filtered(|row| open.get(row).copied().unwrap_or(false))
    }

    /// At most once: counts the rows of a failed job that its handler has said to be done, of so many; returns how many.
    fn done_once(&mut self, lease: &Lease, rows: usize) -> usize {
        if self.policy().offsets != OffsetPolicy::AtMostOnce || lease.kind != JobKind::Consume {
            return 0;
        }
        let done = lease.shared.progressed().min(rows);
        self.records += done as u64;
        done
    }
}
