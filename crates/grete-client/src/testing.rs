//! Test lane that is fed by hand: everything behind the network, without a network.

use std::sync::Arc;

use grete_proto::dispatch::{ClientId, LaneId, LaneSpec, OffsetMap, RouteConfig};
use grete_proto::fetch::{CompletedFetch, TimestampRange};
use grete_proto::ids::{PartitionHandle, TopicPartition};
use grete_wire::buffer_pool::PooledBuf;
use grete_wire::records::iter_batches;

use crate::dispatcher::Dispatcher;
use crate::dispatcher::lane_events;
use crate::error::ClientError;

/// One assigned partition of its own client.
#[derive(Debug)]
pub struct TestLane {
    dispatcher: Dispatcher,
    client: ClientId,
    lane: LaneId,
    position: i64,
    generation: u32,
}

impl TestLane {
    /// Creates the lane of an assigned partition that is read from `position`.
    pub fn new(dispatcher: &Dispatcher, policy: Arc<RouteConfig>, topic: &str, partition: i32, position: i64) -> Self {
        let client = dispatcher.attach();
        let tp = TopicPartition::new(topic.to_owned(), partition);
        let mut state = dispatcher.lock();
        state.dispatch.add_route(&policy);
        let lane =
            state.dispatch.add_lane(LaneSpec { client, handle: PartitionHandle(0), tp, assignment_epoch: 1, policy });
        state.dispatch.set_position(lane, position, 1, false, OffsetMap::default());
        drop(state);
        Self { dispatcher: dispatcher.clone(), client, lane, position, generation: 1 }
    }

    /// Pushes whole record batches, as a broker would send them.
    ///
    /// # Errors
    /// Fails if a batch header cannot be parsed; nothing is pushed then.
    pub fn push(&mut self, data: Vec<u8>) -> Result<(), ClientError> {
        let mut next_offset = self.position;
        for batch in iter_batches(&data) {
            let (header, _) = batch.map_err(|error| ClientError::Invalid(error.to_string()))?;
            next_offset = header.next_offset();
        }
        let times = TimestampRange::from_batches(&data);
        let chunk = CompletedFetch {
            slot: PartitionHandle(0),
            assignment_epoch: 1,
            fetch_generation: self.generation,
            range: 0..data.len(),
            bytes: data.len(),
            frame: PooledBuf::from(data),
            fetch_offset: self.position,
            next_offset,
            aborted_transactions: Vec::new(),
            high_watermark: next_offset,
            readable_end: next_offset,
            log_start_offset: 0,
            leader_epoch: 0,
            source: 1,
            timestamps: times,
            acquired: None,
        };
        self.position = next_offset;
        let now = self.dispatcher.now();
        let mut state = self.dispatcher.lock();
        state.dispatch.push(now, self.lane, chunk);
        self.dispatcher.unlock_and_wake(state);
        Ok(())
    }

    /// Moves the position of the partition, as a seek does: what was pushed and not handed out is dropped.
    pub fn seek(&mut self, position: i64) {
        self.position = position;
        self.generation += 1;
        let mut state = self.dispatcher.lock();
        state.dispatch.reset_lane(self.lane);
        state.dispatch.set_position(self.lane, position, self.generation, false, OffsetMap::default());
        self.dispatcher.unlock_and_wake(state);
    }

    /// Returns those of the ascending `offsets` that are done. Empty after the partition is lost or abandoned.
    #[must_use]
    pub fn done_offsets(&self, offsets: &[i64]) -> Vec<i64> {
        self.dispatcher.lock().dispatch.done_offsets(self.lane, offsets)
    }

    /// Revokes the partition: its job ends, then its hook runs.
    pub fn revoke(&self, lost: bool) {
        let mut state = self.dispatcher.lock();
        state.dispatch.revoke(self.lane, lost);
        self.dispatcher.unlock_and_wake(state);
    }

    /// Abandons the partition, as if the time for revoking it had run out.
    pub fn abandon(&self) {
        let now = self.dispatcher.now();
        let mut state = self.dispatcher.lock();
        let cancelled = state.async_job_ids(self.lane);
        let running = state.dispatch.abandon(self.lane);
        self.dispatcher.unlock_and_wake(state);
        self.dispatcher.cancel_async_jobs(cancelled);
        self.dispatcher.emit(running.iter().map(|job| lane_events::abandoned(job, now)).collect());
    }

    /// Returns the next offset that could be committed now; `None`: nothing new since the last call.
    pub fn committable(&self) -> Option<i64> {
        let mut state = self.dispatcher.lock();
        let drained = state.dispatch.take_outbox(self.client).drained.into_iter().filter_map(|drained| drained.commit);
        let last = drained.last();
        state.dispatch.take_committables(self.client, false).into_iter().next().or(last).map(|commit| commit.offset)
    }
}
