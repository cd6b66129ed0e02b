//! Collects a process's health: application state from its [`HealthSource`], OS statistics, and the GIL probe.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use grete_sys::process_stats;

use crate::checks::{self, HealthSnapshot, Limits};
use crate::gil_probe::GilProbeHandle;
use crate::metrics::Metrics;
use crate::report::{LaneState, Report};

/// Application state for health reports. Threads of this crate call it, also while the interpreter hangs. So an
/// implementation must not take a lock that a thread holds while it waits for the GIL.
pub trait HealthSource: Send + Sync {
    /// Fills in the state; the report is empty before.
    fn read(&self, report: &mut Report);

    /// Runs once a second, before a collection: the place to request data that must be asked for.
    fn tick(&self) {}

    /// Returns the state of each lane.
    fn lanes(&self) -> Vec<LaneState> {
        Vec::new()
    }

    /// Fills in the metrics; all are unknown before.
    fn metrics(&self, metrics: &mut Metrics);
}

/// Collector of everything that this process reports about itself. It must be created after the last fork.
pub struct HealthCollector {
    app: String,
    limits: Limits,
    source: Arc<dyn HealthSource>,
    gil_probe: OnceLock<GilProbeHandle>,
    created_at: Instant,
    start_time: Option<f64>,
    /// Locked for a read or an update, for nothing else.
    history: Mutex<History>,
}

/// State kept between two collections.
#[derive(Default)]
struct History {
    /// Time at which each group stopped being ready.
    not_ready_since: HashMap<String, Instant>,
    /// Number of ended jobs, and the time since which work has waited without a running job; `None`: no work waits.
    idle: Option<(u64, Instant)>,
    /// Time before this point does not count.
    ignore_before: Option<Instant>,
}

impl HealthCollector {
    /// Creates a collector without a GIL probe. `app`: the App's name.
    pub fn new(app: String, limits: Limits, source: Arc<dyn HealthSource>) -> Self {
        Self {
            app,
            limits,
            source,
            gil_probe: OnceLock::new(),
            created_at: Instant::now(),
            start_time: process_stats::start_time(),
            history: Mutex::default(),
        }
    }

    /// Sets the GIL probe. Only the first call has an effect.
    pub fn set_gil_probe(&self, gil_probe: GilProbeHandle) {
        let _ = self.gil_probe.set(gil_probe);
    }

    /// Returns the App's name.
    pub fn app(&self) -> &str {
        &self.app
    }

    /// Returns the limits that the checks apply.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns all current metrics.
    pub fn metrics(&self) -> Metrics {
        self.metrics_at(Instant::now())
    }

    pub(crate) fn metrics_at(&self, now: Instant) -> Metrics {
        let mut metrics = Metrics::default();
        self.source.metrics(&mut metrics);
        let snapshot = self.snapshot(now);
        let process = &mut metrics.process;
        process.resident_bytes = process_stats::rss();
        process.cpu_seconds = grete_sys::clock::cpu_time().map(|time| time.as_secs_f64());
        process.open_fds = process_stats::open_fds();
        process.start_time = self.start_time;
        process.gil_wait = self.gil_probe.get().map(|probe| probe.max_wait(now).as_secs_f64());
        process.live = Some(checks::check_liveness(&snapshot, &self.limits).ok);
        process.ready = Some(checks::check_readiness(&snapshot, &self.limits).ok);
        metrics
    }

    /// Returns the state of each lane.
    pub(crate) fn lanes(&self) -> Vec<LaneState> {
        self.source.lanes()
    }

    /// Returns the input of the checks.
    pub(crate) fn snapshot(&self, now: Instant) -> HealthSnapshot {
        let mut report = Report::default();
        self.source.read(&mut report);
        // A wait that has ended is not a problem any more. Metrics include it as well.
        let gil_wait = self.gil_probe.get().map(|probe| probe.current_wait(now));
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let not_ready = history.not_ready_durations(&report, now);
        let idle = history.idle_duration(&report, now);
        let awake = history.ignore_before.map(|point| now.saturating_duration_since(point));
        drop(history);
        let loop_wait = report.event_loop.as_ref().map(|it| awake.map_or(it.wait, |awake| it.wait.min(awake)));
        HealthSnapshot { report, gil_wait, loop_wait, not_ready, idle }
    }

    /// Runs once a second, also without requests: samples the GIL wait, and updates readiness and progress.
    pub(crate) fn tick(&self, beat: Instant, slept: bool, now: Instant) {
        if slept {
            // The whole process was stopped or had no CPU: time that passed meanwhile is held against no job or group.
            self.history.lock().unwrap_or_else(PoisonError::into_inner).ignore_before = Some(beat);
        }
        if let Some(probe) = self.gil_probe.get() {
            if slept {
                probe.discount(beat);
            }
            probe.sample(beat);
        }
        self.source.tick();
        self.snapshot(now);
    }

    /// Returns the age of the collector.
    pub(crate) fn uptime(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.created_at)
    }
}

