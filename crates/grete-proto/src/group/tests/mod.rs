//! Tests of the consumer group, of two kinds. *Scripted*: one group, and the test plays the coordinator, response by
//! response. *Simulated*: several groups and a coordinator that behaves like Kafka's, on a virtual clock, with faults
//! drawn from a seed.

mod chaos;
mod commits;
mod consumer_protocol;
pub(crate) mod coordinator;
mod harness;
mod leaving;
mod membership;
mod offsets;
mod rebalance;
mod simulation;
mod simulator;
mod static_members;
mod static_restart;
