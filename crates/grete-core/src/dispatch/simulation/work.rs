//! The workers: they take jobs, run handlers over them, and bring them back.

use std::sync::Arc;

use super::book::Stage;
use super::group::SESSION;
use super::handler::{Pace, Step, Style, run};
use super::process::Job;
use super::rate::Rate;
use super::record::Nature;
use super::scenario::chance;
use super::world::{Event, World};
use crate::dispatch::{
    Concurrency, Decision, Failure, Fenced, Finished, JobKind, JobShared, LaneId, Lease, OffsetPolicy, Pool, Remark,
    RemarkKind, Verdict,
};
use crate::time::{MILLI, SECOND};

impl World {
    /// Idle workers take what there is.
    pub fn pump(&mut self, process: usize) {
        loop {
            let mut moved = false;
            for pool in Pool::ALL {
                while self.processes[process].is_awake() && self.processes[process].idle(pool) > 0 {
                    let now = self.now;
                    let Some(lease) = self.processes[process].take(now, pool) else { break };
                    moved = true;
                    self.took(process, lease);
                }
            }
            let process_ = &mut self.processes[process];
            if !process_.is_awake() {
                return;
            }
            if process_.stopping && process_.dispatch.is_stopped() {
                self.network(process);
                return self.leave(process);
            }
            // Asking clears it; the network thread's own look finds the outbox.
            if process_.dispatch.take_wake(process_.client) {
                process_.woken = true;
                self.network(process);
                moved = true;
            }
            if self.processes[process].stalls_due(self.now) {
                self.network(process);
            }
            if !moved {
                break;
            }
        }
        // Where all workers are busy, the network thread keeps the time for them.
        let now = self.now;
        self.processes[process].dispatch.advance(now);
        self.check_idle(process);
        let process_ = &self.processes[process];
        if Pool::ALL.iter().all(|pool| process_.idle(*pool) > 0) {
            let deadline = process_.deadline();
            assert!(deadline.is_none_or(|deadline| deadline > self.now), "due at {deadline:?}, and nothing is");
        }
    }

