//! Span context: the part of a span that other spans and processes need.

/// Identity of a span and its trace, as propagated in headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanContext {
    /// The trace's id, never 0.
    pub trace_id: u128,
    /// The span's id, never 0.
    pub span_id: u64,
    /// Sampling priority: 1 and 2 keep the trace, 0 and -1 drop it; 2 and -1 are a user's explicit decision. `None`: no
    /// process has decided yet.
    pub priority: Option<i32>,
    /// Origin of the trace (`synthetics`, `rum`); may be empty.
    pub origin: Box<str>,
    /// Tags propagated with the trace; their keys begin with `_dd.p.`.
    pub tags: Box<[(Box<str>, Box<str>)]>,
    /// Members of other vendors in W3C's tracestate; may be empty.
    pub tracestate: Box<str>,
}

impl SpanContext {
    /// Returns W3C's trace flags: bit 0 is set if the trace is kept.
    pub fn flags(&self) -> u8 {
        u8::from(self.priority.is_some_and(|priority| priority > 0))
    }
}
