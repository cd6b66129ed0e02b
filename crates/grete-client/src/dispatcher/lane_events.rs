//! Log events of lanes and jobs, with rate limiting.

use std::collections::{BTreeMap, HashMap};

use grete_proto::dispatch::{InFlightJob, LaneEvent, LaneEventKind, Pool, StalledJob};
use grete_proto::ids::TopicPartition;
use grete_proto::time::{MILLI, Nanos, SECOND};
use grete_wire::{counted, plural};

use crate::log_event::{Level, LogEvent};

/// Minimum time between two log events about skipped records of one partition.
const SKIPPED_LOG_INTERVAL: Nanos = 10 * SECOND;

/// Time after which an event loop that has not run counts as blocked. A shorter time may just be work on ready tasks.
const LOOP_BLOCKED_AFTER: Nanos = 100 * MILLI;

/// State of rate limiting; one per client.
#[derive(Debug, Default)]
pub(crate) struct LaneEventLog {
    /// By the name of the log event.
    skipped: HashMap<TopicPartition, BTreeMap<&'static str, Unlogged>>,
}

#[derive(Debug, Default)]
struct Unlogged {
    /// Records, or ids, since the last log event.
    count: u64,
    logged_at: Nanos,
}

impl LaneEventLog {
    /// Returns the log event of a lane event; `None`: the last one was too recent.
    pub(crate) fn log_event(&mut self, remark: &LaneEvent, now: Nanos) -> Option<LogEvent> {
        let (tp, handler) = (&remark.tp, &*remark.policy.name);
        let place = fmt_partition(tp);
        match remark.kind {
            LaneEventKind::Unmarked { open, first, pauses } => Some(LogEvent {
                level: Level::Warning,
                name: "consumer.unmarked",
                message: format!(
                    "{place}: {handler} has left {} unmarked, from offset {first} on, so the partition waits{}; \
                     mark what is processed, or raise max_unmarked",
                    counted(open, "record"),
                    fmt_repeat(pauses)
                ),
                fields: lane_fields(
                    handler,
                    tp,
                    &[("offset", first.to_string()), ("open", open.to_string()), ("pauses", pauses.to_string())],
                ),
            }),
            LaneEventKind::AheadOfUnmarked { records, first, pauses } => Some(LogEvent {
                level: Level::Warning,
                name: "consumer.unmarked",
                message: format!(
                    "{place}: {handler} has not processed the record at offset {first}, {} {} been handed out since \
                     then, and the partition waits for it{} (after a crash they would all be processed again); see \
                     what delays it, or raise max_unmarked",
                    counted(records, "record"),
                    plural(records, "has", "have"),
                    fmt_repeat(pauses)
                ),
                fields: lane_fields(
                    handler,
                    tp,
                    &[("offset", first.to_string()), ("open", records.to_string()), ("pauses", pauses.to_string())],
                ),
            }),
            LaneEventKind::MarksDropped { marks, first } => {
                let from = first.map_or(String::new(), |first| format!(" from offset {first} on"));
                let mut facts = lane_fields(handler, tp, &[("marks", marks.to_string())]);
                facts.extend(first.map(|first| ("offset", first.to_string())));
                Some(LogEvent {
                    level: Level::Error,
                    name: "consumer.marks_dropped",
                    message: format!(
                        "{place}: {marks} marks of {handler} do not count, because a record that was produced before them was not \
                         written; nothing{from} is committed until the partition is read again: seek to offset \
                         {}, or restart",
                        first.unwrap_or_default()
                    ),
                    fields: facts,
                })
            }
            LaneEventKind::Duplicates { records, first, last } => {
                let name = "consumer.duplicates";
                let records = self.count(tp, name, records, now)?;
                Some(LogEvent {
                    level: Level::Info,
                    name,
                    message: format!(
                        "{place}: {handler} got no {}, the last at offsets {first}..{last}: their ids came before",
                        counted(records, "duplicate")
                    ),
                    fields: lane_fields(
                        handler,
                        tp,
                        &[
                            ("records", records.to_string()),
                            ("first_offset", first.to_string()),
                            ("last_offset", last.to_string()),
                        ],
                    ),
                })
            }
            LaneEventKind::IdsForgotten { ids } => {
                let name = "consumer.dedup_overflow";
                let ids = self.count(tp, name, ids, now)?;
                Some(LogEvent {
                    level: Level::Warning,
                    name,
                    message: format!(
                        "{place}: {} of {handler} {} dropped before the end of dedup_window, because dedup_memory is full; \
                         duplicates of these records will be processed; raise dedup_memory, or shorten dedup_window",
                        counted(ids, "id"),
                        plural(ids, "was", "were")
                    ),
                    fields: lane_fields(handler, tp, &[("ids", ids.to_string())]),
                })
            }
            LaneEventKind::Expired { records, first, last } => {
                let name = "consumer.expired";
                let records = self.count(tp, name, records, now)?;
                Some(LogEvent {
                    level: Level::Warning,
                    name,
                    message: format!(
                        "{place}: {records} {} older than {handler}'s max_age, the last at offsets {first}..{last}",
                        plural(records, "record was skipped: it is", "records were skipped: they are")
                    ),
                    fields: lane_fields(
                        handler,
                        tp,
                        &[
                            ("records", records.to_string()),
                            ("first_offset", first.to_string()),
                            ("last_offset", last.to_string()),
                        ],
                    ),
                })
            }
        }
    }

