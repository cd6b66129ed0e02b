//! Oracle of one lane: what must hold from its first record to its last commit. Each assignment of a partition has its
//! own oracle.

use std::collections::{BTreeMap, BTreeSet};

use super::attempt_model::AttemptModel;
use crate::dispatch::simulation::partition_log::Log;
use crate::dispatch::simulation::record::Record;
use crate::dispatch::{Committable, Concurrency, DecodedBatch, JobKind, Lease, OffsetMap, OffsetPolicy, RouteConfig};

/// Stage of a lane's revocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Active,
    /// No new job may start except the hook.
    Leaving,
    /// Drained, abandoned, or lost and drained.
    Gone,
}

#[derive(Debug)]
pub struct LaneOracle {
    /// First offset that this assignment is responsible for.
    pub start: i64,
    pub stage: Stage,
    /// Marks of the lane's jobs do not count any more (abandoned, lost).
    pub void: bool,
    /// Marked offsets: they are never delivered again, and commits cover them.
    pub done: BTreeSet<i64>,
    /// Offsets whose handler returned without a mark, with manual offsets.
    returned: BTreeSet<i64>,
    /// Done offsets that the handler asked to retry (at most once, that is the only way).
    pub again: BTreeSet<i64>,
    /// Offsets that were too old to be handed out.
    pub expired: BTreeSet<i64>,
    /// Offsets that were handed out at some time.
    seen: BTreeSet<i64>,
    /// Rows in flight, by slot.
    running: BTreeMap<u32, Vec<i64>>,
    /// Handler instances of the jobs in flight, by slot.
    instances: BTreeMap<u32, u32>,
    /// Slots whose jobs in flight do not count since a seek.
    stale: BTreeSet<u32>,
    /// Hook in flight.
    hook: Option<JobKind>,
    /// Slot of each key.
    slots: BTreeMap<u8, u32>,
    pub count: AttemptModel,
    pub touched: bool,
    pub hooks: u32,
    pub eofs: u32,
    pub ticks: u32,
    /// Last offset that was returned for a commit.
    last_committable: Option<i64>,
    /// Offset before which all records are settled.
    floor: i64,
    /// The user has called seek.
    pub sought: bool,
    /// Number of `done` offsets that were done before reading started at the current position. `past`: the same for
    /// earlier positions, and the number of offsets that became done there.
    known: usize,
    past: (usize, usize),
}

impl LaneOracle {
    pub fn new() -> Self {
        Self {
            start: 0,
            stage: Stage::Active,
            void: false,
            done: BTreeSet::new(),
            returned: BTreeSet::new(),
            again: BTreeSet::new(),
            expired: BTreeSet::new(),
            seen: BTreeSet::new(),
            running: BTreeMap::new(),
            instances: BTreeMap::new(),
            stale: BTreeSet::new(),
            hook: None,
            slots: BTreeMap::new(),
            count: AttemptModel::default(),
            touched: false,
            hooks: 0,
            eofs: 0,
            ticks: 0,
            last_committable: None,
            floor: 0,
            sought: false,
            known: 0,
            past: (0, 0),
        }
    }

    /// Starts reading at `start`, for the first time or after a seek. Offsets that earlier assignments have done are
    /// done.
    pub fn begin(&mut self, start: i64, done: impl Iterator<Item = i64>) {
        (self.start, self.floor, self.last_committable) = (start, start, None);
        self.past = (self.past.0 + self.known, self.past.1 + self.done.len() - self.known);
        self.done = done.collect();
        self.known = self.done.len();
        self.returned.clear();
        self.count.reset();
        self.seen.clear();
        self.again.clear();
    }

    /// Records a seek: no row may be handed out until the new position is known.
    pub fn seek(&mut self) {
        self.start = i64::MAX;
        self.sought = true;
        self.stale.extend(self.running.keys());
    }

    /// Returns how many records were done before this assignment handed them out.
    pub fn known(&self) -> u64 {
        (self.past.0 + self.known) as u64
    }

    /// Returns how many records became done, in any way.
    pub fn completed_count(&self) -> u64 {
        (self.past.1 + self.done.len() - self.known) as u64
    }

