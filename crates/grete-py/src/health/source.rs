//! Health source of an App's process.
//!
//! A thread that must go on while another thread holds the GIL for good reads this source. So no lock that it takes may
//! be held by a thread that waits for the GIL:
//!
//! - The dispatcher's lock lives inside `grete-client`, which knows no Python and calls none of our callbacks while it
//!   holds the lock. Each dispatcher call has released the lock when it returns. So the lock is free before the caller
//!   attaches again, or the caller is attached all the time. The same is true of the locks of lanes' marks, which nest
//!   inside.
//! - The network thread holds the locks of a membership and of a client's or producer's statistics for a copy.
//! - A producer's accumulator is locked while records are appended, by a thread that holds the GIL and keeps it, or by
//!   a thread that knows no GIL.
//! - The lists below are locked for an addition, or for a copy.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use grete_client::{
    Consumer, Dispatcher, DurationHistogram, EventLoopStatus, LaneReport, LaneWait, Pool, Producer, RouteStats,
    TransactionReport, WaitReport,
};
use grete_health::{
    EventLoop, FailedPartition, GroupStatus, HealthSource, LaneCounts, LaneState, Metrics, MissingTopic, Report,
    RunningJob, UnmovedLane, metrics,
};

/// Duration of a commit from which on the probes name it. A commit takes milliseconds.
const TRANSACTION_STALL: Duration = Duration::from_secs(10);

/// Health source over the dispatcher, the clients and the producers of one App's process.
pub(super) struct ProcessSource {
    dispatcher: Dispatcher,
    clients: Mutex<Vec<Consumer>>,
    producers: Mutex<Vec<Producer>>,
    missing: Mutex<Vec<MissingTopic>>,
}

impl ProcessSource {
    pub(super) fn new(dispatcher: Dispatcher) -> Self {
        Self { dispatcher, clients: Mutex::default(), producers: Mutex::default(), missing: Mutex::default() }
    }

