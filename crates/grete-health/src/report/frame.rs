//! Wire format of a report: a big-endian u32 with the length, and that many bytes of JSON.

use std::cmp::Reverse;
use std::time::Duration;

use crate::json::Json;
use crate::report::{FailedPartition, GroupStatus, Report, RunningJob, UnmovedLane};

/// Maximum length of the JSON in bytes.
pub const MAX_FRAME_BYTES: usize = 65_536;
/// Maximum number of items in a list.
pub const MAX_NAMED: usize = 20;
/// Version of the format.
const VERSION: u64 = 1;
const HEADER: usize = 4;
/// Bytes kept free for the brackets and names that follow a list.
const TRAILER_RESERVE: usize = 64;

/// Fields that the reporter adds to a report.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReporterInfo {
    /// Sequence number, from 0; dropped reports count.
    pub seq: u64,
    /// Time since the first report.
    pub uptime: Duration,
    /// Current or last wait for the GIL, whichever is longer.
    pub gil_wait: Duration,
    /// Reports dropped because the pipe was full.
    pub dropped: u64,
}

/// Encodes the whole frame. `buffer`: memory to reuse.
///
/// Lists come last, and an item that would make the frame too long is removed again. Everything else has a fixed number
/// of fields, and strings are truncated.
#[must_use]
pub fn encode(info: &ReporterInfo, report: &Report, mut buffer: Vec<u8>) -> Vec<u8> {
    buffer.clear();
    buffer.extend([0; HEADER]);
    let mut json = Json::with_prefix(buffer);
    json.open(b'{');
    json.name("v").number(VERSION);
    json.name("seq").number(info.seq);
    json.name("uptime").seconds(info.uptime);
    json.name("ready").boolean(report.ready);
    json.name("quiet").boolean(report.quiet);
    json.name("stopping").boolean(report.stopping);
    json.name("gil_wait").seconds(info.gil_wait);
    json.name("loop_wait").nullable(report.event_loop.as_ref().map(|it| it.wait), Json::seconds);
    json.name("rss").nullable(report.rss, Json::number);
    json.name("pss").nullable(report.pss, Json::number);
    write_totals(&mut json, report);
    json.name("dropped").number(info.dropped);
    let mut running: Vec<&RunningJob> = report.running.iter().collect();
    running.sort_by_key(|job| Reverse(job.elapsed));
    json.name("oldest").nullable(running.first(), |json, job| {
        write_job(json, job);
        json.name("overdue").boolean(job.is_overdue());
        json.close(b'}');
    });
    let overdue =
        running.into_iter().filter_map(|job| job.limit.filter(|_| job.is_overdue()).map(|limit| (job, limit)));
    write_list(&mut json, "overdue", overdue, |json, (job, limit)| {
        write_job(json, job);
        json.name("limit").seconds(limit);
        json.close(b'}');
    });
    write_list(&mut json, "groups", &report.groups, write_group);
    write_list(&mut json, "stalled", &report.stalled, |json, lane| json.string(lane));
    write_list(&mut json, "unmoved", &report.unmoved, write_unmoved_lane);
    write_list(&mut json, "missing", &report.missing, |json, missing| {
        json.open(b'{');
        json.name("topic").string(&missing.topic);
        json.name("text").text(&missing.text);
        json.close(b'}');
    });
    write_list(&mut json, "failed", &report.failed, write_failed_partition);
    json.close(b'}');
    let mut frame = json.into_bytes();
    // Cannot overflow: a frame has at most `MAX_FRAME_BYTES` plus the reserve.
    let length = u32::try_from(frame.len() - HEADER).unwrap_or(u32::MAX);
    if let Some(header) = frame.first_chunk_mut() {
        *header = length.to_be_bytes();
    }
    frame
}

/// Writes fields of an open object: lanes by state, and totals.
pub(crate) fn write_totals(json: &mut Json, report: &Report) {
    json.name("lanes").open(b'{');
    json.name("idle").number(report.lanes.idle);
    json.name("ready").number(report.lanes.ready);
    json.name("running").number(report.lanes.running);
    json.name("paused").number(report.lanes.paused);
    json.name("failed").number(report.lanes.failed);
    json.name("leaving").number(report.lanes.leaving);
    json.close(b'}');
    json.name("lag").nullable(report.lag, Json::number);
    json.name("jobs").number(report.jobs);
    json.name("records").number(report.records);
    json.name("failures").number(report.failures);
    json.name("dead_letters").number(report.dead_letters);
    json.name("workers").number(report.workers);
}

/// Writes the first items, as many as there is room for.
fn write_list<T>(json: &mut Json, name: &str, items: impl IntoIterator<Item = T>, write: impl Fn(&mut Json, T)) {
    json.name(name).open(b'[');
    for item in items.into_iter().take(MAX_NAMED) {
        let checkpoint = json.checkpoint();
        write(json, item);
        if json.len() > HEADER + MAX_FRAME_BYTES - TRAILER_RESERVE {
            json.truncate_to(checkpoint);
            break;
        }
    }
    json.close(b']');
}

/// Writes the fields that all jobs have. The caller closes the object.
pub(crate) fn write_job(json: &mut Json, job: &RunningJob) {
    json.open(b'{');
    json.name("handler").string(&job.handler);
    json.name("topic").string(&job.topic);
    json.name("partition").number(job.partition);
    json.name("seconds").seconds(job.elapsed);
}

pub(crate) fn write_failed_partition(json: &mut Json, failed: &FailedPartition) {
    json.open(b'{');
    json.name("handler").string(&failed.handler);
    json.name("topic").string(&failed.topic);
    json.name("partition").number(failed.partition);
    json.name("failure").string(failed.reason);
    json.name("error").text(&failed.error);
    json.name("seconds").seconds(failed.failed_for);
    json.close(b'}');
}

fn write_unmoved_lane(json: &mut Json, lane: &UnmovedLane) {
    json.open(b'{');
    json.name("handler").string(&lane.handler);
    json.name("topic").string(&lane.topic);
    json.name("partition").number(lane.partition);
    json.name("waits_for").string(lane.waits_for);
    json.name("wait").text(&lane.text);
    json.name("seconds").seconds(lane.unmoved_for);
    json.name("lag").nullable(lane.lag, Json::number);
    json.close(b'}');
}

pub(crate) fn write_group(json: &mut Json, group: &GroupStatus) {
    json.open(b'{');
    json.name("group").string(&group.group);
    json.name("state").string(group.state);
    json.name("since").seconds(group.state_age);
    json.name("ready").boolean(group.ready);
    json.name("generation").nullable(group.generation, Json::number);
    json.name("partitions").number(group.partitions);
    json.name("instance").nullable(group.group_instance_id.as_deref(), Json::string);
    json.name("connections").nullable(group.connections, Json::number);
    json.name("login_failure").nullable(group.login_failure.as_deref(), Json::text);
    json.name("authorization_failure").nullable(group.authorization_failure.as_deref(), Json::text);
    json.close(b'}');
}
