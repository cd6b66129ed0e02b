//! One producer: its connections, its network thread, and the calls that users make.
//!
//! Records go into the accumulator on the caller's thread. Whoever drains it (a caller that waits, or the network thread)
//! steps the machines and writes to the sockets; the network thread reads the answers and wakes who sleeps.

mod attention;
mod close;
mod driver;
mod ending;
mod shared;
mod sleep;
mod stamp;
mod statistics;
#[cfg(test)]
mod tests;
mod told;
mod watch;

use std::fmt;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use grete_core::produce::{Accumulator, Receipt, Refused, TopicId, Wake};
use grete_core::producer::ProducerCore;
use grete_core::rng::Rng;
use grete_core::time::Nanos;
use grete_net::{EventLoop, Remote};
use grete_wire::slab::SlabPool;

pub use close::{Closing, Undelivered};
pub use sleep::Slept;
pub use stamp::Stamp;
pub use statistics::ProducerStatistics;
pub use watch::Watch;

use crate::config::ProducerConfig;
use crate::dispatcher::seed;
use crate::error::ClientError;
use crate::notice::Notice;
use close::Owner;
use driver::Driver;
use ending::Ending;
use shared::Shared;

/// Answers to Produce are small, those to Metadata grow with the cluster.
const MAX_FRAME_BYTES: usize = 1 << 28;

/// The network thread looks at its deadlines that often at least: a caller's request, whose time-out is longer, then needs
/// no wake-up to be watched over.
const LONGEST_SLEEP: Duration = Duration::from_secs(10);

/// A producer. Clones share it.
#[derive(Clone)]
pub struct Producer {
    shared: Arc<Shared>,
    remote: Remote<Driver>,
    _owner: Arc<Owner>,
}

/// Until when a call may wait: [`Producer::deadline`].
pub type Deadline = Nanos;

impl Producer {
    /// Starts the network thread, which connects when there is something to send.
    ///
    /// # Errors
    /// When the system has no thread, descriptor or randomness to give.
    pub fn start(config: &ProducerConfig) -> Result<Self, ClientError> {
        let mut rng = Rng::new(seed()?);
        let core_config = config.to_core();
        let shared = Arc::new(Shared::new(config, &core_config.produce, rng.split())?);
        let core = ProducerCore::new(core_config, Arc::clone(&shared.accumulator), rng);
        let driver = Driver::new(core, Arc::clone(&shared));
        let slabs = SlabPool::new(1 << 20);
        let event_loop = EventLoop::new(shared.stamps.clock(), slabs, MAX_FRAME_BYTES, |_| driver);
        let event_loop = event_loop.map_err(|error| ClientError::os("opening a poll descriptor", &error))?;
        let event_loop = event_loop.with_longest_sleep(LONGEST_SLEEP);
        let remote = event_loop.remote();
        let ending = Ending { shared: Arc::clone(&shared) };
        let run = move || {
            if let Err(error) = event_loop.run() {
                ending.shared.fail(ClientError::os("waiting for sockets", &error));
            }
        };
        let thread = std::thread::Builder::new().name("grete-producer".into()).spawn(run);
        let thread = thread.map_err(|error| ClientError::os("starting the network thread", &error))?;
        shared.keep(thread);
        let owner = Arc::new(Owner { shared: Arc::clone(&shared), remote: remote.clone() });
        Ok(Self { shared, remote, _owner: owner })
    }

    /// Whether it can be used.
    ///
    /// # Errors
    /// In a forked child, after a close, and after the end that cannot heal.
    #[inline]
    pub fn check(&self) -> Result<(), ClientError> {
        if self.shared.is_usable() {
            return Ok(());
        }
        self.shared.check()
    }

    /// `max.block.ms`.
    #[must_use]
    pub fn max_block(&self) -> Duration {
        self.shared.max_block
    }

    /// The instant after so long.
    #[must_use]
    pub fn deadline(&self, timeout: Duration) -> Deadline {
        let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(Nanos::MAX);
        self.shared.stamps.clock().now().saturating_add(timeout)
    }

