//! Run of one transaction: begin, append the staged records, add the offsets, commit.
//!
//! ```text
//! Beginning --> Appending --> Committing --> Committed
//!                  |  ^            |
//!                  |  +-- memory   +--> Aborted, Failed, Unknown
//!                  |
//!                  +--> Trying (a trial: all records are delivered) --> Aborting --> Accepted, Aborted
//! ```
//!
//! Not obvious:
//! - The transaction is open only while it is being committed. A handler, a backoff or a stopped process never holds one
//!   open.
//! - An abort keeps the staged records: the caller runs them again. Only a record that no broker will ever take is
//!   reported as refused.
//! - The offsets are requested while batches are in flight. The transaction manager ends the transaction after both.

use std::collections::HashMap;
use std::sync::Arc;

use super::staged::{RefusedRecord, StagedCommit, StagedCommitResult};
use crate::ids::TopicId;
use crate::producer::ProducerCore;
use crate::producer::accumulator::{FlushToken, lock};
use crate::producer::batch_promise::{BatchPromise, Outcome, RunResult};
use crate::producer::error::{AppendError, ProduceError};
use crate::producer::event::ProducerAction;
use crate::producer::sender::event::SenderEvent;
use crate::producer::transaction::{CallId, TransactionCall, TransactionCause, TransactionError, TransactionEvent};
use crate::time::Nanos;

/// First id of the run's own calls; smaller ids belong to users' calls.
pub(in crate::producer) const FIRST_STAGED_CALL: CallId = 1 << 31;

/// Most records that one step appends: the loop's other work is not delayed for longer.
const MAX_RECORDS_PER_STEP: usize = 4096;

#[derive(Debug)]
enum Stage {
    Beginning,
    Appending,
    Committing,
    /// All records of the trial are delivered with this token.
    Trying(FlushToken),
    Aborting(Arc<TransactionCause>),
}

/// Records that follow each other in their outputs and in one batch.
#[derive(Debug)]
struct AppendedRecords {
    /// Index of the outputs, and of the first record in them.
    first: (usize, usize),
    promise: Arc<BatchPromise>,
    /// Index of the first record in the batch.
    index: u32,
    count: u32,
}

/// Run in progress.
#[derive(Debug)]
pub(in crate::producer) struct StagedRun {
    commit: StagedCommit,
    stage: Stage,
    /// Call whose result is awaited.
    call: CallId,
    /// Next record: index of the outputs, and of the record in them.
    next: (usize, usize),
    topics: HashMap<Arc<str>, TopicId>,
    /// Topic of the latest record: most records have the topic of the one before.
    latest_topic: Option<(Arc<str>, TopicId)>,
    appended: Vec<AppendedRecords>,
    refused: Vec<RefusedRecord>,
}

impl StagedRun {
    fn new(commit: StagedCommit, call: CallId) -> Self {
        Self {
            commit,
            stage: Stage::Beginning,
            call,
            next: (0, 0),
            topics: HashMap::new(),
            latest_topic: None,
            appended: Vec::new(),
            refused: Vec::new(),
        }
    }

    pub(in crate::producer) fn id(&self) -> u32 {
        self.commit.id
    }

    /// Adds the appended records that no broker will ever take.
    fn find_refused(&mut self) {
        for AppendedRecords { first: (outputs, first), promise, index, count } in &self.appended {
            if !promise.has_failures() {
                continue;
            }
            for (record, index) in (*first..).zip(*index..*index + *count) {
                let error = promise.result(index).and_then(|result| result.error);
                if error.is_some_and(|error| is_permanent(&error)) {
                    let promise = Arc::clone(promise);
                    self.refused.push(RefusedRecord { outputs: *outputs, record, promise, index });
                }
            }
        }
    }
}

/// Notes that the record at `place`, its outputs and its index in them, was appended to a batch.
fn note_appended(all: &mut Vec<AppendedRecords>, place: (usize, usize), promise: &Arc<BatchPromise>, index: u32) {
    match all.last_mut() {
        Some(last)
            if (last.first.0, last.first.1 + last.count as usize) == place
                && last.index + last.count == index
                && Arc::ptr_eq(&last.promise, promise) =>
        {
            last.count += 1;
        }
        _ => all.push(AppendedRecords { first: place, promise: Arc::clone(promise), index, count: 1 }),
    }
}

