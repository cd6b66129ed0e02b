//! Settings of one connection.

use std::sync::Arc;

use crate::time::{Nanos, SECOND};

/// Settings of one connection; the cluster makes them from its own.
#[derive(Debug, Clone)]
pub struct ConnConfig {
    /// `client.id`.
    pub client_id: Arc<str>,
    /// Requests sent and not yet answered; more wait their turn.
    pub max_in_flight: usize,
    /// Closed after so long without a request.
    pub max_idle: Nanos,
}

impl Default for ConnConfig {
    fn default() -> Self {
        Self { client_id: "grete".into(), max_in_flight: 16, max_idle: 540 * SECOND }
    }
}
