//! Acquisition of records for a ShareFetch.

use std::borrow::Cow;
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::share_fetch::{AcquiredRecords, LeaderIdAndEpoch, PartitionData};
use grete_wire::records::{AbortedTransactionFilter, BatchHeader};

use super::fetch::{PlannedShareFetch, ShareFetched};
use crate::cluster::{Cluster, RequestContext};
use crate::ids::{Millis, TopicId};
use crate::log::ReadResult;
use crate::share::config::{ShareGroupSettings, StartOffset};
use crate::share::partition::{Acquired, BatchSpan, Claim, SharePartition};

/// Batch that was read: its offsets and its bytes.
type ReadBatch = (BatchSpan, Arc<Vec<u8>>);

impl Cluster {
    /// Acquires records of the partitions of a ShareFetch: none if less than `min_bytes` are there, unless `at_once`.
    pub(super) fn acquire_planned(
        &mut self,
        context: &RequestContext,
        plan: &PlannedShareFetch,
        at_once: bool,
    ) -> ShareFetched {
        let settings = self.share.settings(&plan.session.group);
        let mut fetched = ShareFetched::default();
        let mut available = 0_usize;
        for &(topic, partition) in &plan.partitions {
            match self.prepare(context, plan, &settings, topic, partition) {
                Ok(bytes) => available = available.saturating_add(bytes),
                Err(error) => self.push_error(&mut fetched, topic, partition, error),
            }
        }
        if available < plan.min_bytes.max(1) && !(at_once && available > 0) {
            return fetched;
        }
        // Records of aborted transactions are there, and are not acquired: the records behind them are read next.
        loop {
            let mut has_moved = false;
            for &(topic, partition) in &plan.partitions {
                if !fetched.partitions.contains_key(&(topic, partition)) {
                    has_moved |= self.acquire_partition(plan, &settings, &mut fetched, topic, partition);
                }
            }
            if fetched.records > 0 || !has_moved {
                break;
            }
        }
        fetched
    }

    fn push_error(&self, fetched: &mut ShareFetched, topic: TopicId, partition_index: i32, error: ErrorCode) {
        let mut data = PartitionData { partition_index, error_code: error.0, ..PartitionData::default() };
        if error == ErrorCode::NOT_LEADER_OR_FOLLOWER {
            let (leader_id, leader_epoch) = self.leader_of(topic, partition_index);
            data.current_leader = LeaderIdAndEpoch { leader_id, leader_epoch };
            fetched.leaders.insert(leader_id);
        }
        fetched.has_error = true;
        fetched.partitions.insert((topic, partition_index), data);
    }

    /// Brings the state of a partition up to date. Returns the bytes that can be acquired, up to `min_bytes`.
    fn prepare(
        &mut self,
        context: &RequestContext,
        plan: &PlannedShareFetch,
        settings: &ShareGroupSettings,
        topic: TopicId,
        partition: i32,
    ) -> Result<usize, ErrorCode> {
        let (leader_epoch, log_start) = self.readable(context, topic, partition)?;
        let key = Self::partition_key(&plan.session, topic, partition);
        if self.share.partition(&key.0, topic, partition).is_none() {
            let start = self.start_offset(settings.auto_offset_reset, topic, partition);
            self.share.begin_partition(&key, &mut self.effects, || SharePartition::new(start, leader_epoch));
        }
        let follow = |found: &mut SharePartition| ((), found.follow(leader_epoch, log_start));
        self.share.with_partition(&key, &mut self.effects, follow);
        Ok(self.available(plan, settings, topic, partition))
    }

    /// Returns the bytes from the first record on that can be acquired, up to `min_bytes`.
    fn available(
        &self,
        plan: &PlannedShareFetch,
        settings: &ShareGroupSettings,
        topic: TopicId,
        partition: i32,
    ) -> usize {
        let found = self.share.partition(&plan.session.group, topic, partition);
        let from = found.and_then(|found| found.first_acquirable(settings.partition_max_record_locks.into()));
        let led = self.topics.by_id(topic).and_then(|topic| topic.partition(partition));
        let (Some(from), Some(led)) = (from, led) else { return 0 };
        led.log.available_bytes(from, plan.min_bytes.max(1), settings.read_committed)
    }

