//! State of an admin client that its network thread publishes.

use std::sync::{Mutex, PoisonError};

use crate::error::ClientError;
use crate::log_event::LogEventQueue;

/// State that the network thread publishes besides its responses.
#[derive(Debug)]
pub(super) struct AdminState {
    pub(super) log_events: LogEventQueue,
    fatal: Mutex<Option<ClientError>>,
}

impl AdminState {
    pub(super) fn new(log_events: LogEventQueue) -> Self {
        Self { log_events, fatal: Mutex::default() }
    }

    pub(super) fn fatal(&self) -> Option<ClientError> {
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stores the first failure.
    pub(super) fn fail(&self, error: ClientError) {
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}
