//! Close of a producer.

use std::time::Duration;

use super::undelivered::Undelivered;
use super::wait_outcome::WaitOutcome;
use super::{Deadline, Producer};
use crate::error::ClientError;

/// Result of [`Producer::await_close`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloseStatus {
    /// The network thread has ended and left these records undelivered.
    Done(Undelivered),
    /// A Unix signal arrived: let its handler run, then call again.
    Interrupted,
    /// The network thread has not ended in time: it continues in the background. Its incomplete records count as
    /// undelivered, with an unknown outcome.
    TimedOut(Undelivered),
}

/// Time that callers wait beyond the deadline, so that the network thread gets scheduled.
const SCHEDULING_MARGIN: Duration = Duration::from_secs(1);

impl Producer {
    /// Refuses further records, sends buffered records without lingering, and drops what is left when the timeout has
    /// passed. Of several calls the earliest deadline counts.
    ///
    /// # Errors
    /// Fails in a forked child.
    pub fn close(&self, timeout: Duration) -> Result<Deadline, ClientError> {
        if self.inner.is_forked() {
            return Err(ClientError::Forked { what: "producer" });
        }
        let deadline = self.deadline(timeout);
        self.inner.begin_close();
        if !self.inner.has_ended() {
            self.inner.set_close_deadline(deadline);
            // Buffered records are on their way before the network thread is scheduled; that thread ends by itself.
            self.loop_handle.step_here();
            if self.is_threadless() {
                self.inner.finish();
            } else {
                self.loop_handle.wake();
            }
        }
        Ok(deadline.saturating_add(u64::try_from(SCHEDULING_MARGIN.as_nanos()).unwrap_or(0)))
    }

    /// Sleeps until the network thread has ended. `before_wait` is called before each sleep, and soon after a log
    /// event; if it returns true, the wait is interrupted.
    #[must_use]
    pub fn await_close(&self, deadline: Deadline, before_wait: impl Fn() -> bool) -> CloseStatus {
        loop {
            if self.inner.has_ended() {
                if let Some(thread) = self.inner.take_thread() {
                    // A panic of the thread was already reported as the failure of the producer.
                    let _ = thread.join();
                }
                return CloseStatus::Done(self.inner.undelivered());
            }
            match self.inner.wait_until_ended(deadline, &before_wait) {
                WaitOutcome::Interrupted => return CloseStatus::Interrupted,
                WaitOutcome::TimedOut => return CloseStatus::TimedOut(self.inner.undelivered_by_now()),
                WaitOutcome::Woken | WaitOutcome::Ended => {}
            }
        }
    }
}
