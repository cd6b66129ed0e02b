//! Tests of exactly-once jobs: which staged records a transaction has, beside which offsets.

use grete_wire::error_code::ErrorCode;
use grete_wire::records::ProducerRecord;

use super::*;
use crate::group::{CommitOffset, TransactionResult};
use crate::producer::{
    BatchPromise, Outcome, RefusedRecord, StagedCommitResult, StagedOutputs, StagedRecord, StagingBudget,
    TransactionCause, TransactionError,
};

const COMMITTED: StagedCommitResult = StagedCommitResult::Committed;

struct Transactions {
    world: Harness,
    budget: Arc<StagingBudget>,
    number: u32,
}

fn try_stage(job: &JobState, value: &str, promised: bool) -> StageResult {
    let record = ProducerRecord { timestamp: 1, key: None, value: Some(value.as_bytes()), headers: &[] };
    let topic = "out".into();
    job.stage(&StagedRecord { topic: &topic, partition: None, record: &record, encoded: 100 }, promised)
}

fn stage(lease: &Lease, value: &str) -> (Arc<BatchPromise>, u32) {
    try_stage(&lease.shared, value, true).expect("there is room").expect("a promise")
}

fn aborted(cause: TransactionCause, refused: Vec<RefusedRecord>) -> StagedCommitResult {
    StagedCommitResult::Aborted { cause: Arc::new(cause), refused }
}

impl Transactions {
    fn new() -> Self {
        let mut world = Harness::new();
        let budget = world.dispatch.set_transactional(world.client, 1 << 20);
        Self { world, budget, number: 0 }
    }

    /// Returns what a commit would have now: offsets by partition.
    fn offsets(&mut self) -> Vec<CommitOffset> {
        let found = self.world.dispatch.take_committables(self.world.client, false);
        let offset = |found: Committable| CommitOffset {
            tp: found.tp,
            topic_id: 0,
            offset: found.offset,
            leader_epoch: found.leader_epoch,
            metadata: found.metadata,
            epoch: found.assignment_epoch,
        };
        found.into_iter().map(offset).collect()
    }

    /// Begins a transaction with these offsets. Returns the number of its records.
    fn begin(&mut self, offsets: &[CommitOffset]) -> usize {
        self.begin_with(&mut offsets.to_vec())
    }

    /// Begins a transaction, which leaves out offsets of partitions that were lost.
    fn begin_with(&mut self, offsets: &mut Vec<CommitOffset>) -> usize {
        self.number += 1;
        let outputs = self.world.dispatch.begin_transaction(self.world.client, self.number, offsets);
        outputs.iter().map(|outputs: &Arc<StagedOutputs>| outputs.records().len()).sum()
    }

    fn end(&mut self, result: &StagedCommitResult) -> TransactionEnd {
        self.world.dispatch.end_transaction(self.world.now, self.world.client, self.number, result)
    }

    /// Commits. Returns the offset of each partition, and the number of records.
    fn commit(&mut self) -> (Vec<(i32, i64)>, usize) {
        let offsets = self.offsets();
        let records = self.begin(&offsets);
        assert_eq!(self.end(&COMMITTED).result, TransactionResult::Committed);
        (offsets.into_iter().map(|offset| (offset.tp.partition, offset.offset)).collect(), records)
    }
}

#[test]
fn a_transaction_has_the_offsets_of_ended_jobs_and_their_records() {
    let mut it = Transactions::new();
    let lane = it.world.lane(3);
    it.world.push(lane, 0, 6);
    let first = it.world.take(0).expect("a job");
    stage(&first, "a");
    stage(&first, "b");
    assert_eq!(it.world.dispatch.take_commit_demand(it.world.client), TransactionDemand::Nothing);
    it.world.done(first);
    assert_eq!(it.world.dispatch.take_commit_demand(it.world.client), TransactionDemand::Due);
    let second = it.world.take(0).expect("a job");
    stage(&second, "c");
    second.shared.set_completed_rows(2);
    assert_eq!(it.commit(), (vec![(0, 3)], 2), "a running job counts at its end, whatever it has reported");
    it.world.done(second);
    assert_eq!(it.commit(), (vec![(0, 6)], 1));
    assert_eq!((it.commit(), it.budget.used(), it.budget.ended()), ((vec![], 0), 0, 0));
}

