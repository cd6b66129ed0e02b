//! Kafka brokers in one process, for development and tests: a core without I/O, clock and random numbers, and a thin TCP
//! server. The crate is no replacement for Kafka: brokers share one copy of the data.
//!
//! Start with these types:
//!
//! - [`cluster::Cluster`]: the core. A driver passes events with the time and performs the actions.
//! - [`server::Server`]: the driver. One thread with sockets, a clock and the journal.
//! - [`embedded::EmbeddedConfig`]: settings of a cluster behind a server.
//!
//! ```
//! use grete_broker::embedded::{self, EmbeddedConfig};
//!
//! let config = EmbeddedConfig { topics: vec![("orders".into(), 8)], ..EmbeddedConfig::default() };
//! let broker = embedded::start(config)?;
//! println!("clients connect to {:?}", broker.addresses());
//! broker.stop();
//! # Ok::<(), embedded::EmbeddedError>(())
//! ```
#![forbid(unsafe_code)]

pub mod acl;
pub mod cluster;
pub mod coordinator_partition;
pub mod effects;
pub mod embedded;
pub mod fault;
pub mod fetch_session;
pub mod group;
pub mod ids;
pub mod journal;
pub mod log;
pub mod message;
pub mod rng;
pub mod sasl;
pub mod server;
pub mod share;
pub mod topics;
pub mod transaction;
