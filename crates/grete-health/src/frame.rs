//! A report on its way: a big-endian u32 with the length, and that many bytes of JSON.

use std::cmp::Reverse;
use std::time::Duration;

use crate::json::Json;
use crate::report::{Group, Report, RunningJob};

/// Bytes of JSON, at most.
pub const MAX_FRAME: usize = 65_536;
/// What is named of a list, at most.
pub const MAX_NAMED: usize = 20;
/// The format's number.
const VERSION: u64 = 1;
const HEADER: usize = 4;
/// Brackets and names that follow a list.
const RESERVE: usize = 64;

/// What the reporter knows itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stamp {
    /// Counts reports, dropped ones, too.
    pub seq: u64,
    /// Since the first report.
    pub uptime: Duration,
    /// How long the interpreter's lock is or was waited for.
    pub gil_wait: Duration,
    /// Reports that found the pipe full.
    pub dropped: u64,
}

/// The whole frame. `buffer` is memory to write it to.
///
/// Lists come last, and each of their items is taken back if the frame would get too long by it; all else has a fixed number of
/// fields, and texts are cut.
#[must_use]
pub fn encode(stamp: &Stamp, report: &Report, mut buffer: Vec<u8>) -> Vec<u8> {
    buffer.clear();
    buffer.extend([0; HEADER]);
    let mut json = Json::after(buffer);
    json.open(b'{');
    json.name("v").count(VERSION);
    json.name("seq").count(stamp.seq);
    json.name("uptime").seconds(stamp.uptime);
    json.name("steady").flag(report.steady);
    json.name("quiet").flag(report.quiet);
    json.name("stopping").flag(report.stopping);
    json.name("gil_wait").seconds(stamp.gil_wait);
    json.name("rss").known(report.rss, Json::count);
    json.name("pss").known(report.pss, Json::count);
    totals(&mut json, report);
    json.name("dropped").count(stamp.dropped);
    let mut running: Vec<&RunningJob> = report.running.iter().collect();
    running.sort_by_key(|job| Reverse(job.elapsed));
    json.name("oldest").known(running.first(), |json, job| {
        named(json, job);
        json.name("overdue").flag(job.is_overdue());
        json.close(b'}');
    });
    let overdue =
        running.into_iter().filter_map(|job| job.limit.filter(|_| job.is_overdue()).map(|limit| (job, limit)));
    list(&mut json, "overdue", overdue, |json, (job, limit)| {
        named(json, job);
        json.name("limit").seconds(limit);
        json.close(b'}');
    });
    list(&mut json, "groups", &report.groups, group);
    list(&mut json, "stalled", &report.stalled, |json, lane| json.text(lane));
    json.close(b'}');
    let mut frame = json.into_bytes();
    // The reserve keeps it far below what does not fit.
    let length = u32::try_from(frame.len() - HEADER).unwrap_or(u32::MAX);
    if let Some(header) = frame.first_chunk_mut() {
        *header = length.to_be_bytes();
    }
    frame
}

/// Fields of an object that is open: lanes by state, and what happened so far.
pub(crate) fn totals(json: &mut Json, report: &Report) {
    json.name("lanes").open(b'{');
    json.name("idle").count(report.lanes.idle);
    json.name("ready").count(report.lanes.ready);
    json.name("running").count(report.lanes.running);
    json.name("paused").count(report.lanes.paused);
    json.name("leaving").count(report.lanes.leaving);
    json.close(b'}');
    json.name("lag").known(report.lag, Json::count);
    json.name("jobs").count(report.jobs);
    json.name("records").count(report.records);
    json.name("failures").count(report.failures);
    json.name("dead_letters").count(report.dead_letters);
    json.name("workers").count(report.workers);
}

/// The first items, as many as there is room for.
fn list<T>(json: &mut Json, name: &str, items: impl IntoIterator<Item = T>, write: impl Fn(&mut Json, T)) {
    json.name(name).open(b'[');
    for item in items.into_iter().take(MAX_NAMED) {
        let before = json.mark();
        write(json, item);
        if json.len() > HEADER + MAX_FRAME - RESERVE {
            json.back_to(before);
            break;
        }
    }
    json.close(b']');
}

/// The fields that all jobs have, of an object that is still open.
pub(crate) fn named(json: &mut Json, job: &RunningJob) {
    json.open(b'{');
    json.name("handler").text(&job.handler);
    json.name("topic").text(&job.topic);
    json.name("partition").count(job.partition);
    json.name("seconds").seconds(job.elapsed);
}

pub(crate) fn group(json: &mut Json, group: &Group) {
    json.open(b'{');
    json.name("group").text(&group.group);
    json.name("state").text(group.state);
    json.name("since").seconds(group.since);
    json.name("steady").flag(group.steady);
    json.name("generation").known(group.generation, Json::count);
    json.name("partitions").count(group.partitions);
    json.name("instance").known(group.instance.as_deref(), Json::text);
    json.close(b'}');
}
