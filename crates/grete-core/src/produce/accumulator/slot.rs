//! One partition's records until they are sent.

use std::collections::VecDeque;
use std::sync::Arc;

use grete_wire::records::{BatchBuilder, NewRecord};

use super::PartitionId;
use crate::produce::receipt::Receipt;
use crate::time::Nanos;

/// The first batch of a partition starts with so many bytes.
const FIRST: usize = 1024;

/// A batch that still takes records.
#[derive(Debug)]
pub(super) struct Open {
    pub batch: Fresh,
    /// When it has lingered long enough.
    pub due: Nanos,
    /// Somebody wants it out: it does not wait for anything.
    pub released: bool,
}

impl Open {
    /// Appends the record if it fits as the batch is; says how many bytes it took.
    #[inline]
    pub fn append(&mut self, record: &NewRecord<'_>, limit: usize) -> Option<usize> {
        self.batch.builder.append_within(record, limit)
    }
}

/// A batch that has not been sent yet.
#[derive(Debug)]
pub(in crate::produce) struct Fresh {
    /// In the order of opening, over all partitions.
    pub number: u64,
    pub receipt: Arc<Receipt>,
    pub builder: BatchBuilder,
}

impl Fresh {
    /// Bytes of `buffer.memory` that it takes.
    pub fn charge(&self) -> usize {
        self.builder.capacity()
    }
}

#[derive(Debug)]
pub(super) struct Slot {
    pub id: PartitionId,
    pub open: Option<Open>,
    pub sealed: VecDeque<Fresh>,
    /// The machine has been told that there is something to send, and has not come back for the last of it.
    pub announced: bool,
    /// A batch is on its way.
    pub busy: bool,
    /// The room that the next batch starts with.
    pub start: usize,
}

impl Slot {
    pub fn new(id: PartitionId) -> Self {
        Self { id, open: None, sealed: VecDeque::new(), announced: false, busy: false, start: FIRST }
    }

    /// Ends the open batch.
    pub fn seal(&mut self) {
        if let Some(open) = self.open.take() {
            self.learn(&open.batch);
            self.sealed.push_back(open.batch);
        }
    }

    /// The next batch will be about as large as this one.
    fn learn(&mut self, batch: &Fresh) {
        self.start = batch.builder.len().next_power_of_two().max(FIRST);
    }

    /// Without lingering no clock counts: the caller read its own after the machine read the one of this step, and a batch
    /// that seems to come from the future would be passed over, and never told of again.
    fn is_ready(&self, now: Nanos, linger: Nanos) -> bool {
        let due = |due: Nanos| if linger == 0 { !self.busy } else { now >= due };
        !self.sealed.is_empty() || self.open.as_ref().is_some_and(|open| open.released || due(open.due))
    }

    /// The next batch to be sent, if one is ready.
    pub fn take(&mut self, now: Nanos, linger: Nanos) -> Option<Fresh> {
        let ready = self.is_ready(now, linger);
        let taken = match self.sealed.pop_front() {
            None if ready => self.open.take().map(|open| {
                self.learn(&open.batch);
                open.batch
            }),
            sealed => sealed,
        };
        self.busy |= taken.is_some();
        self.announced = self.is_ready(now, linger);
        taken
    }

    /// Takes a certain batch out, sent or not wanted any more.
    pub fn remove(&mut self, number: u64) -> Option<Fresh> {
        if self.open.as_ref().is_some_and(|open| open.batch.number == number) {
            return self.open.take().map(|open| open.batch);
        }
        let index = self.sealed.iter().position(|batch| batch.number == number)?;
        self.sealed.remove(index)
    }
}
