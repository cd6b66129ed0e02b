//! Oracle: watches what the brokers store, and compares it with what handlers have done.
//!
//! Every batch and every commit passes here in the moment in which a broker stores it. So a commit that comes too early
//! is found even if the record is processed a moment later.

mod commits;
mod input;
mod transactions;
mod writers;

use std::collections::BTreeMap;
use std::sync::Arc;

use grete_broker::effects::Change;
use grete_broker::effects::group::GroupChange;
use grete_broker::effects::share_group::{ShareChange, ShareGroupChange};
use grete_broker::fault::FaultAction;
use grete_broker::log::LogChange;
use grete_broker::topics::Topics;
use grete_proto::dispatch::Concurrency;
use grete_proto::time::{Nanos, SECOND};
use grete_wire::buffer_pool::BufferPool;
use grete_wire::records::{BatchHeader, BatchReader, DecodeLimits, iter_batches};
use grete_wire::{ApiKey, ErrorCode};

use self::commits::CommitCheck;
use self::input::InputLog;
use self::transactions::{CONTROL, OpenTransactions, is_transactional};
use self::writers::WriterCheck;
use crate::plan::{DEAD_LETTERS, Fault, GROUP, HandlerStyle, INPUT, Nature, OUTPUT, Plan, PlannedFault, RecordPlan};

/// Promise that the run has broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Time, in nanoseconds.
    pub at: Nanos,
    /// Promise, and the finding that breaks it.
    pub what: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at {:.3} s: {}", self.at as f64 / SECOND as f64, self.what)
    }
}

/// Record of the input topic as its value names it, with the number of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Origin {
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    /// Number of the output, from 0.
    pub(crate) number: u32,
}

/// Returns the value of an input record.
pub(crate) fn input_value(id: u64) -> Vec<u8> {
    format!("r{id} source.1#{id}").into_bytes()
}

/// Returns the value of an output or a dead letter. `writer` and `sequence` name the record of its producer.
pub(crate) fn output_value(origin: Origin, writer: &str, sequence: u64) -> Vec<u8> {
    let Origin { partition, offset, number } = origin;
    format!("{partition}/{offset}/{number} {writer}#{sequence}").into_bytes()
}

/// Returns the number of an input record from its value.
pub(crate) fn input_id(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok()?.strip_prefix('r')?.split_once(' ')?.0.parse().ok()
}

fn origin(text: &str) -> Option<Origin> {
    let mut parts = text.split('/');
    let mut next = || parts.next();
    let (partition, offset, number) = (next()?.parse().ok()?, next()?.parse().ok()?, next()?.parse().ok()?);
    Some(Origin { partition, offset, number })
}

/// See the module.
#[derive(Debug)]
pub struct Oracle {
    /// Time of the event in progress.
    pub(crate) now: Nanos,
    /// First broken promise.
    violation: Option<Violation>,
    records: BTreeMap<u64, RecordPlan>,
    input: InputLog,
    commits: CommitCheck,
    writers: WriterCheck,
    /// Outputs of records with equal keys have the order of the records.
    is_ordered: bool,
    /// No output is given up.
    is_patient: bool,
    /// The rows before a failed one are done, so that failures count for the record that has failed. Not in a queue, where
    /// deliveries count, too: one failure may be the last.
    counts_by_record: bool,
    /// Brokers refuse records for a while, so that any record may become a dead letter.
    refuses_records: bool,
    /// `Some`: jobs are exactly once.
    transactions: Option<OpenTransactions>,
    reader: BatchReader,
}

impl Oracle {
    pub(crate) fn new(plan: &Plan) -> Self {
        let is_patient = !plan.app.outputs_expire();
        Self {
            now: 0,
            violation: None,
            records: plan.records.iter().map(|record| (record.id, record.clone())).collect(),
            input: InputLog::default(),
            commits: CommitCheck::default(),
            writers: WriterCheck::default(),
            is_ordered: is_patient && plan.app.concurrency != Concurrency::Unordered,
            is_patient,
            counts_by_record: !plan.app.queue && matches!(plan.app.style, HandlerStyle::Each | HandlerStyle::Marks),
            refuses_records: plan.app.exactly_once.is_some() && plan.faults.iter().any(refuses_records),
            transactions: plan.app.exactly_once.as_ref().map(|_| OpenTransactions::default()),
            reader: BatchReader::new(BufferPool::new(1 << 20), DecodeLimits::default()),
        }
    }

