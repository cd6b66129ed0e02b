//! Tests of the cluster: requests as bytes in, responses as bytes out.

mod access;
mod admin;
mod every_version;
mod faults;
mod fetch;
mod groups;
pub(super) mod harness;
mod idle;
mod placement;
mod queues;
mod restore;
mod sasl;
mod topics;
mod transactions;