    fn took(&mut self, process: usize, mut lease: Lease) {
        let now = self.now;
        let process_ = &mut self.processes[process];
        if lease.kind.needs_session() {
            assert!(now <= process_.last_heartbeat + SESSION, "{:?} of {} without a session", lease.kind, lease.tp);
        }
        let seat = process_.lanes.get_mut(&lease.lane).expect("a known lane");
        let policy = Arc::clone(&seat.policy);
        assert_eq!(lease.policy, policy);
        seat.book.start(&lease, &policy);
        if lease.kind == JobKind::Consume {
            assert!(seat.paused_until.is_none_or(|until| until <= now), "{} is paused", lease.tp);
        }
        match lease.kind {
            JobKind::Eof => {
                let records = &self.partitions[seat.partition].log.records;
                let mut open = records.range(seat.book.floor()..seat.fetch.max(seat.book.floor()));
                let open = open.find(|(offset, _)| !seat.book.is_settled(**offset));
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
            told_stalled: 0,
        };
        process_.jobs.insert(id, job);
        // Decoding takes a while now and then, and much can happen meanwhile.
        if self.pace == Pace::Rough && chance(&mut self.rng, 10) {
            let wait = self.rng.below(50) * MILLI;
            self.post(now + wait, Event::Step { process, job: id });
        } else {
            self.begin(process, id);
        }
    }

    /// The rows are there.
    fn begin(&mut self, process: usize, id: u64) {
        let now = self.now;
        let process_ = &mut self.processes[process];
        let Some(job) = process_.jobs.get_mut(&id) else { return };
        let prepared = job.prepared.take().expect("prepared once");
        process_.dispatch.prepared(now, &job.lease, &prepared);
        // It may have found that records have expired.
        self.network(process);
        let process_ = &mut self.processes[process];
        let mut job = process_.jobs.remove(&id).expect("it is there");
        job.began = now;
        let seat = process_.lanes.get_mut(&job.lease.lane).expect("a known lane");
        let (partition, policy) = (seat.partition, Arc::clone(&seat.policy));
        let place = &mut self.partitions[partition];
        if let Some(finished) = prepared.finished {
            self.bring_back(process, job, finished);
            return;
        }
        let style = self.scenario.routes[place.route].style;
        let batch = job.lease.shared.batch();
        match job.lease.kind {
            JobKind::Consume => {
                let batch = batch.expect("rows");
                let wall = super::process::WALL + (job.since / MILLI) as i64;
                job.rows = seat.book.present(&job.lease, &batch, &policy, &place.log, wall, job.void);
                for row in &job.rows {
                    let timestamp = place.log.records[row].timestamp;
                    assert!(policy.delay_ms.is_none_or(|delay| timestamp + delay <= wall), "{row} comes too early");
                    let fresh = policy.expire_ms.is_none_or(|expire| timestamp + expire >= wall);
                    assert!(
                        fresh || seat.book.was_seen(*row) || policy.concurrency != Concurrency::Partition,
                        "{row} has expired"
                    );
                }
                let new = seat.book.see(&job.rows);
                if let Some(limit) = policy.rate_limit {
                    process_
                        .rates
                        .entry(policy.route)
                        .or_insert_with(|| Rate::new(limit))
                        .take(job.since, new, &policy);
                }
                let epoch = seat.epoch;
                let once = policy.offsets == OffsetPolicy::AtMostOnce;
                let before: Vec<bool> = job.rows.iter().map(|row| place.fates[row].given).collect();
                job.rows.iter().for_each(|row| place.fates.get_mut(row).expect("a known record").given |= once);
                if once && (job.lease.shared.is_fenced() || !self.commit_first(process, partition, epoch)) {
                    // Somebody else may have them by now, and nobody has seen them here.
                    let fates = &mut self.partitions[partition].fates;
                    for (row, given) in job.rows.iter().zip(before) {
                        fates.get_mut(row).expect("a known record").given = given;
                    }
                    return self.bring_back(process, job, Finished::Done);
                }
                let place = &mut self.partitions[partition];
                for row in &job.rows {
                    let fate = place.fates.get_mut(row).expect("a known record");
                    fate.runs += 1;
                    assert!(!once || fate.runs == 1, "{} {row} is run again", job.lease.tp);
                }
                let records: Vec<_> = job.rows.iter().map(|row| &place.log.records[row]).collect();
                let fates = &place.fates;
                let run = run(style, &policy, &records, now, self.pace, &mut self.rng, |record| {
                    let Nature::Flaky(times, _) = record.nature else { return false };
                    fates[&record.offset].failed < times
                });
                if let Some(failing) = run.failing {
                    place.fates.get_mut(&failing).expect("a known record").failed += 1;
                }
                job.run = Some(run);
            }
            JobKind::DeadLetter => {
                let batch = batch.expect("a row");
                job.rows = batch.offsets().to_vec();
                assert_eq!(job.rows.len(), 1, "{}: dead letters of {:?}", job.lease.tp, job.rows);
                seat.book.present_dead(&job.lease, job.rows[0]);
                let nature = place.log.records[&job.rows[0]].nature;
                // At most once, whatever may not have been handled goes there.
                let guilty = nature != Nature::Good || policy.offsets == OffsetPolicy::AtMostOnce;
                assert!(guilty, "{} {} has done nothing", job.lease.tp, job.rows[0]);
                assert!(policy.dead_letter && job.lease.trouble.is_some());
                job.run = Some(self.errand(10));
            }
            _ => job.run = Some(self.errand(5)),
        }
        let (kind, lane, slot, attempt) = (job.lease.kind, job.lease.lane, job.lease.slot, job.lease.attempt);
        self.say(|| {
            format!("process {process} job {id}: {kind:?} {lane:?} slot {slot} attempt {attempt} {:?}", job.rows)
        });
        self.processes[process].jobs.insert(id, job);
        self.next_step(process, id);
    }

    /// A job without a handler's logic: it takes a while, and fails now and then.
    fn errand(&mut self, fails: u64) -> super::handler::Run {
        let end = self.now + self.pace.duration(&mut self.rng);
        let fails = self.pace == Pace::Rough && chance(&mut self.rng, fails);
        let step = if fails { Step::Raise(Verdict::Retry, None) } else { Step::Return };
        super::handler::Run { steps: [(end, step)].into(), failing: None }
    }

    fn next_step(&mut self, process: usize, id: u64) {
        let job = &self.processes[process].jobs[&id];
        let at = job.run.as_ref().and_then(|run| run.steps.front()).map(|(at, _)| *at).expect("a run ends");
        self.post(at.max(self.now), Event::Step { process, job: id });
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
            Step::Progress(_) if job.lease.shared.cut_short() => {
                // It would begin with the next row, and leaves it to the lane's next owner.
                let job = process_.jobs.remove(&id).expect("it is there");
                self.bring_back(process, job, Finished::Done);
            }
            Step::Progress(rows) => {
                job.lease.shared.progress(rows);
                let seat = process_.lanes.get_mut(&job.lease.lane).expect("a known lane");
                let done = &job.rows[..rows];
                if !job.void {
                    seat.book.mark(done.iter().copied());
                }
                for row in &done[rows - 1..] {
                    self.partitions[seat.partition].fates.get_mut(row).expect("a known record").passed += 1;
                }
                self.next_step(process, id);
            }
            Step::Return => {
                let job = self.processes[process].jobs.remove(&id).expect("it is there");
                self.bring_back(process, job, Finished::Done);
            }
            Step::Raise(verdict, culprit) => {
                let failure = Failure {
                    verdict,
                    culprit,
                    class: "ValueError".to_owned(),
                    message: "it does not add up".to_owned(),
                    at_ms: self.wall_ms(),
                };
                let job = self.processes[process].jobs.remove(&id).expect("it is there");
                self.bring_back(process, job, Finished::Failed(failure));
            }
        }
    }

