//! History of a lane: the ids of the records before its committed offset, read again before its first job.
//!
//! The fetcher reads from the committed offset on meanwhile. The lane decodes nothing until the history is complete: a
//! duplicate would pass otherwise.

use std::sync::Arc;

use super::duplicates::DuplicateFilter;
use crate::dispatch::Dispatch;
use crate::dispatch::ids::LaneId;
use crate::dispatch::lane::LaneFailure;
use crate::ids::TopicPartition;

/// `reason` of the failure of a lane whose history cannot be read.
const HISTORY_FAILED: &str = "dedup_history";

/// Records to read before a lane's first job.
#[derive(Debug, Clone)]
pub struct HistoryRequest {
    /// Lane that waits.
    pub lane: LaneId,
    /// Topic and partition.
    pub tp: TopicPartition,
    /// Offset behind the last record to read.
    pub before: i64,
    /// Number of records that fit into the memory: earlier ones are not needed.
    pub records: usize,
    /// Age in milliseconds, as seen from the last record, beyond which records are not needed.
    pub window_ms: i64,
    /// Filter that learns the records, in the order of their offsets.
    pub filter: Arc<DuplicateFilter>,
}

impl Dispatch {
    /// Gives a lane of a route with deduplication its filter, at a new position. `is_committed`: the records before the
    /// position were processed, so that their ids count.
    ///
    /// After a seek they do not count: the user wants the records from there on.
    pub(in crate::dispatch) fn start_dedup(&mut self, id: LaneId, position: i64, is_committed: bool) {
        let salts = [self.rng.next_u64(), self.rng.next_u64()];
        let Some(lane) = self.lane_mut(id) else { return };
        let Some(policy) = lane.spec.policy.dedup.clone() else { return };
        let filter = Arc::new(DuplicateFilter::new(Arc::clone(&policy), salts));
        let waits = is_committed && position > 0;
        lane.fetch.set_duplicates(Arc::clone(&filter), waits);
        if !waits {
            return;
        }
        let (client, tp) = (lane.spec.client, lane.spec.tp.clone());
        let (records, window_ms) = (policy.capacity(), policy.window_ms);
        if let Some(entry) = self.client_mut(client) {
            let request = HistoryRequest { lane: id, tp, before: position, records, window_ms, filter };
            entry.outbox.histories.push(request);
            entry.wake_pending = true;
        }
    }

    /// Returns whether the lane still waits for this history. It does not if its position has moved, or if it is gone.
    pub fn awaits_history(&mut self, request: &HistoryRequest) -> bool {
        self.lane_mut(request.lane).is_some_and(|lane| lane.fetch.awaits_history(&request.filter))
    }

    /// Ends the wait for a history that was learned. Returns whether to wake a worker.
    pub fn end_history(&mut self, request: &HistoryRequest) -> bool {
        let Some(lane) = self.lane_mut(request.lane).filter(|lane| lane.fetch.awaits_history(&request.filter)) else {
            return false;
        };
        lane.fetch.end_history();
        lane.failure.take_if(|failure| failure.reason == HISTORY_FAILED);
        self.enqueue_decode(request.lane)
    }

    /// Records why the history cannot be read now. The lane waits on.
    pub fn fail_history(&mut self, request: &HistoryRequest, error: &str) {
        let since = self.now;
        let Some(lane) = self.lane_mut(request.lane).filter(|lane| lane.fetch.awaits_history(&request.filter)) else {
            return;
        };
        let since = lane.failure.as_ref().map_or(since, |failure| failure.since);
        lane.failure = Some(LaneFailure { reason: HISTORY_FAILED, error: error.into(), since });
    }
}
