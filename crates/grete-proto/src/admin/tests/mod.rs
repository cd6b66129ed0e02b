//! Tests of operations against scripted brokers.

mod core;
mod groups;
mod harness;
mod no_panic;
mod offsets;
mod share_groups;
mod topics;
mod transactions;

use harness::Harness;
