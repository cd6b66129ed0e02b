//! Compaction of a log (`cleanup.policy=compact`): keeps the newest record of each key, and deletes aborted
//! transactions. Tombstones and transaction markers stay for `delete.retention.ms` (KIP-534).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use grete_wire::records::{
    AbortedTransaction, BatchHeader, BatchRecord, Compression, ControlType, RecordError, control_type,
};

use super::batches::StoredBatch;
use super::config::LogConfig;
use super::{Codecs, LogChange, PartitionLog};
use crate::ids::Millis;

impl PartitionLog {
    /// Compacts the log if enough of it is dirty (`min.cleanable.dirty.ratio`). As in Kafka, compaction leaves the last
    /// segment, records after the last stable offset, and segments younger than `min.compaction.lag.ms`. Returns the
    /// change to store; `None`: there was nothing to do.
    pub fn compact(&mut self, now: Millis, config: &LogConfig, codecs: &mut Codecs) -> Option<LogChange> {
        if !config.compact {
            return None;
        }
        let end = self.first_uncleanable(now, config);
        if !self.is_dirty_enough(end, config) {
            return None;
        }
        Some(self.compact_before(end, now, config, codecs))
    }

    /// Compacts the whole log at once, up to the last stable offset, as an active segment that was rolled just before.
    /// Returns the change to store; `None`: the topic is not compacted, or nothing is dirty.
    pub fn compact_now(&mut self, now: Millis, config: &LogConfig, codecs: &mut Codecs) -> Option<LogChange> {
        let end = self.last_stable_offset();
        (config.compact && end > self.first_dirty).then(|| self.compact_before(end, now, config, codecs))
    }

    fn compact_before(&mut self, end: i64, now: Millis, config: &LogConfig, codecs: &mut Codecs) -> LogChange {
        let newest = self.newest_offsets(end, codecs);
        let mut scan = TransactionScan::new(self.transactions.aborted(self.log_start, end));
        let (mut removed, mut rewritten) = (Vec::new(), Vec::new());
        for batch in self.batches.iter().take_while(|batch| batch.last_offset < end) {
            let Some(header) = batch.header() else { continue };
            let cleaner = Cleaner {
                newest: &newest,
                now,
                horizon: now.saturating_add(config.delete_retention_ms.max(0)),
                needs_header: header.next_offset() == end || self.producers.is_last_of_producer(&header),
            };
            // A batch that cannot be read does not occur, since appends check them; it would stay.
            match cleaner.clean(batch, &header, &mut scan, codecs) {
                Ok(Cleaned::Removed) => removed.push(batch.base_offset),
                Ok(Cleaned::Rewritten(bytes)) => rewritten.push(Arc::new(bytes)),
                Ok(Cleaned::Unchanged) | Err(_) => {}
            }
        }
        self.apply_compaction(end, &removed, &rewritten);
        LogChange::Compacted { end, removed, rewritten }
    }

    /// Returns the offset at which compaction ends.
    fn first_uncleanable(&self, now: Millis, config: &LogConfig) -> i64 {
        let segments = self.batches.segments();
        let active = segments.back().map_or(self.log_end, |segment| segment.base_offset);
        let young = segments.iter().find(|segment| {
            config.min_compaction_lag_ms > 0
                && segment.base_offset >= self.first_dirty
                && segment.largest_timestamp() > now.saturating_sub(config.min_compaction_lag_ms)
        });
        let young = young.map_or(active, |segment| segment.base_offset);
        young.min(active).min(self.last_stable_offset())
    }

    fn is_dirty_enough(&self, end: i64, config: &LogConfig) -> bool {
        let (mut clean, mut dirty) = (0, 0);
        for batch in self.batches.iter().take_while(|batch| batch.last_offset < end) {
            let part = if batch.last_offset < self.first_dirty { &mut clean } else { &mut dirty };
            *part += batch.bytes.len() as u64;
        }
        dirty > 0 && dirty as f64 > config.min_cleanable_dirty_ratio * (clean + dirty) as f64
    }

    /// Returns the offset of the newest record of each key in the dirty part, without aborted transactions.
    fn newest_offsets(&self, end: i64, codecs: &mut Codecs) -> HashMap<Vec<u8>, i64> {
        let mut scan = TransactionScan::new(self.transactions.aborted(self.first_dirty, end));
        let mut newest = HashMap::new();
        for batch in self.batches.from(self.first_dirty).take_while(|batch| batch.last_offset < end) {
            let Some(header) = batch.header() else { continue };
            let Ok(records) = codecs.reader.read(&batch.bytes, &header) else { continue };
            if header.is_control() {
                scan.control_batch(&header, records.iter().next().and_then(Result::ok).as_ref());
            } else if !scan.data_batch(&header) {
                for record in records.iter().filter_map(Result::ok) {
                    if let Some(key) = record.key.filter(|_| record.offset >= self.log_start) {
                        newest.insert(key.to_vec(), record.offset);
                    }
                }
            }
        }
        newest
    }

