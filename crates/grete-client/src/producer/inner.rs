//! State that the callers and the network thread of a producer share.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use grete_net::CallerLoop;
use grete_proto::principal::Principal;
use grete_proto::producer::{Accumulator, BatchPromise, ProduceConfig, SharedAccumulator, WaiterFutexes};
use grete_proto::rng::Rng;
use grete_proto::time::Nanos;
use grete_sys::EventFd;
use grete_sys::futex::{futex_wait, futex_wake_all};

use super::clock::CachedClock;
use super::completion_queue::CompletionQueues;
use super::staged_commits::StagedCommits;
use super::statistics::Counters;
use super::step_gate::StepGate;
use super::transactions::TransactionCalls;
use super::undelivered::Undelivered;
use super::wait_outcome::WaitOutcome;
use super::wake_flag::WakeFlag;
use crate::config::ProducerConfig;
use crate::error::ClientError;
use crate::log_event::{LogEvent, LogEventQueue, LogSink};
use crate::thread_guard::NetworkThreadOwner;

/// Bit of [`ProducerInner::ended`] that marks the end, and the increment for each group of log events.
const ENDED: u32 = 1;
const LOG_EVENT: u32 = 2;

/// Receiver of log events, called on the network thread under the lock of its loop.
pub(crate) type LogForward = Box<dyn Fn(Vec<LogEvent>) + Send + Sync>;

pub(super) struct ProducerInner {
    pub(super) accumulator: SharedAccumulator,
    futexes: Arc<WaiterFutexes>,
    pub(super) clock: CachedClock,
    pub(super) completion_queues: CompletionQueues,
    pub(super) log_events: LogEventQueue,
    /// Takes log events in place of `log_events`.
    forward: Option<LogForward>,
    pub(super) counters: Counters,
    pub(super) step_gate: StepGate,
    /// `None`: the producer has no `transactional.id`.
    pub(super) transactions: Option<TransactionCalls>,
    pub(super) staged_commits: StagedCommits,
    /// Raised while a completion queue or a log event is pending.
    pub(super) wake_flag: Arc<WakeFlag>,
    /// True if `linger.ms` is 0.
    pub(super) sends_at_once: bool,
    /// `client.id`.
    pub(super) name: Box<str>,
    pub(super) max_block: Duration,
    pub(super) buffer_memory: usize,
    /// Principal of the client, for errors.
    pub(super) principal: Principal,
    /// Deadline of the close; the network thread passes it to the core.
    close_deadline: Mutex<Option<Nanos>>,
    undelivered: Mutex<Undelivered>,
    /// Promises on which threads sleep. Only these threads must be woken when no more batches complete.
    pub(super) batch_waiters: Mutex<Vec<Arc<BatchPromise>>>,
    closed: AtomicBool,
    /// Futex word: [`ENDED`] after the network thread has ended, and a count of log events in the bits above.
    ended: AtomicU32,
    /// Time until which any call may wait for metadata; `Nanos::MAX`: no limit.
    metadata_deadline: AtomicU64,
    fatal: OnceLock<ClientError>,
    /// Loop that a waiting caller may lead; unset without a network thread.
    pub(super) caller_loop: OnceLock<Box<dyn CallerLoop>>,
    /// Number of callers that sleep on a futex word, or are about to.
    pub(super) futex_sleepers: AtomicU32,
    thread: Mutex<Option<JoinHandle<()>>>,
    fork_generation: u32,
}

impl ProducerInner {
    pub(super) fn new(
        config: &ProducerConfig,
        produce: &ProduceConfig,
        rng: Rng,
        log: Option<LogSink>,
        forward: Option<LogForward>,
    ) -> Result<Self, ClientError> {
        let event = EventFd::new().map_err(|error| ClientError::os("opening an eventfd", &error))?;
        let accumulator = Accumulator::new(produce, rng);
        let wake_flag = Arc::new(WakeFlag::default());
        Ok(Self {
            futexes: Arc::clone(accumulator.futexes()),
            accumulator: Arc::new(Mutex::new(accumulator)),
            clock: CachedClock::new(),
            completion_queues: CompletionQueues::new(Arc::clone(&wake_flag)),
            log_events: LogEventQueue::new(event, log),
            forward,
            counters: Counters::default(),
            step_gate: StepGate::default(),
            transactions: produce.transactional_id.is_some().then(TransactionCalls::default),
            staged_commits: StagedCommits::default(),
            wake_flag,
            sends_at_once: produce.linger == 0,
            name: config.client_id().into(),
            max_block: config.millis("max.block.ms"),
            buffer_memory: produce.buffer_memory,
            principal: produce.principal.clone(),
            close_deadline: Mutex::default(),
            undelivered: Mutex::default(),
            batch_waiters: Mutex::default(),
            closed: AtomicBool::new(false),
            ended: AtomicU32::new(0),
            metadata_deadline: AtomicU64::new(Nanos::MAX),
            fatal: OnceLock::new(),
            caller_loop: OnceLock::new(),
            futex_sleepers: AtomicU32::new(0),
            thread: Mutex::default(),
            fork_generation: grete_sys::fork::generation(),
        })
    }

    pub(super) fn accumulator(&self) -> MutexGuard<'_, Accumulator> {
        self.accumulator.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn futexes(&self) -> &WaiterFutexes {
        &self.futexes
    }

    pub(super) fn is_usable(&self) -> bool {
        !self.closed.load(Ordering::Acquire) && self.fatal.get().is_none() && !self.is_forked()
    }

    /// Returns whether this is a forked child.
    pub(super) fn is_forked(&self) -> bool {
        self.fork_generation != grete_sys::fork::generation()
    }

