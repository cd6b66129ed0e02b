//! Tests of the cluster: requests as bytes in, responses as bytes out.

mod access;
mod admin;
mod consumer_groups;
mod every_version;
mod faults;
mod fetch;
pub(super) mod harness;
mod idle;
mod placement;
mod queues;
mod restore;
mod sasl;
mod share_groups;
mod topics;
mod transactions;
