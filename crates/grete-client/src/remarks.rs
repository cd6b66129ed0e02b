//! What lanes have to say, in words, and not too often.

use std::collections::HashMap;

use grete_core::dispatch::{Remark, RemarkKind, Running, Stall};
use grete_core::ids::TopicPartition;
use grete_core::time::{Nanos, SECOND};

use crate::notice::{Level, Notice};

/// Expired records of one partition are told once in this time.
const EVERY: Nanos = 10 * SECOND;

/// What was told lately. One per client.
#[derive(Debug, Default)]
pub(crate) struct Remarks {
    expired: HashMap<TopicPartition, Expired>,
}

#[derive(Debug)]
struct Expired {
    /// Passed over since the last time that it was told.
    untold: u64,
    told_at: Nanos,
}

impl Remarks {
    /// The notice, unless it was told lately.
    pub(crate) fn notice(&mut self, remark: &Remark, now: Nanos) -> Option<Notice> {
        let (tp, handler) = (&remark.tp, &*remark.policy.name);
        let place = place(tp);
        match remark.what {
            RemarkKind::Unmarked { open, first } => Some(Notice {
                level: Level::Warning,
                name: "consumer.unmarked",
                message: format!(
                    "{place}: {handler} has left {open} records unmarked, from offset {first} on, so the partition waits; mark \
                     what is processed, or raise max_unmarked"
                ),
                fields: fields(handler, tp, &[("offset", first.to_string()), ("open", open.to_string())]),
            }),
            RemarkKind::Ahead { records, first } => Some(Notice {
                level: Level::Warning,
                name: "consumer.unmarked",
                message: format!(
                    "{place}: the record at offset {first} is not done by {handler}, {records} records have been handed out since \
                     then, and the partition waits for it (after a crash they would all come again); see what keeps it, or \
                     raise max_unmarked"
                ),
                fields: fields(handler, tp, &[("offset", first.to_string()), ("open", records.to_string())]),
            }),
            RemarkKind::Expired { records, first, last } => {
                let expired = self.expired.entry(tp.clone()).or_insert(Expired { untold: 0, told_at: 0 });
                expired.untold += records as u64;
                if expired.told_at != 0 && now.saturating_sub(expired.told_at) < EVERY {
                    return None;
                }
                expired.told_at = now.max(1);
                let records = std::mem::take(&mut expired.untold);
                Some(Notice {
                    level: Level::Warning,
                    name: "consumer.expired",
                    message: format!(
                        "{place}: {records} records were passed over because they are older than {handler}'s expire, the last of \
                         them at offsets {first}..{last}"
                    ),
                    fields: fields(
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

    /// The partition is not ours any more.
    pub(crate) fn forget(&mut self, tp: &TopicPartition) {
        self.expired.remove(tp);
    }
}

/// A job runs for too long.
pub(crate) fn stalled(stall: &Stall) -> Notice {
    let (tp, handler, seconds) = (&stall.tp, &*stall.policy.name, in_seconds(stall.running_for));
    let (place, hook) = (place(tp), stall.kind.name());
    let rows = stall.offsets.map_or(String::new(), |(first, last)| format!(" offsets {first}..{last}"));
    let (level, name, limit) = if stall.overdue {
        (Level::Error, "consumer.timeout", "past its handler_timeout")
    } else {
        (Level::Warning, "consumer.stalled", "longer than its stall_after")
    };
    let message = format!(
        "{place}: {handler} ({hook}){rows} runs for {seconds:.1} s in {}, {limit}; the partition waits for it, others go on",
        stall.worker
    );
    let mut told = job_fields(handler, tp, stall.unit.slot, stall.running_for, &stall.worker);
    if let Some((first, last)) = stall.offsets {
        told.extend([("first_offset", first.to_string()), ("last_offset", last.to_string())]);
    }
    Notice { level, name, message, fields: told }
}

/// A job outlasted the time to give its partition up.
pub(crate) fn abandoned(job: &Running, now: Nanos) -> Notice {
    let (tp, handler) = (&job.tp, &*job.policy.name);
    let place = place(tp);
    let running_for = now.saturating_sub(job.since);
    let message = format!(
        "{place}: {handler} ({}) runs for {:.1} s in {} and outlasted max.poll.interval.ms, so the partition went on without it; \
         what it marks from now on is refused, and its records are processed again by the partition's next owner. Make the \
         handler faster or raise max.poll.interval.ms",
        job.kind.name(),
        in_seconds(running_for),
        job.worker
    );
    let fields = job_fields(handler, tp, job.unit.slot, running_for, &job.worker);
    Notice { level: Level::Error, name: "consumer.abandoned", message, fields }
}

fn job_fields(
    handler: &str,
    tp: &TopicPartition,
    slot: u32,
    running_for: Nanos,
    worker: &str,
) -> Vec<(&'static str, String)> {
    let seconds = format!("{:.3}", in_seconds(running_for));
    fields(handler, tp, &[("slot", slot.to_string()), ("seconds", seconds), ("worker", worker.to_owned())])
}

fn fields(handler: &str, tp: &TopicPartition, more: &[(&'static str, String)]) -> Vec<(&'static str, String)> {
    let mut fields =
        vec![("handler", handler.to_owned()), ("topic", tp.topic.to_string()), ("partition", tp.partition.to_string())];
    fields.extend_from_slice(more);
    fields
}

/// As handlers' own log lines say it.
fn place(tp: &TopicPartition) -> String {
    format!("{}[{}]", tp.topic, tp.partition)
}

fn in_seconds(nanos: Nanos) -> f64 {
    std::time::Duration::from_nanos(nanos).as_secs_f64()
}