impl History {
    /// Returns for each group how long it has not been ready. A member that changes from one state to the next is not
    /// ready all the while, so the age of its state does not say that.
    fn not_ready_durations(&mut self, report: &Report, now: Instant) -> Vec<Duration> {
        let mut since = HashMap::new();
        let mut all = Vec::with_capacity(report.groups.len());
        for group in &report.groups {
            if group.ready {
                all.push(Duration::ZERO);
                continue;
            }
            // At least the age of the state: no collection may have run before.
            let age = now.checked_sub(group.state_age).unwrap_or(now);
            let begin = self.not_ready_since.get(&group.group).map_or(age, |before| age.min(*before));
            let begin = self.ignore_before.map_or(begin, |point| begin.max(point));
            since.insert(group.group.clone(), begin);
            all.push(now.saturating_duration_since(begin));
        }
        self.not_ready_since = since;
        all
    }

    /// Returns how long records have waited while no job ran and none ended.
    fn idle_duration(&mut self, report: &Report, now: Instant) -> Duration {
        let expects_progress = report.workers > 0 && !report.quiet && !report.stopping;
        if !expects_progress || !report.has_waiting_work || !report.running.is_empty() {
            self.idle = None;
            return Duration::ZERO;
        }
        let begin = match self.idle {
            Some((jobs, begin)) if jobs == report.jobs => self.ignore_before.map_or(begin, |point| begin.max(point)),
            _ => now,
        };
        self.idle = Some((report.jobs, begin));
        now.saturating_duration_since(begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::GroupStatus;

    /// Source that reports the given groups.
    #[derive(Default)]
    struct Groups(Mutex<Vec<(&'static str, &'static str, u64)>>);

    impl Groups {
        fn are(&self, groups: &[(&'static str, &'static str, u64)]) {
            *self.0.lock().expect("a lock") = groups.to_vec();
        }
    }

    impl HealthSource for Groups {
        fn read(&self, report: &mut Report) {
            let group = |(name, state, since): &(&'static str, &'static str, u64)| GroupStatus {
                group: (*name).into(),
                state,
                state_age: Duration::from_secs(*since),
                ready: *state == "stable",
                generation: None,
                partitions: 0,
                group_instance_id: None,
                connections: None,
                login_failure: None,
                authorization_failure: None,
                transaction_stall: None,
            };
            report.groups = self.0.lock().expect("a lock").iter().map(group).collect();
        }

        fn metrics(&self, _: &mut Metrics) {}
    }

    #[test]
    fn records_waiting_without_progress_are_detected() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut history = History::default();
        let waits = Report { workers: 5, jobs: 7, has_waiting_work: true, ..Report::default() };
        let mut idle = |report: &Report, seconds| history.idle_duration(report, at(seconds)).as_secs();
        assert_eq!((idle(&waits, 0), idle(&waits, 9)), (0, 9));
        let ended = Report { jobs: 8, ..waits.clone() };
        assert_eq!((idle(&ended, 10), idle(&ended, 14)), (0, 4), "a job ended meanwhile");
        for well in [
            Report { quiet: true, ..ended.clone() },
            Report { stopping: true, ..ended.clone() },
            Report { workers: 0, ..ended.clone() },
            Report { has_waiting_work: false, ..ended.clone() },
            Report { running: vec![job()], ..ended.clone() },
        ] {
            assert_eq!((idle(&well, 20), idle(&ended, 20), idle(&ended, 23)), (0, 0, 3), "{well:?}");
        }
        // The process was stopped, and continues at 100.
        history.ignore_before = Some(at(100));
        assert_eq!(history.idle_duration(&ended, at(102)).as_secs(), 2);
    }

    fn job() -> crate::report::RunningJob {
        let (handler, topic) = ("h".into(), "t".into());
        crate::report::RunningJob { handler, topic, partition: 0, elapsed: Duration::ZERO, limit: None }
    }

    #[test]
    fn not_ready_duration_spans_state_changes() {
        let groups = Arc::new(Groups::default());
        let collector = HealthCollector::new("a".into(), Limits::default(), Arc::clone(&groups) as _);
        let start = Instant::now() + Duration::from_secs(1000);
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let not_ready = |seconds| -> Vec<u64> {
            let snapshot = collector.snapshot(at(seconds));
            snapshot.not_ready.iter().map(Duration::as_secs).collect()
        };
        groups.are(&[("a", "joining", 3), ("b", "stable", 50)]);
        assert_eq!(not_ready(0), [3, 0], "no collection has run before");
        groups.are(&[("a", "syncing", 1), ("b", "joining", 1)]);
        assert_eq!(not_ready(10), [13, 1]);
        groups.are(&[("b", "joining", 6), ("a", "stable", 1)]);
        assert_eq!(not_ready(15), [6, 0]);
        groups.are(&[("a", "joining", 0), ("b", "syncing", 0)]);
        assert_eq!(not_ready(20), [0, 11]);
        // The process was stopped, and continues at 100.
        collector.tick(at(100), true, at(101));
        groups.are(&[("a", "joining", 82), ("b", "syncing", 1)]);
        assert_eq!(not_ready(102), [2, 2]);
    }
}
