//! A job's beginning: which one is next, and what it is given.

use std::sync::Arc;

use super::job::{JobKind, Running};
use super::lane::Lane;
use super::lease::{Lease, Prepared};
use super::outbox::{Remark, RemarkKind};
use super::piece::Piece;
use super::ready::{Claim, Place};
use super::route::{OffsetPolicy, Pool};
use super::shared::JobShared;
use super::sieve::{Passed, Sieve};
use super::span::Offsets;
use super::trouble::Plan;
use super::unit::UnitId;
use super::{Alarm, Dispatch, Mode, get_mut};
use crate::time::{Nanos, earlier};

/// What a job of a unit is made of.
struct Work {
    slot: u32,
    kind: JobKind,
    attempt: u32,
    piece: Option<Piece>,
    trouble: Option<Arc<super::failure::Trouble>>,
    /// Rows that come for the first time count against the rate.
    granted: usize,
    most: usize,
}

impl Work {
    fn whole(kind: JobKind) -> Self {
        Self { slot: 0, kind, attempt: 1, piece: None, trouble: None, granted: 0, most: usize::MAX }
    }
}

impl Dispatch {
    /// The next job for this pool, if there is one.
    pub fn take(&mut self, now: Nanos, worker: &str, pool: Pool) -> Option<Lease> {
        self.advance(now);
        while let Some(place) = self.ready.pop(pool) {
            if let Some(work) = self.work_for(now, pool, place) {
                return self.start(place, work, worker);
            }
        }
        None
    }

    /// What there is to do for a claim whose turn it is; `None` if it came to nothing, or has to wait elsewhere.
    fn work_for(&mut self, now: Nanos, pool: Pool, place: Place) -> Option<Work> {
        let running = self.mode == Mode::Running;
        let lane = get_mut(&mut self.lanes, place.lane)?;
        lane.set_queued(place.claim, false);
        let Some(kind) = lane.due(place.claim, now) else {
            if let Claim::Unit(slot) = place.claim {
                lane.tidy(slot);
            }
            return None;
        };
        if !running && !matches!(kind, JobKind::Revoked { .. } | JobKind::Shutdown) {
            return None;
        }
        // A process that slept through its session must not work on what by now belongs to another member.
        let client = self.clients.get_mut(lane.spec.client.0 as usize)?;
        if kind.needs_session() && client.session_until.is_some_and(|until| until < now) {
            lane.set_queued(place.claim, true);
            client.held.push((pool, place));
            return None;
        }
        match place.claim {
            Claim::Whole => Some(Work::whole(kind)),
            Claim::Decode => Some(Work { most: lane.window(), ..Work::whole(kind) }),
            Claim::Loose => {
                let slot = lane.free_slot()?;
                let rows = lane.loose.front().map_or(0, Piece::len).min(lane.loose_share());
                let granted = self.grant(now, pool, place, rows)?;
                let lane = get_mut(&mut self.lanes, place.lane)?;
                let most = if granted > 0 { granted } else { rows };
                let piece = lane.take_loose(most);
                Some(Work { slot, piece, granted, ..Work::whole(kind) })
            }
            Claim::Unit(slot) => self.unit_work(now, pool, place, slot),
        }
    }

    fn unit_work(&mut self, now: Nanos, pool: Pool, place: Place, slot: u32) -> Option<Work> {
        let lane = get_mut(&mut self.lanes, place.lane)?;
        let max = lane.policy().max_messages.max(1);
        let unit = lane.unit_mut(slot);
        let waiting = unit.waiting.iter().flat_map(Piece::offsets);
        let (rows, attempt) = match unit.attempts.plan(waiting) {
            Plan::Hold => {
                unit.held = true;
                return None;
            }
            Plan::DeadLetter { offset, trouble } => {
                let (piece, bytes) = lane.take_dead_letter(slot, offset);
                let attempt = lane.unit_mut(slot).attempts.attempt();
                self.give_back(place.lane, bytes);
                let work = Work { slot, attempt, trouble: Some(trouble), ..Work::whole(JobKind::DeadLetter) };
                return Some(Work { piece: Some(piece?), ..work });
            }
            Plan::Consume { rows, attempt } => (rows, attempt),
        };
        let again = rows != usize::MAX;
        let rows = unit.waiting.front().map_or(usize::MAX, Piece::len).min(rows).min(max);
        let granted = if again { 0 } else { self.grant(now, pool, place, rows)? };
        let most = if granted > 0 { granted } else { rows };
        let lane = get_mut(&mut self.lanes, place.lane)?;
        let unit = lane.unit_mut(slot);
        let piece = match unit.waiting.front_mut() {
            Some(front) if front.len() > most => Some(front.split_to(most)),
            _ => unit.waiting.pop_front(),
        };
        let most = if granted > 0 { granted } else { usize::MAX };
        Some(Work { slot, attempt, piece, granted, most, ..Work::whole(JobKind::Consume) })
    }

