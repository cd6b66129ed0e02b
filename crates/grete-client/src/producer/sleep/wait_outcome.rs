//! Outcome of a caller's wait.

use grete_sys::WakeReason;

/// Reason for the end of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitOutcome {
    /// The word may have changed: check again.
    Woken,
    /// The deadline has passed.
    TimedOut,
    /// A Unix signal arrived, or the log sink raised an exception. Let the signal's handler run, or raise, then
    /// continue.
    Interrupted,
    /// The network thread has ended: no more batches complete.
    Ended,
}

impl From<WakeReason> for WaitOutcome {
    fn from(reason: WakeReason) -> Self {
        match reason {
            WakeReason::Woken => Self::Woken,
            WakeReason::TimedOut => Self::TimedOut,
            WakeReason::Interrupted => Self::Interrupted,
        }
    }
}
