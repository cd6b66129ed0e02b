//! One assigned partition inside one process.

use std::collections::VecDeque;
use std::sync::Arc;

use super::ClientId;
use super::feed::Feed;
use super::job::JobKind;
use super::marks::Marks;
use super::offset_map::OffsetMap;
use super::piece::Piece;
use super::ready::Claim;
use super::route::{Concurrency, OffsetPolicy, RoutePolicy};
use super::tally::Tally;
use super::tracker::Measure;
use super::unit::Unit;
use crate::ids::{Slot, TopicPartition};
use crate::time::{MILLI, Nanos};

/// A lane's name: never the same for two assignments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl LaneId {
    /// As one number.
    #[must_use]
    pub fn as_u64(self) -> u64 {
        (u64::from(self.generation) << 32) | u64::from(self.index)
    }

    /// From that number.
    #[must_use]
    pub fn from_u64(number: u64) -> Self {
        Self { index: number as u32, generation: (number >> 32) as u32 }
    }
}

/// What a lane is made from.
#[derive(Debug, Clone)]
pub struct LaneSpec {
    /// Whose.
    pub client: ClientId,
    /// The fetcher's index of the partition.
    pub slot: Slot,
    /// The partition.
    pub tp: TopicPartition,
    /// The assignment that it belongs to.
    pub assignment_epoch: u32,
    /// The route's settings.
    pub policy: Arc<RoutePolicy>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Active,
    Leaving {
        lost: bool,
    },
    Stopping,
    /// Past its deadline with something still to run.
    Abandoned,
    /// Stopped; kept for its last offset.
    Finished,
}

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) id: LaneId,
    pub(super) spec: LaneSpec,
    pub(super) phase: Phase,
    pub(super) feed: Feed,
    /// A lease has the feed; `feed` is what arrives meanwhile.
    pub(super) feed_out: bool,
    /// The feed's next row is too young until then.
    pub(super) feed_until: Nanos,
    pub(super) feed_alarm: Option<Nanos>,
    pub(super) queued_bytes: usize,
    pub(super) high_watermark: i64,
    /// End of what may be read; -1 if unknown.
    pub(super) readable_end: i64,
    pub(super) log_start_offset: i64,
    /// Timestamp of the first record that is fetched and was not handed out, as far as it is known.
    pub(super) next_ms: Option<i64>,
    /// Timestamp of the last record that was fetched, as far as it is known.
    pub(super) newest_ms: Option<i64>,
    /// What fetched data must carry; `None` while the position is being looked for.
    pub(super) fetch_generation: Option<u32>,
    /// A batch did not pass: fetching goes on from here, and all else stays as it is.
    pub(super) refetch: Option<i64>,
    /// The next offset to hand out.
    pub(super) position: Option<i64>,
    /// What was done in an earlier life of the partition, beyond where this one began.
    pub(super) already: Option<Arc<OffsetMap>>,
    pub(super) marks: Arc<Marks>,
    /// Where its route's tally stands.
    pub(super) tally: usize,
    /// Records done and passed over that the tally does not have yet, besides those that are marked.
    pub(super) records: u64,
    pub(super) skipped: u64,
    /// Of the marks' records, those that the tally has.
    counted: u64,
    /// When it was last seen to be rid of records.
    pub(super) progress_at: Option<Nanos>,
    /// What was last told to be committed.
    pub(super) committed: Option<(i64, OffsetMap)>,
    pub(super) units: Vec<Option<Box<Unit>>>,
    /// Rows that any slot may take.
    pub(super) loose: VecDeque<Piece>,
    /// Rows that are handed out, or decoded and waiting, and not done.
    pub(super) in_flight: usize,
    /// Jobs in flight, of whatever kind.
    pub(super) jobs: usize,
    /// The job in flight is a hook of the whole lane.
    pub(super) exclusive: bool,
    /// Slots that have their place in the order.
    pub(super) ready_units: usize,
    /// Other claims that have.
    queued: [bool; 3],
    pub(super) paused: bool,
    pub(super) paused_until: Option<Nanos>,
    /// A handler instance exists, so the lane's end is worth a hook.
    pub(super) touched: bool,
    /// Nobody wants to hear of its end.
    pub(super) silent: bool,
    /// A ghost of the same partition that must come back first.
    pub(super) waits_for: Option<LaneId>,
    pub(super) eof_told: bool,
    pub(super) unmarked_told: bool,
    pub(super) idle_since: Nanos,
    pub(super) tick_alarm: Option<Nanos>,
}

