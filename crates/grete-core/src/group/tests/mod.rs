//! Two kinds of tests. *Scripted*: one machine, and the test plays the coordinator, answer by answer. *Simulated*: several
//! machines and a coordinator that behaves like Kafka's, on a virtual clock, with faults drawn from a seed.

pub(crate) mod broker;
mod chaos;
mod commits;
mod leaving;
mod membership;
mod offsets;
mod rebalance;
mod returning;
mod rig;
mod simulation;
mod static_members;
mod world;
