//! Fetch responses, read in one pass: partitions come out as they are met, records stay where they are.

use std::ops::Range;

use super::{FLEXIBLE, TOPIC_IDS, TopicKey, check};
use crate::error::WireError;
use crate::error_code::ErrorCode;
use crate::primitives::Reader;
use crate::records::AbortedTransaction;

/// What concerns the whole response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchResponseHead {
    /// Milliseconds for which the broker will not listen (KIP-219).
    pub throttle_time_ms: i32,
    /// Error of the request or its session.
    pub error_code: ErrorCode,
    /// The session; 0 if there is none.
    pub session_id: i32,
}

/// One partition of the answer.
#[derive(Debug, Clone, PartialEq)]
pub struct FetchPartition<'a> {
    /// Topic, as the version names it.
    pub topic: TopicKey<'a>,
    /// Partition.
    pub partition: i32,
    /// Error of this partition.
    pub error_code: ErrorCode,
    /// Offset after the last replicated record.
    pub high_watermark: i64,
    /// Offset after the last record of a decided transaction; -1 if unknown.
    pub last_stable_offset: i64,
    /// First offset of the log; -1 if unknown.
    pub log_start_offset: i64,
    /// Replica to read from instead (KIP-392); -1 for none.
    pub preferred_read_replica: i32,
    /// Where our log and the leader's part: epoch, end offset (KIP-595).
    pub diverging_epoch: Option<(i32, i64)>,
    /// Who leads by now: node, epoch (KIP-951).
    pub current_leader: Option<(i32, i32)>,
    /// Where the record batches lie in the response's body; the last may be cut off.
    pub records: Range<usize>,
    aborted: Aborted<'a>,
}

impl<'a> FetchPartition<'a> {
    /// The aborted transactions in the fetched range, in no certain order; for read_committed only.
    #[must_use]
    pub fn aborted(&self) -> Aborted<'a> {
        self.aborted.clone()
    }
}

/// Where a node listens that the response names as a leader (KIP-951).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeEndpoint<'a> {
    /// Node id.
    pub node_id: i32,
    /// Host.
    pub host: &'a str,
    /// Port.
    pub port: i32,
    /// Rack.
    pub rack: Option<&'a str>,
}

/// Reads the head of a response's body; the partitions follow by iteration.
///
/// # Errors
/// When the version is not one of ours, or the body ends within the head.
pub fn parse(version: i16, body: &[u8]) -> Result<(FetchResponseHead, Partitions<'_>), WireError> {
    check(version)?;
    let mut r = Reader::new(body);
    let head = FetchResponseHead { throttle_time_ms: r.i32()?, error_code: ErrorCode(r.i16()?), session_id: r.i32()? };
    let topics_left = array_len(&mut r, version >= FLEXIBLE)?;
    let partitions = Partitions {
        r,
        version,
        topics_left,
        partitions_left: 0,
        topic: None,
        ended: false,
        node_endpoints: Vec::new(),
    };
    Ok((head, partitions))
}

/// The partitions of a response. After an error there are no more.
#[derive(Debug, Clone)]
pub struct Partitions<'a> {
    r: Reader<'a>,
    version: i16,
    topics_left: usize,
    partitions_left: usize,
    /// The topic that is being read.
    topic: Option<TopicKey<'a>>,
    ended: bool,
    node_endpoints: Vec<NodeEndpoint<'a>>,
}

impl<'a> Partitions<'a> {
    /// Where the leaders listen that the partitions name. They stand at the response's end: there are none before the
    /// iteration has ended.
    #[must_use]
    pub fn node_endpoints(&self) -> &[NodeEndpoint<'a>] {
        &self.node_endpoints
    }

    fn flexible(&self) -> bool {
        self.version >= FLEXIBLE
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
            // Every topic takes bytes, so that a lying count ends as truncated data.
            let Some(left) = self.topics_left.checked_sub(1) else { break };
            self.topics_left = left;
            self.topic = Some(if self.version >= TOPIC_IDS {
                TopicKey::Id(self.r.uuid()?)
            } else if self.flexible() {
                TopicKey::Name(self.r.compact_string()?)
            } else {
                TopicKey::Name(self.r.string()?)
            });
            self.partitions_left = array_len(&mut self.r, self.version >= FLEXIBLE)?;
        }
        self.ended = true;
        self.tail()?;
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
            aborted: Aborted::read(r, flexible)?,
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
                    _ => Ok(()), // 2 is a snapshot's id, for followers
                }
            })?;
        }
        Ok(partition)
    }

    fn tail(&mut self) -> Result<(), WireError> {
        if self.flexible() {
            let (endpoints, version) = (&mut self.node_endpoints, self.version);
            self.r.tags(|tag, field| {
                if tag == 0 && version >= 16 {
                    *endpoints = field.array(true, NodeEndpoint::SMALLEST, NodeEndpoint::read)?;
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
        if self.ended {
            return None;
        }
        let item = self.advance().transpose();
        self.ended |= matches!(item, Some(Err(_)));
        item
    }
}

impl<'a> NodeEndpoint<'a> {
    const SMALLEST: usize = 4 + 1 + 4 + 1 + 1;

    fn read(r: &mut Reader<'a>) -> Result<Self, WireError> {
        let endpoint =
            Self { node_id: r.i32()?, host: r.compact_string()?, port: r.i32()?, rack: r.compact_nullable_string()? };
        r.skip_tags()?;
        Ok(endpoint)
    }
}

/// A partition's aborted transactions; known to be whole, so that reading them cannot fail.
#[derive(Debug, Clone)]
pub struct Aborted<'a> {
    r: Reader<'a>,
    flexible: bool,
}

impl<'a> Aborted<'a> {
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

impl Iterator for Aborted<'_> {
    type Item = AbortedTransaction;

    fn next(&mut self) -> Option<AbortedTransaction> {
        let transaction = AbortedTransaction { producer_id: self.r.i64().ok()?, first_offset: self.r.i64().ok()? };
        if self.flexible {
            self.r.skip_tags().ok()?;
        }
        Some(transaction)
    }
}

impl PartialEq for Aborted<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.clone().eq(other.clone())
    }
}

fn array_len(r: &mut Reader<'_>, compact: bool) -> Result<usize, WireError> {
    let len = if compact { r.compact_array_len()? } else { r.array_len()? };
    len.ok_or(WireError::BadLength { what: "an array", value: -1 })
}
