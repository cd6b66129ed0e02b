//! What a process says when it is ended by force.

use std::io::Write;
use std::sync::mpsc;
use std::time::Duration;

use crate::dispatcher::{Dispatcher, RunningJob};

/// stderr may be a pipe that nobody reads: that must not keep the process alive.
const LONGEST: Duration = Duration::from_secs(1);

/// Names the jobs that still run, raises `dump` (whose C-level handler, as Python's faulthandler installs, writes all stacks
/// without the interpreter's lock; 0: none), and ends the process with status 2.
pub(super) fn say_and_exit(dispatcher: &Dispatcher, dump: i32) -> ! {
    let (said, heard) = mpsc::channel::<()>();
    let report = report(dispatcher);
    let say = move || {
        let _ = std::io::stderr().lock().write_all(report.as_bytes());
        // The dump reads frames without the interpreter's lock: if one vanishes under it, the end is the same.
        grete_net::process::exit_on_crash();
        if dump > 0 {
            head_stacks();
        }
        grete_net::process::raise_here(dump);
        drop(said);
    };
    if std::thread::Builder::new().name("grete-last-word".into()).spawn(say).is_ok() {
        // An error is the end of the thread: all is said.
        let _ = heard.recv_timeout(LONGEST);
    }
    grete_net::process::exit_now(grete_net::process::FORCED)
}

/// The line above stacks that a C-level handler writes: it knows nothing of processes that share a stderr.
pub(super) fn head_stacks() {
    let line = format!("grete: stacks of process {}, whose interpreter is held:\n", std::process::id());
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// One line for each job that has not come back.
fn report(dispatcher: &Dispatcher) -> String {
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