    pub(super) fn apply_compaction(&mut self, end: i64, removed: &[i64], rewritten: &[Arc<Vec<u8>>]) {
        let mut replacements = rewritten.iter().filter_map(|bytes| {
            let header = BatchHeader::parse(bytes).ok()?;
            let without_marker = header.is_control() && header.record_count == 0;
            Some((without_marker, StoredBatch::new(&header, Arc::clone(bytes))))
        });
        let mut removed = removed.iter().copied().peekable();
        let mut next = replacements.next();
        let mut batches = Vec::new();
        for batch in self.batches.iter().take_while(|batch| batch.last_offset < end) {
            if removed.next_if_eq(&batch.base_offset).is_some() {
                self.transactions.marker_removed(batch.base_offset);
            } else if let Some((without_marker, new)) = next.take_if(|(_, new)| new.base_offset == batch.base_offset) {
                if without_marker {
                    self.transactions.marker_removed(batch.base_offset);
                }
                batches.push(new);
                next = replacements.next();
            } else {
                batches.push(batch.clone());
            }
        }
        self.batches.replace_before(end, batches);
        self.first_dirty = end;
    }
}

enum Cleaned {
    Unchanged,
    Removed,
    Rewritten(Vec<u8>),
}

/// Compaction of one batch.
struct Cleaner<'a> {
    /// Offset of the newest record by key, for the keys of the dirty part.
    newest: &'a HashMap<Vec<u8>, i64>,
    now: Millis,
    /// Delete horizon of tombstones and markers that compaction meets for the first time.
    horizon: Millis,
    /// Whether the header stays without any record: for the state of its producer, or so that clients that read up to
    /// the end of compaction get an offset beyond it.
    needs_header: bool,
}

impl Cleaner<'_> {
    fn clean(
        &self,
        batch: &StoredBatch,
        header: &BatchHeader,
        scan: &mut TransactionScan,
        codecs: &mut Codecs,
    ) -> Result<Cleaned, RecordError> {
        let records = codecs.reader.read(&batch.bytes, header)?;
        let is_over = header.delete_horizon().is_some_and(|horizon| horizon <= self.now);
        let first = records.iter().next().and_then(Result::ok);
        let (marker_alone, discard) = if header.is_control() {
            let alone = scan.control_batch(header, first.as_ref());
            (alone, alone && is_over)
        } else {
            (false, scan.data_batch(header))
        };
        let mut kept = Vec::new();
        let mut sets_horizon = marker_alone;
        for record in &records {
            let record = record?;
            let is_kept = !discard && (header.is_control() || self.is_kept(&record, is_over));
            sets_horizon |= is_kept && record.value.is_none();
            kept.push(is_kept);
        }
        if !kept.contains(&true) {
            return if !self.needs_header {
                Ok(Cleaned::Removed)
            } else if header.record_count == 0 {
                Ok(Cleaned::Unchanged)
            } else {
                let codec = Compression::None;
                records.rewrite(codec, None, &mut codecs.compressor, |_| false).map(Cleaned::Rewritten)
            };
        }
        let horizon = (sets_horizon && header.delete_horizon().is_none()).then_some(self.horizon);
        if horizon.is_none() && !kept.contains(&false) {
            return Ok(Cleaned::Unchanged);
        }
        let codec = header.compression().unwrap_or(Compression::None);
        let mut kept = kept.into_iter();
        let keep = |_: &BatchRecord<'_>| kept.next().unwrap_or(true);
        records.rewrite(codec, horizon, &mut codecs.compressor, keep).map(Cleaned::Rewritten)
    }

    /// Returns whether a record stays. `is_over`: tombstones of the batch may be deleted.
    fn is_kept(&self, record: &BatchRecord<'_>, is_over: bool) -> bool {
        // A record without a key is older than the policy; it has no newer record, but no reader either.
        let Some(key) = record.key else { return false };
        let is_newest = self.newest.get(key).is_none_or(|&newest| record.offset >= newest);
        is_newest && (record.value.is_some() || !is_over)
    }
}

/// Transactions that a pass over the batches, in order, is in.
struct TransactionScan {
    /// Aborted transactions that are not reached yet, by descending first offset.
    upcoming: Vec<AbortedTransaction>,
    /// Producers inside an aborted transaction, and whether the pass has met a batch of the transaction.
    aborted: BTreeMap<i64, bool>,
    /// Producers of which the pass has met a batch of a committed transaction.
    committed: BTreeSet<i64>,
}

impl TransactionScan {
    fn new(mut aborted: Vec<AbortedTransaction>) -> Self {
        aborted.sort_unstable_by_key(|transaction| std::cmp::Reverse(transaction.first_offset));
        Self { upcoming: aborted, aborted: BTreeMap::new(), committed: BTreeSet::new() }
    }

    fn advance(&mut self, header: &BatchHeader) {
        while let Some(next) = self.upcoming.pop_if(|next| next.first_offset <= header.last_offset()) {
            self.aborted.entry(next.producer_id).or_insert(false);
        }
    }

    /// Passes a control batch with its first record. Returns whether the batch may be discarded: the log has no batch
    /// of the transaction any more.
    fn control_batch(&mut self, header: &BatchHeader, record: Option<&BatchRecord<'_>>) -> bool {
        self.advance(header);
        let Some(record) = record else { return true };
        match control_type(record.key.unwrap_or_default()) {
            ControlType::Abort => !self.aborted.remove(&header.producer_id).unwrap_or(false),
            ControlType::Commit => !self.committed.remove(&header.producer_id),
            ControlType::Other => false,
        }
    }

    /// Passes another batch. Returns whether the batch belongs to an aborted transaction.
    fn data_batch(&mut self, header: &BatchHeader) -> bool {
        self.advance(header);
        if !header.is_transactional() {
            return false;
        }
        if let Some(met) = self.aborted.get_mut(&header.producer_id) {
            *met = true;
            return true;
        }
        self.committed.insert(header.producer_id);
        false
    }
}
