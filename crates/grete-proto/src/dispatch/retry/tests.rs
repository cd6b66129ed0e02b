use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use super::*;
use crate::rng::Rng;
use crate::time::{MILLI, SECOND};

const NOTHING: [i64; 0] = [];

fn policy(attempts: Option<u32>, dead_letter: bool) -> RouteConfig {
    let retry = RetryPolicy { attempts, backoff: 100 * MILLI, max_backoff: SECOND, jitter_percent: 0 };
    RouteConfig { retry, dead_letter, ..RouteConfig::default() }
}

fn failure(kind: FailureKind, culprit: Option<i64>) -> Failure {
    Failure { failed_offset: culprit, at_ms: 5, ..Failure::new(kind, "ValueError", "no") }
}

/// Unit with one retry policy.
struct Unit {
    attempts: RetryState,
    policy: RouteConfig,
    rng: Rng,
}

impl Unit {
    fn new(policy: RouteConfig) -> Self {
        Self { attempts: RetryState::default(), policy, rng: Rng::new(1) }
    }

    fn plan(&mut self, waiting: impl IntoIterator<Item = i64>) -> NextRun {
        self.attempts.plan(waiting.into_iter())
    }

    fn fails(&mut self, rows: impl IntoIterator<Item = i64>, kind: FailureKind, culprit: Option<i64>) -> Decision {
        self.attempts.on_failure(rows.into_iter(), failure(kind, culprit), &self.policy, &mut self.rng)
    }

    fn retry(&mut self, rows: impl IntoIterator<Item = i64>) -> Decision {
        self.fails(rows, FailureKind::Retriable, None)
    }

    #[track_caller]
    fn dead_letter(&mut self, waiting: impl IntoIterator<Item = i64>) -> (i64, FailureHistory) {
        match self.plan(waiting) {
            NextRun::DeadLetter { offset, history: trouble } => (offset, trouble.as_ref().clone()),
            other => panic!("{other:?}"),
        }
    }
}

fn consume(rows: usize, attempt: u32) -> NextRun {
    NextRun::Consume { rows, attempt }
}

const CALM: NextRun = NextRun::Consume { rows: usize::MAX, attempt: 1 };

fn again(wait: Nanos, attempt: u32, rows: usize) -> Decision {
    Decision::Retry { wait, attempt, rows }
}

#[test]
fn backoff_doubles_up_to_the_maximum_and_the_attempt_is_reported() {
    let mut unit = Unit::new(policy(None, true));
    assert_eq!(unit.plan(NOTHING), CALM);
    for (failures, wait) in [(1, 100), (2, 200), (3, 400), (4, 800), (5, 1000), (6, 1000)] {
        assert_eq!(unit.retry(3..9), again(wait * MILLI, failures + 1, 6));
        assert_eq!(unit.plan(3..20), consume(6, failures + 1), "what came behind them waits");
        assert_eq!(unit.attempts.attempt(), failures + 1);
    }
    // The rows succeeded: other rows wait, or none.
    assert_eq!(unit.plan(9..20), CALM);
    assert_eq!(unit.retry(9..20), again(100 * MILLI, 2, 11));
    assert_eq!(unit.plan(NOTHING), CALM);
    assert_eq!(unit.attempts.attempt(), 1);
}

