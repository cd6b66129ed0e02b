//! Apart: what a process says of its health, from threads that need no interpreter.
//!
//! A [`Source`] knows how things are. The [`Reporter`]'s thread asks it once an interval and writes a [`Report`] to a pipe, for a
//! supervisor to read; the [`Canary`]'s thread finds out how long an interpreter's lock is waited for. Both share one beat: the
//! reporter wakes, and wakes the canary. It also posts all metrics to a [`Board`], in memory that the supervisor shares, which
//! puts together those of many processes ([`Gathering`]). An [`Examiner`] puts together what the source, the system and the canary
//! know; [`probes`] answer with its [`verdict`]s over HTTP.
#![deny(unsafe_code)] // allowed in `sys` only

mod beat;
mod board;
mod canary;
mod error;
mod examiner;
pub mod exposition;
pub mod frame;
mod gathering;
mod held;
pub mod json;
pub mod memory;
pub mod metrics;
mod overtaking;
mod pipe;
pub mod probes;
mod process;
mod report;
mod reporter;
mod status;
mod sys;
pub mod verdict;
pub mod wait;

pub use board::{Board, MAX_TEXT, Posted, Unread};
pub use canary::{Canary, Watch};
pub use error::HealthError;
pub use examiner::Examiner;
pub use gathering::{Gathering, MAX_GATHERED, Refused};
pub use metrics::Metrics;
pub use pipe::{Pipe, Sent};
pub use report::{Group, LaneCounts, Report, RunningJob, Source};
pub use reporter::{Posting, Reporter, leave_orphaned};
pub use verdict::Limits;