    pub fn is_returned(&self, offset: i64) -> bool {
        self.returned.contains(&offset)
    }

    pub fn floor(&self) -> i64 {
        self.floor
    }

    pub fn has_hook(&self) -> bool {
        self.hook.is_some()
    }

    /// Returns the number of records that are handed out and not marked.
    pub fn open(&self) -> usize {
        self.in_flight() + self.returned.len()
    }

    pub fn is_running(&self, offset: i64) -> bool {
        self.running.values().any(|rows| rows.contains(&offset))
    }

    pub fn is_slot_busy(&self, slot: u32) -> bool {
        self.running.contains_key(&slot)
    }

    pub fn busy_slots(&self) -> usize {
        self.running.len()
    }

    pub fn slot_of(&self, key: u8) -> Option<u32> {
        self.slots.get(&key).copied()
    }

    pub fn is_settled(&self, offset: i64) -> bool {
        self.done.contains(&offset) || self.returned.contains(&offset)
    }

    pub fn busy(&self) -> bool {
        self.hook.is_some() || !self.running.is_empty()
    }

    pub fn in_flight(&self) -> usize {
        self.running.values().map(Vec::len).sum()
    }

    // ---- start of jobs

    /// Checks the start of a job: how many jobs may run at a time.
    pub fn start(&mut self, lease: &Lease, policy: &RouteConfig) {
        assert!(self.hook.is_none(), "{:?} of {} beside {:?}", lease.kind, lease.tp, self.hook);
        match lease.kind {
            JobKind::Consume | JobKind::DeadLetter | JobKind::Decode => {
                assert!(self.stage == Stage::Active, "{:?} of {} while it leaves", lease.kind, lease.tp);
                let slots = if policy.concurrency == Concurrency::Partition { 1 } else { policy.key_slots };
                assert!(slots == 0 || lease.slot < slots, "slot {} of {slots}", lease.slot);
                if lease.kind != JobKind::Decode {
                    self.use_instance(lease, policy);
                }
            }
            JobKind::Revoked { .. } | JobKind::Shutdown => {
                // An abandoned lane gets its hook, too, when its last job is back.
                let abandoned = self.stage == Stage::Gone && lease.kind == (JobKind::Revoked { lost: true });
                assert!(self.stage == Stage::Leaving || abandoned, "{:?} of {}: {self:?}", lease.kind, lease.tp);
                assert!(self.touched && policy.hooks, "{:?} of {}: {self:?}", lease.kind, lease.tp);
                assert!(self.running.is_empty(), "{:?} of {} beside {:?}", lease.kind, lease.tp, self.running);
                self.hooks += 1;
                assert_eq!(self.hooks, 1, "{:?} of {}", lease.kind, lease.tp);
                self.hook = Some(lease.kind);
            }
            JobKind::Eof | JobKind::Tick => {
                match lease.kind {
                    JobKind::Eof => self.eofs += 1,
                    _ => self.ticks += 1,
                }
                assert!(self.stage == Stage::Active, "{:?} of {} while it leaves", lease.kind, lease.tp);
                assert!(self.running.is_empty(), "{:?} of {} beside {:?}", lease.kind, lease.tp, self.running);
                self.hook = Some(lease.kind);
            }
        }
    }

    /// Checks the handler instance of a job: no other job uses it, and no more instances exist than jobs run at once.
    fn use_instance(&mut self, lease: &Lease, policy: &RouteConfig) {
        let taken = |instance: u32| self.instances.values().any(|other| *other == instance);
        assert!(!taken(lease.instance), "{}: two jobs of instance {}", lease.tp, lease.instance);
        let expected = if policy.is_unit_per_key() { (0..).find(|free| !taken(*free)) } else { Some(lease.slot) };
        assert_eq!(Some(lease.instance), expected, "{}", lease.tp);
        self.instances.insert(lease.slot, lease.instance);
    }

