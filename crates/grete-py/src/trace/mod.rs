//! Spans and what makes them. All that is hot is here, and none of it waits for the agent.

mod context;
mod current;
mod handling;
mod parents;
mod span;
mod text;
mod tracer;

pub(crate) use context::SpanContext;
pub(crate) use span::Span;
pub(crate) use tracer::Tracer;