    /// A handler, or somebody whom it has told, marks these rows of its job.
    fn mark(&mut self, process: usize, lane: LaneId, shared: &JobShared, rows: Vec<i64>, void: bool) {
        let (Some(&first), Some(&last)) = (rows.first(), rows.last()) else { return };
        let process_ = &mut self.processes[process];
        let seat = process_.lanes.get_mut(&lane).expect("a known lane");
        let fates = &mut self.partitions[seat.partition].fates;
        rows.iter().for_each(|row| fates.get_mut(row).expect("a known record").passed += 1);
        match shared.mark(first, last) {
            Ok(new) => {
                assert!(!void, "{} {first}..={last} is marked in a job that does not count", seat.tp);
                let before = seat.policy.offsets == OffsetPolicy::AtMostOnce;
                let counted = seat.book.mark(rows);
                assert!(new == counted || before, "{} {first}..={last}: {new}, not {counted}", seat.tp);
            }
            Err(Fenced) => assert!(void, "{} {first}..={last} is refused", seat.tp),
        }
        if shared.take_resumed() {
            process_.dispatch.marked(lane);
        }
    }

    pub fn late_mark(&mut self, process: usize, lane: LaneId, shared: &JobShared, rows: Vec<i64>) {
        let process_ = &mut self.processes[process];
        if !process_.alive {
            return;
        }
        let seat = &process_.lanes[&lane];
        // What has left is told by the fence, or it does not matter any more.
        if seat.book.stage == Stage::Gone {
            let refused = shared.mark(rows[0], rows[0]) == Err(Fenced);
            assert!(refused || !seat.book.void, "{}: a late mark", seat.tp);
            return;
        }
        let rows = rows.into_iter().filter(|row| seat.book.is_returned(*row)).collect();
        let void = seat.book.void || shared.is_fenced();
        self.mark(process, lane, shared, rows, void);
    }

    /// The job comes back.
    fn bring_back(&mut self, process: usize, job: Job, finished: Finished) {
        let now = self.now;
        let limits = [job.lease.policy.stall_after, job.lease.policy.handler_timeout];
        let passed = limits.into_iter().flatten().filter(|limit| now > job.began + limit).count();
        let watched = job.lease.kind != JobKind::Decode && self.processes[process].woke_at < job.since;
        assert!(!watched || job.told_stalled as usize >= passed, "{} is late, nobody told", job.lease.tp);
        let Job { lease, rows, void, run, .. } = job;
        let (lane, slot, kind) = (lease.lane, lease.slot, lease.kind);
        let shared = Arc::clone(&lease.shared);
        let returned = matches!(finished, Finished::Done) && !shared.is_cut();
        let failure = if let Finished::Failed(failure) = &finished { Some(failure.clone()) } else { None };
        let process_ = &mut self.processes[process];
        let seat = process_.lanes.get_mut(&lane).expect("a known lane");
        let (partition, policy) = (seat.partition, Arc::clone(&seat.policy));
        match kind {
            JobKind::Consume => {
                seat.book.end(slot, returned && !void, &policy);
                if returned
                    && run.is_some()
                    && self.scenario.routes[self.partitions[partition].route].style != Style::Each
                {
                    for row in &rows {
                        self.partitions[partition].fates.get_mut(row).expect("a known record").passed += 1;
                    }
                }
            }
            JobKind::DeadLetter => {
                seat.book.end(slot, false, &policy);
                if returned {
                    // The broker has it, whether that counts here or not.
                    self.dead_letters.push((partition, rows[0]));
                    self.partitions[partition].fates.get_mut(&rows[0]).expect("a known record").dead += 1;
                    if !void {
                        seat.book.count.buried(slot, rows[0]);
                        seat.book.mark(rows.iter().copied());
                    }
                }
            }
            JobKind::Decode => {}
            _ => seat.book.end_hook(),
        }
        let decision = process_.complete(now, lease, finished);
        if let (Some(decision), Some(failure)) = (decision, failure) {
            self.say(|| format!("process {process} {lane:?} slot {slot}: {failure:?}: {decision:?}"));
            self.decided(process, lane, slot, kind, &rows, &failure, decision, void, shared.progressed());
        }
        if returned && kind == JobKind::Consume && policy.offsets == OffsetPolicy::Manual && !void {
            // Whatever is open still is marked some time, in one or in two.
            let middle = self.rng.below(rows.len() as u64 + 1) as usize;
            for rows in [&rows[..middle], &rows[middle..]].into_iter().filter(|rows| !rows.is_empty()) {
                let (shared, rows) = (Arc::clone(&shared), rows.to_vec());
                self.after(0, 3 * SECOND, Event::LateMark { process, lane, shared, rows });
            }
        }
    }

