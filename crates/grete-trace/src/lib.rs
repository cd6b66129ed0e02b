//! Apart: spans, from plain structs to a Datadog agent or an OpenTelemetry collector, by a thread of their own.
//!
//! A [`Trace`] collects the spans that this process adds to one trace; when none of them is open any more they go, as one
//! chunk, into a queue that is bounded by count and bytes. The sender's thread takes them out, encodes them into one
//! buffer that it keeps, and sends that over a connection that it keeps. What does not fit, or cannot be sent, is dropped
//! and counted; nobody waits for an agent but who asks for it ([`Tracer::flush`], [`Tracer::close`]).
#![deny(unsafe_code)] // allowed in `sys` only

mod agent;
mod backoff;
mod chunk;
mod clock;
mod config;
mod connection;
mod context;
mod counters;
mod datadog;
mod error;
mod http;
mod ids;
mod msgpack;
mod otlp;
mod payload;
mod propagation;
mod protobuf;
mod queue;
mod rates;
mod retry_after;
mod sampler;
mod sender;
mod span;
mod sys;
mod trace;
mod tracer;

pub use agent::Agent;
pub use config::{Config, Format};
pub use context::SpanContext;
pub use counters::{Drops, Reason, Statistics};
pub use error::AgentError;
pub use propagation::{Extracted, HEADERS, extract, inject};
pub use span::{Link, Number, Span};
pub use trace::Trace;
pub use tracer::Tracer;
