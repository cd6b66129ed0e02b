//! Producer core without brokers: each batch is written to memory when it is ready. For tests of handlers.
//!
//! The accumulator and the promises are those of a real producer, so records, sizes, deliveries and their outcomes are
//! real, too. Every topic exists. A test may have a topic refuse records.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grete_wire::api::ApiKey;
use grete_wire::error_code::ErrorCode;
use grete_wire::records::{Compression, Compressor};

use super::PartitionId;
use super::accumulator::{SharedAccumulator, UnsentBatch, lock};
use super::batch_promise::{Outcome, RunResult};
use super::error::ProduceError;
use super::event::{ProducerAction, ProducerEvent};
use super::sender::event::SenderStats;
use crate::cluster::PartitionMetadata;
use crate::cluster::view::ClusterView;
use crate::ids::{NodeId, TopicPartition};
use crate::request::Channel;
use crate::time::Nanos;

/// Records of one batch that were written.
#[derive(Debug, Clone)]
pub struct WrittenBatch {
    /// Topic of the records.
    pub topic: Arc<str>,
    /// Partition of the records.
    pub partition: i32,
    /// Offset of the first written record.
    pub offset: i64,
    /// Encoded batch, with base offset 0.
    pub bytes: Arc<Vec<u8>>,
    /// Number of records at the start of the batch that were refused.
    pub refused: u32,
}

/// Topics of a [`MemoryCore`], and the batches that it has written.
#[derive(Debug, Default)]
pub struct MemoryLog {
    state: Mutex<MemoryLogState>,
}

#[derive(Debug, Default)]
struct MemoryLogState {
    /// Number of partitions of topics that have more than one.
    partitions: HashMap<String, u32>,
    /// Number of records that each topic still refuses; `None`: all.
    refusals: HashMap<String, Option<u64>>,
    /// Number of records that each topic has refused.
    refused: HashMap<String, u64>,
    end_offsets: HashMap<(Arc<str>, i32), i64>,
    written: Vec<WrittenBatch>,
}

impl MemoryLog {
    /// Creates a log. `partitions`: their numbers; other topics have one. `refusals`: topics that refuse records, with
    /// the number of records; `None`: all records.
    #[must_use]
    pub fn new(partitions: HashMap<String, u32>, refusals: HashMap<String, Option<u64>>) -> Self {
        Self { state: Mutex::new(MemoryLogState { partitions, refusals, ..MemoryLogState::default() }) }
    }

    /// Returns the batches that were written since the last call, in the order of writing.
    #[must_use]
    pub fn take_written(&self) -> Vec<WrittenBatch> {
        std::mem::take(&mut self.lock().written)
    }

    /// Returns the number of records that each topic has refused; a topic without such records is not there.
    #[must_use]
    pub fn refused(&self) -> HashMap<String, u64> {
        self.lock().refused.clone()
    }

    fn lock(&self) -> MutexGuard<'_, MemoryLogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryLogState {
    /// Returns how many of the next `count` records the topic refuses.
    fn refuse(&mut self, topic: &str, count: u32) -> u32 {
        let refused = match self.refusals.get_mut(topic) {
            None => 0,
            Some(None) => count,
            Some(Some(left)) => {
                let refused = u32::try_from(*left).unwrap_or(u32::MAX).min(count);
                *left -= u64::from(refused);
                refused
            }
        };
        if refused > 0 {
            *self.refused.entry(topic.to_owned()).or_default() += u64::from(refused);
        }
        refused
    }
}

/// State machine of a producer that writes to a [`MemoryLog`]. Takes the place of
/// [`ProducerCore`](super::ProducerCore).
#[derive(Debug)]
pub struct MemoryCore {
    accumulator: SharedAccumulator,
    log: Arc<MemoryLog>,
    compressor: Compressor,
    stats: SenderStats,
    finished: bool,
    ready: Vec<PartitionId>,
}

impl MemoryCore {
    /// Creates a core that writes to `log`.
    #[must_use]
    pub fn new(accumulator: SharedAccumulator, log: Arc<MemoryLog>) -> Self {
        let compressor = Compressor::new();
        Self { accumulator, log, compressor, stats: SenderStats::default(), finished: false, ready: Vec::new() }
    }

