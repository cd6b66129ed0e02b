//! What a unit's failures have come to: how often the rows in front have failed, which of them are suspects, which one is
//! to blame.
//!
//! - The count belongs to the first unmarked offset. A success needs no call: rows that wait no longer are over, and
//!   [`Attempts::plan`] sees it.
//! - When the attempts are used up, a record that is known to have failed goes to the dead letter topic, alone. If none
//!   is, the unmarked rows of the failed job are suspects, and run in halves: one that fails is halved, one that succeeds
//!   leaves the other to be halved, until one row fails alone. What is left then goes on with a fresh count.
//! - Of jobs of `k` rows and `n` attempts each record that fails whatever is done costs at most `n + log2(k) + 3` runs
//!   (its dead letter and the rest's run included, the logarithm rounded up), and `n` more for each time that a failing
//!   run has marked the first row.

use std::sync::Arc;

use super::failure::{Decision, Failure, Trouble, Verdict};
use super::route::{OffsetPolicy, RetryPolicy, RoutePolicy};
use crate::rng::Rng;
use crate::time::Nanos;

/// Characters of an exception's class that are kept.
const CLASS_CHARS: usize = 200;
/// Characters of an exception's message that are kept.
const MESSAGE_CHARS: usize = 1000;

/// The failures of one unit. Costs nothing while nothing fails.
#[derive(Debug, Default)]
pub struct Attempts(Option<Box<Campaign>>);

/// What a unit runs next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// A consume job.
    Consume {
        /// At most the first so many of the waiting rows, and nothing behind them; `usize::MAX`: as the route allows.
        rows: usize,
        /// The run's number.
        attempt: u32,
    },
    /// A dead letter job, of this waiting row alone. At most once: the waiting rows before it are dropped.
    DeadLetter {
        /// The row's.
        offset: i64,
        /// What it has been through.
        trouble: Arc<Trouble>,
    },
    /// Nothing.
    Hold,
}

#[derive(Debug)]
struct Campaign {
    stage: Stage,
    trouble: Trouble,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Rows up to `through` have failed together; the count is that of `first`.
    Again { first: i64, through: i64 },
    /// One of the rows up to `through` is to blame.
    Suspects { through: i64 },
    /// These rows go to the dead letter topic one by one; `failures`: runs of the front one's job that failed.
    DeadLetters { from: i64, through: i64, failures: u32 },
    /// Nothing runs any more.
    Held,
}

/// The unmarked rows of a failed job.
struct Rows {
    first: i64,
    last: i64,
    count: usize,
    /// The culprit, if it is one of them.
    culprit: Option<i64>,
}

impl Rows {
    fn of(unmarked: impl Iterator<Item = i64>, culprit: Option<i64>) -> Option<Self> {
        unmarked.fold(None, |rows: Option<Self>, offset| {
            let mut rows = rows.unwrap_or(Self { first: offset, last: offset, count: 0, culprit: None });
            rows.last = offset;
            rows.count += 1;
            rows.culprit = rows.culprit.or(culprit.filter(|culprit| *culprit == offset));
            Some(rows)
        })
    }
}

impl Attempts {
    /// What to run next. `waiting`: offsets of the rows that the unit holds back from a job before, ascending.
    pub fn plan(&mut self, waiting: impl Iterator<Item = i64>) -> Plan {
        let plan = self.0.as_deref_mut().and_then(|campaign| campaign.plan(waiting));
        plan.unwrap_or_else(|| {
            self.0 = None;
            Plan::Consume { rows: usize::MAX, attempt: 1 }
        })
    }

    /// The planned job failed. `unmarked`: its rows that are not marked, ascending; at most once, those that are not known
    /// to be done. They wait from now on, unless they are [`Decision::Skipped`].
    pub fn failed(
        &mut self,
        unmarked: impl Iterator<Item = i64>,
        failure: Failure,
        policy: &RoutePolicy,
        rng: &mut Rng,
    ) -> Decision {
        let rows = Rows::of(unmarked, failure.culprit);
        if failure.verdict == Verdict::Fatal || self.stage() == Some(Stage::Held) {
            self.take_down(Stage::Held, failure);
            return Decision::Hold;
        }
        if let Some(Campaign { stage: Stage::DeadLetters { from, failures, .. }, .. }) = self.0.as_deref_mut()
            && rows.as_ref().is_some_and(|rows| rows.first == *from && rows.count == 1)
        {
            // What is wrong with the dead letter topic is not written down as the record's trouble.
            if let Verdict::Later(wait) = failure.verdict {
                return Decision::Later { wait };
            }
            *failures = failures.saturating_add(1);
            let (wait, attempt) = (wait(&policy.retry, *failures, rng), failures.saturating_add(1));
            return Decision::Retry { wait, attempt, rows: 1 };
        }
        let Some(rows) = rows else {
            // All marked, then raised: there is nothing to run again.
            self.0 = None;
            return match failure.verdict {
                Verdict::Later(wait) => Decision::Later { wait },
                _ => Decision::Retry { wait: 0, attempt: 1, rows: 0 },
            };
        };
        // At most once, too: whoever asks for the rows again has not processed them, or never got to see them.
        if let Verdict::Later(wait) = failure.verdict {
            return Decision::Later { wait };
        }
        if policy.offsets == OffsetPolicy::AtMostOnce {
            return self.failed_once(&rows, failure, policy.dead_letter);
        }
        let at_once = matches!(failure.verdict, Verdict::GiveUp | Verdict::Reject);
        let suspects = matches!(self.stage(), Some(Stage::Suspects { through }) if rows.last <= through);
        let failures = self.count(&rows, failure);
        let used_up = at_once || suspects || policy.retry.attempts.is_some_and(|attempts| failures >= attempts);
        if !(used_up && policy.dead_letter) {
            let attempt = failures.saturating_add(1);
            return Decision::Retry { wait: wait(&policy.retry, failures, rng), attempt, rows: rows.count };
        }
        let culprit = rows.culprit.or((rows.count == 1).then_some(rows.first));
        let (stage, decision) = match culprit {
            Some(offset) => {
                let stage = Stage::DeadLetters { from: offset, through: offset, failures: 0 };
                (stage, Decision::DeadLetter { offset })
            }
            None => (Stage::Suspects { through: rows.last }, Decision::Halve { rows: half(rows.count) }),
        };
        self.set_stage(stage);
        decision
    }

