//! Records until they are sent: in wire form already, in one open batch per partition.
//!
//! ```text
//! append --> open batch --full--> sealed batches --take--> machine
//!                |  ^                                         |
//!                |  +-- lingering: opened when, in order      +-- settle, give: window, memory
//!                +--due, flushed, waited for, no room: ready--^
//! ```
//!
//! Not obvious:
//! - A record that fits its open batch touches nothing but that batch and three counters. All else is `append_slowly`.
//! - The machine is told of a partition once (`announced`), and comes back for as long as there is something to take.

mod memory;
mod slot;
mod supply;
mod topic;
mod window;
mod words;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use grete_wire::error_code::ErrorCode;
use grete_wire::records::{BatchBuilder, HEADER_BYTES, NewRecord};

pub(super) use slot::Fresh;
pub use words::Words;

use super::config::ProduceConfig;
use super::error::{FatalError, Refused, TopicError};
use super::receipt::Receipt;
use crate::murmur2::partition_for_key;
use crate::rng::Rng;
use crate::time::Nanos;
use memory::Memory;
use slot::{Open, Slot};
use topic::{NEVER, Topic};
use window::Window;

/// Names a topic within one accumulator; stays valid as long as that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicId(pub u32);

/// Names a partition within one accumulator, densely over all topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionId(pub u32);

/// Everything that was appended before it was made; see [`Accumulator::flush`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlushMark(u64);

/// What whoever appended has to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// Nothing.
    No,
    /// The machine looks again too late for the batch that was opened: wake it, so that it learns of the earlier time.
    Deadline,
    /// A batch is ready: step the machine with `Drain`, here or elsewhere.
    Full,
}

/// Where a record has gone.
#[derive(Debug)]
pub struct Appended<'a> {
    /// Of its batch; whoever wants to know what becomes of the record keeps a clone.
    pub receipt: &'a Arc<Receipt>,
    /// The record's place in the batch.
    pub index: u32,
    /// The partition that it went to.
    pub partition: i32,
    /// What to do next.
    pub wake: Wake,
}

/// An accumulator as callers and the machine share it. Lock order: loop, accumulator, receipt.
pub type SharedAccumulator = Arc<Mutex<Accumulator>>;

/// See the module.
#[derive(Debug)]
pub struct Accumulator {
    linger: Nanos,
    delivery_timeout: Nanos,
    batch_size: usize,
    /// The longest batch that a record may have for itself.
    longest: usize,
    topics: Vec<Topic>,
    by_name: HashMap<Arc<str>, TopicId>,
    /// Topic and partition number, by id.
    places: Vec<(u32, u32)>,
    memory: Memory,
    window: Window,
    /// Every batch that was opened to linger and perhaps still does, in that order.
    lingering: VecDeque<(Nanos, PartitionId, u64)>,
    /// Partitions of which the machine has not heard yet that they have something to send.
    ready: Vec<PartitionId>,
    /// When the machine looks again by itself.
    armed: Option<Nanos>,
    pending: u64,
    /// Closed, or failed.
    shut: bool,
    fatal: Option<FatalError>,
    interest_changed: bool,
    /// Somebody was refused for what the metadata says.
    doubted: bool,
    /// Bytes that somebody was refused for.
    room_wanted: Option<usize>,
    topic_wanted: bool,
    topic_known: bool,
    flush_wanted: Option<u64>,
    /// To measure a record that would be the first of its batch.
    blank: BatchBuilder,
    rng: Rng,
    words: Arc<Words>,
}

impl Accumulator {
    /// An empty one.
    #[must_use]
    pub fn new(config: &ProduceConfig, rng: Rng) -> Self {
        let longest = config.max_request_size.min(config.buffer_memory);
        let batch_size = config.batch_size.min(longest);
        Self {
            linger: config.linger,
            delivery_timeout: config.delivery_timeout,
            batch_size,
            longest,
            topics: Vec::new(),
            by_name: HashMap::new(),
            places: Vec::new(),
            memory: Memory::new(config.buffer_memory, batch_size),
            window: Window::default(),
            lingering: VecDeque::new(),
            ready: Vec::new(),
            armed: None,
            pending: 0,
            shut: false,
            fatal: None,
            interest_changed: false,
            doubted: false,
            room_wanted: None,
            topic_wanted: false,
            topic_known: false,
            flush_wanted: None,
            blank: BatchBuilder::new(Vec::new()),
            rng,
            words: Arc::default(),
        }
    }