    /// Adds to the count of a log event. Returns the count; `None`: the last log event was too recent.
    fn count(&mut self, tp: &TopicPartition, name: &'static str, count: usize, now: Nanos) -> Option<u64> {
        let unlogged = self.skipped.entry(tp.clone()).or_default().entry(name).or_default();
        unlogged.count += count as u64;
        if unlogged.logged_at != 0 && now.saturating_sub(unlogged.logged_at) < SKIPPED_LOG_INTERVAL {
            return None;
        }
        unlogged.logged_at = now.max(1);
        Some(std::mem::take(&mut unlogged.count))
    }

    /// Drops the state of a partition that is not assigned any more.
    pub(crate) fn forget(&mut self, tp: &TopicPartition) {
        self.skipped.remove(tp);
    }
}

/// Formats how often a partition has waited since the last log event.
fn fmt_repeat(pauses: u64) -> String {
    if pauses > 1 { format!(" ({pauses} times since the last log event)") } else { String::new() }
}

/// Returns the log event of a job that runs for too long. `blocked`: for how long the event loop has not run.
pub(crate) fn stalled(stall: &StalledJob, blocked: Option<Nanos>) -> LogEvent {
    let (tp, handler, seconds) = (&stall.tp, &*stall.policy.name, in_seconds(stall.running_for));
    let (place, hook) = (fmt_partition(tp), stall.kind.name());
    let rows = stall.offsets.map_or(String::new(), |(first, last)| format!(" offsets {first}..{last}"));
    if stall.awaiting {
        let message = format!(
            "{place}: {handler} ({hook}){rows} has returned, and waits for {seconds:.1} s for {} that it produced; no broker \
             has acknowledged {}, so the partition waits, and its offsets are not committed",
            counted(stall.open_outputs, "record"),
            plural(stall.open_outputs, "it", "them")
        );
        let mut extra = job_fields(handler, tp, stall.instance, stall.running_for, &stall.worker);
        extra.push(("undelivered", stall.open_outputs.to_string()));
        return LogEvent { level: Level::Warning, name: "consumer.undelivered", message, fields: extra };
    }
    let (level, name, limit) = if stall.overdue {
        (Level::Error, "consumer.timeout", "past its handler_timeout")
    } else {
        (Level::Warning, "consumer.stalled", "longer than its stall_after")
    };
    let others = match blocked.filter(|blocked| stall.policy.pool == Pool::EventLoop && *blocked >= LOOP_BLOCKED_AFTER)
    {
        Some(blocked) => format!(
            "the event loop has been blocked for {:.1} s, and all async handlers of this process wait for it",
            in_seconds(blocked)
        ),
        None => "the partition waits for it, others go on".into(),
    };
    let message =
        format!("{place}: {handler} ({hook}){rows} runs for {seconds:.1} s in {}, {limit}; {others}", stall.worker);
    let mut extra = job_fields(handler, tp, stall.instance, stall.running_for, &stall.worker);
    if let Some((first, last)) = stall.offsets {
        extra.extend([("first_offset", first.to_string()), ("last_offset", last.to_string())]);
    }
    LogEvent { level, name, message, fields: extra }
}

