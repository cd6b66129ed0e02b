//! Tests of jobs for an event loop.

use std::os::fd::RawFd;
use std::time::Instant;

use grete_proto::time::SECOND;

use super::*;

fn loop_lane(dispatcher: &Dispatcher, client: ClientId, partition: u32) -> LaneId {
    lane_with(dispatcher, client, partition, RouteConfig { pool: Pool::EventLoop, ..RouteConfig::default() })
}

/// Takes commands like an event loop, until `enough` returns true.
fn take(dispatcher: &Dispatcher, mut enough: impl FnMut(&AsyncJobs) -> bool) -> AsyncJobs {
    let mut all = AsyncJobs::default();
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let more = dispatcher.take_async_jobs().expect("no fork");
        all.jobs.extend(more.jobs);
        all.cancelled.extend(more.cancelled);
        if enough(&all) {
            return all;
        }
        assert!(Instant::now() < deadline, "{all:?}");
        thread::yield_now();
    }
}

#[test]
fn jobs_come_decoded_and_hooks_when_it_ends() {
    let dispatcher = Dispatcher::new(WaitMode::Parked).expect("descriptors");
    let client = dispatcher.attach();
    let lanes: Vec<_> = (0..3).map(|partition| loop_lane(&dispatcher, client, partition)).collect();
    let fd: RawFd = dispatcher.start_async("grete-loop").expect("a thread");
    assert_eq!(dispatcher.start_async("grete-loop").expect("the same"), fd);
    for (partition, id) in (0..3).zip(&lanes) {
        push(&dispatcher, *id, partition, 0, 5);
    }
    let started = take(&dispatcher, |all| all.jobs.len() == 3);
    assert!(started.jobs.iter().all(|job| job.batch.as_ref().is_some_and(|batch| batch.rows.len() == 5)));
    for job in &started.jobs {
        dispatcher.complete(&job.token, Outcome::Done).expect("no fork");
    }
    assert!(!dispatcher.async_stopped());
    dispatcher.stop();
    let hooks = take(&dispatcher, |all| all.jobs.len() == 3);
    assert!(hooks.jobs.iter().all(|job| job.kind == JobKind::Shutdown));
    for job in &hooks.jobs {
        dispatcher.complete(&job.token, Outcome::Done).expect("no fork");
    }
    take(&dispatcher, |_| dispatcher.async_stopped());
    assert!(dispatcher.lanes().iter().all(|lane| lane.committable == Some(5)));
}

#[test]
fn jobs_of_an_abandoned_lane_are_to_be_cancelled_unless_they_have_ended() {
    let dispatcher = Dispatcher::new(WaitMode::Parked).expect("descriptors");
    let client = dispatcher.attach();
    let lanes: Vec<_> = (0..2).map(|partition| loop_lane(&dispatcher, client, partition)).collect();
    dispatcher.start_async("grete-loop").expect("a thread");
    for (partition, id) in (0..2).zip(&lanes) {
        push(&dispatcher, *id, partition, 0, 1);
    }
    let started = take(&dispatcher, |all| all.jobs.len() == 2);
    for id in &lanes {
        let mut state = dispatcher.lock();
        let jobs = state.async_job_ids(*id);
        assert_eq!(jobs.len(), 1);
        state.dispatch.revoke(*id, false);
        assert_eq!(state.dispatch.abandon(*id).len(), 1);
        drop(state);
        dispatcher.cancel_async_jobs(jobs);
    }
    let [first, second] = &started.jobs[..] else { panic!("two jobs") };
    let decision =
        dispatcher.fail_job(&first.token, Failure::new(FailureKind::Retriable, "CancelledError", "")).expect("no fork");
    assert_eq!(decision, Decision::Fenced);
    assert!(matches!(dispatcher.mark(&second.token, 0, 0), Err(ClientError::Revoked)));
    let taken = take(&dispatcher, |all| !all.cancelled.is_empty());
    assert_eq!(taken.cancelled, [second.token.id()]);
    dispatcher.release_workers();
    take(&dispatcher, |_| dispatcher.async_stopped());
}

#[test]
fn no_more_is_decoded_ahead_than_a_loop_can_start_at_once() {
    const LANES: u32 = 200;
    let dispatcher = Dispatcher::new(WaitMode::Parked).expect("descriptors");
    let client = dispatcher.attach();
    let lanes: Vec<_> = (0..LANES).map(|partition| loop_lane(&dispatcher, client, partition)).collect();
    for (partition, id) in (0..LANES).zip(&lanes) {
        push(&dispatcher, *id, partition, 0, 1);
    }
    dispatcher.start_async("grete-loop").expect("a thread");
    let deadline = Instant::now() + TEST_TIMEOUT;
    while dispatcher.running().len() < 64 {
        assert!(Instant::now() < deadline);
        thread::yield_now();
    }
    assert!(dispatcher.running().len() <= 65, "{}", dispatcher.running().len());
    take(&dispatcher, |all| all.jobs.len() == LANES as usize);
    dispatcher.release_workers();
    take(&dispatcher, |_| dispatcher.async_stopped());
}

