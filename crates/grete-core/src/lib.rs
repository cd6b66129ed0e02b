//! Floor 1: sans-IO state machines of a Kafka client.
#![forbid(unsafe_code)]

pub mod admin;
pub mod cluster;
pub mod conn;
pub mod consumer;
pub mod dispatch;
pub mod fetch;
pub mod fetch_notice;
pub mod group;
pub mod ids;
pub mod murmur2;
pub mod partitions;
pub mod position;
pub mod produce;
pub mod producer;
pub mod request;
pub mod rng;
pub mod slot_error;
#[cfg(test)]
mod testing;
pub mod time;
pub mod view;
