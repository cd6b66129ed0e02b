//! Visits the metrics family by family, in the order of the descriptors.

use super::cardinality::{self, MAX_GROUPS, MAX_HANDLERS, MAX_LANES, OTHER};
use super::descriptors::{self as c, MetricDescriptor};
use super::{
    ClientMetrics, GroupMetrics, HandlerMetrics, Histogram, LaneMetrics, Metrics, ProcessMetrics, ProducerMetrics,
};

/// Value of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label<'a> {
    /// A text, not escaped.
    Text(&'a str),
    /// A number, written in decimal.
    Number(u64),
}

/// Value of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// An integer.
    Count(u64),
    /// A finite number.
    Number(f64),
    /// A histogram.
    Histogram(&'a Histogram),
}

/// Receives metrics.
pub trait MetricVisitor {
    /// Receives a family that has samples; its samples follow.
    fn family(&mut self, entry: &'static MetricDescriptor);

    /// Receives a sample. `labels` are the values of the descriptor's labels, in its order. No two samples of a family
    /// have the same values.
    fn sample(&mut self, labels: &[Label<'_>], value: Value<'_>);
}

impl Metrics {
    /// Passes all known metrics to `visitor`. At most 512 partitions, 256 handlers, 64 groups, 64 clients and 64
    /// producers have series of their own.
    pub fn visit(self, visitor: &mut dyn MetricVisitor) {
        process(&self.process, visitor);
        handlers(&cardinality::limit_by_name(self.handlers, MAX_HANDLERS), visitor);
        let (listed, others) = cardinality::limit_lanes(self.lanes, MAX_LANES);
        lanes(&listed, others.as_ref().map(|(lane, _)| lane), visitor);
        let aggregated = others.map_or(0, |(_, count)| count);
        visit_single(visitor, c::AGGREGATED_LANES, Some(Value::Count(aggregated as u64)));
        if let Some(states) = self.lane_states {
            visitor.family(c::LANES);
            for (state, count) in [
                ("idle", states.idle),
                ("ready", states.ready),
                ("running", states.running),
                ("paused", states.paused),
                ("failed", states.failed),
                ("leaving", states.leaving),
            ] {
                visitor.sample(&[Label::Text(state)], Value::Count(count));
            }
        }
        let stalled = self.stalled_lanes.iter();
        let stalled = stalled.map(|(reason, count)| ([Label::Text(reason)], Some(Value::Count(*count))));
        visit_family(visitor, c::STALLED_LANES, stalled);
        groups(&cardinality::limit_by_name(self.groups, MAX_GROUPS), visitor);
        clients(&cardinality::limit_by_name(self.clients, MAX_GROUPS), visitor);
        producers(&cardinality::limit_by_name(self.producers, MAX_GROUPS), visitor);
    }
}

fn process(process: &ProcessMetrics, sink: &mut dyn MetricVisitor) {
    sink.family(c::INFO);
    sink.sample(&[Label::Text(env!("CARGO_PKG_VERSION"))], Value::Count(1));
    visit_single(sink, c::LIVE, process.live.map(bool_value));
    visit_single(sink, c::READY, process.ready.map(bool_value));
    visit_single(sink, c::WORKERS, process.workers.map(Value::Count));
    visit_single(sink, c::BUSY_WORKERS, process.busy_workers.map(Value::Count));
    visit_single(sink, c::GIL_WAIT, process.gil_wait.map(Value::Number));
    visit_single(sink, c::LOOP_WAIT, process.loop_wait.map(Value::Number));
    visit_single(sink, c::LOOP_BLOCKED, process.loop_blocked.map(Value::Count));
    visit_single(sink, c::RESIDENT_MEMORY, process.resident_bytes.map(Value::Count));
    visit_single(sink, c::CPU, process.cpu_seconds.map(Value::Number));
    visit_single(sink, c::OPEN_FDS, process.open_fds.map(Value::Count));
    visit_single(sink, c::START_TIME, process.start_time.map(Value::Number));
}

fn handlers(handlers: &[HandlerMetrics], sink: &mut dyn MetricVisitor) {
    let mut each = |entry, value: fn(&HandlerMetrics) -> Option<Value<'_>>| {
        visit_family(sink, entry, handlers.iter().map(|one| ([Label::Text(&one.handler)], value(one))));
    };
    each(c::JOBS, |one| one.jobs.map(Value::Count));
    each(c::RECORDS, |one| one.records.map(Value::Count));
    each(c::JOB_FAILURES, |one| one.failures.map(Value::Count));
    each(c::RETRIES, |one| one.retries.map(Value::Count));
    each(c::DEAD_LETTERS, |one| one.dead_letters.map(Value::Count));
    each(c::EXPIRED, |one| one.expired.map(Value::Count));
    each(c::DUPLICATES, |one| one.duplicates.map(Value::Count));
    each(c::FORGOTTEN_IDS, |one| one.forgotten_ids.map(Value::Count));
    each(c::SKIPPED, |one| one.skipped.map(Value::Count));
    each(c::STALLS, |one| one.stalls.map(Value::Count));
    each(c::TIMEOUTS, |one| one.timeouts.map(Value::Count));
    each(c::DURATION, |one| one.duration.as_ref().map(Value::Histogram));
    each(c::RUNNING, |one| one.running.map(Value::Count));
    each(c::OLDEST_JOB, |one| one.oldest_job_seconds.map(Value::Number));
}

fn lanes(apart: &[LaneMetrics], others: Option<&LaneMetrics>, sink: &mut dyn MetricVisitor) {
    let mut each = |entry, value: fn(&LaneMetrics) -> Option<Value<'_>>| {
        let apart = apart.iter().map(|lane| (labels(lane, Label::Number(lane.partition)), value(lane)));
        let others = others.iter().map(|lane| (labels(lane, Label::Text(OTHER)), value(lane)));
        visit_family(sink, entry, apart.chain(others));
    };
    each(c::LAG, |lane| lane.lag.map(Value::Count));
    each(c::LAG_SECONDS, |lane| lane.lag_seconds.map(Value::Number));
    each(c::LAST_PROGRESS, |lane| lane.last_progress.map(Value::Number));
    each(c::QUEUED_BYTES, |lane| lane.queued_bytes.map(Value::Count));
    each(c::PARTITION_FAILED, |lane| lane.failed.map(Value::Count));
}

