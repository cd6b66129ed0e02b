//! Puts together what is known of a process: what its source knows, and what only the system, the canary and time do.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::canary::Watch;
use crate::metrics::Metrics;
use crate::process;
use crate::report::{Report, Source};
use crate::verdict::{self, Limits, Look};

/// Knows all that can be told of this process. Made after the last fork.
pub struct Examiner {
    app: String,
    limits: Limits,
    source: Arc<dyn Source>,
    canary: OnceLock<Watch>,
    made: Instant,
    start_time: Option<f64>,
    /// Held for a look at it, nothing else.
    past: Mutex<Past>,
}

/// What only those know who have looked before.
#[derive(Default)]
struct Past {
    /// Since when groups have not been steady.
    unsteady: HashMap<String, Instant>,
    /// Since when work has waited without a job under way, and how many jobs had ended by then.
    idle: Option<(u64, Instant)>,
    /// What was before does not count.
    not_before: Option<Instant>,
}

impl Examiner {
    /// Without a canary. `app`: the App's name.
    #[must_use]
    pub fn new(app: String, limits: Limits, source: Arc<dyn Source>) -> Self {
        Self {
            app,
            limits,
            source,
            canary: OnceLock::new(),
            made: Instant::now(),
            start_time: process::start_time(),
            past: Mutex::default(),
        }
    }

    /// From now on it knows how long the interpreter's lock is waited for. The first one stays.
    pub fn watch(&self, canary: Watch) {
        let _ = self.canary.set(canary);
    }

    /// The App's name.
    #[must_use]
    pub fn app(&self) -> &str {
        &self.app
    }

    /// What the process is measured by.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// All that is known now.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.metrics_at(Instant::now())
    }

    pub(crate) fn metrics_at(&self, now: Instant) -> Metrics {
        let mut metrics = Metrics::default();
        self.source.metrics(&mut metrics);
        let look = self.look(now);
        let process = &mut metrics.process;
        process::look(process);
        process.start_time = self.start_time;
        process.gil_wait = self.canary.get().map(|canary| canary.wait(now).as_secs_f64());
        process.live = Some(verdict::live(&look, &self.limits).ok);
        process.ready = Some(verdict::ready(&look, &self.limits).ok);
        metrics
    }

    /// For the verdicts.
    pub(crate) fn look(&self, now: Instant) -> Look {
        let mut report = Report::default();
        self.source.read(&mut report);
        // One that is over is no reason for anything; metrics tell of it, too.
        let gil_wait = self.canary.get().map(|canary| canary.waiting(now));
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        let unsteady = past.unsteady_since(&report, now);
        let idle = past.idle_since(&report, now);
        drop(past);
        Look { report, gil_wait, unsteady, idle }
    }

    /// Once a second, also while nobody asks: has the canary take the lock, and sees who is steady and what goes on.
    pub(crate) fn beat(&self, beat: Instant, slept: bool, now: Instant) {
        if slept {
            // The whole process was stopped, or had no CPU: nobody can be blamed for what took long meanwhile.
            self.past.lock().unwrap_or_else(PoisonError::into_inner).not_before = Some(beat);
        }
        if let Some(canary) = self.canary.get() {
            if slept {
                canary.forgive(beat);
            }
            canary.ask(beat);
        }
        self.look(now);
    }

    /// How long it has been there.
    pub(crate) fn uptime(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.made)
    }
}

impl Past {
    /// For each group, for how long. A member that changes from one state to the next is not steady all the while, so its state's
    /// age does not tell.
    fn unsteady_since(&mut self, report: &Report, now: Instant) -> Vec<Duration> {
        let mut since = HashMap::new();
        let mut all = Vec::with_capacity(report.groups.len());
        for group in &report.groups {
            if group.steady {
                all.push(Duration::ZERO);
                continue;
            }
            // Not less than the state's age: nobody may have looked before.
            let age = now.checked_sub(group.since).unwrap_or(now);
            let begin = self.unsteady.get(&group.group).map_or(age, |before| age.min(*before));
            let begin = self.not_before.map_or(begin, |point| begin.max(point));
            since.insert(group.group.clone(), begin);
            all.push(now.saturating_duration_since(begin));
        }
        self.unsteady = since;
        all
    }

