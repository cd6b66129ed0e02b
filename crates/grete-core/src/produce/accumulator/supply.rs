//! The machine's side of the accumulator.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use grete_wire::error_code::ErrorCode;

use super::slot::{Fresh, Slot};
use super::topic::NEVER;
use super::{Accumulator, PartitionId};
use crate::cluster::PartitionMeta;
use crate::ids::TopicPartition;
use crate::produce::error::FatalError;
use crate::time::{Nanos, SECOND};
use crate::view::ClusterView;

/// A topic that nobody has produced to for so long is not asked about any more (Java's `metadata.max.idle.ms`).
const UNUSED: Nanos = 300 * SECOND;

/// Who is to be woken.
#[derive(Debug, Default)]
pub(in crate::produce) struct Signals {
    pub room: bool,
    pub progress: bool,
    pub topic: bool,
}

impl Accumulator {
    /// Hands over the partitions that have something to send and were not told of before.
    pub(in crate::produce) fn collect(&mut self, now: Nanos, ready: &mut Vec<PartitionId>) {
        while let Some(&(due, id, number)) = self.lingering.front() {
            if self.is_open(id, number) {
                if self.linger == 0 || now < due {
                    break;
                }
                self.announce(id);
            }
            self.lingering.pop_front();
        }
        ready.append(&mut self.ready);
    }

    /// Whether somebody has been announced whom `collect` has not handed over.
    pub(in crate::produce) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// When the next batch has lingered long enough.
    pub(in crate::produce) fn next_linger(&mut self) -> Option<Nanos> {
        while let Some(&(due, id, number)) = self.lingering.front() {
            if self.is_open(id, number) {
                return (self.linger > 0).then_some(due);
            }
            self.lingering.pop_front();
        }
        None
    }

    /// The machine looks again at that time at the latest: who opens a batch that is due before has to wake it.
    pub(in crate::produce) fn arm(&mut self, deadline: Option<Nanos>) {
        self.armed = deadline;
    }

    /// The partition's next batch if one is ready, and whether another one is.
    pub(in crate::produce) fn take(&mut self, id: PartitionId, now: Nanos) -> (Option<Fresh>, bool) {
        let linger = self.linger;
        self.slot(id).map_or((None, false), |slot| (slot.take(now, linger), slot.announced))
    }

    /// Bytes, uncompressed, of the batch that `take` would give.
    pub(in crate::produce) fn next_bytes(&mut self, id: PartitionId) -> usize {
        let Some(slot) = self.slot(id) else { return 0 };
        let next = slot.sealed.front().or(slot.open.as_ref().map(|open| &open.batch));
        next.map_or(0, |batch| batch.builder.len())
    }

    /// Nothing of the partition is on its way any more.
    pub(in crate::produce) fn idle(&mut self, id: PartitionId) {
        let linger = self.linger;
        let Some(slot) = self.slot(id) else { return };
        slot.busy = false;
        if linger == 0 && slot.open.is_some() {
            self.announce(id);
        }
    }

    /// The oldest batch, if its time is over.
    pub(in crate::produce) fn expired(&self, now: Nanos) -> Option<(u64, PartitionId)> {
        self.window.expired(now)
    }

    /// The oldest batch that is not settled.
    pub(in crate::produce) fn oldest(&self) -> Option<(u64, PartitionId)> {
        self.window.oldest()
    }

    /// When the oldest batch expires.
    pub(in crate::produce) fn next_expiry(&self) -> Option<Nanos> {
        self.window.deadline()
    }

    /// Takes a batch out that was not sent.
    pub(in crate::produce) fn remove(&mut self, number: u64, id: PartitionId) -> Option<Fresh> {
        self.slot(id)?.remove(number)
    }

    /// Takes any batch out that was not sent.
    pub(in crate::produce) fn remove_any(&mut self, id: PartitionId) -> Option<Fresh> {
        let slot = self.slot(id)?;
        slot.sealed.pop_front().or_else(|| slot.open.take().map(|open| open.batch))
    }

    /// So many records of a batch are settled; `last`: nothing of it is open.
    pub(in crate::produce) fn settle(&mut self, number: u64, records: u32, last: bool) {
        self.pending = self.pending.saturating_sub(records.into());
        if !last {
            return;
        }
        let place = self.window.settle(number).and_then(|id| self.places.get(id.0 as usize)).copied();
        if let Some(topic) = place.and_then(|(topic, _)| self.topics.get_mut(topic as usize)) {
            topic.unsettled = topic.unsettled.saturating_sub(1);
        }
    }

    /// A batch is gone, and with it so many bytes; its buffer perhaps is free.
    pub(in crate::produce) fn give(&mut self, charge: usize, buffer: Option<Vec<u8>>) {
        self.memory.give(charge);
        if let Some(buffer) = buffer {
            self.memory.recycle(buffer);
        }
    }

    /// A batch was made anew, in buffers of another size.
    pub(in crate::produce) fn recharge(&mut self, before: usize, after: usize) {
        self.memory.correct(before, after);
    }

    /// Whether nothing is open.
    pub(in crate::produce) fn is_settled(&self) -> bool {
        self.window.is_empty()
    }