    /// Rows that the route's rate allows, of so many; 0: it has no limit. `None`: none now, and the place waits for some.
    fn grant(&mut self, now: Nanos, pool: Pool, place: Place, rows: usize) -> Option<usize> {
        let lane = get_mut(&mut self.lanes, place.lane)?;
        let number = lane.policy().route;
        let Some(route) = self.routes.get_mut(&number) else { return Some(0) };
        let granted = route.limit.take(now, rows);
        if granted > 0 {
            return Some(granted);
        }
        lane.set_queued(place.claim, true);
        route.held.push((pool, place));
        let at = route.limit.next_at(now);
        self.alarms.set(Alarm::Rate(number), &mut route.alarm, Some(at));
        None
    }

    fn start(&mut self, place: Place, work: Work, worker: &str) -> Option<Lease> {
        let (now, wall_ms, id) = (self.now, self.wall_ms(), place.lane);
        let lane = get_mut(&mut self.lanes, id)?;
        let policy = Arc::clone(&lane.spec.policy);
        let shared = Arc::new(JobShared::new(&lane.marks, &policy));
        let running = Running {
            client: lane.spec.client,
            tp: lane.spec.tp.clone(),
            unit: UnitId { lane: id, slot: work.slot },
            policy: Arc::clone(&policy),
            attempt: work.attempt,
            kind: work.kind,
            worker: worker.to_owned(),
            since: now,
            shared: Arc::clone(&shared),
            told: (false, false),
        };
        lane.jobs += 1;
        let decodes = match work.kind {
            JobKind::Decode => true,
            JobKind::Consume | JobKind::DeadLetter => {
                lane.unit_mut(work.slot).running = true;
                work.piece.is_none()
            }
            kind => {
                lane.exclusive = true;
                lane.eof_told |= kind == JobKind::Eof;
                false
            }
        };
        let sieve = if decodes { Sieve::new(&policy, wall_ms, lane.already.clone()) } else { Sieve::default() };
        lane.feed_out |= decodes;
        let lease = Lease {
            lane: id,
            slot: work.slot,
            client: lane.spec.client,
            tp: lane.spec.tp.clone(),
            kind: work.kind,
            attempt: work.attempt,
            shared,
            high_watermark: lane.high_watermark,
            trouble: work.trouble,
            job: self.jobs.add(running),
            feed: decodes.then(|| std::mem::take(&mut lane.feed)),
            piece: work.piece,
            rest: Vec::new(),
            parcel: None,
            sieve,
            most: work.most,
            granted: work.granted,
            release: 0,
            policy,
        };
        let more = place.claim == Claim::Loose && !lane.loose.is_empty();
        if more {
            // Others may take their share at the same time.
            self.offer(id, Claim::Loose);
        }
        if work.kind != JobKind::Decode && lease.policy.concurrency != super::Concurrency::Partition {
            self.offer_feed(id); // one less is ready: the window may be worth filling
        }
        self.watch(&lease);
        Some(lease)
    }

    /// When this job may have to be told.
    fn watch(&mut self, lease: &Lease) {
        let limit = earlier(lease.policy.stall_after, lease.policy.handler_timeout);
        let Some(limit) = limit.filter(|_| lease.kind != JobKind::Decode) else { return };
        let at = self.now.saturating_add(limit);
        if let Some(entry) = self.client_mut(lease.client) {
            entry.stall_look = earlier(entry.stall_look, Some(at));
        }
    }

