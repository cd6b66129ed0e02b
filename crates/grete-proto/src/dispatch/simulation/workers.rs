//! Simulated workers: they take jobs, run handlers and complete the jobs.

use std::sync::Arc;

use super::checks::lane_oracle::Stage;
use super::checks::rate_limit::RateLimitCheck;
use super::coordinator::SESSION;
use super::handler::{Pace, Step, Style, run};
use super::process::Job;
use super::produced_records::DeliveryStatus;
use super::record::RecordBehavior;
use super::scenario::chance;
use super::simulator::{SimEvent, Simulator};
use crate::dispatch::{
    Concurrency, Decision, Failure, FailureKind, JobKind, JobOutcome, JobState, LaneEvent, LaneEventKind, LaneId,
    Lease, MarkError, OffsetPolicy, Pool,
};
use crate::time::{MILLI, SECOND};

impl Simulator {
    /// Runs idle workers until no job is ready.
    pub fn pump(&mut self, process: usize) {
        loop {
            let mut moved = false;
            for pool in Pool::ALL {
                while self.processes[process].is_awake() && self.processes[process].idle(pool) > 0 {
                    let now = self.now;
                    if let Some((id, lease)) = self.processes[process].dispatch.take_failed_job(pool) {
                        moved = true;
                        self.take_failed_job(process, id, lease);
                        continue;
                    }
                    let Some(lease) = self.processes[process].take(now, pool) else { break };
                    moved = true;
                    self.start_job(process, lease);
                }
            }
            let process_ = &mut self.processes[process];
            if !process_.is_awake() {
                return;
            }
            if process_.stopping && process_.dispatch.is_stopped() {
                self.poll_network(process);
                return self.leave(process);
            }
            // The call clears the flag; the network thread then finds the outbox.
            if process_.dispatch.take_pending_wake(process_.client) {
                process_.woken = true;
                self.poll_network(process);
                moved = true;
            }
            if self.processes[process].stalls_due(self.now) {
                self.poll_network(process);
            }
            if !moved {
                break;
            }
        }
        // If all workers are busy, the network thread runs the timers for them.
        let now = self.now;
        self.processes[process].dispatch.advance(now);
        self.check_work_conservation(process);
        let process_ = &self.processes[process];
        if Pool::ALL.iter().all(|pool| process_.idle(*pool) > 0) {
            let deadline = process_.deadline();
            assert!(deadline.is_none_or(|deadline| deadline > self.now), "due at {deadline:?}, and nothing is");
        }
    }

    fn start_job(&mut self, process: usize, mut lease: Lease) {
        let now = self.now;
        let process_ = &mut self.processes[process];
        if lease.kind.needs_session() {
            assert!(now <= process_.last_heartbeat + SESSION, "{:?} of {} without a session", lease.kind, lease.tp);
        }
        let seat = process_.lanes.get_mut(&lease.lane).expect("a known lane");
        let policy = Arc::clone(&seat.policy);
        assert_eq!(lease.policy, policy);
        seat.oracle.start(&lease, &policy);
        if let Some(most) = policy.max_concurrency.filter(|_| lease.kind.handles_records()) {
            let running = process_.running_jobs(policy.route);
            assert!(running < most as usize, "{}: a job beside {running} of at most {most}", lease.tp);
        }
        let seat = process_.lanes.get_mut(&lease.lane).expect("a known lane");
        if lease.kind == JobKind::Consume {
            assert!(seat.paused_until.is_none_or(|until| until <= now), "{} is paused", lease.tp);
        }
        match lease.kind {
            JobKind::Eof => {
                let records = &self.partitions[seat.partition].log.records;
                let mut open = records.range(seat.oracle.floor()..seat.fetch.max(seat.oracle.floor()));
                let open = open.find(|(offset, _)| !seat.oracle.is_settled(**offset));
                assert!(open.is_none(), "{}: the end, before {open:?}", lease.tp);
            }
            JobKind::Tick => {
                let every = policy.tick.expect("a route that wants ticks");
                assert!(now >= seat.last_tick + every, "{}: a tick after {}", lease.tp, now - seat.last_tick);
                seat.last_tick = now;
            }
            _ => {}
        }
        let prepared = process_.prepare(&mut lease);
        let id = self.next_job;
        self.next_job += 1;
        let job = Job {
            lease,
            rows: Vec::new(),
            run: None,
            prepared: Some(prepared),
            void: false,
            since: now,
            began: now,
            reported_stalls: 0,
        };
        process_.jobs.insert(id, job);
        // Decoding sometimes takes a while, and other events can happen meanwhile.
        if self.pace == Pace::Rough && chance(&mut self.rng, 10) {
            let wait = self.rng.below(50) * MILLI;
            self.post(now + wait, SimEvent::Step { process, job: id });
        } else {
            self.begin(process, id);
        }
    }

