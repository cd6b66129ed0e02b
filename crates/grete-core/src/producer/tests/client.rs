//! What `grete-client` makes of a core: callers that append and wait, and a network thread that sleeps until its deadline.
//!
//! The thread learns of nothing that it is not woken for: between two steps it keeps the deadline of the last one. And
//! whoever sleeps on a word hears of its change in the very step that changes it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use grete_wire::records::NewRecord;

use super::log::value;
use super::world::{Event, World};
use crate::ids::TopicPartition;
use crate::produce::{
    Accumulator, FlushMark, Outcome, ProduceStats, Receipt, Refused, Settled, SharedAccumulator, TopicId, Wake,
};
use crate::producer::*;
use crate::rng::Rng;
use crate::time::{MILLI, Nanos};

/// A record that was taken.
#[derive(Debug)]
pub struct Row {
    pub tp: TopicPartition,
    pub receipt: Arc<Receipt>,
    pub index: u32,
    pub taken: Nanos,
    pub settled: Option<Settled>,
}

/// What somebody sleeps on.
#[derive(Debug, Default)]
struct Sleepers {
    room: bool,
    topic: bool,
    /// And how many records had been taken before.
    flush: Option<(FlushMark, usize)>,
    receipts: Vec<Arc<Receipt>>,
}

#[derive(Debug)]
pub struct Client {
    core: ProducerCore,
    accumulator: SharedAccumulator,
    pub config: ProducerCoreConfig,
    topics: BTreeMap<String, TopicId>,
    /// By their numbers.
    pub rows: Vec<Row>,
    open: Vec<usize>,
    wake: Option<Nanos>,
    sleepers: Sleepers,
    pub notices: Vec<ProducerNotice>,
    pub fatal: usize,
    pub finished: bool,
}

impl Client {
    pub fn new(config: ProducerCoreConfig, mut rng: Rng) -> Self {
        let accumulator = Arc::new(Mutex::new(Accumulator::new(&config.produce, rng.split())));
        Self {
            core: ProducerCore::new(config.clone(), Arc::clone(&accumulator), rng),
            accumulator,
            config,
            topics: BTreeMap::new(),
            rows: Vec::new(),
            open: Vec::new(),
            wake: Some(0),
            sleepers: Sleepers::default(),
            notices: Vec::new(),
            fatal: 0,
            finished: false,
        }
    }

    pub fn accumulator(&self) -> MutexGuard<'_, Accumulator> {
        self.accumulator.lock().unwrap()
    }

    pub fn wakes_at(&self) -> Option<Nanos> {
        self.wake.filter(|_| !self.finished)
    }

    pub fn topic(&mut self, name: &str) -> TopicId {
        match self.topics.get(name) {
            Some(id) => *id,
            None => {
                let id = self.accumulator().topic(name);
                self.topics.insert(name.to_owned(), id);
                id
            }
        }
    }

    /// As if so many records had been written to each of the first partitions.
    pub fn count_from(&mut self, partitions: usize, sequence: i32) {
        for lane in 0..partitions {
            self.core.produce.set_next_sequence(lane, sequence);
        }
    }

    pub fn stats(&self) -> ProduceStats {
        self.core.stats()
    }

    /// Numbers of the records that are not settled.
    pub fn open(&self) -> &[usize] {
        &self.open
    }

    pub fn outcome(&self, id: u64) -> Option<Outcome> {
        self.rows[id as usize].settled.as_ref().map(|settled| settled.outcome)
    }
}

impl World {
    /// One record; its number, or why it was not taken. `len` bytes at least 8.
    pub fn append(
        &mut self,
        topic: &str,
        partition: Option<i32>,
        key: Option<&[u8]>,
        len: usize,
    ) -> Result<u64, Refused> {
        let known = self.client.topics.contains_key(topic);
        let id = self.client.topic(topic);
        if !known {
            self.step(ProducerEvent::Drain);
        }
        let number = self.client.rows.len() as u64;
        let value = value(number, len);
        let timestamp = i64::try_from(self.now / MILLI).unwrap();
        let record = NewRecord { timestamp, key, value: Some(&value), headers: &[] };
        let mut accumulator = self.client.accumulator.lock().unwrap();
        let taken = accumulator
            .append(self.now, id, partition, &record)
            .map(|appended| (Arc::clone(appended.receipt), appended.index, appended.partition, appended.wake));
        let (receipt, index, partition, wake) = match taken {
            Ok(taken) => taken,
            Err(refused) => {
                match &refused {
                    Refused::Full => {
                        accumulator.await_room();
                        self.client.sleepers.room = true;
                    }
                    Refused::NoMetadata => {
                        accumulator.await_topic();
                        self.client.sleepers.topic = true;
                    }
                    Refused::Topic(_) => {}
                    _ => return Err(refused),
                }
                drop(accumulator);
                self.nudge(false);
                return Err(refused);
            }
        };
        drop(accumulator);
        let tp = TopicPartition::new(topic, partition);
        self.tell(|| format!("record {number} to {tp}, {len} bytes, {wake:?}"));
        self.client.open.push(self.client.rows.len());
        self.client.rows.push(Row { tp, receipt, index, taken: self.now, settled: None });
        match wake {
            Wake::No => {}
            Wake::Deadline => self.nudge(true),
            Wake::Full => self.nudge(false),
        }
        Ok(number)
    }

