//! Retry state of a unit: attempts of the first unmarked record, and bisection of a failing batch to find the record at
//! fault.
//!
//! - The attempts belong to the first unmarked offset. A success needs no call: [`RetryState::plan`] sees that the rows
//!   no longer wait.
//! - When the attempts are used up, a record that is known to have failed goes to the dead letter topic, alone. If no
//!   such record is known, the unmarked rows of the failed job are bisected. A half that fails is bisected again; a
//!   half that succeeds leaves the other half to bisect, until one row fails alone. The remaining rows then start with
//!   a new count.
//! - A handler that breaks its contract with a batch ([`FailureKind::NonRetriableBatch`]) would do so with any other
//!   records, too, or would by chance not do so with one record: nothing is bisected, and all unmarked rows of the job
//!   go to the dead letter topic.
//! - With jobs of `k` rows and `n` attempts, each record that always fails costs at most `n + log2(k) + 3` runs. (Its
//!   dead letter and the run of the remaining rows are included; the logarithm is rounded up.) Each failing run that
//!   has marked the first row adds `n` runs.

use std::sync::Arc;

use super::route_config::{OffsetPolicy, RetryPolicy, RouteConfig};
use crate::rng::Rng;
use crate::time::Nanos;
use failure::{Decision, Failure, FailureHistory, FailureKind};

/// First offset of an episode that has only runs in other processes.
const EARLIER: i64 = -1;
/// Most characters kept of an exception's class.
const CLASS_CHARS: usize = 200;
/// Most characters kept of an exception's message.
const MESSAGE_CHARS: usize = 1000;

/// Retry state of one unit. It allocates nothing while nothing fails.
#[derive(Debug, Default)]
pub struct RetryState(Option<Box<FailureEpisode>>);

/// Next run of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextRun {
    /// A consume job.
    Consume {
        /// Most rows of the job, from the front of the waiting rows, and nothing behind them; `usize::MAX`: as the
        /// route allows.
        rows: usize,
        /// Number of the run.
        attempt: u32,
    },
    /// A dead letter job of one waiting row. At most once, the waiting rows before it are dropped.
    DeadLetter {
        /// Offset of the row.
        offset: i64,
        /// Failures of the row.
        history: Arc<FailureHistory>,
    },
    /// The unit runs nothing.
    Halt,
}

#[derive(Debug)]
struct FailureEpisode {
    stage: Stage,
    history: FailureHistory,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Rows up to `through` have failed together; the attempts are those of `first`.
    Retrying { first: i64, through: i64 },
    /// One of the rows up to `through` is at fault.
    Bisecting { through: i64 },
    /// These rows go to the dead letter topic one by one; `failures`: failed dead letter jobs of the row at `from`.
    DeadLetters { from: i64, through: i64, failures: u32 },
    /// The unit runs no more jobs.
    Halted,
}

/// Unmarked rows of a failed job.
struct FailedRows {
    first: i64,
    last: i64,
    count: usize,
    /// Offset of the record at fault, if it is one of these rows.
    failed_offset: Option<i64>,
}

impl FailedRows {
    fn from_unmarked(unmarked: impl Iterator<Item = i64>, culprit: Option<i64>) -> Option<Self> {
        unmarked.fold(None, |rows: Option<Self>, offset| {
            let mut rows = rows.unwrap_or(Self { first: offset, last: offset, count: 0, failed_offset: None });
            rows.last = offset;
            rows.count += 1;
            rows.failed_offset = rows.failed_offset.or(culprit.filter(|culprit| *culprit == offset));
            Some(rows)
        })
    }
}

impl RetryState {
    /// Returns what to run next. `waiting`: offsets of the rows that the unit holds back from an earlier job, ascending
    /// except in queues.
    pub fn plan(&mut self, waiting: impl Iterator<Item = i64>) -> NextRun {
        let plan = self.0.as_deref_mut().and_then(|campaign| campaign.plan(waiting));
        plan.unwrap_or_else(|| {
            self.0 = None;
            NextRun::Consume { rows: usize::MAX, attempt: 1 }
        })
    }

