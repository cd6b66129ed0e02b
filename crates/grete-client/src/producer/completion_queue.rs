//! Completion queues: notify delivery callbacks and asyncio event loops when batches complete.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use grete_proto::producer::BatchPromise;
use grete_sys::EventFd;

use super::wake_flag::WakeFlag;

/// All completion queues of one producer.
#[derive(Debug)]
pub(super) struct CompletionQueues {
    state: Arc<Mutex<QueuesState>>,
    wake_flag: Arc<WakeFlag>,
}

#[derive(Debug, Default)]
struct QueuesState {
    queues: Vec<Arc<QueueInner>>,
    /// Keyed by the address of the promise, which is unique while the entry holds a reference.
    subscriptions: HashMap<usize, Subscription>,
}

#[derive(Debug)]
struct Subscription {
    _receipt: Arc<BatchPromise>,
    queues: Vec<Arc<QueueInner>>,
}

#[derive(Debug)]
struct QueueInner {
    completed: Mutex<Vec<Arc<BatchPromise>>>,
    /// Whether `completed` has entries or a requested notification has arrived.
    pending: AtomicBool,
    /// Whether the owner of the queue waits for memory or metadata.
    wants_space: AtomicBool,
    notifier: Notifier,
}

/// Channel over which a queue notifies its owner.
enum Notifier {
    Descriptor(EventFd),
    WakeFlag(Arc<WakeFlag>),
    /// Called on the thread that completes a batch, which holds the lock of the producer's event loop.
    Callback(Box<dyn Fn() + Send + Sync>),
}

impl std::fmt::Debug for Notifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Descriptor(_) => "Descriptor",
            Self::WakeFlag(_) => "WakeFlag",
            Self::Callback(_) => "Callback",
        })
    }
}

/// Queue of batch promises that have completed, in part or as a whole. Dropping it unsubscribes from all promises.
#[derive(Debug)]
pub struct CompletionQueue {
    inner: Arc<QueueInner>,
    state: Arc<Mutex<QueuesState>>,
}

impl CompletionQueues {
    pub(super) fn new(attention: Arc<WakeFlag>) -> Self {
        Self { state: Arc::default(), wake_flag: attention }
    }

    pub(super) fn create(&self, event: Option<EventFd>) -> CompletionQueue {
        self.create_with(event.map_or_else(|| Notifier::WakeFlag(Arc::clone(&self.wake_flag)), Notifier::Descriptor))
    }

    pub(super) fn create_with_callback(&self, call: Box<dyn Fn() + Send + Sync>) -> CompletionQueue {
        self.create_with(Notifier::Callback(call))
    }

    fn create_with(&self, bell: Notifier) -> CompletionQueue {
        let inner = Arc::new(QueueInner {
            completed: Mutex::default(),
            pending: AtomicBool::new(false),
            wants_space: AtomicBool::new(false),
            notifier: bell,
        });
        lock(&self.state).queues.push(Arc::clone(&inner));
        CompletionQueue { inner, state: Arc::clone(&self.state) }
    }

    /// Queues a promise whose batch has completed in part or as a whole. Called by the network thread.
    pub(super) fn complete(&self, receipt: &Arc<BatchPromise>) {
        let key = key(receipt);
        let mut state = lock(&self.state);
        let whole = receipt.is_complete();
        let watches = match state.subscriptions.get(&key) {
            Some(interest) => interest.queues.clone(),
            None => return,
        };
        if whole {
            state.subscriptions.remove(&key);
        }
        drop(state);
        for watch in watches {
            watch.completed.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(receipt));
            watch.notify();
        }
    }

    /// Notifies queues that requested it that there is memory or metadata. Called by the network thread.
    pub(super) fn notify_space(&self) {
        for watch in &lock(&self.state).queues {
            if watch.wants_space.swap(false, Ordering::AcqRel) {
                watch.notify();
            }
        }
    }

    /// Notifies all queues that no more batches complete. Called by the network thread.
    pub(super) fn notify_closed(&self) {
        // Without the lock, because a callback may register further promises.
        let watches = lock(&self.state).queues.clone();
        watches.iter().for_each(|watch| watch.notify());
    }
}

impl QueueInner {
    /// Sets `pending` before the descriptor becomes readable; [`CompletionQueue::drain`] clears it after the
    /// descriptor.
    fn notify(&self) {
        if !self.pending.swap(true, Ordering::AcqRel) {
            match &self.notifier {
                Notifier::Descriptor(event) => event.signal(),
                Notifier::WakeFlag(attention) => attention.raise(),
                Notifier::Callback(call) => call(),
            }
        }
    }
}

impl CompletionQueue {
    /// Subscribes to a promise. Returns false if its batch has already completed, so that no notification follows.
    /// Parts that completed earlier are not reported: check the result after this call.
    pub fn register(&self, receipt: &Arc<BatchPromise>) -> bool {
        let key = key(receipt);
        let mut state = lock(&self.state);
        let interest = state
            .subscriptions
            .entry(key)
            .or_insert_with(|| Subscription { _receipt: Arc::clone(receipt), queues: Vec::with_capacity(1) });
        if interest.queues.iter().any(|watch| Arc::ptr_eq(watch, &self.inner)) {
            return true;
        }
        interest.queues.push(Arc::clone(&self.inner));
        // The network thread completes the promise first, then looks up subscriptions under the lock held here.
        if receipt.watch() {
            return true;
        }
        if let Some(interest) = state.subscriptions.get_mut(&key) {
            interest.queues.retain(|watch| !Arc::ptr_eq(watch, &self.inner));
            if interest.queues.is_empty() {
                state.subscriptions.remove(&key);
            }
        }
        false
    }

    /// Requests one notification when there may be memory or metadata. Check the condition after this call.
    pub fn request_space(&self) {
        self.inner.wants_space.store(true, Ordering::SeqCst);
    }

    /// Returns whether [`CompletionQueue::drain`] has promises to return, or a notification is pending.
    pub fn is_pending(&self) -> bool {
        self.inner.pending.load(Ordering::Acquire)
    }

    /// Takes the promises that have completed, in part or as a whole, since the last call. A notification after
    /// `pending` is cleared finds it clear and signals again. A notification before that has already added its promise,
    /// because the list is filled before `pending` is set.
    #[must_use]
    pub fn drain(&self) -> Vec<Arc<BatchPromise>> {
        if let Notifier::Descriptor(event) = &self.inner.notifier {
            event.clear();
        }
        self.inner.pending.store(false, Ordering::SeqCst);
        std::mem::take(&mut *self.inner.completed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns a descriptor that is readable while the queue is pending; `None`: the queue has no descriptor.
    pub fn fd(&self) -> Option<RawFd> {
        match &self.inner.notifier {
            Notifier::Descriptor(event) => Some(event.as_raw_fd()),
            Notifier::WakeFlag(_) | Notifier::Callback(_) => None,
        }
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        state.queues.retain(|watch| !Arc::ptr_eq(watch, &self.inner));
        state.subscriptions.retain(|_, interest| {
            interest.queues.retain(|watch| !Arc::ptr_eq(watch, &self.inner));
            !interest.queues.is_empty()
        });
    }
}

fn key(receipt: &Arc<BatchPromise>) -> usize {
    Arc::as_ptr(receipt) as usize
}

fn lock(state: &Mutex<QueuesState>) -> std::sync::MutexGuard<'_, QueuesState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
