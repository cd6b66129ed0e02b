//! Tests of the dispatcher without threads: a worker is a variable.

use std::sync::Arc;

use grete_wire::buffer_pool::{BufferPool, PooledBuf};
use grete_wire::records::test_encoder::{BatchOptions, TestRecord, build_batch, build_control_batch};
use grete_wire::records::{DecodeLimits, Decoder};

use super::*;
use crate::fetch::{CompletedFetch, TimestampRange};
use crate::ids::{PartitionHandle, TopicPartition};
use crate::time::{MILLI, Nanos, SECOND};

mod dedup;
mod exactly_once;
mod flow_control;
mod hooks_and_status;
mod invariants;
mod lag;
mod lanes;
mod manual_offsets;
mod queues;
mod retries;
mod revocation;
mod settled;
mod stats;
mod suspended_jobs;
mod unit_per_key;
mod units;
mod waits;

struct Harness {
    dispatch: Dispatch,
    client: ClientId,
    decoder: Decoder,
    pool: ColumnPool,
    slots: u32,
    now: Nanos,
    /// Bytes that the fetcher counts as held.
    held: usize,
    lane_events: Vec<LaneEventKind>,
    drained: Vec<DrainedLane>,
    corrupt: Vec<CorruptBatch>,
}

impl Harness {
    fn new() -> Self {
        let mut dispatch = Dispatch::new(Rng::new(1));
        let client = dispatch.add_client();
        let decoder = Decoder::new(BufferPool::new(1 << 20), DecodeLimits::default());
        let (remarks, drained, corrupt) = (Vec::new(), Vec::new(), Vec::new());
        let pool = ColumnPool::default();
        Self { dispatch, client, decoder, pool, slots: 0, now: 0, held: 0, lane_events: remarks, drained, corrupt }
    }

    /// Adds a lane with a new partition, at offset 0 and with generation 1.
    fn lane(&mut self, max_messages: usize) -> LaneId {
        self.lane_of(self.slots.cast_signed(), max_messages)
    }

    fn lane_of(&mut self, partition: i32, max_messages: usize) -> LaneId {
        self.add(partition, RouteConfig { max_messages, ..RouteConfig::default() })
    }

    fn lane_with(&mut self, policy: RouteConfig) -> LaneId {
        self.add(self.slots.cast_signed(), policy)
    }

    fn add(&mut self, partition: i32, policy: RouteConfig) -> LaneId {
        let slot = PartitionHandle(self.slots);
        self.slots += 1;
        let tp = TopicPartition::new("orders", partition);
        self.dispatch.add_route(&policy);
        let spec = LaneSpec { client: self.client, handle: slot, tp, assignment_epoch: 1, policy: Arc::new(policy) };
        let id = self.dispatch.add_lane(spec);
        self.dispatch.set_position(id, 0, 1, false, OffsetMap::default());
        id
    }

    fn push(&mut self, lane: LaneId, base: i64, count: usize) -> bool {
        let records: Vec<_> = (0..count).map(|i| TestRecord::value(0, format!("v{}", base + i as i64))).collect();
        self.push_records(lane, base, &records)
    }

    /// Pushes records with these keys; "": no key.
    fn push_keys(&mut self, lane: LaneId, base: i64, keys: &[&str]) -> bool {
        let record =
            |key: &&str| if key.is_empty() { TestRecord::value(0, "v") } else { TestRecord::keyed(0, *key, "v") };
        let records: Vec<_> = keys.iter().map(record).collect();
        self.push_records(lane, base, &records)
    }

    fn push_records(&mut self, lane: LaneId, base: i64, records: &[TestRecord]) -> bool {
        let next = base + records.len() as i64;
        self.push_bytes(lane, base, next, build_batch(base, records, &BatchOptions::default()))
    }

    fn push_bytes(&mut self, lane: LaneId, fetch_offset: i64, next_offset: i64, bytes: Vec<u8>) -> bool {
        self.push_generation(lane, 1, fetch_offset, next_offset, bytes)
    }

