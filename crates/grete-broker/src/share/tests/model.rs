//! Random acquisitions, acknowledgements and ends of locks, on a partition and on a naive model with one entry an offset.

use std::sync::Arc;

use proptest::prelude::*;

use crate::share::partition::{AckBatch, AckKind, AckRules, BatchSpan, Claim, SharePartition};

const LIMIT: i16 = 3;
const LOCK_MS: i64 = 10;
const MAX_LOCKS: i64 = 12;
/// Offsets of the log, in batches of three.
const END: i64 = 60;

#[derive(Debug, Clone)]
enum Op {
    Acquire {
        member: u8,
        max_records: i64,
    },
    Acknowledge {
        member: u8,
        first: i64,
        count: i64,
        kind: u8,
    },
    Release(u8),
    NewLeader,
    LogStart(i64),
    Pass(i64),
    /// The broker starts again: the changes so far are all that is left.
    Restart,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..3u8, 1..6i64).prop_map(|(member, max_records)| Op::Acquire { member, max_records }),
        8 => (0..3u8, 0..14i64, 1..4i64, 0..5u8)
            .prop_map(|(member, first, count, kind)| Op::Acknowledge { member, first, count, kind }),
        1 => (0..3u8).prop_map(Op::Release),
        1 => Just(Op::NewLeader),
        1 => (0..4i64).prop_map(Op::LogStart),
        3 => (1..8i64).prop_map(Op::Pass),
        1 => Just(Op::Restart),
    ]
}

#[derive(Debug, Clone, PartialEq)]
enum Record {
    Available(i16),
    Acquired(i16, u8, i64),
    Done,
}

/// Records from offset 0 on, as far as they were ever acquired.
#[derive(Debug, Default, Clone)]
struct Model {
    records: Vec<Record>,
    start: i64,
}

impl Model {
    fn advance(&mut self) {
        while self.records.get(self.start as usize) == Some(&Record::Done) {
            self.start += 1;
        }
    }

    fn unlock(&mut self, is_due: impl Fn(u8, i64) -> bool, to: impl Fn(i16) -> Record) {
        for record in &mut self.records {
            if let Record::Acquired(deliveries, member, ends) = *record
                && is_due(member, ends)
            {
                *record = to(deliveries);
            }
        }
        self.advance();
    }

    fn acquire(&mut self, member: u8, max_records: i64, ends: i64) -> Vec<(i64, i16)> {
        let mut acquired = Vec::new();
        for offset in self.start..END {
            if acquired.len() as i64 >= max_records {
                break;
            }
            let deliveries = match self.records.get(offset as usize) {
                Some(Record::Available(deliveries)) => *deliveries,
                Some(_) => continue,
                None if offset - self.start < MAX_LOCKS => 0,
                None => break,
            };
            if offset as usize == self.records.len() {
                self.records.push(Record::Done);
            }
            self.records[offset as usize] = Record::Acquired(deliveries + 1, member, ends);
            acquired.push((offset, deliveries + 1));
        }
        acquired
    }

    fn acknowledge(&mut self, member: u8, first: i64, last: i64, kind: AckKind, ends: i64) -> bool {
        let offsets = first.max(self.start)..=last;
        let has = |offset: i64| matches!(self.records.get(offset as usize), Some(Record::Acquired(_, owner, _)) if *owner == member);
        if !offsets.clone().all(has) {
            return false;
        }
        for offset in offsets {
            let record = &mut self.records[offset as usize];
            let Record::Acquired(deliveries, ..) = *record else { continue };
            *record = match kind {
                AckKind::Renew => Record::Acquired(deliveries, member, ends),
                AckKind::Release if deliveries < LIMIT => Record::Available(deliveries),
                _ => Record::Done,
            };
        }
        self.advance();
        true
    }
}

fn name(member: u8) -> Arc<str> {
    format!("m{member}").into()
}

