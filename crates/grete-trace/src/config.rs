//! Configuration of a tracer.

use std::time::Duration;

use crate::endpoint::AgentEndpoint;

/// Wire format of spans, and the kind of receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// Datadog's agent: MessagePack, v0.4. It receives the spans of all traces, computes statistics, and returns
    /// sampling rates.
    Datadog,
    /// OpenTelemetry collector: OTLP over HTTP in Protocol Buffers. It receives the spans of sampled traces only.
    Otlp {
        /// Additional resource attributes, as `("cloud.region", "eu-west-1")`.
        resource: Box<[(Box<str>, Box<str>)]>,
    },
}

/// Configuration of a tracer.
#[derive(Debug, Clone)]
pub struct Config {
    /// Name of the service.
    pub service: Box<str>,
    /// Environment ("production"); may be empty.
    pub env: Box<str>,
    /// Version of the service; may be empty.
    pub version: Box<str>,
    /// Endpoint of the agent or collector.
    pub agent: AgentEndpoint,
    /// Wire format of the receiver.
    pub format: Format,
    /// Request path after the endpoint's own prefix: "/v0.4/traces", "/v1/traces".
    pub path: Box<str>,
    /// Headers of each request, in addition to those of the format.
    pub headers: Box<[(Box<str>, Box<str>)]>,
    /// Language version and implementation, for the headers or resource attributes.
    pub language: (Box<str>, Box<str>),
    /// Maximum number of finished spans in the queue; beyond it the newest are dropped.
    pub max_spans: usize,
    /// Maximum bytes of these spans in memory.
    pub max_bytes: usize,
    /// Maximum bytes of a request's body.
    pub max_payload: usize,
    /// How long spans wait for others before they are sent.
    pub interval: Duration,
    /// Timeout of a connection attempt, and of an exchange from the request's first byte to the response's last.
    pub timeout: Duration,
}

impl Config {
    /// Creates the default configuration for `service` and a Datadog agent.
    pub fn new(service: &str, agent: AgentEndpoint) -> Self {
        Self {
            service: service.into(),
            env: "".into(),
            version: "".into(),
            agent,
            format: Format::Datadog,
            path: "/v0.4/traces".into(),
            headers: [].into(),
            language: ("".into(), "".into()),
            max_spans: 65_536,
            max_bytes: 32 << 20,
            max_payload: 8 << 20,
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(2),
        }
    }
}
