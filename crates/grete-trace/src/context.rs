//! What of a span other spans, and other processes, need to know.

/// Where in which trace a span stands. It travels in headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanContext {
    /// The trace's id, never 0.
    pub trace_id: u128,
    /// The span's id, never 0.
    pub span_id: u64,
    /// Whether the trace is to be kept: 1 and 2 yes, 0 and -1 no; the even more certain ones are a user's word. None if nobody
    /// has decided.
    pub priority: Option<i32>,
    /// Where the trace began (`synthetics`, `rum`); may be empty.
    pub origin: Box<str>,
    /// Tags that go with the trace: keys begin with `_dd.p.`.
    pub tags: Box<[(Box<str>, Box<str>)]>,
    /// Other vendors' members of W3C's tracestate; may be empty.
    pub tracestate: Box<str>,
}

impl SpanContext {
    /// W3C's flags: bit 0 if the trace is to be kept.
    #[must_use]
    pub fn flags(&self) -> u8 {
        u8::from(self.priority.is_some_and(|priority| priority > 0))
    }
}
