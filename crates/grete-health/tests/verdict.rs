//! What is said of a process, from what is known of it.

use std::time::Duration;

use grete_health::verdict::{Look, Verdict, live, ready};
use grete_health::{Group, Limits, Report, RunningJob};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn limits() -> Limits {
    Limits { gil_timeout: Some(seconds(30)), unsteady_timeout: Some(seconds(300)) }
}

fn job(partition: u64, elapsed: u64, limit: Option<u64>) -> RunningJob {
    RunningJob {
        handler: "Orders.consume".into(),
        topic: "orders".into(),
        partition,
        elapsed: seconds(elapsed),
        limit: limit.map(seconds),
    }
}

fn group(name: &str, state: &'static str, steady: bool) -> Group {
    Group {
        group: name.into(),
        state,
        since: seconds(1),
        steady,
        generation: None,
        partitions: 1,
        instance: None,
        connections: None,
    }
}

fn well() -> Look {
    let report = Report { steady: true, workers: 5, groups: vec![group("g", "stable", true)], ..Report::default() };
    Look { report, gil_wait: Some(Duration::from_micros(5)), unsteady: vec![Duration::ZERO], idle: Duration::ZERO }
}

fn reasons(verdict: &Verdict<'_>) -> Vec<&'static str> {
    verdict.problems.iter().map(|problem| problem.reason).collect()
}

#[test]
fn nothing_is_amiss() {
    let look = well();
    for verdict in [live(&look, &limits()), ready(&look, &limits())] {
        assert!(verdict.ok && verdict.problems.is_empty(), "{verdict:?}");
    }
}

#[test]
fn jobs_within_their_time_are_no_problem_and_the_longest_overdue_one_comes_first() {
    let mut look = well();
    look.report.running = vec![job(0, 10, Some(10)), job(1, 1000, None)];
    assert!(live(&look, &limits()).problems.is_empty());
    look.report.running.extend([job(2, 11, Some(10)), job(3, 12, Some(10)), job(4, 13, Some(12))]);
    let verdict = live(&look, &limits());
    assert!(!verdict.ok);
    assert_eq!(
        verdict.why,
        "Orders.consume has run for 13.0 s on orders[4], and its handler_timeout is 12 s; and 2 more"
    );
    assert_eq!(reasons(&verdict), ["handler", "handler", "handler"]);
    assert!(ready(&look, &limits()).ok);
}

#[test]
fn work_that_nobody_takes_is_told_and_fail_after_a_minute() {
    let mut look = well();
    look.idle = seconds(4);
    assert!(live(&look, &limits()).problems.is_empty(), "workers may be slow to start");
    look.idle = seconds(60);
    let verdict = live(&look, &limits());
    assert_eq!((verdict.ok, reasons(&verdict)), (true, vec!["progress"]));
    look.idle = seconds(61);
    let verdict = live(&look, &limits());
    assert!(!verdict.ok);
    assert_eq!(verdict.why, "records wait for a worker, and no handler has been called for 61.0 s");
}

#[test]
fn who_may_hold_the_gil_is_named() {
    let mut look = well();
    look.gil_wait = Some(seconds(2));
    let verdict = live(&look, &limits());
    assert!(verdict.ok, "that is long, and allowed");
    assert_eq!(verdict.problems[0].text, "somebody has held the GIL for 2.0 s; no job is under way");
    look.gil_wait = Some(seconds(31));
    look.report.running = vec![job(0, 5, None), job(1, 32, None)];
    let verdict = live(&look, &limits());
    assert!(!verdict.ok);
    assert_eq!(verdict.why, "somebody has held the GIL for 31.0 s; under way: Orders.consume on orders[1] and 1 more");
    assert_eq!(verdict.problems[0].jobs.iter().map(|job| job.partition).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(verdict.problems[0].limit, Some(seconds(30)));
    assert!(live(&look, &Limits::default()).ok, "without a limit nothing is too long");
    look.gil_wait = None;
    assert!(live(&look, &limits()).problems.is_empty(), "nobody measures it");
}

#[test]
fn a_member_without_its_place_is_not_ready_and_not_alive_after_a_while() {
    let mut look = well();
    look.report.steady = false;
    look.report.groups = vec![group("a", "stable", true), group("b", "joining", false), group("", "unjoined", false)];
    look.unsteady = vec![Duration::ZERO, seconds(300), seconds(2)];
    let (alive, prepared) = (live(&look, &limits()), ready(&look, &limits()));
    assert!(alive.ok && !prepared.ok);
    assert_eq!(prepared.why, "group \"b\" is joining and has not been steady for 300.0 s");
    assert_eq!(reasons(&alive), ["membership", "membership"]);
    assert_eq!(alive.problems[1].text, "a client without a group is unjoined and has not been steady for 2.0 s");
    look.unsteady[1] = seconds(301);
    assert!(!live(&look, &limits()).ok);
    assert!(live(&look, &Limits::default()).ok, "without a limit nothing is too long");
    look.report.groups[1].connections = Some(1);
    assert!(!live(&look, &limits()).ok);
    look.report.groups[1].connections = Some(0);
    let alive = live(&look, &limits());
    assert!(alive.ok, "no restart brings brokers back");
    assert!(alive.problems[0].text.ends_with("has not been steady for 301.0 s; no broker is connected"));
}

#[test]
fn a_start_a_stop_and_quiet_are_not_ready_and_alive() {
    let mut look = well();
    look.report.workers = 0;
    assert_eq!(ready(&look, &limits()).why, "the App is starting: it has no workers yet");
    look = well();
    look.report.quiet = true;
    assert_eq!(ready(&look, &limits()).why, "the App is quiet: it hands out no more records");
    look.report.stopping = true;
    look.report.running = vec![job(0, 99, Some(10))];
    let (alive, prepared) = (live(&look, &limits()), ready(&look, &limits()));
    assert_eq!((alive.ok, alive.why.as_str()), (true, "the App is stopping"), "nobody is to cut it short");
    assert_eq!((prepared.ok, prepared.why.as_str()), (false, "the App is stopping"));
    assert_eq!(reasons(&alive), ["handler", "stopping"]);
}

#[test]
fn a_stalled_call_is_told_once() {
    let mut look = well();
    look.report.running = vec![job(0, 40, None), job(1, 50, Some(45))];
    look.report.stalled = vec!["orders[0]".into(), "orders[1]".into(), "clicks[7]".into()];
    let verdict = ready(&look, &limits());
    assert!(verdict.ok);
    let texts: Vec<&str> = verdict.problems.iter().map(|problem| problem.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "Orders.consume has run for 50.0 s on orders[1], and its handler_timeout is 45 s",
            "Orders.consume has run for 40.0 s on orders[0], longer than its stall_after",
            "a call on clicks[7] has run longer than its stall_after",
        ]
    );
}

#[test]
fn a_thousand_problems_are_told_briefly() {
    let mut look = well();
    look.gil_wait = Some(seconds(99));
    look.report.running = (0..1000).map(|at| job(at, 1000 + at, Some(10))).collect();
    look.report.stalled = (0..1000).map(|at| format!("clicks[{at}]")).collect();
    look.report.groups = (0..1000).map(|at| group(&format!("g{at}"), "joining", false)).collect();
    look.unsteady = vec![seconds(1000); 1000];
    let verdict = live(&look, &limits());
    assert_eq!(verdict.problems.len(), 61);
    let mut json = grete_health::json::Json::default();
    verdict.write(&mut json, "shop");
    assert!(json.len() < 32_000, "{}", json.len());
}
