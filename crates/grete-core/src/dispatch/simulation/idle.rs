//! No worker is idle while there is something that it could do.

use super::book::Stage;
use super::process::Seat;
use super::world::World;
use crate::dispatch::{Concurrency, LaneId, LaneState, LaneStatus, OffsetPolicy};

/// More records than a simulated partition has.
const FAR: usize = 1000;

impl World {
    /// All workers have taken what they were given: what has been fetched and is not in somebody's hands waits for a reason.
    pub fn check_idle(&self, process: usize) {
        let process_ = &self.processes[process];
        if process_.stopping || process_.quiet || self.now > process_.last_heartbeat + super::group::SESSION {
            return;
        }
        for status in process_.dispatch.statuses(None) {
            let seat = &process_.lanes[&status.lane];
            let ghost = |id: &LaneId, other: &Seat| {
                let busy = process_.jobs.values().any(|job| job.lease.lane == *id);
                busy && *id != status.lane && other.partition == seat.partition
            };
            let alone = !process_.lanes.iter().any(|(id, other)| ghost(id, other));
            let decoding = process_.jobs.values().any(|job| job.lease.lane == status.lane && job.run.is_none());
            if alone && !decoding && process_.idle(seat.policy.pool) > 0 && self.may_run(seat) {
                self.check_lane(seat, &status);
            }
        }
    }

    fn may_run(&self, seat: &Seat) -> bool {
        let policy = &seat.policy;
        let free = policy.delay_ms.is_none() && policy.rate_limit.is_none() && policy.max_wait == 0;
        let paused = seat.paused_until.is_some_and(|until| until >= self.now);
        free && !paused
            && seat.book.stage == Stage::Active
            && seat.generation.is_some()
            && seat.book.count.is_calm()
            && seat.book.again.is_empty()
    }

    fn check_lane(&self, seat: &Seat, status: &LaneStatus) {
        let (book, policy) = (&seat.book, &seat.policy);
        let log = &self.partitions[seat.partition].log;
        let (first, next) = (status.committable.unwrap_or(0), status.position.unwrap_or(0));
        let paused = status.state == LaneState::Paused && seat.paused_until.is_some();
        // Decoding does not run far ahead of the first open record; what a function of single records is through with while it
        // runs is known when its job ends.
        let far = match policy.concurrency {
            _ if book.busy() && policy.concurrency != Concurrency::Partition && policy.max_unmarked < FAR => return,
            Concurrency::Partition if policy.offsets == OffsetPolicy::Manual => status.unmarked,
            Concurrency::Partition => 0,
            _ => log.records.range(first..next.max(first)).count(),
        };
        if paused || book.has_hook() || far > policy.max_unmarked || status.in_flight >= policy.max_in_flight {
            return;
        }
        for (offset, record) in log.records.range(book.floor()..seat.fetch.max(book.floor())) {
            if book.is_settled(*offset) || book.is_running(*offset) {
                continue;
            }
            let busy = match (policy.concurrency, record.key) {
                (Concurrency::Partition, _) => book.busy(),
                (Concurrency::Key, Some(key)) => book.slot_of(key).is_none_or(|slot| book.is_slot_busy(slot)),
                // What a failed job has left stays with its slot.
                _ if book.was_seen(*offset) => true,
                (Concurrency::Key, None) | (Concurrency::Unordered, _) => {
                    book.busy_slots() >= policy.key_slots as usize
                }
            };
            assert!(busy, "{} {offset} waits beside idle workers: {status:?}", seat.tp);
        }
    }
}
