//! Decoder of Fetch responses: one pass that yields partition by partition. Records stay where they are.

use std::ops::Range;

use super::{FIRST_FLEXIBLE_VERSION, FIRST_TOPIC_ID_VERSION, TopicKey, check_version};
use crate::error::WireError;
use crate::error_code::ErrorCode;
use crate::primitives::Reader;
use crate::records::AbortedTransaction;

/// Fields of the whole response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchResponseHeader {
    /// Milliseconds for which the broker throttles the connection (KIP-219).
    pub throttle_time_ms: i32,
    /// Error of the request or the fetch session.
    pub error_code: ErrorCode,
    /// Id of the fetch session; 0: none.
    pub session_id: i32,
}

/// Partition of the response.
#[derive(Debug, Clone, PartialEq)]
pub struct FetchPartition<'a> {
    /// Topic, by name or id, depending on the version.
    pub topic: TopicKey<'a>,
    /// Number of the partition.
    pub partition: i32,
    /// Error of the partition.
    pub error_code: ErrorCode,
    /// Offset after the last replicated record.
    pub high_watermark: i64,
    /// Offset after the last record of a completed transaction; -1: unknown.
    pub last_stable_offset: i64,
    /// First offset of the log; -1: unknown.
    pub log_start_offset: i64,
    /// Replica to fetch from instead (KIP-392); -1: none.
    pub preferred_read_replica: i32,
    /// Point where the client's log diverges from the leader's: epoch and end offset (KIP-595).
    pub diverging_epoch: Option<(i32, i64)>,
    /// Current leader: broker id and epoch (KIP-951).
    pub current_leader: Option<(i32, i32)>,
    /// Range of the record batches in the response's body; the last batch may be truncated.
    pub records: Range<usize>,
    aborted: AbortedTransactions<'a>,
}

impl<'a> FetchPartition<'a> {
    /// Returns the aborted transactions in the fetched range, in any order; only for read_committed.
    pub fn aborted(&self) -> AbortedTransactions<'a> {
        self.aborted.clone()
    }
}

/// Endpoint of a broker that the response names as a leader (KIP-951).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeEndpoint<'a> {
    /// Broker id.
    pub node_id: i32,
    /// Host name.
    pub host: &'a str,
    /// Port.
    pub port: i32,
    /// Rack.
    pub rack: Option<&'a str>,
}

/// Reads the head of a response's body; the returned iterator reads the partitions.
///
/// # Errors
/// The version is not supported, or the body ends within the head.
pub fn parse(version: i16, body: &[u8]) -> Result<(FetchResponseHeader, Partitions<'_>), WireError> {
    check_version(version)?;
    let mut r = Reader::new(body);
    let head =
        FetchResponseHeader { throttle_time_ms: r.i32()?, error_code: ErrorCode(r.i16()?), session_id: r.i32()? };
    let topics_left = array_len(&mut r, version >= FIRST_FLEXIBLE_VERSION)?;
    let partitions = Partitions {
        r,
        version,
        topics_left,
        partitions_left: 0,
        topic: None,
        finished: false,
        node_endpoints: Vec::new(),
    };
    Ok((head, partitions))
}

/// Iterator over the partitions of a response. It ends after an error.
#[derive(Debug, Clone)]
pub struct Partitions<'a> {
    r: Reader<'a>,
    version: i16,
    topics_left: usize,
    partitions_left: usize,
    /// Topic of the next partitions.
    topic: Option<TopicKey<'a>>,
    finished: bool,
    node_endpoints: Vec<NodeEndpoint<'a>>,
}

impl<'a> Partitions<'a> {
    /// Returns the endpoints of the leaders that the partitions name. They are at the end of the response, so the list
    /// is empty until the iteration has ended.
    pub fn node_endpoints(&self) -> &[NodeEndpoint<'a>] {
        &self.node_endpoints
    }

    fn flexible(&self) -> bool {
        self.version >= FIRST_FLEXIBLE_VERSION
    }