    /// What a failure leads to.
    #[allow(clippy::too_many_arguments)]
    fn decided(
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
            assert_eq!(decision, Decision::Refused, "{}", seat.tp);
            return;
        }
        if kind != JobKind::Consume || seat.book.stage != Stage::Active {
            return;
        }
        let open: Vec<i64> = rows.iter().copied().filter(|row| !seat.book.done.contains(row)).collect();
        if seat.policy.offsets != OffsetPolicy::AtMostOnce {
            seat.book.count.failed(slot, &open, failure.verdict, decision, &seat.policy);
        }
        match decision {
            Decision::DeadLetter { offset } => {
                // At most once, nobody knows what the handler has seen of what comes behind.
                let once = seat.policy.offsets == OffsetPolicy::AtMostOnce;
                seat.book.count.bury(slot, rows.last().copied().filter(|_| once).unwrap_or(offset));
                assert!(rows.contains(&offset), "{}: {offset} of {rows:?}", seat.tp);
                assert!(failure.culprit.is_none_or(|culprit| culprit == offset), "{}: {offset}, {failure:?}", seat.tp);
                assert!(failure.culprit.is_some() || open.len() == 1 || once, "{}: {offset} of {rows:?}", seat.tp);
            }
            Decision::Later { .. } => {
                assert!(matches!(failure.verdict, Verdict::Later(_)));
                if seat.policy.offsets == OffsetPolicy::AtMostOnce {
                    let again = &rows[progress.min(rows.len())..];
                    seat.book.again.extend(again);
                    let fates = &mut self.partitions[seat.partition].fates;
                    again.iter().for_each(|row| fates.get_mut(row).expect("a known record").runs -= 1);
                }
            }
            Decision::Skipped => assert_eq!(seat.policy.offsets, OffsetPolicy::AtMostOnce),
            Decision::Hold => {
                assert_eq!(failure.verdict, Verdict::Fatal);
                seat.book.count.hold(slot);
                // The application stops.
                self.after(0, SECOND, Event::Stop { process });
            }
            Decision::Retry { .. } | Decision::Halve { .. } | Decision::Refused => {}
        }
    }

    pub fn remark(&mut self, process: usize, remark: &Remark) {
        let Some(seat) = self.processes[process].lanes.get_mut(&remark.lane) else { return };
        if let RemarkKind::Expired { first, last, records } = remark.what {
            let place = &mut self.partitions[seat.partition];
            let limit = super::process::WALL + (self.now / MILLI) as i64 - seat.policy.expire_ms.expect("an expiry");
            let old = place.log.records.range(first..=last).filter(|(_, record)| record.timestamp <= limit);
            let old: Vec<i64> = old.map(|(offset, _)| *offset).collect();
            assert!(old.len() >= records, "{}: {records} have expired, {old:?}", seat.tp);
            let old: Vec<i64> = old.into_iter().filter(|offset| !seat.book.was_seen(*offset)).collect();
            for offset in &old {
                place.fates.get_mut(offset).expect("a known record").expired = true;
            }
            seat.book.expired.extend(&old);
            seat.book.mark(old);
        }
    }

    pub fn hear_of_stalls(&mut self, process: usize) {
        let now = self.now;
        let process_ = &mut self.processes[process];
        process_.looked(now);
        for stall in process_.dispatch.stalls(now, process_.client) {
            let mut jobs = process_.jobs.values_mut();
            let job = jobs.find(|job| job.lease.unit() == stall.unit && job.lease.kind == stall.kind);
            let job = job.unwrap_or_else(|| panic!("{stall:?} of no job"));
            let limit = if stall.overdue { stall.policy.handler_timeout } else { stall.policy.stall_after };
            assert!(limit.is_some_and(|limit| now >= job.began + limit), "{stall:?} since {}", job.began);
            job.told_stalled += 1;
            process_.ledger.stalled(&stall);
            let limits =
                u32::from(stall.policy.handler_timeout.is_some()) + u32::from(stall.policy.stall_after.is_some());
            assert!(job.told_stalled <= limits, "{stall:?} again");
        }
    }
}
