//! What has become of spans.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Why spans were dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Too many were waiting already.
    Full,
    /// The agent could not be reached, or went away in the midst of it.
    Away,
    /// It did not answer in time.
    Slow,
    /// It answered 429: it has too much to do.
    Busy,
    /// It answered 5xx.
    Failing,
    /// It answered 413, or one trace alone is larger than a request may be.
    TooLarge,
    /// It answered another 4xx, sent us elsewhere, or said that it has not taken these.
    Refused,
    /// What it answered was no HTTP, or would not end.
    Garbled,
    /// The tracer was closed before they could be sent.
    Closed,
    /// Whoever began the trace does not want it kept, and a collector gets only those that are.
    Unsampled,
}

impl Reason {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Full,
        Self::Away,
        Self::Slow,
        Self::Busy,
        Self::Failing,
        Self::TooLarge,
        Self::Refused,
        Self::Garbled,
        Self::Closed,
        Self::Unsampled,
    ];

    /// As statistics have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Away => "away",
            Self::Slow => "slow",
            Self::Busy => "busy",
            Self::Failing => "failing",
            Self::TooLarge => "too_large",
            Self::Refused => "refused",
            Self::Garbled => "garbled",
            Self::Closed => "closed",
            Self::Unsampled => "unsampled",
        }
    }
}

/// Dropped spans by reason.
pub type Drops = [(Reason, u64); Reason::ALL.len()];

/// Of one tracer in one process, since it was made or forked.
#[derive(Debug, Clone)]
pub struct Statistics {
    /// Spans that were begun.
    pub started: u64,
    /// And finished.
    pub finished: u64,
    /// Spans that nobody holds any more and nobody has finished: they are not sent.
    pub abandoned: u64,
    /// Values that were too long, too many, or no numbers.
    pub cut: u64,
    /// Spans that the agent has taken.
    pub sent: u64,
    /// The requests for that.
    pub payloads: u64,
    /// And their bytes, without heads.
    pub bytes: u64,
    /// Requests that were sent again.
    pub retried: u64,
    /// Spans that the agent has not got, and why.
    pub dropped: Drops,
    /// Headers that said nothing that could be understood.
    pub broken_headers: u64,
    /// Finished spans that wait, those under way included.
    pub waiting: usize,
    /// Their bytes.
    pub waiting_bytes: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) started: AtomicU64,
    pub(crate) finished: AtomicU64,
    pub(crate) abandoned: AtomicU64,
    pub(crate) cut: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) payloads: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) retried: AtomicU64,
    pub(crate) broken_headers: AtomicU64,
    dropped: [AtomicU64; Reason::ALL.len()],
}

impl Counters {
    pub(crate) fn drop_spans(&self, reason: Reason, count: usize) {
        if let Some(counter) = self.dropped.get(reason as usize) {
            counter.fetch_add(count as u64, Relaxed);
        }
    }

    pub(crate) fn read(&self, waiting: usize, waiting_bytes: usize) -> Statistics {
        let dropped = |reason: Reason| self.dropped.get(reason as usize).map_or(0, |counter| counter.load(Relaxed));
        Statistics {
            started: self.started.load(Relaxed),
            finished: self.finished.load(Relaxed),
            abandoned: self.abandoned.load(Relaxed),
            cut: self.cut.load(Relaxed),
            sent: self.sent.load(Relaxed),
            payloads: self.payloads.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            retried: self.retried.load(Relaxed),
            dropped: Reason::ALL.map(|reason| (reason, dropped(reason))),
            broken_headers: self.broken_headers.load(Relaxed),
            waiting,
            waiting_bytes,
        }
    }
}
