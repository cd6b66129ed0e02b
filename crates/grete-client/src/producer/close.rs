//! The end that users ask for, and what it left undone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use grete_net::Remote;

use super::driver::Driver;
use super::shared::Shared;
use super::{Deadline, Producer, Slept};
use crate::error::ClientError;

/// Records that were given up while the producer closed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Undelivered {
    /// Records by topic, unless a fault of ours has lost count.
    pub by_topic: BTreeMap<String, u64>,
    /// No broker has these.
    pub not_written: u64,
    /// Nobody knows of these.
    pub unknown: u64,
}

impl Undelivered {
    /// All of them.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.not_written + self.unknown
    }

    pub(super) fn add(&mut self, topic: &str, records: u64, unknown: bool) {
        *self.by_topic.entry(topic.to_owned()).or_default() += records;
        *(if unknown { &mut self.unknown } else { &mut self.not_written }) += records;
    }
}

/// How a look at a closing ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closing {
    /// The network thread has ended; this was left.
    Done(Undelivered),
    /// A Unix signal: let its handler run, then look again.
    Interrupted,
    /// The network thread has not ended in time: it goes on alone.
    TimedOut(Undelivered),
}

/// What the network thread gets beyond its deadline, for getting the processor.
const MARGIN: Duration = Duration::from_secs(1);
/// How long a producer that nobody closed goes on in the background.
const ABANDONED: Duration = Duration::from_secs(30);

impl Producer {
    /// Takes no more records, sends what there is without lingering, and gives up what is left when the time is up. Of
    /// several calls the earliest end counts.
    ///
    /// # Errors
    /// In a forked child.
    pub fn close(&self, timeout: Duration) -> Result<Deadline, ClientError> {
        if self.shared.is_foreign() {
            return Err(ClientError::Forked { what: "producer" });
        }
        let deadline = self.deadline(timeout);
        self.shared.close_once();
        if !self.shared.has_ended() {
            self.shared.set_closing(deadline);
            // What is there is on its way before the network thread gets the processor; its end is that thread's own.
            self.remote.step_here();
            self.remote.wake();
        }
        Ok(deadline.saturating_add(u64::try_from(MARGIN.as_nanos()).unwrap_or(0)))
    }

    /// Sleeps until the network thread has ended.
    #[must_use]
    pub fn await_close(&self, deadline: Deadline) -> Closing {
        loop {
            if self.shared.has_ended() {
                if let Some(thread) = self.shared.take_thread() {
                    // It has said its last word: a panic in it was reported as the producer's failure.
                    let _ = thread.join();
                }
                return Closing::Done(self.shared.undelivered());
            }
            match self.shared.sleep_until_end(deadline) {
                Slept::Interrupted => return Closing::Interrupted,
                Slept::TimedOut => return Closing::TimedOut(self.shared.undelivered()),
                Slept::Woken | Slept::Ended => {}
            }
        }
    }
}

/// Closes a producer whose last handle is dropped: what was appended is still sent, in the background.
pub(super) struct Owner {
    pub(super) shared: Arc<Shared>,
    pub(super) remote: Remote<Driver>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        if !self.shared.is_foreign() && self.shared.close_once() {
            let timeout = u64::try_from(ABANDONED.as_nanos()).unwrap_or(0);
            self.shared.set_closing(self.shared.stamps.clock().now().saturating_add(timeout));
            self.remote.wake();
        }
    }
}
