//! Property tests of the dispatcher's invariants: each held byte is released exactly once, no committable offset passes
//! an unfinished record, and order holds.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// Step of a test: an event of a lane.
#[derive(Debug, Clone)]
enum Step {
    Push(Vec<u8>),
    Take,
    Mark(u8, u8, u8),
    Progress(u8, u8),
    Done(u8),
    Fail(u8, u8, bool),
    Pass(u16),
    Pause(bool),
    Seek,
    Corrupt,
    Commit,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop::collection::vec(0..6_u8, 1..12).prop_map(Step::Push),
        12 => Just(Step::Take),
        2 => any::<(u8, u8, u8)>().prop_map(|(job, from, len)| Step::Mark(job, from, len)),
        2 => any::<(u8, u8)>().prop_map(|(job, rows)| Step::Progress(job, rows)),
        8 => any::<u8>().prop_map(Step::Done),
        3 => (any::<u8>(), 0..5_u8, any::<bool>()).prop_map(|(job, kind, known)| Step::Fail(job, kind, known)),
        3 => any::<u16>().prop_map(Step::Pass),
        1 => any::<bool>().prop_map(Step::Pause),
        1 => Just(Step::Seek),
        1 => Just(Step::Corrupt),
        2 => Just(Step::Commit),
    ]
}

fn policy() -> impl Strategy<Value = RouteConfig> {
    let concurrency = prop_oneof![Just(Concurrency::Partition), Just(Concurrency::Key), Just(Concurrency::Unordered)];
    let offsets = prop_oneof![Just(OffsetPolicy::Auto), Just(OffsetPolicy::Manual)];
    (concurrency, offsets, 1..8_usize, 1..40_usize, any::<bool>(), 0..3_u64, prop::bool::weighted(0.2), 0..200_u32)
        .prop_map(|(concurrency, offsets, max_messages, window, dead_letter, wait, rate, key_slots)| RouteConfig {
            concurrency,
            offsets,
            max_messages,
            max_in_flight: window,
            max_unmarked: window,
            dead_letter,
            key_slots: key_slots / 2 * (key_slots % 2), // every other lane has a unit per key
            shares: key_slots % 3,
            max_wait: wait * SECOND,
            max_bytes: 60,
            rate_limit: rate.then_some(RatePolicy { records: 7, per: SECOND }),
            retry: RetryPolicy { attempts: Some(2), backoff: SECOND, max_backoff: 4 * SECOND, jitter_percent: 20 },
            ..RouteConfig::default()
        })
}

/// Lane under test, and a naive model of it.
struct Model {
    world: Harness,
    lane: LaneId,
    policy: RouteConfig,
    generation: u32,
    /// First offset that was not pushed yet.
    end: i64,
    start: i64,
    keys: BTreeMap<i64, u8>,
    marked: BTreeSet<i64>,
    jobs: Vec<Lease>,
    /// Last offset that was handed out for each key, without retries.
    last: BTreeMap<u8, i64>,
    paused: bool,
}

