//! Floor 3: the Rust API of consumer, producer and admin client, with their threads, queues and configuration.
//!
//! Each client has a network thread, which never waits for a worker. No thread of this crate knows Python. The three
//! types to start with:
//!
//! - [`Dispatcher`] hands jobs (batches of records of one partition) to worker threads.
//! - [`Consumer`] is one Kafka client in one group; its network thread feeds the dispatcher.
//! - [`Producer`] sends records; [`Admin`] manages topics, groups and offsets.
//!
//! ```no_run
//! use grete_client::{Consumer, ConsumerConfig, Dispatcher, NextJob, WaitMode};
//!
//! let settings = [("bootstrap.servers", "localhost:9092"), ("group.id", "billing")];
//! let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
//! let dispatcher = Dispatcher::new(WaitMode::Parked)?;
//! let consumer = Consumer::start(ConsumerConfig::from_pairs(&settings)?, &dispatcher, Vec::new())?;
//! consumer.subscribe(vec!["orders".to_owned()])?;
//! let (mut worker, mut done) = (dispatcher.worker_context("worker-1", 1), None);
//! while let NextJob::Job(job) = dispatcher.next(&mut worker, done.as_ref(), None)? {
//!     println!("{}[{}]: {} records", job.topic, job.partition, job.batch.map_or(0, |batch| batch.rows.len()));
//!     done = Some(job.token); // completes the job in the next call
//! }
//! # Ok::<(), grete_client::ClientError>(())
//! ```
#![forbid(unsafe_code)]

mod admin;
pub mod config;
mod consumer;
mod dispatcher;
mod error;
mod log_event;
mod log_messages;
mod producer;
mod published;
mod request_queue;
mod shutdown;
mod testing;
mod thread_guard;
mod tls;
mod token_endpoint;

pub use admin::{Admin, CallContext, GroupList, ItemResults, PartitionLag, ResetPlan, ResetTo, TransactionList};
pub use config::{
    AdminConfig, ConfigError, ConsumerConfig, ProducerConfig, SettingPairs, Settings, TokenSource, read_token,
};
pub use consumer::{
    Consumer, ConsumerNetStats, ConsumerStatistics, GroupMember, Membership, Route, Start, TransactionReport,
    Transactional,
};
pub use dispatcher::{
    AsyncJobs, BlockingJob, Dispatcher, DispatcherSnapshot, EventLoopStatus, FailureReport, History, Job, JobCounts,
    JobToken, LaneReport, NextJob, Outcome, RunningJob, Settling, WaitMode, WaitReport, WorkerContext,
};
pub use error::{ClientError, Subject};
pub use grete_net::process::{is_subreaper, set_parent_death_signal};
pub use grete_net::tls::Validity;
pub use grete_proto::dispatch::{
    Concurrency, Decision, DecodedBatch, DedupPolicy, DurationHistogram, Failure, FailureHistory, FailureKind, Fenced,
    IdSource, JobKind, LaneWait, OffsetPolicy, PendingTimers, Pool, PooledColumns, RatePolicy, RetryPolicy,
    RouteConfig, RouteStats, StageError, StalledJob,
};
pub use grete_proto::group::MemberIds;
pub use grete_proto::ids::TopicPartition;
pub use grete_proto::producer as produce;
pub use grete_proto::share::AckType;
pub use grete_proto::topic_pattern::TopicPattern;
pub use log_event::{Level, LogEvent, LogEventQueue, LogSink, TimestampedLogEvent};
pub use producer::{
    ClockReading, CloseStatus, CompletionQueue, Deadline, Flush, FlushStatus, PartitionsStatus, PendingTransactionCall,
    Producer, ProducerStatistics, TransactionStatus, Undelivered, WaitOutcome,
};
pub use shutdown::{Shutdown, ShutdownDeadlines, ShutdownReport, SignalNumbers, SignalWatch};
pub use testing::TestLane;
pub use tls::{client_validity, server_validity};
pub use token_endpoint::{EndpointToken, basic_authorization, endpoint_token, without_secret};

/// Returns the number of forks so far. A handle that was created before a fork refuses to work after it.
#[must_use]
pub fn fork_generation() -> u32 {
    grete_sys::fork::generation()
}

/// Returns a random seed from the kernel. It is drawn after any fork, because two children must not draw the same
/// jitter.
pub(crate) fn random_seed() -> Result<u64, ClientError> {
    getrandom::u64().map_err(|e| ClientError::Os { what: "asking the kernel for randomness", cause: e.to_string() })
}
