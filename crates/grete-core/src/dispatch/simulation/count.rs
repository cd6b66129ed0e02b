//! Attempts: how often the rows in front of a unit have been run, as the rule has it.

use std::collections::{BTreeMap, BTreeSet};

use crate::dispatch::{Decision, RoutePolicy, Verdict};

/// What one unit has been through.
#[derive(Debug, Clone)]
struct Tale {
    /// The first unmarked offset of its last failure.
    first: i64,
    failures: u32,
    /// The attempts are used up, and it is being found out which record it was: the count goes on as it likes.
    suspects: bool,
    /// The rows that are suspected, or come again.
    open: Vec<i64>,
    /// Rows that failed together at first.
    rows: usize,
    /// Runs that began with that offset.
    runs: u32,
}

/// Of all units of a lane.
#[derive(Debug, Default)]
pub struct Count {
    tales: BTreeMap<u32, Tale>,
    /// Slots with dead letters on their way, and the last of these.
    dead: BTreeMap<u32, i64>,
    /// Slots that are to rest.
    held: BTreeSet<u32>,
}

impl Count {
    /// A job for a handler: its number is right.
    pub fn present(&mut self, slot: u32, first: i64, attempt: u32) {
        assert!(!self.held.contains(&slot) && !self.dead.contains_key(&slot), "slot {slot} runs {first}: {self:?}");
        if self.tales.get(&slot).is_some_and(|tale| !tale.open.contains(&first)) {
            self.tales.remove(&slot);
        }
        match self.tales.get_mut(&slot).filter(|tale| tale.first == first) {
            Some(tale) => {
                tale.runs += 1;
                assert!(tale.suspects || attempt == tale.failures + 1, "attempt {attempt}, after {tale:?}");
            }
            None => {
                let suspects = self.tales.get(&slot).is_some_and(|tale| tale.suspects);
                assert!(suspects || attempt == 1, "attempt {attempt} of {first}, after {:?}", self.tales.get(&slot));
            }
        }
    }

    /// A job failed. `open`: its unmarked rows.
    pub fn failed(&mut self, slot: u32, open: &[i64], verdict: Verdict, decision: Decision, policy: &RoutePolicy) {
        let Some(&first) = open.first() else {
            self.tales.remove(&slot);
            return;
        };
        let fresh = Tale { first, failures: 0, suspects: false, open: open.to_vec(), rows: open.len(), runs: 1 };
        let mut tale = self
            .tales
            .get(&slot)
            .cloned()
            .filter(|tale| tale.first == first || (tale.suspects && tale.open.contains(&first)))
            .unwrap_or(fresh);
        if !tale.suspects {
            (tale.open, tale.rows) = (open.to_vec(), tale.rows.max(open.len()));
        }
        if tale.first != first {
            (tale.first, tale.runs) = (first, 1);
        }
        match decision {
            Decision::Later { .. } => tale.runs -= 1,
            _ => tale.failures += 1,
        }
        let at_once = matches!(verdict, Verdict::GiveUp | Verdict::Reject);
        let limit = policy.retry.attempts.filter(|_| policy.dead_letter);
        match decision {
            Decision::Retry { wait, attempt, rows } => {
                assert_eq!(rows, open.len(), "rows that come again");
                assert!(tale.suspects || attempt == tale.failures + 1, "{decision:?} after {tale:?}");
                assert!(limit.is_none_or(|limit| tale.failures < limit), "{decision:?} after {tale:?}");
                assert!(!at_once || !policy.dead_letter, "{decision:?} after {verdict:?}");
                let doubled = policy.retry.first.saturating_mul(1 << (tale.failures - 1).min(20));
                let least = doubled.min(policy.retry.longest / 12 * 10) / 10 * 8;
                let most = (doubled / 10 * 12 + 10).min(policy.retry.longest);
                assert!(tale.suspects || (least..=most).contains(&wait), "{decision:?} after {tale:?}");
            }
            Decision::Halve { rows } => {
                assert!(open.len() > 1 && (1..open.len()).contains(&rows), "{decision:?} of {open:?}");
                assert!(at_once || tale.suspects || Some(tale.failures) == limit, "{decision:?} after {tale:?}");
                // The others are above suspicion, for this time.
                (tale.suspects, tale.open) = (true, open.to_vec());
            }
            Decision::DeadLetter { .. } => {
                assert!(at_once || tale.suspects || Some(tale.failures) == limit, "{decision:?} after {tale:?}");
                // What is left begins anew.
                self.tales.remove(&slot);
                return;
            }
            Decision::Later { .. } | Decision::Hold | Decision::Refused | Decision::Skipped => {}
        }
        // Half of what is left each time, and each half may have been run in company once more.
        let most = limit.map(|limit| limit + 3 + tale.rows.ilog2());
        assert!(most.is_none_or(|most| tale.runs <= most), "{tale:?} with {open:?}");
        self.tales.insert(slot, tale);
    }

    /// The record is to go to the dead letter topic, before anything else happens to the slot.
    pub fn bury(&mut self, slot: u32, through: i64) {
        self.dead.insert(slot, through);
    }

    pub fn buried(&mut self, slot: u32, offset: i64) {
        if self.dead.get(&slot).is_some_and(|through| offset >= *through) {
            self.dead.remove(&slot);
        }
    }

    pub fn hold(&mut self, slot: u32) {
        self.held.insert(slot);
    }

    /// A job was done.
    pub fn done(&mut self, slot: u32) {
        if self.tales.get(&slot).is_some_and(|tale| !tale.suspects) {
            self.tales.remove(&slot);
        }
    }

    /// Nothing has failed that is still to be run again.
    pub fn is_calm(&self) -> bool {
        self.tales.is_empty() && self.dead.is_empty() && self.held.is_empty()
    }

    pub fn reset(&mut self) {
        self.tales.clear();
        self.dead.clear();
        self.held.clear();
    }
}