#[test]
fn an_abort_keeps_the_records_for_the_next_transaction() {
    let mut it = Transactions::new();
    let lane = it.world.lane(1);
    it.world.push(lane, 0, 2);
    let job = it.world.take(0).expect("a job");
    stage(&job, "a");
    it.world.done(job);
    let offsets = it.offsets();
    assert_eq!(it.begin(&offsets), 1);
    let end = it.end(&aborted(TransactionCause::OffsetsUnknown, Vec::new()));
    assert!(matches!(end.result, TransactionResult::Aborted(_)) && end.discarded.is_empty() && end.fatal.is_none());
    let job = it.world.take(0).expect("a job");
    stage(&job, "b");
    it.world.done(job);
    assert_eq!(it.commit(), (vec![(0, 2)], 2));
}

#[test]
fn a_member_that_was_replaced_is_named() {
    let mut it = Transactions::new();
    it.world.lane(1);
    assert_eq!(it.begin(&[]), 0);
    let code = ErrorCode::ILLEGAL_GENERATION;
    let end = it.end(&aborted(TransactionCause::MemberReplaced { group: "g".into(), code }, Vec::new()));
    assert_eq!(end.result, TransactionResult::MemberReplaced(code));
}

#[test]
fn a_job_that_raises_drops_what_it_has_staged_beyond_its_progress() {
    let mut it = Transactions::new();
    let lane = it.world.lane(4);
    it.world.push(lane, 0, 4);
    let job = it.world.take(0).expect("a job");
    let mut promises = Vec::new();
    for row in 0..3 {
        promises.push(stage(&job, "x"));
        stage(&job, "y");
        if row < 2 {
            job.shared.set_completed_rows(row + 1);
        }
    }
    it.world.end(job, failed_with(FailureKind::RetryLater(0), Some(2)));
    assert_eq!(it.commit(), (vec![(0, 2)], 4), "two records of each of the two rows");
    let dropped = &promises[2];
    assert_eq!(dropped.0.result(dropped.1).map(|result| result.outcome), Some(Outcome::Aborted));
    let again = it.world.take(0).expect("the rest");
    assert_eq!(offsets(&again), [2, 3]);
    stage(&again, "z");
    it.world.end(again, failed());
    assert_eq!((it.commit().1, it.budget.used()), (0, 0));
}

#[test]
fn marks_count_at_the_end_of_the_job() {
    let mut it = Transactions::new();
    let lane = it.world.lane(4);
    it.world.push(lane, 0, 4);
    let job = it.world.take(0).expect("a job");
    stage(&job, "a");
    assert_eq!(job.shared.mark(0, 0).expect("not fenced"), 1);
    stage(&job, "b");
    assert_eq!(it.commit().1, 0);
    it.world.end(job, failed_with(FailureKind::RetryLater(0), None));
    assert_eq!(it.commit(), (vec![(0, 1)], 1), "what was staged before the mark");
}

#[test]
fn an_offset_divides_no_job() {
    let mut it = Transactions::new();
    let lane = it.world.lane_with(RouteConfig { key_slots: 64, max_messages: 10, ..by_key() });
    it.world.push_keys(lane, 0, &["a", "b", "c", "a", "b", "d"]);
    let mut jobs = it.world.take_all();
    jobs.sort_by_key(|job| offsets(job)[0]);
    let rows: Vec<_> = jobs.iter().map(offsets).collect();
    assert_eq!(rows, [vec![0, 3], vec![1, 4], vec![2], vec![5]]);
    jobs.iter().for_each(|job| drop(stage(job, "x")));
    let mut jobs = jobs.into_iter();
    let (a, b, c, d) = (jobs.next().unwrap(), jobs.next().unwrap(), jobs.next().unwrap(), jobs.next().unwrap());
    it.world.done(d);
    it.world.done(a);
    assert_eq!(it.commit().1, 0, "0 and 3 are of one job, and 1 is open");
    it.world.done(b);
    assert_eq!(it.commit().1, 0, "2 is open: 3 and 4 are behind it");
    it.world.done(c);
    assert_eq!(it.commit(), (vec![(0, 6)], 4));
}

/// Batches of two keys that always overlap: 0 and 2, 1 and 4, 3 and 6, 5 and 8 ...
#[test]
fn jobs_that_always_overlap_are_committed_at_a_barrier() {
    let mut it = Transactions::new();
    let lane = it.world.lane_with(RouteConfig { key_slots: 64, max_messages: 2, max_in_flight: 8, ..by_key() });
    let keys: Vec<&str> = (0..200).map(|at| if at == 0 || at / 2 % 2 == 1 { "a" } else { "b" }).collect();
    it.world.push_keys(lane, 0, &keys);
    let (mut running, mut committed, mut records) = (it.world.take_all(), Vec::new(), 0);
    while !running.is_empty() {
        running.sort_by_key(|job| offsets(job)[0]);
        let job = running.remove(0);
        stage(&job, "x");
        it.world.done(job);
        running.extend(it.world.take_all());
        let (offsets, found) = it.commit();
        records += found;
        committed.extend(offsets.into_iter().map(|(_, offset)| offset));
        assert!(it.budget.used() < 40 * 250, "what cannot be committed yet is bounded");
    }
    assert!(committed.is_sorted() && committed.last() == Some(&200), "{committed:?}");
    assert!(committed.len() > 8 && records >= 100, "{committed:?}: {records}");
}