    /// Checks the rows of a job for handlers: they are right, in order, in no other job, and not seen before.
    pub fn present(
        &mut self,
        lease: &Lease,
        batch: &DecodedBatch,
        policy: &RouteConfig,
        log: &Log,
        wall_ms: i64,
        void: bool,
    ) -> Vec<i64> {
        let rows = batch.offsets().to_vec();
        if void {
            // The lane left while the job was being decoded; its handler runs nevertheless.
            self.touched = true;
            self.running.insert(lease.slot, rows.clone());
            return rows;
        }
        let tp = &lease.tp;
        assert!(!rows.is_empty(), "{tp}: a job without rows");
        assert!(rows.windows(2).all(|pair| pair[0] < pair[1]), "{tp}: {rows:?}");
        assert!(rows.len() <= policy.max_messages, "{tp}: {} rows of {}", rows.len(), policy.max_messages);
        assert!(!self.running.contains_key(&lease.slot), "{tp}: two jobs of slot {}", lease.slot);
        for (row, &offset) in batch.rows.clone().zip(&rows) {
            let record = log.records.get(&offset).unwrap_or_else(|| panic!("{tp}: {offset} is invisible"));
            assert_eq!(batch.columns.value(row), Some(&*record.value_bytes(log.partition)), "{tp} {offset}");
            assert_eq!(batch.columns.key(row), record.key_bytes().as_deref(), "{tp} {offset}");
            assert_eq!(batch.columns.timestamps[row], record.timestamp, "{tp} {offset}");
            assert!(offset >= self.start, "{tp}: {offset} before {}", self.start);
            let asked = self.again.remove(&offset);
            assert!(asked || !self.is_settled(offset), "{tp}: {offset} once more");
            let elsewhere =
                self.running.iter().any(|(slot, theirs)| !self.stale.contains(slot) && theirs.contains(&offset));
            assert!(!elsewhere, "{tp}: {offset} twice at a time");
            if let Some(key) = record.key
                && policy.concurrency == Concurrency::Key
            {
                let slot = *self.slots.entry(key).or_insert(lease.slot);
                assert_eq!(slot, lease.slot, "{tp}: key {key} changes its slot");
            }
        }
        self.check_order(&rows, policy, log, tp, wall_ms);
        let open = self.open();
        // (With slots, decoding waits for marks.)
        let whole = policy.concurrency == Concurrency::Partition;
        let many = whole && policy.offsets == OffsetPolicy::Manual && open > policy.max_unmarked;
        assert!(!many || self.was_seen(rows[0]), "{tp}: {rows:?} beside {open} open records");
        self.running.insert(lease.slot, rows.clone());
        let in_flight = self.in_flight();
        assert!(
            in_flight <= policy.max_in_flight.max(1) || policy.concurrency == Concurrency::Partition,
            "{in_flight}"
        );
        self.touched = true;
        self.count.present(lease.slot, rows[0], lease.attempt);
        if policy.offsets == OffsetPolicy::AtMostOnce {
            self.done.extend(&rows);
        }
        rows
    }

    /// Checks that no record that must come before these rows is still open.
    fn check_order(
        &mut self,
        rows: &[i64],
        policy: &RouteConfig,
        log: &Log,
        tp: &crate::ids::TopicPartition,
        wall_ms: i64,
    ) {
        while let Some((&offset, _)) =
            log.records.range(self.floor..).next().filter(|(offset, _)| self.is_settled(**offset))
        {
            self.floor = offset + 1;
        }
        let Some(&last) = rows.last() else { return };
        let expired = |record: &Record| policy.max_age_ms.is_some_and(|expire| record.timestamp + expire < wall_ms);
        let open = log.records.range(self.floor.min(last)..last).filter(|(offset, _)| !self.is_settled(**offset));
        let open = open.filter(|(_, record)| !expired(record));
        let mut open = open.filter(|(offset, _)| rows.binary_search(offset).is_err());
        match policy.concurrency {
            Concurrency::Partition => {
                let first = open.next();
                assert!(first.is_none(), "{tp}: {rows:?} before {first:?}");
            }
            Concurrency::Key => {
                for (offset, record) in open {
                    let later = rows
                        .iter()
                        .find(|row| **row > *offset && record.key.is_some() && log.records[row].key == record.key);
                    assert!(later.is_none(), "{tp}: {later:?} before {offset} of the same key");
                }
            }
            Concurrency::Unordered => {}
        }
    }