    fn start_offset(&mut self, reset: StartOffset, topic: TopicId, partition: i32) -> i64 {
        let now = self.now;
        let Some(led) = self.topics.by_id(topic).and_then(|topic| topic.partition(partition)) else { return 0 };
        match reset {
            StartOffset::Earliest => led.log.log_start_offset(),
            StartOffset::Latest => led.log.high_watermark(),
            StartOffset::ByDuration(ms) => {
                let found = led.log.offset_for_timestamp(now.saturating_sub(ms), false, &mut self.codecs);
                found.map_or(led.log.high_watermark(), |found| found.offset)
            }
        }
    }

    /// Acquires records of a partition. Returns whether its state has changed.
    fn acquire_partition(
        &mut self,
        plan: &PlannedShareFetch,
        settings: &ShareGroupSettings,
        fetched: &mut ShareFetched,
        topic: TopicId,
        partition_index: i32,
    ) -> bool {
        let max_locks = i64::from(settings.partition_max_record_locks);
        let key = Self::partition_key(&plan.session, topic, partition_index);
        let limit = plan.max_bytes.saturating_sub(fetched.bytes);
        let wanted = plan.max_records - fetched.records;
        let from =
            self.share.partition(&key.0, topic, partition_index).and_then(|found| found.first_acquirable(max_locks));
        let led = self.topics.by_id(topic).and_then(|topic| topic.partition(partition_index));
        let (Some(from), Some(led)) = (from, led) else { return false };
        if wanted <= 0 || limit == 0 && fetched.bytes > 0 {
            return false;
        }
        let Ok(read) = led.log.read(from, limit, fetched.bytes == 0, settings.read_committed) else { return false };
        let batches = read_batches(read);
        let spans: Vec<BatchSpan> = batches.iter().map(|(span, _)| *span).collect();
        let claim = Claim {
            member: Arc::clone(&plan.session.member),
            lock_ends: self.now.saturating_add(Millis::from(settings.record_lock_duration_ms)),
            max_records: wanted,
            whole_batches: plan.whole_batches,
            max_locks,
        };
        let acquire = |found: &mut SharePartition| {
            let (acquired, done) = found.acquire(&claim, &spans);
            ((acquired, !done.is_empty()), done)
        };
        let changed = self.share.with_partition(&key, &mut self.effects, acquire);
        let (acquired, is_done) = changed.unwrap_or_default();
        if acquired.is_empty() {
            return is_done;
        }
        let records = records_of(&batches, &acquired);
        fetched.bytes += records.len();
        fetched.records += acquired.iter().map(|range| range.last - range.first + 1).sum::<i64>();
        let range = |range: Acquired| AcquiredRecords {
            first_offset: range.first,
            last_offset: range.last,
            delivery_count: range.deliveries,
        };
        let data = PartitionData {
            partition_index,
            records: Cow::Owned(records),
            acquired_records: acquired.into_iter().map(range).collect(),
            ..PartitionData::default()
        };
        fetched.partitions.insert((topic, partition_index), data);
        true
    }
}

/// Returns the batches of a read with their offsets. Clients get no list of aborted transactions, so that the broker leaves
/// their records out.
fn read_batches(read: ReadResult) -> Vec<ReadBatch> {
    let mut filter = read.aborted.map(AbortedTransactionFilter::new);
    let span = |bytes: Arc<Vec<u8>>| {
        // Each batch was checked before it was stored.
        let header = BatchHeader::parse(&bytes).ok()?;
        let is_visible = filter.as_mut().is_none_or(|filter| filter.is_visible(&header, &bytes).unwrap_or(true));
        let (first, last) = (header.base_offset, header.last_offset());
        Some((BatchSpan { first, last, is_aborted: !is_visible && !header.is_control() }, bytes))
    };
    read.batches.into_iter().filter_map(span).collect()
}

/// Returns the batches that have acquired records.
fn records_of(batches: &[ReadBatch], acquired: &[Acquired]) -> Vec<u8> {
    let is_sent = |span: &BatchSpan| acquired.iter().any(|range| range.first <= span.last && span.first <= range.last);
    let sent = batches.iter().filter(|(span, _)| is_sent(span));
    let mut records = Vec::with_capacity(sent.clone().map(|(_, bytes)| bytes.len()).sum());
    sent.for_each(|(_, bytes)| records.extend_from_slice(bytes));
    records
}