#[test]
fn marks_divide_no_job_either() {
    let mut it = Transactions::new();
    let lane = it.world.lane_with(RouteConfig { key_slots: 64, max_messages: 10, ..by_key() });
    it.world.push_keys(lane, 0, &["a", "b", "a"]);
    let mut jobs = it.world.take_all();
    jobs.sort_by_key(|job| offsets(job)[0]);
    let (a, b) = (jobs.remove(0), jobs.remove(0));
    for at in [0, 2] {
        stage(&a, "x");
        a.shared.mark(at, at).expect("not fenced");
    }
    it.world.done(a);
    assert_eq!(it.commit().1, 0, "1 is open, and 0 and 2 are of one job");
    it.world.done(b);
    assert_eq!(it.commit(), (vec![(0, 3)], 2));
}

#[test]
fn rows_that_are_reported_one_by_one_are_committed_one_by_one() {
    let mut it = Transactions::new();
    let lane = it.world.lane_with(RouteConfig { key_slots: 64, max_messages: 10, ..by_key() });
    it.world.push_keys(lane, 0, &["a", "b", "a"]);
    let mut jobs = it.world.take_all();
    jobs.sort_by_key(|job| offsets(job)[0]);
    let (a, b) = (jobs.remove(0), jobs.remove(0));
    for row in 0..2 {
        stage(&a, "x");
        a.shared.set_completed_rows(row + 1);
    }
    it.world.done(a);
    assert_eq!(it.commit(), (vec![(0, 1)], 1), "the row at 0, and not that at 2");
    stage(&b, "y");
    it.world.done(b);
    assert_eq!(it.commit(), (vec![(0, 3)], 2));
}

#[test]
fn a_lost_partition_takes_its_records_along() {
    let mut it = Transactions::new();
    let (lost, kept) = (it.world.lane(1), it.world.lane(1));
    for lane in [lost, kept] {
        it.world.push(lane, 0, 1);
        let job = it.world.take(0).expect("a job");
        stage(&job, "x");
        it.world.done(job);
    }
    let offsets = it.offsets();
    assert_eq!((offsets.len(), it.begin(&offsets)), (2, 2));
    it.end(&aborted(TransactionCause::OffsetsUnknown, Vec::new()));
    it.world.dispatch.revoke(lost, true);
    // A transaction may have waited for another one. The offset without its records would skip what was never written.
    let mut waited = offsets.clone();
    assert_eq!(it.begin_with(&mut waited), 1, "the records of the lost partition are gone");
    assert_eq!(waited, offsets[1..]);
    it.end(&COMMITTED);
    assert_eq!(it.budget.used(), 0);
}

#[test]
fn a_job_of_a_lost_partition_stages_nothing_that_counts() {
    let mut it = Transactions::new();
    let lane = it.world.lane(1);
    it.world.push(lane, 0, 1);
    let job = it.world.take(0).expect("a job");
    let (promise, index) = stage(&job, "x");
    it.world.dispatch.revoke(lane, true);
    it.world.done(job);
    assert_eq!((it.commit().1, it.budget.used()), (0, 0));
    assert_eq!(promise.result(index).map(|result| result.outcome), Some(Outcome::Aborted));
}

#[test]
fn a_revoked_lane_leaves_with_its_last_commit() {
    let mut it = Transactions::new();
    let lane = it.world.lane(1);
    it.world.push(lane, 0, 2);
    let job = it.world.take(0).expect("a job");
    it.world.dispatch.revoke(lane, false);
    stage(&job, "x");
    it.world.done(job);
    while let Some(hook) = it.world.take(0) {
        stage(&hook, "last words");
        it.world.done(hook);
    }
    it.world.released();
    let drained = it.world.drained.pop().expect("drained");
    let commit = drained.commit.expect("an offset");
    let offset = CommitOffset {
        tp: commit.tp,
        topic_id: 0,
        offset: commit.offset,
        leader_epoch: -1,
        metadata: String::new(),
        epoch: commit.assignment_epoch,
    };
    assert_eq!((offset.offset, it.begin(std::slice::from_ref(&offset))), (1, 2), "the hook's record belongs to no row");
    it.end(&aborted(TransactionCause::OffsetsUnknown, Vec::new()));
    assert_eq!(it.begin(std::slice::from_ref(&offset)), 2);
    it.end(&aborted(TransactionCause::OffsetsUnknown, Vec::new()));
    // The group gives the offset up: the next owner processes the record again.
    it.world.dispatch.on_commit_failed(it.world.client, std::slice::from_ref(&offset.tp));
    assert_eq!((it.begin(&[offset]), it.budget.used()), (0, 0));
}