    /// Records the failure of the planned job, and decides what follows.
    ///
    /// `unmarked`: the job's rows that are not marked, ascending except in queues; at most once, the rows that are not
    /// known to be done.
    /// These rows wait from now on, unless they are [`Decision::Skipped`].
    pub fn on_failure(
        &mut self,
        unmarked: impl Iterator<Item = i64>,
        failure: Failure,
        policy: &RouteConfig,
        rng: &mut Rng,
    ) -> Decision {
        let rows = FailedRows::from_unmarked(unmarked, failure.failed_offset);
        if failure.kind == FailureKind::Fatal || self.stage() == Some(Stage::Halted) {
            self.record_failure(Stage::Halted, failure);
            return Decision::Halt;
        }
        if let Some(FailureEpisode { stage: Stage::DeadLetters { from, failures, .. }, .. }) = self.0.as_deref_mut()
            && rows.as_ref().is_some_and(|rows| rows.first == *from && rows.count == 1)
        {
            // An error of the dead letter topic does not belong into the record's failure history.
            if let FailureKind::RetryLater(wait) = failure.kind {
                return Decision::RetryLater { wait };
            }
            *failures = failures.saturating_add(1);
            let (wait, attempt) = (backoff(&policy.retry, *failures, rng), failures.saturating_add(1));
            return Decision::Retry { wait, attempt, rows: 1 };
        }
        let Some(rows) = rows else {
            // The handler marked all rows and then raised: there is nothing to run again.
            self.0 = None;
            return match failure.kind {
                FailureKind::RetryLater(wait) => Decision::RetryLater { wait },
                _ => Decision::Retry { wait: 0, attempt: 1, rows: 0 },
            };
        };
        // At most once, too: a handler that asks for the rows again has not processed them, or has never seen them.
        if let FailureKind::RetryLater(wait) = failure.kind {
            return Decision::RetryLater { wait };
        }
        if policy.offsets == OffsetPolicy::AtMostOnce {
            return self.on_failure_at_most_once(&rows, failure, policy.dead_letter);
        }
        let whole_batch = failure.kind == FailureKind::NonRetriableBatch;
        let at_once = whole_batch || matches!(failure.kind, FailureKind::NonRetriable | FailureKind::Rejected);
        let suspects = matches!(self.stage(), Some(Stage::Bisecting { through }) if rows.last <= through);
        let failures = self.count(&rows, failure);
        let used_up = at_once || suspects || policy.retry.attempts.is_some_and(|attempts| failures >= attempts);
        if !(used_up && policy.dead_letter) {
            let attempt = failures.saturating_add(1);
            return Decision::Retry { wait: backoff(&policy.retry, failures, rng), attempt, rows: rows.count };
        }
        let culprit = rows.failed_offset.or((rows.count == 1).then_some(rows.first));
        let (stage, decision) = match culprit {
            _ if whole_batch => {
                let stage = Stage::DeadLetters { from: rows.first, through: rows.last, failures: 0 };
                (stage, Decision::DeadLetter { offset: rows.first })
            }
            Some(offset) => {
                let stage = Stage::DeadLetters { from: offset, through: offset, failures: 0 };
                (stage, Decision::DeadLetter { offset })
            }
            None => (Stage::Bisecting { through: rows.last }, Decision::Bisect { rows: bisect(rows.count) }),
        };
        self.set_stage(stage);
        decision
    }

    /// Counts runs of the record in other processes, before its first failure in this one: a share group delivers a
    /// record again after the end of its lock.
    pub fn set_earlier_runs(&mut self, runs: u32, at_ms: i64) {
        if runs > 0 && self.0.is_none() {
            let (class, message) = (String::new(), String::new());
            let history = FailureHistory { attempts: runs, class, message, first_at_ms: at_ms, last_at_ms: at_ms };
            // No offset is negative: the first failure does not count as one of these rows.
            let stage = Stage::Retrying { first: EARLIER, through: EARLIER };
            self.0 = Some(Box::new(FailureEpisode { stage, history }));
        }
    }

    /// Resets the state, because the position has moved.
    pub fn reset(&mut self) {
        self.0 = None;
    }

    /// Returns the number of the run that is next, or in flight.
    pub fn attempt(&self) -> u32 {
        self.0.as_deref().map_or(1, FailureEpisode::attempt)
    }

    fn stage(&self) -> Option<Stage> {
        self.0.as_deref().map(|campaign| campaign.stage)
    }

    fn set_stage(&mut self, stage: Stage) {
        if let Some(campaign) = self.0.as_deref_mut() {
            campaign.stage = stage;
        }
    }

    /// Decides after a failure at most once: no row runs again by itself. From the failed record on, it is unknown
    /// which rows the handler has seen.
    fn on_failure_at_most_once(&mut self, rows: &FailedRows, failure: Failure, dead_letter: bool) -> Decision {
        if !dead_letter {
            self.0 = None;
            return Decision::Skipped;
        }
        let from = rows.failed_offset.unwrap_or(rows.first);
        self.record_failure(Stage::DeadLetters { from, through: rows.last, failures: 0 }, failure);
        Decision::DeadLetter { offset: from }
    }