#[test]
fn waits_are_jittered_as_the_route_says() {
    let mut unit = Unit::new(policy(None, false));
    unit.policy.retry.jitter_percent = 20;
    let waits: BTreeSet<Nanos> = (0..50)
        .map(|_| match unit.retry(0..1) {
            Decision::Retry { wait, .. } => wait,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(waits.len() > 40 && waits.iter().all(|wait| (66 * MILLI..=SECOND).contains(wait)));
}

#[test]
fn the_count_is_the_first_unmarked_offsets() {
    let mut unit = Unit::new(policy(Some(3), true));
    unit.retry(0..9);
    assert_eq!(unit.plan(0..9), consume(9, 2));
    // The run that failed marked the first rows.
    assert_eq!(unit.retry(4..9), again(100 * MILLI, 2, 5));
    assert_eq!(unit.plan(4..9), consume(5, 2));
    // Another row was marked since.
    assert_eq!(unit.plan(5..9), CALM);
}

#[test]
fn the_known_failed_record_is_dead_lettered_alone_and_the_rest_starts_over() {
    let mut unit = Unit::new(policy(Some(2), true));
    unit.fails(0..9, FailureKind::Retriable, Some(4));
    assert_eq!(unit.fails(0..9, FailureKind::Retriable, Some(6)), Decision::DeadLetter { offset: 6 });
    let (offset, trouble) = unit.dead_letter(0..9);
    assert_eq!((offset, trouble.attempts), (6, 2));
    let rest = [0, 1, 2, 3, 4, 5, 7, 8];
    assert_eq!(unit.plan(rest), CALM);
    assert_eq!(unit.retry(rest), again(100 * MILLI, 2, 8));
}

#[test]
fn a_culprit_that_is_no_row_of_the_job_is_none() {
    for stranger in [-1, 2, 9] {
        let mut unit = Unit::new(policy(Some(1), true));
        assert_eq!(unit.fails(4..8, FailureKind::Retriable, Some(stranger)), Decision::Bisect { rows: 2 });
    }
}

#[test]
fn the_only_row_is_the_culprit() {
    let mut unit = Unit::new(policy(Some(1), true));
    assert_eq!(unit.retry([7]), Decision::DeadLetter { offset: 7 });
}

#[test]
fn rows_are_bisected_until_one_fails_alone() {
    let mut unit = Unit::new(policy(Some(1), true));
    // The row at 13 is at fault.
    assert_eq!(unit.retry(10..18), Decision::Bisect { rows: 4 });
    assert_eq!(unit.plan(10..30), consume(4, 2));
    assert_eq!(unit.retry(10..14), Decision::Bisect { rows: 2 });
    assert_eq!(unit.plan(10..30), consume(2, 3));
    // The rows at 10 and 11 succeed.
    assert_eq!(unit.plan(12..30), consume(1, 3));
    // The row at 12 succeeds, too.
    assert_eq!(unit.plan(13..30), consume(1, 3), "a row alone is run alone");
    assert_eq!(unit.retry([13]), Decision::DeadLetter { offset: 13 });
    let (offset, trouble) = unit.dead_letter(13..30);
    assert_eq!((offset, trouble.attempts), (13, 3));
    assert_eq!(unit.plan(14..30), CALM);
}

#[test]
fn a_half_that_knows_its_culprit_is_done() {
    let mut unit = Unit::new(policy(Some(1), true));
    unit.retry(10..18);
    unit.plan(10..30);
    assert_eq!(unit.fails(10..14, FailureKind::Retriable, Some(12)), Decision::DeadLetter { offset: 12 });
}

/// A record of a queue that was released comes behind later ones.
#[test]
fn rows_without_order_have_their_attempts_and_dead_letters() {
    let mut unit = Unit::new(policy(Some(2), true));
    let waiting = [10, 7, 9];
    assert_eq!(unit.fails(waiting, FailureKind::Retriable, Some(10)), again(100 * MILLI, 2, 3));
    assert_eq!(unit.plan([10, 7, 9, 12]), consume(3, 2), "what came behind them waits");
    assert_eq!(unit.fails(waiting, FailureKind::Retriable, Some(10)), Decision::DeadLetter { offset: 10 });
    assert_eq!(unit.dead_letter(waiting).0, 10);
    assert_eq!(unit.plan([7, 9]), CALM);
    // The record at fault is in the middle.
    let waiting = [10, 7, 9];
    unit.fails(waiting, FailureKind::Retriable, Some(7));
    assert_eq!(unit.plan(waiting), consume(3, 2));
    assert_eq!(unit.fails(waiting, FailureKind::Retriable, Some(7)), Decision::DeadLetter { offset: 7 });
    assert_eq!(unit.dead_letter(waiting).0, 7);
    assert_eq!(unit.plan([10, 9]), CALM);
    // No record is known to be at fault.
    unit.retry(waiting);
    assert_eq!(unit.plan(waiting), consume(3, 2));
    assert_eq!(unit.retry(waiting), Decision::Bisect { rows: 1 });
    assert_eq!(unit.plan(waiting), consume(1, 3));
    assert_eq!(unit.plan([7, 9]), consume(1, 3));
    // All of them become dead letters.
    let mut unit = Unit::new(policy(Some(2), true));
    unit.fails(waiting, FailureKind::NonRetriableBatch, None);
    for (waiting, offset) in [(&[10, 7, 9, 12][..], 10), (&[7, 9, 12], 7), (&[9, 12], 9)] {
        assert_eq!(unit.dead_letter(waiting.iter().copied()).0, offset);
    }
    assert_eq!(unit.plan([12]), CALM);
}

#[test]
fn bisection_ends_when_all_halves_succeed() {
    let mut unit = Unit::new(policy(Some(1), true));
    unit.retry(10..13);
    assert_eq!(unit.plan(10..30), consume(1, 2));
    assert_eq!(unit.plan(11..30), consume(1, 2));
    assert_eq!(unit.plan(12..30), consume(1, 2));
    assert_eq!(unit.plan(13..30), CALM);
}

#[test]
fn a_record_that_shall_not_be_retried_goes_at_once() {
    for kind in [FailureKind::NonRetriable, FailureKind::Rejected] {
        let mut unit = Unit::new(policy(None, true));
        assert_eq!(unit.fails(0..9, kind, Some(3)), Decision::DeadLetter { offset: 3 });
        let mut unit = Unit::new(policy(Some(5), true));
        assert_eq!(unit.fails(0..9, kind, None), Decision::Bisect { rows: 4 });
    }
}

#[test]
fn a_batch_whose_handler_breaks_its_contract_is_not_bisected() {
    let mut unit = Unit::new(policy(Some(3), true));
    assert_eq!(unit.fails(3..6, FailureKind::NonRetriableBatch, None), Decision::DeadLetter { offset: 3 });
    for offset in 3..6 {
        assert_eq!(unit.dead_letter(offset..20).0, offset);
    }
    assert_eq!(unit.plan(6..20), CALM, "rows behind the batch are not at fault");
}

#[test]
fn without_a_dead_letter_topic_nothing_is_skipped() {
    for kind in
        [FailureKind::Retriable, FailureKind::NonRetriable, FailureKind::NonRetriableBatch, FailureKind::Rejected]
    {
        let mut unit = Unit::new(policy(Some(2), false));
        for failures in 1..100 {
            let wait = (100 << (failures - 1).min(4)).min(1000);
            assert_eq!(unit.fails(0..9, kind, Some(3)), again(wait * MILLI, failures as u32 + 1, 9));
            assert_eq!(unit.plan(0..9), consume(9, failures as u32 + 1));
        }
    }
}

#[test]
fn a_dead_letter_that_fails_is_tried_for_ever() {
    let mut unit = Unit::new(policy(Some(1), true));
    unit.retry([7]);
    for failures in 1..100 {
        assert_eq!(unit.dead_letter([7, 8]).0, 7);
        let wait = (100 << (failures - 1).min(4)).min(1000);
        let kind = if failures % 2 == 0 { FailureKind::Retriable } else { FailureKind::NonRetriable };
        assert_eq!(unit.fails([7], kind, None), again(wait * MILLI, failures as u32 + 1, 1));
    }
    assert_eq!(unit.fails([7], FailureKind::RetryLater(9), None), Decision::RetryLater { wait: 9 });
    let (_, trouble) = unit.dead_letter([7, 8]);
    assert_eq!((trouble.attempts, trouble.last_at_ms), (1, 5), "the record's own trouble");
    assert_eq!(unit.plan([8]), CALM);
}

#[test]
fn later_counts_for_nothing() {
    let mut unit = Unit::new(policy(Some(2), true));
    let later = |unit: &mut Unit| unit.fails(0..4, FailureKind::RetryLater(77), None);
    assert_eq!(later(&mut unit), Decision::RetryLater { wait: 77 });
    assert_eq!(unit.plan(0..4), CALM);
    unit.retry(0..4);
    assert_eq!(later(&mut unit), Decision::RetryLater { wait: 77 });
    assert_eq!(unit.plan(0..4), consume(4, 2));
    assert_eq!(unit.retry(0..4), Decision::Bisect { rows: 2 });
    assert_eq!(unit.fails(0..2, FailureKind::RetryLater(77), None), Decision::RetryLater { wait: 77 });
    assert_eq!(unit.plan(0..4), consume(2, 3), "the same half again");
}

#[test]
fn fatal_is_the_end_until_a_reset() {
    for before in 0..3 {
        let mut unit = Unit::new(policy(Some(2), true));
        (0..before).for_each(|_| {
            unit.retry([4]);
        });
        assert_eq!(unit.fails([4], FailureKind::Fatal, None), Decision::Halt);
        assert_eq!(unit.plan([4]), NextRun::Halt);
        assert_eq!(unit.plan(NOTHING), NextRun::Halt);
        assert_eq!(unit.retry([4]), Decision::Halt);
        unit.attempts.reset();
        assert_eq!(unit.plan([4]), CALM);
    }
}

#[test]
fn what_raised_after_it_had_marked_all_is_not_run_again() {
    let mut unit = Unit::new(policy(Some(1), true));
    assert_eq!(unit.retry(NOTHING), again(0, 1, 0));
    assert_eq!(unit.fails(NOTHING, FailureKind::RetryLater(3), None), Decision::RetryLater { wait: 3 });
    assert_eq!(unit.fails(NOTHING, FailureKind::Fatal, None), Decision::Halt);
}

#[test]
fn at_most_once_runs_nothing_again() {
    for kind in [FailureKind::Retriable, FailureKind::Rejected, FailureKind::NonRetriable] {
        let once = |dead_letter| RouteConfig { offsets: OffsetPolicy::AtMostOnce, ..policy(Some(5), dead_letter) };
        let mut unit = Unit::new(once(false));
        assert_eq!(unit.fails(0..5, kind, Some(2)), Decision::Skipped);
        assert_eq!(unit.plan(NOTHING), CALM);
        let mut unit = Unit::new(once(true));
        // The failed record, and the rows behind it that the handler may or may not have seen.
        assert_eq!(unit.fails(0..5, kind, Some(3)), Decision::DeadLetter { offset: 3 });
        assert_eq!(unit.dead_letter(3..9).0, 3);
        assert_eq!(unit.retry([3]), again(100 * MILLI, 2, 1));
        assert_eq!(unit.retry([3]), again(200 * MILLI, 3, 1));
        assert_eq!(unit.dead_letter(4..9).0, 4);
        assert_eq!(unit.retry([4]), again(100 * MILLI, 2, 1), "each has its own count");
        assert_eq!(unit.dead_letter(4..9).0, 4);
        assert_eq!(unit.plan(5..9), CALM);
        assert_eq!(unit.fails(5..9, kind, None), Decision::DeadLetter { offset: 5 });
    }
}

/// A handler whose `initialize` fails has seen no record, so no record is lost.
#[test]
fn at_most_once_rows_that_are_asked_for_come_again() {
    for dead_letter in [false, true] {
        let mut unit = Unit::new(RouteConfig { offsets: OffsetPolicy::AtMostOnce, ..policy(Some(1), dead_letter) });
        for _ in 0..3 {
            assert_eq!(unit.fails(0..5, FailureKind::RetryLater(7), None), Decision::RetryLater { wait: 7 });
            assert_eq!(unit.plan(0..5), CALM);
        }
    }
}

#[test]
fn failure_history_belongs_to_the_first_offset_and_is_truncated() {
    let mut unit = Unit::new(policy(Some(3), true));
    let mut fails = |rows: &[i64], at_ms, text: String| {
        let failure = Failure { at_ms, ..Failure::new(FailureKind::Retriable, &text, &text) };
        unit.attempts.on_failure(rows.iter().copied(), failure, &unit.policy, &mut unit.rng)
    };
    fails(&[1, 2], 10, "old".to_owned());
    fails(&[2], 20, "new".to_owned());
    fails(&[2], 30, "new".to_owned());
    assert_eq!(fails(&[2], 40, "ü".repeat(5000)), Decision::DeadLetter { offset: 2 });
    let (_, trouble) = unit.dead_letter([2]);
    let (class, message) = ("ü".repeat(200), "ü".repeat(1000));
    assert_eq!(trouble, FailureHistory { attempts: 3, class, message, first_at_ms: 20, last_at_ms: 40 });
}

/// Stale state must not count as that of a dead letter: the dispatcher may ask for no plan while no rows wait.
#[test]
fn a_failure_that_was_not_planned_counts_as_a_first_one() {
    let mut unit = Unit::new(policy(Some(2), true));
    unit.fails(0..4, FailureKind::Rejected, Some(1));
    assert_eq!(unit.retry(5..9), again(100 * MILLI, 2, 4));
    let mut unit = Unit::new(policy(Some(2), true));
    unit.fails(0..4, FailureKind::NonRetriable, None);
    assert_eq!(unit.retry(5..9), again(100 * MILLI, 2, 4));
}

/// Behavior of a handler in one run.
#[derive(Debug, Clone, Copy)]
enum Style {
    /// Raises at an unknown row.
    Blind,
    /// Iterates: the first bad row is known.
    Iterates,
    /// Iterates, and the rows before the bad row are marked.
    Marks,
    /// Marks some good rows, then raises.
    MarksSome(u64),
}

fn style() -> impl Strategy<Value = Style> {
    prop_oneof![
        3 => Just(Style::Blind),
        2 => Just(Style::Iterates),
        1 => Just(Style::Marks),
        1 => any::<u64>().prop_map(Style::MarksSome),
    ]
}

/// Outcome of a unit's rows, and the number of runs.
#[derive(Debug, Default)]
struct Outcome {
    marked: BTreeSet<i64>,
    dead: BTreeMap<i64, u32>,
    runs: usize,
    /// Failing runs that marked the first row.
    moved: usize,
}

/// Runs a small model of the dispatcher: new rows come in jobs of at most `k`, and unmarked rows wait and go first.
fn run(
    unit: &mut Unit,
    rows: Vec<i64>,
    k: usize,
    mut fails: impl FnMut(i64) -> bool,
    styles: &[Style],
    limit: usize,
) -> Outcome {
    let mut fresh: VecDeque<i64> = rows.into();
    let (mut waiting, mut outcome) = (Vec::<i64>::new(), Outcome::default());
    let mut styles = styles.iter().copied().cycle();
    loop {
        let plan = unit.plan(waiting.iter().copied());
        let rows = match plan {
            NextRun::Halt => panic!("no fatal failure occurred"),
            NextRun::DeadLetter { offset, .. } => {
                assert!(!outcome.marked.contains(&offset));
                *outcome.dead.entry(offset).or_default() += 1;
                waiting.retain(|row| *row != offset);
                outcome.runs += 1;
                continue;
            }
            NextRun::Consume { .. } if waiting.is_empty() && fresh.is_empty() => return outcome,
            NextRun::Consume { .. } if waiting.is_empty() => fresh.len().min(k),
            NextRun::Consume { rows, .. } => {
                assert!(rows > 0);
                rows.min(k).min(waiting.len())
            }
        };
        if waiting.is_empty() {
            waiting.extend(fresh.drain(..rows));
        }
        let job: Vec<i64> = waiting.iter().copied().take(rows).collect();
        outcome.runs += 1;
        assert!(outcome.runs <= limit, "more than {limit} runs: {outcome:?}");
        let bad: Vec<i64> = job.iter().copied().filter(|row| fails(*row)).collect();
        let Some(&culprit) = bad.first() else {
            outcome.marked.extend(&job);
            waiting.drain(..rows);
            continue;
        };
        let (culprit, marks): (_, Vec<i64>) = match styles.next().unwrap() {
            Style::Blind => (None, vec![]),
            Style::Iterates => (Some(culprit), vec![]),
            Style::Marks => (Some(culprit), job.iter().copied().take_while(|row| *row != culprit).collect()),
            Style::MarksSome(bits) => {
                let good = job.iter().copied().filter(|row| !bad.contains(row));
                (None, good.filter(|row| bits >> (row % 64) & 1 == 1).collect())
            }
        };
        outcome.moved += usize::from(marks.first() == job.first());
        outcome.marked.extend(&marks);
        waiting.retain(|row| !marks.contains(row));
        let unmarked = job.iter().copied().filter(|row| !marks.contains(row));
        let decision = unit.fails(unmarked.clone(), FailureKind::Retriable, culprit);
        // The next plan matches the decision.
        match (decision, unit.plan(waiting.iter().copied())) {
            (Decision::Retry { attempt, rows, .. }, NextRun::Consume { rows: planned, attempt: coming }) => {
                assert_eq!((rows, attempt), (planned, coming));
                assert_eq!(rows, unmarked.count());
            }
            (Decision::Bisect { rows }, NextRun::Consume { rows: planned, .. }) => assert_eq!(rows, planned),
            (Decision::DeadLetter { offset }, NextRun::DeadLetter { offset: planned, .. }) => {
                assert_eq!(offset, planned)
            }
            other => panic!("{other:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Exactly the bad rows go to the dead letter topic, once each; all others are marked, in a bounded number of runs.
    #[test]
    fn exactly_the_poison_is_dead_lettered(
        rows in prop::collection::btree_set(0..300_i64, 1..80),
        poison in prop::collection::btree_set(0..300_i64, 0..40),
        attempts in 0..5_u32,
        k in 1..70_usize,
        styles in prop::collection::vec(style(), 1..20),
        marks in any::<bool>(),
    ) {
        let styles: Vec<Style> = styles
            .into_iter()
            .map(|style| match style {
                Style::Marks | Style::MarksSome(_) if !marks => Style::Blind,
                style => style,
            })
            .collect();
        let mut unit = Unit::new(policy(Some(attempts), true));
        let expected: BTreeSet<i64> = rows.intersection(&poison).copied().collect();
        let count = rows.len();
        let outcome = run(&mut unit, rows.iter().copied().collect(), k, |row| poison.contains(&row), &styles, 100_000);
        prop_assert!(outcome.dead.values().all(|times| *times == 1));
        prop_assert_eq!(outcome.dead.keys().copied().collect::<BTreeSet<_>>(), expected);
        prop_assert_eq!(outcome.marked, rows.difference(&poison).copied().collect::<BTreeSet<_>>());
        let n = attempts.max(1) as usize;
        let each = n + k.next_power_of_two().ilog2() as usize + 3;
        let bound = count.div_ceil(k) + outcome.dead.len() * each + outcome.moved * n;
        prop_assert!(outcome.runs <= bound, "{} runs, more than {}", outcome.runs, bound);
    }

    /// With temporary failures, each row is marked or dead-lettered in the end, once.
    #[test]
    fn nothing_is_lost_whatever_fails(
        count in 1..60_i64,
        attempts in 1..4_u32,
        k in 1..30_usize,
        odds in 1..10_u64,
        seed in any::<u64>(),
        styles in prop::collection::vec(style(), 1..20),
    ) {
        let mut unit = Unit::new(policy(Some(attempts), true));
        let mut rng = Rng::new(seed);
        let outcome = run(&mut unit, (0..count).collect(), k, |_| rng.below(10 * odds) == 0, &styles, 100_000);
        prop_assert!(outcome.dead.iter().all(|(row, times)| *times == 1 && !outcome.marked.contains(row)));
        prop_assert_eq!(outcome.dead.len() + outcome.marked.len(), usize::try_from(count).unwrap());
    }
}
