//! Fetch, written and read by hand: the one API whose cost per partition counts. Versions 11 (topic names), 12
//! (names, flexible) and 13 to 17 (topic ids, KIP-516).

pub mod request;
pub mod response;

pub use request::{FetchParams, FetchPartitionEntry};
pub use response::{FetchPartition, FetchResponseHead, NodeEndpoint};

use std::ops::RangeInclusive;

use crate::error::WireError;

/// The versions that are written and read here.
pub const VERSIONS: RangeInclusive<i16> = 11..=17;
/// From here on lengths are compact and tagged fields exist (KIP-482).
const FLEXIBLE: i16 = 12;
/// From here on topics go by id.
const TOPIC_IDS: i16 = 13;

/// How a Fetch names a topic: up to version 12 by name, then by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TopicKey<'a> {
    /// Name.
    Name(&'a str),
    /// UUID, big endian.
    Id(u128),
}

fn check(version: i16) -> Result<(), WireError> {
    if VERSIONS.contains(&version) { Ok(()) } else { Err(WireError::UnsupportedVersion { api: "Fetch", version }) }
}