    /// Counts a failure. Returns how often the rows have failed.
    fn count(&mut self, rows: &FailedRows, failure: Failure) -> u32 {
        let goes_on = match self.stage() {
            Some(Stage::Retrying { first, .. }) => first == rows.first || first == EARLIER,
            Some(Stage::Bisecting { through }) => rows.last <= through,
            _ => false,
        };
        if !goes_on {
            self.0 = None;
        }
        let stage = Stage::Retrying { first: rows.first, through: rows.last };
        self.record_failure(stage, failure)
    }

    /// Adds a failure to the history. Returns the number of failures.
    fn record_failure(&mut self, stage: Stage, failure: Failure) -> u32 {
        let campaign = self.0.get_or_insert_with(|| {
            let (class, message, at) = (String::new(), String::new(), failure.at_ms);
            let trouble = FailureHistory { attempts: 0, class, message, first_at_ms: at, last_at_ms: at };
            Box::new(FailureEpisode { stage, history: trouble })
        });
        campaign.stage = stage;
        let history = &mut campaign.history;
        history.attempts = history.attempts.saturating_add(1);
        history.class = cut(failure.class, CLASS_CHARS);
        history.message = cut(failure.message, MESSAGE_CHARS);
        history.last_at_ms = failure.at_ms;
        history.attempts
    }
}

impl FailureEpisode {
    /// Returns the next run; `None`: the failed rows no longer wait.
    fn plan(&mut self, waiting: impl Iterator<Item = i64>) -> Option<NextRun> {
        let attempt = self.attempt();
        match self.stage {
            Stage::Halted => Some(NextRun::Halt),
            Stage::DeadLetters { from, through, .. } => {
                let offset = next_letter(waiting, from, through)?;
                if offset != from {
                    self.stage = Stage::DeadLetters { from: offset, through, failures: 0 };
                }
                Some(NextRun::DeadLetter { offset, history: Arc::new(self.history.clone()) })
            }
            Stage::Retrying { first, through } => {
                let mut waiting = waiting.peekable();
                waiting.next_if_eq(&first)?;
                let rows = if first == through { 0 } else { rows_through(waiting, through) };
                Some(NextRun::Consume { rows: 1 + rows, attempt })
            }
            Stage::Bisecting { through } => {
                let suspects = rows_through(waiting, through);
                (suspects > 0).then(|| NextRun::Consume { rows: bisect(suspects), attempt })
            }
        }
    }

    fn attempt(&self) -> u32 {
        match self.stage {
            Stage::DeadLetters { failures, .. } => failures.saturating_add(1),
            _ => self.history.attempts.saturating_add(1),
        }
    }
}

/// Returns how many waiting rows there are up to `through`. Where that row no longer waits, these are the rows before the
/// first larger one. The records of a queue have no order: one that was released comes behind later ones.
fn rows_through(waiting: impl Iterator<Item = i64>, through: i64) -> usize {
    let (mut rows, mut smaller, mut is_smaller) = (0, 0, true);
    for offset in waiting {
        rows += 1;
        if offset == through {
            return rows;
        }
        is_smaller &= offset < through;
        smaller += usize::from(is_smaller);
    }
    smaller
}

/// Returns the row that becomes a dead letter next: `from`, else the next one up to `through`. `None`: none waits.
fn next_letter(waiting: impl Iterator<Item = i64>, from: i64, through: i64) -> Option<i64> {
    let (mut first, mut next, mut has_through) = (None, None, false);
    for offset in waiting {
        if offset == from {
            return Some(from);
        }
        first.get_or_insert(offset);
        if (from..=through).contains(&offset) {
            next.get_or_insert(offset);
        }
        has_through |= offset == through;
    }
    next.or(first.filter(|_| has_through && from != through))
}

/// Returns how many of the suspected rows run next.
fn bisect(suspects: usize) -> usize {
    (suspects / 2).max(1)
}

/// Returns the backoff after `failures` failures. It never exceeds `max_backoff`: the value before jitter is capped so
/// low that jitter cannot exceed the limit.
fn backoff(retry: &RetryPolicy, failures: u32, rng: &mut Rng) -> Nanos {
    let factor = 1_u64.checked_shl(failures.saturating_sub(1)).unwrap_or(u64::MAX);
    let percent = u64::from(retry.jitter_percent);
    let cap = retry.max_backoff.saturating_mul(100) / (100 + percent);
    rng.jitter(retry.backoff.saturating_mul(factor).min(cap), percent).min(retry.max_backoff)
}

fn cut(mut text: String, chars: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(chars) {
        text.truncate(end);
        text.shrink_to_fit();
    }
    text
}

pub(crate) mod failure;
#[cfg(test)]
mod tests;
