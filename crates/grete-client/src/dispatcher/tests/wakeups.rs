//! Tests of wake-ups: no deadline, no wake-up and no late mark is lost.

use std::sync::mpsc;
use std::time::Instant;

use grete_proto::dispatch::{OffsetPolicy, RetryPolicy};
use grete_proto::time::MILLI;

use super::*;

fn waiting(dispatcher: &Dispatcher) -> usize {
    dispatcher.lock().waiters.all().len()
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        thread::yield_now();
    }
}

#[test]
fn a_deadline_moves_to_another_waiter_while_its_holder_works() {
    let dispatcher = Dispatcher::new(WaitMode::Parked).expect("descriptors");
    let client = dispatcher.attach();
    let retry = RetryPolicy { backoff: 50 * MILLI, jitter_percent: 0, ..RetryPolicy::default() };
    let failing = lane_with(&dispatcher, client, 0, RouteConfig { retry, ..RouteConfig::default() });
    let lasting = lane(&dispatcher, client, 1, 10);
    let (retried, retry_done) = mpsc::channel();
    let retry_done = Mutex::new(retry_done);
    thread::scope(|scope| {
        for number in 0..3 {
            let (dispatcher, retried, retry_done) = (&dispatcher, retried.clone(), &retry_done);
            scope.spawn(move || {
                work(dispatcher, &format!("worker-{number}"), |job| match (job.kind, job.partition) {
                    (JobKind::Consume, 0) if job.attempt < 3 => failed(),
                    (JobKind::Consume, 0) => {
                        retried.send(()).expect("a receiver");
                        Outcome::Done
                    }
                    (JobKind::Consume, _) => {
                        // Begins while the other lane waits for its retry, and lasts until the retry has run.
                        let retry_done = retry_done.lock().expect("no panic").recv_timeout(TEST_TIMEOUT);
                        retry_done.expect("a deadline was lost");
                        dispatcher.stop();
                        Outcome::Done
                    }
                    _ => Outcome::Done,
                });
            });
        }
        push(&dispatcher, failing, 0, 0, 1);
        eventually("it waits for its retry", || dispatcher.counts().failures > 0);
        push(&dispatcher, lasting, 1, 0, 1);
    });
    assert_eq!(dispatcher.counts().failures, 2);
}

#[test]
fn only_one_waiter_holds_the_deadline() {
    let dispatcher = Dispatcher::new(WaitMode::Parked).expect("descriptors");
    let client = dispatcher.attach();
    let retry = RetryPolicy { backoff: 3_600_000 * MILLI, max_backoff: 3_600_000 * MILLI, ..RetryPolicy::default() };
    let id = lane_with(&dispatcher, client, 0, RouteConfig { retry, ..RouteConfig::default() });
    push(&dispatcher, id, 0, 0, 1);
    thread::scope(|scope| {
        for number in 0..4 {
            let dispatcher = &dispatcher;
            scope.spawn(move || {
                let failing = |job: &Job| if job.kind == JobKind::Consume { failed() } else { Outcome::Done };
                work(dispatcher, &format!("worker-{number}"), failing);
            });
        }
        eventually("all sleep", || dispatcher.counts().failures == 1 && waiting(&dispatcher) == 4);
        let due = dispatcher.lock().dispatch.next_deadline();
        assert!(due.is_some());
        eventually("one keeps it", || dispatcher.lock().waiters.held_deadline() == due);
        // A network thread has no deadline to keep then.
        assert_eq!(dispatcher.lock().hold_deadline(client), None);
        dispatcher.stop();
    });
}

