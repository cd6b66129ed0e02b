//! Start of a job: selects the next job of a pool and leases it to a worker.

use std::sync::Arc;

use super::ids::UnitId;
use super::job::state::JobState;
use super::job::{InFlightJob, JobKind, PassedLimits};
use super::lease::{Lease, PrepareResult};
use super::network::ClientState;
use super::outbox::{LaneEvent, LaneEventKind};
use super::queue::ready_queue::{QueueEntry, ReadyKind};
use super::retry::NextRun;
use super::route_config::{Concurrency, Pool};
use super::rows::filter::{RowFilter, SkippedRows};
use super::rows::row_slice::RowSlice;
use super::{Dispatch, Mode, Timer, get_mut};
use crate::time::{Nanos, earliest};

/// Input of one job.
struct JobInput {
    slot: u32,
    kind: JobKind,
    attempt: u32,
    rows: Option<RowSlice>,
    failure_history: Option<Arc<super::retry::failure::FailureHistory>>,
    /// Rows granted by the rate limit; 0: none. Only rows that are handed out for the first time count against the
    /// rate.
    granted: usize,
    max_rows: usize,
}

impl JobInput {
    fn for_lane(kind: JobKind) -> Self {
        Self { slot: 0, kind, attempt: 1, rows: None, failure_history: None, granted: 0, max_rows: usize::MAX }
    }
}

impl Dispatch {
    /// Leases the next job for this pool; `None`: no job is ready.
    pub fn take(&mut self, now: Nanos, worker: &str, pool: Pool) -> Option<Lease> {
        self.advance(now);
        while let Some(mut entry) = self.ready.pop(pool) {
            if let Some(number) = entry.released_by.take()
                && let Some(route) = self.routes.get_mut(&number)
            {
                route.jobs.on_released_taken();
            }
            if let Some(work) = self.next_input(now, pool, entry) {
                return self.lease_job(entry, work, worker);
            }
            self.release_held_entries(); // the entry may have had a place
        }
        None
    }

    /// Makes entries ready that waited for a limit of jobs, if one more job may start.
    fn release_held_entries(&mut self) {
        for route in self.routes.values_mut() {
            while let Some((pool, entry)) = route.jobs.release() {
                self.ready.put(pool, entry);
            }
        }
    }

    /// Returns the job for an entry of the ready queue; `None`: nothing is left to run, or the entry waits elsewhere.
    fn next_input(&mut self, now: Nanos, pool: Pool, entry: QueueEntry) -> Option<JobInput> {
        let running = self.mode == Mode::Running;
        let lane = get_mut(&mut self.lanes, entry.lane)?;
        lane.set_queued(entry.kind, false);
        let Some(kind) = lane.runnable_job(entry.kind, now) else {
            if let ReadyKind::Unit(slot) = entry.kind {
                lane.drop_idle_unit(slot);
            }
            return None;
        };
        if !running && !kind.is_end_hook() {
            return None;
        }
        // A process that slept beyond its session timeout must not process partitions that another member may own by
        // now.
        let client = self.clients.get_mut(lane.spec.client.0 as usize)?;
        if kind.needs_session() && client.session_until.is_some_and(|until| until < now) {
            lane.set_queued(entry.kind, true);
            client.waiting_for_session.push((pool, entry));
            return None;
        }
        if kind == JobKind::Consume
            && let Some(route) = self.routes.get_mut(&lane.spec.policy.route)
            && route.jobs.is_reached()
        {
            lane.set_queued(entry.kind, true);
            route.jobs.hold(pool, entry);
            return None;
        }
        match entry.kind {
            ReadyKind::LaneHook => Some(JobInput::for_lane(kind)),
            ReadyKind::Decode => Some(JobInput { max_rows: lane.decode_window(), ..JobInput::for_lane(kind) }),
            ReadyKind::Unkeyed => {
                let slot = lane.free_slot()?;
                let rows = lane.rows.unkeyed_share(&lane.spec.policy);
                let granted = self.take_rate_permits(now, pool, entry, rows)?;
                let lane = get_mut(&mut self.lanes, entry.lane)?;
                let most = if granted > 0 { granted } else { rows };
                let piece = lane.rows.take_unkeyed(most);
                Some(JobInput { slot, rows: piece, granted, ..JobInput::for_lane(kind) })
            }
            ReadyKind::Unit(slot) => self.unit_input(now, pool, entry, slot),
        }
    }

