//! What health reports say of an App's process.
//!
//! It is asked by a thread that must go on while some other thread holds the GIL for good. So no lock that it takes may be held
//! by a thread that waits for the GIL:
//!
//! - the dispatcher's: inside `grete-client`, which knows no Python and takes no callback of ours while it holds the lock; each
//!   of its calls has given it back when it returns, that is, before the caller attaches again or while the caller is attached
//!   all the time. Under it lie the locks of lanes' marks, of which the same is true;
//! - a membership's, and that of a client's or producer's figures: held by the network thread for a copy;
//! - a producer's accumulator: held while records are appended, by a thread that has the GIL and goes on having it, or by one that
//!   knows none;
//! - the lists' below: held for an addition, or for a copy.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use grete_client::{Consumer, Dispatcher, Durations, LaneReport, Pool, Producer, Tally};
use grete_health::{Group, LaneCounts, Metrics, Report, RunningJob, Source, metrics};

/// The dispatcher, the clients and the producers of one App's process.
pub(super) struct ProcessSource {
    dispatcher: Dispatcher,
    clients: Mutex<Vec<Consumer>>,
    producers: Mutex<Vec<Producer>>,
}

impl ProcessSource {
    pub(super) fn new(dispatcher: Dispatcher) -> Self {
        Self { dispatcher, clients: Mutex::default(), producers: Mutex::default() }
    }