    /// Returns the first broken promise.
    #[must_use]
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    pub(crate) fn violate(&mut self, what: impl FnOnce() -> String) {
        if self.violation.is_none() {
            self.violation = Some(Violation { at: self.now, what: what() });
        }
    }

    pub(crate) fn record(&self, id: u64) -> Option<&RecordPlan> {
        self.records.get(&id)
    }

    /// Notes that a handler has finished a record without outputs.
    pub(crate) fn on_handled(&mut self, partition: i32, offset: i64) {
        self.input.on_handled(partition, offset);
    }

    /// Checks a change that a broker stores.
    pub(crate) fn on_change(&mut self, topics: &Topics, change: &Change) {
        match change {
            Change::Log { topic, partition, change: LogChange::Append { batch, .. } } => {
                if let Some(topic) = topics.by_id(*topic) {
                    let name = Arc::clone(&topic.name);
                    self.on_batch(&name, *partition, batch);
                }
            }
            Change::Group(GroupChange::Offsets { group, producer_id, offsets }) if **group == *GROUP => {
                for (tp, committed) in offsets {
                    if let Some(transactions) = &mut self.transactions {
                        match producer_id {
                            Some(producer) => transactions.add_offset(*producer, tp.partition, committed),
                            None => {
                                self.violate(|| format!("the offset of {tp} is committed outside of a transaction"))
                            }
                        }
                        continue;
                    }
                    let found = self.commits.on_commit(&mut self.input, tp.partition, committed);
                    if let Err(what) = found {
                        self.violate(|| what);
                    }
                }
            }
            Change::Share(ShareChange {
                change: ShareGroupChange::Partition { partition, start, ranges, .. }, ..
            }) => {
                if let Err(what) = self.commits.on_shared(&self.input, *partition, *start, ranges) {
                    self.violate(|| what);
                }
            }
            Change::Group(GroupChange::TransactionEnded { producer_id, commit }) => {
                if let Some(transactions) = &mut self.transactions {
                    transactions.end_offsets(*producer_id, *commit);
                }
            }
            _ => {}
        }
    }

    /// Checks what the brokers have committed in one step.
    pub(crate) fn end_step(&mut self) {
        let Some(transactions) = &mut self.transactions else { return };
        for (partition, committed) in std::mem::take(&mut transactions.committed) {
            if let Err(what) = self.commits.on_commit(&mut self.input, partition, &committed) {
                self.violate(|| what);
            }
        }
    }

    /// Checks that no transaction is left open.
    pub(crate) fn check_ended(&mut self) {
        if let Some(what) = self.transactions.as_ref().and_then(OpenTransactions::hanging) {
            self.violate(|| what);
        }
    }

    fn on_batch(&mut self, topic: &str, partition: i32, batch: &[u8]) {
        let mut written = Vec::new();
        for found in iter_batches(batch) {
            let Ok((header, range)) = found else { return self.violate(|| format!("{topic} has a damaged batch")) };
            if self.transactions.is_some()
                && topic != INPUT
                && self.on_transactional(topic, partition, &header, &batch[range.clone()])
            {
                return;
            }
            let Ok(records) = self.reader.read(&batch[range], &header) else {
                return self.violate(|| format!("{topic} has a batch that cannot be read"));
            };
            for record in &records {
                let Ok(record) = record else { return self.violate(|| format!("{topic} has a damaged record")) };
                let value = String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned();
                written.push((record.offset, value));
            }
        }
        for (offset, value) in written {
            self.on_record(topic, partition, offset, &value);
        }
    }

