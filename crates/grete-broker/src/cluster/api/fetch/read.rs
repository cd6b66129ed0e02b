//! Reads of the partitions of a Fetch.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::{
    AbortedTransaction, FetchResponseEpochEndOffset, FetchResponseLeaderIdAndEpoch, PartitionData,
};

use super::{FIRST_VERSION_WITH_LEADER, FIRST_VERSION_WITH_READ_REPLICA, PlannedFetch};
use crate::acl::{Operation, ResourceType};
use crate::cluster::{Cluster, RequestContext};
use crate::fetch_session::{FetchTopicKey, FetchedPartition, SessionUse, WantedPartition, is_unknown};
use crate::ids::BrokerId;
use crate::topics::{Partition, Topic};

/// Data that a Fetch reads.
#[derive(Default)]
pub(super) struct FetchedData {
    /// By slot; without the partitions that an incremental response leaves out.
    pub(super) partitions: Vec<(usize, FetchedPartition)>,
    pub(super) bytes: usize,
    pub(super) has_error: bool,
    /// Number of partitions that do not exist.
    pub(super) unknown: usize,
    pub(super) leaders: BTreeSet<BrokerId>,
}

impl FetchedData {
    fn push(&mut self, slot: usize, read: Result<FetchedPartition, Box<PartitionData<'static>>>) {
        let fetched = read.unwrap_or_else(|data| {
            // Partitions that do not exist do not end the wait in Kafka, unless there are no others.
            self.has_error |= !is_unknown(&data);
            self.unknown += usize::from(is_unknown(&data));
            self.leaders.insert(data.current_leader.leader_id);
            FetchedPartition::from(*data)
        });
        self.bytes += fetched.batches.iter().map(|batch| batch.len()).sum::<usize>();
        self.has_error |= fetched.data.diverging_epoch.epoch >= 0 || fetched.data.preferred_read_replica >= 0;
        self.partitions.push((slot, fetched));
    }
}

/// Topic that a Fetch reads.
struct FetchedTopic<'a> {
    topic: Option<&'a Topic>,
    /// The name that the request or the topic has; empty if neither is known.
    name: &'a str,
    may_read: bool,
}

/// Partition that a Fetch reads.
struct PartitionRead<'a> {
    topic: &'a FetchedTopic<'a>,
    slot: usize,
    wanted: &'a WantedPartition,
    /// Bytes that may be read; one batch more if this is the first data of the response (KIP-74).
    limit: usize,
    is_first: bool,
}

impl Cluster {
    pub(super) fn topic_of(&self, key: &FetchTopicKey) -> Option<&Topic> {
        if key.id != 0 { self.topics.by_id(key.id) } else { self.topics.get(&key.name) }
    }

    fn fetched_topic<'a>(&'a self, context: &RequestContext, key: &'a FetchTopicKey) -> FetchedTopic<'a> {
        let topic = self.topic_of(key);
        let name = topic.map_or(&*key.name, |topic| &topic.name);
        FetchedTopic { topic, name, may_read: self.may(context, Operation::Read, ResourceType::Topic, name) }
    }