    fn unit_input(&mut self, now: Nanos, pool: Pool, entry: QueueEntry, slot: u32) -> Option<JobInput> {
        let lane = get_mut(&mut self.lanes, entry.lane)?;
        let max = lane.policy().max_messages.max(1);
        let unit = lane.rows.unit_mut(slot);
        let (rows, attempt) = match unit.plan() {
            NextRun::Halt => return None,
            NextRun::DeadLetter { offset, history: trouble } => {
                let (piece, bytes) = lane.take_dead_letter(slot, offset);
                let attempt = lane.rows.unit_mut(slot).attempt();
                self.release_bytes(entry.lane, bytes);
                let work = JobInput {
                    slot,
                    attempt,
                    failure_history: Some(trouble),
                    ..JobInput::for_lane(JobKind::DeadLetter)
                };
                return Some(JobInput { rows: Some(piece?), ..work });
            }
            NextRun::Consume { rows, attempt } => (rows, attempt),
        };
        let again = rows != usize::MAX;
        let rows = unit.front_len().unwrap_or(usize::MAX).min(rows).min(max);
        let granted = if again { 0 } else { self.take_rate_permits(now, pool, entry, rows)? };
        let most = if granted > 0 { granted } else { rows };
        let lane = get_mut(&mut self.lanes, entry.lane)?;
        let piece = lane.rows.unit_mut(slot).take_front(most);
        let most = if granted > 0 { granted } else { usize::MAX };
        Some(JobInput { slot, attempt, rows: piece, granted, max_rows: most, ..JobInput::for_lane(JobKind::Consume) })
    }

    /// Returns how many of `rows` the route's rate allows now; 0: the route has no limit. `None`: no row is allowed
    /// yet, and the entry waits for the rate.
    fn take_rate_permits(&mut self, now: Nanos, pool: Pool, entry: QueueEntry, rows: usize) -> Option<usize> {
        let lane = get_mut(&mut self.lanes, entry.lane)?;
        let number = lane.policy().route;
        let Some(route) = self.routes.get_mut(&number) else { return Some(0) };
        let Some(rate) = &mut route.rate else { return Some(0) };
        let granted = rate.take(now, rows);
        if granted > 0 {
            return Some(granted);
        }
        lane.set_queued(entry.kind, true);
        route.rate_limited.push((pool, entry));
        let at = rate.next_at(now);
        self.timers.set(Timer::Rate(number), &mut route.timer, Some(at));
        None
    }

    fn lease_job(&mut self, entry: QueueEntry, work: JobInput, worker: &str) -> Option<Lease> {
        let (now, wall_ms, id) = (self.now, self.wall_clock_ms(), entry.lane);
        let lane = get_mut(&mut self.lanes, id)?;
        let policy = Arc::clone(&lane.spec.policy);
        let instance = match work.kind.handles_records() {
            true => lane.rows.take_instance(work.slot, &policy),
            false => work.slot,
        };
        if work.kind.handles_records()
            && let Some(route) = self.routes.get_mut(&policy.route)
        {
            route.jobs.on_job_started();
        }
        let attempt = match work.rows.as_ref().filter(|_| policy.queue) {
            Some(rows) => work.attempt.saturating_add(lane.earlier_runs(rows.offset(0), work.slot)),
            None => work.attempt,
        };
        let staging = self.clients.get(lane.spec.client.0 as usize).and_then(ClientState::new_staging);
        let shared = Arc::new(JobState::new(lane.offsets.tracker(), &policy, staging));
        let running = InFlightJob {
            client: lane.spec.client,
            tp: lane.spec.tp.clone(),
            unit: UnitId { lane: id, slot: work.slot },
            instance,
            policy: Arc::clone(&policy),
            attempt,
            kind: work.kind,
            worker: worker.to_owned(),
            since: now,
            started: policy.pool != Pool::EventLoop || work.kind == JobKind::Decode,
            shared: Arc::clone(&shared),
            reported: PassedLimits::default(),
            handled_at: None,
        };
        lane.schedule.on_job_started(work.kind);
        let decodes = match work.kind {
            JobKind::Decode => true,
            JobKind::Consume | JobKind::DeadLetter => {
                lane.rows.unit_mut(work.slot).set_running(true);
                work.rows.is_none()
            }
            JobKind::Eof => {
                lane.fetch.on_eof_started();
                false
            }
            _ => false,
        };
        let filter = match decodes {
            true => RowFilter::new(&policy, wall_ms, lane.offsets.recovered_marks(), lane.fetch.duplicates()),
            false => RowFilter::default(),
        };
        let lease = Lease {
            lane: id,
            slot: work.slot,
            instance,
            client: lane.spec.client,
            tp: lane.spec.tp.clone(),
            kind: work.kind,
            attempt,
            shared,
            high_watermark: lane.fetch.high_watermark(),
            failure_history: work.failure_history,
            job: self.jobs.add(running),
            decode_queue: decodes.then(|| lane.fetch.lease_decode_queue()),
            rows: work.rows,
            leftover: Vec::new(),
            memory: None,
            filter,
            max_rows: work.max_rows,
            granted: work.granted,
            release: 0,
            returned: false,
            policy,
        };
        let more = entry.kind == ReadyKind::Unkeyed && lane.rows.has_unkeyed();
        if more {
            // Other workers may take their share at the same time.
            self.enqueue(id, ReadyKind::Unkeyed);
        }
        if work.kind != JobKind::Decode && lease.policy.concurrency != Concurrency::Partition {
            self.enqueue_decode(id); // one unit less is ready: decoding more may be worthwhile
        }
        self.schedule_stall_check(&lease);
        Some(lease)
    }

