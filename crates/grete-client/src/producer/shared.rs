//! What the callers' side and the network thread's side of a producer share.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use grete_core::produce::{Accumulator, ProduceConfig, Receipt, SharedAccumulator, Words};
use grete_core::rng::Rng;
use grete_core::time::Nanos;
use grete_net::futex::{wait_on, wake_on};
use grete_net::{EventFd, Waited};

use super::attention::Attention;
use super::close::Undelivered;
use super::sleep::Slept;
use super::stamp::Stamps;
use super::statistics::Counters;
use super::watch::Watches;
use crate::config::ProducerConfig;
use crate::error::ClientError;
use crate::notice::{Notice, Notices};

pub(super) struct Shared {
    pub(super) accumulator: SharedAccumulator,
    words: Arc<Words>,
    pub(super) stamps: Stamps,
    pub(super) watches: Watches,
    pub(super) notices: Notices,
    pub(super) counters: Counters,
    /// A watch is due, or a notice waits.
    pub(super) attention: Arc<Attention>,
    /// `linger.ms` is 0.
    pub(super) prompt: bool,
    /// `client.id`.
    pub(super) name: Box<str>,
    pub(super) max_block: Duration,
    pub(super) buffer_memory: usize,
    /// When the closing gives up; the network thread passes it on.
    closing: Mutex<Option<Nanos>>,
    undelivered: Mutex<Undelivered>,
    /// Threads that sleep on a receipt: only they have to be told that nothing will be settled any more.
    pub(super) sleepers: Mutex<Vec<Arc<Receipt>>>,
    closed: AtomicBool,
    /// 1 once the network thread has said its last word; a futex word.
    ended: AtomicU32,
    fatal: OnceLock<ClientError>,
    thread: Mutex<Option<JoinHandle<()>>>,
    fork_generation: u32,
}

impl Shared {
    pub(super) fn new(config: &ProducerConfig, produce: &ProduceConfig, rng: Rng) -> Result<Self, ClientError> {
        let event = EventFd::new().map_err(|error| ClientError::os("opening an eventfd", &error))?;
        let accumulator = Accumulator::new(produce, rng);
        let attention = Arc::new(Attention::default());
        Ok(Self {
            words: Arc::clone(accumulator.words()),
            accumulator: Arc::new(Mutex::new(accumulator)),
            stamps: Stamps::new(),
            watches: Watches::new(Arc::clone(&attention)),
            notices: Notices::new(event),
            counters: Counters::default(),
            attention,
            prompt: produce.linger == 0,
            name: config.client_id().into(),
            max_block: config.millis("max.block.ms"),
            buffer_memory: produce.buffer_memory,
            closing: Mutex::default(),
            undelivered: Mutex::default(),
            sleepers: Mutex::default(),
            closed: AtomicBool::new(false),
            ended: AtomicU32::new(0),
            fatal: OnceLock::new(),
            thread: Mutex::default(),
            fork_generation: grete_net::fork::generation(),
        })
    }

    pub(super) fn accumulator(&self) -> MutexGuard<'_, Accumulator> {
        self.accumulator.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn words(&self) -> &Words {
        &self.words
    }

    pub(super) fn is_usable(&self) -> bool {
        !self.closed.load(Ordering::Acquire) && self.fatal.get().is_none() && !self.is_foreign()
    }

    /// In a forked child.
    pub(super) fn is_foreign(&self) -> bool {
        self.fork_generation != grete_net::fork::generation()
    }

    pub(super) fn check(&self) -> Result<(), ClientError> {
        if self.is_foreign() {
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

    /// What to say when nothing will be settled any more.
    pub(super) fn end(&self) -> ClientError {
        self.fatal().unwrap_or(ClientError::Closed { what: "producer" })
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst) != 0
    }

    /// Takes no more records. True for the first caller.
    pub(super) fn close_once(&self) -> bool {
        !self.closed.swap(true, Ordering::AcqRel)
    }

    pub(super) fn set_closing(&self, deadline: Nanos) {
        let mut closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
        *closing = Some(closing.map_or(deadline, |earlier| earlier.min(deadline)));
    }

    pub(super) fn take_closing(&self) -> Option<Nanos> {
        self.closing.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What closing has left undone so far.
    pub(super) fn undelivered(&self) -> Undelivered {
        self.undelivered.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records were given up; counted from the closing on.
    pub(super) fn give_up(&self, topic: &str, records: u64, unknown: bool) {
        if records > 0 && self.closed.load(Ordering::Acquire) {
            let mut undelivered = self.undelivered.lock().unwrap_or_else(PoisonError::into_inner);
            undelivered.add(topic, records, unknown);
        }
    }

    pub(super) fn await_attention(&self, deadline: Option<Nanos>) -> Slept {
        match self.attention.announce() {
            Some((word, seen)) => self.sleep(word, seen, deadline),
            None => Slept::Woken,
        }
    }

    pub(super) fn sleep_until_end(&self, deadline: Nanos) -> Slept {
        let timeout = self.stamps.clock().until(deadline);
        if timeout.is_zero() {
            return Slept::TimedOut;
        }
        match wait_on(&self.ended, 0, Some(timeout)) {
            Waited::Woken => Slept::Woken,
            Waited::TimedOut => Slept::TimedOut,
            Waited::Interrupted => Slept::Interrupted,
        }
    }

    pub(super) fn keep(&self, thread: JoinHandle<()>) {
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
    }

    pub(super) fn take_thread(&self) -> Option<JoinHandle<()>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn notify(&self, notices: Vec<Notice>) {
        if !notices.is_empty() {
            self.notices.push(notices);
            self.attention.want();
        }
    }

    /// The producer cannot go on. The first reason is the one that is told.
    pub(super) fn fail(&self, error: ClientError) {
        // Later ones follow from the first.
        let _ = self.fatal.set(error);
        self.stir();
    }

    /// The network thread has said its last word: nothing will be settled any more.
    pub(super) fn finish(&self) {
        // None are left unless the thread has ended on a fault.
        let pending = self.accumulator().pending_records();
        self.undelivered.lock().unwrap_or_else(PoisonError::into_inner).unknown += pending;
        self.ended.store(1, Ordering::SeqCst);
        wake_on(&self.ended);
        self.stir();
        self.stir_receipts();
        self.watches.stir_all();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.is_foreign() {
            // The thread is the parent's.
            std::mem::forget(self.take_thread());
        }
    }
}
