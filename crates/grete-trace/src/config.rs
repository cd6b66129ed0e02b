//! What a tracer is told when it is made.

use std::time::Duration;

use crate::agent::Agent;

/// How spans are written, and what is asked of whoever gets them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// Datadog's agent: MessagePack, v0.4. It gets the spans of all traces, computes statistics, and says how many to keep.
    Datadog,
    /// An OpenTelemetry collector: OTLP over HTTP in Protocol Buffers. It gets those of traces that are kept.
    Otlp {
        /// What else is said of the process: `("cloud.region", "eu-west-1")`.
        resource: Box<[(Box<str>, Box<str>)]>,
    },
}

/// What a tracer is told when it is made.
#[derive(Debug, Clone)]
pub struct Config {
    /// Who this is.
    pub service: Box<str>,
    /// Where it runs ("production"); may be empty.
    pub env: Box<str>,
    /// Which version of it; may be empty.
    pub version: Box<str>,
    /// Where the agent, or the collector, listens.
    pub agent: Agent,
    /// What it wants.
    pub format: Format,
    /// What is asked for there, behind the agent's own prefix: "/v0.4/traces", "/v1/traces".
    pub path: Box<str>,
    /// Headers of each request beside those that belong to the format.
    pub headers: Box<[(Box<str>, Box<str>)]>,
    /// What the headers say of the language: its version, and the implementation.
    pub language: (Box<str>, Box<str>),
    /// Finished spans that wait to be sent, at most; beyond it the newest are dropped.
    pub max_spans: usize,
    /// And their bytes.
    pub max_bytes: usize,
    /// Bytes of a request's body, at most.
    pub max_payload: usize,
    /// Spans wait this long for others before they are sent.
    pub interval: Duration,
    /// For a connection, and for an exchange from the request's first byte to the answer's last one.
    pub timeout: Duration,
}

impl Config {
    /// For `service` and an agent, with what is usual.
    #[must_use]
    pub fn new(service: &str, agent: Agent) -> Self {
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
