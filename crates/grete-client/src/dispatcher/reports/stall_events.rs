//! Log events of lanes that have not moved for `stall_after`, and of those that move again.

use std::time::Duration;

use grete_proto::dispatch::StallReport;
use grete_proto::time::Nanos;
use grete_wire::counted;

use crate::log_event::{Level, LogEvent};

/// Returns the log event of a report; `None`: another log event names the reason.
pub(crate) fn log_event(report: &StallReport, now: Nanos) -> Option<LogEvent> {
    let (tp, handler) = (&report.tp, &*report.policy.name);
    let place = format!("{}[{}]", tp.topic, tp.partition);
    let seconds = Duration::from_nanos(report.unmoved_for).as_secs_f64();
    let mut fields = vec![
        ("handler", handler.to_owned()),
        ("topic", tp.topic.to_string()),
        ("partition", tp.partition.to_string()),
        ("seconds", format!("{seconds:.3}")),
    ];
    let Some(wait) = report.wait else {
        let message = format!("{place} moves again; it had not moved for {seconds:.1} s");
        return Some(LogEvent { level: Level::Info, name: "partition.moving", message, fields });
    };
    if report.is_reported_elsewhere {
        return None;
    }
    fields.push(("waits_for", wait.name().to_owned()));
    fields.extend(report.lag.map(|lag| ("lag", lag.to_string())));
    let lag = report.lag.map_or("an unknown number of records".to_owned(), |lag| {
        counted(usize::try_from(lag).unwrap_or(usize::MAX), "record")
    });
    let message = format!(
        "{place} has not moved for {seconds:.1} s: {}; {lag} of {handler} wait, other partitions go on",
        wait.text(now, report.holder.as_ref())
    );
    let level = if wait.is_intended() { Level::Info } else { Level::Warning };
    Some(LogEvent { level, name: "partition.stalled", message, fields })
}