    fn advance(&mut self) -> Result<Option<FetchPartition<'a>>, WireError> {
        loop {
            if let Some(topic) = self.topic {
                if let Some(left) = self.partitions_left.checked_sub(1) {
                    self.partitions_left = left;
                    return self.partition(topic).map(Some);
                }
                if self.flexible() {
                    self.r.skip_tags()?;
                }
                self.topic = None;
            }
            // Every topic takes bytes, so a false count ends as truncated data.
            let Some(left) = self.topics_left.checked_sub(1) else { break };
            self.topics_left = left;
            self.topic = Some(if self.version >= FIRST_TOPIC_ID_VERSION {
                TopicKey::Id(self.r.uuid()?)
            } else if self.flexible() {
                TopicKey::Name(self.r.compact_string()?)
            } else {
                TopicKey::Name(self.r.string()?)
            });
            self.partitions_left = array_len(&mut self.r, self.version >= FIRST_FLEXIBLE_VERSION)?;
        }
        self.finished = true;
        self.read_trailer()?;
        Ok(None)
    }

    fn partition(&mut self, topic: TopicKey<'a>) -> Result<FetchPartition<'a>, WireError> {
        let flexible = self.flexible();
        let r = &mut self.r;
        let mut partition = FetchPartition {
            topic,
            partition: r.i32()?,
            error_code: ErrorCode(r.i16()?),
            high_watermark: r.i64()?,
            last_stable_offset: r.i64()?,
            log_start_offset: r.i64()?,
            aborted: AbortedTransactions::read(r, flexible)?,
            preferred_read_replica: r.i32()?,
            diverging_epoch: None,
            current_leader: None,
            records: 0..0,
        };
        let records = if flexible { r.compact_nullable_bytes()? } else { r.nullable_bytes()? };
        let end = r.position();
        partition.records = end - records.map_or(0, <[u8]>::len)..end;
        if flexible {
            r.tags(|tag, field| {
                match tag {
                    0 => {
                        partition.diverging_epoch = Some((field.i32()?, field.i64()?));
                        field.skip_tags()
                    }
                    1 => {
                        partition.current_leader = Some((field.i32()?, field.i32()?));
                        field.skip_tags()
                    }
                    _ => Ok(()), // tag 2 is a snapshot id, for followers
                }
            })?;
        }
        Ok(partition)
    }

    fn read_trailer(&mut self) -> Result<(), WireError> {
        if self.flexible() {
            let (endpoints, version) = (&mut self.node_endpoints, self.version);
            self.r.tags(|tag, field| {
                if tag == 0 && version >= 16 {
                    *endpoints = field.array(true, NodeEndpoint::MIN_BYTES, NodeEndpoint::read)?;
                }
                Ok(())
            })?;
        }
        self.r.finish()
    }
}

impl<'a> Iterator for Partitions<'a> {
    type Item = Result<FetchPartition<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        let item = self.advance().transpose();
        self.finished |= matches!(item, Some(Err(_)));
        item
    }
}

impl<'a> NodeEndpoint<'a> {
    const MIN_BYTES: usize = 4 + 1 + 4 + 1 + 1;

    fn read(r: &mut Reader<'a>) -> Result<Self, WireError> {
        let endpoint =
            Self { node_id: r.i32()?, host: r.compact_string()?, port: r.i32()?, rack: r.compact_nullable_string()? };
        r.skip_tags()?;
        Ok(endpoint)
    }
}

/// Iterator over a partition's aborted transactions. Their bytes are known to be complete, so reading them cannot fail.
#[derive(Debug, Clone)]
pub struct AbortedTransactions<'a> {
    r: Reader<'a>,
    flexible: bool,
}

impl<'a> AbortedTransactions<'a> {
    const BYTES: usize = 16;

    fn read(r: &mut Reader<'a>, flexible: bool) -> Result<Self, WireError> {
        let count = if flexible { r.compact_array_len()? } else { r.array_len()? }.unwrap_or(0);
        let all = r.clone();
        if flexible {
            for _ in 0..count {
                r.take(Self::BYTES)?;
                r.skip_tags()?;
            }
        } else {
            r.take(count.saturating_mul(Self::BYTES))?;
        }
        let len = r.position() - all.position();
        Ok(Self { r: Reader::new(all.rest().get(..len).unwrap_or_default()), flexible })
    }
}

impl Iterator for AbortedTransactions<'_> {
    type Item = AbortedTransaction;

    fn next(&mut self) -> Option<AbortedTransaction> {
        let transaction = AbortedTransaction { producer_id: self.r.i64().ok()?, first_offset: self.r.i64().ok()? };
        if self.flexible {
            self.r.skip_tags().ok()?;
        }
        Some(transaction)
    }
}

impl PartialEq for AbortedTransactions<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.clone().eq(other.clone())
    }
}

fn array_len(r: &mut Reader<'_>, compact: bool) -> Result<usize, WireError> {
    let len = if compact { r.compact_array_len()? } else { r.array_len()? };
    len.ok_or(WireError::BadLength { what: "an array", value: -1 })
}