#[test]
fn a_lane_that_leaves_during_a_transaction_keeps_its_newer_records_for_the_last_one() {
    let mut it = Transactions::new();
    let lane = it.world.lane(1);
    it.world.push(lane, 0, 2);
    let job = it.world.take(0).expect("a job");
    stage(&job, "a");
    it.world.done(job);
    let offsets = it.offsets();
    assert_eq!(it.begin(&offsets), 1);
    let job = it.world.take(0).expect("a job");
    stage(&job, "b");
    it.world.done(job);
    it.world.dispatch.revoke(lane, false);
    while let Some(hook) = it.world.take(0) {
        it.world.done(hook);
    }
    it.world.released();
    let last = it.world.drained.pop().and_then(|drained| drained.commit).expect("an offset");
    it.end(&COMMITTED);
    let offset = CommitOffset { offset: last.offset, ..offsets[0].clone() };
    assert_eq!((offset.offset, it.begin(&[offset])), (2, 1));
    it.end(&COMMITTED);
    assert_eq!(it.budget.used(), 0);
}

#[test]
fn after_a_seek_a_transaction_has_what_was_to_be_committed_and_nothing_else() {
    let mut it = Transactions::new();
    let lane = it.world.lane(1);
    it.world.push(lane, 0, 2);
    let first = it.world.take(0).expect("a job");
    stage(&first, "a");
    it.world.done(first);
    let returned = it.offsets();
    let second = it.world.take(0).expect("a job");
    stage(&second, "b");
    it.world.done(second);
    it.world.dispatch.reset_lane(lane);
    assert_eq!(it.begin(&returned), 1, "the marks of the second job do not count, and neither do its records");
    it.end(&COMMITTED);
    assert_eq!(it.budget.used(), 0);
}

#[test]
fn a_commit_of_unknown_outcome_goes_on_from_the_committed_offsets() {
    let mut it = Transactions::new();
    let (lane, other) = (it.world.lane(1), it.world.lane(1));
    it.world.push(lane, 0, 3);
    it.world.push(other, 0, 1);
    let job = it.world.take(0).expect("a job");
    stage(&job, "a");
    it.world.done(job);
    let offsets: Vec<_> = it.offsets().into_iter().filter(|offset| offset.tp.partition == 0).collect();
    assert_eq!(it.begin(&offsets), 1);
    let lost = TransactionError::CommitUnknown(Box::new(TransactionError::Closed));
    let timed_out = TransactionError::Fenced {
        transactional_id: "t".into(),
        code: ErrorCode::INVALID_PRODUCER_EPOCH,
        open: Some(2),
        timeout: 1,
    };
    let end = it.end(&StagedCommitResult::Unknown(TransactionError::CommitUnknown(Box::new(timed_out.clone()))));
    assert_eq!((end.discarded.len(), end.needs_producer, end.fatal), (1, true, None));
    assert_eq!(it.world.status(lane).position, None, "the position is that of the group");
    assert_eq!((it.begin(&offsets), it.budget.used()), (0, 0));
    it.end(&StagedCommitResult::Failed(timed_out));
    assert_eq!(it.begin(&[]), 0);
    assert!(it.end(&StagedCommitResult::Unknown(lost)).fatal.is_some());
}

#[test]
fn another_producer_goes_on_unless_the_id_has_another_owner() {
    let mut it = Transactions::new();
    for (open, is_fatal) in [(Some(9), false), (Some(1), true), (None, true)] {
        it.begin(&[]);
        let code = ErrorCode::PRODUCER_FENCED;
        let error = TransactionError::Fenced { transactional_id: "t".into(), code, open, timeout: 5 };
        let end = it.end(&StagedCommitResult::Failed(error));
        assert_eq!((end.needs_producer, end.fatal.is_some()), (true, is_fatal));
        assert_eq!(end.result == TransactionResult::Failed(code), is_fatal);
    }
    for (request, code, is_fatal) in [
        ("EndTxn", ErrorCode::INVALID_TXN_STATE, false),
        ("TxnOffsetCommit", ErrorCode::INVALID_PRODUCER_ID_MAPPING, false),
        ("InitProducerId", ErrorCode::INVALID_TXN_STATE, true),
        ("EndTxn", ErrorCode::INVALID_REQUEST, true),
    ] {
        it.begin(&[]);
        let error = TransactionError::Refused { transactional_id: "t".into(), request, code };
        assert_eq!(it.end(&StagedCommitResult::Failed(error)).fatal.is_some(), is_fatal, "{request} {code:?}");
    }
}