    /// Lowers the client's next stall check to the time at which this job passes its first limit.
    pub(super) fn schedule_stall_check(&mut self, lease: &Lease) {
        let limit = earliest(lease.policy.stall_after, lease.policy.handler_timeout);
        let Some(limit) = limit.filter(|_| lease.kind != JobKind::Decode) else { return };
        let at = self.now.saturating_add(limit);
        if let Some(entry) = self.client_mut(lease.client) {
            entry.next_stall_check = earliest(entry.next_stall_check, Some(at));
        }
    }

    /// Records that the event loop runs the first step of this job.
    pub fn on_started(&mut self, now: Nanos, lease: &Lease) {
        self.now = self.now.max(now);
        self.jobs.set_started(lease.job, now);
        self.schedule_stall_check(lease);
    }

    /// Applies the result of [`Lease::prepare`]: the bytes that it added count for the lane, and its rows are handed
    /// out.
    ///
    /// The worker must call this method before the job runs or ends.
    pub fn on_prepared(&mut self, now: Nanos, lease: &Lease, prepared: &PrepareResult) {
        self.now = self.now.max(now);
        let change = prepared.change;
        let handed_out = lease.shared.with_batch(|batch| batch.rows.len()).unwrap_or(0);
        if lease.granted > handed_out
            && let Some(rate) = self.routes.get_mut(&lease.policy.route).and_then(|route| route.rate.as_mut())
        {
            rate.put_back(lease.granted - handed_out);
        }
        let Some(lane) = get_mut(&mut self.lanes, lease.lane) else { return };
        lane.fetch.charge(change.charged);
        if lease.decode_queue.is_some() && lane.is_current(&lease.shared) {
            lane.fetch.on_decoded(prepared.left_ms);
        }
        if prepared.outcome.is_none() {
            self.jobs.set_prepared(lease.job, now);
        }
        if handed_out > 0 && lease.decode_queue.is_some() {
            lane.rows.add_in_flight(handed_out);
            lease.shared.with_batch(|batch| lane.hand_out(&lease.shared, batch));
        }
        let (client, slot, tp) = (lane.spec.client, lane.spec.handle, &lane.spec.tp);
        let passed = change.skipped;
        // Rows that were skipped for an outdated lane or position are delivered again, so they do not count.
        if passed != SkippedRows::default()
            && lane.is_current(&lease.shared)
            && let Some(tally) = self.stats.get_mut(lane.stats.route())
        {
            tally.expired += passed.expired.map_or(0, |(records, ..)| records as u64);
            tally.skipped += passed.already_done as u64;
            tally.duplicates += passed.duplicates.map_or(0, |(records, ..)| records as u64);
            tally.forgotten_ids += passed.forgotten_ids as u64;
            lane.stats.on_progress(now);
        }
        let expired = passed.expired.map(|(records, first, last)| LaneEventKind::Expired { records, first, last });
        let duplicates =
            passed.duplicates.map(|(records, first, last)| LaneEventKind::Duplicates { records, first, last });
        let forgotten = (passed.forgotten_ids > 0).then_some(LaneEventKind::IdsForgotten { ids: passed.forgotten_ids });
        let kinds = expired.into_iter().chain(duplicates).chain(forgotten);
        let events: Vec<LaneEvent> = kinds
            .map(|kind| LaneEvent { lane: lease.lane, tp: tp.clone(), policy: Arc::clone(&lease.policy), kind })
            .collect();
        if change.charged == 0 && events.is_empty() {
            return;
        }
        if let Some(entry) = self.client_mut(client) {
            if change.charged > 0 {
                entry.outbox.charged.push((slot, change.charged));
            }
            entry.wake_pending |= !events.is_empty();
            entry.outbox.lane_events.extend(events);
        }
    }
}
