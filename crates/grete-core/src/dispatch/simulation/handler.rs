//! A user's handler: how it goes through its rows, how long that takes, and how it ends.

use std::collections::VecDeque;

use super::record::{Manner, Nature, Record};
use super::scenario::chance;
use crate::dispatch::{OffsetPolicy, RoutePolicy, Verdict};
use crate::rng::Rng;
use crate::time::{MILLI, Nanos, SECOND};

/// How a handler is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// It iterates over the batch and marks nothing: the row at which it raised is known.
    Rows,
    /// It works on columns: nobody knows which row it was.
    Columns,
    /// It iterates, and marks as it goes.
    Marks,
    /// It works on columns, and marks what it has finished.
    ColumnsMarks,
    /// A function of one record, which marks each by itself.
    Each,
}

impl Style {
    pub fn draw(rng: &mut Rng, policy: &RoutePolicy) -> Self {
        let manual = policy.offsets == OffsetPolicy::Manual;
        let styles = [Self::Rows, Self::Columns, Self::Marks, Self::ColumnsMarks, Self::Each];
        // A function of one record marks it by itself; manual marks are for those who do it themselves.
        styles[rng.below(if manual { 4 } else { 5 }) as usize]
    }

    fn knows_culprit(self) -> bool {
        matches!(self, Self::Rows | Self::Marks | Self::Each)
    }

    fn marks(self) -> bool {
        matches!(self, Self::Marks | Self::ColumnsMarks)
    }
}

/// What a handler does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Marks the rows with offsets from the first to the last.
    Mark(i64, i64),
    /// Is done with so many rows from the front.
    Progress(usize),
    /// Comes to its end.
    Return,
    /// Raises. The culprit, if it is known.
    Raise(Verdict, Option<i64>),
}

/// A handler's run, as far as it is still to come.
#[derive(Debug)]
pub struct Run {
    pub steps: VecDeque<(Nanos, Step)>,
    /// The record that really made it fail.
    pub failing: Option<i64>,
}

/// How long jobs take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Some take very long.
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

/// Plans a run of `style` over `records`. `fails` says of a flaky record whether it still does; asking counts.
pub fn run(
    style: Style,
    policy: &RoutePolicy,
    records: &[&Record],
    now: Nanos,
    pace: Pace,
    rng: &mut Rng,
    mut fails: impl FnMut(&Record) -> bool,
) -> Run {
    let company = records.len() > 1 && style != Style::Each;
    let failing = records.iter().position(|record| match record.nature {
        Nature::Good => false,
        Nature::Poison(_) => true,
        Nature::Flaky(..) => fails(record),
        Nature::Shy => company,
    });
    let passed = failing.unwrap_or(records.len());
    let end = now + pace.duration(rng);
    let mut steps = VecDeque::new();
    let at = |i: usize| now + (end - now) / (records.len() as u64 + 1) * (i as u64 + 1);
    for (i, record) in records[..passed].iter().enumerate() {
        if style == Style::Each {
            steps.push_back((at(i), Step::Progress(i + 1)));
        } else if style.marks() && !chance(rng, 20) {
            // Now and then a row is left out, and now and then the one before is marked along.
            let from = if i > 0 && chance(rng, 20) { records[i - 1].offset } else { record.offset };
            steps.push_back((at(i), Step::Mark(from, record.offset)));
        }
    }
    let end = steps.back().map_or(end, |(at, _)| end.max(*at));
    let last = match failing {
        None => Step::Return,
        Some(i) => {
            let verdict = match records[i].nature {
                _ if pace == Pace::Rough && rng.below(50) == 0 => Verdict::Fatal,
                Nature::Poison(manner) | Nature::Flaky(_, manner) => verdict(manner, rng),
                Nature::Good | Nature::Shy => Verdict::Retry,
            };
            Step::Raise(verdict, style.knows_culprit().then(|| records[i].offset))
        }
    };
    if last == Step::Return && policy.offsets == OffsetPolicy::Manual {
        // What is open still is marked at the end, or later: see the world.
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

fn verdict(manner: Manner, rng: &mut Rng) -> Verdict {
    match manner {
        Manner::Raise => Verdict::Retry,
        Manner::GiveUp => Verdict::GiveUp,
        Manner::Reject => Verdict::Reject,
        Manner::Later => Verdict::Later(rng.below(5000) * MILLI),
    }
}
