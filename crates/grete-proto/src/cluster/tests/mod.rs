//! Tests of the cluster state machine against scripted brokers.

mod bootstrap;
mod connections;
mod property;
mod requests;
mod topics;
