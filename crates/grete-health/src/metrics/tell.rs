//! Metrics, family by family, in the catalogue's order.

use super::bounds::{self, MAX_GROUPS, MAX_HANDLERS, MAX_LANES, OTHER};
use super::catalogue::{self as c, Entry};
use super::{Client, Group, Handler, Histogram, Lane, Metrics, Process, Producer};

/// A label's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label<'a> {
    /// As it is.
    Text(&'a str),
    /// In decimal.
    Number(u64),
}

/// A sample's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// Whole.
    Count(u64),
    /// Finite.
    Number(f64),
    /// Of a histogram.
    Histogram(&'a Histogram),
}

/// Is told metrics.
pub trait Sink {
    /// Once for each metric that has samples; they follow.
    fn family(&mut self, entry: &'static Entry);

    /// `labels` are the values of the entry's, in its order. No two samples of a family have the same.
    fn sample(&mut self, labels: &[Label<'_>], value: Value<'_>);
}

impl Metrics {
    /// Tells all that is known, within bounds: 512 partitions, 256 handlers, 64 groups, clients and producers are told apart.
    pub fn tell(self, sink: &mut dyn Sink) {
        process(&self.process, sink);
        handlers(&bounds::listed(self.handlers, MAX_HANDLERS), sink);
        let (apart, others) = bounds::listed_lanes(self.lanes, MAX_LANES);
        lanes(&apart, others.as_ref().map(|(lane, _)| lane), sink);
        let unlisted = others.map_or(0, |(_, count)| count);
        one(sink, c::UNLISTED_LANES, Some(Value::Count(unlisted as u64)));
        if let Some(states) = self.lane_states {
            sink.family(c::LANES);
            for (state, count) in [
                ("idle", states.idle),
                ("ready", states.ready),
                ("running", states.running),
                ("paused", states.paused),
                ("leaving", states.leaving),
            ] {
                sink.sample(&[Label::Text(state)], Value::Count(count));
            }
        }
        groups(&bounds::listed(self.groups, MAX_GROUPS), sink);
        clients(&bounds::listed(self.clients, MAX_GROUPS), sink);
        producers(&bounds::listed(self.producers, MAX_GROUPS), sink);
    }
}

fn process(process: &Process, sink: &mut dyn Sink) {
    sink.family(c::INFO);
    sink.sample(&[Label::Text(env!("CARGO_PKG_VERSION"))], Value::Count(1));
    one(sink, c::LIVE, process.live.map(flag));
    one(sink, c::READY, process.ready.map(flag));
    one(sink, c::WORKERS, process.workers.map(Value::Count));
    one(sink, c::BUSY_WORKERS, process.busy_workers.map(Value::Count));
    one(sink, c::GIL_WAIT, process.gil_wait.map(Value::Number));
    one(sink, c::RESIDENT_MEMORY, process.resident_bytes.map(Value::Count));
    one(sink, c::CPU, process.cpu.map(Value::Number));
    one(sink, c::OPEN_FDS, process.open_fds.map(Value::Count));
    one(sink, c::START_TIME, process.start_time.map(Value::Number));
}

fn handlers(handlers: &[Handler], sink: &mut dyn Sink) {
    let mut each = |entry, value: fn(&Handler) -> Option<Value<'_>>| {
        family(sink, entry, handlers.iter().map(|one| ([Label::Text(&one.handler)], value(one))));
    };
    each(c::JOBS, |one| one.jobs.map(Value::Count));
    each(c::RECORDS, |one| one.records.map(Value::Count));
    each(c::JOB_FAILURES, |one| one.failures.map(Value::Count));
    each(c::RETRIES, |one| one.retries.map(Value::Count));
    each(c::DEAD_LETTERS, |one| one.dead_letters.map(Value::Count));
    each(c::EXPIRED, |one| one.expired.map(Value::Count));
    each(c::SKIPPED, |one| one.skipped.map(Value::Count));
    each(c::STALLS, |one| one.stalls.map(Value::Count));
    each(c::TIMEOUTS, |one| one.timeouts.map(Value::Count));
    each(c::DURATION, |one| one.duration.as_ref().map(Value::Histogram));
    each(c::RUNNING, |one| one.running.map(Value::Count));
    each(c::OLDEST, |one| one.oldest.map(Value::Number));
}

fn lanes(apart: &[Lane], others: Option<&Lane>, sink: &mut dyn Sink) {
    let mut each = |entry, value: fn(&Lane) -> Option<Value<'_>>| {
        let apart = apart.iter().map(|lane| (labels(lane, Label::Number(lane.partition)), value(lane)));
        let others = others.iter().map(|lane| (labels(lane, Label::Text(OTHER)), value(lane)));
        family(sink, entry, apart.chain(others));
    };
    each(c::LAG, |lane| lane.lag.map(Value::Count));
    each(c::LAG_SECONDS, |lane| lane.lag_seconds.map(Value::Number));
    each(c::LAST_PROGRESS, |lane| lane.last_progress.map(Value::Number));
    each(c::QUEUED_BYTES, |lane| lane.queued_bytes.map(Value::Count));
}