impl Model {
    fn new(policy: RouteConfig) -> Self {
        let mut world = Harness::new();
        let lane = world.lane_with(policy.clone());
        let (keys, marked, jobs, last) = Default::default();
        Self { world, lane, policy, generation: 1, end: 0, start: 0, keys, marked, jobs, last, paused: false }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Push(keys) => self.push(&keys),
            Step::Take => self.take(),
            Step::Mark(job, from, len) => {
                let Some(lease) = self.pick(job) else { return };
                let rows = offsets(lease);
                let at = usize::from(from) % rows.len();
                let to = (at + usize::from(len) % 4).min(rows.len() - 1);
                let (first, last) = (rows[at], rows[to]);
                if lease.shared.mark(first, last).is_ok() {
                    self.marked.extend(&rows[at..=to]);
                }
            }
            Step::Progress(job, rows) => {
                let auto = self.policy.offsets == OffsetPolicy::Auto;
                let Some(lease) = self.pick(job).filter(|lease| lease.kind == JobKind::Consume) else { return };
                let all = offsets(lease);
                let rows = lease.shared.completed_rows().max(usize::from(rows) % (all.len() + 1));
                lease.shared.set_completed_rows(rows);
                if auto && !lease.shared.is_fenced() {
                    self.marked.extend(&all[..rows]);
                }
            }
            Step::Done(job) => self.done(job),
            Step::Fail(job, kind, known) => self.fail(job, kind, known),
            Step::Pass(ms) => {
                self.world.now += u64::from(ms) * MILLI;
                self.world.dispatch.advance(self.world.now);
            }
            Step::Pause(paused) => {
                self.paused = paused;
                if paused {
                    self.world.dispatch.pause(self.lane, None);
                } else {
                    self.world.dispatch.resume(self.lane);
                }
            }
            Step::Seek => {
                self.world.dispatch.reset_lane(self.lane);
                self.generation += 1;
                self.start = self.end;
                self.world.dispatch.set_position(self.lane, self.end, self.generation, false, OffsetMap::default());
            }
            Step::Corrupt => {
                let mut bad = build_batch(self.end, &[TestRecord::value(0, "bad")], &BatchOptions::default());
                bad[65] ^= 1;
                self.world.push_generation(self.lane, self.generation, self.end, self.end + 1, bad);
                self.refetch();
            }
            Step::Commit => self.check_committable(),
        }
        self.check_memory();
    }

    fn pick(&self, job: u8) -> Option<&Lease> {
        let at = usize::from(job).checked_rem(self.jobs.len())?;
        self.jobs.get(at)
    }

    fn push(&mut self, keys: &[u8]) {
        let record = |key: &u8| match key {
            0 => TestRecord::value(0, "value"),
            key => TestRecord::keyed(0, vec![*key], "value"),
        };
        let records: Vec<_> = keys.iter().map(record).collect();
        let batch = build_batch(self.end, &records, &BatchOptions::default());
        let next = self.end + i64::try_from(keys.len()).expect("few");
        self.world.push_generation(self.lane, self.generation, self.end, next, batch);
        self.keys.extend((self.end..).zip(keys.iter().copied()));
        self.end = next;
    }

    /// Fetches again behind a corrupt batch, like the network thread.
    fn refetch(&mut self) {
        self.world.released();
        while let Some(corrupt) = self.world.corrupt.pop() {
            if corrupt.generation != self.generation {
                continue;
            }
            self.generation += 1;
            let (lane, from) = (self.lane, corrupt.offset);
            self.world.dispatch.set_position(lane, from, self.generation, false, OffsetMap::default());
            let again: Vec<u8> = self.keys.range(from..).map(|(_, key)| *key).collect();
            self.end = from;
            if !again.is_empty() {
                self.push(&again);
            }
        }
    }

    fn take(&mut self) {
        let now = self.world.now;
        let Some(lease) = self.world.take(now) else { return self.refetch() };
        let rows = offsets(&lease);
        assert!(!rows.is_empty() && rows.is_sorted() && rows.len() <= self.policy.max_messages, "{rows:?}");
        assert!(!self.paused, "a paused lane runs");
        for offset in &rows {
            assert!(*offset >= self.start, "of the past: {offset}");
            assert!(!self.marked.contains(offset), "{offset} is done already");
            let key = self.keys[offset];
            for other in &self.jobs {
                assert!(other.shared.is_fenced() || !offsets(other).contains(offset), "{offset} runs twice");
            }
            let ordered = match self.policy.concurrency {
                Concurrency::Partition => Some(0),
                Concurrency::Key => Some(key).filter(|key| *key > 0),
                Concurrency::Unordered => None,
            };
            if let Some(line) = ordered.filter(|_| lease.kind == JobKind::Consume) {
                let last = self.last.insert(line, *offset);
                assert!(last.is_none_or(|last| last < *offset), "{last:?} before {offset}");
                let same = self.jobs.iter().filter(|other| !other.shared.is_fenced());
                let together = same
                    .flat_map(offsets)
                    .any(|o| self.policy.concurrency == Concurrency::Partition || self.keys[&o] == key);
                assert!(!together, "two jobs of one line");
            }
        }
        let twins = self.jobs.iter().filter(|other| other.slot == lease.slot).count();
        assert_eq!(twins, 0, "two jobs in slot {}", lease.slot);
        let twins = self.jobs.iter().filter(|other| other.instance == lease.instance).count();
        assert_eq!(twins, 0, "two jobs in instance {}", lease.instance);
        self.jobs.push(lease);
    }

    fn done(&mut self, job: u8) {
        let Some(at) = usize::from(job).checked_rem(self.jobs.len()) else { return };
        let lease = self.jobs.swap_remove(at);
        if !lease.shared.is_fenced() && (self.policy.offsets == OffsetPolicy::Auto || lease.kind == JobKind::DeadLetter)
        {
            self.marked.extend(offsets(&lease));
        }
        self.world.done(lease);
    }

    fn fail(&mut self, job: u8, kind_index: u8, known: bool) {
        let Some(at) = usize::from(job).checked_rem(self.jobs.len()) else { return };
        let lease = self.jobs.swap_remove(at);
        let rows = offsets(&lease);
        let open: Vec<i64> = rows.iter().copied().filter(|row| !self.marked.contains(row)).collect();
        let fenced = lease.shared.is_fenced();
        let failure = [
            FailureKind::Retriable,
            FailureKind::Retriable,
            FailureKind::NonRetriable,
            FailureKind::NonRetriableBatch,
            FailureKind::Rejected,
            FailureKind::RetryLater(SECOND),
        ][usize::from(kind_index) % 6];
        let culprit = open.first().copied().filter(|_| known);
        let kind = lease.kind;
        let decision = self.world.end(lease, failed_with(failure, culprit)).expect("a failure has consequences");
        assert_eq!(decision == Decision::Fenced, fenced);
        // Rows that run again may precede the rows that ran last.
        if !fenced && let Some(first) = open.first() {
            for last in self.last.values_mut() {
                *last = (*last).min(first - 1);
            }
        }
        let _ = kind;
    }

    fn check_committable(&mut self) {
        for commit in self.world.dispatch.take_committables(self.world.client, true) {
            let done = |offset: i64| self.marked.contains(&offset);
            assert!(
                (self.start..commit.offset).all(done),
                "{} of {:?} from {}",
                commit.offset,
                self.marked,
                self.start
            );
            let all = (self.start..self.end).find(|offset| !done(*offset)).unwrap_or(self.end);
            assert!(commit.offset <= all);
        }
    }

    fn check_memory(&mut self) {
        self.world.released();
        let status = self.world.status(self.lane);
        assert_eq!(status.queued_bytes, self.world.held, "the lane and the fetcher agree");
        assert!(
            self.policy.concurrency == Concurrency::Partition
                || status.in_flight <= self.policy.max_in_flight.max(1) + self.fenced_rows()
        );
    }

    fn fenced_rows(&self) -> usize {
        self.jobs.iter().filter(|lease| lease.shared.is_fenced()).map(|lease| offsets(lease).len()).sum()
    }

    /// Ends the faults, and checks that everything is processed.
    fn finish(mut self) {
        self.step(Step::Pause(false));
        for _ in 0..2000 {
            while !self.jobs.is_empty() {
                if self.policy.offsets == OffsetPolicy::Manual {
                    self.step(Step::Mark(0, 0, 3));
                    let resumed = self.jobs[0].shared.take_resumed();
                    let rows = offsets(&self.jobs[0]);
                    let all = rows.iter().all(|row| self.marked.contains(row));
                    if resumed {
                        self.world.dispatch.on_marks_resumed(self.lane);
                    }
                    if !all && !self.jobs[0].shared.is_fenced() {
                        for row in rows {
                            self.jobs[0].shared.mark(row, row).expect("not fenced");
                            self.marked.insert(row);
                        }
                        self.world.dispatch.on_marks_resumed(self.lane);
                    }
                }
                self.step(Step::Done(0));
            }
            let before = self.jobs.len();
            self.step(Step::Take);
            if self.jobs.len() > before {
                continue;
            }
            match self.world.dispatch.next_deadline() {
                Some(at) => {
                    self.world.now = self.world.now.max(at);
                    self.world.dispatch.advance(self.world.now);
                }
                None if self.world.dispatch.has_ready(Pool::Threads) => {}
                None => break,
            }
        }
        self.check_committable();
        if self.policy.offsets == OffsetPolicy::Auto {
            let commits = self.world.dispatch.take_committables(self.world.client, true);
            assert_eq!(commits[0].offset, self.end, "{:?}", self.world.status(self.lane));
            self.world.assert_empty();
        }
        self.world.dispatch.revoke(self.lane, false);
        while let Some(hook) = self.world.take(self.world.now) {
            self.world.done(hook);
        }
        self.world.released();
        assert_eq!((self.world.held, self.world.drained.len()), (0, 1));
        assert_eq!(self.world.dispatch.next_deadline(), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens(policy in policy(), steps in prop::collection::vec(step(), 1..200)) {
        let mut model = Model::new(policy);
        for step in steps {
            model.step(step);
        }
        model.finish();
    }
}
