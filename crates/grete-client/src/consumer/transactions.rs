//! Transactions of a group's client: one producer, whose network thread commits what exactly-once jobs have produced,
//! with their offsets.
//!
//! The client's network thread begins a transaction when the group's state machine asks for one, and goes on. The result
//! comes back as a request ([`Finished`]), which wakes this thread. A producer that cannot continue is replaced: the next
//! one gets another epoch of the same `transactional.id`, by which the coordinator ends what was left open.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use grete_proto::dispatch::{ClientId, TransactionEnd, TrialRequest};
use grete_proto::group::{CommitOffset, TransactionResult};
use grete_proto::ids::TopicPartition;
use grete_proto::producer::{
    GroupMetadata, StagedCommit, StagedCommitResult, StagingBudget, TransactionError, TransactionOffset,
};
use grete_proto::time::Nanos;

use crate::config::ProducerConfig;
use crate::dispatcher::Dispatcher;
use crate::error::ClientError;
use crate::log_event::{Level, LogEvent};
use crate::producer::Producer;
use crate::published::Published;

/// Timeout of the close of a producer that is replaced. It has nothing to deliver.
const REPLACED_CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// State of a client's transactions, for status reports.
#[derive(Debug, Clone)]
pub struct TransactionReport {
    /// `transactional.id`.
    pub transactional_id: Arc<str>,
    /// "idle", "committing" or "failed".
    pub state: &'static str,
    /// Begin of the commit that is not over, its repetitions included; `None`: nothing is being committed.
    pub committing_since: Option<Instant>,
    /// Transactions that were committed.
    pub committed: u64,
    /// Transactions that were aborted.
    pub aborted: u64,
    /// Records of committed transactions.
    pub records: u64,
    /// Bytes of staged records.
    pub staged_bytes: usize,
    /// Cause of the last abort, since the last commit; `None`: there was none.
    pub last_error: Option<Arc<str>>,
}

/// Result of a transaction, on its way to the client's network thread.
#[derive(Debug)]
pub(super) struct Finished {
    work: WorkId,
    result: StagedCommitResult,
}

/// Transaction of a commit, by its number, or trial of a job's records, by the number of the job.
#[derive(Debug, Clone, Copy)]
enum WorkId {
    Commit(u32),
    Trial(u64),
}

/// Work for the producer, which has one transaction at a time.
#[derive(Debug)]
pub(super) enum Work {
    /// Commit the offsets, and the records that belong to them.
    Commit { number: u32, member: Arc<GroupMetadata>, offsets: Vec<CommitOffset> },
    /// Find out whether brokers take these records.
    Trial(TrialRequest),
}

/// End of a transaction, for the group's state machine.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) number: u32,
    pub(super) result: TransactionResult,
    pub(super) discarded: Vec<TopicPartition>,
}

#[derive(Debug, Default)]
struct Progress {
    committing_since: Option<Instant>,
    /// Begin of the transaction in flight.
    began_at: Option<Instant>,
    is_busy: bool,
    queue: VecDeque<Work>,
    records: u64,
    partitions: usize,
    has_failed: bool,
}

