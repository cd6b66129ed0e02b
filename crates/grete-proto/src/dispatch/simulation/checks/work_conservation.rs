//! Check of work conservation: no worker is idle while a job could run.

use super::lane_oracle::Stage;
use crate::dispatch::simulation::process::{AssignedPartition, Process};
use crate::dispatch::simulation::simulator::Simulator;
use crate::dispatch::{Concurrency, LaneId, LaneState, LaneStatus, OffsetPolicy};

/// Number above the records of any simulated partition.
const MAX_RECORDS: usize = 1000;

impl Simulator {
    /// Checks that each fetched record that no job holds waits for a reason, after all workers have taken jobs.
    pub fn check_work_conservation(&self, process: usize) {
        let process_ = &self.processes[process];
        if process_.stopping
            || process_.quiet
            || self.now > process_.last_heartbeat + crate::dispatch::simulation::coordinator::SESSION
        {
            return;
        }
        for status in process_.dispatch.lane_statuses(None) {
            let seat = &process_.lanes[&status.lane];
            let ghost = |id: &LaneId, other: &AssignedPartition| {
                let busy = process_.jobs.values().any(|job| job.lease.lane == *id) || process_.waits(*id);
                busy && *id != status.lane && other.partition == seat.partition
            };
            let alone = !process_.lanes.iter().any(|(id, other)| ghost(id, other));
            let decoding = process_.jobs.values().any(|job| job.lease.lane == status.lane && job.run.is_none());
            if alone && !decoding && process_.idle(seat.policy.pool) > 0 && self.may_run(process_, seat) {
                self.check_lane(seat, &status);
            }
        }
    }

    fn may_run(&self, process: &Process, seat: &AssignedPartition) -> bool {
        let policy = &seat.policy;
        let free = policy.delay_ms.is_none() && policy.rate_limit.is_none() && policy.max_wait == 0;
        let paused = seat.paused_until.is_some_and(|until| until >= self.now);
        let running = || process.running_jobs(policy.route);
        let full = policy.max_concurrency.is_some_and(|most| running() >= most as usize);
        free && !paused
            && !full
            && seat.oracle.stage == Stage::Active
            && seat.generation.is_some()
            && seat.oracle.count.is_calm()
            && seat.oracle.again.is_empty()
    }

    fn check_lane(&self, seat: &AssignedPartition, status: &LaneStatus) {
        let (book, policy) = (&seat.oracle, &seat.policy);
        let log = &self.partitions[seat.partition].log;
        let (first, next) = (status.committable.unwrap_or(0), status.position.unwrap_or(0));
        let paused = status.state == LaneState::Paused && seat.paused_until.is_some();
        // Decoding does not run far ahead of the first open record. Records that a function of one record has completed
        // are known only when its job ends.
        let far = match policy.concurrency {
            _ if book.busy() && policy.concurrency != Concurrency::Partition && policy.max_unmarked < MAX_RECORDS => {
                return;
            }
            Concurrency::Partition if policy.offsets == OffsetPolicy::Manual => status.unmarked,
            Concurrency::Partition => 0,
            _ => log.records.range(first..next.max(first)).count(),
        };
        // Without a fixed number of slots, a 64th of the window opens at once.
        let group = if policy.is_unit_per_key() && book.busy() { policy.max_in_flight.div_ceil(64) } else { 1 };
        let full = status.in_flight + group > policy.max_in_flight;
        if paused || book.has_hook() || far > policy.max_unmarked || full {
            return;
        }
        for (offset, record) in log.records.range(book.floor()..seat.fetch.max(book.floor())) {
            if book.is_settled(*offset) || book.is_running(*offset) {
                continue;
            }
            let busy = match (policy.concurrency, record.key) {
                (Concurrency::Partition, _) => book.busy(),
                (Concurrency::Key, Some(key)) => book.slot_of(key).is_none_or(|slot| book.is_slot_busy(slot)),
                // Rows that a failed job has left stay with their slot.
                _ if book.was_seen(*offset) => true,
                (Concurrency::Key, None) | (Concurrency::Unordered, _) => {
                    policy.key_slots > 0 && book.busy_slots() >= policy.key_slots as usize
                }
            };
            assert!(busy, "{} {offset} waits beside idle workers: {status:?}", seat.tp);
        }
    }
}
