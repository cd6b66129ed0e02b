//! Model of `grete-client`: callers that append and wait, and a network thread that sleeps until its deadline.
//!
//! The thread learns only of events that it is woken for; between two steps it keeps the deadline of the last one. A
//! caller that sleeps on a futex is notified in the very step that changes the futex.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use grete_wire::records::ProducerRecord;

use super::log::value;
use super::simulator::{Event, Simulator};
use crate::ids::TopicPartition;
use crate::producer::*;
use crate::producer::{
    Accumulator, AppendAction, AppendError, BatchPromise, FlushToken, Outcome, RecordResult, SenderStats,
    SharedAccumulator, TopicId,
};
use crate::rng::Rng;
use crate::time::{MILLI, Nanos};
use crate::transport::TransportAction;

/// An appended record.
#[derive(Debug)]
pub struct Row {
    pub topic: Arc<str>,
    pub receipt: Arc<BatchPromise>,
    pub index: u32,
    pub taken: Nanos,
    pub settled: Option<RecordResult>,
}

impl Row {
    /// Returns the partition of the record; number -1: the record waits for metadata.
    pub fn tp(&self) -> TopicPartition {
        TopicPartition::new(Arc::clone(&self.topic), self.receipt.partition())
    }
}

/// Registered waiters.
#[derive(Debug, Default)]
struct Waiters {
    room: bool,
    topic: bool,
    /// Flush token and the number of records appended before it.
    flush: Option<(FlushToken, usize)>,
    receipts: Vec<Arc<BatchPromise>>,
}

#[derive(Debug)]
pub struct Client {
    core: ProducerCore,
    accumulator: SharedAccumulator,
    pub config: ProducerCoreConfig,
    topics: BTreeMap<String, TopicId>,
    /// Records by number.
    pub rows: Vec<Row>,
    open: Vec<usize>,
    wake: Option<Nanos>,
    waiters: Waiters,
    pub log_events: Vec<ProducerLogEvent>,
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
            waiters: Waiters::default(),
            log_events: Vec::new(),
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

    /// Sets the sequence numbers as if that many records had been written to each of the first partitions.
    pub fn count_from(&mut self, partitions: usize, sequence: i32) {
        for lane in 0..partitions {
            self.core.sender.set_next_sequence(lane, sequence);
        }
    }

    pub fn stats(&self) -> SenderStats {
        self.core.stats()
    }

    /// Returns the numbers of the incomplete records.
    pub fn open(&self) -> &[usize] {
        &self.open
    }

    pub fn outcome(&self, id: u64) -> Option<Outcome> {
        self.rows[id as usize].settled.as_ref().map(|settled| settled.outcome)
    }
}

impl Simulator {
    /// Appends a record of `len` bytes (at least 8). Returns its number or the error.
    pub fn append(
        &mut self,
        topic: &str,
        partition: Option<i32>,
        key: Option<&[u8]>,
        len: usize,
    ) -> Result<u64, AppendError> {
        self.append_as(topic, partition, key, len, false)
    }

    /// Appends a record; `queues`: the record may wait for the topic's metadata.
    pub fn append_as(
        &mut self,
        topic: &str,
        partition: Option<i32>,
        key: Option<&[u8]>,
        len: usize,
        queues: bool,
    ) -> Result<u64, AppendError> {
        let known = self.client.topics.contains_key(topic);
        let id = self.client.topic(topic);
        if !known {
            self.step(ProducerEvent::Drain);
        }
        let number = self.client.rows.len() as u64;
        let value = value(number, len);
        let timestamp = i64::try_from(self.now / MILLI).unwrap();
        let record = ProducerRecord { timestamp, key, value: Some(&value), headers: &[] };
        let mut accumulator = self.client.accumulator.lock().unwrap();
        let taken = match queues {
            true => accumulator.append_or_queue(self.now, id, partition, &record),
            false => accumulator.append(self.now, id, partition, &record),
        };
        let taken =
            taken.map(|appended| (Arc::clone(appended.promise), appended.index, appended.partition, appended.action));
        let (receipt, index, partition, wake) = match taken {
            Ok(taken) => taken,
            Err(refused) => {
                match &refused {
                    AppendError::BufferFull => {
                        accumulator.await_memory();
                        self.client.waiters.room = true;
                    }
                    AppendError::NoMetadata => {
                        accumulator.await_metadata();
                        self.client.waiters.topic = true;
                    }
                    AppendError::Topic(_) => {}
                    _ => return Err(refused),
                }
                drop(accumulator);
                self.nudge(false);
                return Err(refused);
            }
        };
        drop(accumulator);
        let tp = TopicPartition::new(topic, partition);
        self.trace(|| format!("record {number} to {tp}, {len} bytes, {wake:?}"));
        self.client.open.push(self.client.rows.len());
        self.client.rows.push(Row { topic: Arc::clone(&tp.topic), receipt, index, taken: self.now, settled: None });
        match wake {
            AppendAction::Nothing => {}
            AppendAction::Rearm => self.nudge(true),
            AppendAction::Drain => self.nudge(false),
        }
        Ok(number)
    }

