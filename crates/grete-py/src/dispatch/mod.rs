//! Dispatch of jobs to Python: the classes around `grete_client::Dispatcher`.
//!
//! - `dispatcher`: `Dispatcher` and `Worker`.
//! - `route`: the settings of a route.
//! - `job`: one call of a hook.
//! - `job_producer`: producer whose records a job's offsets wait for.
//! - `published_rows`: rows whose payload a function turns into a record.
//! - `history`: records before a committed offset, whose ids deduplication needs.
//! - `decision`: the reaction to a failed job.

pub(super) mod decision;
mod decoders;
pub(super) mod dispatcher;
pub(super) mod history;
pub(super) mod job;
pub(super) mod job_producer;
mod published_rows;
pub(super) mod route;
