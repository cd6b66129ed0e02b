//! Producer: its connections, its network thread, and the calls of users.
//!
//! Records go into the accumulator on the caller's thread. The thread that drains the accumulator (a waiting caller or
//! the network thread) steps the sans-IO core and writes to the sockets. A waiting caller leads: it reads the responses
//! itself. Without a leader, the network thread reads them. Both wake the other waiting callers.

mod clock;
mod close;
mod completion_queue;
mod driver;
mod inner;
mod log_messages;
mod sleep;
mod staged_commits;
mod statistics;
#[cfg(test)]
mod tests;
mod transactions;
mod undelivered;
mod wait;

use std::fmt;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use grete_net::{EventLoop, GateUse, LoopHandle};
use grete_proto::producer::{
    Accumulator, AppendAction, AppendError, BatchPromise, MemoryCore, MemoryLog, ProduceConfig, ProducerCore, TopicId,
};
use grete_proto::rng::Rng;
use grete_proto::time::Nanos;
use grete_wire::buffer_pool::BufferPool;
use grete_wire::error_code::ErrorCode;

pub use clock::ClockReading;
pub use close::CloseStatus;
pub use completion_queue::CompletionQueue;
pub(crate) use log_messages::transaction_error;
use sleep::{step_gate, wait_outcome, wake_flag};
pub use statistics::ProducerStatistics;
pub use transactions::{PendingTransactionCall, TransactionStatus};
pub use undelivered::Undelivered;

pub use wait_outcome::WaitOutcome;

use crate::config::ProducerConfig;
use crate::error::ClientError;
use crate::log_event::{LogEventQueue, LogSink};
use crate::random_seed;
use crate::thread_guard::spawn_network_thread;
use crate::tls::tls_context;
use driver::{Core, Driver};
use inner::{LogForward, ProducerInner};

/// Maximum size of a response. Produce responses are small; Metadata responses grow with the cluster.
const MAX_FRAME_BYTES: usize = 1 << 28;

/// Longest sleep of the network thread. A caller's request has a longer timeout, so it needs no wake-up to set its
/// deadline.
const MAX_SLEEP: Duration = Duration::from_secs(10);

/// Time that calls may wait for metadata while an App stops: enough for a broker that answers.
const SHUTDOWN_METADATA_TIMEOUT: Duration = Duration::from_secs(1);

/// Timeout of a producer that was dropped without a close and closes in the background.
const DROP_CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Producer handle. Clones share one producer.
#[derive(Clone)]
pub struct Producer {
    inner: Arc<ProducerInner>,
    loop_handle: LoopHandle<Driver>,
    close_on_drop: Arc<CloseOnDrop>,
}

/// Closes a producer whose last handle is dropped: buffered records are still sent, in the background.
struct CloseOnDrop {
    shared: Arc<ProducerInner>,
    loop_handle: LoopHandle<Driver>,
    /// Loop that no thread runs: its callers step it. `None`: the network thread has the loop.
    loop_of_callers: Option<EventLoop<Driver>>,
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        if !self.shared.is_forked() && self.shared.begin_close() {
            let timeout = u64::try_from(DROP_CLOSE_TIMEOUT.as_nanos()).unwrap_or(0);
            self.shared.set_close_deadline(self.shared.clock.monotonic().now().saturating_add(timeout));
            self.loop_handle.wake();
        }
    }
}

/// Time until which a call may wait, in nanoseconds of the producer's clock; see [`Producer::deadline`].
pub type Deadline = Nanos;

impl Producer {
    /// Starts the network thread, which connects when there is something to send. `log` is called by threads that wait
    /// in a call and hold none of the client's locks.
    ///
    /// # Errors
    /// Fails if the system has no thread, descriptor or random numbers left.
    pub fn start(config: &ProducerConfig, log: Option<LogSink>) -> Result<Self, ClientError> {
        Self::start_with(config, log, None)
    }

    /// Starts a producer whose log events go to `forward`.
    ///
    /// # Errors
    /// The same as [`Producer::start`].
    pub(crate) fn start_forwarding(config: &ProducerConfig, forward: LogForward) -> Result<Self, ClientError> {
        Self::start_with(config, None, Some(forward))
    }

