//! Outputs of handlers: connects the producer's threads with the jobs and marks that wait for produced records.
//!
//! The producer reports completed batches on the thread that reads the response, under the lock of its event loop. That
//! thread then takes the dispatcher's lock, ends jobs and wakes workers, without an interpreter. Lock order: event
//! loop, dispatcher, completion queue. So no code here calls the producer under the dispatcher's lock, except to
//! register with the completion queue.
//!
//! A batch may complete while a job begins to wait for it. [`CompletionQueue::register`] decides this race: it returns
//! `false` if the batch completed before the registration, and the job then checks the result itself.

use std::sync::{Arc, MutexGuard, Weak};

use grete_proto::dispatch::{ClientId, Pool};
use grete_proto::producer::BatchPromise;
use grete_proto::time::Nanos;

use super::state::{LeasedJob, State};
use super::{Dispatcher, DispatcherInner, JobToken};
use crate::error::ClientError;
use crate::producer::{CompletionQueue, Producer};

/// Producer of the handlers' records.
#[derive(Debug)]
pub(super) struct OutputProducer {
    producer: Producer,
    completions: CompletionQueue,
}

impl Dispatcher {
    /// Sets the only producer of the handlers. Its records hold back the offsets of the jobs that produced them.
    pub fn set_producer(&self, producer: &Producer) {
        let shared = Arc::downgrade(&self.inner);
        self.inner.output_producer.get_or_init(|| {
            let watch = producer.completion_queue_with_callback(move || {
                // Without a dispatcher no job waits.
                if let Some(dispatcher) = upgrade(&shared) {
                    dispatcher.on_outputs_settled();
                }
            });
            OutputProducer { producer: producer.clone(), completions: watch }
        });
    }

    /// Suspends a job whose handler raised until its produced records are completed. Returns `true` if such records are
    /// pending: the job then returns to a worker to be failed. `false`: fail the job now.
    ///
    /// # Errors
    /// [`ClientError::Forked`] in a forked child of the process that created the dispatcher.
    pub fn await_outputs(&self, token: &JobToken) -> Result<bool, ClientError> {
        self.check_fork()?;
        let now = self.now();
        let mut state = self.lock();
        let Some(LeasedJob { lease, ended: over }) = state.leases.remove(&token.id) else { return Ok(false) };
        let awaiting = match state.dispatch.suspend_raised(now, token.id, lease) {
            Ok(()) => true,
            Err(lease) => {
                state.leases.insert(token.id, LeasedJob { lease, ended: over });
                return Ok(false);
            }
        };
        if token.pool == Pool::EventLoop
            && let Some(looping) = self.async_queue()
        {
            self.report_unblocked(looping.job_ended(now, token.id));
        }
        let state = self.flush_outputs(state, now);
        self.unlock_and_wake(state);
        Ok(awaiting)
    }

    /// Ends all waits of jobs and marks for outputs, because the producer has ended. Only written records count.
    pub(crate) fn finish_outputs(&self) {
        let now = self.now();
        let mut state = self.lock();
        state.dispatch.on_producer_closed(now);
        state.wake_clients();
        self.unlock_and_wake(state);
    }

    /// Subscribes to the outputs of a job whose mark may wait for them.
    pub(super) fn await_mark_outputs(&self, token: &JobToken) {
        if token.shared.pending_outputs() == 0 {
            return;
        }
        let now = self.now();
        let mut state = self.lock();
        state.dispatch.watch_held_marks(token.lane, &token.shared);
        let state = self.flush_outputs(state, now);
        self.unlock_and_wake(state);
    }

    /// Subscribes to the batches that jobs have begun to wait for, and sends them.
    pub(super) fn flush_outputs<'a>(&'a self, mut state: MutexGuard<'a, State>, now: Nanos) -> MutexGuard<'a, State> {
        let Some(source) = self.inner.output_producer.get() else { return state };
        let send = state.register_outputs(&source.completions, now);
        if send.is_empty() {
            return state;
        }
        self.unlock_and_wake(state);
        source.producer.send_now(&send);
        self.lock()
    }

    /// Handles completed batches, on the thread that completed them.
    fn on_outputs_settled(&self) {
        let Some(source) = self.inner.output_producer.get() else { return };
        if self.check_fork().is_err() {
            return;
        }
        let receipts = source.completions.drain();
        let ended = source.producer.ended_error().is_some();
        let now = self.now();
        let mut state = self.lock();
        for receipt in &receipts {
            state.dispatch.on_batch_settled(now, receipt);
        }
        if ended {
            state.dispatch.on_producer_closed(now);
        }
        state.wake_clients();
        // Batches that are still waited for were sent when the wait began.
        let _ = state.register_outputs(&source.completions, now);
        self.unlock_and_wake(state);
    }
}

impl State {
    /// Subscribes to the batches that jobs and marks have begun to wait for. Returns the batches to send.
    fn register_outputs(&mut self, watch: &CompletionQueue, now: Nanos) -> Vec<Arc<BatchPromise>> {
        let mut send = Vec::new();
        loop {
            let outgoing = self.dispatch.take_delivery_actions();
            if outgoing.is_empty() {
                return send;
            }
            send.extend(outgoing.flush);
            for receipt in outgoing.watch {
                if !watch.register(&receipt) {
                    self.dispatch.on_batch_settled(now, &receipt);
                    self.wake_clients();
                }
            }
        }
    }

    fn wake_clients(&mut self) {
        for client in 0..self.clients.len() {
            self.wake_client(ClientId(u32::try_from(client).unwrap_or(u32::MAX)));
        }
    }
}

fn upgrade(shared: &Weak<DispatcherInner>) -> Option<Dispatcher> {
    Some(Dispatcher { inner: shared.upgrade()? })
}