    /// Starts a job whose rows are ready.
    fn begin(&mut self, process: usize, id: u64) {
        let now = self.now;
        let process_ = &mut self.processes[process];
        let Some(job) = process_.jobs.get_mut(&id) else { return };
        let prepared = job.prepared.take().expect("prepared once");
        process_.dispatch.on_prepared(now, &job.lease, &prepared);
        // The job may have found expired records.
        self.poll_network(process);
        let process_ = &mut self.processes[process];
        let mut job = process_.jobs.remove(&id).expect("it is there");
        job.began = now;
        let seat = process_.lanes.get_mut(&job.lease.lane).expect("a known lane");
        let (partition, policy) = (seat.partition, Arc::clone(&seat.policy));
        let place = &mut self.partitions[partition];
        if let Some(finished) = prepared.outcome {
            self.complete_job(process, job, finished);
            return;
        }
        process_.dispatch.on_started(now, &job.lease);
        let (style, produces) = (self.scenario.routes[place.route].style, self.scenario.routes[place.route].produces);
        let batch = job.lease.shared.batch();
        match job.lease.kind {
            JobKind::Consume => {
                let batch = batch.expect("rows");
                let wall = super::process::WALL_CLOCK_OFFSET_MS + (job.since / MILLI) as i64;
                job.rows = seat.oracle.present(&job.lease, &batch, &policy, &place.log, wall, job.void);
                for row in &job.rows {
                    let timestamp = place.log.records[row].timestamp;
                    assert!(policy.delay_ms.is_none_or(|delay| timestamp + delay <= wall), "{row} comes too early");
                    let fresh = policy.max_age_ms.is_none_or(|expire| timestamp + expire >= wall);
                    assert!(
                        fresh || seat.oracle.was_seen(*row) || policy.concurrency != Concurrency::Partition,
                        "{row} has expired"
                    );
                }
                let new = seat.oracle.see(&job.rows);
                if let Some(limit) = policy.rate_limit {
                    process_
                        .rates
                        .entry(policy.route)
                        .or_insert_with(|| RateLimitCheck::new(limit))
                        .take(job.since, new, &policy);
                }
                let epoch = seat.epoch;
                let once = policy.offsets == OffsetPolicy::AtMostOnce;
                let before: Vec<bool> = job.rows.iter().map(|row| place.outcomes[row].handed_out_once).collect();
                job.rows
                    .iter()
                    .for_each(|row| place.outcomes.get_mut(row).expect("a known record").handed_out_once |= once);
                if once && (job.lease.shared.is_fenced() || !self.commit_first(process, partition, epoch)) {
                    // Another member may own the records by now, and no handler has seen them here.
                    let fates = &mut self.partitions[partition].outcomes;
                    for (row, given) in job.rows.iter().zip(before) {
                        fates.get_mut(row).expect("a known record").handed_out_once = given;
                    }
                    return self.complete_job(process, job, JobOutcome::Done);
                }
                let place = &mut self.partitions[partition];
                for row in &job.rows {
                    let fate = place.outcomes.get_mut(row).expect("a known record");
                    fate.runs += 1;
                    assert!(!once || fate.runs == 1, "{} {row} is run again", job.lease.tp);
                }
                let records: Vec<_> = job.rows.iter().map(|row| &place.log.records[row]).collect();
                let fates = &place.outcomes;
                let run = run(style, &policy, &records, now, self.pace, &mut self.rng, produces, |record| {
                    let RecordBehavior::Flaky(times, _) = record.nature else { return false };
                    fates[&record.offset].failed < times
                });
                if let Some(failing) = run.failing {
                    place.outcomes.get_mut(&failing).expect("a known record").failed += 1;
                }
                job.run = Some(run);
            }
            JobKind::DeadLetter => {
                let batch = batch.expect("a row");
                job.rows = batch.offsets().to_vec();
                assert_eq!(job.rows.len(), 1, "{}: dead letters of {:?}", job.lease.tp, job.rows);
                seat.oracle.present_dead(&job.lease, job.rows[0]);
                let nature = place.log.records[&job.rows[0]].nature;
                // At most once, records that may not have been processed go to the dead letter topic.
                let undelivered = place.outcomes[&job.rows[0]].undelivered;
                let guilty =
                    nature != RecordBehavior::Good || policy.offsets == OffsetPolicy::AtMostOnce || undelivered;
                assert!(guilty, "{} {} has done nothing", job.lease.tp, job.rows[0]);
                assert!(policy.dead_letter && job.lease.failure_history.is_some());
                job.run = Some(self.plain_run(10));
            }
            _ => job.run = Some(self.plain_run(5)),
        }
        let (kind, lane, slot, attempt) = (job.lease.kind, job.lease.lane, job.lease.slot, job.lease.attempt);
        self.trace(|| {
            format!("process {process} job {id}: {kind:?} {lane:?} slot {slot} attempt {attempt} {:?}", job.rows)
        });
        self.processes[process].jobs.insert(id, job);
        self.next_step(process, id);
    }