    fn start_with(
        config: &ProducerConfig,
        log: Option<LogSink>,
        forward: Option<LogForward>,
    ) -> Result<Self, ClientError> {
        let mut rng = Rng::new(random_seed()?);
        let core_config = config.to_core();
        let shared = Arc::new(ProducerInner::new(config, &core_config.produce, rng.split(), log, forward)?);
        let core = ProducerCore::new(core_config, Arc::clone(&shared.accumulator), rng);
        let log = Arc::clone(&shared);
        let tls = tls_context(config, move |event| log.emit(vec![event]))?;
        let event_loop = new_loop(Core::Kafka(Box::new(core)), &shared)?.with_tls(tls);
        let loop_handle = event_loop.handle();
        // Set once, before any caller has the producer.
        let _ = shared.caller_loop.set(Box::new(loop_handle.clone()));
        let thread = spawn_network_thread("grete-producer", config, event_loop, Arc::clone(&shared))?;
        shared.set_thread(thread);
        Ok(Self::with_loop(shared, loop_handle, None))
    }

    /// Creates a producer that writes to `memory`, for tests: without a network thread, and without connections. The
    /// calls that would wake the network thread write instead.
    ///
    /// # Errors
    /// Fails if the system has no descriptor or random numbers left.
    pub fn in_memory(
        config: &ProducerConfig,
        log: Option<LogSink>,
        memory: Arc<MemoryLog>,
    ) -> Result<Self, ClientError> {
        let mut rng = Rng::new(random_seed()?);
        // Nothing is ever open to others, so tests have no transactions.
        let produce = ProduceConfig { transactional_id: None, ..config.to_core().produce };
        let shared = Arc::new(ProducerInner::new(config, &produce, rng.split(), log, None)?);
        let core = MemoryCore::new(Arc::clone(&shared.accumulator), memory);
        let event_loop = new_loop(Core::Memory(Box::new(core)), &shared)?;
        Ok(Self::with_loop(shared, event_loop.handle(), Some(event_loop)))
    }

    fn with_loop(
        shared: Arc<ProducerInner>,
        loop_handle: LoopHandle<Driver>,
        loop_of_callers: Option<EventLoop<Driver>>,
    ) -> Self {
        let owner = CloseOnDrop { shared: Arc::clone(&shared), loop_handle: loop_handle.clone(), loop_of_callers };
        Self { inner: shared, loop_handle, close_on_drop: Arc::new(owner) }
    }

    /// Makes the network thread step soon; without a network thread, steps here.
    fn wake_loop(&self) {
        if self.is_threadless() {
            self.loop_handle.step_here();
        } else {
            self.loop_handle.wake();
        }
    }

    fn is_threadless(&self) -> bool {
        self.close_on_drop.loop_of_callers.is_some()
    }

    /// Checks that the producer can be used.
    ///
    /// # Errors
    /// Fails in a forked child, after a close, and after a fatal error.
    #[inline]
    pub fn check(&self) -> Result<(), ClientError> {
        if self.inner.is_usable() {
            return Ok(());
        }
        self.inner.check()
    }

    /// Returns `max.block.ms`.
    pub fn max_block(&self) -> Duration {
        self.inner.max_block
    }

    /// Returns the time at which `timeout` from now has passed.
    pub fn deadline(&self, timeout: Duration) -> Deadline {
        let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(Nanos::MAX);
        self.inner.clock.monotonic().now().saturating_add(timeout)
    }

    /// Returns the current time on the two clocks that a record needs.
    #[inline]
    pub fn read_clock(&self) -> ClockReading {
        self.inner.clock.now()
    }