    /// The words to sleep on.
    #[must_use]
    pub fn words(&self) -> &Arc<Words> {
        &self.words
    }

    /// Names a topic, and asks for its metadata: step the machine if [`Accumulator::partitions`] has nothing.
    pub fn topic(&mut self, name: &str) -> TopicId {
        let id = match self.by_name.get(name) {
            Some(&id) => id,
            None => {
                let id = TopicId(u32::try_from(self.topics.len()).unwrap_or(u32::MAX));
                let name: Arc<str> = name.into();
                self.topics.push(Topic::new(Arc::clone(&name)));
                self.by_name.insert(name, id);
                id
            }
        };
        self.want(id);
        id
    }

    /// The topic's name.
    #[must_use]
    pub fn topic_name(&self, topic: TopicId) -> Option<&Arc<str>> {
        self.topics.get(topic.0 as usize).map(|topic| &topic.name)
    }

    /// How many partitions the topic has; `None`: not known yet.
    #[must_use]
    pub fn partitions(&self, topic: TopicId) -> Option<Result<u32, TopicError>> {
        let topic = self.topics.get(topic.0 as usize)?;
        match topic.error {
            Some(code) => Some(Err(TopicError { topic: Arc::clone(&topic.name), code })),
            None => (topic.count > 0).then_some(Ok(topic.count)),
        }
    }

    /// What the metadata last said is wrong with the topic, though it may pass: for whoever is tired of waiting.
    #[must_use]
    pub fn topic_trouble(&self, topic: TopicId) -> Option<ErrorCode> {
        self.topics.get(topic.0 as usize)?.trouble
    }