    fn push_generation(&mut self, lane: LaneId, generation: u32, from: i64, next: i64, bytes: Vec<u8>) -> bool {
        let times = TimestampRange::from_batches(&bytes);
        let chunk = CompletedFetch {
            slot: PartitionHandle(lane.index),
            assignment_epoch: 1,
            fetch_generation: generation,
            range: 0..bytes.len(),
            bytes: bytes.len(),
            frame: PooledBuf::from(bytes),
            fetch_offset: from,
            next_offset: next,
            aborted_transactions: Vec::new(),
            high_watermark: next,
            readable_end: next,
            log_start_offset: 0,
            leader_epoch: 0,
            source: 1,
            timestamps: times,
            acquired: None,
        };
        self.held += chunk.bytes;
        self.dispatch.push(self.now, lane, chunk)
    }

    /// Takes and prepares the next job with rows, like a worker; `None`: nothing to run.
    fn take(&mut self, now: Nanos) -> Option<Lease> {
        self.now = self.now.max(now);
        loop {
            let mut lease = self.dispatch.take(now, "worker", Pool::Threads)?;
            let prepared = lease.prepare(&mut self.decoder, &self.pool, None);
            self.dispatch.on_prepared(now, &lease, &prepared);
            match prepared.outcome {
                None => return Some(lease),
                Some(finished) => self.dispatch.complete(now, lease, finished),
            };
        }
    }

    /// Takes all jobs that are ready now.
    fn take_all(&mut self) -> Vec<Lease> {
        std::iter::from_fn(|| self.take(self.now)).collect()
    }

    fn end(&mut self, lease: Lease, finished: JobOutcome) -> Option<Decision> {
        self.dispatch.complete(self.now, lease, finished).1
    }

    fn done(&mut self, lease: Lease) {
        assert_eq!(self.end(lease, JobOutcome::Done), None);
    }

    /// Runs all jobs that are ready now. Returns the rows of each job.
    fn run(&mut self) -> Vec<Vec<i64>> {
        let mut jobs = Vec::new();
        while let Some(lease) = self.take(self.now) {
            jobs.push(offsets(&lease));
            self.done(lease);
        }
        jobs
    }

    /// Moves the clock to the next deadline.
    fn advance_to_deadline(&mut self) -> Nanos {
        let at = self.dispatch.next_deadline().expect("something is due");
        self.now = self.now.max(at);
        self.now
    }

    fn committable(&mut self) -> Vec<i64> {
        self.dispatch.take_committables(self.client, false).into_iter().map(|c| c.offset).collect()
    }

    /// Takes the outbox, like the network thread. Returns the released bytes.
    fn released(&mut self) -> usize {
        let outbox = self.dispatch.take_outbox(self.client);
        self.lane_events.extend(outbox.lane_events.iter().map(|remark| remark.kind));
        self.drained.extend(outbox.drained);
        self.corrupt.extend(outbox.corrupt);
        self.held += outbox.charged.iter().map(|(_, bytes)| bytes).sum::<usize>();
        let released = outbox.released.iter().map(|(_, bytes)| bytes).sum();
        self.held = self.held.checked_sub(released).expect("no byte is released twice");
        released
    }

    fn status(&self, lane: LaneId) -> LaneStatus {
        let all = self.dispatch.lane_statuses(None);
        all.into_iter().find(|status| status.lane == lane).expect("it is there")
    }

    /// Checks that all memory is released.
    fn assert_empty(&mut self) {
        self.released();
        assert_eq!(self.held, 0, "bytes are never released");
        for status in self.dispatch.lane_statuses(None) {
            assert_eq!((status.queued_bytes, status.in_flight), (0, 0), "{status:?}");
        }
    }
}

fn failed() -> JobOutcome {
    failed_with(FailureKind::Retriable, None)
}

fn failed_with(kind: FailureKind, culprit: Option<i64>) -> JobOutcome {
    JobOutcome::Failed(Failure { failed_offset: culprit, ..Failure::new(kind, "ValueError", "no") })
}

fn offsets(lease: &Lease) -> Vec<i64> {
    lease.shared.batch().map(|batch| batch.offsets().to_vec()).unwrap_or_default()
}

fn by_key() -> RouteConfig {
    RouteConfig { concurrency: Concurrency::Key, ..RouteConfig::default() }
}
