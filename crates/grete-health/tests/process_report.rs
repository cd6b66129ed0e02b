//! Tests of the reports of a process: what they contain, and how long they are.

mod parse;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use grete_health::process_report::{ProcessReport, encode};
use grete_health::{
    HealthCollector, HealthSource, JobStack, LaneState, Limits, Metrics, ProcessReporter, Report, ReportSink,
    RunningJob,
};
use parse::{Value, parse};

const HOUR: Duration = Duration::from_secs(3600);

fn lane(partition: u64, lag: u64) -> LaneState {
    LaneState {
        group: "shop".into(),
        topic: "orders".into(),
        handler: "Orders.consume".into(),
        partition,
        state: "idle",
        position: Some(1_000_000_000),
        committable: Some(1_000_000_000),
        high_watermark: Some(1_000_000_000),
        lag: Some(lag),
        oldest: Some(HOUR),
        in_flight: 500,
        queued_bytes: 64 << 20,
        attempt: 1,
        running_for: None,
        paused_for: None,
        last_progress: Some(Duration::from_millis(1_800_000_000_000)),
        stalled: false,
        failure: None,
        waits_for: None,
        unmoved_for: Duration::ZERO,
        stall: None,
    }
}

fn encoded(lanes: Vec<LaneState>, stacks: &[JobStack], report: &Report, max_bytes: usize) -> (usize, Value) {
    let metrics = Metrics::default();
    let from = ProcessReport {
        facts: "{\"id\":\"shop/host/7\"}",
        seq: 3,
        interval: Duration::from_secs(3),
        stopped: false,
        uptime: HOUR,
        report,
        metrics: &metrics,
        problems: &[],
        lanes,
        stacks,
        dropped: 0,
    };
    let bytes = encode(&from, max_bytes, Vec::new());
    (bytes.len(), parse(&String::from_utf8(bytes).expect("UTF-8")))
}

fn partitions(report: &Value) -> Vec<String> {
    let number = |lane: &Value| match &lane.items()[3] {
        Value::Number(number) => number.clone(),
        other => panic!("{other:?}"),
    };
    report.get("lanes").items().iter().map(number).collect()
}

#[test]
fn a_report_has_a_bounded_length_whatever_there_is_to_report() {
    let long = "x".repeat(100_000);
    let job = RunningJob {
        handler: long.as_str().into(),
        topic: long.as_str().into(),
        partition: 1,
        elapsed: HOUR,
        limit: None,
    };
    let report = Report { running: vec![job; 1000], ..Report::default() };
    let stacks = vec![JobStack { text: long.clone(), stack: format!("{long}the end"), taken_at: HOUR }; 50];
    for (count, max_bytes) in [(0, 4096), (10, 4096), (5000, 4096), (5000, 6144), (5000, 65_536)] {
        let mut lanes: Vec<LaneState> = (0..count).map(|number| lane(number, number)).collect();
        for (number, lane) in lanes.iter_mut().enumerate() {
            lane.topic = format!("{number}{long}").into();
        }
        let (length, report) = encoded(lanes, &stacks, &report, max_bytes);
        assert!(length <= max_bytes, "{length} of {max_bytes}");
        let left_out = report.get("lanes_left_out");
        let written = report.get("lanes").items().len() as u64;
        assert_eq!(*left_out, Value::Number((count - written).to_string()), "all lanes are counted");
    }
}

#[test]
fn fifty_lanes_fit_into_the_report_of_three_seconds() {
    let lanes = (0..50).map(|number| lane(number, number)).collect();
    let (length, report) = encoded(lanes, &[], &Report::default(), 6144);
    assert_eq!(report.get("lanes").items().len(), 50, "{length}");
}

#[test]
fn lanes_that_do_not_move_come_first() {
    let mut lanes: Vec<LaneState> = (0..200).map(|number| lane(number, number)).collect();
    lanes[7].failure = Some("no_offset");
    lanes[8].stalled = true;
    lanes[11].stall = Some("a transaction is open".into());
    lanes[9].attempt = 2;
    lanes[10].running_for = Some(HOUR);
    let (_, report) = encoded(lanes, &[], &Report::default(), 4096);
    let first: Vec<String> = partitions(&report).into_iter().take(6).collect();
    assert_eq!(first, ["11", "8", "7", "9", "10", "199"]);
}

#[test]
fn the_end_of_a_stack_is_kept() {
    let stack = JobStack { text: "a job".into(), stack: format!("{}innermost", "é".repeat(4000)), taken_at: HOUR };
    let (_, report) = encoded(vec![], &[stack], &Report::default(), 6144);
    let Value::Text(text) = &report.get("stacks").items()[0].items()[1] else { panic!("no text") };
    assert!(text.starts_with('…') && text.ends_with("innermost") && text.len() < 1100, "{}", text.len());
}

struct Source;

impl HealthSource for Source {
    fn read(&self, report: &mut Report) {
        report.ready = true;
    }

    fn metrics(&self, metrics: &mut Metrics) {
        metrics.process.workers = Some(5);
    }

    fn lanes(&self) -> Vec<LaneState> {
        vec![lane(0, 7)]
    }
}

struct Sent(Sender<String>, bool);

impl ReportSink for Sent {
    fn send(&mut self, report: &[u8]) -> bool {
        self.0.send(String::from_utf8(report.to_vec()).expect("UTF-8")).expect("the test listens");
        self.1
    }
}

fn start(interval: Duration, takes: bool) -> (ProcessReporter, Receiver<String>) {
    let (sender, reports) = channel();
    let collector = Arc::new(HealthCollector::new("shop".into(), Limits::default(), Arc::new(Source)));
    let reporter = ProcessReporter::start("{}".into(), interval, collector, Sent(sender, takes));
    (reporter.expect("a thread"), reports)
}

#[test]
fn the_first_report_comes_at_once_and_the_last_one_says_that_the_process_has_stopped() {
    let (reporter, reports) = start(HOUR, true);
    let first = parse(&reports.recv_timeout(Duration::from_secs(60)).expect("a report"));
    assert_eq!(first.get("state"), &Value::Text("running".into()));
    assert_eq!(partitions(&first), ["0"]);
    reporter.close();
    reporter.close();
    let last = parse(&reports.recv().expect("one more"));
    assert_eq!((last.get("state"), last.get("seq")), (&Value::Text("stopped".into()), &Value::Number("1".into())));
    assert!(reports.recv().is_err(), "nothing follows");
}

#[test]
fn reports_that_are_not_taken_are_counted() {
    let (reporter, reports) = start(Duration::from_millis(2), false);
    for number in 0..4 {
        let report = parse(&reports.recv().expect("a report"));
        assert_eq!(report.get("dropped"), &Value::Number(number.to_string()));
    }
    reporter.close();
}