    /// Reads all partitions. At least one batch is returned if there is any, even beyond the limits (KIP-74).
    pub(super) fn read_planned(&self, context: &RequestContext, plan: &PlannedFetch) -> FetchedData {
        let mut found = FetchedData::default();
        // Most partitions follow one of the same topic.
        let mut latest: Option<(&FetchTopicKey, FetchedTopic<'_>)> = None;
        for (slot, wanted) in plan.partitions.iter() {
            let topic = match latest.take().filter(|(key, _)| *key == &wanted.topic) {
                Some((_, topic)) => topic,
                None => self.fetched_topic(context, &wanted.topic),
            };
            let left = plan.max_bytes.saturating_sub(found.bytes);
            let limit = usize::try_from(wanted.fetch.partition_max_bytes).unwrap_or(0).min(left);
            let is_first = found.bytes == 0;
            let part = PartitionRead { topic: &topic, slot, wanted, limit, is_first };
            let read = || self.read_partition(context, plan, &part);
            if self.is_without_news(context, plan, &part) {
                debug_assert!(read().is_ok_and(|data| !wanted.is_news(&data)), "{wanted:?} has news");
            } else {
                found.push(slot, read());
            }
            latest = Some((&wanted.topic, topic));
        }
        found
    }

    /// Returns whether an incremental response leaves the partition out: there is nothing to read, and nothing has
    /// changed since the latest response. Most partitions of a large session are like that. False does not mean that
    /// there is news.
    fn is_without_news(&self, context: &RequestContext, plan: &PlannedFetch, part: &PartitionRead<'_>) -> bool {
        let PartitionRead { topic, wanted, limit, is_first, .. } = *part;
        let is_incremental = matches!(plan.session, SessionUse::Incremental(_));
        if !is_incremental || !topic.may_read || self.partition_fault.is_some() {
            return false;
        }
        let Some(partition) = topic.topic.and_then(|topic| topic.partition(wanted.fetch.partition)) else {
            return false;
        };
        let (log, offset) = (&partition.log, wanted.fetch.fetch_offset);
        let end = if plan.read_committed { log.last_stable_offset() } else { log.high_watermark() };
        // An offset of the current epoch cannot diverge.
        [-1, partition.leader_epoch].contains(&wanted.fetch.last_fetched_epoch)
            && (log.log_start_offset()..=log.high_watermark()).contains(&offset)
            && (offset >= end || (limit == 0 && !is_first))
            && log.high_watermark() == wanted.last_high_watermark
            && log.log_start_offset() == wanted.last_log_start_offset
            && self.check_source(context, partition, wanted.fetch.current_leader_epoch.max(-1)).is_ok()
            && self.preferred_read_replica(context, plan, partition).is_none()
    }

    /// Checks that consumers may read the partition from this broker: its leader, or a follower from version 11 on.
    fn check_source(
        &self,
        context: &RequestContext,
        partition: &Partition,
        leader_epoch: i32,
    ) -> Result<(), ErrorCode> {
        let is_follower = || partition.leader.is_some() && partition.replicas.contains(&context.broker);
        match self.check_leader(context, partition, leader_epoch) {
            Err(ErrorCode::NOT_LEADER_OR_FOLLOWER)
                if context.version >= FIRST_VERSION_WITH_READ_REPLICA && is_follower() =>
            {
                Ok(())
            }
            checked => checked,
        }
    }

    /// Returns the follower in the consumer's rack that the consumer reads from; `None`: this leader.
    fn preferred_read_replica(
        &self,
        context: &RequestContext,
        plan: &PlannedFetch,
        partition: &Partition,
    ) -> Option<BrokerId> {
        if !self.config.rack_aware_reads || plan.rack.is_empty() || partition.leader != Some(context.broker) {
            return None;
        }
        let is_near =
            |id: &BrokerId| self.live_broker(*id).is_some_and(|broker| broker.rack.as_deref() == Some(&*plan.rack));
        if is_near(&context.broker) {
            return None;
        }
        partition.in_sync(&self.live).into_iter().filter(is_near).max()
    }

    fn read_partition(
        &self,
        context: &RequestContext,
        plan: &PlannedFetch,
        part: &PartitionRead<'_>,
    ) -> Result<FetchedPartition, Box<PartitionData<'static>>> {
        let PartitionRead { topic, slot, wanted, limit, is_first } = *part;
        let index = wanted.fetch.partition;
        let failed = |error: ErrorCode| {
            Box::new(PartitionData {
                partition_index: index,
                error_code: error.0,
                high_watermark: -1,
                aborted_transactions: None,
                records: Some(Cow::Borrowed(&[])),
                ..PartitionData::default()
            })
        };
        if let Some(error) = self.partition_fault(topic.name, index) {
            return Err(failed(error));
        }
        // Kafka answers these before the log is asked, with the schema's default, unless the partition is deleted while
        // the request waits.
        let unknown = |error| {
            let mut data = failed(error);
            if !plan.awaited.get(slot).copied().unwrap_or_default() {
                data.aborted_transactions = Some(Vec::new());
            }
            data
        };
        if wanted.topic.id == 0 && !topic.may_read {
            return Err(unknown(ErrorCode::TOPIC_AUTHORIZATION_FAILED));
        }
        let found = topic.topic.ok_or_else(|| {
            let same_name =
                |name: &Arc<str>| self.topics.get(name).is_some_and(|topic| topic.partition(index).is_some());
            match &wanted.known_name {
                None if wanted.topic.id != 0 => unknown(ErrorCode::UNKNOWN_TOPIC_ID),
                // The topic was deleted and created again.
                Some(name) if same_name(name) => failed(ErrorCode::INCONSISTENT_TOPIC_ID),
                _ => unknown(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            }
        })?;
        if !topic.may_read {
            return Err(unknown(ErrorCode::TOPIC_AUTHORIZATION_FAILED));
        }
        let partition = found.partition(index).ok_or_else(|| unknown(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION))?;
        if let Err(error) = self.check_source(context, partition, wanted.fetch.current_leader_epoch.max(-1)) {
            let mut data = failed(error);
            let is_moved = [ErrorCode::NOT_LEADER_OR_FOLLOWER, ErrorCode::FENCED_LEADER_EPOCH].contains(&error);
            if is_moved && context.version >= FIRST_VERSION_WITH_LEADER {
                data.current_leader = FetchResponseLeaderIdAndEpoch {
                    leader_id: partition.leader.unwrap_or(-1),
                    leader_epoch: partition.leader_epoch,
                };
            }
            return Err(data);
        }
        let log = &partition.log;
        let offset = wanted.fetch.fetch_offset;
        if wanted.fetch.last_fetched_epoch >= 0 {
            let (epoch, end_offset) = partition.end_offset_for_epoch(wanted.fetch.last_fetched_epoch);
            if epoch < 0 || end_offset < 0 || offset < log.log_start_offset() {
                return Err(failed(ErrorCode::OFFSET_OUT_OF_RANGE));
            }
            if epoch < wanted.fetch.last_fetched_epoch || end_offset < offset {
                return Ok(FetchedPartition::from(PartitionData {
                    partition_index: index,
                    high_watermark: log.high_watermark(),
                    last_stable_offset: log.last_stable_offset(),
                    log_start_offset: log.log_start_offset(),
                    diverging_epoch: FetchResponseEpochEndOffset { epoch, end_offset },
                    aborted_transactions: None,
                    records: Some(Cow::Borrowed(&[])),
                    ..PartitionData::default()
                }));
            }
        }
        let in_log = (log.log_start_offset()..=log.high_watermark()).contains(&offset);
        if let Some(replica) = self.preferred_read_replica(context, plan, partition).filter(|_| in_log) {
            return Ok(FetchedPartition::from(PartitionData {
                partition_index: index,
                high_watermark: log.high_watermark(),
                last_stable_offset: log.last_stable_offset(),
                log_start_offset: log.log_start_offset(),
                aborted_transactions: None,
                preferred_read_replica: replica,
                records: Some(Cow::Borrowed(&[])),
                ..PartitionData::default()
            }));
        }
        let read = log.read(offset, limit, is_first, plan.read_committed).map_err(failed)?;
        // A batch that is larger than the limit is left out, and so is the list.
        let end = if plan.read_committed { read.last_stable_offset } else { read.high_watermark };
        let is_cut = read.batches.is_empty() && limit > 0 && offset < end;
        let aborted = |aborted: grete_wire::records::AbortedTransaction| AbortedTransaction {
            producer_id: aborted.producer_id,
            first_offset: aborted.first_offset,
        };
        let data = PartitionData {
            partition_index: index,
            high_watermark: read.high_watermark,
            last_stable_offset: read.last_stable_offset,
            log_start_offset: read.log_start_offset,
            aborted_transactions: read.aborted.filter(|_| !is_cut).map(|all| all.into_iter().map(aborted).collect()),
            records: Some(Cow::Borrowed(&[])),
            ..PartitionData::default()
        };
        Ok(FetchedPartition { data, batches: read.batches })
    }
}