    /// Handles one event; see [`ProducerCore::step`](super::ProducerCore::step). Writes all batches that are ready.
    pub fn step(&mut self, now: Nanos, event: &ProducerEvent, out: &mut Vec<ProducerAction>) {
        let closing = matches!(event, ProducerEvent::Close { .. });
        let mut accumulator = lock(&self.accumulator);
        if closing {
            accumulator.close(None);
        }
        let mut failed = Vec::new();
        if accumulator.take_tracked_topics_changed() {
            let view = MemoryTopics::of(&accumulator.tracked_topics(), &self.log.lock().partitions);
            failed = accumulator.update_metadata(&view).failed;
        }
        let mut ready = std::mem::take(&mut self.ready);
        accumulator.take_ready(now, &mut ready);
        drop(accumulator);
        for (record, _) in failed {
            lock(&self.accumulator).release_unassigned(&record);
            self.stats.not_written += 1;
            // Every topic exists, so the record has chosen a partition that the topic does not have.
            let topic = Arc::clone(record.promise.topic());
            let error = Some(Arc::new(ProduceError::UnknownTopic { topic, partition: record.promise.partition() }));
            let result = RunResult { outcome: Outcome::NotWritten, offset: None, timestamp: None, error, at: now };
            record.promise.complete(result, |promise| out.push(ProducerAction::Completed(promise)));
        }
        for id in ready.drain(..) {
            self.write_ready(now, id, out);
        }
        self.ready = ready;
        let mut accumulator = lock(&self.accumulator);
        let wakes = accumulator.take_wake_set();
        drop(accumulator);
        out.extend(wakes.memory.then_some(ProducerAction::MemoryAvailable));
        out.extend(wakes.flush.then_some(ProducerAction::FlushCompleted));
        out.extend(wakes.metadata.then_some(ProducerAction::MetadataAvailable));
        if closing && !std::mem::replace(&mut self.finished, true) {
            out.push(ProducerAction::Finished);
        }
    }

    /// Returns the counters since the start.
    #[must_use]
    pub fn stats(&self) -> SenderStats {
        self.stats
    }

    fn write_ready(&mut self, now: Nanos, id: PartitionId, out: &mut Vec<ProducerAction>) {
        loop {
            let (batch, more) = lock(&self.accumulator).take_batch(id, now);
            let Some(batch) = batch else { break };
            self.write(now, batch, out);
            if !more {
                break;
            }
        }
        lock(&self.accumulator).mark_partition_idle(id);
    }

    fn write(&mut self, now: Nanos, batch: UnsentBatch, out: &mut Vec<ProducerAction>) {
        let (charge, count) = (batch.charge(), batch.builder.count());
        let UnsentBatch { number, promise, builder } = batch;
        let (topic, partition) = (Arc::clone(promise.topic()), promise.partition());
        let encoded = builder.finish(Compression::None, None, &mut self.compressor);
        let mut log = self.log.lock();
        let refused = if encoded.is_err() { count } else { log.refuse(&topic, count) };
        let end = log.end_offsets.entry((Arc::clone(&topic), partition)).or_default();
        // Refused records leave a gap: the batch around them has its base offset in front of the first written record.
        let offset = *end + i64::from(refused);
        *end += i64::from(count);
        let error = match encoded {
            Err(cause) => ProduceError::Encode { topic: Arc::clone(&topic), partition, cause },
            Ok(mut encoded) => {
                encoded.set_producer_info(-1, -1, -1);
                let bytes = Arc::clone(encoded.bytes());
                if refused < count {
                    log.written.push(WrittenBatch { topic: Arc::clone(&topic), partition, offset, bytes, refused });
                }
                let message = Some("the test has this delivery fail".to_owned());
                ProduceError::Broker { topic, partition, code: ErrorCode::INVALID_RECORD, message }
            }
        };
        drop(log);
        self.stats.batches += 1;
        self.stats.written += u64::from(count - refused);
        self.stats.not_written += u64::from(refused);
        let mut accumulator = lock(&self.accumulator);
        accumulator.complete(number, count, true);
        accumulator.release_batch(charge, None);
        drop(accumulator);
        let failed = RunResult {
            outcome: Outcome::NotWritten,
            offset: None,
            timestamp: None,
            error: Some(Arc::new(error)),
            at: now,
        };
        let written =
            RunResult { outcome: Outcome::Written, offset: Some(offset), timestamp: None, error: None, at: now };
        let mut on_awaited = |promise| out.push(ProducerAction::Completed(promise));
        match refused {
            0 => promise.complete(written, on_awaited),
            refused if refused == count => promise.complete(failed, on_awaited),
            refused => {
                promise.complete_part(0, refused, failed, false, &mut on_awaited);
                promise.complete_part(refused, count - refused, written, true, on_awaited);
            }
        }
    }
}

/// Metadata of topics that all exist.
struct MemoryTopics {
    topics: HashMap<Arc<str>, Vec<PartitionMetadata>>,
}

impl MemoryTopics {
    fn of(names: &[Arc<str>], partitions: &HashMap<String, u32>) -> Self {
        let leader = PartitionMetadata { leader: 0, leader_epoch: 0, error: ErrorCode::NONE };
        let count = |name: &str| partitions.get(name).map_or(1, |count| *count as usize);
        let topics = names.iter().map(|name| (Arc::clone(name), vec![leader; count(name)]));
        Self { topics: topics.collect() }
    }
}

impl ClusterView for MemoryTopics {
    fn leader(&self, tp: &TopicPartition) -> Option<(NodeId, i32)> {
        let partition = usize::try_from(tp.partition).ok()?;
        self.topics.get(&tp.topic)?.get(partition).map(|meta| (meta.leader, meta.leader_epoch))
    }