/// Producer and counters of a client's transactions.
#[derive(Debug)]
pub(super) struct GroupTransactions {
    config: ProducerConfig,
    transactional_id: Arc<str>,
    dispatcher: Dispatcher,
    pub(super) client: ClientId,
    budget: Arc<StagingBudget>,
    producer: Mutex<Option<Producer>>,
    progress: Mutex<Progress>,
    committed: AtomicU64,
    aborted: AtomicU64,
    records: AtomicU64,
    last_error: Published<Option<Arc<str>>>,
    /// The present transaction has its line about a request that is repeated.
    is_pending_logged: Arc<AtomicBool>,
    /// Results that the client's network thread has not taken yet.
    finished: Mutex<Vec<Finished>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GroupTransactions {
    /// Starts the producer's thread.
    pub(super) fn start(
        config: ProducerConfig,
        dispatcher: &Dispatcher,
        client: ClientId,
    ) -> Result<Self, ClientError> {
        let limit = config.to_core().produce.buffer_memory;
        let budget = dispatcher.lock().dispatch.set_transactional(client, limit);
        let transactional_id = config.transactional_id().unwrap_or_default().into();
        let made = Self {
            config,
            transactional_id,
            dispatcher: dispatcher.clone(),
            client,
            budget,
            producer: Mutex::default(),
            progress: Mutex::default(),
            committed: AtomicU64::new(0),
            aborted: AtomicU64::new(0),
            records: AtomicU64::new(0),
            last_error: Published::new(None),
            is_pending_logged: Arc::default(),
            finished: Mutex::default(),
        };
        made.replace_producer()?;
        Ok(made)
    }

    /// Starts another producer, and closes the one before.
    fn replace_producer(&self) -> Result<(), ClientError> {
        let dispatcher = self.dispatcher.clone();
        let (is_pending_logged, id) = (Arc::clone(&self.is_pending_logged), self.transactional_id.to_string());
        let forward = move |mut events: Vec<LogEvent>| {
            // The ends of transactions are logged in `end_commit`, with what they had. A transaction that does not move
            // has one line, although each request is repeated many times.
            events.retain(|event| match event.name {
                "transaction.pending" => !is_pending_logged.swap(true, Ordering::Relaxed),
                name => !name.starts_with("transaction."),
            });
            for event in events.iter_mut().filter(|event| event.name == "transaction.pending") {
                event.fields.push(("transactional_id", id.clone()));
            }
            dispatcher.emit(events);
        };
        let producer = Producer::start_forwarding(&self.config, Box::new(forward))?;
        if let Some(before) = lock(&self.producer).replace(producer) {
            let _ = before.close(REPLACED_CLOSE_TIMEOUT); // its thread ends by itself
        }
        Ok(())
    }

    /// Takes the results since the last call.
    pub(super) fn take_finished(&self) -> Vec<Finished> {
        std::mem::take(&mut *lock(&self.finished))
    }

    pub(super) fn has_finished(&self) -> bool {
        !lock(&self.finished).is_empty()
    }

    /// Begins a transaction, or queues it behind the one in flight. `wake` is called when there is a result, on another
    /// thread.
    pub(super) fn begin(self: &Arc<Self>, work: Work, wake: &(impl Fn() + Clone + Send + 'static)) {
        let mut progress = lock(&self.progress);
        if std::mem::replace(&mut progress.is_busy, true) {
            progress.queue.push_back(work);
            return;
        }
        drop(progress);
        self.send(work, wake);
    }

    /// Sends a transaction. The records of a commit are taken now: partitions may have been lost since it was queued.
    fn send(self: &Arc<Self>, work: Work, wake: &(impl Fn() + Clone + Send + 'static)) {
        let (work, commit) = match work {
            Work::Commit { number, member, mut offsets } => {
                let outputs = self.dispatcher.lock().dispatch.begin_transaction(self.client, number, &mut offsets);
                let positions = offsets.iter().map(|offset| TransactionOffset {
                    tp: offset.tp.clone(),
                    position: offset.offset,
                    leader_epoch: offset.leader_epoch,
                });
                let mut progress = lock(&self.progress);
                let now = Instant::now();
                progress.committing_since.get_or_insert(now);
                progress.began_at = Some(now);
                progress.records = outputs.iter().map(|outputs| outputs.records().len() as u64).sum();
                progress.partitions = offsets.len();
                drop(progress);
                let (group, offsets) = (member, positions.collect());
                (WorkId::Commit(number), StagedCommit { id: number, group, offsets, outputs, is_trial: false })
            }
            Work::Trial(TrialRequest { job, outputs }) => {
                // No offsets, so no member.
                let group =
                    GroupMetadata { group_id: "".into(), member_id: "".into(), generation: -1, instance_id: None };
                let (group, outputs) = (Arc::new(group), vec![outputs]);
                let commit = StagedCommit { id: 0, group, offsets: Vec::new(), outputs, is_trial: true };
                (WorkId::Trial(job), commit)
            }
        };
        let producer = lock(&self.producer).clone().filter(|_| !self.has_failed());
        // The producer keeps no reference to this: the two would never be dropped.
        let (this, wake) = (Arc::downgrade(self), wake.clone());
        let done = move |result| {
            if let Some(this) = this.upgrade() {
                lock(&this.finished).push(Finished { work, result });
                wake();
            }
        };
        // A producer that refuses the commit has dropped `done`. The network thread takes the result with its next step.
        if producer.is_none_or(|producer| producer.commit_staged(commit, done).is_err()) {
            let result = StagedCommitResult::Failed(TransactionError::Closed);
            lock(&self.finished).push(Finished { work, result });
        }
    }

    fn has_failed(&self) -> bool {
        lock(&self.progress).has_failed
    }

    /// Ends a transaction: its records are dropped or kept. Replaces a producer that has failed, and begins the next
    /// transaction. Returns the end for the group; `None`: it was a trial.
    pub(super) fn end(
        self: &Arc<Self>,
        now: Nanos,
        finished: &Finished,
        wake: &(impl Fn() + Clone + Send + 'static),
    ) -> Option<Ended> {
        let ended = match finished.work {
            WorkId::Commit(number) => {
                let TransactionEnd { result, discarded, .. } = self.end_commit(now, number, finished);
                Some(Ended { number, result, discarded })
            }
            WorkId::Trial(job) => {
                let mut state = self.dispatcher.lock();
                state.dispatch.end_trial(now, job, &finished.result);
                self.dispatcher.unlock_and_wake(state);
                if matches!(finished.result, StagedCommitResult::Failed(_) | StagedCommitResult::Unknown(_)) {
                    self.replace_failed_producer();
                }
                None
            }
        };
        let mut progress = lock(&self.progress);
        let next = progress.queue.pop_front();
        progress.is_busy = next.is_some();
        drop(progress);
        if let Some(next) = next {
            self.send(next, wake);
        }
        ended
    }

    /// Starts another producer after a trial that has ended with the producer. The next commit shows what is wrong for
    /// good.
    fn replace_failed_producer(&self) {
        if !self.has_failed()
            && let Err(error) = self.replace_producer()
        {
            self.dispatcher.fail(error);
        }
    }

    fn end_commit(&self, now: Nanos, number: u32, finished: &Finished) -> TransactionEnd {
        let mut state = self.dispatcher.lock();
        let end = state.dispatch.end_transaction(now, self.client, number, &finished.result);
        self.dispatcher.unlock_and_wake(state);
        self.wake_staging();
        let mut progress = lock(&self.progress);
        let took = progress.began_at.take().map_or(Duration::ZERO, |began| began.elapsed());
        let (records, partitions) = (progress.records, progress.partitions);
        self.is_pending_logged.store(false, Ordering::Relaxed);
        let mut events = Vec::new();
        match &finished.result {
            StagedCommitResult::Committed => {
                progress.committing_since = None;
                self.committed.fetch_add(1, Ordering::Relaxed);
                self.records.fetch_add(records, Ordering::Relaxed);
                self.last_error.publish(None);
                events.push(self.event(
                    Level::Debug,
                    "transaction.committed",
                    format!(
                        "{records} records and the offsets of {partitions} partitions were committed in {:.1} ms",
                        took.as_secs_f64() * 1e3
                    ),
                    vec![
                        ("records", records.to_string()),
                        ("partitions", partitions.to_string()),
                        ("seconds", format!("{:.6}", took.as_secs_f64())),
                    ],
                ));
            }
            StagedCommitResult::Accepted => {}
            // Said already.
            _ if progress.has_failed => {}
            StagedCommitResult::Aborted { cause, .. } => events.push(self.on_aborted(&cause.to_string(), &end)),
            StagedCommitResult::Failed(error) | StagedCommitResult::Unknown(error) => {
                events.push(self.on_aborted(&error.to_string(), &end));
            }
        }
        let has_failed = progress.has_failed;
        progress.has_failed |= end.fatal.is_some();
        drop(progress);
        self.dispatcher.emit(events);
        if has_failed {
            return end;
        }
        if let Some(error) = &end.fatal {
            let producer = lock(&self.producer).clone();
            let error = producer.and_then(|producer| producer.fatal()).unwrap_or_else(|| self.fatal_error(error));
            self.dispatcher.fail(error);
        } else if end.needs_producer
            && let Err(error) = self.replace_producer()
        {
            self.dispatcher.fail(error);
        }
        end
    }

    fn fatal_error(&self, error: &TransactionError) -> ClientError {
        crate::producer::transaction_error(error, &self.config.principal())
    }

    fn on_aborted(&self, cause: &str, end: &TransactionEnd) -> LogEvent {
        self.aborted.fetch_add(1, Ordering::Relaxed);
        self.last_error.publish(Some(cause.into()));
        let consequence = match end.discarded.len() {
            _ if end.fatal.is_some() => "the App stops".to_owned(),
            0 => "its records and offsets are committed again".to_owned(),
            _ => {
                let places: Vec<String> = end.discarded.iter().map(ToString::to_string).collect();
                format!("the jobs of {} run again from the committed offset", places.join(", "))
            }
        };
        self.event(
            Level::Warning,
            "transaction.aborted",
            format!("a transaction was aborted: {cause}; {consequence}"),
            vec![("cause", cause.to_owned())],
        )
    }

    fn event(
        &self,
        level: Level,
        name: &'static str,
        message: String,
        mut fields: Vec<(&'static str, String)>,
    ) -> LogEvent {
        fields.push(("transactional_id", self.transactional_id.to_string()));
        LogEvent { level, name, message, fields }
    }

    /// Wakes threads that wait for room for staged records.
    pub(super) fn wake_staging(&self) {
        if let Some(word) = self.budget.take_waiters() {
            grete_sys::futex::futex_wake_all(word);
        }
    }

    pub(super) fn report(&self) -> TransactionReport {
        let progress = lock(&self.progress);
        let state = match (progress.has_failed, progress.committing_since) {
            (true, _) => "failed",
            (false, Some(_)) => "committing",
            (false, None) => "idle",
        };
        TransactionReport {
            transactional_id: Arc::clone(&self.transactional_id),
            state,
            committing_since: progress.committing_since,
            committed: self.committed.load(Ordering::Relaxed),
            aborted: self.aborted.load(Ordering::Relaxed),
            records: self.records.load(Ordering::Relaxed),
            staged_bytes: self.budget.used(),
            last_error: self.last_error.get(),
        }
    }

    /// Ends the producer, after the last transaction. What is still staged is dropped: its records are processed again.
    pub(super) fn close(&self, timeout: Duration) {
        let producer = lock(&self.producer).take();
        if let Some(producer) = producer
            && let Ok(deadline) = producer.close(timeout)
        {
            let _ = producer.await_close(deadline, || false);
        }
        let mut state = self.dispatcher.lock();
        state.dispatch.drop_outputs(self.client);
        self.dispatcher.unlock_and_wake(state);
        self.wake_staging();
    }
}
