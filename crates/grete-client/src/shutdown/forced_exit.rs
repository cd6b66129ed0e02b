//! Forced exit: writes a report to stderr and ends the process.

use std::io::Write;
use std::sync::mpsc;
use std::time::Duration;

use crate::dispatcher::{Dispatcher, RunningJob};

/// Longest time for the report. stderr may be a pipe without a reader, which must not keep the process alive.
const MAX_REPORT_TIME: Duration = Duration::from_secs(1);

/// Reports the jobs that still run, raises signal `dump` (0: none), and ends the process with status 2. The signal's
/// C-level handler (Python's faulthandler) writes all stacks without the interpreter lock.
pub(super) fn report_and_exit(dispatcher: &Dispatcher, dump: i32) -> ! {
    let (written, report_done) = mpsc::channel::<()>();
    let report = fmt_report(dispatcher);
    let say = move || {
        let _ = std::io::stderr().lock().write_all(report.as_bytes());
        // The dump reads frames without the interpreter lock: if a frame vanishes meanwhile, the crash ends the process
        // in the same way.
        grete_net::process::install_crash_exit();
        if dump > 0 {
            write_stack_header();
        }
        grete_net::process::raise_signal(dump);
        drop(written);
    };
    if std::thread::Builder::new().name("grete-exit".into()).spawn(say).is_ok() {
        // An error means that the thread has ended and the report is written.
        let _ = report_done.recv_timeout(MAX_REPORT_TIME);
    }
    grete_sys::exit_now(grete_net::process::EXIT_FORCED)
}

/// Writes the line above stacks that a C-level handler writes. That handler does not name the process, and several
/// processes may share one stderr.
pub(super) fn write_stack_header() {
    let line = format!("grete: stacks of process {}, whose interpreter is held:\n", std::process::id());
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// Formats one line for each job that has not ended.
fn fmt_report(dispatcher: &Dispatcher) -> String {
    let process = std::process::id();
    let mut report = format!("grete: forced stop of process {process}: the interpreter has not ended it in time\n");
    for job in dispatcher.running() {
        let RunningJob { handler, topic, partition, worker, seconds, .. } = job;
        let line = format!(
            "grete: {handler} on {topic}[{partition}] still runs after {seconds:.1} s, in {worker}; \
             what it has not marked will be processed again\n",
        );
        report.push_str(&line);
    }
    report
}