    /// [`Lease::prepare`] has been called: what it added to the lane's memory counts from now on, and its rows as handed out.
    /// To be told before the job runs or ends.
    pub fn prepared(&mut self, now: Nanos, lease: &Lease, prepared: &Prepared) {
        self.now = self.now.max(now);
        let change = prepared.change;
        let handed_out = lease.shared.with_batch(|batch| batch.rows.len()).unwrap_or(0);
        if lease.granted > handed_out
            && let Some(route) = self.routes.get_mut(&lease.policy.route)
        {
            route.limit.put_back(lease.granted - handed_out);
        }
        let Some(lane) = get_mut(&mut self.lanes, lease.lane) else { return };
        lane.queued_bytes += change.charged;
        if lease.feed.is_some() && lane.goes_on(lease) {
            lane.next_ms = prepared.left_ms.or_else(|| lane.feed.oldest());
        }
        if prepared.finished.is_none() {
            self.jobs.begin(lease.job, now);
        }
        if handed_out > 0 && lease.feed.is_some() {
            lane.in_flight += handed_out;
            lease.shared.with_batch(|batch| hand_out(lane, &lease.shared, batch));
        }
        let (client, slot, tp) = (lane.spec.client, lane.spec.slot, &lane.spec.tp);
        let passed = change.passed;
        // What was passed over for a lane that is not what it was comes to somebody again.
        if passed != Passed::default()
            && lane.goes_on(lease)
            && let Some(tally) = self.tallies.get_mut(lane.tally)
        {
            tally.expired += passed.expired.map_or(0, |(records, ..)| records as u64);
            tally.skipped += passed.known as u64;
            lane.progress_at = Some(now);
        }
        if change.charged == 0 && passed.expired.is_none() {
            return;
        }
        let expired = passed.expired.map(|(records, first, last)| Remark {
            lane: lease.lane,
            tp: tp.clone(),
            policy: Arc::clone(&lease.policy),
            what: RemarkKind::Expired { records, first, last },
        });
        if let Some(entry) = self.client_mut(client) {
            if change.charged > 0 {
                entry.outbox.charged.push((slot, change.charged));
            }
            entry.wake |= expired.is_some();
            entry.outbox.remarks.extend(expired);
        }
    }
}

/// Rows go out for the first time: from now on they are open, or, at most once, done.
pub(super) fn hand_out(lane: &mut Lane, shared: &JobShared, batch: &super::batch::Batch) {
    let policy = lane.policy();
    let outlives = lane.is_parted() || policy.offsets == OffsetPolicy::Manual;
    let once = policy.offsets == OffsetPolicy::AtMostOnce;
    // A job that was fenced meanwhile hands out into the past.
    let _ = shared.marks.with(|tracker| {
        if once {
            tracker.pass(batch.next_offset, batch.leader_epoch);
        } else {
            let (offsets, timestamp) = (Offsets::of(batch, outlives), batch.first_timestamp());
            tracker.hand_out(offsets, batch.next_offset, batch.leader_epoch, timestamp);
        }
    });
    if lane.already.as_ref().is_some_and(|map| map.runs().last().is_none_or(|run| run.end <= batch.next_offset)) {
        lane.already = None;
    }
}

impl Lane {
    /// Rows that one job takes of those that any slot may take: a fair share, for the other workers are free, too.
    fn loose_share(&self) -> usize {
        let policy = self.policy();
        let max = policy.max_messages.max(1);
        if policy.max_wait > 0 {
            return max; // whoever waits for full jobs wants them full
        }
        let workers = (policy.key_slots / 64).max(1) as usize;
        let rows: usize = self.loose.iter().map(Piece::len).sum();
        rows.div_ceil(workers).min(max)
    }

    fn take_loose(&mut self, rows: usize) -> Option<Piece> {
        let front = self.loose.front_mut()?;
        if front.len() > rows { Some(front.split_to(rows)) } else { self.loose.pop_front() }
    }

    /// The row for a dead letter, and the bytes that rows before it give back, which at most once nobody wants any more.
    fn take_dead_letter(&mut self, slot: u32, offset: i64) -> (Option<Piece>, usize) {
        let once = self.policy().offsets == OffsetPolicy::AtMostOnce;
        let unit = self.unit_mut(slot);
        let row = unit.take_row(offset);
        let (mut rows, mut bytes) = (0, 0);
        while once
            && let Some(piece) = unit.waiting.pop_front_if(|piece| piece.offset(0).is_some_and(|first| first < offset))
        {
            rows += piece.len();
            bytes += piece.parcel.finish(piece.len());
        }
        self.in_flight = self.in_flight.saturating_sub(rows);
        self.skip_once(rows);
        (row, bytes)
    }
}