fn batches(from: i64) -> Vec<BatchSpan> {
    let spans = (0..END / 3).map(|batch| BatchSpan { first: batch * 3, last: batch * 3 + 2, is_aborted: false });
    spans.filter(|span| span.last >= from).collect()
}

/// Runs the operations. Checks after each one that the partition and the model agree.
fn run(ops: Vec<Op>) -> Result<(), TestCaseError> {
    let (mut partition, mut model) = (SharePartition::new(0, 1), Model::default());
    // What the journal has, as a broker would restore it.
    let mut stored = SharePartition::new(0, -1);
    let (mut now, mut epoch) = (0, 1);
    for op in ops {
        let changed = match op {
            Op::Acquire { member, max_records } => {
                let lock_ends = now + LOCK_MS;
                let claim =
                    Claim { member: name(member), lock_ends, max_records, whole_batches: false, max_locks: MAX_LOCKS };
                let from = partition.first_acquirable(MAX_LOCKS);
                let (acquired, done) = from.map(|from| partition.acquire(&claim, &batches(from))).unwrap_or_default();
                let each =
                    acquired.iter().flat_map(|range| (range.first..=range.last).map(|at| (at, range.deliveries)));
                let each: Vec<(i64, i16)> = each.collect();
                prop_assert_eq!(each, model.acquire(member, max_records, lock_ends));
                done
            }
            Op::Acknowledge { member, first, count, kind } => {
                let first = partition.start().saturating_sub(2).max(0) + first;
                let kind = AckKind::from_number(kind as i8).unwrap();
                let batch = AckBatch { first, last: first + count - 1, kinds: vec![kind] };
                let rules = AckRules { lock_ends: now + LOCK_MS, delivery_count_limit: LIMIT };
                let result = partition.acknowledge(&name(member), &[batch], rules);
                let expected = model.acknowledge(member, first, first + count - 1, kind, now + LOCK_MS);
                prop_assert_eq!(result.is_ok(), expected);
                result.unwrap_or_default()
            }
            Op::Release(member) => {
                let to = |deliveries| if deliveries < LIMIT { Record::Available(deliveries) } else { Record::Done };
                model.unlock(|owner, _| owner == member, to);
                partition.release_member(&name(member), LIMIT)
            }
            Op::NewLeader => {
                epoch += 1;
                model.unlock(|_, _| true, |deliveries| Record::Available(deliveries - 1));
                partition.follow(epoch, 0)
            }
            Op::LogStart(ahead) => {
                let log_start = partition.start() + ahead;
                for offset in model.start..log_start {
                    match model.records.get_mut(offset as usize) {
                        Some(record) => *record = Record::Done,
                        None => model.records.push(Record::Done),
                    }
                }
                model.advance();
                partition.follow(epoch, log_start)
            }
            Op::Pass(ms) => {
                now += ms;
                let to = |deliveries| if deliveries < LIMIT { Record::Available(deliveries) } else { Record::Done };
                model.unlock(|_, ends| ends <= now, to);
                partition.expire(now, LIMIT)
            }
            Op::Restart => {
                partition = stored.clone();
                epoch += 1;
                partition.follow(epoch, 0);
                // Deliveries that were not stored do not count, and what was never stored was never in flight.
                model.unlock(|_, _| true, |deliveries| Record::Available(deliveries - 1));
                model.records.truncate(partition.next().max(partition.start()) as usize);
                Vec::new()
            }
        };
        stored.restore(partition.start(), &changed);
        prop_assert_eq!(partition.start(), model.start);
        prop_assert_eq!(partition.next(), model.start.max(model.records.len() as i64));
        let done = model.records[model.start.min(model.records.len() as i64) as usize..].iter();
        prop_assert_eq!(partition.done(), done.filter(|record| **record == Record::Done).count() as i64);
        prop_assert_eq!(stored.start(), partition.start(), "the stored changes lead to the same start");
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_partition_behaves_as_its_model(ops in prop::collection::vec(op(), 1..60)) {
        run(ops)?;
    }
}
