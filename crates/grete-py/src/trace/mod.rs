//! Tracing: spans, and the tracer that makes them.
//!
//! The whole hot path is here, and no part of it waits for the agent.

mod context;
mod current;
mod job_spans;
mod remote_parents;
mod span;
mod tracer;

pub(crate) use context::SpanContext;
pub(crate) use span::Span;
pub(crate) use tracer::Tracer;