impl Lane {
    pub(super) fn new(id: LaneId, spec: LaneSpec, tally: usize, waits_for: Option<LaneId>, now: Nanos) -> Self {
        Self {
            id,
            spec,
            phase: Phase::Active,
            feed: Feed::default(),
            feed_out: false,
            feed_until: 0,
            feed_alarm: None,
            queued_bytes: 0,
            high_watermark: -1,
            readable_end: -1,
            next_ms: None,
            newest_ms: None,
            log_start_offset: -1,
            fetch_generation: None,
            refetch: None,
            position: None,
            already: None,
            marks: Arc::default(),
            tally,
            records: 0,
            skipped: 0,
            counted: 0,
            progress_at: None,
            committed: None,
            units: Vec::new(),
            loose: VecDeque::new(),
            in_flight: 0,
            jobs: 0,
            exclusive: false,
            ready_units: 0,
            queued: [false; 3],
            paused: false,
            paused_until: None,
            touched: false,
            silent: false,
            waits_for,
            eof_told: false,
            unmarked_told: false,
            idle_since: now,
            tick_alarm: None,
        }
    }

    pub(super) fn policy(&self) -> &RoutePolicy {
        &self.spec.policy
    }

    /// Whether keys, or all records, are worked on side by side.
    pub(super) fn is_parted(&self) -> bool {
        self.spec.policy.concurrency != Concurrency::Partition
    }

    /// Marks from now on go here.
    pub(super) fn renew_marks(&mut self, marks: Arc<Marks>) {
        self.records += self.marks.done() - self.counted;
        (self.marks, self.counted) = (marks, 0);
    }

    /// Lets the route's tally have what was done since the last time.
    pub(super) fn count(&mut self, now: Nanos, tally: &mut Tally) {
        let done = self.marks.done();
        let records = std::mem::take(&mut self.records) + (done - self.counted);
        self.counted = done;
        tally.records += records;
        tally.skipped += std::mem::take(&mut self.skipped);
        if records > 0 {
            self.progress_at = Some(now);
        }
    }

    /// At most once, rows that were handed out are past: whoever drops them without a handler's word passes over them.
    pub(super) fn skip_once(&mut self, rows: usize) {
        if self.policy().offsets == OffsetPolicy::AtMostOnce && !self.marks.is_fenced() {
            self.skipped += rows as u64;
        }
    }

    /// Whether the lane's end still owes its handler a hook.
    pub(super) fn hook_due(&self) -> bool {
        self.touched && self.spec.policy.hooks && !self.silent
    }

    pub(super) fn unit(&self, slot: u32) -> Option<&Unit> {
        self.units.get(slot as usize)?.as_deref()
    }

    /// Made when it is first needed.
    pub(super) fn unit_mut(&mut self, slot: u32) -> &mut Unit {
        let index = slot as usize;
        if self.units.len() <= index {
            self.units.resize_with(index + 1, || None);
        }
        self.units
            .get_mut(index)
            .map_or_else(|| unreachable!("just made room for it"), |unit| unit.get_or_insert_default())
    }

    /// A slot that has nothing left costs nothing. (The only unit of a lane worked on as a whole is kept for the next job.)
    pub(super) fn tidy(&mut self, slot: u32) {
        if self.is_parted()
            && let Some(place) = self.units.get_mut(slot as usize)
            && place.as_ref().is_some_and(|unit| unit.is_idle())
        {
            *place = None;
        }
    }

    /// The lowest slot that has nothing to do: few slots in use, few consumer instances.
    pub(super) fn free_slot(&self) -> Option<u32> {
        let free = |unit: &Unit| unit.is_free() && unit.waiting.is_empty();
        let slots = self.spec.policy.key_slots.max(1);
        (0..slots).find(|slot| self.unit(*slot).is_none_or(free))
    }

