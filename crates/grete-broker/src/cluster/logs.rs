//! Records of partitions: appends, deletion, retention and compaction, with the bytes of all logs.

use grete_wire::ErrorCode;

use super::Cluster;
use crate::acl::AclChange;
use crate::effects::Change;
use crate::ids::{Millis, TopicId};
use crate::log::{AppendChecks, AppendError, Appended, Codecs, LogChange, LogConfig, PartitionLog};
use crate::topics::Topic;

/// `producer.id.expiration.ms`.
const PRODUCER_EXPIRATION_MS: Millis = 24 * 60 * 60 * 1000;

/// Partition of a topic, by id.
pub(super) type PartitionKey = (TopicId, i32);

impl Cluster {
    /// Appends the records of a Produce request, and answers the Fetches that wait for them.
    pub(super) fn append(
        &mut self,
        key: PartitionKey,
        records: &[u8],
        checks: AppendChecks,
    ) -> Result<Appended, AppendError> {
        let now = self.now;
        let gone =
            || AppendError { code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, message: None, record_errors: Vec::new() };
        let mut appended = self
            .with_log(key, |log, config, epoch, codecs| {
                log.append(now, epoch, records, config, checks, codecs)
                    .map(|appended| (appended.change.clone(), appended))
            })
            .ok_or_else(gone)??;
        if appended.change.take().is_some() {
            self.complete_fetches(key.0, key.1, false);
        }
        Ok(appended)
    }

    /// Deletes the records before an offset (-1: all). Returns the log start offset.
    pub(super) fn delete_before(&mut self, key: PartitionKey, offset: i64) -> Result<i64, ErrorCode> {
        self.with_log(key, |log, _, _, _| log.delete_records(offset).map(|(start, change)| (change, start)))
            .unwrap_or(Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION))
    }

    /// Starts the compaction at intervals if a topic needs it.
    pub(super) fn expect_cleaning(&mut self, topic: TopicId) {
        let is_compacted = |topic: &Topic| topic.config.list_contains("cleanup.policy", "compact");
        if self.next_cleaning.is_none() && self.topics.by_id(topic).is_some_and(is_compacted) {
            self.next_cleaning = Some(self.now.saturating_add(self.config.log_cleaner_backoff_ms.max(1)));
        }
    }

    /// Compacts the logs that are dirty enough.
    pub(super) fn clean_logs(&mut self) {
        let now = self.now;
        self.next_cleaning = Some(now.saturating_add(self.config.log_cleaner_backoff_ms.max(1)));
        for key in self.partition_keys() {
            self.with_log(key, |log, config, _, codecs| Ok::<_, ErrorCode>((log.compact(now, config, codecs), ())));
        }
    }

    /// Deletes old segments, and forgets silent producers.
    pub fn enforce_retention(&mut self) {
        let now = self.now;
        for key in self.partition_keys() {
            self.with_log(key, |log, config, _, _| Ok::<_, ErrorCode>((log.enforce_retention(now, config), ())));
            self.with_log(key, |log, _, _, _| {
                Ok::<_, ErrorCode>((log.expire_producers(now, PRODUCER_EXPIRATION_MS), ()))
            });
        }
    }

    /// Applies a change of a log that was stored before a restart.
    pub(super) fn restore_log(&mut self, topic: TopicId, partition: i32, change: &LogChange) {
        let Some(found) = self.topics.by_id_mut(topic).and_then(|topic| topic.partition_mut(partition)) else { return };
        let before = found.log.bytes();
        found.log.restore(change.clone(), &mut self.codecs);
        self.log_bytes = (self.log_bytes + found.log.bytes()).saturating_sub(before);
    }

    /// Returns the changes that rebuild the state, instead of all changes so far.
    #[must_use]
    pub fn snapshot(&self) -> Vec<Change> {
        let mut changes: Vec<Change> = self.topics.snapshot().into_iter().map(Change::Topic).collect();
        for topic in self.topics.iter() {
            for (partition, found) in topic.indexed() {
                let log = found.log.snapshot();
                changes.extend(log.map(|change| Change::Log { topic: topic.id, partition, change }));
            }
        }
        changes.extend(self.groups.snapshot().into_iter().map(Change::Group));
        changes.extend(self.transactions.snapshot().into_iter().map(Change::Transaction));
        changes.extend(self.share.snapshot().into_iter().map(Change::Share));
        let acl = |acl: &crate::acl::Acl| Change::Acl(AclChange::Created(acl.clone()));
        changes.extend(self.authorizer.all().into_iter().map(acl));
        changes
    }

    fn partition_keys(&self) -> Vec<PartitionKey> {
        let keys = |topic: &Topic| topic.indexed().map(|(index, _)| (topic.id, index)).collect::<Vec<_>>();
        self.topics.iter().flat_map(keys).collect()
    }

    /// Changes a log, stores the change, and keeps the count of bytes. `None`: the partition does not exist.
    pub(super) fn with_log<T, E>(
        &mut self,
        (topic, partition): PartitionKey,
        change: impl FnOnce(&mut PartitionLog, &LogConfig, i32, &mut Codecs) -> Result<(Option<LogChange>, T), E>,
    ) -> Option<Result<T, E>> {
        let found = self.topics.by_id_mut(topic)?;
        let index = usize::try_from(partition).ok()?;
        let (config, found) = (&found.log_config, found.partitions.get_mut(index)?);
        let before = found.log.bytes();
        let result = change(&mut found.log, config, found.leader_epoch, &mut self.codecs);
        self.log_bytes = (self.log_bytes + found.log.bytes()).saturating_sub(before);
        Some(result.map(|(change, value)| {
            if let Some(change) = change {
                self.effects.change(Change::Log { topic, partition, change });
            }
            value
        }))
    }
}
