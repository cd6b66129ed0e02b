//! Groups in a cluster, by protocol.

mod consumer;
mod share;
