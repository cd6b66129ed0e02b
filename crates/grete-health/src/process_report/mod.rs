//! Report of a whole process for `grete web`: JSON of bounded length, which is a record of a Kafka topic.
//!
//! Times are whole milliseconds. Lists are arrays without field names, in the order that [`encode`] documents. The
//! length is bounded: the most urgent lanes come first, and those without room are counted. Totals cover all handlers,
//! also those that the list has no room for.

pub(crate) mod reporter;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::checks::Problem;
use crate::json::Json;
use crate::metrics::{HandlerMetrics, Metrics};
use crate::report::{LaneState, Report, RunningJob, frame};

/// Version of the format.
const VERSION: u64 = 1;
/// Maximum number of items of each list but the lanes.
const MAX_LISTED: usize = 20;
/// Maximum number of bytes of one stack.
const MAX_STACK_BYTES: usize = 1024;
/// Bytes kept free for the brackets and names that follow the lanes.
const TRAILER_RESERVE: usize = 64;

/// Stack of a running job, taken by the interpreter.
#[derive(Debug, Clone)]
pub struct JobStack {
    /// Description of the job: handler, place, offsets, thread.
    pub text: String,
    /// Lines of the stack, the innermost frame last.
    pub stack: String,
    /// Time at which the stack was taken, since 1970.
    pub taken_at: Duration,
}

/// Everything that a report is made of.
#[derive(Debug)]
pub struct ProcessReport<'a> {
    /// JSON object with the facts that never change.
    pub facts: &'a str,
    /// Sequence number, from 0.
    pub seq: u64,
    /// Time between two reports.
    pub interval: Duration,
    /// The process has stopped: this is its last report.
    pub stopped: bool,
    /// Age of the process.
    pub uptime: Duration,
    /// State of groups and jobs.
    pub report: &'a Report,
    /// Metrics of handlers, clients and the process.
    pub metrics: &'a Metrics,
    /// Problems that the probes name.
    pub problems: &'a [Problem<'a>],
    /// Lanes in any order.
    pub lanes: Vec<LaneState>,
    /// Stacks of the jobs that have run longest.
    pub stacks: &'a [JobStack],
    /// Reports that were not written.
    pub dropped: u64,
}

/// Encodes a report of at most `max_bytes`, as long as `facts` have less than a quarter of them. `buffer`: memory to reuse.
///
/// A handler is [name, jobs, records, failures, retries, dead letters, expired, skipped, stalls, timeouts, running,
/// age of its oldest job, time of all jobs, duration below which 99 % of its jobs are]. A job is [handler, topic,
/// partition, age, limit]. A lane is [group, topic, handler, partition, state, position, committable, high watermark,
/// lag, age of the oldest record, in flight, queued bytes, attempt, running for, paused for, last progress, stalled,
/// failure], where the first three are places in `names`. A lane that does not move has three fields more: its reason,
/// the time for which it has not moved, and its stall.
#[must_use]
pub fn encode(from: &ProcessReport<'_>, max_bytes: usize, mut buffer: Vec<u8>) -> Vec<u8> {
    buffer.clear();
    let mut json = Json::with_prefix(buffer);
    json.open(b'{');
    json.name("v").number(VERSION);
    json.name("seq").number(from.seq);
    json.name("at").number(millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()));
    json.name("every").number(millis(from.interval));
    json.name("process").verbatim(from.facts);
    json.name("state").string(state(from));
    json.name("ready").boolean(from.report.ready);
    json.name("uptime").number(millis(from.uptime));
    json.name("dropped").number(from.dropped);
    write_process(&mut json, from.metrics);
    json.name("lag").nullable(from.report.lag, Json::number);
    write_traffic(&mut json, from.metrics);
    write_totals(&mut json, &from.metrics.handlers);
    let half = max_bytes / 2;
    write_list(&mut json, "groups", half, &from.report.groups, frame::write_group);
    write_list(&mut json, "handlers", half, &from.metrics.handlers, write_handler);
    write_list(&mut json, "problems", half, from.problems, |json, problem| {
        json.open(b'[').string(problem.reason);
        json.text(&problem.text);
        json.close(b']');
    });
    let mut running: Vec<&RunningJob> = from.report.running.iter().collect();
    running.sort_by_key(|job| Reverse(job.elapsed));
    write_list(&mut json, "jobs", half, running, write_job);
    write_list(&mut json, "stacks", half + max_bytes / 4, from.stacks, |json, stack| {
        json.open(b'[').string(&stack.text);
        json.string_up_to(&stack.stack, MAX_STACK_BYTES);
        json.number(millis(stack.taken_at));
        json.close(b']');
    });
    write_lanes(&mut json, from.lanes.clone(), max_bytes);
    json.close(b'}');
    json.into_bytes()
}