    /// Steps the core after an append that returned an action. The calling thread may be slow, while others append.
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

    /// Registers a waiter for the record.
    pub fn wait(&mut self, number: u64) {
        let receipt = Arc::clone(&self.client.rows[number as usize].receipt);
        let _ = receipt.register_waiter();
        if receipt.is_complete() {
            return;
        }
        let drain = self.client.accumulator().end_linger(&receipt);
        self.client.waiters.receipts.push(receipt);
        if drain {
            self.nudge(false);
        }
    }

    /// Registers a waiter for all records.
    pub fn flush(&mut self) {
        let mut accumulator = self.client.accumulator();
        let mark = accumulator.flush();
        let waits = accumulator.await_flush(mark).is_some();
        drop(accumulator);
        self.trace(|| format!("flush {mark:?}, waits: {waits}"));
        if waits {
            self.client.waiters.flush = Some((mark, self.client.rows.len()));
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
        let (mut room, mut progress, mut topic, mut completed) = (false, false, false, Vec::new());
        for action in out {
            match action {
                ProducerAction::Transport(TransportAction::Connect { conn, host, port }) => {
                    assert_eq!(port, 9092);
                    self.connect(conn, &host);
                }
                ProducerAction::Transport(TransportAction::Write { conn, bytes }) => self.write(conn, &bytes.to_vec()),
                ProducerAction::Transport(TransportAction::Gss { .. }) => panic!("no login was set up"),
                ProducerAction::Transport(TransportAction::CloseConn(conn)) => {
                    self.believed.remove(&conn);
                    self.abandon(conn);
                }
                ProducerAction::Completed(receipt) => completed.push(receipt),
                ProducerAction::MemoryAvailable => room = true,
                ProducerAction::FlushCompleted => progress = true,
                ProducerAction::MetadataAvailable => topic = true,
                ProducerAction::LogEvent(notice) => {
                    self.trace(|| format!("{notice:?}"));
                    self.client.log_events.push(notice);
                }
                ProducerAction::Fatal(error) => {
                    self.trace(|| format!("{error:?}"));
                    self.client.fatal += 1;
                }
                ProducerAction::TransactionDone(..) | ProducerAction::StagedCommitDone(..) => {
                    panic!("no call about transactions was made")
                }
                ProducerAction::Finished => self.client.finished = true,
            }
        }
        let used = self.client.accumulator().used_bytes();
        // The halves of a split batch take slightly more memory than the whole.
        let limit = self.client.config.produce.buffer_memory * if self.client.stats().splits > 0 { 2 } else { 1 };
        assert!(used <= limit, "{used} bytes are used");
        self.check_waiters(room, progress, topic, &completed);
        self.settle();
    }

    /// Checks that every waiter whose condition holds was woken.
    fn check_waiters(&mut self, room: bool, progress: bool, topic: bool, completed: &[Arc<BatchPromise>]) {
        let sleepers = &mut self.client.waiters;
        let mut accumulator = self.client.accumulator.lock().unwrap();
        sleepers.room &= !room;
        assert!(!sleepers.room || accumulator.used_bytes() > 0, "no wake-up, although there is room");
        sleepers.topic &= !topic;
        if let Some((mark, taken)) = sleepers.flush.filter(|(mark, _)| accumulator.is_flushed(*mark)) {
            assert!(progress, "no wake-up, although {mark:?} is flushed");
            let settled = |row: &Row| row.receipt.result(row.index).is_some();
            assert!(self.client.rows[..taken].iter().all(settled), "{mark:?} is not flushed");
            sleepers.flush = None;
        }
        if let Some((mark, _)) = sleepers.flush.filter(|_| progress) {
            // The wake-up was for another flush: sleep again.
            accumulator.await_flush(mark);
        }
        sleepers.receipts.retain(|receipt| {
            let woken = completed.iter().any(|other| Arc::ptr_eq(receipt, other));
            assert!(woken || !receipt.is_complete(), "no wake-up, although {receipt:?} is complete");
            !receipt.is_complete()
        });
    }

    /// Collects the results of completed records.
    fn settle(&mut self) {
        for number in std::mem::take(&mut self.client.open) {
            let row = &mut self.client.rows[number];
            let Some(settled) = row.receipt.result(row.index) else {
                self.client.open.push(number);
                continue;
            };
            row.settled = Some(settled.clone());
            self.trace(|| format!("record {number} is settled: {settled:?}"));
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
