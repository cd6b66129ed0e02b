//! Figures of one producer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use grete_core::produce::ProduceStats;

/// Figures of one producer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProducerStatistics {
    /// What the machine counted.
    pub produce: ProduceStats,
    /// Connections that broke.
    pub reconnects: u64,
    /// Bytes of `buffer.memory` in use.
    pub buffered_bytes: usize,
    /// Records that are not settled.
    pub pending_records: u64,
}

/// What the network thread leaves for others to read.
#[derive(Debug, Default)]
pub(super) struct Counters {
    produce: Mutex<ProduceStats>,
    reconnects: AtomicU64,
}

impl Counters {
    pub(super) fn write(&self, produce: ProduceStats) {
        *self.produce.lock().unwrap_or_else(PoisonError::into_inner) = produce;
    }

    pub(super) fn reconnected(&self) {
        self.reconnects.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self, buffered_bytes: usize, pending_records: u64) -> ProducerStatistics {
        ProducerStatistics {
            produce: *self.produce.lock().unwrap_or_else(PoisonError::into_inner),
            reconnects: self.reconnects.load(Ordering::Relaxed),
            buffered_bytes,
            pending_records,
        }
    }
}
