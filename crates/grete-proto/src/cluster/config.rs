//! Cluster settings of a client, under Kafka's names.

use std::sync::Arc;

use crate::sasl::SaslConfig;
use crate::time::{MILLI, Nanos, SECOND};

/// Cluster settings of a client. Defaults are those of the Java consumer.
#[derive(Debug, Clone)]
pub struct ClusterConfig {
    /// `bootstrap.servers`: hosts and ports.
    pub bootstrap: Vec<(Arc<str>, u16)>,
    /// `client.id`.
    pub client_id: Arc<str>,
    /// `request.timeout.ms`, for metadata requests.
    pub request_timeout: Nanos,
    /// `reconnect.backoff.ms`.
    pub reconnect_backoff: Nanos,
    /// `reconnect.backoff.max.ms`.
    pub reconnect_backoff_max: Nanos,
    /// `retry.backoff.ms`, between metadata requests.
    pub retry_backoff: Nanos,
    /// `retry.backoff.max.ms`.
    pub retry_backoff_max: Nanos,
    /// `metadata.max.age.ms`.
    pub metadata_max_age: Nanos,
    /// `metadata.recovery.rebootstrap.trigger.ms`: time without metadata after which the client uses the bootstrap
    /// addresses again.
    pub rebootstrap_trigger: Nanos,
    /// `connections.max.idle.ms`.
    pub connections_max_idle: Nanos,
    /// `socket.connection.setup.timeout.ms`: doubled with each attempt.
    pub socket_connection_setup_timeout: Nanos,
    /// `socket.connection.setup.timeout.max.ms`.
    pub socket_connection_setup_timeout_max: Nanos,
    /// `allow.auto.create.topics`; off by default, unlike Java's.
    pub allow_auto_create_topics: bool,
    /// `max.in.flight.requests.per.connection`.
    pub max_in_flight: usize,
    /// `sasl.*`: mechanism and credentials; `None`: no authentication.
    pub sasl: Option<Arc<SaslConfig>>,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            bootstrap: Vec::new(),
            client_id: "grete".into(),
            request_timeout: 30 * SECOND,
            reconnect_backoff: 50 * MILLI,
            reconnect_backoff_max: SECOND,
            retry_backoff: 100 * MILLI,
            retry_backoff_max: SECOND,
            metadata_max_age: 300 * SECOND,
            rebootstrap_trigger: 300 * SECOND,
            connections_max_idle: 540 * SECOND,
            socket_connection_setup_timeout: 10 * SECOND,
            socket_connection_setup_timeout_max: 30 * SECOND,
            allow_auto_create_topics: false,
            max_in_flight: 16,
            sasl: None,
        }
    }
}
