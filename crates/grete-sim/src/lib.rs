//! Simulation of whole Apps: processes with consumer, dispatcher and producer, against the brokers of grete-broker, on one
//! virtual clock.
//!
//! A seed decides a [`plan::Plan`]: cluster, App, records, faults and crashes. [`simulate`] runs a plan and checks the
//! promises that users rely on. [`shrink::shrink`] makes a failing plan smaller, and [`story::Story`] logs what
//! happens in it. No thread, no socket and no clock takes part, so a plan always has the same outcome.
//!
//! | module | holds |
//! |---|---|
//! | `plan` | what a seed decides, as data |
//! | `world` | clock, network, faults |
//! | `process` | a process: network threads, workers, handlers |
//! | `oracle` | checks of the logs and the committed offsets |
//! | `shrink`, `story` | reports of failures |
//! | `transactions` | a simulation of its own: transactional producers and zombies |

pub mod oracle;
pub mod plan;
mod process;
pub mod shrink;
pub mod story;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod transactions;
mod world;

pub use world::simulate;
