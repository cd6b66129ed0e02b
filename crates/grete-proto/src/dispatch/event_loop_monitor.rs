//! Monitor of an event loop: detects a coroutine that blocks the loop.
//!
//! The loop proves that it runs whenever it takes its signalled work, starts a job or ends a job. While nothing waits
//! for the loop, its state is unknown and the monitor does not probe it. The monitor probes the loop only while a job
//! of this process is in flight on the loop and the loop has given no sign for a while. So a coroutine that blocks the
//! loop is found although nothing else needs the loop.

use std::collections::HashMap;

use crate::time::{MILLI, Nanos, SECOND};

/// Shortest and longest time without a sign after which a loop with a job in flight is probed.
const PROBE_INTERVAL_RANGE: (Nanos, Nanos) = (10 * MILLI, SECOND);

/// State of one event loop, seen from its jobs. Times that run backwards count as zero.
#[derive(Debug, Default)]
pub struct EventLoopMonitor {
    /// Time since which work waits for the loop to take it; `None`: the loop has taken everything.
    signalled_at: Option<Nanos>,
    /// Jobs that the loop has taken and not ended: whether each job has started.
    jobs: HashMap<u64, bool>,
    /// Number of taken jobs that have not started.
    waiting: usize,
    /// Last time at which the loop gave a sign.
    last_turn: Nanos,
    /// The current blockage was reported.
    reported: bool,
    last_wait: Nanos,
    blocked_count: u64,
}

/// Result of [`EventLoopMonitor::check`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventLoopCheck {
    /// The caller must signal the loop, and then call [`EventLoopMonitor::on_signalled`]: nothing else shows whether
    /// the loop runs.
    pub probe: bool,
    /// Time for which the loop has been blocked, if it is over the limit and was not reported before.
    pub blocked: Option<Nanos>,
    /// Time of the next check; `None`: after the next signal to the loop.
    pub next_check: Option<Nanos>,
}

impl EventLoopMonitor {
    /// Records that the loop was signalled to take work.
    pub fn on_signalled(&mut self, now: Nanos) {
        self.signalled_at.get_or_insert(now);
    }

    /// Records that the loop has taken all its work, including these jobs. Returns how long the loop had been blocked,
    /// if that was reported.
    pub fn on_jobs_taken(&mut self, now: Nanos, jobs: impl IntoIterator<Item = u64>) -> Option<Nanos> {
        let over = self.record_turn(now);
        if let Some(since) = self.signalled_at.take() {
            self.last_wait = now.saturating_sub(since);
        }
        for job in jobs {
            self.waiting += usize::from(self.jobs.insert(job, false).is_none());
        }
        over
    }

    /// Records the first step of this job. Returns the same as [`EventLoopMonitor::on_jobs_taken`].
    pub fn on_job_started(&mut self, now: Nanos, job: u64) -> Option<Nanos> {
        if let Some(begun) = self.jobs.get_mut(&job)
            && !std::mem::replace(begun, true)
        {
            self.waiting = self.waiting.saturating_sub(1);
        }
        self.record_turn(now)
    }

    /// Records the end of the job, started or not. Returns the same as [`EventLoopMonitor::on_jobs_taken`].
    pub fn on_job_ended(&mut self, now: Nanos, job: u64) -> Option<Nanos> {
        let begun = self.jobs.remove(&job)?;
        self.waiting = self.waiting.saturating_sub(usize::from(!begun));
        self.record_turn(now)
    }

    /// Returns for how long work has waited for the loop; `None`: nothing waits.
    #[must_use]
    pub fn waiting_for(&self, now: Nanos) -> Option<Nanos> {
        Some(now.saturating_sub(self.waiting_since()?))
    }

    /// Returns the time from the last signal until the loop took its work.
    pub fn last_wait(&self) -> Nanos {
        self.last_wait
    }

    /// Returns how often the loop was blocked beyond the limit.
    pub fn blocked_count(&self) -> u64 {
        self.blocked_count
    }

    /// Checks the loop. `limit`: how long the loop may be blocked; `None`: the loop is not monitored. `soon`: jobs are
    /// about to be signalled to the loop.
    pub fn check(&mut self, now: Nanos, limit: Option<Nanos>, soon: bool) -> EventLoopCheck {
        let Some(limit) = limit else { return EventLoopCheck::default() };
        let Some(since) = self.waiting_since() else { return self.check_probe(now, limit, soon) };
        let due = since.saturating_add(limit);
        if due > now || self.reported {
            return EventLoopCheck { next_check: Some(due).filter(|_| !self.reported), ..EventLoopCheck::default() };
        }
        self.reported = true;
        self.blocked_count += 1;
        EventLoopCheck { blocked: Some(now.saturating_sub(since)), ..EventLoopCheck::default() }
    }

    /// Checks whether to probe the loop: jobs are in flight, and the loop has given no sign.
    fn check_probe(&self, now: Nanos, limit: Nanos, soon: bool) -> EventLoopCheck {
        let interval = (limit / 4).clamp(PROBE_INTERVAL_RANGE.0, PROBE_INTERVAL_RANGE.1);
        if self.jobs.is_empty() {
            return EventLoopCheck {
                next_check: Some(now.saturating_add(interval)).filter(|_| soon),
                ..EventLoopCheck::default()
            };
        }
        let due = self.last_turn.saturating_add(interval);
        if due > now {
            return EventLoopCheck { next_check: Some(due), ..EventLoopCheck::default() };
        }
        EventLoopCheck { probe: true, next_check: Some(now.saturating_add(limit)), ..EventLoopCheck::default() }
    }

