//! Checks of the simulation: independent models of what the dispatcher must do.
//!
//! - `lane_oracle`: order, completeness and commits of one lane.
//! - `attempt_model`: attempts and bisection of failed rows.
//! - `fairness`: the lane that has waited longest goes first.
//! - `rate_limit`: rate of a route.
//! - `record_outcome`: outcome of each record over all assignments.
//! - `stats`: counters and lag.
//! - `work_conservation`: no worker is idle while a job could run.

pub(super) mod attempt_model;
pub(super) mod fairness;
pub(super) mod lane_oracle;
pub(super) mod rate_limit;
pub(super) mod record_outcome;
pub(super) mod stats;
pub(super) mod work_conservation;