/// Writes the first items, as many as there are bytes for.
fn write_list<T>(
    json: &mut Json,
    name: &str,
    max_bytes: usize,
    items: impl IntoIterator<Item = T>,
    write: impl Fn(&mut Json, T),
) {
    json.name(name).open(b'[');
    for item in items.into_iter().take(MAX_LISTED) {
        let checkpoint = json.checkpoint();
        write(json, item);
        if json.len() > max_bytes {
            json.truncate_to(checkpoint);
            break;
        }
    }
    json.close(b']');
}

/// Writes the sums over all handlers: jobs, records, failures, retries, dead letters, expired, skipped, stalls,
/// timeouts, time of all jobs.
fn write_totals(json: &mut Json, handlers: &[HandlerMetrics]) {
    let mut totals = [0_u64; 10];
    for handler in handlers {
        let counts = [
            handler.jobs,
            handler.records,
            handler.failures,
            handler.retries,
            handler.dead_letters,
            handler.expired,
            handler.skipped,
            handler.stalls,
            handler.timeouts,
            handler.duration.as_ref().map(|all| seconds_to_millis(all.sum)),
        ];
        for (total, count) in totals.iter_mut().zip(counts) {
            *total = total.saturating_add(count.unwrap_or_default());
        }
    }
    json.name("totals").open(b'[');
    for total in totals {
        json.number(total);
    }
    json.close(b']');
}

