//! Tests of what lanes wait for, and of the reports about lanes that do not move.

use grete_wire::ErrorCode;

use super::*;
use crate::partition::fetch_wait::FetchWait;

const LIMIT: Nanos = 30 * SECOND;

fn watched() -> RouteConfig {
    RouteConfig { stall_after: Some(LIMIT), name: Arc::from("Orders"), ..RouteConfig::default() }
}

impl Harness {
    fn waits_for(&self, lane: LaneId) -> &'static str {
        self.status(lane).wait.map_or("nothing", LaneWait::name)
    }

    fn watch(&mut self, after: Nanos, fetch_waits: &[(PartitionHandle, FetchWait)]) -> WatchResult {
        self.now += after;
        self.dispatch.watch_lanes(self.now, self.client, fetch_waits.to_vec())
    }
}

/// Returns partition and reason of each report; "": the lane moves again.
fn reported(result: &WatchResult) -> Vec<(i32, &'static str)> {
    result.reports.iter().map(|one| (one.tp.partition, one.wait.map_or("", LaneWait::name))).collect()
}

#[test]
fn a_lane_names_its_handler_its_backoff_its_pause_and_its_end() {
    let mut world = Harness::new();
    let lane = world.lane_with(watched());
    world.dispatch.set_end_offsets(lane, 0, 0);
    assert_eq!(world.waits_for(lane), "nothing");
    world.dispatch.set_end_offsets(lane, 3, 3);
    assert_eq!(world.waits_for(lane), "data");
    world.push(lane, 0, 3);
    assert_eq!(world.waits_for(lane), "worker");
    world.now = SECOND;
    let job = world.take(world.now).expect("a job");
    assert_eq!(world.status(lane).wait, Some(LaneWait::Handler { since: SECOND, attempt: 1 }));
    assert!(world.end(job, failed()).is_some());
    let Some(LaneWait::Retry { attempt, offset, at }) = world.status(lane).wait else { panic!("no backoff") };
    assert_eq!((attempt, offset, Some(at)), (2, Some(0), world.status(lane).paused_until));
    world.dispatch.pause(lane, Some(90 * SECOND));
    assert_eq!(world.status(lane).wait, Some(LaneWait::Paused { until: Some(90 * SECOND) }));
    world.dispatch.resume(lane);
    world.advance_to_deadline();
    let again = world.take(world.now).expect("the next run");
    assert!(matches!(world.status(lane).wait, Some(LaneWait::Handler { attempt: 2, .. })));
    world.dispatch.quiet();
    assert_eq!(world.waits_for(lane), "handler");
    world.done(again);
    assert_eq!(world.waits_for(lane), "quiet");
    world.dispatch.stop();
    assert_eq!(world.waits_for(lane), "leaving");
}

#[test]
fn a_lane_names_limits_of_its_route() {
    let mut world = Harness::new();
    let rate = Some(RatePolicy { records: 1, per: 60 * SECOND });
    let rated = world.lane_with(RouteConfig { rate_limit: rate, route: 1, ..watched() });
    let narrow = RouteConfig { max_concurrency: Some(1), route: 2, ..watched() };
    let (first, second) = (world.lane_with(narrow.clone()), world.lane_with(narrow));
    let full = world.lane_with(RouteConfig { max_wait: 5 * SECOND, route: 3, ..watched() });
    let delayed = world.lane_with(RouteConfig { delay_ms: Some(60_000), route: 4, ..watched() });
    let manual = world.lane_with(RouteConfig { offsets: OffsetPolicy::Manual, max_unmarked: 1, route: 5, ..watched() });
    for lane in [rated, first, second, full, delayed, manual] {
        world.push(lane, 0, 2);
    }
    let mut held = Vec::new();
    while let Some(job) = world.take(0) {
        if job.lane == first || job.lane == second { held.push(job) } else { world.done(job) }
    }
    assert_eq!(world.waits_for(rated), "rate_limit");
    assert_eq!(held.len(), 1);
    let waiting = if held[0].lane == first { second } else { first };
    assert_eq!((world.waits_for(held[0].lane), world.waits_for(waiting)), ("handler", "max_concurrency"));
    assert_eq!(world.status(full).wait, Some(LaneWait::MaxWait { until: 5 * SECOND }));
    assert!(matches!(world.status(delayed).wait, Some(LaneWait::Delay { until }) if until > 0));
    // All records are handed out, and none is marked.
    assert_eq!(world.status(manual).wait, Some(LaneWait::Unmarked { records: 2, first: 0, blocks: false }));
    world.push(manual, 2, 2);
    assert_eq!(world.status(manual).wait, Some(LaneWait::Unmarked { records: 2, first: 0, blocks: true }));
}