/// Returns the log event of an event loop that is blocked for longer than its handlers' `stall_after`.
pub(crate) fn loop_blocked(wait: Nanos) -> LogEvent {
    let message = format!(
        "the event loop has been blocked for {:.1} s; all async handlers of this process wait for it",
        in_seconds(wait)
    );
    LogEvent { level: Level::Warning, name: "loop.blocked", message, fields: loop_fields(wait) }
}

/// Returns the log event of an event loop that runs again.
pub(crate) fn loop_unblocked(wait: Nanos) -> LogEvent {
    let message = format!("the event loop runs again; it had been blocked for {:.1} s", in_seconds(wait));
    LogEvent { level: Level::Info, name: "loop.unblocked", message, fields: loop_fields(wait) }
}

fn loop_fields(wait: Nanos) -> Vec<(&'static str, String)> {
    vec![("seconds", format!("{:.3}", in_seconds(wait)))]
}

/// Returns the log event of a job that did not end within the time for revoking its partition.
pub(crate) fn abandoned(job: &InFlightJob, now: Nanos) -> LogEvent {
    let (tp, handler) = (&job.tp, &*job.policy.name);
    let place = fmt_partition(tp);
    let running_for = now.saturating_sub(job.since);
    if job.handled_at.is_some() {
        let outputs = job.shared.pending_outputs();
        let message = format!(
            "{place}: {handler} ({}) has returned, and {} that it produced {} not acknowledged within \
             max.poll.interval.ms, so the partition went on without it; its records are processed again by the partition's next \
             owner. See why brokers do not take what it produces",
            job.kind.name(),
            counted(outputs, "record"),
            plural(outputs, "was", "were")
        );
        let fields = job_fields(handler, tp, job.instance, running_for, &job.worker);
        return LogEvent { level: Level::Error, name: "consumer.abandoned", message, fields };
    }
    let message = format!(
        "{place}: {handler} ({}) {} for {:.1} s{} and outlasted max.poll.interval.ms, so the partition went on without it; \
         what it marks from now on is refused, and its records are processed again by the partition's next owner. Make the \
         handler faster or raise max.poll.interval.ms",
        job.kind.name(),
        if job.started { "runs" } else { "has waited for the event loop" },
        in_seconds(running_for),
        if job.started { format!(" in {}", job.worker) } else { String::new() },
    );
    let fields = job_fields(handler, tp, job.instance, running_for, &job.worker);
    LogEvent { level: Level::Error, name: "consumer.abandoned", message, fields }
}

fn job_fields(
    handler: &str,
    tp: &TopicPartition,
    slot: u32,
    running_for: Nanos,
    worker: &str,
) -> Vec<(&'static str, String)> {
    let seconds = format!("{:.3}", in_seconds(running_for));
    lane_fields(handler, tp, &[("slot", slot.to_string()), ("seconds", seconds), ("worker", worker.to_owned())])
}

fn lane_fields(handler: &str, tp: &TopicPartition, more: &[(&'static str, String)]) -> Vec<(&'static str, String)> {
    let mut fields =
        vec![("handler", handler.to_owned()), ("topic", tp.topic.to_string()), ("partition", tp.partition.to_string())];
    fields.extend_from_slice(more);
    fields
}

/// Formats a partition as in the handlers' own log lines.
fn fmt_partition(tp: &TopicPartition) -> String {
    format!("{}[{}]", tp.topic, tp.partition)
}

fn in_seconds(nanos: Nanos) -> f64 {
    std::time::Duration::from_nanos(nanos).as_secs_f64()
}
