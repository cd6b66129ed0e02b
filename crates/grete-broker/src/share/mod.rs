//! Share groups (KIP-932), with the behavior of Kafka 4.3: members share the records of partitions, and acknowledge each
//! record by itself.
//!
//! The coordinator's part is [`group`]: members and their partitions. The leaders' part is [`partition`], the state of each
//! record, and [`session`], what a member reads from one leader. As all brokers share their state, the states of the records
//! survive a new leader; locks do not, as in Kafka, where they are not stored.
//!
//! Differences from Kafka:
//!
//! - Partitions are ready at once. Kafka initializes them first, and members get them by a later heartbeat.
//! - The assignor gives a partition to several members where there are more members than partitions, as Kafka's does, but
//!   not always to the same ones.
//! - A request whose session went on while the request waited acquires nothing. Kafka acquires records for it, and
//!   refuses the answer: their locks have to end first.

pub mod config;
mod coordinator;
pub mod group;
pub mod partition;
mod restore;
pub mod session;
#[cfg(test)]
mod tests;

pub use coordinator::{ShareCoordinator, SharePartitionKey};
