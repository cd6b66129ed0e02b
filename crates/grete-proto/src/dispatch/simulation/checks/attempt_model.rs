//! Model of attempts: how often the first rows of a unit have run, by the rules of retries.

use std::collections::{BTreeMap, BTreeSet};

use crate::dispatch::{Decision, FailureKind, RouteConfig};

/// Failures of one unit.
#[derive(Debug, Clone)]
struct FailureEpisode {
    /// First unmarked offset of the last failure.
    first: i64,
    failures: u32,
    /// The attempts are used up, and the rows are bisected; the count may then take any value.
    bisecting: bool,
    /// Rows that are suspected, or run again.
    open: Vec<i64>,
    /// Number of rows that failed together at first.
    rows: usize,
    /// Number of runs that started with that offset.
    runs: u32,
}

/// Attempts of all units of a lane.
#[derive(Debug, Default)]
pub struct AttemptModel {
    episodes: BTreeMap<u32, FailureEpisode>,
    /// Slots with pending dead letters, and the last offset of these.
    dead: BTreeMap<u32, i64>,
    /// Slots that must halt.
    held: BTreeSet<u32>,
}

impl AttemptModel {
    /// Checks the attempt number of a job for a handler.
    pub fn present(&mut self, slot: u32, first: i64, attempt: u32) {
        assert!(!self.held.contains(&slot) && !self.dead.contains_key(&slot), "slot {slot} runs {first}: {self:?}");
        if self.episodes.get(&slot).is_some_and(|tale| !tale.open.contains(&first)) {
            self.episodes.remove(&slot);
        }
        match self.episodes.get_mut(&slot).filter(|tale| tale.first == first) {
            Some(tale) => {
                tale.runs += 1;
                assert!(tale.bisecting || attempt == tale.failures + 1, "attempt {attempt}, after {tale:?}");
            }
            None => {
                let suspects = self.episodes.get(&slot).is_some_and(|tale| tale.bisecting);
                assert!(suspects || attempt == 1, "attempt {attempt} of {first}, after {:?}", self.episodes.get(&slot));
            }
        }
    }

    /// Records a failed job, and checks the decision. `open`: the unmarked rows of the job.
    pub fn failed(&mut self, slot: u32, open: &[i64], kind: FailureKind, decision: Decision, policy: &RouteConfig) {
        let Some(&first) = open.first() else {
            self.episodes.remove(&slot);
            return;
        };
        let fresh =
            FailureEpisode { first, failures: 0, bisecting: false, open: open.to_vec(), rows: open.len(), runs: 1 };
        let mut tale = self
            .episodes
            .get(&slot)
            .cloned()
            .filter(|tale| tale.first == first || (tale.bisecting && tale.open.contains(&first)))
            .unwrap_or(fresh);
        if !tale.bisecting {
            (tale.open, tale.rows) = (open.to_vec(), tale.rows.max(open.len()));
        }
        if tale.first != first {
            (tale.first, tale.runs) = (first, 1);
        }
        match decision {
            Decision::RetryLater { .. } => tale.runs -= 1,
            _ => tale.failures += 1,
        }
        let at_once = matches!(kind, FailureKind::NonRetriable | FailureKind::Rejected);
        let limit = policy.retry.attempts.filter(|_| policy.dead_letter);
        match decision {
            Decision::Retry { wait, attempt, rows } => {
                assert_eq!(rows, open.len(), "rows that come again");
                assert!(tale.bisecting || attempt == tale.failures + 1, "{decision:?} after {tale:?}");
                assert!(limit.is_none_or(|limit| tale.failures < limit), "{decision:?} after {tale:?}");
                assert!(!at_once || !policy.dead_letter, "{decision:?} after {kind:?}");
                let doubled = policy.retry.backoff.saturating_mul(1 << (tale.failures - 1).min(20));
                let least = doubled.min(policy.retry.max_backoff / 12 * 10) / 10 * 8;
                let most = (doubled / 10 * 12 + 10).min(policy.retry.max_backoff);
                assert!(tale.bisecting || (least..=most).contains(&wait), "{decision:?} after {tale:?}");
            }
            Decision::Bisect { rows } => {
                assert!(open.len() > 1 && (1..open.len()).contains(&rows), "{decision:?} of {open:?}");
                assert!(at_once || tale.bisecting || Some(tale.failures) == limit, "{decision:?} after {tale:?}");
                // The other rows are not suspected for now.
                (tale.bisecting, tale.open) = (true, open.to_vec());
            }
            Decision::DeadLetter { .. } => {
                assert!(at_once || tale.bisecting || Some(tale.failures) == limit, "{decision:?} after {tale:?}");
                // The remaining rows start with a new count.
                self.episodes.remove(&slot);
                return;
            }
            Decision::RetryLater { .. } | Decision::Halt | Decision::Fenced | Decision::Skipped => {}
        }
        // Each bisection halves the rows, and each half may have run once more together with others.
        let most = limit.map(|limit| limit + 3 + tale.rows.ilog2());
        assert!(most.is_none_or(|most| tale.runs <= most), "{tale:?} with {open:?}");
        self.episodes.insert(slot, tale);
    }

    /// Expects a dead letter of the record before any other job of the slot.
    pub fn expect_dead_letter(&mut self, slot: u32, through: i64) {
        self.dead.insert(slot, through);
    }

    pub fn on_dead_lettered(&mut self, slot: u32, offset: i64) {
        if self.dead.get(&slot).is_some_and(|through| offset >= *through) {
            self.dead.remove(&slot);
        }
    }

    pub fn hold(&mut self, slot: u32) {
        self.held.insert(slot);
    }

    /// Records a job that was done.
    pub fn done(&mut self, slot: u32) {
        if self.episodes.get(&slot).is_some_and(|tale| !tale.bisecting) {
            self.episodes.remove(&slot);
        }
    }

    /// Returns whether no failed row has yet to run again.
    pub fn is_calm(&self) -> bool {
        self.episodes.is_empty() && self.dead.is_empty() && self.held.is_empty()
    }

    pub fn reset(&mut self) {
        self.episodes.clear();
        self.dead.clear();
        self.held.clear();
    }
}
