//! Encoder of Fetch requests.

use super::{FIRST_FLEXIBLE_VERSION, FIRST_TOPIC_ID_VERSION, TopicKey, check_version};
use crate::error::WireError;
use crate::primitives::writer::{put_array_len, put_i8, put_i32, put_i64, put_str, put_uuid, put_uvarint};

/// Fields of the whole request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchParams<'a> {
    /// Milliseconds that the broker may wait for `min_bytes`.
    pub max_wait_ms: i32,
    /// Bytes that the broker waits for.
    pub min_bytes: i32,
    /// Maximum bytes of the response, except that the first batch is always complete (KIP-74).
    pub max_bytes: i32,
    /// Isolation level: 0 is read_uncommitted, 1 is read_committed.
    pub isolation_level: i8,
    /// Id of the fetch session (KIP-227); 0: none, or a new one.
    pub session_id: i32,
    /// Epoch of the fetch session: 0 starts a session, -1 uses none, a positive number counts its requests.
    pub session_epoch: i32,
    /// Rack of the consumer (KIP-392); may be empty.
    pub rack_id: &'a str,
}

/// One partition to fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchPartitionEntry {
    /// Number of the partition.
    pub partition: i32,
    /// Leader epoch known to the client; -1: none (KIP-320).
    pub current_leader_epoch: i32,
    /// First offset to fetch.
    pub fetch_offset: i64,
    /// Leader epoch of the last record read; -1: none. Sent from version 12 on.
    pub last_fetched_epoch: i32,
    /// Log start offset of a follower; consumers send -1.
    pub log_start_offset: i64,
    /// Maximum bytes of this partition.
    pub max_bytes: i32,
}

/// Appends the body of a Fetch request. The broker fills its response in the order of the partitions.
///
/// # Errors
/// The version is not supported, a topic's key does not fit the version, or a string or list is too long.
pub fn encode_body<'t, 'f, P, F>(
    version: i16,
    params: &FetchParams<'_>,
    topics: impl IntoIterator<Item = (TopicKey<'t>, P), IntoIter: ExactSizeIterator>,
    forgotten: impl IntoIterator<Item = (TopicKey<'f>, F), IntoIter: ExactSizeIterator>,
    out: &mut Vec<u8>,
) -> Result<(), WireError>
where
    P: IntoIterator<Item = FetchPartitionEntry, IntoIter: ExactSizeIterator>,
    F: IntoIterator<Item = i32, IntoIter: ExactSizeIterator>,
{
    check_version(version)?;
    let flexible = version >= FIRST_FLEXIBLE_VERSION;
    if version < 15 {
        put_i32(out, -1); // replica id; from version 15 on only replicas send one
    }
    put_i32(out, params.max_wait_ms);
    put_i32(out, params.min_bytes);
    put_i32(out, params.max_bytes);
    put_i8(out, params.isolation_level);
    put_i32(out, params.session_id);
    put_i32(out, params.session_epoch);

    let topics = topics.into_iter();
    put_array_len(out, flexible, Some(topics.len()))?;
    for (topic, partitions) in topics {
        put_topic(version, topic, out)?;
        let partitions = partitions.into_iter();
        put_array_len(out, flexible, Some(partitions.len()))?;
        for entry in partitions {
            put_i32(out, entry.partition);
            put_i32(out, entry.current_leader_epoch);
            put_i64(out, entry.fetch_offset);
            if flexible {
                put_i32(out, entry.last_fetched_epoch);
            }
            put_i64(out, entry.log_start_offset);
            put_i32(out, entry.max_bytes);
            put_empty_tags(flexible, out);
        }
        put_empty_tags(flexible, out);
    }

    let forgotten = forgotten.into_iter();
    put_array_len(out, flexible, Some(forgotten.len()))?;
    for (topic, partitions) in forgotten {
        put_topic(version, topic, out)?;
        let partitions = partitions.into_iter();
        put_array_len(out, flexible, Some(partitions.len()))?;
        for partition in partitions {
            put_i32(out, partition);
        }
        put_empty_tags(flexible, out);
    }
    put_str(out, flexible, params.rack_id)?;
    put_empty_tags(flexible, out);
    Ok(())
}

fn put_topic(version: i16, topic: TopicKey<'_>, out: &mut Vec<u8>) -> Result<(), WireError> {
    match topic {
        TopicKey::Id(id) if version >= FIRST_TOPIC_ID_VERSION => put_uuid(out, id),
        TopicKey::Name(name) if version < FIRST_TOPIC_ID_VERSION => {
            put_str(out, version >= FIRST_FLEXIBLE_VERSION, name)?
        }
        TopicKey::Id(_) => {
            return Err(WireError::UnsupportedField { message: "FetchTopic", field: "topic_id", version });
        }
        TopicKey::Name(_) => {
            return Err(WireError::UnsupportedField { message: "FetchTopic", field: "topic", version });
        }
    }
    Ok(())
}

fn put_empty_tags(flexible: bool, out: &mut Vec<u8>) {
    if flexible {
        put_uvarint(out, 0);
    }
}
