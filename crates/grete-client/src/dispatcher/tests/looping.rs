//! Jobs for an event loop.

use std::os::fd::RawFd;
use std::time::Instant;

use super::*;

fn loop_lane(dispatcher: &Dispatcher, client: ClientId, partition: u32) -> LaneId {
    lane_with(dispatcher, client, partition, RoutePolicy { pool: Pool::Loop, ..RoutePolicy::default() })
}

/// What a loop does: takes until enough has come.
fn take(dispatcher: &Dispatcher, mut enough: impl FnMut(&Started) -> bool) -> Started {
    let mut all = Started::default();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let more = dispatcher.take_loop().expect("no fork");
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
    let dispatcher = Dispatcher::new(Wait::Parked).expect("descriptors");
    let client = dispatcher.attach();
    let lanes: Vec<_> = (0..3).map(|partition| loop_lane(&dispatcher, client, partition)).collect();
    let fd: RawFd = dispatcher.start_loop().expect("a thread");
    assert_eq!(dispatcher.start_loop().expect("the same"), fd);
    for (partition, id) in (0..3).zip(&lanes) {
        push(&dispatcher, *id, partition, 0, 5);
    }
    let started = take(&dispatcher, |all| all.jobs.len() == 3);
    assert!(started.jobs.iter().all(|job| job.batch.as_ref().is_some_and(|batch| batch.rows.len() == 5)));
    for job in &started.jobs {
        dispatcher.complete(&job.token, Outcome::Done).expect("no fork");
    }
    assert!(!dispatcher.loop_stopped());
    dispatcher.stop();
    let hooks = take(&dispatcher, |all| all.jobs.len() == 3);
    assert!(hooks.jobs.iter().all(|job| job.kind == JobKind::Shutdown));
    for job in &hooks.jobs {
        dispatcher.complete(&job.token, Outcome::Done).expect("no fork");
    }
    take(&dispatcher, |_| dispatcher.loop_stopped());
    assert!(dispatcher.lanes().iter().all(|lane| lane.committable == Some(5)));
}

#[test]
fn jobs_of_an_abandoned_lane_are_to_be_cancelled_unless_they_have_ended() {
    let dispatcher = Dispatcher::new(Wait::Parked).expect("descriptors");
    let client = dispatcher.attach();
    let lanes: Vec<_> = (0..2).map(|partition| loop_lane(&dispatcher, client, partition)).collect();
    dispatcher.start_loop().expect("a thread");
    for (partition, id) in (0..2).zip(&lanes) {
        push(&dispatcher, *id, partition, 0, 1);
    }
    let started = take(&dispatcher, |all| all.jobs.len() == 2);
    for id in &lanes {
        let mut state = dispatcher.lock();
        let jobs = state.loop_jobs(*id);
        assert_eq!(jobs.len(), 1);
        state.dispatch.revoke(*id, false);
        assert_eq!(state.dispatch.abandon(*id).len(), 1);
        drop(state);
        dispatcher.cancel_loop_jobs(jobs);
    }
    let [first, second] = &started.jobs[..] else { panic!("two jobs") };
    let decision =
        dispatcher.fail_job(&first.token, Failure::new(Verdict::Retry, "CancelledError", "")).expect("no fork");
    assert_eq!(decision, Decision::Refused);
    assert!(matches!(dispatcher.mark(&second.token, 0, 0), Err(ClientError::Revoked)));
    let told = take(&dispatcher, |all| !all.cancelled.is_empty());
    assert_eq!(told.cancelled, [second.token.id()]);
    dispatcher.release_workers();
    take(&dispatcher, |_| dispatcher.loop_stopped());
}

#[test]
fn no_more_is_decoded_ahead_than_a_loop_can_start_at_once() {
    const LANES: u32 = 200;
    let dispatcher = Dispatcher::new(Wait::Parked).expect("descriptors");
    let client = dispatcher.attach();
    let lanes: Vec<_> = (0..LANES).map(|partition| loop_lane(&dispatcher, client, partition)).collect();
    for (partition, id) in (0..LANES).zip(&lanes) {
        push(&dispatcher, *id, partition, 0, 1);
    }
    dispatcher.start_loop().expect("a thread");
    let deadline = Instant::now() + PATIENCE;
    while dispatcher.running().len() < 64 {
        assert!(Instant::now() < deadline);
        thread::yield_now();
    }
    assert!(dispatcher.running().len() <= 65, "{}", dispatcher.running().len());
    take(&dispatcher, |all| all.jobs.len() == LANES as usize);
    dispatcher.release_workers();
    take(&dispatcher, |_| dispatcher.loop_stopped());
}

#[test]
fn a_worker_that_keeps_the_time_hands_the_loops_jobs_on() {
    let dispatcher = Dispatcher::new(Wait::Parked).expect("descriptors");
    let client = dispatcher.attach();
    let (looping, threads) = (loop_lane(&dispatcher, client, 0), lane(&dispatcher, client, 1, 1));
    dispatcher.start_loop().expect("a thread");
    push(&dispatcher, looping, 0, 0, 1);
    let first = take(&dispatcher, |all| all.jobs.len() == 1);
    thread::scope(|scope| {
        scope.spawn(|| work(&dispatcher, "worker", |_| Outcome::Done));
        push(&dispatcher, threads, 1, 0, 1);
        // The worker falls asleep last, so it is the one that is woken to keep the time of the retry.
        let deadline = Instant::now() + PATIENCE;
        while dispatcher.counts().jobs < 1 || dispatcher.lock().sleepers.all().len() < 2 {
            assert!(Instant::now() < deadline);
            thread::yield_now();
        }
        let failure = Failure::new(Verdict::Retry, "ValueError", "no");
        let decision = dispatcher.fail_job(&first.jobs[0].token, failure).expect("no fork");
        assert!(matches!(decision, Decision::Retry { .. }), "{decision:?}");
        let again = take(&dispatcher, |all| all.jobs.len() == 1);
        assert_eq!(again.jobs[0].attempt, 2);
        dispatcher.release_workers();
    });
}
