//! What one process adds to one trace, or a part of it.

use crate::span::Span;

/// Finished spans of one trace, to be sent together.
#[derive(Debug, Clone)]
pub(crate) struct Chunk {
    /// At least one. The order is that of their ends.
    pub(crate) spans: Vec<Span>,
    /// What they hold.
    pub(crate) span_bytes: usize,
    /// Which of them speaks for the trace: the one that has no parent in this process, or the first.
    pub(crate) head: usize,
    /// Whether the trace is to be kept.
    pub(crate) priority: i32,
    /// The rate of the agent's that decided so, where one did.
    pub(crate) rate: Option<f64>,
    /// Where the trace began; may be empty.
    pub(crate) origin: Box<str>,
    /// Other vendors' members of W3C's tracestate; may be empty.
    pub(crate) tracestate: Box<str>,
    /// Tags that go with the trace.
    pub(crate) tags: Box<[(Box<str>, Box<str>)]>,
}

impl Chunk {
    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.span_bytes
    }

    /// The spans, the head first.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = (bool, &Span)> {
        let head = self.spans.get(self.head).map(|span| (true, span));
        let others = self.spans.iter().enumerate().filter(|&(index, _)| index != self.head);
        head.into_iter().chain(others.map(|(_, span)| (false, span)))
    }
}