    fn partitions(&self, topic: &str) -> Option<Result<&[PartitionMetadata], ErrorCode>> {
        self.topics.get(topic).map(|partitions| Ok(partitions.as_slice()))
    }

    fn missing_at(&self, _topic: &str) -> Option<Nanos> {
        None
    }

    fn topic_id(&self, topic: &str) -> Option<u128> {
        self.topics.contains_key(topic).then_some(0)
    }

    fn api_version(&self, _node: NodeId, _channel: Channel, _api: ApiKey) -> Option<i16> {
        None
    }

    fn is_muted(&self, _node: NodeId, _now: Nanos) -> bool {
        false
    }

    fn metadata_version(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use grete_wire::records::ProducerRecord;

    use super::*;
    use crate::producer::{Accumulator, BatchPromise, ProduceConfig};
    use crate::rng::Rng;

    struct Bench {
        core: MemoryCore,
        log: Arc<MemoryLog>,
        accumulator: SharedAccumulator,
        actions: Vec<ProducerAction>,
    }

    impl Bench {
        fn new(refusals: &[(&str, Option<u64>)]) -> Self {
            let refusals = refusals.iter().map(|(topic, count)| ((*topic).to_owned(), *count)).collect();
            let log = Arc::new(MemoryLog::new(HashMap::from([("wide".to_owned(), 3)]), refusals));
            let accumulator = Arc::new(Mutex::new(Accumulator::new(&ProduceConfig::default(), Rng::new(1))));
            let core = MemoryCore::new(Arc::clone(&accumulator), Arc::clone(&log));
            Self { core, log, accumulator, actions: Vec::new() }
        }

        fn step(&mut self) {
            self.core.step(5, &ProducerEvent::Tick, &mut self.actions);
        }

        fn append(&mut self, topic: &str, value: &[u8]) -> (Arc<BatchPromise>, u32) {
            let id = lock(&self.accumulator).topic(topic);
            self.step();
            let record = ProducerRecord { timestamp: 7, key: None, value: Some(value), headers: &[] };
            let mut accumulator = lock(&self.accumulator);
            let appended = accumulator.append(5, id, None, &record).expect("room");
            (Arc::clone(appended.promise), appended.index)
        }

        fn flush(&mut self) {
            lock(&self.accumulator).flush();
            self.step();
        }
    }

    #[test]
    fn records_are_written_in_order_with_ascending_offsets() {
        let mut bench = Bench::new(&[]);
        for round in 0..3_i64 {
            let (promise, index) = bench.append("orders", b"value");
            assert!(promise.watch());
            bench.flush();
            let result = promise.result(index).expect("settled");
            assert_eq!((result.outcome, result.offset), (Outcome::Written, Some(round)));
            assert!(bench.actions.drain(..).any(|action| matches!(action, ProducerAction::Completed(_))));
        }
        assert_eq!(bench.log.take_written().iter().map(|batch| batch.offset).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(bench.log.take_written().is_empty());
        assert_eq!((bench.core.stats().written, lock(&bench.accumulator).used_bytes()), (3, 0));
    }

    #[test]
    fn a_topic_refuses_the_first_records_as_many_as_set() {
        let mut bench = Bench::new(&[("orders", Some(2)), ("audit", None)]);
        let appended: Vec<_> = (0..3).map(|_| bench.append("orders", b"value")).collect();
        bench.flush();
        let outcomes = appended.iter().map(|(promise, index)| promise.result(*index).map(|one| one.outcome));
        let expected = [Outcome::NotWritten, Outcome::NotWritten, Outcome::Written].map(Some);
        assert_eq!(outcomes.collect::<Vec<_>>(), expected);
        let written = bench.log.take_written();
        assert_eq!(written.iter().map(|batch| (batch.offset, batch.refused)).collect::<Vec<_>>(), [(2, 2)]);
        for _ in 0..5 {
            let (promise, index) = bench.append("audit", b"value");
            bench.flush();
            assert_eq!(promise.result(index).map(|one| one.outcome), Some(Outcome::NotWritten));
        }
        assert!(bench.log.take_written().is_empty());
    }

    #[test]
    fn topics_exist_with_their_partitions() {
        let mut bench = Bench::new(&[]);
        for (topic, count) in [("wide", 3), ("orders", 1)] {
            let id = lock(&bench.accumulator).topic(topic);
            bench.step();
            assert_eq!(lock(&bench.accumulator).partitions(id), Some(Ok(count)));
        }
    }

    #[test]
    fn a_close_writes_the_rest_and_finishes_once() {
        let mut bench = Bench::new(&[]);
        let (promise, index) = bench.append("orders", b"value");
        for _ in 0..2 {
            bench.core.step(6, &ProducerEvent::Close { deadline: 0 }, &mut bench.actions);
        }
        assert_eq!(promise.result(index).map(|one| one.outcome), Some(Outcome::Written));
        assert_eq!(bench.actions.iter().filter(|action| matches!(action, ProducerAction::Finished)).count(), 1);
    }
}