fn labels<'a>(lane: &'a Lane, partition: Label<'a>) -> [Label<'a>; 3] {
    [Label::Text(&lane.handler), Label::Text(&lane.topic), partition]
}

fn groups(groups: &[Group], sink: &mut dyn Sink) {
    let mut each = |entry, value: fn(&Group) -> Option<Value<'_>>| {
        family(sink, entry, groups.iter().map(|one| ([Label::Text(&one.group)], value(one))));
    };
    each(c::PARTITIONS, |one| one.partitions.map(Value::Count));
    each(c::GROUP_STEADY, |one| one.steady.map(flag));
    each(c::REBALANCES, |one| one.rebalances.map(Value::Count));
    each(c::LOST_PARTITIONS, |one| one.lost_partitions.map(Value::Count));
    each(c::COMMITS, |one| one.commits.map(Value::Count));
    each(c::COMMIT_FAILURES, |one| one.commit_failures.map(Value::Count));
}

fn clients(clients: &[Client], sink: &mut dyn Sink) {
    let mut each = |entry, value: fn(&Client) -> Option<Value<'_>>| {
        family(sink, entry, clients.iter().map(|one| ([Label::Text(&one.client)], value(one))));
    };
    each(c::FETCHED_BYTES, |one| one.fetched_bytes.map(Value::Count));
    each(c::FETCHED_RECORDS, |one| one.fetched_records.map(Value::Count));
    each(c::BUFFER_BYTES, |one| one.buffer_bytes.map(Value::Count));
    each(c::CONNECTIONS, |one| one.connections.map(Value::Count));
    each(c::RECONNECTS, |one| one.reconnects.map(Value::Count));
}

fn producers(producers: &[Producer], sink: &mut dyn Sink) {
    let mut each = |entry, value: fn(&Producer) -> Option<Value<'_>>| {
        family(sink, entry, producers.iter().map(|one| ([Label::Text(&one.client)], value(one))));
    };
    each(c::PRODUCED_RECORDS, |one| one.records.map(Value::Count));
    each(c::PRODUCED_BYTES, |one| one.bytes.map(Value::Count));
    each(c::PRODUCE_FAILURES, |one| one.failures.map(Value::Count));
    each(c::PRODUCE_RETRIES, |one| one.retries.map(Value::Count));
    each(c::PRODUCER_BUFFER_BYTES, |one| one.buffer_bytes.map(Value::Count));
    each(c::PRODUCER_PENDING, |one| one.pending_records.map(Value::Count));
}

fn flag(flag: bool) -> Value<'static> {
    Value::Count(flag.into())
}

fn one(sink: &mut dyn Sink, entry: &'static Entry, value: Option<Value<'_>>) {
    family(sink, entry, [([], value)].into_iter());
}

/// A family without samples is not told.
fn family<'a, const N: usize>(
    sink: &mut dyn Sink,
    entry: &'static Entry,
    samples: impl Iterator<Item = ([Label<'a>; N], Option<Value<'a>>)>,
) {
    let mut begun = false;
    for (labels, value) in samples {
        let Some(value) = value.filter(is_finite) else { continue };
        if !begun {
            sink.family(entry);
            begun = true;
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
