//! Settings of producing, by Kafka's names.

use grete_wire::records::Compression;

use crate::time::{MILLI, Nanos, SECOND};

/// How records are collected, sent and given up.
#[derive(Debug, Clone)]
pub struct ProduceConfig {
    /// `acks`: -1 for all in-sync replicas, 1 for the leader alone, 0 for no answer at all.
    pub acks: i16,
    /// `enable.idempotence`; wants `acks` = -1.
    pub idempotent: bool,
    /// `linger.ms`: how long a batch waits for more records. 0: not at all, unless a batch of its partition is on its
    /// way.
    pub linger: Nanos,
    /// `batch.size`: a batch with so many bytes (uncompressed) is full.
    pub batch_size: usize,
    /// `buffer.memory`: bytes that records may take until they are settled.
    pub buffer_memory: usize,
    /// `max.request.size`: limit of one record, and of one request.
    pub max_request_size: usize,
    /// `compression.type`.
    pub compression: Compression,
    /// `compression.level`, on the codec's own scale.
    pub level: Option<i32>,
    /// `delivery.timeout.ms`: from the first record of a batch to its outcome.
    pub delivery_timeout: Nanos,
    /// `request.timeout.ms`.
    pub request_timeout: Nanos,
    /// `max.in.flight.requests.per.connection`; an idempotent producer has at most 5.
    pub max_in_flight: usize,
    /// `retry.backoff.ms`: first wait after a failure.
    pub retry_backoff: Nanos,
    /// `retry.backoff.max.ms`: longest wait after failures.
    pub retry_backoff_max: Nanos,
}

impl Default for ProduceConfig {
    fn default() -> Self {
        Self {
            acks: -1,
            idempotent: true,
            linger: 5 * MILLI,
            batch_size: 256 << 10,
            buffer_memory: 32 << 20,
            max_request_size: 1 << 20,
            compression: Compression::None,
            level: None,
            delivery_timeout: 120 * SECOND,
            request_timeout: 30 * SECOND,
            max_in_flight: 5,
            retry_backoff: 100 * MILLI,
            retry_backoff_max: SECOND,
        }
    }
}
