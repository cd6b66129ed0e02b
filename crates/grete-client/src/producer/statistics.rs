//! Statistics of one producer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use grete_proto::producer::SenderStats;

use crate::published::Published;

/// Statistics of one producer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProducerStatistics {
    /// Counters of the sender.
    pub produce: SenderStats,
    /// Number of connections that broke unexpectedly.
    pub reconnects: u64,
    /// Bytes of `buffer.memory` in use.
    pub buffered_bytes: usize,
    /// Records that are not completed.
    pub pending_records: u64,
    /// Records of these that wait for the metadata of their topics.
    pub unassigned_records: u64,
}

/// Counters that the network thread writes and other threads read.
#[derive(Debug, Default)]
pub(super) struct Counters {
    produce: Published<SenderStats>,
    reconnects: AtomicU64,
    /// Failure of the last login; `None`: none since a login succeeded.
    pub(super) login_failure: Published<Option<Arc<str>>>,
}

impl Counters {
    pub(super) fn write(&self, produce: SenderStats) {
        self.produce.publish(produce);
    }

    pub(super) fn reconnected(&self) {
        self.reconnects.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(
        &self,
        buffered_bytes: usize,
        pending_records: u64,
        unassigned_records: u64,
    ) -> ProducerStatistics {
        ProducerStatistics {
            produce: self.produce.get(),
            reconnects: self.reconnects.load(Ordering::Relaxed),
            buffered_bytes,
            pending_records,
            unassigned_records,
        }
    }
}