    /// Handles a batch of an exactly-once App. Returns false if the batch is not of a transaction.
    fn on_transactional(&mut self, topic: &str, partition: i32, header: &BatchHeader, batch: &[u8]) -> bool {
        let Ok(records) = self.reader.read(batch, header) else { return false };
        if !is_transactional(header.attributes) {
            self.violate(|| format!("{topic}-{partition} has a record outside of a transaction"));
            return true;
        }
        if header.attributes & CONTROL != 0 {
            // Version and type of the marker: 0 aborts, 1 commits.
            let key = (&records).into_iter().flatten().next().and_then(|record| record.key.map(<[u8]>::to_vec));
            let is_commit = key.is_some_and(|key| key.get(3) == Some(&1));
            let ended = self.transactions.as_mut().map(|open| open.end_records(header.producer_id, topic, partition));
            for (topic, partition, offset, value) in ended.unwrap_or_default().into_iter().filter(|_| is_commit) {
                self.on_record(&topic, partition, offset, &value);
            }
            return true;
        }
        for record in (&records).into_iter().flatten() {
            let value = String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned();
            let written = (topic.to_owned(), partition, record.offset, value);
            if let Some(open) = &mut self.transactions {
                open.add_record(header.producer_id, written);
            }
        }
        true
    }

    fn on_record(&mut self, topic: &str, partition: i32, offset: i64, value: &str) {
        let Some((head, stamp)) = value.split_once(' ') else {
            return self.violate(|| format!("{topic}-{partition} offset {offset} has the value {value:?}"));
        };
        // The records of a transaction have the order of their partitions, and of the jobs' ends.
        let is_ordered = self.is_patient && (topic == INPUT || self.transactions.is_none());
        if let Err(what) = self.writers.on_record(topic, partition, stamp, is_ordered) {
            self.violate(|| what);
        }
        if topic == INPUT {
            let record = input_id(value.as_bytes()).and_then(|id| self.records.get(&id)).cloned();
            match record {
                Some(record) => self.input.append(partition, offset, record),
                None => self.violate(|| format!("{topic}-{partition} offset {offset} has the value {value:?}")),
            }
            return;
        }
        let Some(origin) = origin(head) else {
            return self.violate(|| format!("{topic}-{partition} offset {offset} has the value {value:?}"));
        };
        if self.transactions.is_some()
            && let Err(what) = self.input.check_once(topic == OUTPUT, origin)
        {
            return self.violate(|| what);
        }
        let found = match topic {
            OUTPUT => self.input.on_output(origin, self.is_ordered),
            DEAD_LETTERS => {
                let (is_patient, counts_by_record) = (self.is_patient, self.counts_by_record);
                let refuses_records = self.refuses_records;
                self.input.on_dead_letter(origin, |record| match record.nature {
                    _ if refuses_records => true,
                    Nature::Poison => true,
                    Nature::Flaky(_) => !is_patient || !counts_by_record,
                    Nature::Good => !is_patient,
                })
            }
            _ => Ok(()),
        };
        if let Err(what) = found {
            self.violate(|| what);
        }
    }

    /// Returns what is still to be done; `None`: every record is processed and committed.
    #[must_use]
    pub fn unsettled(&self) -> Option<String> {
        if self.input.len() < self.records.len() {
            return Some(format!("{} of {} records are produced", self.input.len(), self.records.len()));
        }
        self.commits.unsettled(&self.input)
    }
}

/// Returns whether brokers refuse records of handlers because of a fault.
fn refuses_records(planned: &PlannedFault) -> bool {
    let Fault::Requests { api: Some(ApiKey::Produce), action: FaultAction::Error(code), .. } = planned.fault else {
        return false;
    };
    matches!(code, ErrorCode::TOPIC_AUTHORIZATION_FAILED | ErrorCode::INVALID_RECORD)
}

/// Returns whether a record must become a dead letter.
fn is_poison(record: &RecordPlan) -> bool {
    record.nature == Nature::Poison
}
