//! Floor 1: sans-IO state machines of a Kafka consumer.
#![forbid(unsafe_code)]

pub mod cluster;
pub mod conn;
pub mod group;
pub mod ids;
pub mod request;
pub mod rng;
pub mod time;
