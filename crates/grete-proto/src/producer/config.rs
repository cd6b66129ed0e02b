//! Settings of a producer, under Kafka's names.

use std::sync::Arc;

use grete_wire::records::Compression;

use crate::cluster::ClusterConfig;
use crate::principal::Principal;
use crate::time::{MILLI, Nanos, SECOND};

/// Settings for collecting, sending and dropping records.
#[derive(Debug, Clone)]
pub struct ProduceConfig {
    /// `acks`: -1 for all in-sync replicas, 1 for the leader only, 0 for no response.
    pub acks: i16,
    /// `enable.idempotence`; requires `acks` = -1.
    pub idempotent: bool,
    /// `linger.ms`: time a batch waits for more records. 0: no wait, unless a batch of the same partition is in flight.
    pub linger: Nanos,
    /// `batch.size`: uncompressed bytes at which a batch is full.
    pub batch_size: usize,
    /// `buffer.memory`: maximum bytes of all incomplete batches.
    pub buffer_memory: usize,
    /// `max.request.size`: maximum bytes of one record and of one request.
    pub max_request_size: usize,
    /// `compression.type`.
    pub compression: Compression,
    /// `compression.level`, on the codec's own scale; `None`: the codec's default.
    pub compression_level: Option<i32>,
    /// `delivery.timeout.ms`: maximum time from the first record of a batch to its completion.
    pub delivery_timeout: Nanos,
    /// `max.block.ms`: maximum time that a queued record waits for the metadata of its topic.
    pub max_block: Nanos,
    /// `topic.metadata.propagation.max.ms`: time a call waits for a topic that brokers report as unknown. `None`: no
    /// limit but that of the call itself.
    pub metadata_propagation: Option<Nanos>,
    /// `request.timeout.ms`.
    pub request_timeout: Nanos,
    /// `max.in.flight.requests.per.connection`; limited to 5 with idempotence.
    pub max_in_flight: usize,
    /// `retry.backoff.ms`: delay after the first failure.
    pub retry_backoff: Nanos,
    /// `retry.backoff.max.ms`: maximum delay after repeated failures.
    pub retry_backoff_max: Nanos,
    /// Principal of the client, for errors.
    pub principal: Principal,
    /// `transactional.id`; `None`: no transactions. Requires `idempotent`.
    pub transactional_id: Option<Arc<str>>,
    /// `transaction.timeout.ms`: time after which the coordinator aborts an open transaction.
    pub transaction_timeout: Nanos,
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
            compression_level: None,
            delivery_timeout: 120 * SECOND,
            max_block: 60 * SECOND,
            metadata_propagation: Some(SECOND),
            request_timeout: 30 * SECOND,
            max_in_flight: 5,
            retry_backoff: 100 * MILLI,
            retry_backoff_max: SECOND,
            principal: Principal::default(),
            transactional_id: None,
            transaction_timeout: 60 * SECOND,
        }
    }
}

/// Settings of the two state machines of a producer.
#[derive(Debug, Clone, Default)]
pub struct ProducerCoreConfig {
    /// Connections and metadata.
    pub cluster: ClusterConfig,
    /// Settings of the sender; the accumulator must be created with the same.
    pub produce: ProduceConfig,
}