    /// Now, on both clocks that a record needs.
    #[inline]
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        self.shared.stamps.now()
    }

    /// Where records are appended, for as long as the guard lives: keep it short, and wait for nothing under it.
    #[inline]
    pub fn accumulator(&self) -> MutexGuard<'_, Accumulator> {
        self.shared.accumulator()
    }

    /// Names a topic, and asks for its metadata the first time.
    #[must_use]
    pub fn topic(&self, name: &str) -> TopicId {
        let mut accumulator = self.accumulator();
        let topic = accumulator.topic(name);
        let unknown = accumulator.partitions(topic).is_none();
        drop(accumulator);
        if unknown {
            self.remote.wake();
        }
        topic
    }

    /// What [`grete_core::produce::Appended::wake`] asks for. With `linger.ms` = 0 the batch goes out on this thread, for
    /// the caller wants it gone; else the network thread sends it while this thread goes on.
    #[inline]
    pub fn carry_on(&self, wake: Wake) {
        match wake {
            Wake::No => {}
            Wake::Full if self.shared.prompt => {
                self.remote.step_here();
            }
            Wake::Full | Wake::Deadline => self.remote.wake(),
        }
    }

    /// Whether [`Producer::carry_on`] may take long enough to give an interpreter's lock away first.
    #[inline]
    #[must_use]
    pub fn is_slow(&self, wake: Wake) -> bool {
        wake == Wake::Full && self.shared.prompt
    }

    /// Whether a refusal passes by waiting; what it is for good otherwise.
    ///
    /// # Errors
    /// What cannot be waited for, in words.
    pub fn passing(&self, topic: &str, refused: Refused) -> Result<Refused, ClientError> {
        match refused {
            Refused::Full | Refused::NoMetadata => Ok(refused),
            other => Err(self.refusal(topic, other)),
        }
    }

    /// What a refusal comes to when nobody waits any longer.
    #[must_use]
    pub fn refusal(&self, topic: &str, refused: Refused) -> ClientError {
        match refused {
            Refused::TooLarge { bytes, limit } => ClientError::RecordTooLarge { topic: topic.into(), bytes, limit },
            Refused::NoPartition { partition, count } => ClientError::UnknownTopic {
                topic: topic.into(),
                message: format!("topic {topic:?} has no partition {partition}: it has {count}, counted from 0"),
            },
            Refused::Topic(error) => told::topic(topic, error.code),
            Refused::Fatal(error) => self.shared.fatal().unwrap_or_else(|| told::fatal(&error)),
            Refused::Closed => self.shared.fatal().unwrap_or(ClientError::Closed { what: "producer" }),
            Refused::Full => ClientError::QueueFull { topic: topic.into(), limit: self.shared.buffer_memory },
            Refused::NoMetadata => self.unknown(topic),
            other => ClientError::Invalid(format!("topic {topic:?}: {other}")),
        }
    }

    /// Sleeps until a passing refusal may have passed.
    ///
    /// # Errors
    /// What it comes to when the deadline has passed.
    pub fn await_passing(
        &self,
        topic: (&str, TopicId),
        refused: &Refused,
        deadline: Deadline,
    ) -> Result<Slept, ClientError> {
        self.check()?;
        let words = self.shared.words();
        let mut accumulator = self.accumulator();
        let (word, seen) = match refused {
            Refused::Full => (&words.room, accumulator.await_room()),
            _ if accumulator.partitions(topic.1).is_some() => return Ok(Slept::Woken),
            _ => (&words.metadata, accumulator.await_topic()),
        };
        drop(accumulator);
        // What is full may be waiting for its linger time, and a topic for somebody to ask.
        if deadline > self.shared.stamps.clock().now() {
            self.remote.step_here();
        }
        match self.shared.sleep(word, seen, Some(deadline)) {
            Slept::TimedOut => Err(self.refusal(topic.0, refused.clone())),
            Slept::Ended => Err(self.shared.end()),
            other => Ok(other),
        }
    }

    /// The topic's metadata did not come in time.
    fn unknown(&self, topic: &str) -> ClientError {
        let mut accumulator = self.accumulator();
        let id = accumulator.topic(topic);
        match accumulator.topic_trouble(id) {
            Some(code) => told::topic(topic, code),
            None => ClientError::TimedOut {
                operation: format!("asking for the partitions of topic {topic:?}"),
                seconds: self.shared.max_block.as_secs_f64(),
                hint: "check that a broker of bootstrap.servers can be reached; max.block.ms says how long to wait",
            },
        }
    }

    /// How many partitions the topic has. `timeout` is what led to the deadline.
    ///
    /// # Errors
    /// When the topic does not exist, or no broker answers in time.
    pub fn partitions(&self, topic: &str, timeout: Duration, deadline: Deadline) -> Result<Asked<u32>, ClientError> {
        self.check()?;
        let id = self.topic(topic);
        match self.accumulator().partitions(id) {
            Some(Ok(count)) => return Ok(Asked::Answer(count)),
            Some(Err(error)) => return Err(told::topic(topic, error.code)),
            None => {}
        }
        match self.await_passing((topic, id), &Refused::NoMetadata, deadline) {
            Ok(Slept::Interrupted) => Ok(Asked::Interrupted),
            Ok(_) => Ok(Asked::Again),
            // Here it was not max.block.ms that said how long.
            Err(ClientError::TimedOut { operation, .. }) => Err(ClientError::TimedOut {
                operation,
                seconds: timeout.as_secs_f64(),
                hint: "check that a broker of bootstrap.servers can be reached",
            }),
            Err(error) => Err(error),
        }
    }

    /// Sends what a batch has now, without lingering. Returns at once when there is nothing to hurry.
    pub fn hurry(&self, receipts: &[Arc<Receipt>]) {
        let mut accumulator = self.accumulator();
        let mut drain = false;
        for receipt in receipts {
            drain |= accumulator.release_now(receipt);
        }
        drop(accumulator);
        if drain {
            self.remote.step_here();
        }
    }

    /// Sleeps until the record is settled, or something else has happened: look again.
    #[must_use]
    pub fn await_record(&self, receipt: &Arc<Receipt>, index: u32, deadline: Option<Deadline>) -> Slept {
        self.shared.sleep_on_receipt(receipt, deadline, || receipt.result(index).is_some())
    }

    /// Sleeps until the whole batch is settled, or something else has happened: look again.
    #[must_use]
    pub fn await_batch(&self, receipt: &Arc<Receipt>, deadline: Option<Deadline>) -> Slept {
        self.shared.sleep_on_receipt(receipt, deadline, || receipt.is_settled())
    }

    /// Why the producer cannot go on, if that is so.
    #[must_use]
    pub fn fatal(&self) -> Option<ClientError> {
        self.shared.fatal()
    }

    /// Why nothing will be settled any more, if that is so.
    #[must_use]
    pub fn has_ended(&self) -> Option<ClientError> {
        self.shared.has_ended().then(|| self.shared.end())
    }

    /// Why nothing will be settled any more, after [`Slept::Ended`].
    #[must_use]
    pub fn end(&self) -> ClientError {
        self.shared.end()
    }

    /// Begins to send everything that was appended so far, without lingering.
    ///
    /// # Errors
    /// In a forked child, and after a close.
    pub fn flush(&self) -> Result<Flush, ClientError> {
        self.shared.check()?;
        let mark = self.accumulator().flush();
        self.remote.step_here();
        Ok(Flush { mark })
    }

    /// Sleeps until what was flushed is settled, or something else has happened: look again.
    #[must_use]
    pub fn await_flush(&self, flush: &Flush, deadline: Option<Deadline>) -> Flushing {
        let Some(seen) = self.accumulator().await_flush(flush.mark) else { return Flushing::Done };
        match self.shared.sleep(&self.shared.words().progress, seen, deadline) {
            Slept::TimedOut => Flushing::TimedOut { pending: self.accumulator().pending_records() },
            Slept::Ended => Flushing::Ended,
            Slept::Interrupted => Flushing::Interrupted,
            Slept::Woken => Flushing::Again,
        }
    }

    /// A watch over settlements, without a descriptor: [`Watch::is_due`] and [`Producer::wants_attention`] tell.
    #[must_use]
    pub fn watch(&self) -> Watch {
        self.shared.watches.open(None)
    }

    /// A watch over settlements with a descriptor for a selector.
    ///
    /// # Errors
    /// When the system has no descriptor to give.
    pub fn watch_with_descriptor(&self) -> Result<Watch, ClientError> {
        let event = grete_net::EventFd::new().map_err(|error| ClientError::os("opening an eventfd", &error))?;
        Ok(self.shared.watches.open(Some(event)))
    }

    /// Whether a watch is due or a notice waits. One load.
    #[inline]
    #[must_use]
    pub fn wants_attention(&self) -> bool {
        self.shared.attention.is_wanted()
    }

    /// Somebody shall look again.
    pub fn want_attention(&self) {
        self.shared.attention.want();
    }

    /// Sleeps until a watch is due or a notice waits.
    #[must_use]
    pub fn await_attention(&self, deadline: Option<Deadline>) -> Slept {
        self.shared.await_attention(deadline)
    }

    /// Lets the network thread look for what may have changed.
    pub fn nudge(&self) {
        self.remote.wake();
    }

    /// Somebody attends now.
    pub fn attend(&self) {
        self.shared.attention.clear();
    }

    /// The notices since the last call.
    #[must_use]
    pub fn take_notices(&self) -> Vec<Notice> {
        self.shared.notices.take()
    }

    /// Readable while notices wait.
    #[must_use]
    pub fn event_fd(&self) -> RawFd {
        self.shared.notices.event().as_raw_fd()
    }

    /// Nanoseconds of the clock that [`grete_core::produce::Settled::at`] is told by.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.shared.stamps.clock().now()
    }

    /// `client.id`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Figures as of now.
    #[must_use]
    pub fn statistics(&self) -> ProducerStatistics {
        let accumulator = self.accumulator();
        let (buffered_bytes, pending_records) = (accumulator.used_bytes(), accumulator.pending_records());
        drop(accumulator);
        self.shared.counters.read(buffered_bytes, pending_records)
    }
}

/// Everything that was appended before it was made.
#[derive(Debug)]
pub struct Flush {
    mark: grete_core::produce::FlushMark,
}

/// How a look at a flush ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushing {
    /// All is settled.
    Done,
    /// Look again.
    Again,
    /// A Unix signal: let its handler run, then look again.
    Interrupted,
    /// The time is up.
    TimedOut {
        /// Records that are not settled.
        pending: u64,
    },
    /// The producer has ended.
    Ended,
}

/// How a question ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked<T> {
    /// Here it is.
    Answer(T),
    /// Ask again.
    Again,
    /// A Unix signal: let its handler run, then ask again.
    Interrupted,
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").finish_non_exhaustive()
    }
}