    /// Locks the accumulator for appending. Hold the guard for a short time, and never wait while holding it.
    #[inline]
    pub fn accumulator(&self) -> MutexGuard<'_, Accumulator> {
        self.inner.accumulator()
    }

    /// Returns the id of a topic, and requests its metadata on the first use.
    pub fn topic(&self, name: &str) -> TopicId {
        let mut accumulator = self.accumulator();
        let topic = accumulator.topic(name);
        let unknown = accumulator.partitions(topic).is_none();
        drop(accumulator);
        if unknown {
            self.wake_loop();
        }
        topic
    }

    /// Performs [`RecordAppendResult::action`](grete_proto::producer::RecordAppendResult::action). With `linger.ms` = 0
    /// this thread sends the batch; otherwise the network thread sends it while this thread continues.
    #[inline]
    pub fn send_or_wake(&self, wake: AppendAction) {
        match wake {
            AppendAction::Nothing => {}
            AppendAction::Drain if self.inner.sends_at_once => {
                self.loop_handle.step_here();
            }
            AppendAction::Drain | AppendAction::Rearm => self.wake_loop(),
        }
    }

    /// Returns whether [`Producer::send_or_wake`] may take long enough that the caller should release an interpreter
    /// lock first.
    #[inline]
    pub fn may_block(&self, wake: AppendAction) -> bool {
        wake == AppendAction::Drain && self.inner.sends_at_once
    }

    /// Returns `refused` if waiting may cure it.
    ///
    /// # Errors
    /// Returns the permanent error if waiting cannot cure it.
    pub fn check_transient(&self, topic: &str, refused: AppendError) -> Result<AppendError, ClientError> {
        match refused {
            AppendError::BufferFull | AppendError::NoMetadata => Ok(refused),
            other => Err(self.append_error(topic, other)),
        }
    }

    /// Returns the error to raise for a refused append when the caller does not wait any longer.
    pub fn append_error(&self, topic: &str, refused: AppendError) -> ClientError {
        match refused {
            AppendError::TooLarge { bytes, limit } => ClientError::RecordTooLarge { topic: topic.into(), bytes, limit },
            AppendError::UnknownPartition { partition, count } => ClientError::UnknownTopic {
                topic: topic.into(),
                partition: Some(partition),
                message: format!("topic {topic:?} has no partition {partition}: it has {count}, counted from 0"),
            },
            AppendError::Topic(error) => log_messages::topic_error(topic, error.code, &self.inner.principal),
            AppendError::Fatal(error) => {
                self.inner.fatal().unwrap_or_else(|| log_messages::fatal_error(&error, &self.inner.principal))
            }
            AppendError::Transaction(error) => log_messages::transaction_error(&error, &self.inner.principal),
            AppendError::Closed => self.inner.fatal().unwrap_or(ClientError::Closed { what: "producer" }),
            AppendError::BufferFull => ClientError::BufferFull { topic: topic.into(), limit: self.inner.buffer_memory },
            AppendError::NoMetadata => self.metadata_timeout_error(topic),
            other => ClientError::Invalid(format!("topic {topic:?}: {other}")),
        }
    }

    /// Sleeps until a transient refusal may be over. `since`: start of the call.
    ///
    /// # Errors
    /// Fails if the deadline has passed, or if brokers have reported long enough that the topic does not exist.
    pub fn await_transient(
        &self,
        topic: (&str, TopicId),
        refused: &AppendError,
        since: Nanos,
        mut deadline: Deadline,
    ) -> Result<WaitOutcome, ClientError> {
        self.check()?;
        let words = self.inner.futexes();
        let mut accumulator = self.accumulator();
        let (word, seen) = match refused {
            AppendError::BufferFull => (&words.memory, accumulator.await_memory()),
            _ if accumulator.partitions(topic.1).is_some() => return Ok(WaitOutcome::Woken),
            _ if accumulator.is_topic_missing(topic.1, since) => {
                return Err(log_messages::unknown_topic_error(topic.0, &accumulator));
            }
            _ => (&words.metadata, accumulator.await_metadata()),
        };
        drop(accumulator);
        let stopping = self.inner.metadata_deadline();
        if *refused == AppendError::NoMetadata && stopping < deadline {
            if stopping <= self.now() {
                return Err(self.shutdown_error(topic.0, since));
            }
            deadline = stopping;
        }
        // A full accumulator may wait for its linger time, and a topic for its metadata request.
        if deadline > self.inner.clock.monotonic().now() {
            self.loop_handle.step_here();
        }
        match self.inner.wait_on_word(word, seen, Some(deadline)) {
            WaitOutcome::TimedOut if deadline == stopping => Err(self.shutdown_error(topic.0, since)),
            WaitOutcome::TimedOut => Err(self.append_error(topic.0, refused.clone())),
            WaitOutcome::Ended => Err(self.inner.closed_error()),
            other => Ok(other),
        }
    }

    /// Returns the error of a call that cannot sleep, began at `since` and still has no metadata; `None`: no error yet.
    pub fn metadata_error(&self, topic: &str, id: TopicId, since: Nanos) -> Option<ClientError> {
        let accumulator = self.accumulator();
        if accumulator.is_topic_missing(id, since) {
            return Some(log_messages::unknown_topic_error(topic, &accumulator));
        }
        drop(accumulator);
        (self.inner.metadata_deadline() <= self.now()).then(|| self.shutdown_error(topic, since))
    }

    /// Shortens waits for metadata because an App stops. No call waits for metadata for long, nor for a second response
    /// that the topic does not exist.
    pub fn expedite_metadata(&self) {
        self.inner.expedite_metadata(self.deadline(SHUTDOWN_METADATA_TIMEOUT));
        // The network thread learns of the earlier end of records that wait for metadata.
        self.wake_loop();
    }

    /// Sleeps until the word of [`grete_proto::producer::StagingBudget::await_room`] changes, or another event ends the
    /// wait: check again.
    #[must_use]
    pub fn wait_for_room(&self, word: &AtomicU32, seen: u32, deadline: Deadline) -> WaitOutcome {
        // The loop of the consumer makes the room: a leader of the producer's loop would not notice.
        self.inner.sleep_on_word(word, seen, Some(deadline))
    }

    /// Returns the error for a topic whose metadata is missing while the App stops.
    fn shutdown_error(&self, topic: &str, since: Nanos) -> ClientError {
        ClientError::TimedOut {
            operation: metadata_operation(topic),
            seconds: Duration::from_nanos(self.now().saturating_sub(since)).as_secs_f64(),
            hint: "the App stops and waits no longer; check that a broker of bootstrap.servers can be reached",
        }
    }

    /// Returns the error for a topic whose metadata did not arrive in time.
    fn metadata_timeout_error(&self, topic: &str) -> ClientError {
        if let Some(failure) = self.login_failure() {
            return ClientError::Authentication(failure.to_string());
        }
        let mut accumulator = self.accumulator();
        let id = accumulator.topic(topic);
        match accumulator.topic_error(id) {
            Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) => log_messages::unknown_topic_error(topic, &accumulator),
            Some(code) => log_messages::topic_error(topic, code, &self.inner.principal),
            None => ClientError::TimedOut {
                operation: metadata_operation(topic),
                seconds: self.inner.max_block.as_secs_f64(),
                hint: "check that a broker of bootstrap.servers can be reached; max.block.ms says how long to wait",
            },
        }
    }

    /// Returns the number of partitions of a topic. `timeout` is the duration from which `deadline` was computed.
    ///
    /// # Errors
    /// Fails if the topic does not exist, or if no broker answers in time.
    pub fn partitions(
        &self,
        topic: &str,
        timeout: Duration,
        deadline: Deadline,
    ) -> Result<PartitionsStatus<u32>, ClientError> {
        self.check()?;
        let id = self.topic(topic);
        match self.accumulator().partitions(id) {
            Some(Ok(count)) => return Ok(PartitionsStatus::Known(count)),
            Some(Err(error)) => return Err(log_messages::topic_error(topic, error.code, &self.inner.principal)),
            None => {}
        }
        let since = deadline.saturating_sub(u64::try_from(timeout.as_nanos()).unwrap_or(Nanos::MAX));
        match self.await_transient((topic, id), &AppendError::NoMetadata, since, deadline) {
            Ok(WaitOutcome::Interrupted) => Ok(PartitionsStatus::Interrupted),
            Ok(_) => Ok(PartitionsStatus::Pending),
            // The limit of this call was `timeout`, not `max.block.ms`.
            Err(ClientError::TimedOut { operation, .. }) if self.now() >= deadline => Err(ClientError::TimedOut {
                operation,
                seconds: timeout.as_secs_f64(),
                hint: "check that a broker of bootstrap.servers can be reached",
            }),
            Err(error) => Err(error),
        }
    }

    /// Sends the current contents of the batches without lingering. Returns at once if no batch lingers.
    pub fn send_now(&self, receipts: &[Arc<BatchPromise>]) {
        let mut accumulator = self.accumulator();
        let mut drain = false;
        for receipt in receipts {
            drain |= accumulator.end_linger(receipt);
        }
        drop(accumulator);
        if drain {
            self.loop_handle.step_here();
        }
    }

    /// Sleeps until the record is completed or another event ends the wait: check again.
    #[must_use]
    pub fn await_record(&self, receipt: &Arc<BatchPromise>, index: u32, deadline: Option<Deadline>) -> WaitOutcome {
        self.inner.wait_for_batch(receipt, deadline, || receipt.result(index).is_some())
    }

    /// Sleeps until the whole batch is completed or another event ends the wait: check again.
    #[must_use]
    pub fn await_batch(&self, receipt: &Arc<BatchPromise>, deadline: Option<Deadline>) -> WaitOutcome {
        self.inner.wait_for_batch(receipt, deadline, || receipt.is_complete())
    }

    /// Returns the fatal error of the producer; `None`: there is none.
    pub fn fatal(&self) -> Option<ClientError> {
        self.inner.fatal()
    }

    /// Returns the reason why no more batches complete; `None`: the network thread is running.
    pub fn ended_error(&self) -> Option<ClientError> {
        self.inner.has_ended().then(|| self.inner.closed_error())
    }

    /// Returns the reason why no more batches complete, after [`WaitOutcome::Ended`].
    pub fn closed_error(&self) -> ClientError {
        self.inner.closed_error()
    }

    /// Begins to send all records appended so far, without lingering.
    ///
    /// # Errors
    /// Fails in a forked child and after a close.
    pub fn flush(&self) -> Result<Flush, ClientError> {
        self.inner.check()?;
        let mark = self.accumulator().flush();
        self.loop_handle.step_here();
        Ok(Flush { mark })
    }

    /// Sleeps until the flushed records are completed or another event ends the wait: check again.
    #[must_use]
    pub fn await_flush(&self, flush: &Flush, deadline: Option<Deadline>) -> FlushStatus {
        let seen = self.accumulator().await_flush(flush.mark);
        let outcome = match seen {
            Some(seen) => self.inner.wait_on_word(&self.inner.futexes().flush, seen, deadline),
            // The step's own thread wakes this one.
            None => match self.inner.step_gate.prepare_wait() {
                Some((word, seen)) => self.inner.sleep_on_word(word, seen, deadline),
                None => return FlushStatus::Done,
            },
        };
        match outcome {
            WaitOutcome::TimedOut => FlushStatus::TimedOut { pending: self.accumulator().pending_records() },
            // The network thread may have ended after the last record was completed.
            WaitOutcome::Ended if self.accumulator().is_flushed(flush.mark) => FlushStatus::Done,
            WaitOutcome::Ended => FlushStatus::Ended,
            WaitOutcome::Interrupted => FlushStatus::Interrupted,
            WaitOutcome::Woken => FlushStatus::Pending,
        }
    }

    /// Creates a completion queue without a descriptor; [`CompletionQueue::is_pending`] and
    /// [`Producer::is_wake_flag_raised`] report its state.
    pub fn completion_queue(&self) -> CompletionQueue {
        self.inner.completion_queues.create(None)
    }

    /// Creates a completion queue with a descriptor for a selector.
    ///
    /// # Errors
    /// Fails if the system has no descriptor left.
    pub fn completion_queue_with_fd(&self) -> Result<CompletionQueue, ClientError> {
        let event = grete_sys::EventFd::new().map_err(|error| ClientError::os("opening an eventfd", &error))?;
        Ok(self.inner.completion_queues.create(Some(event)))
    }

    /// Creates a completion queue that calls `call` on the thread that completes a batch, under the lock of the event
    /// loop.
    #[must_use]
    pub fn completion_queue_with_callback(&self, call: impl Fn() + Send + Sync + 'static) -> CompletionQueue {
        self.inner.completion_queues.create_with_callback(Box::new(call))
    }

    /// Returns whether a completion queue or a log event is pending. Costs one load.
    #[inline]
    pub fn is_wake_flag_raised(&self) -> bool {
        self.inner.wake_flag.is_raised()
    }

    /// Raises the wake flag, so that a waiting caller checks again.
    pub fn raise_wake_flag(&self) {
        self.inner.wake_flag.raise();
        self.inner.notify_leader();
    }

    /// Sleeps until a completion queue or a log event is pending.
    #[must_use]
    pub fn wait_wake_flag(&self, deadline: Option<Deadline>) -> WaitOutcome {
        self.inner.wait_wake_flag(deadline)
    }

    /// Wakes the network thread, which steps the protocol.
    pub fn wake_network_thread(&self) {
        self.wake_loop();
    }

    /// Clears the wake flag, because the caller handles the pending work now.
    pub fn clear_wake_flag(&self) {
        self.inner.wake_flag.clear();
    }

    /// Returns the log events of the network thread, which wait for a thread that can log.
    pub fn log_events(&self) -> &LogEventQueue {
        &self.inner.log_events
    }

    /// Returns the current time of the clock of [`RecordResult::at`](grete_proto::producer::RecordResult::at), in
    /// nanoseconds.
    pub fn now(&self) -> Nanos {
        self.inner.clock.monotonic().now()
    }

    /// Returns `client.id`.
    pub fn client_id(&self) -> &str {
        &self.inner.name
    }

    /// Returns the failure of the last login; `None`: there was none, or a login has succeeded since.
    pub fn login_failure(&self) -> Option<Arc<str>> {
        self.inner.counters.login_failure.get()
    }

    /// Returns current statistics.
    pub fn statistics(&self) -> ProducerStatistics {
        let accumulator = self.accumulator();
        let (buffered_bytes, pending_records) = (accumulator.used_bytes(), accumulator.pending_records());
        let unassigned_records = accumulator.unassigned_records();
        drop(accumulator);
        self.inner.counters.read(buffered_bytes, pending_records, unassigned_records)
    }
}