    // ---- places in the order

    pub(super) fn is_queued(&self, claim: Claim) -> bool {
        match claim {
            Claim::Unit(slot) => self.unit(slot).is_some_and(|unit| unit.queued),
            Claim::Loose => self.queued[0],
            Claim::Decode => self.queued[1],
            Claim::Whole => self.queued[2],
        }
    }

    pub(super) fn set_queued(&mut self, claim: Claim, queued: bool) {
        match claim {
            Claim::Unit(slot) => {
                let unit = self.unit_mut(slot);
                if unit.queued != queued {
                    unit.queued = queued;
                    self.ready_units = if queued { self.ready_units + 1 } else { self.ready_units.saturating_sub(1) };
                }
            }
            Claim::Loose => self.queued[0] = queued,
            Claim::Decode => self.queued[1] = queued,
            Claim::Whole => self.queued[2] = queued,
        }
    }

    /// Whether anything of it has a place.
    pub(super) fn is_ready(&self) -> bool {
        self.ready_units > 0 || self.queued.contains(&true)
    }

    // ---- what may run

    /// What a worker would run now for this claim.
    pub(super) fn due(&self, claim: Claim, now: Nanos) -> Option<JobKind> {
        match claim {
            Claim::Whole => self.whole_due(now),
            _ if self.phase != Phase::Active || self.exclusive || self.paused || self.waits_for.is_some() => None,
            Claim::Unit(slot) => self.unit_due(slot, now).then_some(JobKind::Consume),
            Claim::Loose => (!self.loose.is_empty() && self.free_slot().is_some()).then_some(JobKind::Consume),
            Claim::Decode => self.decode_due(now).then_some(JobKind::Decode),
        }
    }

    fn unit_due(&self, slot: u32, now: Nanos) -> bool {
        let unit = self.unit(slot);
        if unit.is_some_and(|unit| !unit.is_free()) {
            return false;
        }
        let waiting = unit.is_some_and(|unit| !unit.waiting.is_empty());
        waiting || (!self.is_parted() && self.feed_due(now))
    }

    fn decode_due(&self, now: Nanos) -> bool {
        self.is_parted() && self.window() > 0 && self.feed_due(now)
    }

    /// How many rows may be decoded now. Not each single row that is done opens it: decoding goes by some rows at a time,
    /// but never waits while a worker could have something.
    pub(super) fn window(&self) -> usize {
        let max = self.spec.policy.max_in_flight.max(1);
        let open = max.saturating_sub(self.in_flight);
        let starving = self.ready_units == 0 && self.loose.is_empty();
        if open >= max.div_ceil(8) || starving { open.min(self.unmarked_room()) } else { 0 }
    }

    /// How many rows may be handed out before too many are.
    fn unmarked_room(&self) -> usize {
        match self.measured() {
            Some((count, _)) => self.policy().max_unmarked.saturating_sub(count) + 1,
            None => usize::MAX,
        }
    }

    /// Whether the feed has something for a job now, and may be taken.
    fn feed_due(&self, now: Nanos) -> bool {
        if self.feed_out || self.feed.is_empty() || self.feed_until > now {
            return false;
        }
        let full = self.feed_full() || self.feed_ripe_at().is_none_or(|at| at <= now);
        full && self.marks_suffice()
    }

    /// Whether waiting for more would be of no use.
    fn feed_full(&self) -> bool {
        let policy = self.policy();
        self.feed.is_broken() || self.feed.records() >= policy.max_messages || self.queued_bytes >= policy.max_bytes
    }

    /// When what waits has waited for long enough.
    fn feed_ripe_at(&self) -> Option<Nanos> {
        let wait = self.policy().max_wait;
        if wait == 0 { None } else { self.feed.since().map(|since| since.saturating_add(wait)) }
    }

    /// When the feed may become due by time alone.
    pub(super) fn feed_due_at(&self, now: Nanos) -> Option<Nanos> {
        if self.feed_out || self.feed.is_empty() {
            return None;
        }
        let ripe = if self.feed_full() { None } else { self.feed_ripe_at() };
        Some(ripe.unwrap_or(0).max(self.feed_until)).filter(|at| *at > now)
    }

