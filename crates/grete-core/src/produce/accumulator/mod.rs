//! Records until they are sent: in wire form already, in one open batch per partition.

mod words;

use std::sync::{Arc, Mutex};

use grete_wire::error_code::ErrorCode;
use grete_wire::records::NewRecord;

pub use words::Words;

use super::config::ProduceConfig;
use super::error::{Refused, TopicError};
use super::receipt::Receipt;
use crate::rng::Rng;
use crate::time::Nanos;

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
    words: Arc<Words>,
}

impl Accumulator {
    /// An empty one.
    #[must_use]
    pub fn new(config: &ProduceConfig, rng: Rng) -> Self {
        let _ = (config, rng);
        Self { words: Arc::default() }
    }

    /// The words to sleep on.
    #[must_use]
    pub fn words(&self) -> &Arc<Words> {
        &self.words
    }

    /// Names a topic, and asks for its metadata: the machine is to be woken if [`Accumulator::partitions`] has nothing.
    pub fn topic(&mut self, name: &str) -> TopicId {
        let _ = name;
        TopicId(0)
    }

    /// How many partitions the topic has; `None`: not known yet.
    #[must_use]
    pub fn partitions(&self, topic: TopicId) -> Option<Result<u32, TopicError>> {
        let _ = topic;
        None
    }

    /// What the metadata last said is wrong with the topic, though it may pass: for whoever is tired of waiting.
    #[must_use]
    pub fn topic_trouble(&self, topic: TopicId) -> Option<ErrorCode> {
        let _ = topic;
        None
    }

    /// Takes a record. `partition`: `None` lets the key decide, or what fits best for a record without one.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn append(
        &mut self,
        now: Nanos,
        topic: TopicId,
        partition: Option<i32>,
        record: &NewRecord<'_>,
    ) -> Result<Appended<'_>, Refused> {
        let _ = (now, topic, partition, record);
        Err(Refused::NoMetadata)
    }

    /// Somebody waits for this batch: it does not linger any longer. True if the machine is to be stepped with `Drain`.
    pub fn release_now(&mut self, receipt: &Receipt) -> bool {
        let _ = receipt;
        false
    }

    /// Lets nothing linger. Step the machine with `Drain` afterwards.
    pub fn flush(&mut self) -> FlushMark {
        FlushMark(0)
    }

    /// Whether everything that was appended before the mark is settled.
    #[must_use]
    pub fn is_flushed(&self, mark: FlushMark) -> bool {
        let _ = mark;
        true
    }

    /// Announces a sleep on [`Words::room`] after [`Refused::Full`], under the same lock; returns the value to sleep on.
    pub fn await_room(&mut self) -> u32 {
        0
    }

    /// Announces a sleep on [`Words::progress`]; returns the value to sleep on, or `None` if the mark is reached.
    pub fn await_flush(&mut self, mark: FlushMark) -> Option<u32> {
        let _ = mark;
        None
    }

    /// Announces a sleep on [`Words::metadata`] after [`Refused::NoMetadata`], under the same lock; returns the value to
    /// sleep on.
    pub fn await_topic(&mut self) -> u32 {
        0
    }

    /// Bytes of `buffer.memory` in use.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        0
    }

    /// Records that are not settled.
    #[must_use]
    pub fn pending_records(&self) -> u64 {
        0
    }
}