    /// Returns the run of a job without a handler's logic: it takes some time and sometimes fails.
    fn plain_run(&mut self, fails: u64) -> super::handler::Run {
        let end = self.now + self.pace.duration(&mut self.rng);
        let fails = self.pace == Pace::Rough && chance(&mut self.rng, fails);
        let step = if fails { Step::Raise(FailureKind::Retriable, None) } else { Step::Return };
        super::handler::Run { steps: [(end, step)].into(), failing: None }
    }

    fn next_step(&mut self, process: usize, id: u64) {
        let job = &self.processes[process].jobs[&id];
        let at = job.run.as_ref().and_then(|run| run.steps.front()).map(|(at, _)| *at).expect("a run ends");
        self.post(at.max(self.now), SimEvent::Step { process, job: id });
    }

    pub fn step(&mut self, process: usize, id: u64) {
        if !self.processes[process].alive {
            return;
        }
        let process_ = &mut self.processes[process];
        let Some(job) = process_.jobs.get_mut(&id) else { return };
        let Some(run) = &mut job.run else { return self.begin(process, id) };
        let Some((_, step)) = run.steps.pop_front() else { return };
        match step {
            Step::Mark(first, last) => {
                let shared = Arc::clone(&job.lease.shared);
                let (lane, void) = (job.lease.lane, job.void);
                let rows: Vec<_> = job.rows.iter().copied().filter(|row| (first..=last).contains(row)).collect();
                self.mark(process, lane, &shared, rows, void);
                self.next_step(process, id);
            }
            Step::Produce(row) => {
                self.produce(process, id, row);
                self.next_step(process, id);
            }
            Step::Progress(_) if job.lease.shared.should_yield() => {
                // The job would start the next row, and leaves it to the lane's next owner.
                let job = process_.jobs.remove(&id).expect("it is there");
                self.finish_handler(process, id, job, JobOutcome::Done);
            }
            Step::Progress(rows) => {
                job.lease.shared.set_completed_rows(rows);
                let (shared, done) = (Arc::clone(&job.lease.shared), job.rows[..rows].to_vec());
                if process_.delivery_status(&shared) != DeliveryStatus::Clear {
                    process_.hold_progress(&shared, done);
                    return self.next_step(process, id);
                }
                let Some(job) = process_.jobs.get_mut(&id) else { return };
                let seat = process_.lanes.get_mut(&job.lease.lane).expect("a known lane");
                let done = &job.rows[..rows];
                if !job.void {
                    seat.oracle.mark(done.iter().copied());
                }
                for row in &done[rows - 1..] {
                    self.partitions[seat.partition].outcomes.get_mut(row).expect("a known record").completed += 1;
                }
                self.next_step(process, id);
            }
            Step::Return => {
                let job = self.processes[process].jobs.remove(&id).expect("it is there");
                self.finish_handler(process, id, job, JobOutcome::Done);
            }
            Step::Raise(kind, culprit) => {
                let failure = Failure {
                    kind,
                    failed_offset: culprit,
                    class: "ValueError".to_owned(),
                    message: "it does not add up".to_owned(),
                    at_ms: self.wall_ms(),
                };
                let job = self.processes[process].jobs.remove(&id).expect("it is there");
                self.finish_handler(process, id, job, JobOutcome::Failed(failure));
            }
        }
    }