#[test]
fn a_lane_names_its_session_its_predecessor_and_its_failure() {
    let mut world = Harness::new();
    let lane = world.lane_with(watched());
    world.push(lane, 0, 2);
    world.dispatch.set_session(world.client, Some(SECOND));
    world.now = 2 * SECOND;
    assert!(world.take(world.now).is_none());
    assert_eq!(world.waits_for(lane), "session");
    world.dispatch.set_session(world.client, Some(90 * SECOND));
    let job = world.take(world.now).expect("the session is alive");
    world.dispatch.abandon(lane);
    assert_eq!(world.waits_for(lane), "leaving");
    let next = world.add(0, watched());
    assert_eq!(world.waits_for(next), "predecessor");
    world.done(job);
    while let Some(hook) = world.take(world.now) {
        world.done(hook);
    }
    world.dispatch.set_end_offsets(next, 9, 9);
    assert_eq!(world.waits_for(next), "data");
    let failure = |reason| Some(LaneFailure { reason, error: "no".into(), since: 0 });
    world.dispatch.set_failure(next, failure("unserved"));
    assert_eq!(world.status(next).wait, Some(LaneWait::Failed { reason: "unserved" }));
    // The cause of the silence says more; and what the budget does explains no failure.
    let handle = PartitionHandle(world.slots - 1);
    world.watch(0, &[(handle, FetchWait::NoLeader)]);
    assert_eq!(world.waits_for(next), "no_leader");
    world.dispatch.set_failure(next, failure("corrupt"));
    world.watch(0, &[(handle, FetchWait::Memory { bytes: 9, limit: 8 })]);
    assert_eq!(world.waits_for(next), "failed");
}

#[test]
fn a_lane_is_reported_once_after_stall_after_and_once_more_when_it_moves() {
    let mut world = Harness::new();
    let (lane, other) = (world.lane_with(watched()), world.lane_with(watched()));
    world.dispatch.set_end_offsets(other, 0, 0);
    world.dispatch.pause(lane, None);
    world.push(lane, 0, 3);
    let began = world.now;
    assert!(world.watch(0, &[]).again, "records wait");
    assert_eq!(reported(&world.watch(LIMIT - 1, &[])), []);
    assert!(!world.status(lane).is_unmoved);
    let result = world.watch(1, &[]);
    assert_eq!(reported(&result), [(0, "paused")]);
    assert_eq!((result.reports[0].unmoved_for, result.reports[0].lag), (LIMIT, Some(3)));
    let status = world.status(lane);
    assert_eq!((status.is_unmoved, status.unmoved_since), (true, Some(began)));
    assert_eq!(reported(&world.watch(90 * SECOND, &[])), [], "once");
    world.dispatch.resume(lane);
    world.run();
    let result = world.watch(SECOND, &[]);
    assert_eq!(reported(&result), [(0, "")]);
    assert!(!result.again, "no lane has records");
    assert_eq!(world.status(lane).unmoved_since, None);
    assert_eq!(reported(&world.watch(90 * SECOND, &[])), [], "a lane without records is not stalled");
}

#[test]
fn each_record_that_is_handed_out_or_marked_is_progress_and_a_retry_is_none() {
    let mut world = Harness::new();
    let retry = RetryPolicy { attempts: None, ..RetryPolicy::default() };
    let lane = world.lane_with(RouteConfig { max_messages: 1, retry, ..watched() });
    world.push(lane, 0, 9);
    world.watch(0, &[]);
    for _ in 0..5 {
        let job = world.take(world.now).expect("a job");
        assert_eq!(reported(&world.watch(LIMIT * 2 / 3, &[])), []);
        world.done(job);
        assert_eq!(reported(&world.watch(LIMIT * 2 / 3, &[])), []);
    }
    let mut reports = Vec::new();
    for _ in 0..40 {
        let job = world.take(world.now).expect("a job");
        assert!(world.end(job, failed()).is_some());
        world.advance_to_deadline();
        reports.extend(reported(&world.watch(0, &[])));
    }
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert!(["retry", "worker"].contains(&reports[0].1), "{reports:?}");
}