fn state(from: &ProcessReport<'_>) -> &'static str {
    match from.report {
        _ if from.stopped => "stopped",
        Report { stopping: true, .. } => "stopping",
        Report { quiet: true, .. } => "quiet",
        Report { ready: true, .. } => "running",
        _ => "starting",
    }
}

fn write_process(json: &mut Json, metrics: &Metrics) {
    let process = &metrics.process;
    json.name("rss").nullable(process.resident_bytes, Json::number);
    json.name("cpu").nullable(process.cpu_seconds.map(seconds_to_millis), Json::number);
    json.name("fds").nullable(process.open_fds, Json::number);
    json.name("workers").nullable(process.workers, Json::number);
    json.name("busy").nullable(process.busy_workers, Json::number);
    json.name("gil_wait").nullable(process.gil_wait.map(seconds_to_millis), Json::number);
    json.name("loop_wait").nullable(process.loop_wait.map(seconds_to_millis), Json::number);
    json.name("live").nullable(process.live, Json::boolean);
}

/// Writes sums over all consumer clients and producers.
fn write_traffic(json: &mut Json, metrics: &Metrics) {
    let fetched = |get: fn(&crate::metrics::ClientMetrics) -> Option<u64>| metrics.clients.iter().filter_map(get).sum();
    let written =
        |get: fn(&crate::metrics::ProducerMetrics) -> Option<u64>| metrics.producers.iter().filter_map(get).sum();
    json.name("fetched_bytes").number(fetched(|client| client.fetched_bytes));
    json.name("fetched_records").number(fetched(|client| client.fetched_records));
    json.name("reconnects").number(fetched(|client| client.reconnects));
    json.name("produced_records").number(written(|producer| producer.records));
    json.name("produced_bytes").number(written(|producer| producer.bytes));
    json.name("produce_failures").number(written(|producer| producer.failures));
}

fn write_handler(json: &mut Json, handler: &HandlerMetrics) {
    json.open(b'[').string(&handler.handler);
    let counts = [
        handler.jobs,
        handler.records,
        handler.failures,
        handler.retries,
        handler.dead_letters,
        handler.expired,
        handler.skipped,
        handler.stalls,
        handler.timeouts,
        handler.running,
        handler.oldest_job_seconds.map(seconds_to_millis),
        handler.duration.as_ref().map(|all| seconds_to_millis(all.sum)),
        handler.duration.as_ref().and_then(|all| percentile_99(all).map(seconds_to_millis)),
    ];
    for count in counts {
        json.nullable(count, Json::number);
    }
    json.close(b']');
}

/// Returns the bound of the bucket that holds the 99th percentile; `None`: no observation, or above all bounds.
fn percentile_99(all: &crate::metrics::Histogram) -> Option<f64> {
    let rank = all.count().saturating_sub(all.count() / 100);
    let (bound, _) = all.cumulative().find(|(_, count)| rank > 0 && *count >= rank)?;
    bound.is_finite().then_some(bound)
}

fn write_job(json: &mut Json, job: &RunningJob) {
    json.open(b'[').string(&job.handler);
    json.string(&job.topic);
    json.number(job.partition);
    json.number(millis(job.elapsed));
    json.nullable(job.limit.map(millis), Json::number);
    json.close(b']');
}

/// Writes the lanes that there is room for, the number of the others, and the names.
fn write_lanes(json: &mut Json, mut lanes: Vec<LaneState>, max_bytes: usize) {
    lanes.sort_by_key(|lane| Reverse(urgency(lane)));
    let mut names: HashMap<Arc<str>, usize> = HashMap::new();
    let mut order: Vec<Arc<str>> = Vec::new();
    let (mut name_bytes, mut written) = (0, 0);
    json.name("lanes").open(b'[');
    for lane in &lanes {
        let (checkpoint, known) = (json.checkpoint(), order.len());
        let places = [&lane.group, &lane.topic, &lane.handler].map(|name| {
            *names.entry(Arc::clone(name)).or_insert_with(|| {
                order.push(Arc::clone(name));
                name_bytes += name.len() + 3;
                order.len() - 1
            })
        });
        write_lane(json, lane, places);
        if json.len() + name_bytes > max_bytes.saturating_sub(TRAILER_RESERVE) {
            json.truncate_to(checkpoint);
            order.truncate(known);
            break;
        }
        written += 1;
    }
    json.close(b']');
    json.name("lanes_left_out").number((lanes.len() - written) as u64);
    json.name("names").open(b'[');
    for name in &order {
        json.string(name);
    }
    json.close(b']');
}

/// Returns the order of lanes: those that do not move, those that work, those with most lag.
fn urgency(lane: &LaneState) -> (bool, bool, bool, u64) {
    (
        lane.failure.is_some() || lane.stalled || lane.stall.is_some(),
        lane.attempt > 1,
        lane.running_for.is_some(),
        lane.lag.unwrap_or(u64::MAX),
    )
}

fn write_lane(json: &mut Json, lane: &LaneState, places: [usize; 3]) {
    json.open(b'[');
    for place in places {
        json.number(place as u64);
    }
    json.number(lane.partition);
    json.string(lane.state);
    json.nullable(lane.position, Json::number);
    json.nullable(lane.committable, Json::number);
    json.nullable(lane.high_watermark, Json::number);
    json.nullable(lane.lag, Json::number);
    json.nullable(lane.oldest.map(millis), Json::number);
    json.number(lane.in_flight);
    json.number(lane.queued_bytes);
    json.number(lane.attempt);
    json.nullable(lane.running_for.map(millis), Json::number);
    json.nullable(lane.paused_for.map(millis), Json::number);
    json.nullable(lane.last_progress.map(millis), Json::number);
    json.number(lane.stalled.into());
    json.nullable(lane.failure, Json::string);
    // A lane that moves needs no more: a report has little room.
    if let Some(waits_for) = lane.waits_for.filter(|_| !lane.unmoved_for.is_zero()) {
        json.string(waits_for);
        json.number(millis(lane.unmoved_for));
        json.nullable(lane.stall.as_deref(), Json::text);
    }
    json.close(b']');
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn seconds_to_millis(seconds: f64) -> u64 {
    millis(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}