    /// Whether the topics of interest have changed since the last call.
    pub(in crate::produce) fn take_interest_changed(&mut self) -> bool {
        std::mem::take(&mut self.interest_changed)
    }

    /// Whether metadata that stands in somebody's way is to be asked for again.
    pub(in crate::produce) fn take_doubted(&mut self) -> bool {
        std::mem::take(&mut self.doubted)
    }

    /// The topics whose metadata is wanted.
    pub fn interest(&self) -> Vec<Arc<str>> {
        self.topics.iter().filter(|topic| topic.wanted).map(|topic| Arc::clone(&topic.name)).collect()
    }

    /// Asks no more about topics that nobody uses. Returns when to look again.
    pub(in crate::produce) fn forget_unused(&mut self, now: Nanos) -> Option<Nanos> {
        let mut look = None;
        for topic in self.topics.iter_mut().filter(|topic| topic.wanted) {
            if topic.last_used == NEVER {
                topic.last_used = now;
            }
            let end = topic.last_used.saturating_add(UNUSED);
            if now < end || topic.unsettled > 0 {
                let again = end.max(now.saturating_add(UNUSED / 5));
                look = Some(look.map_or(again, |look: Nanos| look.min(again)));
                continue;
            }
            topic.wanted = false;
            topic.count = 0;
            (topic.error, topic.trouble) = (None, None);
            self.interest_changed = true;
        }
        look
    }

    /// Takes in partitions and errors. New partitions come back in `arrived`, in the order of their ids, and those that
    /// cannot be written to any more in `refused`.
    pub(in crate::produce) fn update(
        &mut self,
        view: &impl ClusterView,
        arrived: &mut Vec<TopicPartition>,
        refused: &mut Vec<(PartitionId, ErrorCode)>,
    ) {
        let Self { topics, places, rng, .. } = self;
        let mut known = false;
        for (index, topic) in (0..).zip(topics.iter_mut()).filter(|(_, topic)| topic.wanted) {
            match view.partitions(&topic.name) {
                None => {}
                Some(Err(code)) if code.is_retriable() => topic.trouble = Some(code),
                Some(Err(code)) => {
                    known |= topic.error != Some(code);
                    topic.error = Some(code);
                    topic.count = 0;
                    refused.extend(topic.slots.iter().map(|slot| (slot.id, code)));
                }
                Some(Ok(partitions)) => {
                    known |= topic.count == 0;
                    (topic.error, topic.trouble) = (None, None);
                    for partition in (0..).zip(partitions).skip(topic.slots.len()).map(|(partition, _)| partition) {
                        let id = PartitionId(u32::try_from(places.len()).unwrap_or(u32::MAX));
                        places.push((index, u32::try_from(partition).unwrap_or(0)));
                        topic.slots.push(Slot::new(id));
                        arrived.push(TopicPartition::new(Arc::clone(&topic.name), partition));
                    }
                    topic.set_leaders(partitions.iter().map(|meta: &PartitionMeta| meta.leader >= 0), rng);
                }
            }
        }
        self.topic_known |= known;
    }

    /// Takes no more records.
    pub(in crate::produce) fn shut(&mut self, fatal: Option<FatalError>) {
        self.shut = true;
        self.fatal = self.fatal.take().or(fatal);
        self.release_all();
    }

    /// Tells sleepers what they sleep for, if it has happened.
    pub(in crate::produce) fn signals(&mut self) -> Signals {
        let topic_known = std::mem::take(&mut self.topic_known);
        let flushed = self.flush_wanted.is_some_and(|mark| self.window.is_past(mark));
        let signals = Signals {
            room: self.room_wanted.is_some_and(|bytes| self.memory.has_room(bytes) || self.shut),
            progress: flushed,
            topic: self.topic_wanted && (topic_known || self.shut),
        };
        if signals.room {
            self.room_wanted = None;
            self.words.room.fetch_add(1, Ordering::AcqRel);
        }
        if signals.progress {
            self.flush_wanted = None;
            self.words.progress.fetch_add(1, Ordering::AcqRel);
        }
        if signals.topic {
            self.topic_wanted = false;
            self.words.metadata.fetch_add(1, Ordering::AcqRel);
        }
        signals
    }

    pub(super) fn release_all(&mut self) {
        let mut lingering = std::mem::take(&mut self.lingering);
        for (_, id, number) in lingering.drain(..) {
            let open = self.slot(id).and_then(|slot| slot.open.as_mut()).filter(|open| open.batch.number == number);
            if let Some(open) = open {
                open.released = true;
                self.announce(id);
            }
        }
        self.lingering = lingering;
    }

    /// Remembers a batch that lingers; those that were full before their time are forgotten now and then.
    pub(super) fn linger_until(&mut self, due: Nanos, id: PartitionId, number: u64) {
        if self.lingering.len() == self.lingering.capacity() {
            let mut lingering = std::mem::take(&mut self.lingering);
            lingering.retain(|&(_, id, number)| self.is_open(id, number));
            self.lingering = lingering;
        }
        self.lingering.push_back((due, id, number));
    }

    fn is_open(&mut self, id: PartitionId, number: u64) -> bool {
        self.slot(id).and_then(|slot| slot.open.as_ref()).is_some_and(|open| open.batch.number == number)
    }
}
