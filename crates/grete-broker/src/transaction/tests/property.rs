//! Random requests of several producers for each transactional id, with late markers, timeouts and restarts.
//! `GRETE_SEEDS=n` runs `n` seeds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::*;

const IDS: [&str; 3] = ["t0", "t1", "t2"];

/// Random numbers of a seed (xorshift64*).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Process with a transactional id. Several processes share an id: all but the newest are fenced.
struct Process {
    id: &'static str,
    handle: Option<Producer>,
    /// Whether the process ends transactions with version 5 of EndTxn.
    bumps_epoch: bool,
}

/// Partitions and groups that were added to the open transaction.
type Open = (BTreeSet<TopicPartition>, BTreeSet<Arc<str>>);

/// Coordinator, its processes, and the expected transactions.
struct World {
    seed: u64,
    random: Random,
    bench: Bench,
    processes: Vec<Process>,
    /// Markers that are not written yet.
    unwritten: Vec<Marker>,
    open: BTreeMap<&'static str, Open>,
    epochs: BTreeMap<&'static str, Producer>,
    begun: u32,
    ended: u32,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut bench = Bench::new(if random.chance(70) { 2 } else { 1 });
        for id in IDS {
            if random.chance(50) {
                bench.producer(id);
                bench.set_epoch(id, i16::MAX - 1 - i16::try_from(random.below(4)).unwrap());
            }
        }
        let mut processes = Vec::new();
        for id in IDS {
            for _ in 0..3 {
                processes.push(Process { id, handle: None, bumps_epoch: random.chance(60) });
            }
        }
        Self {
            seed,
            random,
            bench,
            processes,
            unwritten: Vec::new(),
            open: BTreeMap::new(),
            epochs: BTreeMap::new(),
            begun: 0,
            ended: 0,
        }
    }

    fn step(&mut self) {
        self.bench.now += i64::try_from(self.random.below(50)).unwrap();
        let process = usize::try_from(self.random.below(9)).unwrap();
        match self.random.below(100) {
            0..15 => self.init(process),
            15..55 => self.add(process),
            55..75 => self.end(process),
            75..92 => self.write(),
            92..96 => self.tick(),
            _ => self.restart(),
        }
        self.check_epochs();
    }

    fn init(&mut self, process: usize) {
        let Process { id, handle, .. } = self.processes[process];
        let expected = handle.filter(|_| self.random.chance(50));
        let Initialized { result, marker } = self.bench.init(id, expected);
        if let Some(marker) = marker {
            assert_eq!((marker.commit, result), (false, Err(ErrorCode::CONCURRENT_TRANSACTIONS)), "seed {}", self.seed);
            self.decided(marker);
        }
        match result {
            Ok(producer) => {
                assert_eq!(producer, self.bench.transaction(id).producer, "seed {}", self.seed);
                assert!(!self.open.contains_key(id), "seed {}: the transaction before stays open", self.seed);
                self.processes[process].handle = Some(producer);
            }
            Err(ErrorCode::PRODUCER_FENCED) => self.processes[process].handle = None,
            Err(_) => {}
        }
    }

    fn add(&mut self, process: usize) {
        let Process { id, handle: Some(handle), .. } = self.processes[process] else { return };
        let is_current = self.bench.transaction(id).producer == handle;
        let is_decided = self.unwritten.iter().any(|marker| &*marker.transactional_id == id);
        let partition = i32::try_from(self.random.below(4)).unwrap();
        let is_group = self.random.chance(25);
        let added =
            if is_group { self.bench.add_group(id, handle, "billing") } else { self.bench.add(id, handle, partition) };
        assert_eq!(added.is_ok(), is_current && !is_decided, "seed {}: {added:?}", self.seed);
        if added.is_ok() {
            let (partitions, groups) = self.open.entry(id).or_insert_with(|| {
                self.begun += 1;
                Open::default()
            });
            if is_group {
                groups.insert("billing".into());
            } else {
                partitions.insert(orders(partition));
            }
        }
    }

    fn end(&mut self, process: usize) {
        let Process { id, handle: Some(handle), bumps_epoch } = self.processes[process] else { return };
        let is_current = self.bench.transaction(id).producer == handle;
        let before = self.bench.transaction(id).clone();
        let commit = self.random.chance(60);
        match self.bench.end(id, handle, commit, bumps_epoch) {
            Ok(Ended { producer, marker: Some(marker) }) => {
                assert!(is_current, "seed {}: a fenced producer ended a transaction", self.seed);
                assert!(marker.commit == commit && (!bumps_epoch || producer > handle), "seed {}", self.seed);
                self.decided(marker);
                // A lost response: the process repeats its request.
                if self.random.chance(80) {
                    self.processes[process].handle = Some(producer);
                }
            }
            Ok(Ended { producer, marker: None }) => {
                assert_eq!(*self.bench.transaction(id), before, "seed {}: a repeated request", self.seed);
                self.processes[process].handle = Some(producer);
            }
            Err(_) => assert_eq!(*self.bench.transaction(id), before, "seed {}", self.seed),
        }
    }

    /// Compares a new marker with the partitions and groups that were added.
    fn decided(&mut self, marker: Marker) {
        let id = &*marker.transactional_id;
        let earlier = self.unwritten.iter().any(|other| *other.transactional_id == *id);
        assert!(!earlier, "seed {}: {id} was decided twice", self.seed);
        let open = self.open.remove(id);
        assert!(open.is_some() || !marker.commit, "seed {}: {id} commits nothing", self.seed);
        self.ended += u32::from(open.is_some());
        let (partitions, groups) = open.unwrap_or_default();
        assert_eq!(marker.partitions, Vec::from_iter(partitions), "seed {}", self.seed);
        assert_eq!(marker.groups, Vec::from_iter(groups), "seed {}", self.seed);
        self.unwritten.push(marker);
    }

    fn write(&mut self) {
        if !self.unwritten.is_empty() {
            let bound = u64::try_from(self.unwritten.len()).unwrap();
            let marker = self.unwritten.swap_remove(usize::try_from(self.random.below(bound)).unwrap());
            self.bench.write(&marker);
            let expected =
                if marker.commit { TransactionState::CompleteCommit } else { TransactionState::CompleteAbort };
            assert_eq!(self.bench.state(&marker.transactional_id), expected, "seed {}", self.seed);
        }
    }

    fn tick(&mut self) {
        let later = self.bench.now + i64::try_from(self.random.below(80_000)).unwrap();
        for marker in self.bench.tick(later) {
            assert!(!marker.commit, "seed {}: a timeout commits", self.seed);
            self.decided(marker);
        }
        let overdue = self.bench.coordinator.deadline().is_some_and(|deadline| deadline <= later);
        assert!(!overdue, "seed {}: a timer is left", self.seed);
    }

    fn restart(&mut self) {
        self.check_restored();
        self.bench.coordinator = self.bench.restored();
        self.unwritten.sort_by(|a, b| a.transactional_id.cmp(&b.transactional_id));
        assert_eq!(self.bench.coordinator.prepared(), self.unwritten, "seed {}", self.seed);
    }

    fn check_restored(&mut self) {
        let mut restored = self.bench.restored();
        for id in IDS {
            assert_eq!(restored.transaction(id), self.bench.coordinator.transaction(id), "seed {}", self.seed);
        }
        assert_eq!(restored.deadline(), self.bench.coordinator.deadline(), "seed {}", self.seed);
        let allocate = |coordinator: &mut TransactionCoordinator, changes: &mut Vec<_>| {
            coordinator.init_producer_id(0, None, 0, None, changes)
        };
        let theirs = allocate(&mut restored, &mut Vec::new());
        assert_eq!(allocate(&mut self.bench.coordinator, &mut self.bench.changes), theirs, "seed {}", self.seed);
    }

    fn check_epochs(&mut self) {
        for id in IDS {
            let Some(transaction) = self.bench.coordinator.transaction(id) else { continue };
            let before = self.epochs.insert(id, transaction.producer);
            assert!(before <= Some(transaction.producer), "seed {}: the epoch of {id} went back", self.seed);
            let is_open = transaction.state == TransactionState::Ongoing;
            assert_eq!(is_open, self.open.contains_key(id), "seed {}: {id}", self.seed);
        }
    }

    /// Lets all timeouts pass and writes all markers.
    fn finish(&mut self) {
        let later = self.bench.now + Millis::from(TIMEOUT_MS) + 1;
        for marker in self.bench.tick(later) {
            self.decided(marker);
        }
        while !self.unwritten.is_empty() {
            self.write();
        }
        self.check_epochs();
        assert_eq!((self.begun, self.open.len()), (self.ended, 0), "seed {}", self.seed);
        self.check_restored();
    }
}

#[test]
fn each_transaction_ends_once_with_its_partitions_whoever_interferes() {
    let seeds = std::env::var("GRETE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(200);
    let mut begun = 0;
    for seed in 0..seeds {
        let mut world = World::new(seed);
        for _ in 0..400 {
            world.step();
        }
        world.finish();
        begun += world.begun;
    }
    assert!(u64::from(begun) > 10 * seeds, "only {begun} transactions in {seeds} seeds");
}