    /// Checks the row of a dead letter job.
    pub fn present_dead(&mut self, lease: &Lease, row: i64) {
        assert!(!self.running.contains_key(&lease.slot), "{}: two jobs of slot {}", lease.tp, lease.slot);
        self.running.insert(lease.slot, vec![row]);
    }

    pub fn was_seen(&self, offset: i64) -> bool {
        self.seen.contains(&offset)
    }

    /// Returns how many of these rows are handed out for the first time.
    pub fn see(&mut self, rows: &[i64]) -> usize {
        rows.iter().filter(|row| self.seen.insert(**row)).count()
    }

    // ---- end of jobs

    /// Marks rows. Returns how many of `rows` were not marked before.
    pub fn mark(&mut self, rows: impl IntoIterator<Item = i64>) -> u64 {
        let mut new = 0;
        for row in rows {
            self.returned.remove(&row);
            new += u64::from(self.done.insert(row));
        }
        new
    }

    /// Ends the job in `slot`. `returned`: its handler returned.
    pub fn end(&mut self, slot: u32, returned: bool, policy: &RouteConfig) {
        let rows = self.running.remove(&slot).unwrap_or_default();
        self.instances.remove(&slot);
        self.stale.remove(&slot);
        if returned && !self.void {
            self.count.done(slot);
            match policy.offsets {
                OffsetPolicy::Manual => {
                    let open = rows.into_iter().filter(|row| !self.done.contains(row));
                    self.returned.extend(open);
                }
                OffsetPolicy::Auto | OffsetPolicy::AtMostOnce => self.done.extend(rows),
            }
        }
    }

    pub fn end_hook(&mut self) {
        // A handler instance exists now.
        self.touched |= matches!(self.hook, Some(JobKind::Eof | JobKind::Tick));
        self.hook = None;
    }

    // ---- commits

    /// Returns the first record at or after `start` that is not done; else the end of the log.
    fn first_open(&self, log: &Log) -> i64 {
        let mut records = log.records.range(self.start..);
        records.find(|(offset, _)| !self.done.contains(offset)).map_or(log.end, |(offset, _)| *offset)
    }

    /// Checks an offset to commit. `last`: no job runs any more, so the offset is as high as possible.
    pub fn check_commit(&mut self, commit: &Committable, policy: &RouteConfig, log: &Log, last: bool) {
        let tp = &commit.tp;
        assert!(!self.void, "{tp}: {} is committable for a fenced lane", commit.offset);
        let open = self.first_open(log);
        assert!(commit.offset <= open, "{tp}: {} is committable, and {open} is not done", commit.offset);
        assert!(
            commit.offset >= self.last_committable.unwrap_or(self.start),
            "{tp}: {} after {:?}",
            commit.offset,
            self.last_committable
        );
        self.last_committable = Some(commit.offset);
        let map = OffsetMap::decode(commit.offset, &commit.metadata);
        let ahead = log.records.range(commit.offset..).map(|(offset, _)| *offset);
        if let Some(wrong) = ahead.clone().find(|offset| map.contains(*offset) && !self.done.contains(offset)) {
            panic!("{tp}: {wrong} is in the offset map beyond {}", commit.offset);
        }
        if last {
            self.check_last(commit.offset, log, tp);
            let known = |offset: &i64| self.done.contains(offset) && !self.expired.contains(offset);
            let mut forgotten = ahead.filter(|offset| known(offset) && !map.contains(*offset));
            assert!(!policy.offset_map || forgotten.next().is_none(), "{commit:?} forgets {forgotten:?}");
        }
    }

    /// Checks that the last committed offset covers all marked records.
    pub fn check_last(&self, offset: i64, log: &Log, tp: &crate::ids::TopicPartition) {
        let open = self.first_open(log);
        // (A process that skips expired records and cannot report it leaves them to the next owner.)
        let mut earned = log.records.range(self.start..open).rev().filter(|(offset, _)| !self.expired.contains(offset));
        let earned = earned.next().map_or(self.start, |(offset, _)| offset + 1);
        assert!(offset >= earned, "{tp}: the last commit is {offset}, but {earned} is committable");
    }

    pub fn last_committable(&self) -> i64 {
        self.last_committable.unwrap_or(self.start)
    }
}
