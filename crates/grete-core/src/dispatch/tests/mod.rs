//! Lanes without threads: a worker is a variable here.

use std::sync::Arc;

use grete_wire::records::testing::{BatchOptions, TestRecord, build_batch, build_marker};
use grete_wire::records::{DecodeLimits, Decoder};
use grete_wire::slab::{Slab, SlabPool};

use super::*;
use crate::fetch::{Chunk, Times};
use crate::ids::{Slot, TopicPartition};
use crate::time::{MILLI, SECOND};

mod balance;
mod ends;
mod failing;
mod lagging;
mod lanes;
mod manual;
mod tallying;
mod telling;
mod units;
mod waiting;

struct World {
    dispatch: Dispatch,
    client: ClientId,
    decoder: Decoder,
    pool: ColumnsPool,
    slots: u32,
    now: Nanos,
    /// What the fetcher counts as held.
    held: usize,
    remarks: Vec<RemarkKind>,
    drained: Vec<Drained>,
    corrupt: Vec<Corrupt>,
}

impl World {
    fn new() -> Self {
        let mut dispatch = Dispatch::new(Rng::new(1));
        let client = dispatch.attach();
        let decoder = Decoder::new(SlabPool::new(1 << 20), DecodeLimits::default());
        let (remarks, drained, corrupt) = (Vec::new(), Vec::new(), Vec::new());
        let pool = ColumnsPool::default();
        Self { dispatch, client, decoder, pool, slots: 0, now: 0, held: 0, remarks, drained, corrupt }
    }

    /// A lane of its own partition that starts at offset 0 with generation 1.
    fn lane(&mut self, max_messages: usize) -> LaneId {
        self.lane_of(self.slots.cast_signed(), max_messages)
    }

    fn lane_of(&mut self, partition: i32, max_messages: usize) -> LaneId {
        self.add(partition, RoutePolicy { max_messages, ..RoutePolicy::default() })
    }

    fn lane_with(&mut self, policy: RoutePolicy) -> LaneId {
        self.add(self.slots.cast_signed(), policy)
    }

    fn add(&mut self, partition: i32, policy: RoutePolicy) -> LaneId {
        let slot = Slot(self.slots);
        self.slots += 1;
        let tp = TopicPartition::new("orders", partition);
        self.dispatch.add_route(&policy);
        let spec = LaneSpec { client: self.client, slot, tp, assignment_epoch: 1, policy: Arc::new(policy) };
        let id = self.dispatch.add_lane(spec);
        self.dispatch.set_position(id, 0, 1, false, OffsetMap::default());
        id
    }

    fn push(&mut self, lane: LaneId, base: i64, count: usize) -> bool {
        let records: Vec<_> = (0..count).map(|i| TestRecord::value(0, format!("v{}", base + i as i64))).collect();
        self.push_records(lane, base, &records)
    }

    /// Records with these keys; "" is none.
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
        let times = Times::of(&bytes);
        let chunk = Chunk {
            slot: Slot(lane.index),
            assignment_epoch: 1,
            fetch_generation: generation,
            range: 0..bytes.len(),
            bytes: bytes.len(),
            frame: Slab::from(bytes),
            fetch_offset: from,
            next_offset: next,
            aborted: Vec::new(),
            high_watermark: next,
            readable_end: next,
            log_start_offset: 0,
            leader_epoch: 0,
            times,
        };
        self.held += chunk.bytes;
        self.dispatch.push(self.now, lane, chunk)
    }

    /// What a worker does up to the handler. `None`: nothing to run.
    fn take(&mut self, now: Nanos) -> Option<Lease> {
        self.now = self.now.max(now);
        loop {
            let mut lease = self.dispatch.take(now, "worker", Pool::Threads)?;
            let prepared = lease.prepare(&mut self.decoder, &self.pool, None);
            self.dispatch.prepared(now, &lease, &prepared);
            match prepared.finished {
                None => return Some(lease),
                Some(finished) => self.dispatch.complete(now, lease, finished),
            };
        }
    }

    /// Everything that can be taken now.
    fn take_all(&mut self) -> Vec<Lease> {
        std::iter::from_fn(|| self.take(self.now)).collect()
    }

    fn end(&mut self, lease: Lease, finished: Finished) -> Option<Decision> {
        self.dispatch.complete(self.now, lease, finished).1
    }

    fn done(&mut self, lease: Lease) {
        assert_eq!(self.end(lease, Finished::Done), None);
    }

    /// Runs what can run now, and returns which rows each job had.
    fn run(&mut self) -> Vec<Vec<i64>> {
        let mut jobs = Vec::new();
        while let Some(lease) = self.take(self.now) {
            jobs.push(offsets(&lease));
            self.done(lease);
        }
        jobs
    }

    /// Goes on to when something is due.
    fn pass(&mut self) -> Nanos {
        let at = self.dispatch.next_deadline().expect("something is due");
        self.now = self.now.max(at);
        self.now
    }

    fn committable(&mut self) -> Vec<i64> {
        self.dispatch.committables(self.client, false).into_iter().map(|c| c.offset).collect()
    }

    /// What the network thread hears; returns the bytes that were released.
    fn released(&mut self) -> usize {
        let outbox = self.dispatch.take_outbox(self.client);
        self.remarks.extend(outbox.remarks.iter().map(|remark| remark.what));
        self.drained.extend(outbox.drained);
        self.corrupt.extend(outbox.corrupt);
        self.held += outbox.charged.iter().map(|(_, bytes)| bytes).sum::<usize>();
        let released = outbox.released.iter().map(|(_, bytes)| bytes).sum();
        self.held = self.held.checked_sub(released).expect("no byte is released twice");
        released
    }

    fn status(&self, lane: LaneId) -> LaneStatus {
        let all = self.dispatch.statuses(None);
        all.into_iter().find(|status| status.lane == lane).expect("it is there")
    }

    /// All memory is back.
    fn assert_empty(&mut self) {
        self.released();
        assert_eq!(self.held, 0, "held for ever");
        for status in self.dispatch.statuses(None) {
            assert_eq!((status.queued_bytes, status.in_flight), (0, 0), "{status:?}");
        }
    }
}

fn failed() -> Finished {
    fails(Verdict::Retry, None)
}

fn fails(verdict: Verdict, culprit: Option<i64>) -> Finished {
    Finished::Failed(Failure { culprit, ..Failure::new(verdict, "ValueError", "no") })
}

fn offsets(lease: &Lease) -> Vec<i64> {
    lease.shared.batch().map(|batch| batch.offsets().to_vec()).unwrap_or_default()
}

fn by_key() -> RoutePolicy {
    RoutePolicy { concurrency: Concurrency::Key, ..RoutePolicy::default() }
}