fn new_loop(core: Core, shared: &Arc<ProducerInner>) -> Result<EventLoop<Driver>, ClientError> {
    let driver = Driver::new(core, Arc::clone(shared));
    let slabs = BufferPool::new(1 << 20);
    let event_loop = EventLoop::new(shared.clock.monotonic(), slabs, MAX_FRAME_BYTES, |_| driver);
    let event_loop = event_loop.and_then(|event_loop| event_loop.with_gate(GateUse::QuickLeads));
    let event_loop = event_loop.map_err(|error| ClientError::os("opening a poll descriptor", &error))?;
    Ok(event_loop.with_max_sleep(MAX_SLEEP))
}

/// Returns the operation to name in errors while a topic's metadata is unknown.
fn metadata_operation(topic: &str) -> String {
    format!("asking for the partitions of topic {topic:?}")
}

/// Flush of all records that were appended before it was created.
#[derive(Debug)]
pub struct Flush {
    mark: grete_proto::producer::FlushToken,
}

/// Result of [`Producer::await_flush`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushStatus {
    /// All flushed records are completed, and their completions are queued.
    Done,
    /// Not completed yet: call again.
    Pending,
    /// A Unix signal arrived: let its handler run, then call again.
    Interrupted,
    /// The deadline has passed.
    TimedOut {
        /// Records that are not completed.
        pending: u64,
    },
    /// The network thread of the producer has ended.
    Ended,
}

/// Result of [`Producer::partitions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionsStatus<T> {
    /// Value that the call returns.
    Known(T),
    /// Not known yet: call again.
    Pending,
    /// A Unix signal arrived: let its handler run, then call again.
    Interrupted,
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").finish_non_exhaustive()
    }
}