#[test]
fn what_other_reports_tell_is_marked_so() {
    let mut world = Harness::new();
    let lane = world.lane_with(watched());
    world.push(lane, 0, 3);
    let job = world.take(0).expect("a job");
    world.watch(0, &[]);
    world.now = LIMIT;
    assert_eq!(world.dispatch.take_stalled_jobs(world.now, world.client).len(), 1);
    let result = world.watch(0, &[]);
    assert_eq!(reported(&result), [(0, "handler")]);
    assert!(result.reports[0].is_reported_elsewhere);
    world.done(job);
    assert_eq!(reported(&world.watch(0, &[])), [(0, "")]);
}

#[test]
fn missing_marks_are_told_by_one_report() {
    let mut world = Harness::new();
    let manual = |route| RouteConfig { offsets: OffsetPolicy::Manual, max_unmarked: 1, route, ..watched() };
    let lane = world.lane_with(manual(0));
    world.push(lane, 0, 2);
    world.run();
    world.watch(0, &[]);
    // All records are handed out, so the lane takes no pause that another report would name.
    let result = world.watch(LIMIT, &[]);
    assert_eq!((reported(&result), result.reports[0].is_reported_elsewhere), (vec![(0, "unmarked")], false));
    let other = world.lane_with(manual(1));
    world.push(other, 0, 2);
    world.run();
    world.push(other, 2, 2);
    world.watch(0, &[]);
    let result = world.watch(LIMIT, &[]);
    assert_eq!((reported(&result), result.reports[0].is_reported_elsewhere), (vec![(1, "unmarked")], true));
}

#[test]
fn a_wait_that_follows_one_that_the_program_asked_for_is_reported_too() {
    let mut world = Harness::new();
    let lane = world.lane_with(watched());
    world.dispatch.pause(lane, None);
    world.push(lane, 0, 3);
    let began = world.now;
    world.watch(0, &[]);
    assert_eq!(reported(&world.watch(LIMIT, &[])), [(0, "paused")]);
    assert_eq!(reported(&world.watch(10 * LIMIT, &[])), [], "the pause goes on");
    world.dispatch.resume(lane);
    assert_eq!(reported(&world.watch(SECOND, &[])), []);
    assert_eq!(reported(&world.watch(LIMIT - 2 * SECOND, &[])), []);
    let result = world.watch(SECOND, &[]);
    assert_eq!(reported(&result), [(0, "worker")], "no worker takes the job");
    assert_eq!(result.reports[0].unmoved_for, world.now - began);
    assert!(world.status(lane).is_unmoved);
    world.dispatch.pause(lane, None);
    assert_eq!(reported(&world.watch(10 * LIMIT, &[])), [], "what was a warning is not followed by less");
    world.dispatch.resume(lane);
    world.run();
    assert_eq!(reported(&world.watch(SECOND, &[])), [(0, "")]);
}

#[test]
fn a_lane_without_room_in_the_memory_names_the_lane_that_holds_it() {
    let mut world = Harness::new();
    let (stuck, small, starved) = (world.lane_with(watched()), world.lane_with(watched()), world.lane_with(watched()));
    world.push(stuck, 0, 500);
    world.push(small, 0, 1);
    world.dispatch.set_end_offsets(starved, 7, 7);
    let held: Vec<_> = [0, 0].iter().filter_map(|now| world.take(*now)).collect();
    assert_eq!(held.len(), 2);
    let waits = [(PartitionHandle(2), FetchWait::Memory { bytes: 900, limit: 800 })];
    world.watch(0, &waits);
    let result = world.watch(LIMIT, &waits);
    let starved = result.reports.iter().find(|report| report.tp.partition == 2).expect("it is told");
    assert_eq!(starved.holder.as_ref().map(|(tp, _)| tp.partition), Some(0));
    let text = starved.wait.expect("a reason").text(world.now, starved.holder.as_ref());
    assert!(
        text.starts_with("all partitions hold 900 fetched bytes, and queued_bytes allows 800; orders[0] "),
        "{text}"
    );
}