fn labels<'a>(lane: &'a LaneMetrics, partition: Label<'a>) -> [Label<'a>; 3] {
    [Label::Text(&lane.handler), Label::Text(&lane.topic), partition]
}

fn groups(groups: &[GroupMetrics], sink: &mut dyn MetricVisitor) {
    let mut each = |entry, value: fn(&GroupMetrics) -> Option<Value<'_>>| {
        visit_family(sink, entry, groups.iter().map(|one| ([Label::Text(&one.group)], value(one))));
    };
    each(c::PARTITIONS, |one| one.partitions.map(Value::Count));
    each(c::GROUP_READY, |one| one.ready.map(bool_value));
    each(c::REBALANCES, |one| one.rebalances.map(Value::Count));
    each(c::LOST_PARTITIONS, |one| one.lost_partitions.map(Value::Count));
    each(c::COMMITS, |one| one.commits.map(Value::Count));
    each(c::COMMIT_FAILURES, |one| one.commit_failures.map(Value::Count));
    each(c::TRANSACTIONS, |one| one.transactions.map(Value::Count));
    each(c::ABORTED_TRANSACTIONS, |one| one.aborted_transactions.map(Value::Count));
}

fn clients(clients: &[ClientMetrics], sink: &mut dyn MetricVisitor) {
    let mut each = |entry, value: fn(&ClientMetrics) -> Option<Value<'_>>| {
        visit_family(sink, entry, clients.iter().map(|one| ([Label::Text(&one.client)], value(one))));
    };
    each(c::FETCHED_BYTES, |one| one.fetched_bytes.map(Value::Count));
    each(c::FETCHED_RECORDS, |one| one.fetched_records.map(Value::Count));
    each(c::BUFFER_BYTES, |one| one.buffer_bytes.map(Value::Count));
    each(c::CONNECTIONS, |one| one.connections.map(Value::Count));
    each(c::RECONNECTS, |one| one.reconnects.map(Value::Count));
}

fn producers(producers: &[ProducerMetrics], sink: &mut dyn MetricVisitor) {
    let mut each = |entry, value: fn(&ProducerMetrics) -> Option<Value<'_>>| {
        visit_family(sink, entry, producers.iter().map(|one| ([Label::Text(&one.client)], value(one))));
    };
    each(c::PRODUCED_RECORDS, |one| one.records.map(Value::Count));
    each(c::PRODUCED_BYTES, |one| one.bytes.map(Value::Count));
    each(c::PRODUCE_FAILURES, |one| one.failures.map(Value::Count));
    each(c::PRODUCE_RETRIES, |one| one.retries.map(Value::Count));
    each(c::PRODUCER_BUFFER_BYTES, |one| one.buffer_bytes.map(Value::Count));
    each(c::PRODUCER_PENDING, |one| one.pending_records.map(Value::Count));
}

fn bool_value(flag: bool) -> Value<'static> {
    Value::Count(flag.into())
}

fn visit_single(sink: &mut dyn MetricVisitor, entry: &'static MetricDescriptor, value: Option<Value<'_>>) {
    visit_family(sink, entry, [([], value)].into_iter());
}

/// Visits a family, unless it has no samples.
fn visit_family<'a, const N: usize>(
    sink: &mut dyn MetricVisitor,
    entry: &'static MetricDescriptor,
    samples: impl Iterator<Item = ([Label<'a>; N], Option<Value<'a>>)>,
) {
    let mut started = false;
    for (labels, value) in samples {
        let Some(value) = value.filter(is_finite) else { continue };
        if !started {
            sink.family(entry);
            started = true;
        }
        sink.sample(&labels, value);
    }
}

fn is_finite(value: &Value<'_>) -> bool {
    match value {
        Value::Count(_) => true,
        Value::Number(number) => number.is_finite(),
        Value::Histogram(histogram) => histogram.sum.is_finite(),
    }
}
