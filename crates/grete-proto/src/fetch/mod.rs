//! Fetching: fetch sessions (KIP-227), planning of Fetch requests, and handling of the responses.
//!
//! Not obvious:
//! - Within a session the broker keeps each partition's fetch offset until the *client* changes it. Ignoring a response
//!   (because of a seek while the Fetch was in flight) therefore costs a repeated fetch, never a gap.
//! - A partition that must not be fetched (paused, over its queue limit, failing, being resolved) is removed from the
//!   session. Otherwise the broker would answer at once, again and again, with unwanted data or errors.
//! - The next offset comes from batch headers, decoded or not (P1, P2).

pub(crate) mod acquired;
mod completed_fetch;
mod config;
mod event;
mod fetcher;
#[cfg(any(test, debug_assertions))]
mod full_walk;
mod partition;
mod plan;
mod replica_selection;
mod request;
mod response;
mod session;
mod status;
#[cfg(test)]
mod tests;
mod timestamp_range;
mod validate;

pub use acquired::AcquiredRange;
pub use completed_fetch::CompletedFetch;
pub use config::FetchConfig;
pub use event::{FetchAction, FetchEvent, RawFetchStats};
pub use fetcher::Fetcher;
pub use timestamp_range::TimestampRange;
pub(crate) use validate::validate_batches;