    pub(super) fn add(&self, client: Consumer) {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).push(client);
    }

    pub(super) fn add_producer(&self, producer: Producer) {
        self.producers.lock().unwrap_or_else(PoisonError::into_inner).push(producer);
    }

    fn clients(&self) -> Vec<Consumer> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn producers(&self) -> Vec<Producer> {
        self.producers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Source for ProcessSource {
    fn read(&self, report: &mut Report) {
        report.groups = self.clients().iter().map(group).collect();
        let vitals = self.dispatcher.vitals();
        // Workers come last when an App starts, so all clients are there by then; without one there is nothing to wait for.
        report.steady = vitals.workers.is_some() && report.groups.iter().all(|group| group.steady);
        report.work_waits = vitals.work_waits;
        report.quiet = vitals.quiet;
        report.stopping = vitals.stopping;
        report.rss = grete_health::memory::rss();
        for lane in &vitals.lanes {
            count(&mut report.lanes, lane.state);
        }
        report.lag = vitals.lanes.iter().filter_map(|lane| lane.lag).reduce(i64::saturating_add).map(natural);
        report.stalled = vitals.lanes.iter().filter(|lane| lane.stalled).map(place).collect();
        let counts = vitals.counts();
        report.running = vitals.running.into_iter().map(job).collect();
        report.jobs = counts.jobs;
        report.records = counts.records;
        report.failures = counts.failures;
        report.dead_letters = counts.dead_letters;
        report.workers = vitals.workers.map_or(0, u64::from);
    }

    fn metrics(&self, metrics: &mut Metrics) {
        let vitals = self.dispatcher.vitals();
        let clients = self.clients();
        metrics.groups = clients.iter().map(group_metrics).collect();
        metrics.clients = clients.iter().map(|client| client_metrics(client, &vitals.lanes)).collect();
        metrics.producers = self.producers().iter().map(producer_metrics).collect();
        metrics.process.busy_workers = Some(busy_workers(&vitals.running));
        metrics.handlers = handlers(vitals.tallies, &vitals.running);
        let mut states = LaneCounts::default();
        for lane in &vitals.lanes {
            count(&mut states, lane.state);
        }
        metrics.lane_states = Some(states);
        metrics.lanes = vitals.lanes.into_iter().map(lane_metrics).collect();
        metrics.process.workers = vitals.workers.map(u64::from);
    }
}

/// One for each route, whether or not it has lanes here.
fn handlers(tallies: Vec<Tally>, running: &[grete_client::RunningJob]) -> Vec<metrics::Handler> {
    let mut handlers: Vec<metrics::Handler> = tallies.into_iter().map(handler).collect();
    for job in running {
        if let Some(handler) = handlers.iter_mut().find(|handler| handler.handler == job.handler) {
            handler.running = handler.running.map(|jobs| jobs + 1);
            handler.oldest = handler.oldest.map(|oldest| oldest.max(job.seconds));
        }
    }
    handlers
}

fn handler(tally: Tally) -> metrics::Handler {
    let Durations { counts, sum } = tally.durations;
    metrics::Handler {
        handler: tally.handler,
        jobs: Some(tally.jobs),
        records: Some(tally.records),
        failures: Some(tally.failures),
        retries: Some(tally.retries),
        dead_letters: Some(tally.dead_letters),
        expired: Some(tally.expired),
        skipped: Some(tally.skipped),
        stalls: Some(tally.stalls),
        timeouts: Some(tally.timeouts),
        duration: Some(metrics::Histogram {
            bounds: &Durations::BOUNDS,
            counts: counts.into(),
            sum: Duration::from_nanos(sum).as_secs_f64(),
        }),
        running: Some(0),
        oldest: Some(0.0),
    }
}

fn lane_metrics(lane: LaneReport) -> metrics::Lane {
    metrics::Lane {
        lag: lane.lag.map(natural),
        lag_seconds: lane.lag_seconds,
        last_progress: lane.last_progress,
        handler: lane.handler,
        topic: lane.topic,
        partition: natural(lane.partition),
        queued_bytes: Some(natural(lane.queued_bytes)),
    }
}

fn group_metrics(client: &Consumer) -> metrics::Group {
    let (membership, counted) = (client.membership(), client.figures().group);
    metrics::Group {
        group: membership.group.into(),
        partitions: Some(natural(membership.partitions)),
        steady: Some(membership.steady),
        rebalances: counted.map(|group| group.rebalances),
        lost_partitions: counted.map(|group| group.lost_partitions),
        commits: counted.map(|group| group.commits),
        commit_failures: counted.map(|group| group.commit_failures),
    }
}

fn client_metrics(client: &Consumer, lanes: &[LaneReport]) -> metrics::Client {
    let figures = client.figures();
    let buffered = lanes.iter().filter(|lane| client.has(lane)).map(|lane| natural(lane.queued_bytes)).sum();
    metrics::Client {
        client: client.name().into(),
        fetched_bytes: Some(figures.fetched_bytes),
        fetched_records: Some(figures.fetched_records),
        buffer_bytes: Some(buffered),
        connections: Some(natural(figures.connections)),
        reconnects: Some(figures.reconnects),
    }
}

fn producer_metrics(producer: &Producer) -> metrics::Producer {
    let statistics = producer.statistics();
    let produce = statistics.produce;
    metrics::Producer {
        client: producer.name().into(),
        records: Some(produce.written),
        bytes: Some(produce.bytes),
        failures: Some(produce.not_written + produce.unknown),
        retries: Some(produce.retries),
        buffer_bytes: Some(natural(statistics.buffered_bytes)),
        pending_records: Some(statistics.pending_records),
    }
}

/// Each thread has one job at most; those of an event loop are none of theirs.
fn busy_workers(running: &[grete_client::RunningJob]) -> u64 {
    natural(running.iter().filter(|job| job.pool == Pool::Threads).count())
}

fn group(client: &Consumer) -> Group {
    let (membership, figures) = (client.membership(), client.figures());
    Group {
        group: membership.group,
        state: membership.state,
        since: membership.since.elapsed(),
        steady: membership.steady,
        generation: u64::try_from(membership.generation).ok(),
        partitions: membership.partitions as u64,
        instance: membership.instance,
        connections: Some(natural(figures.connections)),
    }
}

fn count(lanes: &mut LaneCounts, state: &str) {
    match state {
        "idle" => lanes.idle += 1,
        "ready" => lanes.ready += 1,
        "running" => lanes.running += 1,
        "paused" => lanes.paused += 1,
        _ => lanes.leaving += 1,
    }
}

fn job(job: grete_client::RunningJob) -> RunningJob {
    RunningJob {
        handler: job.handler,
        topic: job.topic,
        partition: natural(job.partition),
        elapsed: duration(job.seconds),
        limit: job.limit.map(duration),
    }
}

fn place(lane: &LaneReport) -> String {
    format!("{}[{}]", lane.topic, lane.partition)
}

fn natural(number: impl TryInto<u64>) -> u64 {
    number.try_into().unwrap_or_default()
}

fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}
