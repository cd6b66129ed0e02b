//! State of each assigned partition, shared by the fetcher and the offset resolver.
//!
//! - `table`: columns of all assigned partitions, by [`PartitionHandle`](crate::ids::PartitionHandle)
//! - `error`: errors that stop a partition, and how each recovers
//! - `fetch_wait`: reasons why no data of a partition comes
//! - `log_event`: log events of fetching and positions

pub mod error;
pub mod fetch_wait;
pub mod log_event;
pub mod table;
