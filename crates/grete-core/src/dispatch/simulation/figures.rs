//! What a process has counted is what it has done.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::book::Stage;
use super::process::Process;
use super::world::Partition;
use crate::dispatch::{Decision, Finished, JobKind, Lease, OffsetPolicy, Stall, Tally, Verdict};

/// The figures of one handler, as they should be.
#[derive(Debug, Default)]
struct Figures {
    tally: Tally,
    consumed: u64,
}

/// By handler.
#[derive(Debug, Default)]
pub struct Ledger(BTreeMap<Arc<str>, Figures>);

impl Ledger {
    fn of(&mut self, handler: &Arc<str>) -> &mut Figures {
        self.0.entry(Arc::clone(handler)).or_default()
    }

    /// A job is about to end.
    pub fn ends(&mut self, lease: &Lease, finished: &Finished) {
        let (done, failure) = match finished {
            Finished::Done => (true, None),
            Finished::Failed(failure) => (false, Some(failure)),
            _ => return,
        };
        if lease.kind == JobKind::Decode {
            return;
        }
        let buried = done && lease.kind == JobKind::DeadLetter && !lease.shared.is_fenced();
        let figures = self.of(&lease.policy.name);
        figures.tally.jobs += 1;
        figures.tally.failures += u64::from(failure.is_some_and(|f| !matches!(f.verdict, Verdict::Later(_))));
        figures.tally.dead_letters += u64::from(buried);
        figures.consumed += u64::from(lease.kind == JobKind::Consume);
    }

    /// A job failed, and this is what it led to.
    pub fn decided(&mut self, handler: &Arc<str>, decision: Decision) {
        let again = match decision {
            Decision::Retry { rows, .. } => rows > 0,
            Decision::Halve { .. } => true,
            _ => false,
        };
        self.of(handler).tally.retries += u64::from(again);
    }

    pub fn stalled(&mut self, stall: &Stall) {
        let tally = &mut self.of(&stall.policy.name).tally;
        tally.stalls += u64::from(!stall.overdue);
        tally.timeouts += u64::from(stall.overdue);
    }
}

impl Process {
    /// At its end, and not before: progress counts when somebody asks for it.
    pub fn check_figures(&mut self, now: u64) {
        let tallies = self.dispatch.tallies(now).to_vec();
        for tally in &tallies {
            let Figures { tally: expected, consumed } = self.ledger.of(&tally.handler);
            let told = |tally: &Tally| {
                (tally.jobs, tally.failures, tally.retries, tally.dead_letters, tally.stalls, tally.timeouts)
            };
            assert_eq!(told(tally), told(expected), "{tally:?}");
            assert_eq!(tally.durations.counts.iter().sum::<u64>(), *consumed, "{tally:?}");
            let seats = || self.lanes.values().filter(|seat| seat.policy.name == tally.handler);
            if seats().any(|seat| seat.policy.offsets == OffsetPolicy::AtMostOnce) {
                continue; // done once is not marked: the fates of the records tell
            }
            let rid = seats().map(|seat| seat.book.rid()).sum::<u64>();
            let known = seats().map(|seat| seat.book.known()).sum::<u64>();
            let counted = tally.records + tally.dead_letters + tally.expired;
            // What was told as progress before a seek or a loss is done, and nobody has counted it.
            let steady = seats().all(|seat| !seat.book.void && !seat.book.sought);
            let exact = steady && seats().all(|seat| seat.policy.expire_ms.is_none());
            assert!(counted == rid || (!exact && counted < rid), "{tally:?}, and {rid} are done");
            assert!(tally.skipped <= known, "{tally:?}, and {known} were done before");
        }
    }

    /// What lanes say to be left is no less than what is, and the oldest of it as old as it is.
    pub fn check_lags(&self, partitions: &[Partition]) {
        for status in self.dispatch.statuses(None) {
            let seat = &self.lanes[&status.lane];
            let Some(lag) = status.lag.filter(|_| seat.generation.is_some() && !seat.book.void) else { continue };
            let log = &partitions[seat.partition].log;
            let told = log.records.range(seat.book.start..status.high_watermark.max(seat.book.start));
            let left = told.filter(|(offset, _)| !seat.book.done.contains(offset)).count();
            // (At most once they are done when they are handed out, and the book hears of that a little later.)
            let once = seat.policy.offsets == OffsetPolicy::AtMostOnce;
            assert!(once || lag >= left as u64, "{left} are left: {status:?}");
            assert!(lag > 0 || status.first_open.is_none(), "{status:?}");
            let here = seat.book.stage == Stage::Active && seat.policy.offsets != OffsetPolicy::Manual;
            if let Some(open) = status.first_open.filter(|_| here) {
                assert_eq!(status.oldest_ms, Some(log.records[&open].timestamp), "{status:?}");
            }
        }
    }
}
