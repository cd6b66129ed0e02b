//! Settings of a cluster's client side, by Kafka's names.

use std::sync::Arc;

use crate::time::{MILLI, Nanos, SECOND};

/// Settings of a cluster's client side. Defaults are the Java consumer's.
#[derive(Debug, Clone)]
pub struct ClusterConfig {
    /// `bootstrap.servers`: host and port.
    pub bootstrap: Vec<(Arc<str>, u16)>,
    /// `client.id`.
    pub client_id: Arc<str>,
    /// `request.timeout.ms`, for the cluster's own requests.
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
    /// `metadata.recovery.rebootstrap.trigger.ms`: without metadata for so long, ask the bootstrap addresses again.
    pub rebootstrap_trigger: Nanos,
    /// `connections.max.idle.ms`.
    pub connections_max_idle: Nanos,
    /// `socket.connection.setup.timeout.ms`: doubles with each attempt.
    pub socket_connection_setup_timeout: Nanos,
    /// `socket.connection.setup.timeout.max.ms`.
    pub socket_connection_setup_timeout_max: Nanos,
    /// `allow.auto.create.topics`; unlike Java's, off.
    pub allow_auto_create_topics: bool,
    /// `max.in.flight.requests.per.connection`.
    pub max_in_flight: usize,
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
        }
    }
}
