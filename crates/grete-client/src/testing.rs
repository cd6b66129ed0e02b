//! A lane that is fed by hand: everything behind the network, without one.

use std::sync::Arc;

use grete_core::dispatch::{ClientId, LaneId, LaneSpec, OffsetMap, RoutePolicy};
use grete_core::fetch::{Chunk, Times};
use grete_core::ids::{Slot, TopicPartition};
use grete_wire::records::walk;
use grete_wire::slab::Slab;

use crate::dispatcher::Dispatcher;
use crate::error::ClientError;
use crate::remarks;

/// One assigned partition of a client of its own.
#[derive(Debug)]
pub struct TestLane {
    dispatcher: Dispatcher,
    client: ClientId,
    lane: LaneId,
    position: i64,
}

impl TestLane {
    /// Assigned, to be read from `position` on.
    #[must_use]
    pub fn new(dispatcher: &Dispatcher, policy: Arc<RoutePolicy>, topic: &str, partition: i32, position: i64) -> Self {
        let client = dispatcher.attach();
        let tp = TopicPartition::new(topic.to_owned(), partition);
        let mut state = dispatcher.lock();
        state.dispatch.add_route(&policy);
        let lane = state.dispatch.add_lane(LaneSpec { client, slot: Slot(0), tp, assignment_epoch: 1, policy });
        state.dispatch.set_position(lane, position, 1, false, OffsetMap::default());
        drop(state);
        Self { dispatcher: dispatcher.clone(), client, lane, position }
    }

    /// Whole record batches, as a broker would send them.
    ///
    /// # Errors
    /// When a header does not parse; nothing is pushed then.
    pub fn push(&mut self, data: Vec<u8>) -> Result<(), ClientError> {
        let mut next_offset = self.position;
        for batch in walk(&data) {
            let (header, _) = batch.map_err(|error| ClientError::Invalid(error.to_string()))?;
            next_offset = header.next_offset();
        }
        let times = Times::of(&data);
        let chunk = Chunk {
            slot: Slot(0),
            assignment_epoch: 1,
            fetch_generation: 1,
            range: 0..data.len(),
            bytes: data.len(),
            frame: Slab::from(data),
            fetch_offset: self.position,
            next_offset,
            aborted: Vec::new(),
            high_watermark: next_offset,
            readable_end: next_offset,
            log_start_offset: 0,
            leader_epoch: 0,
            times,
        };
        self.position = next_offset;
        let now = self.dispatcher.clock().now();
        let mut state = self.dispatcher.lock();
        state.dispatch.push(now, self.lane, chunk);
        self.dispatcher.unlock(state);
        Ok(())
    }

    /// The partition goes: its job ends, then its hook runs.
    pub fn revoke(&self, lost: bool) {
        let mut state = self.dispatcher.lock();
        state.dispatch.revoke(self.lane, lost);
        self.dispatcher.unlock(state);
    }

    /// The time to give the partition up has run out.
    pub fn abandon(&self) {
        let now = self.dispatcher.clock().now();
        let mut state = self.dispatcher.lock();
        let cancelled = state.loop_jobs(self.lane);
        let running = state.dispatch.abandon(self.lane);
        self.dispatcher.unlock(state);
        self.dispatcher.cancel_loop_jobs(cancelled);
        self.dispatcher.notify(running.iter().map(|job| remarks::abandoned(job, now)).collect());
    }

    /// What could be committed now: the next offset to read. `None`: nothing has been earned since the last call.
    #[must_use]
    pub fn committable(&self) -> Option<i64> {
        let mut state = self.dispatcher.lock();
        let drained = state.dispatch.take_outbox(self.client).drained.into_iter().filter_map(|drained| drained.commit);
        let last = drained.last();
        state.dispatch.committables(self.client, false).into_iter().next().or(last).map(|commit| commit.offset)
    }
}