    /// What `max_unmarked` bounds. Slots go on while one of them stands still, and with it the offset that may be committed:
    /// what they do meanwhile comes again after a crash.
    fn measure(&self) -> Option<Measure> {
        match (self.is_parted(), self.policy().offsets) {
            (true, _) => Some(Measure::Ahead),
            (false, OffsetPolicy::Manual) => Some(Measure::Open),
            (false, _) => None,
        }
    }

    /// How many records count for that, and the first open one.
    pub(super) fn measured(&self) -> Option<(usize, Option<i64>)> {
        let measure = self.measure()?;
        self.marks.with(|tracker| (tracker.measure(measure), tracker.first_open())).ok()
    }

    /// Whether few enough records count; if not, marks will say when they do.
    fn marks_suffice(&self) -> bool {
        let Some(measure) = self.measure() else { return true };
        let limit = self.policy().max_unmarked;
        self.marks.with(|tracker| tracker.wait_for(measure, limit)).unwrap_or(true)
    }

    /// How many records, and the first open one, keep the feed from being taken.
    pub(super) fn unmarked(&self) -> Option<(usize, i64)> {
        if self.feed_out || self.feed.is_empty() {
            return None;
        }
        let (count, first) = self.measured()?;
        Some((count, first?)).filter(|(count, _)| *count > self.policy().max_unmarked)
    }

    fn whole_due(&self, now: Nanos) -> Option<JobKind> {
        if self.jobs > 0 {
            return None;
        }
        match self.phase {
            Phase::Leaving { lost } => self.hook_due().then_some(JobKind::Revoked { lost }),
            Phase::Abandoned => self.hook_due().then_some(JobKind::Revoked { lost: true }),
            Phase::Stopping => self.hook_due().then_some(JobKind::Shutdown),
            Phase::Finished => None,
            Phase::Active if self.waits_for.is_some() => None,
            Phase::Active if self.is_idle() && !self.paused && self.eof_due() => Some(JobKind::Eof),
            Phase::Active => self.tick_due(now).then_some(JobKind::Tick),
        }
    }

    /// A lane that has records and hands none out may wait for just what a tick does: marks, or the end of a pause.
    fn tick_due(&self, now: Nanos) -> bool {
        self.tick_at().is_some_and(|at| at <= now) && (self.is_idle() || self.paused || self.unmarked().is_some())
    }

    /// Whether there is nothing to do and nothing to wait for but data.
    pub(super) fn is_idle(&self) -> bool {
        self.jobs == 0 && self.in_flight == 0 && self.feed.is_empty()
    }

    fn eof_due(&self) -> bool {
        let at_end = self.position.is_some_and(|position| self.high_watermark >= 0 && position >= self.high_watermark);
        self.policy().eof && !self.eof_told && at_end
    }

    /// When the next tick is due, if it stays idle.
    pub(super) fn tick_at(&self) -> Option<Nanos> {
        self.policy().tick.map(|every| self.idle_since.saturating_add(every.max(MILLI)))
    }

    // ---- memory

    /// Drops what is fetched and not handed out; returns the bytes that this gives back.
    pub(super) fn drop_fetched(&mut self) -> usize {
        let bytes = self.feed.clear();
        self.feed_until = 0;
        self.next_ms = None;
        bytes
    }

    /// Drops what waits in slots, and forgets their failures; returns the bytes that this gives back.
    pub(super) fn drop_waiting(&mut self) -> usize {
        let waiting = self.units.iter_mut().flatten().flat_map(|unit| {
            unit.attempts.reset();
            unit.held = false;
            unit.waiting.drain(..)
        });
        let (rows, bytes) = waiting
            .chain(self.loose.drain(..))
            .fold((0, 0), |(rows, bytes), piece| (rows + piece.len(), bytes + piece.parcel.finish(piece.len())));
        self.in_flight = self.in_flight.saturating_sub(rows);
        self.skip_once(rows);
        bytes
    }
}
