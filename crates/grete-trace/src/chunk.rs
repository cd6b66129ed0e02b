//! Trace chunk: spans that one process adds to one trace.

use crate::span::Span;

/// Finished spans of one trace, which are sent together.
#[derive(Debug, Clone)]
pub(crate) struct Chunk {
    /// Spans in the order of their ends; at least one.
    pub(crate) spans: Vec<Span>,
    /// Bytes of the spans.
    pub(crate) span_bytes: usize,
    /// Index of the span that represents the trace: the one without a parent in this process, or the first.
    pub(crate) head: usize,
    /// Sampling priority; positive: keep the trace.
    pub(crate) priority: i32,
    /// Agent's sampling rate that decided the priority; `None`: no rate did.
    pub(crate) rate: Option<f64>,
    /// Origin of the trace; may be empty.
    pub(crate) origin: Box<str>,
    /// Members of other vendors in W3C's tracestate; may be empty.
    pub(crate) tracestate: Box<str>,
    /// Tags that are propagated with the trace.
    pub(crate) tags: Box<[(Box<str>, Box<str>)]>,
}

impl Chunk {
    /// Returns the bytes of the chunk in memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.span_bytes
    }

    /// Returns the spans, each with whether it is the head; the head comes first.
    pub(crate) fn head_first(&self) -> impl Iterator<Item = (bool, &Span)> {
        let head = self.spans.get(self.head).map(|span| (true, span));
        let others = self.spans.iter().enumerate().filter(|&(index, _)| index != self.head);
        head.into_iter().chain(others.map(|(_, span)| (false, span)))
    }
}
