//! Who wants to hear of settlements: callbacks of one producer, and the event loops of its asyncio users.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use grete_core::produce::Receipt;
use grete_net::EventFd;

use super::attention::Attention;

/// All watches of a producer.
#[derive(Debug)]
pub(super) struct Watches {
    state: Arc<Mutex<State>>,
    attention: Arc<Attention>,
}

#[derive(Debug, Default)]
struct State {
    watches: Vec<Arc<Inner>>,
    /// By the receipt's address, which stays its own while it is in here.
    interest: HashMap<usize, Interest>,
}

#[derive(Debug)]
struct Interest {
    _receipt: Arc<Receipt>,
    watches: Vec<Arc<Inner>>,
}

#[derive(Debug)]
struct Inner {
    settled: Mutex<Vec<Arc<Receipt>>>,
    /// Something is in `settled`, or was wanted.
    due: AtomicBool,
    /// Somebody waits for room or metadata.
    hungry: AtomicBool,
    event: Option<EventFd>,
    attention: Arc<Attention>,
}

/// Hears of receipts that it was given, once they are settled in part or whole. Dropping it ends that.
#[derive(Debug)]
pub struct Watch {
    inner: Arc<Inner>,
    state: Arc<Mutex<State>>,
}

impl Watches {
    pub(super) fn new(attention: Arc<Attention>) -> Self {
        Self { state: Arc::default(), attention }
    }

    pub(super) fn open(&self, event: Option<EventFd>) -> Watch {
        let inner = Arc::new(Inner {
            settled: Mutex::default(),
            due: AtomicBool::new(false),
            hungry: AtomicBool::new(false),
            event,
            attention: Arc::clone(&self.attention),
        });
        lock(&self.state).watches.push(Arc::clone(&inner));
        Watch { inner, state: Arc::clone(&self.state) }
    }

    /// The network thread: some of it, or all, is settled.
    pub(super) fn settled(&self, receipt: &Arc<Receipt>) {
        let key = key(receipt);
        let mut state = lock(&self.state);
        let whole = receipt.is_settled();
        let watches = match state.interest.get(&key) {
            Some(interest) => interest.watches.clone(),
            None => return,
        };
        if whole {
            state.interest.remove(&key);
        }
        drop(state);
        for watch in watches {
            watch.settled.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(receipt));
            watch.call();
        }
    }

    /// The network thread: there is room, or metadata.
    pub(super) fn stir(&self) {
        for watch in &lock(&self.state).watches {
            if watch.hungry.swap(false, Ordering::AcqRel) {
                watch.call();
            }
        }
    }

    /// The network thread: nothing will be settled any more.
    pub(super) fn stir_all(&self) {
        for watch in &lock(&self.state).watches {
            watch.call();
        }
    }
}

impl Inner {
    /// The flag goes up before the descriptor becomes readable, and down after it was cleared: see [`Watch::take`].
    fn call(&self) {
        if !self.due.swap(true, Ordering::AcqRel) {
            match &self.event {
                Some(event) => event.signal(),
                None => self.attention.want(),
            }
        }
    }
}

impl Watch {
    /// Wants to hear of this receipt. False: it is settled, so nothing will be heard. What was settled in part before is not
    /// told again: look at the result that matters after this.
    #[must_use]
    pub fn add(&self, receipt: &Arc<Receipt>) -> bool {
        let key = key(receipt);
        let mut state = lock(&self.state);
        let interest = state
            .interest
            .entry(key)
            .or_insert_with(|| Interest { _receipt: Arc::clone(receipt), watches: Vec::with_capacity(1) });
        if interest.watches.iter().any(|watch| Arc::ptr_eq(watch, &self.inner)) {
            return true;
        }
        interest.watches.push(Arc::clone(&self.inner));
        // The network thread settles first and looks for the interest second, under the lock that we hold.
        if receipt.watch() {
            return true;
        }
        if let Some(interest) = state.interest.get_mut(&key) {
            interest.watches.retain(|watch| !Arc::ptr_eq(watch, &self.inner));
            if interest.watches.is_empty() {
                state.interest.remove(&key);
            }
        }
        false
    }

    /// Wants to be called when there may be room, or metadata. Look again after this.
    pub fn hunger(&self) {
        self.inner.hungry.store(true, Ordering::SeqCst);
    }

    /// Whether [`Watch::take`] has something to give, or the watch was stirred.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.inner.due.load(Ordering::Acquire)
    }

    /// The receipts with news since the last call. A call between the clearing and the look finds the flag down and signals
    /// anew; one before it is in the list, because the list is filled before the flag goes up.
    #[must_use]
    pub fn take(&self) -> Vec<Arc<Receipt>> {
        if let Some(event) = &self.inner.event {
            event.clear();
        }
        self.inner.due.store(false, Ordering::SeqCst);
        std::mem::take(&mut *self.inner.settled.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Readable while the watch is due. `None` without a descriptor.
    #[must_use]
    pub fn descriptor(&self) -> Option<RawFd> {
        self.inner.event.as_ref().map(AsRawFd::as_raw_fd)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        state.watches.retain(|watch| !Arc::ptr_eq(watch, &self.inner));
        state.interest.retain(|_, interest| {
            interest.watches.retain(|watch| !Arc::ptr_eq(watch, &self.inner));
            !interest.watches.is_empty()
        });
    }
}

fn key(receipt: &Arc<Receipt>) -> usize {
    Arc::as_ptr(receipt) as usize
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
