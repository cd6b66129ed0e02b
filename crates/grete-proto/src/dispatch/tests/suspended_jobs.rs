//! Tests of jobs whose handler has returned while their outputs are open.

use super::*;
use crate::producer::BatchPromise;
use crate::producer::test_util::{batch_promise, complete_part};

/// Lane whose job of three records has produced one record for each, and has returned.
struct SuspendedFixture {
    world: Harness,
    lane: LaneId,
    batch: Arc<BatchPromise>,
}

impl SuspendedFixture {
    fn new(policy: RouteConfig) -> Self {
        let mut world = Harness::new();
        let lane = world.lane_with(policy);
        world.push(lane, 0, 3);
        let lease = world.take(0).expect("a job");
        let batch = batch_promise("out", 0);
        for row in 0..3 {
            lease.shared.on_produced(&batch, row, 1, Some(i64::from(row)));
        }
        assert!(matches!(world.dispatch.finish(0, 1, lease, JobOutcome::Done), FinishResult::Suspended));
        let outgoing = world.dispatch.take_delivery_actions();
        assert!(outgoing.flush.iter().chain(&outgoing.watch).all(|receipt| Arc::ptr_eq(receipt, &batch)));
        assert_eq!((outgoing.flush.len(), outgoing.watch.len()), (1, 1));
        Self { world, lane, batch }
    }

    fn settle(&mut self, first: u32, written: bool, last: bool) {
        complete_part(&self.batch, first, 1, written, last);
        self.world.dispatch.on_batch_settled(self.world.now, &self.batch);
    }

    fn committable(&mut self) -> Option<i64> {
        self.world.dispatch.committable(self.lane).expect("not fenced").map(|commit| commit.offset)
    }
}

#[test]
fn a_job_ends_without_a_worker_when_all_is_written() {
    let mut it = SuspendedFixture::new(RouteConfig::default());
    it.world.push(it.lane, 3, 1);
    assert!(it.world.take(0).is_none(), "the next records wait");
    assert_eq!(it.committable(), Some(0));
    it.settle(0, true, false);
    it.settle(1, true, false);
    assert_eq!(it.committable(), Some(0), "one of them is open");
    it.settle(2, true, true);
    assert_eq!((it.committable(), it.world.run()), (Some(3), vec![vec![3]]));
}

#[test]
fn a_record_that_is_not_written_fails_its_job_where_it_was_produced() {
    let mut it = SuspendedFixture::new(RouteConfig { dead_letter: true, ..RouteConfig::default() });
    it.settle(0, true, false);
    it.settle(1, false, true);
    let (job, lease) = it.world.dispatch.take_failed_job(Pool::Threads).expect("it failed");
    assert!(job == 1 && lease.returned && it.world.dispatch.take_failed_job(Pool::Threads).is_none());
    let undelivered = lease.shared.undelivered().expect("one is not written");
    assert_eq!((undelivered.index, undelivered.source), (1, Some(1)));
    let failure =
        Failure { failed_offset: undelivered.source, ..Failure::new(FailureKind::Rejected, "DeliveryError", "") };
    assert_eq!(it.world.end(lease, JobOutcome::Failed(failure)), Some(Decision::DeadLetter { offset: 1 }));
    assert_eq!(it.committable(), Some(0));
}

#[test]
fn what_a_handler_had_done_before_it_raised_waits_too() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig::default());
    world.push(lane, 0, 3);
    let lease = world.take(0).expect("a job");
    let batch = batch_promise("out", 0);
    lease.shared.on_produced(&batch, 0, 1, None);
    lease.shared.set_completed_rows(2);
    assert!(world.dispatch.suspend_raised(0, 7, lease).is_ok(), "its outputs are open");
    assert!(world.dispatch.take_failed_job(Pool::Threads).is_none());
    complete_part(&batch, 0, 1, true, true);
    world.dispatch.on_batch_settled(0, &batch);
    let (_, lease) = world.dispatch.take_failed_job(Pool::Threads).expect("it comes back");
    assert!(lease.shared.undelivered().is_none());
    assert!(world.dispatch.suspend_raised(0, 7, lease).is_err(), "once");
}