    pub(super) fn check(&self) -> Result<(), ClientError> {
        if self.is_forked() {
            return Err(ClientError::Forked { what: "producer" });
        }
        if self.closed.load(Ordering::Acquire) {
            return Err(ClientError::Closed { what: "producer" });
        }
        self.fatal().map_or(Ok(()), Err)
    }

    pub(super) fn fatal(&self) -> Option<ClientError> {
        self.fatal.get().cloned()
    }

    /// Returns the error to raise when no more batches complete.
    pub(super) fn closed_error(&self) -> ClientError {
        self.fatal().unwrap_or(ClientError::Closed { what: "producer" })
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst) & ENDED != 0
    }

    /// Refuses further records. Returns true for the first caller.
    pub(super) fn begin_close(&self) -> bool {
        !self.closed.swap(true, Ordering::AcqRel)
    }

    pub(super) fn set_close_deadline(&self, deadline: Nanos) {
        let mut closing = self.close_deadline.lock().unwrap_or_else(PoisonError::into_inner);
        *closing = Some(closing.map_or(deadline, |earlier| earlier.min(deadline)));
    }

    pub(super) fn take_close_deadline(&self) -> Option<Nanos> {
        self.close_deadline.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns the records that the close has dropped so far.
    pub(super) fn undelivered(&self) -> Undelivered {
        self.undelivered.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the undelivered records if the network thread is given up now. Every incomplete record has an unknown
    /// outcome then, because that thread may still send and complete it.
    pub(super) fn undelivered_by_now(&self) -> Undelivered {
        let pending = self.accumulator().pending_by_topic();
        let mut undelivered = self.undelivered();
        for (topic, records) in pending {
            undelivered.add(&topic, records, true);
        }
        undelivered
    }

    /// Counts dropped records. Records dropped before the close are not counted.
    pub(super) fn add_undelivered(&self, topic: &str, records: u64, unknown: bool) {
        if records > 0 && self.closed.load(Ordering::Acquire) {
            let mut undelivered = self.undelivered.lock().unwrap_or_else(PoisonError::into_inner);
            undelivered.add(topic, records, unknown);
        }
    }

    pub(super) fn wait_wake_flag(&self, deadline: Option<Nanos>) -> WaitOutcome {
        match self.wake_flag.prepare_wait() {
            Some((word, seen)) => self.wait_on_word(word, seen, deadline),
            None => WaitOutcome::Woken,
        }
    }

    /// Waits for the end of the network thread. The word is read before `before_wait` runs: a later log event changes
    /// the word, so the sleep does not begin.
    pub(super) fn wait_until_ended(&self, deadline: Nanos, before_wait: impl Fn() -> bool) -> WaitOutcome {
        let seen = self.ended.load(Ordering::SeqCst);
        if seen & ENDED != 0 {
            return WaitOutcome::Ended;
        }
        if before_wait() {
            return WaitOutcome::Interrupted;
        }
        let timeout = self.clock.monotonic().until(deadline);
        if timeout.is_zero() {
            return WaitOutcome::TimedOut;
        }
        futex_wait(&self.ended, seen, Some(timeout)).into()
    }

    pub(super) fn set_thread(&self, thread: JoinHandle<()>) {
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
    }

    pub(super) fn take_thread(&self) -> Option<JoinHandle<()>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Queues log events and wakes all threads that wait in a call, so that one of them writes the lines.
    pub(super) fn emit(&self, notices: Vec<LogEvent>) {
        if notices.is_empty() {
            return;
        }
        if let Some(forward) = &self.forward {
            return forward(notices);
        }
        self.log_events.push(notices);
        self.wake_flag.raise();
        if self.log_events.has_pending() {
            self.wake_all();
            self.wake_batch_waiters();
            self.ended.fetch_add(LOG_EVENT, Ordering::SeqCst);
            futex_wake_all(&self.ended);
        }
    }

    /// Returns the time until which calls may wait for metadata, whatever their own deadlines are.
    pub(super) fn metadata_deadline(&self) -> Nanos {
        self.metadata_deadline.load(Ordering::Relaxed)
    }

    /// Limits waits for metadata to `deadline`; the earliest deadline counts.
    pub(super) fn expedite_metadata(&self, deadline: Nanos) {
        self.metadata_deadline.fetch_min(deadline, Ordering::Relaxed);
        self.accumulator().expedite(deadline);
        self.wake_all();
        self.completion_queues.notify_space();
        self.notify_leader();
    }

    /// Marks the producer as failed. The first error is the one that callers see.
    pub(super) fn fail(&self, error: ClientError) {
        // Later errors follow from the first.
        let _ = self.fatal.set(error);
        self.wake_all();
    }

    /// Marks the network thread as ended: no more batches complete.
    pub(super) fn finish(&self) {
        // No record is pending unless the thread has panicked.
        let undelivered = self.undelivered_by_now();
        *self.undelivered.lock().unwrap_or_else(PoisonError::into_inner) = undelivered;
        self.ended.fetch_or(ENDED, Ordering::SeqCst);
        futex_wake_all(&self.ended);
        self.wake_all();
        self.wake_batch_waiters();
        self.completion_queues.notify_closed();
        self.staged_commits.close();
        self.notify_leader();
    }
}

impl NetworkThreadOwner for Arc<ProducerInner> {
    fn fail(&self, error: ClientError) {
        ProducerInner::fail(self, error);
    }

    fn finish(&self) {
        ProducerInner::finish(self);
    }
}

impl Drop for ProducerInner {
    fn drop(&mut self) {
        if self.is_forked() {
            // The network thread belongs to the parent.
            std::mem::forget(self.take_thread());
        }
    }
}