#[test]
fn a_worker_that_holds_the_deadline_wakes_the_decoder() {
    let dispatcher = Dispatcher::new(WaitMode::Parked).expect("descriptors");
    let client = dispatcher.attach();
    let (looping, threads) = (loop_lane(&dispatcher, client, 0), lane(&dispatcher, client, 1, 1));
    dispatcher.start_async("grete-loop").expect("a thread");
    push(&dispatcher, looping, 0, 0, 1);
    let first = take(&dispatcher, |all| all.jobs.len() == 1);
    thread::scope(|scope| {
        scope.spawn(|| work(&dispatcher, "worker", |_| Outcome::Done));
        push(&dispatcher, threads, 1, 0, 1);
        // The worker falls asleep last, so it is the one that is woken to keep the deadline of the retry.
        let deadline = Instant::now() + TEST_TIMEOUT;
        while dispatcher.counts().jobs < 1 || dispatcher.lock().waiters.all().len() < 2 {
            assert!(Instant::now() < deadline);
            thread::yield_now();
        }
        let failure = Failure::new(FailureKind::Retriable, "ValueError", "no");
        let decision = dispatcher.fail_job(&first.jobs[0].token, failure).expect("no fork");
        assert!(matches!(decision, Decision::Retry { .. }), "{decision:?}");
        let again = take(&dispatcher, |all| all.jobs.len() == 1);
        assert_eq!(again.jobs[0].attempt, 2);
        dispatcher.release_workers();
    });
}

/// Adds a lane whose jobs are reported as stalled after two seconds.
fn watched_lane(dispatcher: &Dispatcher, client: ClientId, partition: u32) -> LaneId {
    let policy = RouteConfig { pool: Pool::EventLoop, stall_after: Some(2 * SECOND), ..RouteConfig::default() };
    dispatcher.lock().dispatch.add_route(&policy);
    lane_with(dispatcher, client, partition, policy)
}

fn drain_log_messages(dispatcher: &Dispatcher) -> Vec<(&'static str, String)> {
    dispatcher.log_events().drain().into_iter().map(|dated| (dated.event.name, dated.event.message)).collect()
}

#[test]
fn jobs_run_from_their_first_step_on_and_wait_before() {
    let dispatcher = Dispatcher::new(WaitMode::Parked).expect("descriptors");
    let client = dispatcher.attach();
    let lanes = [0, 1].map(|partition| watched_lane(&dispatcher, client, partition));
    dispatcher.start_async("grete-loop").expect("a thread");
    for (partition, id) in (0..2).zip(lanes) {
        push(&dispatcher, id, partition, 0, 1);
    }
    let started = take(&dispatcher, |all| all.jobs.len() == 2);
    let states = |dispatcher: &Dispatcher| -> Vec<_> {
        dispatcher.lanes().into_iter().map(|lane| (lane.state, lane.running_for.is_some())).collect()
    };
    assert_eq!(states(&dispatcher), [("ready", false); 2]);
    assert!(dispatcher.running().iter().all(|job| !job.started));
    let first = started.jobs.iter().find(|job| job.partition == 0).expect("it is there");
    let second = started.jobs.iter().find(|job| job.partition == 1).expect("it is there");
    dispatcher.job_started(&first.token).expect("no fork");
    assert_eq!(states(&dispatcher), [("running", true), ("ready", false)]);

    // The first job does not return: it is reported as blocking the loop, and the second job is not.
    let now = dispatcher.clock().now();
    assert!(dispatcher.set_blocking_job(Some(&first.token)).is_some());
    let blocker = dispatcher.event_loop_status().and_then(|it| it.blocking_job).expect("it is named");
    assert_eq!((&*blocker.topic, blocker.partition), ("orders", 0));
    assert!(dispatcher.run_timers(now, client).is_some_and(|look| look <= now + 2 * SECOND));
    dispatcher.run_timers(now + 3 * SECOND, client);
    let notices = drain_log_messages(&dispatcher);
    assert_eq!(notices.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["loop.blocked", "consumer.stalled"]);
    assert!(notices[0].1.contains("all async handlers of this process wait"), "{notices:?}");
    assert!(notices[1].1.starts_with("orders[0]: "), "{notices:?}");
    assert!(
        notices[1]
            .1
            .ends_with("the event loop has been blocked for 3.0 s, and all async handlers of this process wait for it"),
        "{notices:?}"
    );

    dispatcher.complete(&first.token, Outcome::Done).expect("no fork");
    assert_eq!(drain_log_messages(&dispatcher).iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["loop.unblocked"]);
    dispatcher.job_started(&second.token).expect("no fork");
    assert!(dispatcher.set_blocking_job(None).is_none(), "nothing waits");
    let vitals = dispatcher.event_loop_status().expect("a loop");
    assert_eq!((vitals.blocked_count, vitals.blocking_job, vitals.loop_lag), (1, None, 0.0));
    dispatcher.release_workers();
}

#[test]
fn a_loop_with_a_running_job_is_probed() {
    let dispatcher = Dispatcher::new(WaitMode::Parked).expect("descriptors");
    let client = dispatcher.attach();
    let lane = watched_lane(&dispatcher, client, 0);
    dispatcher.start_async("grete-loop").expect("a thread");
    push(&dispatcher, lane, 0, 0, 1);
    let started = take(&dispatcher, |all| all.jobs.len() == 1);
    dispatcher.job_started(&started.jobs[0].token).expect("no fork");
    let now = dispatcher.clock().now();
    dispatcher.run_timers(now + SECOND, client);
    assert!(dispatcher.set_blocking_job(None).is_some(), "it is asked");
    dispatcher.take_async_jobs().expect("no fork");
    assert!(dispatcher.set_blocking_job(None).is_none(), "it turns");
    dispatcher.run_timers(now + 4 * SECOND, client);
    assert_eq!(drain_log_messages(&dispatcher).iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["consumer.stalled"]);
    dispatcher.release_workers();
}
