//! Hand-written codec of Fetch, the one API whose cost per partition matters. Versions 11 (topic names), 12 (names,
//! flexible) and 13 to 17 (topic ids, KIP-516).

pub mod request;
pub mod response;
pub mod shared_response;

pub use request::{FetchParams, FetchPartitionEntry};
pub use response::{FetchPartition, FetchResponseHeader, NodeEndpoint};
pub use shared_response::SharedFetchResponse;

use std::ops::RangeInclusive;

use crate::error::WireError;

/// Supported versions.
pub const VERSIONS: RangeInclusive<i16> = 11..=17;
/// First version with compact lengths and tagged fields (KIP-482).
const FIRST_FLEXIBLE_VERSION: i16 = 12;
/// First version with topic ids instead of names.
const FIRST_TOPIC_ID_VERSION: i16 = 13;

/// Topic in a Fetch request or response: up to version 12 by name, then by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TopicKey<'a> {
    /// Topic name.
    Name(&'a str),
    /// Topic id: a UUID, big endian.
    Id(u128),
}

fn check_version(version: i16) -> Result<(), WireError> {
    if VERSIONS.contains(&version) { Ok(()) } else { Err(WireError::UnsupportedVersion { api: "Fetch", version }) }
}
