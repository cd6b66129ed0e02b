//! Plan of a simulation: everything that a seed decides, as data that [`crate::shrink`] can make smaller.

mod draw;
mod fault;

use std::sync::Arc;

use grete_broker::cluster::Release;
use grete_proto::dispatch::{Concurrency, OffsetPolicy};
use grete_proto::time::Nanos;

pub use fault::{Fault, FaultedClient, PlannedFault};

/// Topic that the App consumes.
pub const INPUT: &str = "orders";
/// Topic that the handlers produce to.
pub const OUTPUT: &str = "bills";
/// Dead letter topic.
pub const DEAD_LETTERS: &str = "orders.dead";
/// Group of the App.
pub const GROUP: &str = "billing";

/// Port of every broker.
pub const PORT: u16 = 9092;

/// Returns the host of a broker.
#[must_use]
pub fn broker_host(broker: i32) -> Arc<str> {
    format!("b{broker}").into()
}

/// Plan of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Seed of the plan, and of all delays.
    pub seed: u64,
    /// Brokers and topics.
    pub cluster: ClusterPlan,
    /// Settings of the App, the same in all processes.
    pub app: AppPlan,
    /// Processes of the App.
    pub processes: Vec<ProcessPlan>,
    /// Records of the input topic, in the order of production.
    pub records: Vec<RecordPlan>,
    /// Faults, in the order of time.
    pub faults: Vec<PlannedFault>,
    /// Time at which all faults end.
    pub calm_at: Nanos,
}

/// Brokers and topics of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterPlan {
    /// Number of brokers.
    pub brokers: i32,
    /// Partitions of the input topic.
    pub inputs: i32,
    /// Partitions of the output topic.
    pub outputs: i32,
    /// Release of Kafka whose API versions the brokers offer.
    pub release: Release,
    /// Whether some messages take seconds.
    pub slow_network: bool,
}

/// How a handler works through its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandlerStyle {
    /// Function of one record: each finished row counts.
    Each,
    /// Iterates over a batch: the row at which it raises is known.
    Rows,
    /// Works on columns: the row at which it raises is unknown.
    Columns,
    /// Marks each row when it has finished the row.
    Marks,
}

/// Settings of the App.
#[derive(Debug, Clone, PartialEq)]
pub struct AppPlan {
    /// Style of the handler.
    pub style: HandlerStyle,
    /// Records that run concurrently.
    pub concurrency: Concurrency,
    /// Event by which a record counts as processed.
    pub offsets: OffsetPolicy,
    /// Whether marks beyond the committed offset are committed as metadata.
    pub offset_map: bool,
    /// Slots of a lane; 0: one for each key that has records.
    pub key_slots: u32,
    /// Jobs that share the waiting records without a key; 0: each record has a job of its own.
    pub shares: u32,
    /// Most jobs at once in a process; `None`: no limit.
    pub max_concurrency: Option<u32>,
    /// Runs of a record; `None`: without limit, and without dead letters.
    pub attempts: Option<u32>,
    /// Most records of a job.
    pub max_messages: usize,
    /// Worker threads of a process.
    pub workers: usize,
    /// `auto.commit.interval.ms`, in nanoseconds.
    pub commit_interval: Nanos,
    /// Whether the group uses the range assignor, which revokes all partitions in each rebalance.
    pub range_assignor: bool,
    /// Whether the group uses the consumer protocol (KIP-848), with the assignor of the same name.
    pub consumer_protocol: bool,
    /// Whether the App takes records from a share group (KIP-932).
    pub queue: bool,
    /// `session.timeout.ms`, in nanoseconds.
    pub session_timeout: Nanos,
    /// Whether processes are static members.
    pub static_members: bool,
    /// `max.partition.fetch.bytes`.
    pub fetch_bytes: i32,
    /// Budget of queued bytes.
    pub queued_bytes: usize,
    /// `linger.ms`, in nanoseconds.
    pub linger: Nanos,
    /// `batch.size`.
    pub batch_size: usize,
    /// `buffer.memory`.
    pub buffer_memory: usize,
    /// `max.in.flight.requests.per.connection`.
    pub max_in_flight: usize,
    /// `delivery.timeout.ms`, in nanoseconds.
    pub delivery_timeout: Nanos,
    /// Transactions of an App whose jobs are exactly once; `None`: at least once.
    pub exactly_once: Option<ExactlyOncePlan>,
}

/// Transactions of an App. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExactlyOncePlan {
    /// `transaction_interval`.
    pub interval: Nanos,
    /// `transaction.timeout.ms`.
    pub timeout: Nanos,
}

impl AppPlan {
    /// Returns whether outputs may fail because their time is over. Order and retries then depend on luck.
    #[must_use]
    pub fn outputs_expire(&self) -> bool {
        self.delivery_timeout < PATIENT
    }
}

/// `delivery.timeout.ms` that no outage of a plan exceeds, in nanoseconds.
pub const PATIENT: Nanos = 600 * grete_proto::time::SECOND;

/// Process of the App.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessPlan {
    /// Number of the process, which its name contains.
    pub id: usize,
    /// Time of the start.
    pub start: Nanos,
}

/// Behavior of a record in the handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nature {
    /// The handler succeeds.
    Good,
    /// The handler fails this many times, and then succeeds.
    Flaky(u32),
    /// The handler always fails.
    Poison,
}

/// Record of the input topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordPlan {
    /// Number that the value contains, unique in the plan.
    pub id: u64,
    /// Time of production.
    pub at: Nanos,
    /// Partition of the input topic.
    pub partition: i32,
    /// Key; `None`: no key.
    pub key: Option<u8>,
    /// Behavior in the handler.
    pub nature: Nature,
    /// Records that the handler produces for this record.
    pub outputs: u32,
    /// Time that the handler takes, in nanoseconds.
    pub takes: Nanos,
}