    /// For how long records have waited although nothing is under way and no job has ended meanwhile.
    fn idle_since(&mut self, report: &Report, now: Instant) -> Duration {
        let may = report.workers > 0 && !report.quiet && !report.stopping;
        if !may || !report.work_waits || !report.running.is_empty() {
            self.idle = None;
            return Duration::ZERO;
        }
        let begin = match self.idle {
            Some((jobs, begin)) if jobs == report.jobs => self.not_before.map_or(begin, |point| begin.max(point)),
            _ => now,
        };
        self.idle = Some((report.jobs, begin));
        now.saturating_duration_since(begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Group;

    /// The groups that it tells of.
    #[derive(Default)]
    struct Groups(Mutex<Vec<(&'static str, &'static str, u64)>>);

    impl Groups {
        fn are(&self, groups: &[(&'static str, &'static str, u64)]) {
            *self.0.lock().expect("a lock") = groups.to_vec();
        }
    }

    impl Source for Groups {
        fn read(&self, report: &mut Report) {
            let group = |(name, state, since): &(&'static str, &'static str, u64)| Group {
                group: (*name).into(),
                state,
                since: Duration::from_secs(*since),
                steady: *state == "stable",
                generation: None,
                partitions: 0,
                instance: None,
                connections: None,
            };
            report.groups = self.0.lock().expect("a lock").iter().map(group).collect();
        }

        fn metrics(&self, _: &mut Metrics) {}
    }

    #[test]
    fn records_that_wait_for_nobody_are_seen() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut past = Past::default();
        let waits = Report { workers: 5, jobs: 7, work_waits: true, ..Report::default() };
        let mut idle = |report: &Report, seconds| past.idle_since(report, at(seconds)).as_secs();
        assert_eq!((idle(&waits, 0), idle(&waits, 9)), (0, 9));
        let ended = Report { jobs: 8, ..waits.clone() };
        assert_eq!((idle(&ended, 10), idle(&ended, 14)), (0, 4), "a job ended meanwhile");
        for well in [
            Report { quiet: true, ..ended.clone() },
            Report { stopping: true, ..ended.clone() },
            Report { workers: 0, ..ended.clone() },
            Report { work_waits: false, ..ended.clone() },
            Report { running: vec![job()], ..ended.clone() },
        ] {
            assert_eq!((idle(&well, 20), idle(&ended, 20), idle(&ended, 23)), (0, 0, 3), "{well:?}");
        }
        // The process was stopped, and goes on at 100.
        past.not_before = Some(at(100));
        assert_eq!(past.idle_since(&ended, at(102)).as_secs(), 2);
    }

    fn job() -> crate::report::RunningJob {
        let (handler, topic) = ("h".into(), "t".into());
        crate::report::RunningJob { handler, topic, partition: 0, elapsed: Duration::ZERO, limit: None }
    }

    #[test]
    fn a_member_is_unsteady_from_state_to_state() {
        let groups = Arc::new(Groups::default());
        let examiner = Examiner::new("a".into(), Limits::default(), Arc::clone(&groups) as _);
        let start = Instant::now() + Duration::from_secs(1000);
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let unsteady = |seconds| -> Vec<u64> {
            let look = examiner.look(at(seconds));
            look.unsteady.iter().map(Duration::as_secs).collect()
        };
        groups.are(&[("a", "joining", 3), ("b", "stable", 50)]);
        assert_eq!(unsteady(0), [3, 0], "nobody has looked before");
        groups.are(&[("a", "syncing", 1), ("b", "joining", 1)]);
        assert_eq!(unsteady(10), [13, 1]);
        groups.are(&[("b", "joining", 6), ("a", "stable", 1)]);
        assert_eq!(unsteady(15), [6, 0]);
        groups.are(&[("a", "joining", 0), ("b", "syncing", 0)]);
        assert_eq!(unsteady(20), [0, 11]);
        // The process was stopped, and goes on at 100.
        examiner.beat(at(100), true, at(101));
        groups.are(&[("a", "joining", 82), ("b", "syncing", 1)]);
        assert_eq!(unsteady(102), [2, 2]);
    }
}
