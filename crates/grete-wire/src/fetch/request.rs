//! Fetch requests.

use super::{FLEXIBLE, TOPIC_IDS, TopicKey, check};
use crate::error::WireError;
use crate::primitives::writer::{put_array_len, put_i8, put_i32, put_i64, put_str, put_uuid, put_uvarint};

/// What concerns the whole request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchParams<'a> {
    /// Milliseconds that the broker may wait for `min_bytes`.
    pub max_wait_ms: i32,
    /// Bytes to wait for.
    pub min_bytes: i32,
    /// Bytes in all, except that the first batch always comes whole (KIP-74).
    pub max_bytes: i32,
    /// 0 reads everything, 1 what is committed.
    pub isolation_level: i8,
    /// Fetch session (KIP-227); 0 for none, or a new one.
    pub session_id: i32,
    /// 0 asks for a session, -1 for none, else counts the session's requests.
    pub session_epoch: i32,
    /// Where the consumer is (KIP-392); may be empty.
    pub rack_id: &'a str,
}

/// One partition to fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchPartitionEntry {
    /// Partition.
    pub partition: i32,
    /// The leader epoch that we know; -1 if none (KIP-320).
    pub current_leader_epoch: i32,
    /// First offset wanted.
    pub fetch_offset: i64,
    /// Leader epoch of the last record read, -1 if none; sent from version 12 on.
    pub last_fetched_epoch: i32,
    /// -1: only followers have one.
    pub log_start_offset: i64,
    /// Bytes from this partition.
    pub max_bytes: i32,
}

/// Appends the body of a Fetch request. The order of partitions is the order in which the broker fills its answer.
///
/// # Errors
/// When the version is not one of ours, a topic's key is not what the version wants, or a string or list is too long.
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
    check(version)?;
    let flexible = version >= FLEXIBLE;
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
            put_no_tags(flexible, out);
        }
        put_no_tags(flexible, out);
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
        put_no_tags(flexible, out);
    }
    put_str(out, flexible, params.rack_id)?;
    put_no_tags(flexible, out);
    Ok(())
}

fn put_topic(version: i16, topic: TopicKey<'_>, out: &mut Vec<u8>) -> Result<(), WireError> {
    match topic {
        TopicKey::Id(id) if version >= TOPIC_IDS => put_uuid(out, id),
        TopicKey::Name(name) if version < TOPIC_IDS => put_str(out, version >= FLEXIBLE, name)?,
        TopicKey::Id(_) => {
            return Err(WireError::UnsupportedField { message: "FetchTopic", field: "topic_id", version });
        }
        TopicKey::Name(_) => {
            return Err(WireError::UnsupportedField { message: "FetchTopic", field: "topic", version });
        }
    }
    Ok(())
}

fn put_no_tags(flexible: bool, out: &mut Vec<u8>) {
    if flexible {
        put_uvarint(out, 0);
    }
}
