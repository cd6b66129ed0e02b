//! Tests of when reports are written, and of what ends the reporter.

use std::io::{PipeReader, Read, pipe};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use grete_health::{
    GilProbe, GilProbeHandle, HealthCollector, HealthSource, Limits, Metrics, MetricsPublisher, Pipe, Report, Reporter,
    SharedText,
};

const HOUR: Duration = Duration::from_secs(3600);
const LONG: Duration = Duration::from_secs(60);

struct Jobs;

impl HealthSource for Jobs {
    fn read(&self, report: &mut Report) {
        report.jobs = 7;
    }

    fn metrics(&self, metrics: &mut Metrics) {
        metrics.process.workers = Some(7);
    }
}

fn start(interval: Duration, probe: Option<GilProbeHandle>) -> (PipeReader, Reporter, Receiver<()>) {
    let (reader, writer) = pipe().expect("a pipe");
    let pipe = Pipe::new(writer.as_raw_fd()).expect("it can be written to");
    let (report_orphan, orphaned) = channel();
    let orphan = move || report_orphan.send(()).expect("the test listens");
    (reader, Reporter::start(pipe, interval, Arc::new(Jobs), probe, None, orphan).expect("a thread"), orphaned)
}

fn report(reader: &mut PipeReader) -> String {
    let mut header = [0; 4];
    reader.read_exact(&mut header).expect("a frame");
    let mut body = vec![0; u32::from_be_bytes(header) as usize];
    reader.read_exact(&mut body).expect("all of it");
    String::from_utf8(body).expect("UTF-8")
}

#[test]
fn the_first_report_comes_at_once_and_the_others_in_order() {
    let (mut reader, reporter, _orphaned) = start(Duration::from_millis(5), None);
    for seq in 0..4 {
        let text = report(&mut reader);
        assert!(text.contains(&format!("\"seq\":{seq},")) && text.contains("\"jobs\":7"), "{text}");
    }
    reporter.close();
    reporter.close();
}

#[test]
fn metrics_are_posted_before_the_report_is_written() {
    let (mut reader, writer) = pipe().expect("a pipe");
    let pipe = Pipe::new(writer.as_raw_fd()).expect("it can be written to");
    let board = Arc::new(SharedText::new().expect("memory"));
    let posting = MetricsPublisher {
        shared_text: Arc::clone(&board),
        collector: Arc::new(HealthCollector::new("shop".into(), Limits::default(), Arc::new(Jobs))),
    };
    let interval = Duration::from_millis(5);
    let reporter = Reporter::start(pipe, interval, Arc::new(Jobs), None, Some(posting), || {}).expect("a thread");
    for _ in 0..3 {
        report(&mut reader);
        let mut text = Vec::new();
        let posted = board.read(&mut text).expect("it is there");
        assert!(!posted.truncated);
        let text = String::from_utf8(text).expect("UTF-8");
        assert!(text.contains("\ngrete_workers 7\n"), "{text}");
    }
    reporter.close();
}

#[test]
fn a_reader_that_goes_away_is_noticed_between_two_reports() {
    let (mut reader, reporter, orphaned) = start(HOUR, None);
    report(&mut reader);
    drop(reader);
    orphaned.recv_timeout(LONG).expect("noticed an hour early");
    reporter.close();
}

#[test]
fn closing_needs_no_report_and_closes_the_pipe() {
    let (mut reader, reporter, orphaned) = start(HOUR, None);
    let begun = Instant::now();
    reporter.close();
    assert!(begun.elapsed() < HOUR);
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).expect("its end comes");
    assert!(orphaned.recv().is_err(), "`orphaned` was called");
}

#[test]
fn reports_contain_the_sampled_gil_wait() {
    let (release, released) = channel::<()>();
    let probe = GilProbe::start(move || released.recv().is_ok()).expect("a thread");
    let (mut reader, reporter, _orphaned) = start(Duration::from_millis(50), Some(probe.handle()));
    let wait = |text: &str| -> f64 {
        let (_, rest) = text.split_once("\"gil_wait\":").expect("the report has the wait");
        rest.split_once(',').and_then(|(number, _)| number.parse().ok()).expect("a number")
    };
    assert!(wait(&report(&mut reader)) == 0.0);
    // A wait sampled with the first report has lasted for two intervals at the third. If the machine stops this process
    // for longer than one interval, the wait starts anew.
    while wait(&report(&mut reader)) < 0.1 {}
    drop(release);
    probe.close();
    reporter.close();
}

#[test]
fn report_now_sends_immediately_and_calls_coalesce() {
    let (mut reader, reporter, _orphaned) = start(HOUR, None);
    assert!(report(&mut reader).contains("\"seq\":0,"));
    for seq in 1..4 {
        reporter.report_now();
        assert!(report(&mut reader).contains(&format!("\"seq\":{seq},")));
    }
    // More wake-ups than a pipe has room for: no call blocks.
    for _ in 0..100_000 {
        reporter.report_now();
    }
    reporter.close();
}
