//! Tracing: spans as plain structs, sent to a Datadog agent or an OpenTelemetry collector by a background thread.
//!
//! - [`Tracer`]: creates traces. It has a queue, which is bounded by count and bytes, and the sender's thread.
//! - [`LocalTrace`]: the spans that this process adds to one trace. When none of them is open any more, they go into
//!   the queue as one chunk.
//! - [`Span`]: name, resource, tags, metrics and links of one operation.
//!
//! The sender's thread encodes chunks into one reused buffer and sends that over one kept connection. Spans that do not
//! fit or cannot be sent are dropped and counted. Only [`Tracer::flush`] and [`Tracer::close`] wait for an agent.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use grete_trace::{AgentEndpoint, Config, Span, Tracer};
//!
//! let tracer = Tracer::new(Config::new("orders", AgentEndpoint::from_url("http://localhost:8126", 8126)?));
//! let (trace, parent_id) = tracer.trace(None, None);
//! let mut span = Span::new(Arc::clone(trace.service()), "kafka.process", Some("orders"), "worker");
//! trace.start_span(&mut span, parent_id);
//! span.set_tag("messaging.system", "kafka");
//! trace.finish_span(span);
//! # Ok::<(), grete_trace::EndpointError>(())
//! ```
#![deny(unsafe_code)]

mod chunk;
mod clock;
mod config;
mod context;
mod counters;
mod encode;
mod endpoint;
mod ids;
mod local_trace;
mod process_state;
mod propagation;
mod sampling;
mod span;
mod span_queue;
mod tracer;
mod transport;

pub use config::{Config, Format};
pub use context::SpanContext;
pub use counters::{Drops, SpanDropReason, Statistics};
pub use endpoint::{AgentEndpoint, EndpointError};
pub use local_trace::LocalTrace;
pub use propagation::{ExtractedContext, HEADERS, extract, inject};
pub use span::{Link, Number, Span};
pub use tracer::Tracer;
