//! What a client has counted, for whoever looks.

use std::sync::{Mutex, PoisonError};

use grete_core::group::GroupStats;

/// Figures of one client, as its network thread left them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Bytes of record batches that brokers sent.
    pub fetched_bytes: u64,
    /// Records in them, as the batches' headers say.
    pub fetched_records: u64,
    /// Fetch requests sent.
    pub fetches: u64,
    /// Connections that broke.
    pub reconnects: u64,
    /// Connections that are open and ready.
    pub connections: usize,
    /// What the group has counted; `None` without one.
    pub group: Option<GroupStats>,
}

/// The last word of the network thread about them. The lock is held for a copy and nothing else.
#[derive(Debug, Default)]
pub(crate) struct Left(Mutex<Figures>);

impl Left {
    pub(crate) fn leave(&self, figures: Figures) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = figures;
    }

    pub(crate) fn look(&self) -> Figures {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