#[test]
fn workers_that_are_too_many_end_and_their_wake_up_is_passed_on() {
    let dispatcher = Dispatcher::new(WaitMode::Parked).expect("descriptors");
    let client = dispatcher.attach();
    let id = lane(&dispatcher, client, 0, 1);
    let seen = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let worker = |number: u32| {
            let (dispatcher, seen) = (&dispatcher, &seen);
            scope.spawn(move || {
                let mut worker = dispatcher.worker_context("worker", number);
                let mut done: Option<JobToken> = None;
                loop {
                    match dispatcher.next(&mut worker, done.take().as_ref(), Some(TEST_TIMEOUT)).expect("no fork") {
                        NextJob::Job(job) => {
                            if job.kind == JobKind::Consume {
                                seen.lock().expect("no panic").push(number);
                            }
                            done = Some(job.token);
                        }
                        NextJob::Stopped => return,
                        other => panic!("{other:?}"),
                    }
                }
            })
        };
        let first = worker(1);
        eventually("the first sleeps", || waiting(&dispatcher) == 1);
        let second = worker(2);
        eventually("both sleep, the second on top", || waiting(&dispatcher) == 2);
        // The second worker is woken for a job, and finds that it must end.
        dispatcher.lock().workers = Some(1);
        push(&dispatcher, id, 0, 0, 1);
        second.join().expect("it returned");
        eventually("the first took the job", || *seen.lock().expect("no panic") == [1]);
        dispatcher.set_workers(0);
        first.join().expect("it returned");
    });
}

#[test]
fn a_mark_that_comes_late_lets_a_full_lane_go_on() {
    let dispatcher = Dispatcher::new(WaitMode::Parked).expect("descriptors");
    let client = dispatcher.attach();
    let manual =
        RouteConfig { offsets: OffsetPolicy::Manual, max_messages: 1, max_unmarked: 2, ..RouteConfig::default() };
    let id = lane_with(&dispatcher, client, 0, manual);
    push(&dispatcher, id, 0, 0, 5);
    let tokens = Mutex::new(Vec::new());
    thread::scope(|scope| {
        scope.spawn(|| {
            work(&dispatcher, "worker", |job| {
                if job.kind == JobKind::Consume {
                    tokens.lock().expect("no panic").push(job.token.clone());
                }
                Outcome::Done
            });
        });
        let handed_out = || tokens.lock().expect("no panic").len();
        eventually("more than two are open, and it waits", || handed_out() == 3 && waiting(&dispatcher) == 1);
        let first = tokens.lock().expect("no panic")[0].clone();
        assert_eq!(dispatcher.mark(&first, 0, 0).expect("it is ours"), 1);
        eventually("the next one came", || handed_out() == 4);
        dispatcher.stop();
    });
    assert_eq!(dispatcher.lanes()[0].committable, Some(1));
}

#[test]
fn a_stalled_job_is_reported_once() {
    let dispatcher = Dispatcher::new(WaitMode::Parked).expect("descriptors");
    let client = dispatcher.attach();
    let policy = RouteConfig {
        name: "Orders.consume".into(),
        stall_after: Some(1),
        handler_timeout: Some(3_600_000 * MILLI),
        ..RouteConfig::default()
    };
    let id = lane_with(&dispatcher, client, 0, policy);
    push(&dispatcher, id, 0, 5, 3);
    let mut worker = dispatcher.worker_context("grete-worker-1", 1);
    let Ok(NextJob::Job(job)) = dispatcher.next(&mut worker, None, Some(TEST_TIMEOUT)) else {
        panic!("a job is queued")
    };
    let due = dispatcher.run_timers(dispatcher.clock().now() + MILLI, client);
    assert!(due.is_some(), "it is going to be overdue");
    dispatcher.run_timers(dispatcher.clock().now() + 2 * MILLI, client);
    dispatcher.run_timers(dispatcher.clock().now() + 4_000_000 * MILLI, client);
    let notices: Vec<_> = dispatcher.log_events().drain().into_iter().map(|dated| dated.event).collect();
    let names: Vec<_> = notices.iter().map(|notice| notice.name).collect();
    assert_eq!(names, ["consumer.stalled", "consumer.timeout"]);
    assert!(
        notices[0].message.contains("orders[0]: Orders.consume (consume) offsets 5..7 runs for"),
        "{}",
        notices[0].message
    );
    assert!(notices[0].fields.contains(&("worker", "grete-worker-1".to_owned())));
    assert_eq!(dispatcher.counts().stalled, 2);
    dispatcher.complete(&job.token, Outcome::Done).expect("no fork");
}