#[test]
fn an_open_transaction_is_a_stall_although_the_lag_is_none() {
    let mut world = Harness::new();
    let lane = world.lane_with(watched());
    world.dispatch.set_end_offsets(lane, 5, 0);
    let waits = [(PartitionHandle(0), FetchWait::OpenTransaction { offset: 0 })];
    world.watch(0, &waits);
    assert_eq!(world.status(lane).lag, Some(0));
    let result = world.watch(LIMIT, &waits);
    assert_eq!((reported(&result), result.reports[0].lag), (vec![(0, "open_transaction")], Some(5)));
}

#[test]
fn a_client_that_leaves_watches_nothing() {
    let mut world = Harness::new();
    let lane = world.lane_with(watched());
    world.dispatch.pause(lane, None);
    world.push(lane, 0, 3);
    world.watch(0, &[]);
    world.dispatch.stop();
    let result = world.watch(LIMIT, &[]);
    assert_eq!((reported(&result), result.again), (vec![], false));
}

#[test]
fn the_page_of_stalls_has_each_reason() {
    let page = include_str!("../../../../../../docs/stalls.md");
    let (_, table) = page.split_once("| `waits_for` |").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let mut rows: Vec<_> = table.lines().filter_map(|row| row.strip_prefix("| `")?.split_once('`')).collect();
    rows.sort_unstable();
    let mut names = LaneWait::NAMES;
    names.sort_unstable();
    assert_eq!(rows.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names);
}

#[test]
fn a_queue_whose_leader_is_silent_is_stalled_although_it_holds_no_record() {
    let mut world = Harness::new();
    let queue = RouteConfig { queue: true, concurrency: Concurrency::Unordered, max_messages: 1, ..watched() };
    let lane = world.lane_with(queue);
    let silent = [(PartitionHandle(lane.index), FetchWait::NoConnection { node: 1 })];
    assert!(!world.watch(0, &[]).again, "no record is known");
    assert!(world.watch(0, &silent).again);
    assert_eq!(world.waits_for(lane), "no_connection");
    assert_eq!(reported(&world.watch(LIMIT - 1, &silent)), []);
    let result = world.watch(1, &silent);
    assert_eq!((reported(&result), result.reports[0].lag), (vec![(0, "no_connection")], None));
    assert!(world.status(lane).is_unmoved);
    assert_eq!(reported(&world.watch(LIMIT, &silent)), [], "once");
    assert_eq!(reported(&world.watch(SECOND, &[])), [(0, "")], "the leader answers again");
    assert!(!world.status(lane).is_unmoved);
    // A full memory is no silence: without records, nothing waits for it.
    let full = [(PartitionHandle(lane.index), FetchWait::Memory { bytes: 9, limit: 8 })];
    world.watch(0, &full);
    assert_eq!(reported(&world.watch(2 * LIMIT, &full)), []);
}

#[test]
fn a_lane_whose_leader_does_not_answer_is_stalled_although_no_lag_is_known() {
    let mut world = Harness::new();
    let lane = world.lane_with(watched());
    world.dispatch.set_end_offsets(lane, 0, 0);
    let unanswered = [(PartitionHandle(lane.index), FetchWait::Refused { node: 1, code: ErrorCode::NONE })];
    world.watch(0, &unanswered);
    assert_eq!((world.waits_for(lane), reported(&world.watch(LIMIT, &unanswered))), ("refused", vec![(0, "refused")]));
    assert_eq!(reported(&world.watch(SECOND, &[])), [(0, "")]);
    // A leader that says no has said how many records there are.
    let refused =
        [(PartitionHandle(lane.index), FetchWait::Refused { node: 1, code: ErrorCode::NOT_LEADER_OR_FOLLOWER })];
    world.watch(0, &refused);
    assert_eq!(reported(&world.watch(2 * LIMIT, &refused)), []);
}