    /// Returns since when work waits for the loop; `None`: nothing waits. A job that is taken and not started waits
    /// since the loop's last sign.
    fn waiting_since(&self) -> Option<Nanos> {
        if self.waiting > 0 {
            return Some(self.last_turn);
        }
        self.signalled_at.map(|since| since.max(self.last_turn))
    }

    fn record_turn(&mut self, now: Nanos) -> Option<Nanos> {
        let over = self.waiting_for(now).filter(|_| std::mem::take(&mut self.reported));
        self.last_turn = self.last_turn.max(now);
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Option<Nanos> = Some(2 * SECOND);

    fn blocked(look: EventLoopCheck) -> Option<Nanos> {
        look.blocked.map(|nanos| nanos / MILLI)
    }

    #[test]
    fn an_idle_loop_is_left_alone() {
        let mut watch = EventLoopMonitor::default();
        assert_eq!(watch.check(3600 * SECOND, LIMIT, false), EventLoopCheck::default());
        watch.on_signalled(3600 * SECOND);
        assert_eq!(watch.waiting_for(3600 * SECOND + 5), Some(5), "an hour of idleness is no wait");
        assert_eq!(watch.on_jobs_taken(3600 * SECOND + 5, []), None);
        assert_eq!((watch.waiting_for(7200 * SECOND), watch.last_wait()), (None, 5));
        assert_eq!(watch.check(SECOND, LIMIT, true).next_check, Some(1500 * MILLI), "a job comes");
        assert_eq!(watch.check(7200 * SECOND, LIMIT, false), EventLoopCheck::default());
    }

    #[test]
    fn what_it_has_not_taken_in_time_is_reported_once() {
        let mut watch = EventLoopMonitor::default();
        watch.on_signalled(10 * SECOND);
        watch.on_signalled(11 * SECOND);
        assert_eq!(watch.check(11 * SECOND, LIMIT, false).next_check, Some(12 * SECOND));
        assert_eq!(blocked(watch.check(12 * SECOND, LIMIT, false)), Some(2000));
        assert_eq!(watch.check(13 * SECOND, LIMIT, false), EventLoopCheck::default());
        assert_eq!(watch.on_jobs_taken(15 * SECOND, []), Some(5 * SECOND), "and its end");
        assert_eq!((watch.on_jobs_taken(16 * SECOND, []), watch.blocked_count()), (None, 1));
        assert_eq!(watch.check(17 * SECOND, None, true), EventLoopCheck::default());
    }

    #[test]
    fn jobs_that_have_not_begun_wait_since_another_one_has_the_loop() {
        let mut watch = EventLoopMonitor::default();
        watch.on_signalled(SECOND);
        watch.on_jobs_taken(SECOND, [1, 2, 3]);
        watch.on_job_started(SECOND + MILLI, 1);
        assert_eq!(watch.waiting_for(3 * SECOND), Some(2 * SECOND - MILLI));
        assert_eq!(blocked(watch.check(3 * SECOND + MILLI, LIMIT, false)), Some(2000));
        assert_eq!(watch.on_job_ended(4 * SECOND + MILLI, 1), Some(3 * SECOND));
        assert_eq!(watch.waiting_for(5 * SECOND + MILLI), Some(SECOND), "two still wait");
        assert_eq!((watch.on_job_ended(6 * SECOND, 2), watch.on_job_started(6 * SECOND, 3)), (None, None));
        assert_eq!(watch.waiting_for(7 * SECOND), None);
        assert_eq!(watch.on_job_ended(7 * SECOND, 99), None);
    }

    #[test]
    fn a_loop_that_turns_is_not_blocked_however_much_waits() {
        let mut watch = EventLoopMonitor::default();
        watch.on_jobs_taken(SECOND, 0..100);
        for job in 0..100 {
            let now = SECOND * (2 + job);
            watch.on_signalled(now);
            watch.on_job_started(now, job);
            assert_eq!(blocked(watch.check(now + SECOND, LIMIT, false)), None, "{job}");
        }
    }

    #[test]
    fn a_loop_with_jobs_under_way_is_asked_when_it_has_not_shown_itself() {
        let mut watch = EventLoopMonitor::default();
        watch.on_jobs_taken(SECOND, [1]);
        watch.on_job_started(SECOND, 1);
        assert_eq!(watch.check(SECOND, LIMIT, false).next_check, Some(1500 * MILLI));
        let look = watch.check(1500 * MILLI, LIMIT, false);
        assert_eq!((look.probe, look.next_check), (true, Some(3500 * MILLI)));
        watch.on_signalled(1500 * MILLI);
        assert!(!watch.check(1600 * MILLI, LIMIT, false).probe, "once");
        assert_eq!(blocked(watch.check(3500 * MILLI, LIMIT, false)), Some(2000));
        assert_eq!(watch.on_jobs_taken(4 * SECOND, []), Some(2500 * MILLI));
        // The handler awaits, so the loop gives a sign at each probe.
        assert_eq!(watch.check(4 * SECOND, LIMIT, false).next_check, Some(4500 * MILLI));
        watch.on_job_ended(4 * SECOND, 1);
        assert_eq!(watch.check(9 * SECOND, LIMIT, false), EventLoopCheck::default());
        // The probe interval has a lower and an upper limit.
        watch.on_jobs_taken(10 * SECOND, [2]);
        watch.on_job_started(10 * SECOND, 2);
        let next = |watch: &mut EventLoopMonitor, limit| {
            watch.check(10 * SECOND, Some(limit), false).next_check.map(|at| at - 10 * SECOND)
        };
        assert_eq!([MILLI, 3600 * SECOND].map(|limit| next(&mut watch, limit)), [Some(10 * MILLI), Some(SECOND)]);
    }
}