    /// Marks rows of a job, from its handler or from code that kept the records.
    fn mark(&mut self, process: usize, lane: LaneId, shared: &Arc<JobState>, rows: Vec<i64>, void: bool) {
        let (Some(&first), Some(&last)) = (rows.first(), rows.last()) else { return };
        let now = self.now;
        let process_ = &mut self.processes[process];
        let standing = process_.delivery_status(shared);
        let seat = process_.lanes.get_mut(&lane).expect("a known lane");
        let fates = &mut self.partitions[seat.partition].outcomes;
        if standing == DeliveryStatus::Clear {
            rows.iter().for_each(|row| fates.get_mut(row).expect("a known record").completed += 1);
        }
        match shared.mark(first, last) {
            Ok(new) if standing == DeliveryStatus::Open => {
                assert!(!void, "{} {first}..={last} is held in a job that does not count", seat.tp);
                let open = rows.iter().filter(|row| !seat.oracle.done.contains(row)).count();
                assert_eq!(new, open as u64, "{} {first}..={last}", seat.tp);
                process_.hold_marks(shared, rows);
                process_.dispatch.watch_held_marks(lane, shared);
                process_.take_outgoing(now);
            }
            Ok(new) => {
                assert_eq!(standing, DeliveryStatus::Clear, "{} {first}..={last}", seat.tp);
                assert!(!void, "{} {first}..={last} is marked in a job that does not count", seat.tp);
                let before = seat.policy.offsets == OffsetPolicy::AtMostOnce;
                let counted = seat.oracle.mark(rows);
                assert!(new == counted || before, "{} {first}..={last}: {new}, not {counted}", seat.tp);
            }
            Err(MarkError::Fenced) => assert!(void, "{} {first}..={last} is refused", seat.tp),
            Err(MarkError::Undelivered) => assert_eq!(standing, DeliveryStatus::Failed, "{} {first}..={last}", seat.tp),
        }
        if shared.take_resumed() {
            process_.dispatch.on_marks_resumed(lane);
        }
    }

    pub fn late_mark(&mut self, process: usize, lane: LaneId, shared: &Arc<JobState>, rows: Vec<i64>) {
        let process_ = &mut self.processes[process];
        if !process_.alive {
            return;
        }
        let seat = &process_.lanes[&lane];
        // Marks of a lane that has ended are refused by the fence, or do not matter.
        if seat.oracle.stage == Stage::Gone {
            let refused = shared.mark(rows[0], rows[0]) == Err(MarkError::Fenced);
            assert!(refused || !seat.oracle.void, "{}: a late mark", seat.tp);
            return;
        }
        let rows = rows.into_iter().filter(|row| seat.oracle.is_returned(*row)).collect();
        let void = seat.oracle.void || shared.is_fenced();
        self.mark(process, lane, shared, rows, void);
    }

