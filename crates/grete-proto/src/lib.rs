//! Sans-IO state machines of a Kafka client: no sockets, no threads, no clock, no source of randomness.
//!
//! Start with these three types:
//! - [`producer::ProducerCore`]: a whole producer, from the record accumulator to the acknowledgment.
//! - [`consumer::ConsumerCore`]: a whole consumer, with group membership, positions and fetching.
//! - [`dispatch::Dispatch`]: schedules fetched records as jobs of worker threads, and tracks completed offsets.
//!
//! Both cores contain a [`cluster::Cluster`] (metadata, routing) with one [`connection::Connection`] per socket. The
//! driver owns sockets, clock and threads. It steps a core with an event and carries out the resulting actions:
//!
//! ```text
//! core.step(now, event, &mut actions)  // Connected, Frame, Closed, Tick, or a call of the application
//! for action in actions { ... }        // Transport (Connect, Write, CloseConn), a result, a log event
//! sleep until core.deadline()          // then step with Tick; any earlier event ends the sleep
//! ```
//!
//! `now` is a [`time::Nanos`], so tests and simulations run on a virtual clock. [`rng::Rng`] is seeded by the driver.
#![forbid(unsafe_code)]

pub mod admin;
pub mod backoff;
pub mod cluster;
pub mod connection;
pub mod consumer;
pub mod dispatch;
pub mod edit_distance;
pub mod fetch;
pub mod group;
pub mod ids;
pub mod murmur2;
mod optional;
pub mod partition;
pub mod position;
pub mod principal;
pub mod producer;
pub mod request;
pub mod rng;
pub mod sasl;
pub mod secret;
pub mod share;
#[cfg(test)]
mod test_util;
pub mod tls_failure;
pub mod topic_pattern;
pub mod transport;

/// Time of the state machines: nanoseconds of a monotonic clock that only the driver reads.
pub mod time {
    /// Nanoseconds since an arbitrary start; tests and simulators choose any value.
    pub type Nanos = u64;

    /// One millisecond.
    pub const MILLI: Nanos = 1_000_000;
    /// One second.
    pub const SECOND: Nanos = 1_000_000_000;

    /// Returns the earlier of two optional deadlines.
    #[must_use]
    pub fn earliest(a: Option<Nanos>, b: Option<Nanos>) -> Option<Nanos> {
        match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}
