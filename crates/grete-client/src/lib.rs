//! Floor 3: threads, queues, condvars, config: the Rust API of consumer, producer and admin client.
//!
//! A [`Dispatcher`] hands jobs to worker threads; a [`Consumer`] is one Kafka client (one group) that feeds it from its
//! own network thread. The network thread never waits for a worker, and no thread here knows Python.
#![forbid(unsafe_code)]

mod admin;
mod command;
pub mod config;
mod consumer;
mod dispatcher;
mod driver;
mod ending;
mod error;
mod figures;
mod membership;
mod notice;
mod producer;
mod remarks;
mod report;
mod stop;
mod testing;
mod worker;

pub use admin::{Admin, Call, Each, GroupList, PartitionLag, ResetPlan, ResetTo};
pub use config::{AdminConfig, ConfigError, ConsumerConfig, ProducerConfig};
pub use consumer::{Consumer, Route, Start, Statistics};
pub use dispatcher::{Counts, Dispatcher, Job, JobToken, LaneReport, Next, Outcome, RunningJob, Started, Vitals, Wait};
pub use error::{ClientError, Subject};
pub use figures::Figures;
pub use grete_core::dispatch::{
    Batch, Concurrency, Decision, Durations, Failure, Fenced, JobKind, OffsetPolicy, Pool, PooledColumns, RatePolicy,
    RetryPolicy, RoutePolicy, Stall, Tally, Trouble, Verdict,
};
pub use grete_core::produce;
pub use grete_net::process::{die_with_parent, is_subreaper};
pub use membership::Membership;
pub use notice::{Level, Notice};
pub use producer::{
    Asked, Closing, Deadline, Flush, Flushing, Producer, ProducerStatistics, Slept, Stamp, Undelivered, Watch,
};
pub use stop::{Parting, SignalNumbers, SignalWatch, Stages, Stop};
pub use testing::TestLane;
pub use worker::Worker;

/// Counts forks; a handle made under another number refuses to work.
#[must_use]
pub fn fork_generation() -> u32 {
    grete_net::fork::generation()
}
