//! End of a consumer: the close, and what happens when the last handle is dropped.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use grete_proto::consumer::ConsumerEvent;

use super::{Consumer, ConsumerInner};
use crate::error::ClientError;

/// Timeout of the close of the producer of transactions, after the last transaction has ended or was given up.
const TRANSACTIONS_CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

impl Consumer {
    /// Commits processed offsets, leaves the group and ends the network thread. A low-level consumer without
    /// `enable.auto.commit` commits nothing here. A second call waits for the end of the first.
    ///
    /// # Errors
    /// Fails if the group could not be left within `timeout`; the thread then ends by itself.
    pub fn close(&self, timeout: Duration) -> Result<(), ClientError> {
        self.begin_close(timeout)?;
        self.await_close(timeout, || self.inner.dispatcher.log_events().write_pending())
    }

    /// Begins [`Consumer::close`] without waiting.
    pub(crate) fn begin_close(&self, timeout: Duration) -> Result<(), ClientError> {
        let shared = &*self.inner;
        if shared.fork_generation != grete_sys::fork::generation() {
            return Err(ClientError::Forked { what: "consumer" });
        }
        if shared.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let offsets =
            shared.auto_commit.then(|| shared.dispatcher.lock().dispatch.take_committables(shared.client, false));
        let deadline = shared.dispatcher.clock().now() + u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX / 2);
        let keep_place = !shared.leave_on_close.load(Ordering::Acquire);
        shared.requests.send(ConsumerEvent::Close { offsets, deadline, remain_in_group: keep_place });
        Ok(())
    }

    /// Waits for the end of [`Consumer::close`]. `before_wait` is called before each sleep; if it returns true, the
    /// wait ends.
    pub(crate) fn await_close(&self, timeout: Duration, before_wait: impl Fn() -> bool) -> Result<(), ClientError> {
        let shared = &*self.inner;
        // The core keeps the deadline; the margin allows for the scheduling of the network thread.
        let ended = shared.requests.wait_until_closed(timeout + Duration::from_secs(1), before_wait);
        shared.dispatcher.set_waker(shared.client, None);
        if let Some(transactions) = &shared.transactions {
            transactions.close(TRANSACTIONS_CLOSE_TIMEOUT);
        }
        let thread = shared.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if !ended {
            return Err(self.timed_out("close", timeout));
        }
        if let Some(thread) = thread {
            // A panic of the thread was already reported as the failure of the client.
            let _ = thread.join();
        }
        Ok(())
    }

    /// Makes a static member leave its group on close, because it will not return under its `group.instance.id` and its
    /// partitions must move at once. Without this call the coordinator keeps its partitions for `session.timeout.ms`.
    pub fn leave_group_on_close(&self) {
        self.inner.leave_on_close.store(true, Ordering::Release);
    }
}

impl Drop for ConsumerInner {
    fn drop(&mut self) {
        if self.fork_generation != grete_sys::fork::generation() {
            // The thread is the parent's, so this process must not join it, wake it, or free what it uses.
            std::mem::forget(self.thread.lock().unwrap_or_else(PoisonError::into_inner).take());
            return;
        }
        if !self.closed.load(Ordering::Acquire) {
            // Dropped without a close: the thread ends at once, and the group notices when the session expires.
            self.requests.send(ConsumerEvent::Close { offsets: None, deadline: 0, remain_in_group: true });
        }
    }
}