    /// Takes a record. `partition`: `None` lets the key decide; without a key it goes where others went a moment ago.
    ///
    /// # Errors
    /// See [`Refused`]. After [`Refused::NoMetadata`], [`Refused::Full`] and [`Refused::Topic`] the machine is to be
    /// stepped with `Drain`.
    #[inline]
    pub fn append(
        &mut self,
        now: Nanos,
        topic: TopicId,
        partition: Option<i32>,
        record: &NewRecord<'_>,
    ) -> Result<Appended<'_>, Refused> {
        let place = topic.0 as usize;
        let Some(found) = self.topics.get_mut(place).filter(|topic| topic.count > 0 && !self.shut) else {
            return Err(self.refuse(topic));
        };
        let count = found.count;
        let (index, sticky) = match (partition, record.key) {
            (None, None) => (found.sticky, true),
            (None, Some(key)) => (partition_for_key(key, count), false),
            (Some(partition), _) => match u32::try_from(partition) {
                Ok(index) if index < count => (index, false),
                _ => return Err(Refused::NoPartition { partition, count }),
            },
        };
        let open = found.slots.get_mut(index as usize).and_then(|slot| slot.open.as_mut());
        let (index, bytes, wake) = match open.and_then(|open| open.append(record, self.batch_size)) {
            Some(bytes) => (index, bytes, Wake::No),
            None => self.append_slowly(now, place, index, sticky, record)?,
        };
        let Some(topic) = self.topics.get_mut(place) else { return Err(Refused::NoMetadata) };
        topic.last_used = now;
        topic.sticky_bytes += if sticky { bytes } else { 0 };
        self.pending += 1;
        let open = topic.slots.get(index as usize).and_then(|slot| slot.open.as_ref());
        let Some(Open { batch, .. }) = open else { return Err(Refused::NoMetadata) };
        let at = batch.builder.count().saturating_sub(1);
        Ok(Appended { receipt: &batch.receipt, index: at, partition: index as i32, wake })
    }

    /// Somebody waits for this batch: it does not linger any longer. True if the machine is to be stepped with `Drain`.
    pub fn release_now(&mut self, receipt: &Receipt) -> bool {
        let Some(slot) = self.slot(receipt.slot()) else { return false };
        if slot.sealed.iter().any(|batch| std::ptr::eq(Arc::as_ptr(&batch.receipt), receipt)) {
            return true;
        }
        let open = slot.open.as_mut().filter(|open| std::ptr::eq(Arc::as_ptr(&open.batch.receipt), receipt));
        let Some(open) = open else { return false };
        open.released = true;
        self.announce(receipt.slot());
        true
    }

    /// Lets nothing linger. Step the machine with `Drain` afterwards.
    pub fn flush(&mut self) -> FlushMark {
        self.release_all();
        FlushMark(self.window.next())
    }

    /// Whether everything that was appended before the mark is settled.
    #[must_use]
    pub fn is_flushed(&self, mark: FlushMark) -> bool {
        self.window.is_past(mark.0)
    }

    /// The value on which to sleep on [`Words::room`] after [`Refused::Full`]. The refusal has announced the sleep: if
    /// there has been room since, this is a value that the word does not have any more.
    pub fn await_room(&mut self) -> u32 {
        let word = self.words.room.load(Ordering::Acquire);
        if self.room_wanted.is_some() { word } else { word.wrapping_sub(1) }
    }

    /// Announces a sleep on [`Words::progress`]; returns the value to sleep on, or `None` if the mark is reached.
    pub fn await_flush(&mut self, mark: FlushMark) -> Option<u32> {
        if self.is_flushed(mark) {
            return None;
        }
        self.flush_wanted = Some(self.flush_wanted.map_or(mark.0, |wanted| wanted.min(mark.0)));
        Some(self.words.progress.load(Ordering::Acquire))
    }

    /// Announces a sleep on [`Words::metadata`] while [`Accumulator::partitions`] has nothing, under the same lock;
    /// returns the value to sleep on.
    pub fn await_topic(&mut self) -> u32 {
        self.topic_wanted = true;
        self.words.metadata.load(Ordering::Acquire)
    }

    /// The longest batch that a record may have for itself, in bytes.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// The bytes of a batch of this record alone: who appends many records asks before the first one is taken.
    ///
    /// # Errors
    /// `TooLarge`, if it may not be sent.
    pub fn fits(&self, record: &NewRecord<'_>) -> Result<usize, Refused> {
        let bytes = HEADER_BYTES + self.blank.record_bytes(record);
        match bytes > self.longest {
            true => Err(Refused::TooLarge { bytes, limit: self.longest }),
            false => Ok(bytes),
        }
    }

    /// Bytes of `buffer.memory` in use.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.memory.used()
    }

    /// Records that are not settled.
    #[must_use]
    pub fn pending_records(&self) -> u64 {
        self.pending
    }

    /// The same when the record does not fit its open batch as that is.
    #[cold]
    fn append_slowly(
        &mut self,
        now: Nanos,
        place: usize,
        index: u32,
        sticky: bool,
        record: &NewRecord<'_>,
    ) -> Result<(u32, usize, Wake), Refused> {
        let (index, bytes, wake) = self.make_room(now, place, index, sticky, record)?;
        let slot = self.topics.get_mut(place).and_then(|topic| topic.slots.get_mut(index as usize));
        let Some(Open { batch, .. }) = slot.and_then(|slot| slot.open.as_mut()) else {
            return Err(Refused::NoMetadata);
        };
        // It has been measured, so that only a length beyond the protocol's is left, and that is beyond every limit.
        batch.builder.append(record).map_err(|_| Refused::TooLarge { bytes, limit: self.longest })?;
        Ok((index, bytes, wake))
    }

    /// Makes the open batch of the partition fit the record, or another batch, perhaps of another partition if it has
    /// no key. Returns the partition, the bytes that the record takes there, and what to do next.
    fn make_room(
        &mut self,
        now: Nanos,
        place: usize,
        mut index: u32,
        sticky: bool,
        record: &NewRecord<'_>,
    ) -> Result<(u32, usize, Wake), Refused> {
        let alone = self.fits(record)?;
        let mut wake = Wake::No;
        loop {
            let Some(topic) = self.topics.get_mut(place) else { return Err(Refused::NoMetadata) };
            let Some(slot) = topic.slots.get_mut(index as usize) else { return Err(Refused::NoMetadata) };
            if let Some(Open { batch: Fresh { builder, .. }, .. }) = &mut slot.open {
                let bytes = builder.record_bytes(record);
                let (len, capacity) = (builder.len() + bytes, builder.capacity());
                if len <= capacity.min(self.batch_size) {
                    return Ok((index, bytes, wake));
                }
                if len <= self.batch_size {
                    let grown = capacity.saturating_mul(2).min(self.batch_size).max(len);
                    if !self.memory.take(grown - capacity) {
                        return Err(self.full(grown - capacity));
                    }
                    builder.reserve(grown - builder.len());
                    self.memory.correct(grown, builder.capacity());
                    return Ok((index, bytes, wake));
                }
                let id = slot.id;
                slot.seal();
                self.announce(id);
                wake = Wake::Full;
            }
            // Between two batches, and this one would bring the partition beyond its turn: the next partition's
            // (KIP-794).
            let Some(topic) = self.topics.get_mut(place) else { return Err(Refused::NoMetadata) };
            if sticky && topic.sticky_bytes > 0 && topic.sticky_bytes + alone > self.batch_size {
                topic.switch(&mut self.rng);
                index = topic.sticky;
                continue;
            }
            let opened = self.open(now, place, index, alone)?;
            return Ok((index, alone - HEADER_BYTES, if wake == Wake::Full { wake } else { opened }));
        }
    }

    fn open(&mut self, now: Nanos, place: usize, index: u32, alone: usize) -> Result<Wake, Refused> {
        let Some(topic) = self.topics.get_mut(place) else { return Err(Refused::NoMetadata) };
        let Some(slot) = topic.slots.get_mut(index as usize) else { return Err(Refused::NoMetadata) };
        let id = slot.id;
        let bytes = slot.start.min(self.batch_size).max(alone);
        let Some(buffer) = self.memory.buffer(bytes) else { return Err(self.full(bytes)) };
        let number = self.window.open(id, now.saturating_add(self.delivery_timeout));
        let receipt = Arc::new(Receipt::new(Arc::clone(&topic.name), index as i32, id));
        let due = now.saturating_add(self.linger);
        let batch = Fresh { number, receipt, builder: BatchBuilder::new(buffer) };
        slot.open = Some(Open { batch, due, released: false });
        topic.unsettled += 1;
        let at_once = self.linger == 0 && !slot.busy;
        self.linger_until(due, id, number);
        if at_once {
            self.announce(id);
            return Ok(Wake::Full);
        }
        if self.linger > 0 && self.armed.is_none_or(|armed| due < armed) {
            self.armed = Some(due);
            return Ok(Wake::Deadline);
        }
        Ok(Wake::No)
    }

    /// The machine has to hear of this partition.
    fn announce(&mut self, id: PartitionId) {
        let Some(slot) = self.slot(id).filter(|slot| !slot.announced) else { return };
        slot.announced = true;
        self.ready.push(id);
    }

    fn slot(&mut self, id: PartitionId) -> Option<&mut Slot> {
        let &(topic, partition) = self.places.get(id.0 as usize)?;
        self.topics.get_mut(topic as usize)?.slots.get_mut(partition as usize)
    }

    fn want(&mut self, id: TopicId) {
        if let Some(topic) = self.topics.get_mut(id.0 as usize).filter(|topic| !topic.wanted) {
            topic.wanted = true;
            topic.last_used = NEVER;
            self.interest_changed = true;
        }
    }

    #[cold]
    fn refuse(&mut self, topic: TopicId) -> Refused {
        if let Some(fatal) = &self.fatal {
            return Refused::Fatal(fatal.clone());
        }
        if self.shut {
            return Refused::Closed;
        }
        match self.partitions(topic) {
            Some(Err(error)) => {
                // Who was refused yesterday may have been given the right to today.
                self.want(topic);
                self.doubted = true;
                Refused::Topic(error)
            }
            _ => {
                // It may have been forgotten, because nobody has used it for a while.
                self.want(topic);
                Refused::NoMetadata
            }
        }
    }

    /// Nothing lingers while others wait for room.
    fn full(&mut self, bytes: usize) -> Refused {
        self.room_wanted = Some(self.room_wanted.map_or(bytes, |wanted| wanted.min(bytes)));
        self.release_all();
        Refused::Full
    }
}