    /// Checks that a job that passed a limit was reported as stalled.
    pub fn check_stall_reports(&self, process: usize, job: &Job) {
        let now = self.now;
        let limits = [job.lease.policy.stall_after, job.lease.policy.handler_timeout];
        let passed = limits.into_iter().flatten().filter(|limit| now > job.began + limit).count();
        let watched = job.lease.kind != JobKind::Decode && self.processes[process].woke_at < job.since;
        assert!(!watched || job.reported_stalls as usize >= passed, "{} is late, and not named", job.lease.tp);
    }

    /// Completes a job.
    pub fn complete_job(&mut self, process: usize, job: Job, finished: JobOutcome) {
        let now = self.now;
        self.check_stall_reports(process, &job);
        let Job { lease, rows, void, run, .. } = job;
        let (lane, slot, kind) = (lease.lane, lease.slot, lease.kind);
        let shared = Arc::clone(&lease.shared);
        let returned = matches!(finished, JobOutcome::Done) && !shared.has_yielded();
        let failure = if let JobOutcome::Failed(failure) = &finished { Some(failure.clone()) } else { None };
        let process_ = &mut self.processes[process];
        let seat = process_.lanes.get_mut(&lane).expect("a known lane");
        let (partition, policy) = (seat.partition, Arc::clone(&seat.policy));
        match kind {
            JobKind::Consume => {
                seat.oracle.end(slot, returned && !void, &policy);
            }
            JobKind::DeadLetter => {
                seat.oracle.end(slot, false, &policy);
                if returned {
                    // The broker has the dead letter, whether the job still counts or not.
                    self.dead_letters.push((partition, rows[0]));
                    self.partitions[partition].outcomes.get_mut(&rows[0]).expect("a known record").dead_lettered += 1;
                    if !void {
                        seat.oracle.count.on_dead_lettered(slot, rows[0]);
                        seat.oracle.mark(rows.iter().copied());
                    }
                }
            }
            JobKind::Decode => {}
            _ => seat.oracle.end_hook(),
        }
        let decision = process_.complete(now, lease, finished);
        if let (Some(decision), Some(failure)) = (decision, failure) {
            self.trace(|| format!("process {process} {lane:?} slot {slot}: {failure:?}: {decision:?}"));
            self.on_decision(process, lane, slot, kind, &rows, &failure, decision, void, shared.completed_rows());
        }
        if kind == JobKind::Consume {
            self.on_handler_returned(process, partition, lane, &shared, &rows, returned && run.is_some() && !void);
        }
    }

    /// Records that the handler has returned for these rows, if that counts.
    pub fn on_handler_returned(
        &mut self,
        process: usize,
        partition: usize,
        lane: LaneId,
        shared: &Arc<JobState>,
        rows: &[i64],
        returned: bool,
    ) {
        let route = &self.scenario.routes[self.partitions[partition].route];
        let (style, manual) = (route.style, route.policy.offsets == OffsetPolicy::Manual);
        if returned && style != Style::Each {
            for row in rows {
                self.partitions[partition].outcomes.get_mut(row).expect("a known record").completed += 1;
            }
        }
        if returned && manual {
            // The open rows are marked later, in one or two calls.
            let middle = self.rng.below(rows.len() as u64 + 1) as usize;
            for rows in [&rows[..middle], &rows[middle..]].into_iter().filter(|rows| !rows.is_empty()) {
                let (shared, rows) = (Arc::clone(shared), rows.to_vec());
                self.after(0, 3 * SECOND, SimEvent::LateMark { process, lane, shared, rows });
            }
        }
    }