/// Returns whether a record with this error fails in each transaction.
fn is_permanent(error: &ProduceError) -> bool {
    match error {
        ProduceError::TooLarge { .. }
        | ProduceError::MissingTopic { .. }
        | ProduceError::UnknownTopic { .. }
        | ProduceError::Authorization { .. }
        | ProduceError::Encode { .. } => true,
        ProduceError::Broker { code, .. } => {
            use grete_wire::error_code::ErrorCode;
            // These are about the transaction or the producer, and an abort cures them.
            !code.is_retriable()
                && !matches!(
                    *code,
                    ErrorCode::INVALID_PRODUCER_EPOCH
                        | ErrorCode::INVALID_TXN_STATE
                        | ErrorCode::INVALID_PRODUCER_ID_MAPPING
                        | ErrorCode::UNKNOWN_PRODUCER_ID
                        | ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER
                        | ErrorCode::DUPLICATE_SEQUENCE_NUMBER
                        | ErrorCode::PRODUCER_FENCED
                        | ErrorCode::TRANSACTION_ABORTABLE
                        | ErrorCode::TRANSACTION_COORDINATOR_FENCED
                        | ErrorCode::CONCURRENT_TRANSACTIONS
                        | ErrorCode::UNKNOWN_SERVER_ERROR
                        | ErrorCode::KAFKA_STORAGE_ERROR
                )
        }
        _ => false,
    }
}

/// Returns the error of a record that cannot be appended; `None`: another transaction may take the record.
fn append_failure(topic: &Arc<str>, error: &AppendError) -> Option<ProduceError> {
    let topic = Arc::clone(topic);
    match error {
        AppendError::UnknownPartition { partition, .. } => {
            Some(ProduceError::UnknownTopic { topic, partition: *partition })
        }
        AppendError::Topic(error) => {
            Some(ProduceError::Broker { topic, partition: -1, code: error.code, message: None })
        }
        AppendError::TooLarge { bytes, .. } => Some(ProduceError::TooLarge {
            topic,
            partition: -1,
            bytes: *bytes,
            code: grete_wire::error_code::ErrorCode::MESSAGE_TOO_LARGE,
        }),
        _ => None,
    }
}

impl ProducerCore {
    /// Begins the run. Requires a `transactional.id`, and that no run is in progress.
    pub(in crate::producer) fn begin_staged(&mut self, now: Nanos, commit: StagedCommit) {
        let Some(part) = &mut self.transaction else { return };
        let call = part.next_staged_call();
        part.run = Some(StagedRun::new(commit, call));
        self.step_transaction(now, TransactionEvent::Call(call, TransactionCall::Begin));
    }

    fn staged_call(&mut self, now: Nanos, call: TransactionCall) -> CallId {
        let Some(part) = &mut self.transaction else { return FIRST_STAGED_CALL };
        let id = part.next_staged_call();
        self.step_transaction(now, TransactionEvent::Call(id, call));
        id
    }

    /// Handles the result of one of the run's calls.
    pub(in crate::producer) fn on_staged_call(
        &mut self,
        now: Nanos,
        id: CallId,
        result: Result<(), TransactionError>,
        out: &mut Vec<ProducerAction>,
    ) {
        let Some(part) = &mut self.transaction else { return };
        let Some(mut run) = part.run.take_if(|run| run.call == id) else { return };
        let trial = run.commit.is_trial;
        let finished = match (&run.stage, result) {
            (Stage::Beginning, Ok(())) => {
                run.stage = Stage::Appending;
                None
            }
            (Stage::Committing, Ok(())) => {
                let outputs = run.commit.outputs.iter();
                outputs.for_each(|outputs| outputs.complete(now));
                Some(StagedCommitResult::Committed)
            }
            (Stage::Aborting(cause), Ok(()) | Err(TransactionError::Aborted(_) | TransactionError::NotOpen)) => {
                let cause = Arc::clone(cause);
                // A trial is aborted in any case.
                let is_requested = *cause == TransactionCause::Requested;
                if !is_requested {
                    run.find_refused();
                }
                let refused = std::mem::take(&mut run.refused);
                Some(match trial && is_requested && refused.is_empty() {
                    true => StagedCommitResult::Accepted,
                    false => StagedCommitResult::Aborted { cause, refused },
                })
            }
            (_, Err(TransactionError::Aborted(cause) | TransactionError::Failed(cause))) => {
                run.find_refused();
                Some(StagedCommitResult::Aborted { cause, refused: std::mem::take(&mut run.refused) })
            }
            (_, Err(error @ TransactionError::CommitUnknown(_))) => Some(StagedCommitResult::Unknown(error)),
            (_, Err(error)) => Some(StagedCommitResult::Failed(error)),
            (Stage::Appending | Stage::Trying(_), Ok(())) => None,
        };
        match finished {
            Some(result) => out.push(ProducerAction::StagedCommitDone(run.commit.id, result)),
            None => {
                part.run = Some(run);
                self.continue_staged(now);
            }
        }
    }

