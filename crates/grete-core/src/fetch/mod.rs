//! Fetching: sessions (KIP-227), what to ask for next, and what the answers mean.
//!
//! Not obvious:
//! - Within a session the broker keeps each partition's fetch offset until *we* change it. An answer that is ignored (the
//!   slot was sought while the Fetch was in flight) therefore costs a repeat, never a gap.
//! - A slot that must not be fetched (paused, parked, failing, being resolved) is forgotten from the session: left in it,
//!   the broker would answer at once, again and again, with data or errors that nobody wants.
//! - The next offset comes from batch headers, decoded or not (P1, P2).

mod chunk;
mod config;
mod encode;
mod event;
mod lane;
mod machine;
mod response;
mod session;
#[cfg(test)]
mod tests;
mod times;
mod walk;

pub use chunk::Chunk;
pub use config::FetchConfig;
pub use event::{FetchAction, FetchEvent, RawFetchStats};
pub use machine::FetchMachine;
pub use times::Times;
