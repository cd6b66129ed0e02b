//! Queue of ready jobs and the limits on when they run.
//!
//! - `ready_queue`: units that are ready for a worker, in the order of their service.
//! - `timers`: timers of lanes and routes.
//! - `rate_limit`: token bucket of a route.
//! - `job_limit`: number of jobs that a route runs at once.

pub(super) mod job_limit;
pub(super) mod rate_limit;
pub(super) mod ready_queue;
pub(super) mod timers;