    /// Forgets all: the position has moved.
    pub fn reset(&mut self) {
        self.0 = None;
    }

    /// The number of the run that is coming, or under way.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.0.as_deref().map_or(1, Campaign::attempt)
    }

    fn stage(&self) -> Option<Stage> {
        self.0.as_deref().map(|campaign| campaign.stage)
    }

    fn set_stage(&mut self, stage: Stage) {
        if let Some(campaign) = self.0.as_deref_mut() {
            campaign.stage = stage;
        }
    }

    /// At most once: no row runs again by itself. From the culprit on, nobody knows what the handler has come to see.
    fn failed_once(&mut self, rows: &Rows, failure: Failure, dead_letter: bool) -> Decision {
        if !dead_letter {
            self.0 = None;
            return Decision::Skipped;
        }
        let from = rows.culprit.unwrap_or(rows.first);
        self.take_down(Stage::DeadLetters { from, through: rows.last, failures: 0 }, failure);
        Decision::DeadLetter { offset: from }
    }

    /// Counts a failure in; returns how often the rows have failed.
    fn count(&mut self, rows: &Rows, failure: Failure) -> u32 {
        let goes_on = match self.stage() {
            Some(Stage::Again { first, .. }) => first == rows.first,
            Some(Stage::Suspects { through }) => rows.last <= through,
            _ => false,
        };
        if !goes_on {
            self.0 = None;
        }
        let stage = Stage::Again { first: rows.first, through: rows.last };
        self.take_down(stage, failure)
    }

    /// Writes a failure down; returns how many there are.
    fn take_down(&mut self, stage: Stage, failure: Failure) -> u32 {
        let campaign = self.0.get_or_insert_with(|| {
            let (class, message, at) = (String::new(), String::new(), failure.at_ms);
            let trouble = Trouble { attempts: 0, class, message, first_at_ms: at, last_at_ms: at };
            Box::new(Campaign { stage, trouble })
        });
        campaign.stage = stage;
        let trouble = &mut campaign.trouble;
        trouble.attempts = trouble.attempts.saturating_add(1);
        trouble.class = cut(failure.class, CLASS_CHARS);
        trouble.message = cut(failure.message, MESSAGE_CHARS);
        trouble.last_at_ms = failure.at_ms;
        trouble.attempts
    }
}

impl Campaign {
    /// `None`: the rows that it was about wait no longer.
    fn plan(&mut self, mut waiting: impl Iterator<Item = i64>) -> Option<Plan> {
        let attempt = self.attempt();
        match self.stage {
            Stage::Held => Some(Plan::Hold),
            Stage::DeadLetters { from, through, .. } => {
                let offset = waiting.find(|offset| *offset >= from).filter(|offset| *offset <= through)?;
                if offset != from {
                    self.stage = Stage::DeadLetters { from: offset, through, failures: 0 };
                }
                Some(Plan::DeadLetter { offset, trouble: Arc::new(self.trouble.clone()) })
            }
            Stage::Again { first, through } => {
                let mut waiting = waiting.take_while(|offset| *offset <= through);
                waiting.next().filter(|offset| *offset == first)?;
                Some(Plan::Consume { rows: 1 + waiting.count(), attempt })
            }
            Stage::Suspects { through } => {
                let suspects = waiting.take_while(|offset| *offset <= through).count();
                (suspects > 0).then(|| Plan::Consume { rows: half(suspects), attempt })
            }
        }
    }

    fn attempt(&self) -> u32 {
        match self.stage {
            Stage::DeadLetters { failures, .. } => failures.saturating_add(1),
            _ => self.trouble.attempts.saturating_add(1),
        }
    }
}

/// How many of so many suspects run next.
fn half(suspects: usize) -> usize {
    (suspects / 2).max(1)
}

/// The wait after so many failures. The longest is a promise: what is jittered stops short of it by as much as jitter adds.
fn wait(retry: &RetryPolicy, failures: u32, rng: &mut Rng) -> Nanos {
    let factor = 1_u64.checked_shl(failures.saturating_sub(1)).unwrap_or(u64::MAX);
    let percent = u64::from(retry.jitter_percent);
    let cap = retry.longest.saturating_mul(100) / (100 + percent);
    rng.jitter(retry.first.saturating_mul(factor).min(cap), percent).min(retry.longest)
}

fn cut(mut text: String, chars: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(chars) {
        text.truncate(end);
        text.shrink_to_fit();
    }
    text
}

#[cfg(test)]
mod tests;
