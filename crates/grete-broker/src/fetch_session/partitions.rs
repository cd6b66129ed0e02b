//! Partitions of a Fetch or of a session, with what the client knows of them.

use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::{FetchPartition, PartitionData};

use crate::ids::TopicId;

/// Topic as a Fetch names it: by name until version 12, by id from version 13 on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FetchTopicKey {
    /// Name; empty if the request names the topic by id.
    pub name: Arc<str>,
    /// Id; 0 if the request names the topic by name.
    pub id: TopicId,
}

/// Partition that a Fetch reads.
#[derive(Debug, Clone)]
pub struct WantedPartition {
    /// Topic of the partition.
    pub topic: FetchTopicKey,
    /// Name of the topic if the request names it by id and the topic was there once.
    pub known_name: Option<Arc<str>>,
    /// Position and limits.
    pub fetch: FetchPartition,
    /// High watermark of the latest response; -1: none yet.
    pub last_high_watermark: i64,
    /// Log start offset of the latest response; -1: none yet.
    pub last_log_start_offset: i64,
}

/// Partitions of a Fetch or of a session, in the order in which they are read. Each has a slot, which stays while the
/// session lasts and no partition is forgotten.
#[derive(Debug, Clone, Default)]
pub struct WantedPartitions {
    pub(super) slots: Vec<WantedPartition>,
    /// Slots in the order in which the next response reads: partitions that had data go to the end.
    order: Vec<usize>,
}

impl WantedPartitions {
    /// Returns the number of partitions. Slots are below the number.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether there is no partition.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the partitions with their slots, in the order in which they are read.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &WantedPartition)> {
        self.order.iter().filter_map(|&slot| Some((slot, self.slots.get(slot)?)))
    }

    /// Returns the topic of a slot's partition.
    #[must_use]
    pub fn topic(&self, slot: usize) -> Option<&FetchTopicKey> {
        self.slots.get(slot).map(|wanted| &wanted.topic)
    }

    pub(super) fn push(&mut self, wanted: WantedPartition) {
        self.order.push(self.slots.len());
        self.slots.push(wanted);
    }

    /// Stores what the client learns from a response: high watermark and log start offset by slot. The slots in `is_last`
    /// are read last by the next request.
    pub(super) fn learn(&mut self, news: &[(usize, i64, i64)], is_last: &[bool]) {
        for &(slot, high_watermark, log_start_offset) in news {
            if let Some(wanted) = self.slots.get_mut(slot) {
                (wanted.last_high_watermark, wanted.last_log_start_offset) = (high_watermark, log_start_offset);
            }
        }
        let goes_last = |slot: &usize| is_last.get(*slot).copied().unwrap_or_default();
        let (mut order, mut last): (Vec<usize>, Vec<usize>) = self.order.iter().partition(|slot| !goes_last(slot));
        order.append(&mut last);
        self.order = order;
    }
}

impl FromIterator<WantedPartition> for WantedPartitions {
    fn from_iter<I: IntoIterator<Item = WantedPartition>>(wanted: I) -> Self {
        let slots: Vec<WantedPartition> = wanted.into_iter().collect();
        Self { order: (0..slots.len()).collect(), slots }
    }
}

impl WantedPartition {
    /// Returns whether an incremental response has to have the data.
    pub(crate) fn is_news(&self, fetched: &FetchedPartition) -> bool {
        let data = &fetched.data;
        fetched.has_records()
            || data.error_code != 0
            || data.diverging_epoch.epoch >= 0
            || data.preferred_read_replica >= 0
            || data.high_watermark != self.last_high_watermark
            || data.log_start_offset != self.last_log_start_offset
    }

    pub(super) fn key(&self) -> (FetchTopicKey, i32) {
        (self.topic.clone(), self.fetch.partition)
    }

    pub(super) fn is_unnamed(&self) -> bool {
        self.topic.id != 0 && self.known_name.is_none()
    }

    pub(super) fn learn_name(&mut self, name_of: &impl Fn(TopicId) -> Option<Arc<str>>) {
        self.known_name = name_of(self.topic.id);
    }
}

/// Data of a partition in a response.
#[derive(Debug, PartialEq)]
pub struct FetchedPartition {
    /// The partition in the response, without records if there are batches.
    pub data: PartitionData<'static>,
    /// Records that the log shares.
    pub batches: Vec<Arc<Vec<u8>>>,
}

impl FetchedPartition {
    pub(super) fn has_records(&self) -> bool {
        !self.batches.is_empty() || self.data.records.as_ref().is_some_and(|records| !records.is_empty())
    }
}

impl From<PartitionData<'static>> for FetchedPartition {
    fn from(data: PartitionData<'static>) -> Self {
        Self { data, batches: Vec::new() }
    }
}

/// Returns whether the partition or its topic does not exist.
pub(crate) fn is_unknown(data: &PartitionData<'_>) -> bool {
    const UNREAD: [ErrorCode; 3] =
        [ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ErrorCode::UNKNOWN_TOPIC_ID, ErrorCode::TOPIC_AUTHORIZATION_FAILED];
    UNREAD.contains(&ErrorCode(data.error_code))
}