    /// Continues a run that waits for memory, for its turn, or for the delivery of a trial's records.
    pub(in crate::producer) fn continue_staged(&mut self, now: Nanos) {
        let Some(mut run) = self.transaction.as_mut().and_then(|part| part.run.take()) else { return };
        match &run.stage {
            Stage::Appending => self.append_staged(now, &mut run),
            Stage::Trying(token) if lock(&self.accumulator).is_flushed(*token) => {
                run.stage = Stage::Aborting(Arc::new(TransactionCause::Requested));
                run.find_refused();
                // The call is queued, so its result arrives after the run is put back.
                run.call = self.staged_call(now, TransactionCall::Abort);
            }
            _ => {}
        }
        if let Some(part) = &mut self.transaction {
            part.run = Some(run);
        }
    }

    /// Appends records up to the first that has to wait. After the last one, adds the offsets and commits.
    fn append_staged(&mut self, now: Nanos, run: &mut StagedRun) {
        let mut accumulator = lock(&self.accumulator);
        let (mut failure, mut waits, mut count) = (None, false, 0);
        'records: while let Some(outputs) = run.commit.outputs.get(run.next.0) {
            while run.next.1 < outputs.records().len() {
                if count >= MAX_RECORDS_PER_STEP {
                    waits = true;
                    break 'records;
                }
                let appended = outputs.records().lend(run.next.1, |staged| {
                    let name = staged.topic;
                    let topic = match &run.latest_topic {
                        Some((latest, topic)) if Arc::ptr_eq(latest, name) => *topic,
                        _ => {
                            let topic = *run.topics.entry(Arc::clone(name)).or_insert_with(|| accumulator.topic(name));
                            run.latest_topic = Some((Arc::clone(name), topic));
                            topic
                        }
                    };
                    match accumulator.append_or_queue(now, topic, staged.partition, staged.record) {
                        Ok(appended) => {
                            note_appended(&mut run.appended, run.next, appended.promise, appended.index);
                            Ok(())
                        }
                        Err(error) => Err((Arc::clone(name), error)),
                    }
                });
                match appended {
                    None | Some(Ok(())) => {}
                    // Memory becomes free as batches are delivered.
                    Some(Err((_, AppendError::BufferFull | AppendError::NoMetadata))) => {
                        waits = true;
                        break 'records;
                    }
                    Some(Err((topic, error))) => {
                        if let Some(failed) = append_failure(&topic, &error) {
                            let promise = Arc::new(BatchPromise::unassigned(topic));
                            let error = Some(Arc::new(failed));
                            let outcome = Outcome::NotWritten;
                            promise
                                .complete(RunResult { outcome, offset: None, timestamp: None, error, at: now }, drop);
                            let (outputs, record) = run.next;
                            run.refused.push(RefusedRecord { outputs, record, promise, index: 0 });
                        }
                        failure = Some(error);
                        break 'records;
                    }
                }
                count += 1;
                run.next.1 += 1;
            }
            run.next = (run.next.0 + 1, 0);
        }
        drop(accumulator);
        // Batches that are full leave now; the commit ends the linger of the others.
        self.step_sender(now, SenderEvent::Drain);
        if let Some(error) = failure {
            let cause = match error {
                AppendError::Transaction(TransactionError::Failed(cause)) => cause,
                error => Arc::new(TransactionCause::NotAppended(error.to_string().into())),
            };
            run.stage = Stage::Aborting(cause);
            run.call = self.staged_call(now, TransactionCall::Abort);
        } else if waits {
            // `MemoryAvailable`, or the next pass of the loop.
            self.staged_turn = count >= MAX_RECORDS_PER_STEP;
        } else if run.commit.is_trial {
            let token = lock(&self.accumulator).flush();
            let _ = lock(&self.accumulator).await_flush(token);
            run.stage = Stage::Trying(token);
            self.step_sender(now, SenderEvent::Drain);
            self.staged_turn = true; // nothing may be left to deliver
        } else {
            run.stage = Stage::Committing;
            let (group, offsets) = (Arc::clone(&run.commit.group), std::mem::take(&mut run.commit.offsets));
            if !offsets.is_empty() {
                self.staged_call(now, TransactionCall::SendOffsets { group, offsets });
            }
            run.call = self.staged_call(now, TransactionCall::Commit);
        }
    }
}
