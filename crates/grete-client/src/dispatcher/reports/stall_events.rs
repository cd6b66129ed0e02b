//! Log events of lanes that have not moved for `stall_after`, and of those that move again.

use std::collections::BTreeMap;
use std::time::Duration;

use grete_proto::dispatch::{LaneWait, StallReport};
use grete_proto::time::Nanos;
use grete_wire::counted;

use crate::log_event::{Level, LogEvent};

/// Log events of one handler and one reason in one check. Thousands of partitions may wait for the same memory.
const MAX_EVENTS: usize = 10;

/// Returns the log events of the reports of one check. At most [`MAX_EVENTS`] name partitions of the same handler with
/// the same reason, and the last of them has the number of the others.
pub(crate) fn log_events(reports: &[StallReport], now: Nanos) -> Vec<LogEvent> {
    let mut events: Vec<LogEvent> = Vec::new();
    // Number of reports, and index of the last event, by handler and reason (`None`: the partition moves again).
    let mut counts: BTreeMap<(&str, Option<&str>), (usize, usize)> = BTreeMap::new();
    for report in reports {
        let kind = (&*report.policy.name, report.wait.map(LaneWait::name));
        let (count, last) = counts.entry(kind).or_default();
        if *count >= MAX_EVENTS {
            *count += usize::from(report.wait.is_none() || !report.is_reported_elsewhere);
        } else if let Some(event) = log_event(report, now) {
            *count += 1;
            *last = events.len();
            events.push(event);
        }
    }
    for ((handler, _), (count, last)) in counts {
        let others = count.saturating_sub(MAX_EVENTS);
        if let Some(event) = events.get_mut(last).filter(|_| others > 0) {
            event.message += &format!("; the same holds for {} of {handler}", counted(others, "other partition"));
            event.fields.push(("others", others.to_string()));
        }
    }
    events
}

/// Returns the log event of a report; `None`: another log event names the reason.
fn log_event(report: &StallReport, now: Nanos) -> Option<LogEvent> {
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
    let lag = report.lag.map_or(format!("an unknown number of records of {handler} wait"), |lag| {
        format!("{} of {handler} {}", counted(lag, "record"), if lag == 1 { "waits" } else { "wait" })
    });
    let message =
        format!("{place} has not moved for {seconds:.1} s: {}; {lag}", wait.text(now, report.holder.as_ref()));
    let level = if wait.is_intended() { Level::Info } else { Level::Warning };
    Some(LogEvent { level, name: "partition.stalled", message, fields })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use grete_proto::dispatch::RouteConfig;
    use grete_proto::ids::TopicPartition;
    use grete_proto::time::SECOND;

    use super::*;

    fn report(handler: &str, partition: i32, wait: Option<LaneWait>) -> StallReport {
        StallReport {
            tp: TopicPartition::new("orders", partition),
            policy: Arc::new(RouteConfig { name: handler.into(), ..RouteConfig::default() }),
            unmoved_for: 30 * SECOND,
            lag: Some(7),
            wait,
            holder: None,
            is_reported_elsewhere: false,
        }
    }

    #[test]
    fn thousands_of_partitions_with_one_reason_are_few_events() {
        let mut reports: Vec<_> = (0..1000).map(|at| report("bill", at, Some(LaneWait::Worker))).collect();
        reports.extend((0..3).map(|at| report("bill", at, Some(LaneWait::Quiet))));
        reports.extend((0..11).map(|at| report("ship", at, None)));
        reports.push(StallReport { is_reported_elsewhere: true, ..report("ship", 99, Some(LaneWait::Worker)) });
        let events = log_events(&reports, 0);
        assert_eq!(events.len(), MAX_EVENTS + 3 + MAX_EVENTS);
        let others: Vec<_> =
            events.iter().flat_map(|event| &event.fields).filter(|field| field.0 == "others").collect();
        assert_eq!(others, [&("others", "990".to_owned()), &("others", "1".to_owned())]);
        let last = events.get(MAX_EVENTS - 1).map(|event| &*event.message).unwrap_or_default();
        assert!(
            last.contains("orders[9]") && last.ends_with("; the same holds for 990 other partitions of bill"),
            "{last}"
        );
    }

    #[test]
    fn one_record_waits_and_more_wait() {
        let message_for = |lag| {
            let events = log_events(&[StallReport { lag, ..report("bill", 3, Some(LaneWait::Worker)) }], 0);
            events.into_iter().map(|event| event.message).collect::<String>()
        };
        let start = "orders[3] has not moved for 30.0 s: no worker has taken its job; ";
        assert_eq!(message_for(Some(7)), format!("{start}7 records of bill wait"));
        assert_eq!(message_for(Some(1)), format!("{start}1 record of bill waits"));
        assert_eq!(message_for(None), format!("{start}an unknown number of records of bill wait"));
    }
}