#[test]
fn memory_is_bounded_and_what_failed_jobs_had_is_free_again() {
    let mut it = Transactions::new();
    it.budget = it.world.dispatch.set_transactional(it.world.client, 1000);
    let lane = it.world.lane(1);
    it.world.push(lane, 0, 2);
    let job = it.world.take(0).expect("a job");
    let mut staged = 0;
    let refused = loop {
        match try_stage(&job.shared, "x", false) {
            Ok(None) => staged += 1,
            other => break other,
        }
    };
    assert!(staged > 1 && matches!(refused, Err(StageError::Full { has_ended: false })), "{staged}");
    it.world.done(job);
    assert_eq!(it.world.dispatch.take_commit_demand(it.world.client), TransactionDemand::AtOnce);
    let job = it.world.take(0).expect("a job");
    assert!(matches!(try_stage(&job.shared, "x", false), Err(StageError::Full { has_ended: true })));
    assert_eq!(it.commit().1, staged);
    assert!(try_stage(&job.shared, "x", false).is_ok());
    let shared = Arc::clone(&job.shared);
    it.world.end(job, failed());
    assert!(matches!(try_stage(&shared, "late", false), Err(StageError::Ended)));
    assert_eq!(it.budget.used(), 0);
}

/// Result of a commit, from an error code.
type ResultOfCode = fn(ErrorCode) -> StagedCommitResult;

/// Results, and whether the records are kept for the next transaction.
const RESULTS: [(ResultOfCode, bool); 6] = [
    (|_| StagedCommitResult::Committed, false),
    (|code| aborted(TransactionCause::Refused { request: "EndTxn", code, place: "".into() }, Vec::new()), true),
    (|code| aborted(TransactionCause::MemberReplaced { group: "g".into(), code }, Vec::new()), true),
    (|code| StagedCommitResult::Failed(refused_id("EndTxn", code)), true),
    (|code| StagedCommitResult::Failed(refused_id("InitProducerId", code)), true),
    (|code| StagedCommitResult::Unknown(TransactionError::CommitUnknown(Box::new(refused_id("EndTxn", code)))), false),
];

fn refused_id(request: &'static str, code: ErrorCode) -> TransactionError {
    TransactionError::Refused { transactional_id: "t".into(), request, code }
}

#[test]
fn every_result_of_a_commit_with_every_error_keeps_records_and_offsets_together() {
    for (number, (result, is_kept)) in RESULTS.iter().enumerate() {
        for (&code, is_lost) in ErrorCode::ALL.iter().flat_map(|code| [(code, false), (code, true)]) {
            let about = format!("result {number}, {code}, lost: {is_lost}");
            let mut it = Transactions::new();
            let lane = it.world.lane(1);
            it.world.push(lane, 0, 1);
            let job = it.world.take(0).expect("a job");
            let (promise, index) = stage(&job, "a");
            it.world.done(job);
            let offsets = it.offsets();
            assert_eq!(it.begin(&offsets), 1);
            if is_lost {
                it.world.dispatch.revoke(lane, true);
            }
            let result = result(code);
            let end = it.end(&result);
            assert_eq!(end.result == TransactionResult::Committed, number == 0, "{about}");
            assert_eq!(!end.discarded.is_empty(), matches!(result, StagedCommitResult::Unknown(_)), "{about}");
            assert!(end.fatal.is_none() || end.needs_producer, "{about}");
            drop(result);
            let again = it.begin(&offsets);
            assert_eq!(again, usize::from(*is_kept && !is_lost), "{about}");
            it.end(&COMMITTED);
            it.world.dispatch.drop_outputs(it.world.client);
            assert_eq!((it.budget.used(), it.budget.ended()), (0, 0), "{about}");
            // What is dropped ends as aborted. (The producer completes what it has committed.)
            let outcome = promise.result(index).map(|result| result.outcome);
            assert_eq!(outcome, Some(Outcome::Aborted), "{about}");
        }
    }
}
