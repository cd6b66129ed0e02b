//! Simulated handler: its order of actions, its duration and its outcome.

use std::collections::VecDeque;

use super::record::{FailureMode, Record, RecordBehavior};
use super::scenario::chance;
use crate::dispatch::{FailureKind, OffsetPolicy, RouteConfig};
use crate::rng::Rng;
use crate::time::{MILLI, Nanos, SECOND};

/// Style of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Iterates over the batch and marks nothing: the row at which it raised is known.
    Rows,
    /// Processes columns: the row at which it raised is unknown.
    Columns,
    /// Iterates over the batch and marks rows one by one.
    Marks,
    /// Processes columns, and marks the rows that it has finished.
    ColumnsMarks,
    /// Function of one record; the framework reports each record as done.
    Each,
}

impl Style {
    pub fn draw(rng: &mut Rng, policy: &RouteConfig) -> Self {
        let manual = policy.offsets == OffsetPolicy::Manual;
        let styles = [Self::Rows, Self::Columns, Self::Marks, Self::ColumnsMarks, Self::Each];
        // A function of one record makes no marks of its own, so it does not occur with manual offsets.
        styles[rng.below(if manual { 4 } else { 5 }) as usize]
    }

    fn knows_culprit(self) -> bool {
        matches!(self, Self::Rows | Self::Marks | Self::Each)
    }

    fn marks(self) -> bool {
        matches!(self, Self::Marks | Self::ColumnsMarks)
    }
}

/// Next action of a handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Marks the rows from the first to the last offset.
    Mark(i64, i64),
    /// Produces a record while processing the record at this offset.
    Produce(i64),
    /// Reports this many leading rows as done.
    Progress(usize),
    /// Returns.
    Return,
    /// Raises; with the offset of the failed record, if known.
    Raise(FailureKind, Option<i64>),
}

/// Remaining part of a handler's run.
#[derive(Debug)]
pub struct Run {
    pub steps: VecDeque<(Nanos, Step)>,
    /// Offset of the record that makes the run fail.
    pub failing: Option<i64>,
}

/// Durations of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Some jobs take very long.
    Rough,
    Brisk,
}

impl Pace {
    pub fn duration(self, rng: &mut Rng) -> Nanos {
        match (self, rng.below(100)) {
            (Self::Rough, 0) => (5 + rng.below(35)) * SECOND,
            (Self::Rough, 1..=8) => rng.below(3000) * MILLI,
            (_, 9..=40) => 0,
            _ => rng.below(50) * MILLI,
        }
    }
}

/// Plans a run of `style` over `records`. `fails` returns whether a flaky record still fails; each call counts.
#[allow(clippy::too_many_arguments)]
pub fn run(
    style: Style,
    policy: &RouteConfig,
    records: &[&Record],
    now: Nanos,
    pace: Pace,
    rng: &mut Rng,
    produces: u64,
    mut fails: impl FnMut(&Record) -> bool,
) -> Run {
    let company = records.len() > 1 && style != Style::Each;
    let failing = records.iter().position(|record| match record.nature {
        RecordBehavior::Good => false,
        RecordBehavior::Poison(_) => true,
        RecordBehavior::Flaky(..) => fails(record),
        RecordBehavior::FailsInBatch => company,
    });
    let passed = failing.unwrap_or(records.len());
    let end = now + pace.duration(rng);
    let mut steps = VecDeque::new();
    let at = |i: usize| now + (end - now) / (records.len() as u64 + 1) * (i as u64 + 1);
    for (i, record) in records[..passed].iter().enumerate() {
        if chance(rng, produces) {
            steps.push_back((at(i), Step::Produce(record.offset)));
        }
        if style == Style::Each {
            steps.push_back((at(i), Step::Progress(i + 1)));
        } else if style.marks() && !chance(rng, 20) {
            // Some rows are not marked, and sometimes the row before is marked again.
            let from = if i > 0 && chance(rng, 20) { records[i - 1].offset } else { record.offset };
            steps.push_back((at(i), Step::Mark(from, record.offset)));
        }
    }
    if let Some(failing) = failing.filter(|_| chance(rng, produces)) {
        steps.push_back((end, Step::Produce(records[failing].offset)));
    }
    let end = steps.back().map_or(end, |(at, _)| end.max(*at));
    let last = match failing {
        None => Step::Return,
        Some(i) => {
            let kind = match records[i].nature {
                _ if pace == Pace::Rough && rng.below(50) == 0 => FailureKind::Fatal,
                RecordBehavior::Poison(manner) | RecordBehavior::Flaky(_, manner) => failure_kind(manner, rng),
                RecordBehavior::Good | RecordBehavior::FailsInBatch => FailureKind::Retriable,
            };
            Step::Raise(kind, style.knows_culprit().then(|| records[i].offset))
        }
    };
    if last == Step::Return && policy.offsets == OffsetPolicy::Manual {
        // The handler marks the open rows at its end, or later: see `on_handler_returned`.
        let open = records.iter().map(|record| record.offset);
        if let (Some(first), Some(last)) = (open.clone().min(), open.max())
            && !chance(rng, 40)
        {
            steps.push_back((end, Step::Mark(first, last)));
        }
    }
    steps.push_back((end, last));
    Run { steps, failing: failing.map(|i| records[i].offset) }
}

fn failure_kind(manner: FailureMode, rng: &mut Rng) -> FailureKind {
    match manner {
        FailureMode::Raise => FailureKind::Retriable,
        FailureMode::GiveUp => FailureKind::NonRetriable,
        FailureMode::Reject => FailureKind::Rejected,
        FailureMode::Later => FailureKind::RetryLater(rng.below(5000) * MILLI),
    }
}