#[test]
fn a_lane_that_leaves_waits_for_outputs_and_one_that_is_lost_does_not() {
    for lost in [false, true] {
        let mut it = SuspendedFixture::new(RouteConfig { hooks: false, ..RouteConfig::default() });
        it.world.dispatch.revoke(it.lane, false);
        assert!(it.world.dispatch.take_outbox(it.world.client).drained.is_empty());
        if lost {
            it.world.dispatch.revoke(it.lane, true);
        } else {
            complete_part(&it.batch, 0, 3, true, true);
            it.world.dispatch.on_batch_settled(0, &it.batch);
        }
        let mut drained = it.world.dispatch.take_outbox(it.world.client).drained;
        let drained = drained.pop().expect("nothing is left to wait for");
        assert_eq!(drained.commit.map(|commit| commit.offset), (!lost).then_some(3));
    }
}

#[test]
fn a_producer_that_has_ended_ends_all_waiting() {
    let mut it = SuspendedFixture::new(RouteConfig::default());
    complete_part(&it.batch, 0, 1, true, false);
    it.world.dispatch.on_producer_closed(0);
    assert_eq!(it.committable(), Some(0), "the job is not done");
    assert_eq!(it.world.run(), [vec![0, 1, 2]], "and comes again");
}

#[test]
fn a_job_that_waits_is_named_after_stall_after_and_is_not_late() {
    let (stall_after, handler_timeout) = (Some(4 * SECOND), Some(SECOND));
    let mut it = SuspendedFixture::new(RouteConfig { stall_after, handler_timeout, ..RouteConfig::default() });
    assert!(it.world.dispatch.take_stalled_jobs(3 * SECOND, it.world.client).is_empty());
    let stalls = it.world.dispatch.take_stalled_jobs(5 * SECOND, it.world.client);
    assert_eq!(stalls.len(), 1);
    assert!(stalls.iter().all(|stall| stall.awaiting && stall.open_outputs == 3 && !stall.overdue));
}

#[test]
fn at_most_once_waits_for_nothing() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { offsets: OffsetPolicy::AtMostOnce, ..RouteConfig::default() });
    world.push(lane, 0, 1);
    let lease = world.take(0).expect("a job");
    lease.shared.on_produced(&batch_promise("out", 0), 0, 1, None);
    assert!(matches!(world.dispatch.finish(0, 1, lease, JobOutcome::Done), FinishResult::Completed(..)));
}

#[test]
fn marks_that_are_dropped_after_their_job_fail_the_lane_until_it_is_sought() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { offsets: OffsetPolicy::Manual, ..RouteConfig::default() });
    world.push(lane, 0, 3);
    let lease = world.take(0).expect("a job");
    let (shared, batch) = (Arc::clone(&lease.shared), batch_promise("out", 0));
    world.done(lease);
    shared.mark(0, 0).expect("nothing was produced");
    shared.on_produced(&batch, 0, 1, None);
    assert_eq!(shared.mark(1, 1), Ok(1));
    world.dispatch.watch_held_marks(lane, &shared);
    assert_eq!(world.dispatch.take_delivery_actions().watch.len(), 1);
    complete_part(&batch, 0, 1, false, true);
    world.dispatch.on_batch_settled(0, &batch);
    let remarks = world.dispatch.take_outbox(world.client).lane_events;
    let what: Vec<_> = remarks.into_iter().map(|remark| remark.kind).collect();
    assert_eq!(what, [LaneEventKind::MarksDropped { marks: 1, first: Some(1) }]);
    assert_eq!(world.status(lane).state, LaneState::Failed);
    assert_eq!(shared.mark(2, 2), Err(MarkError::Undelivered));
    let committable = world.dispatch.committable(lane).expect("not fenced");
    assert_eq!(committable.map(|commit| commit.offset), Some(1));
    world.dispatch.reset_lane(lane);
    assert!(world.status(lane).failure.is_none());
}
