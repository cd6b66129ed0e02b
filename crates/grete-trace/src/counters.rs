//! Counters of started, sent and dropped spans.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Reason why spans were dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanDropReason {
    /// The queue was full.
    QueueFull,
    /// The agent could not be reached, or the connection broke during the exchange.
    Unreachable,
    /// The agent did not respond in time.
    TimedOut,
    /// The agent responded with 429 (overloaded).
    Throttled,
    /// The agent responded with 5xx.
    ServerError,
    /// The agent responded with 413, or a single trace exceeds the maximum request size.
    TooLarge,
    /// The agent responded with another 4xx or a redirect, or reported the spans as rejected.
    Rejected,
    /// The response was not HTTP, or exceeded the maximum size.
    InvalidResponse,
    /// The tracer was closed before the spans were sent.
    Closed,
    /// The trace is not sampled, and a collector receives only sampled traces.
    NotSampled,
}

impl SpanDropReason {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::QueueFull,
        Self::Unreachable,
        Self::TimedOut,
        Self::Throttled,
        Self::ServerError,
        Self::TooLarge,
        Self::Rejected,
        Self::InvalidResponse,
        Self::Closed,
        Self::NotSampled,
    ];

    /// Returns the name used in statistics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "full",
            Self::Unreachable => "away",
            Self::TimedOut => "slow",
            Self::Throttled => "busy",
            Self::ServerError => "failing",
            Self::TooLarge => "too_large",
            Self::Rejected => "refused",
            Self::InvalidResponse => "garbled",
            Self::Closed => "closed",
            Self::NotSampled => "unsampled",
        }
    }
}

/// Number of dropped spans by reason.
pub type Drops = [(SpanDropReason, u64); SpanDropReason::ALL.len()];

/// Statistics of one tracer in one process, since it was created or forked.
#[derive(Debug, Clone)]
pub struct Statistics {
    /// Spans that were started.
    pub started: u64,
    /// Spans that were finished.
    pub finished: u64,
    /// Spans that were dropped by the application without being finished; they are not sent.
    pub abandoned: u64,
    /// Values that were too long, too many, or not finite numbers.
    pub truncated: u64,
    /// Spans that the agent has accepted.
    pub sent: u64,
    /// Requests with accepted spans.
    pub payloads: u64,
    /// Bytes of the bodies of these requests.
    pub bytes: u64,
    /// Requests that were repeated.
    pub retried: u64,
    /// Spans that the agent has not accepted, by reason.
    pub dropped: Drops,
    /// Trace headers that could not be parsed.
    pub broken_headers: u64,
    /// Finished spans in the queue, including those that are being sent.
    pub pending_spans: usize,
    /// Bytes of these spans in memory.
    pub pending_bytes: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) started: AtomicU64,
    pub(crate) finished: AtomicU64,
    pub(crate) abandoned: AtomicU64,
    pub(crate) truncated: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) payloads: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) retried: AtomicU64,
    pub(crate) broken_headers: AtomicU64,
    dropped: [AtomicU64; SpanDropReason::ALL.len()],
}

impl Counters {
    pub(crate) fn count_dropped(&self, reason: SpanDropReason, count: usize) {
        if let Some(counter) = self.dropped.get(reason as usize) {
            counter.fetch_add(count as u64, Relaxed);
        }
    }

    pub(crate) fn snapshot(&self, waiting: usize, waiting_bytes: usize) -> Statistics {
        let dropped =
            |reason: SpanDropReason| self.dropped.get(reason as usize).map_or(0, |counter| counter.load(Relaxed));
        Statistics {
            started: self.started.load(Relaxed),
            finished: self.finished.load(Relaxed),
            abandoned: self.abandoned.load(Relaxed),
            truncated: self.truncated.load(Relaxed),
            sent: self.sent.load(Relaxed),
            payloads: self.payloads.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            retried: self.retried.load(Relaxed),
            dropped: SpanDropReason::ALL.map(|reason| (reason, dropped(reason))),
            broken_headers: self.broken_headers.load(Relaxed),
            pending_spans: waiting,
            pending_bytes: waiting_bytes,
        }
    }
}