    pub(super) fn add(&self, client: Consumer) {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).push(client);
    }

    pub(super) fn add_producer(&self, producer: Producer) {
        self.producers.lock().unwrap_or_else(PoisonError::into_inner).push(producer);
    }

    pub(super) fn set_missing(&self, missing: Vec<MissingTopic>) {
        *self.missing.lock().unwrap_or_else(PoisonError::into_inner) = missing;
    }

    fn clients(&self) -> Vec<Consumer> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn producers(&self) -> Vec<Producer> {
        self.producers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl HealthSource for ProcessSource {
    fn read(&self, report: &mut Report) {
        report.groups = self.clients().iter().map(group_status).collect();
        let vitals = self.dispatcher.snapshot();
        // Workers start last in an App, so all clients exist by then. A process without clients has nothing to wait
        // for.
        report.ready = vitals.workers.is_some() && report.groups.iter().all(|group| group.ready);
        report.has_waiting_work = vitals.has_unclaimed_work;
        report.quiet = vitals.quiet;
        report.stopping = vitals.stopping;
        report.rss = grete_sys::process_stats::rss();
        for lane in &vitals.lanes {
            count_lane_state(&mut report.lanes, lane.state);
        }
        report.lag = vitals.lanes.iter().filter_map(|lane| lane.lag).reduce(i64::saturating_add).map(to_u64_or_zero);
        report.failed = vitals.lanes.iter().filter_map(failed_partition).collect();
        report.stalled = vitals.lanes.iter().filter(|lane| lane.stalled).map(fmt_partition).collect();
        report.unmoved = vitals.lanes.iter().filter_map(unmoved_lane).collect();
        report.missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let counts = vitals.counts();
        report.running = vitals
            .running
            .into_iter()
            .filter(|job| job.started && job.undelivered.is_none())
            .map(running_job)
            .collect();
        report.event_loop = vitals.event_loop.map(event_loop);
        report.jobs = counts.jobs;
        report.records = counts.records;
        report.failures = counts.failures;
        report.dead_letters = counts.dead_letters;
        report.workers = vitals.workers.map_or(0, u64::from);
    }

    fn tick(&self) {
        self.dispatcher.probe_event_loop();
    }

    fn lanes(&self) -> Vec<LaneState> {
        let clients: Vec<(Consumer, Arc<str>)> =
            self.clients().into_iter().map(|client| (client.clone(), client.membership().group.into())).collect();
        let nameless: Arc<str> = "".into();
        let group_of = |lane: &LaneReport| {
            clients.iter().find(|(client, _)| client.owns_lane(lane)).map_or(&nameless, |(_, group)| group)
        };
        self.dispatcher.snapshot().lanes.iter().map(|lane| lane_state(lane, Arc::clone(group_of(lane)))).collect()
    }

    fn metrics(&self, metrics: &mut Metrics) {
        let vitals = self.dispatcher.snapshot();
        let clients = self.clients();
        metrics.groups = clients.iter().map(group_metrics).collect();
        metrics.clients = clients.iter().map(|client| client_metrics(client, &vitals.lanes)).collect();
        metrics.producers = self.producers().iter().map(producer_metrics).collect();
        metrics.process.busy_workers = Some(busy_workers(&vitals.running));
        metrics.handlers = all_handler_metrics(vitals.route_stats, &vitals.running);
        let mut states = LaneCounts::default();
        for lane in &vitals.lanes {
            count_lane_state(&mut states, lane.state);
        }
        metrics.lane_states = Some(states);
        metrics.stalled_lanes = stalled_lanes(&vitals.lanes);
        if let Some(it) = vitals.event_loop {
            metrics.process.loop_wait = Some(it.loop_lag.max(it.last_loop_lag));
            metrics.process.loop_blocked = Some(it.blocked_count);
        }
        metrics.lanes = vitals.lanes.into_iter().map(lane_metrics).collect();
        metrics.process.workers = vitals.workers.map(u64::from);
    }
}

/// Returns one entry per route, whether or not the route has lanes here.
fn all_handler_metrics(tallies: Vec<RouteStats>, running: &[grete_client::RunningJob]) -> Vec<metrics::HandlerMetrics> {
    let mut handlers: Vec<metrics::HandlerMetrics> = tallies.into_iter().map(handler_metrics).collect();
    for job in running.iter().filter(|job| job.started) {
        if let Some(handler) = handlers.iter_mut().find(|handler| handler.handler == job.handler) {
            handler.running = handler.running.map(|jobs| jobs + 1);
            handler.oldest_job_seconds = handler.oldest_job_seconds.map(|oldest| oldest.max(job.seconds));
        }
    }
    handlers
}

fn handler_metrics(tally: RouteStats) -> metrics::HandlerMetrics {
    let DurationHistogram { counts, sum } = tally.durations;
    metrics::HandlerMetrics {
        handler: tally.handler,
        jobs: Some(tally.jobs),
        records: Some(tally.records),
        failures: Some(tally.failures),
        retries: Some(tally.retries),
        dead_letters: Some(tally.dead_letters),
        expired: Some(tally.expired),
        duplicates: Some(tally.duplicates),
        forgotten_ids: Some(tally.forgotten_ids),
        skipped: Some(tally.skipped),
        stalls: Some(tally.stalls),
        timeouts: Some(tally.timeouts),
        duration: Some(metrics::Histogram {
            bounds: &DurationHistogram::BUCKET_BOUNDS_SECONDS,
            counts: counts.into(),
            sum: Duration::from_nanos(sum).as_secs_f64(),
        }),
        running: Some(0),
        oldest_job_seconds: Some(0.0),
    }
}

fn lane_state(lane: &LaneReport, group: Arc<str>) -> LaneState {
    let offset = |offset: Option<i64>| offset.and_then(|offset| u64::try_from(offset).ok());
    LaneState {
        group,
        topic: Arc::clone(&lane.topic),
        handler: Arc::clone(&lane.handler),
        partition: to_u64_or_zero(lane.partition),
        state: lane.state,
        position: offset(lane.position),
        committable: offset(lane.committable),
        high_watermark: offset(lane.high_watermark),
        lag: offset(lane.lag),
        oldest: lane.lag_seconds.map(duration),
        in_flight: to_u64_or_zero(lane.in_flight),
        queued_bytes: to_u64_or_zero(lane.queued_bytes),
        attempt: lane.attempt.into(),
        running_for: lane.running_for.map(duration),
        paused_for: lane.paused_for.map(duration),
        last_progress: lane.last_progress.map(duration),
        stalled: lane.stalled,
        failure: lane.failure.as_ref().map(|failure| failure.reason),
        waits_for: lane.wait.as_ref().map(WaitReport::name),
        unmoved_for: duration(lane.unmoved_for),
        stall: lane.wait.as_ref().filter(|_| lane.is_unmoved).map(WaitReport::text),
    }
}

fn unmoved_lane(lane: &LaneReport) -> Option<UnmovedLane> {
    let wait = lane.wait.as_ref().filter(|_| lane.is_unmoved)?;
    Some(UnmovedLane {
        handler: Arc::clone(&lane.handler),
        topic: Arc::clone(&lane.topic),
        partition: to_u64_or_zero(lane.partition),
        waits_for: wait.name(),
        text: wait.text(),
        unmoved_for: duration(lane.unmoved_for),
        lag: lane.lag.map(to_u64_or_zero),
    })
}

/// Returns the number of lanes that do not move, for each reason.
fn stalled_lanes(lanes: &[LaneReport]) -> Vec<(&'static str, u64)> {
    let reasons: Vec<&str> =
        lanes.iter().filter(|lane| lane.is_unmoved).filter_map(|lane| Some(lane.wait.as_ref()?.name())).collect();
    let count = |name: &str| to_u64_or_zero(reasons.iter().filter(|reason| **reason == name).count());
    LaneWait::NAMES.into_iter().map(|name| (name, count(name))).collect()
}

fn lane_metrics(lane: LaneReport) -> metrics::LaneMetrics {
    metrics::LaneMetrics {
        lag: lane.lag.map(to_u64_or_zero),
        lag_seconds: lane.lag_seconds,
        last_progress: lane.last_progress,
        handler: lane.handler,
        topic: lane.topic,
        partition: to_u64_or_zero(lane.partition),
        queued_bytes: Some(to_u64_or_zero(lane.queued_bytes)),
        failed: Some(lane.failure.is_some().into()),
    }
}

fn group_metrics(client: &Consumer) -> metrics::GroupMetrics {
    let (membership, counted) = (client.membership(), client.net_stats().group);
    let transactions = client.transactions();
    metrics::GroupMetrics {
        group: membership.group.into(),
        partitions: Some(to_u64_or_zero(membership.partitions)),
        ready: Some(membership.ready),
        rebalances: counted.map(|group| group.rebalances),
        lost_partitions: counted.map(|group| group.lost_partitions),
        commits: counted.map(|group| group.commits),
        commit_failures: counted.map(|group| group.commit_failures),
        transactions: transactions.as_ref().map(|report| report.committed),
        aborted_transactions: transactions.as_ref().map(|report| report.aborted),
    }
}

fn client_metrics(client: &Consumer, lanes: &[LaneReport]) -> metrics::ClientMetrics {
    let figures = client.net_stats();
    let buffered =
        lanes.iter().filter(|lane| client.owns_lane(lane)).map(|lane| to_u64_or_zero(lane.queued_bytes)).sum();
    metrics::ClientMetrics {
        client: client.client_id().into(),
        fetched_bytes: Some(figures.fetched_bytes),
        fetched_records: Some(figures.fetched_records),
        buffer_bytes: Some(buffered),
        connections: Some(to_u64_or_zero(figures.connections)),
        reconnects: Some(figures.reconnects),
    }
}

fn producer_metrics(producer: &Producer) -> metrics::ProducerMetrics {
    let statistics = producer.statistics();
    let produce = statistics.produce;
    metrics::ProducerMetrics {
        client: producer.client_id().into(),
        records: Some(produce.written),
        bytes: Some(produce.bytes),
        failures: Some(produce.not_written + produce.unknown),
        retries: Some(produce.retries),
        buffer_bytes: Some(to_u64_or_zero(statistics.buffered_bytes)),
        pending_records: Some(statistics.pending_records),
    }
}

/// Returns the number of busy worker threads. Each thread has one job at most; jobs of an event loop run on no worker,
/// and nor do jobs that wait for the delivery of their outputs.
fn busy_workers(running: &[grete_client::RunningJob]) -> u64 {
    to_u64_or_zero(running.iter().filter(|job| job.pool == Pool::Threads && job.undelivered.is_none()).count())
}

fn group_status(client: &Consumer) -> GroupStatus {
    let (membership, figures) = (client.membership(), client.net_stats());
    GroupStatus {
        group: membership.group,
        state: membership.state,
        state_age: membership.since.elapsed(),
        ready: membership.ready,
        generation: u64::try_from(membership.generation).ok(),
        partitions: membership.partitions as u64,
        group_instance_id: membership.instance,
        connections: Some(to_u64_or_zero(figures.connections)),
        login_failure: client.login_failure(),
        authorization_failure: client.authorization_failure(),
        transaction_stall: client.transactions().and_then(transaction_stall),
    }
}

/// Describes a transaction whose commit has not succeeded for long; `None`: commits go on.
fn transaction_stall(report: TransactionReport) -> Option<Arc<str>> {
    let cause = report.last_error.as_deref().map_or_else(String::new, |error| format!(": {error}"));
    let id = &report.transactional_id;
    if report.state == "failed" {
        return Some(format!("the transactions of {id} have failed{cause}").into());
    }
    let since = report.committing_since?.elapsed();
    let seconds = since.as_secs_f64();
    let text = || format!("the commit of a transaction of {id} has not succeeded for {seconds:.1} s{cause}");
    (since > TRANSACTION_STALL).then(|| text().into())
}

fn count_lane_state(lanes: &mut LaneCounts, state: &str) {
    match state {
        "idle" => lanes.idle += 1,
        "ready" => lanes.ready += 1,
        "running" => lanes.running += 1,
        "paused" => lanes.paused += 1,
        "failed" => lanes.failed += 1,
        _ => lanes.leaving += 1,
    }
}

fn running_job(job: grete_client::RunningJob) -> RunningJob {
    RunningJob {
        handler: job.handler,
        topic: job.topic,
        partition: to_u64_or_zero(job.partition),
        elapsed: duration(job.seconds),
        limit: job.limit.map(duration),
    }
}

fn event_loop(it: EventLoopStatus) -> EventLoop {
    let blocker = it.blocking_job.map(|blocker| (blocker.handler, blocker.topic, to_u64_or_zero(blocker.partition)));
    EventLoop { wait: duration(it.loop_lag), limit: it.handler_timeout.map(duration), blocker }
}

fn failed_partition(lane: &LaneReport) -> Option<FailedPartition> {
    let failure = lane.failure.as_ref()?;
    Some(FailedPartition {
        handler: Arc::clone(&lane.handler),
        topic: Arc::clone(&lane.topic),
        partition: to_u64_or_zero(lane.partition),
        reason: failure.reason,
        error: Arc::clone(&failure.error),
        failed_for: duration(failure.seconds),
    })
}

fn fmt_partition(lane: &LaneReport) -> String {
    format!("{}[{}]", lane.topic, lane.partition)
}

fn to_u64_or_zero(number: impl TryInto<u64>) -> u64 {
    number.try_into().unwrap_or_default()
}

fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}
