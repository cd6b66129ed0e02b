//! Log of the latest requests, for tests that assert what a client sent.

use std::collections::VecDeque;
use std::sync::Arc;

use grete_wire::ApiKey;

use crate::ids::{BrokerId, ConnId, Millis};

/// Request as the log keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedRequest {
    /// Time at which the broker began the request.
    pub at: Millis,
    /// Broker that got the request.
    pub broker: BrokerId,
    /// Connection of the request.
    pub conn: ConnId,
    /// `client.id`.
    pub client_id: Arc<str>,
    /// API of the request.
    pub api: ApiKey,
    /// Version of the request.
    pub version: i16,
    /// Fault that was applied; `None`: the broker handled the request as usual.
    pub fault: Option<Arc<str>>,
}

/// Bounded log: the oldest entry goes when the log is full.
#[derive(Debug)]
pub(crate) struct RequestLog {
    entries: VecDeque<LoggedRequest>,
    max_entries: usize,
}

impl RequestLog {
    pub(crate) fn new(max_entries: usize) -> Self {
        Self { entries: VecDeque::new(), max_entries }
    }

    pub(crate) fn push(&mut self, entry: LoggedRequest) {
        if self.max_entries == 0 {
            return;
        }
        if self.entries.len() >= self.max_entries {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &LoggedRequest> {
        self.entries.iter()
    }
}