    /// A caller has been told to step. Whoever is at it may be slow, and others append meanwhile.
    fn nudge(&mut self, tick: bool) {
        if self.chaos && self.rng.below(3) == 0 {
            let at = self.now + self.rng.below(5) * MILLI;
            return self.post(at, Event::Nudge(tick));
        }
        self.nudged(tick);
    }

    pub(super) fn nudged(&mut self, tick: bool) {
        self.step(if tick { ProducerEvent::Tick } else { ProducerEvent::Drain });
    }

    /// Somebody waits for the record.
    pub fn wait(&mut self, number: u64) {
        let receipt = Arc::clone(&self.client.rows[number as usize].receipt);
        let _ = receipt.announce_wait();
        if receipt.is_settled() {
            return;
        }
        let drain = self.client.accumulator().release_now(&receipt);
        self.client.sleepers.receipts.push(receipt);
        if drain {
            self.nudge(false);
        }
    }

    /// Somebody waits for all records.
    pub fn flush(&mut self) {
        let mut accumulator = self.client.accumulator();
        let mark = accumulator.flush();
        let waits = accumulator.await_flush(mark).is_some();
        drop(accumulator);
        self.tell(|| format!("flush {mark:?}, waits: {waits}"));
        if waits {
            self.client.sleepers.flush = Some((mark, self.client.rows.len()));
        }
        self.nudge(false);
    }

    pub fn close(&mut self, time: Nanos) {
        let deadline = self.now + time;
        self.step(ProducerEvent::Close { deadline });
    }

    pub fn step(&mut self, event: ProducerEvent) {
        if self.client.finished {
            return;
        }
        let mut out = Vec::new();
        self.client.core.step(self.now, event, &mut out);
        let lateness = if self.chaos && self.rng.below(50) == 0 { self.rng.below(self.lazy) } else { 0 };
        self.client.wake = self.client.core.deadline().map(|at| at + lateness);
        let (mut room, mut progress, mut topic, mut told) = (false, false, false, Vec::new());
        for action in out {
            match action {
                ProducerAction::Connect { conn, host, port } => {
                    assert_eq!(port, 9092);
                    self.connect(conn, &host);
                }
                ProducerAction::Write { conn, bytes } => self.write(conn, &bytes.to_vec()),
                ProducerAction::CloseConn(conn) => {
                    self.believed.remove(&conn);
                    self.abandon(conn);
                }
                ProducerAction::Settled(receipt) => told.push(receipt),
                ProducerAction::Room => room = true,
                ProducerAction::Progress => progress = true,
                ProducerAction::TopicKnown => topic = true,
                ProducerAction::Notice(notice) => {
                    self.tell(|| format!("{notice:?}"));
                    self.client.notices.push(notice);
                }
                ProducerAction::Fatal(error) => {
                    self.tell(|| format!("{error:?}"));
                    self.client.fatal += 1;
                }
                ProducerAction::Finished => self.client.finished = true,
            }
        }
        let used = self.client.accumulator().used_bytes();
        // Halves of a batch take a little more than the whole.
        let limit = self.client.config.produce.buffer_memory * if self.client.stats().splits > 0 { 2 } else { 1 };
        assert!(used <= limit, "{used} bytes are used");
        self.check_sleepers(room, progress, topic, &told);
        self.settle();
    }

    /// Who waits for something that is there has been woken.
    fn check_sleepers(&mut self, room: bool, progress: bool, topic: bool, told: &[Arc<Receipt>]) {
        let sleepers = &mut self.client.sleepers;
        let mut accumulator = self.client.accumulator.lock().unwrap();
        sleepers.room &= !room;
        assert!(!sleepers.room || accumulator.used_bytes() > 0, "nobody is told that there is room");
        sleepers.topic &= !topic;
        if let Some((mark, taken)) = sleepers.flush.filter(|(mark, _)| accumulator.is_flushed(*mark)) {
            assert!(progress, "nobody is told that {mark:?} is flushed");
            let settled = |row: &Row| row.receipt.result(row.index).is_some();
            assert!(self.client.rows[..taken].iter().all(settled), "{mark:?} is not flushed");
            sleepers.flush = None;
        }
        if let Some((mark, _)) = sleepers.flush.filter(|_| progress) {
            // Somebody else's; this one goes on sleeping.
            accumulator.await_flush(mark);
        }
        sleepers.receipts.retain(|receipt| {
            let woken = told.iter().any(|other| Arc::ptr_eq(receipt, other));
            assert!(woken || !receipt.is_settled(), "nobody is told that {receipt:?} is settled");
            !receipt.is_settled()
        });
    }

    /// Looks at what has become of the records.
    fn settle(&mut self) {
        for number in std::mem::take(&mut self.client.open) {
            let row = &mut self.client.rows[number];
            let Some(settled) = row.receipt.result(row.index) else {
                self.client.open.push(number);
                continue;
            };
            row.settled = Some(settled.clone());
            self.tell(|| format!("record {number} is settled: {settled:?}"));
            self.check_settled(number as u64, &settled);
        }
        if !self.client.finished {
            let timeout = self.client.config.produce.delivery_timeout;
            let oldest = self.client.open.iter().map(|number| self.client.rows[*number].taken).min();
            if let Some(taken) = oldest {
                assert!(self.now <= taken + timeout + self.lazy, "a record of {taken} is not settled at {}", self.now);
            }
        }
    }
}