    /// Checks the decision after a failure.
    #[allow(clippy::too_many_arguments)]
    fn on_decision(
        &mut self,
        process: usize,
        lane: LaneId,
        slot: u32,
        kind: JobKind,
        rows: &[i64],
        failure: &Failure,
        decision: Decision,
        void: bool,
        progress: usize,
    ) {
        let seat = self.processes[process].lanes.get_mut(&lane).expect("a known lane");
        if void {
            assert_eq!(decision, Decision::Fenced, "{}", seat.tp);
            return;
        }
        if kind != JobKind::Consume || seat.oracle.stage != Stage::Active {
            return;
        }
        let open: Vec<i64> = rows.iter().copied().filter(|row| !seat.oracle.done.contains(row)).collect();
        if seat.policy.offsets != OffsetPolicy::AtMostOnce {
            seat.oracle.count.failed(slot, &open, failure.kind, decision, &seat.policy);
        }
        match decision {
            Decision::DeadLetter { offset } => {
                // At most once, it is unknown which later rows the handler has seen.
                let once = seat.policy.offsets == OffsetPolicy::AtMostOnce;
                seat.oracle.count.expect_dead_letter(slot, rows.last().copied().filter(|_| once).unwrap_or(offset));
                assert!(rows.contains(&offset), "{}: {offset} of {rows:?}", seat.tp);
                assert!(
                    failure.failed_offset.is_none_or(|culprit| culprit == offset),
                    "{}: {offset}, {failure:?}",
                    seat.tp
                );
                assert!(
                    failure.failed_offset.is_some() || open.len() == 1 || once,
                    "{}: {offset} of {rows:?}",
                    seat.tp
                );
            }
            Decision::RetryLater { .. } => {
                assert!(matches!(failure.kind, FailureKind::RetryLater(_)));
                if seat.policy.offsets == OffsetPolicy::AtMostOnce {
                    let again = &rows[progress.min(rows.len())..];
                    seat.oracle.again.extend(again);
                    let fates = &mut self.partitions[seat.partition].outcomes;
                    again.iter().for_each(|row| fates.get_mut(row).expect("a known record").runs -= 1);
                }
            }
            Decision::Skipped => assert_eq!(seat.policy.offsets, OffsetPolicy::AtMostOnce),
            Decision::Halt => {
                assert_eq!(failure.kind, FailureKind::Fatal);
                seat.oracle.count.hold(slot);
                // The application stops.
                self.after(0, SECOND, SimEvent::Stop { process });
            }
            Decision::Retry { .. } | Decision::Bisect { .. } | Decision::Fenced => {}
        }
    }

    pub fn on_lane_event(&mut self, process: usize, event: &LaneEvent) {
        let Some(seat) = self.processes[process].lanes.get_mut(&event.lane) else { return };
        if let LaneEventKind::Expired { first, last, records } = event.kind {
            let place = &mut self.partitions[seat.partition];
            let limit = super::process::WALL_CLOCK_OFFSET_MS + (self.now / MILLI) as i64
                - seat.policy.max_age_ms.expect("an expiry");
            let old = place.log.records.range(first..=last).filter(|(_, record)| record.timestamp <= limit);
            let old: Vec<i64> = old.map(|(offset, _)| *offset).collect();
            assert!(old.len() >= records, "{}: {records} have expired, {old:?}", seat.tp);
            let old: Vec<i64> = old.into_iter().filter(|offset| !seat.oracle.was_seen(*offset)).collect();
            for offset in &old {
                place.outcomes.get_mut(offset).expect("a known record").expired = true;
            }
            seat.oracle.expired.extend(&old);
            seat.oracle.mark(old);
        }
    }

    pub fn check_stalls(&mut self, process: usize) {
        let now = self.now;
        let process_ = &mut self.processes[process];
        process_.looked(now);
        for stall in process_.dispatch.take_stalled_jobs(now, process_.client) {
            if stall.awaiting {
                self.check_suspended_stall(process, &stall);
                continue;
            }
            let process_ = &mut self.processes[process];
            let mut jobs = process_.jobs.values_mut();
            let job = jobs.find(|job| job.lease.unit() == stall.unit && job.lease.kind == stall.kind);
            let job = job.unwrap_or_else(|| panic!("{stall:?} of no job"));
            let limit = if stall.overdue { stall.policy.handler_timeout } else { stall.policy.stall_after };
            assert!(limit.is_some_and(|limit| now >= job.began + limit), "{stall:?} since {}", job.began);
            job.reported_stalls += 1;
            process_.expected_stats.on_stalled(&stall);
            let limits =
                u32::from(stall.policy.handler_timeout.is_some()) + u32::from(stall.policy.stall_after.is_some());
            assert!(job.reported_stalls <= limits, "{stall:?} again");
        }
    }
}
