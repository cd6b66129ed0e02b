//! Tests of the liveness and readiness checks.

use std::time::Duration;

use grete_health::checks::{CheckResult, HealthSnapshot, check_liveness, check_readiness};
use grete_health::json::Json;
use grete_health::{
    EventLoop, FailedPartition, FailedPartitionProbe, GroupStatus, Limits, MissingTopic, Report, RunningJob,
    UnmovedLane,
};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn limits() -> Limits {
    Limits { gil_timeout: Some(seconds(30)), not_ready_timeout: Some(seconds(300)), ..Limits::default() }
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

fn group(name: &str, state: &'static str, ready: bool) -> GroupStatus {
    GroupStatus {
        group: name.into(),
        state,
        state_age: seconds(1),
        ready,
        generation: None,
        partitions: 1,
        group_instance_id: None,
        connections: None,
        login_failure: None,
        authorization_failure: None,
        transaction_stall: None,
    }
}

fn well() -> HealthSnapshot {
    let report = Report { ready: true, workers: 5, groups: vec![group("g", "stable", true)], ..Report::default() };
    HealthSnapshot {
        report,
        gil_wait: Some(Duration::from_micros(5)),
        loop_wait: Some(Duration::from_micros(90)),
        not_ready: vec![Duration::ZERO],
        idle: Duration::ZERO,
    }
}

fn reasons(check: &CheckResult<'_>) -> Vec<&'static str> {
    check.problems.iter().map(|problem| problem.reason).collect()
}

#[test]
fn a_failed_login_is_named() {
    let failure = "cannot log in to b:9093: the broker refused the login";
    let mut look = well();
    look.report.groups[0].login_failure = Some(failure.into());
    let readiness = check_readiness(&look, &limits());
    assert!(readiness.ok, "a member that has its place goes on with the other brokers");
    assert_eq!(reasons(&readiness), ["login"]);
    assert_eq!(readiness.problems[0].text, format!("group \"g\": {failure}"));

    look.report.groups[0].ready = false;
    look.report.ready = false;
    let readiness = check_readiness(&look, &limits());
    assert!(!readiness.ok);
    assert_eq!(reasons(&readiness), ["membership"]);
    assert!(readiness.problems[0].text.ends_with(&format!("s: {failure}")), "{}", readiness.problems[0].text);
}

#[test]
fn a_missing_acl_on_the_group_is_named_and_no_restart_helps() {
    let failure = "not allowed to use group g: the client needs Read on group g";
    let mut look = well();
    look.report.groups[0].authorization_failure = Some(failure.into());
    let readiness = check_readiness(&look, &limits());
    assert!(readiness.ok, "a member that has its place goes on");
    assert_eq!(reasons(&readiness), ["authorization"]);

    look.report.groups[0].ready = false;
    look.report.ready = false;
    look.not_ready = vec![Duration::from_secs(100_000)];
    let limits = Limits { not_ready_timeout: Some(Duration::from_secs(60)), ..limits() };
    let readiness = check_readiness(&look, &limits);
    assert!(!readiness.ok);
    assert!(readiness.problems[0].text.ends_with(&format!("s: {failure}")), "{}", readiness.problems[0].text);
    assert!(check_liveness(&look, &limits).ok);
    look.report.groups[0].authorization_failure = None;
    assert!(!check_liveness(&look, &limits).ok);
}

#[test]
fn nothing_is_amiss() {
    let look = well();
    for check in [check_liveness(&look, &limits()), check_readiness(&look, &limits())] {
        assert!(check.ok && check.problems.is_empty(), "{check:?}");
    }
}

#[test]
fn jobs_within_their_time_are_no_problem_and_the_longest_overdue_one_comes_first() {
    let mut look = well();
    look.report.running = vec![job(0, 10, Some(10)), job(1, 1000, None)];
    assert!(check_liveness(&look, &limits()).problems.is_empty());
    look.report.running.extend([job(2, 11, Some(10)), job(3, 12, Some(10)), job(4, 13, Some(12))]);
    let check = check_liveness(&look, &limits());
    assert!(!check.ok);
    assert_eq!(
        check.summary,
        "Orders.consume has run for 13.0 s on orders[4], and its handler_timeout is 12 s; and 2 more"
    );
    assert_eq!(reasons(&check), ["handler", "handler", "handler"]);
    assert!(check_readiness(&look, &limits()).ok);
}

#[test]
fn a_topic_that_does_not_exist_is_named_and_fails_no_probe() {
    let mut look = well();
    let text = "topic orders.dlq does not exist".to_string();
    look.report.missing = vec![MissingTopic { topic: "orders.dlq".into(), text: text.clone() }];
    for check in [check_liveness(&look, &limits()), check_readiness(&look, &limits())] {
        assert_eq!((check.ok, reasons(&check)), (true, vec!["topic"]));
    }
    let check = check_readiness(&look, &limits());
    assert_eq!(check.summary, format!("the App has its partitions; {text}"));
    let mut json = Json::default();
    check.write(&mut json, "shop");
    let json = String::from_utf8(json.into_bytes()).expect("UTF-8");
    assert!(
        json.contains(r#"{"reason":"topic","topic":"orders.dlq","text":"topic orders.dlq does not exist"}"#),
        "{json}"
    );
    look.report.quiet = true;
    assert!(!check_readiness(&look, &limits()).ok);
}

#[test]
fn a_partition_that_cannot_be_read_is_named_by_the_probes_that_the_setting_says() {
    let mut look = well();
    let failed = |partition, lasts| FailedPartition {
        handler: "Orders.consume".into(),
        topic: "orders".into(),
        partition,
        reason: "no_offset",
        error: "it has none".into(),
        failed_for: seconds(lasts),
    };
    look.report.failed = vec![failed(1, 5), failed(2, 7)];
    for (probe, is_live, is_ready) in [
        (FailedPartitionProbe::Ready, true, false),
        (FailedPartitionProbe::Live, false, false),
        (FailedPartitionProbe::None, true, true),
    ] {
        let limits = Limits { failed_partition: probe, ..limits() };
        let (live, ready) = (check_liveness(&look, &limits), check_readiness(&look, &limits));
        assert_eq!((live.ok, ready.ok), (is_live, is_ready), "{probe:?}");
        assert_eq!(reasons(&ready), ["partition", "partition"]);
        if !is_ready {
            assert_eq!(ready.summary, "orders[2] cannot be read for 7.0 s (no_offset): it has none");
        }
    }
}

#[test]
fn idle_work_is_reported_and_fails_liveness_after_a_minute() {
    let mut look = well();
    look.idle = seconds(4);
    assert!(check_liveness(&look, &limits()).problems.is_empty(), "workers may be slow to start");
    look.idle = seconds(60);
    let check = check_liveness(&look, &limits());
    assert_eq!((check.ok, reasons(&check)), (true, vec!["progress"]));
    look.idle = seconds(61);
    let check = check_liveness(&look, &limits());
    assert!(!check.ok);
    assert_eq!(check.summary, "records wait for a worker, and no handler has been called for 61.0 s");
}

#[test]
fn what_blocks_the_event_loop_is_named_and_fails_past_the_handlers_time_out() {
    let mut look = well();
    look.loop_wait = Some(seconds(2));
    assert!(check_liveness(&look, &limits()).problems.is_empty(), "there is no loop");
    look.report.event_loop = Some(EventLoop { wait: seconds(2), limit: None, blocker: None });
    let check = check_liveness(&look, &limits());
    assert_eq!((check.ok, reasons(&check)), (true, vec!["loop"]));
    let text = "the event loop has been blocked for 2.0 s, and all async handlers of this process wait for it";
    assert_eq!(check.problems[0].text, text);
    look.report.running = vec![job(1, 9, None), job(0, 2, None)];
    let blocker = Some(("Orders.consume".into(), "orders".into(), 0));
    look.report.event_loop = Some(EventLoop { wait: seconds(2), limit: Some(seconds(2)), blocker });
    assert!(check_liveness(&look, &limits()).ok, "not for longer than that");
    look.loop_wait = Some(Duration::from_millis(2100));
    let check = check_liveness(&look, &limits());
    assert!(!check.ok);
    let text = "the event loop has been blocked for 2.1 s by Orders.consume on orders[0], and all async handlers of this \
                process wait for it";
    assert_eq!(check.summary, text);
    assert_eq!(check.problems[0].job.map(|job| job.partition), Some(0));
    look.loop_wait = Some(Duration::from_millis(999));
    assert!(check_liveness(&look, &limits()).problems.is_empty(), "shorter ones are no news");
}

#[test]
fn running_jobs_are_named_while_the_gil_is_held() {
    let mut look = well();
    look.gil_wait = Some(seconds(2));
    let check = check_liveness(&look, &limits());
    assert!(check.ok, "that is long, and allowed");
    assert_eq!(check.problems[0].text, "the GIL has been held for 2.0 s; no job is under way");
    look.gil_wait = Some(seconds(31));
    look.report.running = vec![job(0, 5, None), job(1, 32, None)];
    let check = check_liveness(&look, &limits());
    assert!(!check.ok);
    assert_eq!(check.summary, "the GIL has been held for 31.0 s; under way: Orders.consume on orders[1] and 1 more");
    assert_eq!(check.problems[0].jobs.iter().map(|job| job.partition).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(check.problems[0].limit, Some(seconds(30)));
    assert!(check_liveness(&look, &Limits::default()).ok, "without a limit nothing is too long");
    look.gil_wait = None;
    assert!(check_liveness(&look, &limits()).problems.is_empty(), "there is no GIL probe");
}

#[test]
fn a_member_without_its_place_is_not_ready_and_not_alive_after_a_while() {
    let mut look = well();
    look.report.ready = false;
    look.report.groups = vec![group("a", "stable", true), group("b", "joining", false), group("", "unjoined", false)];
    look.not_ready = vec![Duration::ZERO, seconds(300), seconds(2)];
    let (alive, prepared) = (check_liveness(&look, &limits()), check_readiness(&look, &limits()));
    assert!(alive.ok && !prepared.ok);
    assert_eq!(prepared.summary, "group \"b\" is joining and has not been ready for 300.0 s");
    assert_eq!(reasons(&alive), ["membership", "membership"]);
    assert_eq!(alive.problems[1].text, "a client without a group is unjoined and has not been ready for 2.0 s");
    look.not_ready[1] = seconds(301);
    assert!(!check_liveness(&look, &limits()).ok);
    assert!(check_liveness(&look, &Limits::default()).ok, "without a limit nothing is too long");
    look.report.groups[1].connections = Some(1);
    assert!(!check_liveness(&look, &limits()).ok);
    look.report.groups[1].connections = Some(0);
    let alive = check_liveness(&look, &limits());
    assert!(alive.ok, "no restart brings brokers back");
    assert!(alive.problems[0].text.ends_with("has not been ready for 301.0 s; no broker is connected"));
}

#[test]
fn a_start_a_stop_and_quiet_are_not_ready_and_alive() {
    let mut look = well();
    look.report.workers = 0;
    assert_eq!(check_readiness(&look, &limits()).summary, "the App is starting: it has no workers yet");
    look = well();
    look.report.quiet = true;
    assert_eq!(check_readiness(&look, &limits()).summary, "the App is quiet: it hands out no more records");
    look.report.stopping = true;
    look.report.running = vec![job(0, 99, Some(10))];
    let (alive, prepared) = (check_liveness(&look, &limits()), check_readiness(&look, &limits()));
    assert_eq!((alive.ok, alive.summary.as_str()), (true, "the App is stopping"), "a stop must not be cut short");
    assert_eq!((prepared.ok, prepared.summary.as_str()), (false, "the App is stopping"));
    assert_eq!(reasons(&alive), ["handler", "stopping"]);
}

#[test]
fn a_stalled_call_is_reported_once() {
    let mut look = well();
    look.report.running = vec![job(0, 40, None), job(1, 50, Some(45))];
    look.report.stalled = vec!["orders[0]".into(), "orders[1]".into(), "clicks[7]".into()];
    let check = check_readiness(&look, &limits());
    assert!(check.ok);
    let texts: Vec<&str> = check.problems.iter().map(|problem| problem.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "Orders.consume has run for 50.0 s on orders[1], and its handler_timeout is 45 s",
            "Orders.consume has run for 40.0 s on orders[0], longer than its stall_after",
            "a job on clicks[7] has taken longer than its stall_after",
        ]
    );
}

#[test]
fn a_partition_that_does_not_move_is_named_with_what_it_waits_for_and_fails_no_probe() {
    let unmoved = |partition: u64, waits_for: &'static str, unmoved_for: u64| UnmovedLane {
        handler: "Orders.consume".into(),
        topic: "orders".into(),
        partition,
        waits_for,
        text: "a transaction is open".into(),
        unmoved_for: seconds(unmoved_for),
        lag: Some(7),
    };
    let mut look = well();
    look.report.running = vec![job(0, 40, None)];
    look.report.stalled = vec!["orders[0]".into()];
    look.report.unmoved = vec![
        unmoved(0, "handler", 41), // the job is named already
        unmoved(1, "open_transaction", 31),
        unmoved(2, "handler", 90), // short runs that fail again and again
        unmoved(3, "event_loop", 20),
    ];
    look.report.event_loop = Some(EventLoop::default());
    let text_of =
        |look: &HealthSnapshot| check_readiness(look, &limits()).problems.last().map(|last| last.text.clone());
    assert!(text_of(&look).is_some_and(|text| text.starts_with("orders[3] has not moved")), "the loop is not blocked");
    look.loop_wait = Some(seconds(20)); // one problem names the loop for all
    let mut check = check_readiness(&look, &limits());
    assert_eq!(check.problems.remove(0).reason, "loop");
    assert!(check.ok && check_liveness(&look, &limits()).ok);
    let texts: Vec<&str> = check.problems.iter().map(|problem| problem.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "Orders.consume has run for 40.0 s on orders[0], longer than its stall_after",
            "orders[2] has not moved for 90.0 s: a transaction is open",
            "orders[1] has not moved for 31.0 s: a transaction is open",
        ]
    );
    let mut returned = well();
    returned.report.stalled = vec!["orders[5]".into()]; // the handler has returned, so no job runs
    returned.report.unmoved = vec![unmoved(5, "delivery", 31)];
    let problems = check_readiness(&returned, &limits()).problems;
    let texts: Vec<&str> = problems.iter().map(|problem| problem.text.as_str()).collect();
    assert_eq!(texts, ["orders[5] has not moved for 31.0 s: a transaction is open"]);
    let mut json = grete_health::json::Json::default();
    check.write(&mut json, "shop");
    let text = String::from_utf8(json.into_bytes()).expect("UTF-8");
    assert!(
        text.contains(r#""topic":"orders","partition":1,"waits_for":"open_transaction","lag":7,"text":"orders[1] has"#),
        "{text}"
    );
}

#[test]
fn the_problem_list_is_bounded() {
    let mut look = well();
    look.gil_wait = Some(seconds(99));
    look.report.running = (0..1000).map(|at| job(at, 1000 + at, Some(10))).collect();
    look.report.stalled = (0..1000).map(|at| format!("clicks[{at}]")).collect();
    look.report.groups = (0..1000).map(|at| group(&format!("g{at}"), "joining", false)).collect();
    look.not_ready = vec![seconds(1000); 1000];
    let check = check_liveness(&look, &limits());
    assert_eq!(check.problems.len(), 61);
    let mut json = grete_health::json::Json::default();
    check.write(&mut json, "shop");
    assert!(json.len() < 32_000, "{}", json.len());
}
