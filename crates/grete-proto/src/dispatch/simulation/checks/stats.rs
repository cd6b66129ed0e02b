//! Check of counters: a process has counted what it has done.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::lane_oracle::Stage;
use crate::dispatch::simulation::process::Process;
use crate::dispatch::simulation::simulator::Partition;
use crate::dispatch::{
    Decision, FailureKind, JobKind, JobOutcome, JobState, OffsetPolicy, RouteConfig, RouteStats, StalledJob,
};

/// Expected counters of one handler.
#[derive(Debug, Default)]
struct ExpectedHandlerStats {
    tally: RouteStats,
    consumed: u64,
}

/// Expected counters by handler.
#[derive(Debug, Default)]
pub struct ExpectedStats(BTreeMap<Arc<str>, ExpectedHandlerStats>);

impl ExpectedStats {
    fn of(&mut self, handler: &Arc<str>) -> &mut ExpectedHandlerStats {
        self.0.entry(Arc::clone(handler)).or_default()
    }

    /// Counts a job that is about to end.
    pub fn ends(&mut self, policy: &RouteConfig, kind: JobKind, shared: &JobState, finished: &JobOutcome) {
        let (done, failure) = match finished {
            JobOutcome::Done => (true, None),
            JobOutcome::Failed(failure) => (false, Some(failure)),
            _ => return,
        };
        if kind == JobKind::Decode {
            return;
        }
        let buried = done && kind == JobKind::DeadLetter && !shared.is_fenced();
        let figures = self.of(&policy.name);
        figures.tally.jobs += 1;
        figures.tally.failures += u64::from(failure.is_some_and(|f| !matches!(f.kind, FailureKind::RetryLater(_))));
        figures.tally.dead_letters += u64::from(buried);
        figures.consumed += u64::from(kind == JobKind::Consume);
    }

    /// Counts the decision after a failed job.
    pub fn on_decision(&mut self, handler: &Arc<str>, decision: Decision) {
        let again = match decision {
            Decision::Retry { rows, .. } => rows > 0,
            Decision::Bisect { .. } => true,
            _ => false,
        };
        self.of(handler).tally.retries += u64::from(again);
    }

    pub fn on_stalled(&mut self, stall: &StalledJob) {
        let tally = &mut self.of(&stall.policy.name).tally;
        tally.stalls += u64::from(!stall.overdue);
        tally.timeouts += u64::from(stall.overdue);
    }
}

impl Process {
    /// Checks the counters at the end of the process, and not before: progress is marked when the dispatcher asks for
    /// it.
    pub fn check_stats(&mut self, now: u64) {
        let tallies = self.dispatch.route_stats(now).to_vec();
        for tally in &tallies {
            let ExpectedHandlerStats { tally: expected, consumed } = self.expected_stats.of(&tally.handler);
            let counters = |tally: &RouteStats| {
                (tally.jobs, tally.failures, tally.retries, tally.dead_letters, tally.stalls, tally.timeouts)
            };
            assert_eq!(counters(tally), counters(expected), "{tally:?}");
            assert_eq!(tally.durations.counts.iter().sum::<u64>(), *consumed, "{tally:?}");
            let seats = || self.lanes.values().filter(|seat| seat.policy.name == tally.handler);
            if seats().any(|seat| seat.policy.offsets == OffsetPolicy::AtMostOnce) {
                continue; // at most once, done records are not marked: the outcomes of the records are checked
            }
            let rid = seats().map(|seat| seat.oracle.completed_count()).sum::<u64>();
            let known = seats().map(|seat| seat.oracle.known()).sum::<u64>();
            let counted = tally.records + tally.dead_letters + tally.expired;
            // Progress before a seek or a loss is done, and not counted.
            let steady = seats().all(|seat| !seat.oracle.void && !seat.oracle.sought);
            let exact = steady && seats().all(|seat| seat.policy.max_age_ms.is_none());
            assert!(counted == rid || (!exact && counted < rid), "{tally:?}, and {rid} are done");
            assert!(tally.skipped <= known, "{tally:?}, and {known} were done before");
        }
    }

    /// Checks the lag of each lane: it is not below the real lag, and the oldest timestamp is not too young.
    pub fn check_lags(&self, partitions: &[Partition]) {
        for status in self.dispatch.lane_statuses(None) {
            let seat = &self.lanes[&status.lane];
            let Some(lag) = status.lag.filter(|_| seat.generation.is_some() && !seat.oracle.void) else { continue };
            let log = &partitions[seat.partition].log;
            let known_records = log.records.range(seat.oracle.start..status.high_watermark.max(seat.oracle.start));
            let left = known_records.filter(|(offset, _)| !seat.oracle.done.contains(offset)).count();
            // (At most once, records are done when they are handed out, and the oracle learns that a little later.)
            let once = seat.policy.offsets == OffsetPolicy::AtMostOnce;
            assert!(once || lag >= left as u64, "{left} are left: {status:?}");
            assert!(lag > 0 || status.first_open.is_none(), "{status:?}");
            let here = seat.oracle.stage == Stage::Active && seat.policy.offsets != OffsetPolicy::Manual;
            if let Some(open) = status.first_open.filter(|_| here) {
                assert_eq!(status.oldest_ms, Some(log.records[&open].timestamp), "{status:?}");
            }
        }
    }
}
