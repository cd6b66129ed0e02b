//! Health of a process: reports to a supervisor, Prometheus metrics and HTTP probes, from threads that need no
//! interpreter.
//!
//! - [`HealthSource`]: trait of the application. Fills in a [`Report`] and its [`Metrics`], without taking the GIL.
//! - [`Reporter`]: thread that writes a report to a [`Pipe`] once an interval, and publishes metrics in a
//!   [`SharedText`]. Its ticks also wake the [`GilProbe`], which measures how long a thread waits for the GIL.
//! - [`HealthCollector`]: combines the source, OS statistics and the GIL probe. [`probes`] serve its [`checks`] over
//!   HTTP.
//!
//! The supervisor merges the metrics of many processes with a [`MetricsAggregator`].
//!
//! ```
//! use std::sync::Arc;
//! use grete_health::probes::{Request, RequestHandler};
//! use grete_health::{HealthCollector, HealthSource, Limits, Metrics, Report};
//!
//! struct App;
//! impl HealthSource for App {
//!     fn read(&self, report: &mut Report) {
//!         report.workers = 4;
//!     }
//!     fn metrics(&self, metrics: &mut Metrics) {
//!         metrics.process.workers = Some(4);
//!     }
//! }
//!
//! let collector = HealthCollector::new("shop".into(), Limits::default(), Arc::new(App));
//! let request = Request { method: "GET".into(), path: "/readyz".into(), keep_alive: false };
//! assert_eq!(collector.handle(&request).status, 200);
//! ```
#![deny(unsafe_code)] // allowed in `sys` and `shm::mapping` only

mod checked_fd;
pub mod checks;
mod collector;
mod error;
mod escapes;
mod gil_probe;
pub mod json;
pub mod metrics;
pub mod probes;
pub mod process_report;
pub mod report;
mod reporter;
mod shm;
mod status;
pub mod stop_event;
mod sys;
mod thread_fds;
mod ticker;

pub use checks::{FailedPartitionProbe, Limits};
pub use collector::{HealthCollector, HealthSource};
pub use error::HealthError;
pub use gil_probe::{GilProbe, GilProbeHandle};
pub use metrics::Metrics;
pub use metrics::aggregate::{InvalidExposition, MAX_AGGREGATED_BYTES, MetricsAggregator};
pub use process_report::JobStack;
pub use process_report::reporter::{ProcessReporter, ReportSink};
pub use report::pipe::{Pipe, SendOutcome};
pub use report::{
    EventLoop, FailedPartition, GroupStatus, LaneCounts, LaneState, MissingTopic, Report, RunningJob, UnmovedLane,
};
pub use reporter::{MetricsPublisher, Reporter, exit_orphaned};
pub use shm::text_segment::{MAX_TEXT, PublishInfo, ReadError, SharedText};
