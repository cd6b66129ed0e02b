//! Adding to transactions, and their ends.

use super::*;

use TransactionState::{CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit};

#[test]
fn a_transaction_opens_with_its_first_partition_and_ends_with_its_markers() {
    let mut bench = Bench::new(2);
    let producer = bench.producer("pay");
    assert_eq!(bench.state("pay"), Empty);
    bench.add("pay", producer, 1).unwrap();
    bench.now += 5;
    bench.add("pay", producer, 0).unwrap();
    bench.add_group("pay", producer, "billing").unwrap();
    assert_eq!((bench.state("pay"), bench.transaction("pay").started), (Ongoing, bench.now - 5));
    let Ended { producer: next, marker } = bench.end("pay", producer, true, true).unwrap();
    assert_eq!(next, Producer { epoch: 1, ..producer });
    let marker = marker.unwrap();
    let expected = Marker {
        transactional_id: "pay".into(),
        producer_id: producer.id,
        producer_epoch: 1,
        coordinator_epoch: 0,
        commit: true,
        partitions: vec![orders(0), orders(1)],
        groups: vec!["billing".into()],
    };
    assert_eq!((&marker, bench.state("pay")), (&expected, PrepareCommit));
    assert_eq!(bench.restored().prepared(), [expected], "a restart writes the markers again");
    bench.write(&marker);
    assert_eq!((bench.state("pay"), bench.transaction("pay").partitions.len()), (CompleteCommit, 0));
    bench.write(&marker);
    assert_eq!(bench.state("pay"), CompleteCommit, "a second completion changes nothing");
    bench.add("pay", next, 0).unwrap();
    assert_eq!(bench.transaction("pay").started, bench.now, "a new transaction");
}

#[test]
fn partitions_that_are_there_already_change_nothing() {
    let mut bench = Bench::new(2);
    let producer = bench.producer("pay");
    bench.add("pay", producer, 0).unwrap();
    bench.add_group("pay", producer, "billing").unwrap();
    let changes = bench.changes.len();
    bench.add("pay", producer, 0).unwrap();
    bench.add_group("pay", producer, "billing").unwrap();
    assert_eq!(bench.changes.len(), changes);
}

#[test]
fn adding_is_refused_for_others_and_between_decision_and_markers() {
    let mut bench = Bench::new(2);
    let producer = bench.producer("pay");
    let other = Producer { id: 7, epoch: 0 };
    assert_eq!(bench.add("", producer, 0), Err(ErrorCode::INVALID_REQUEST));
    assert_eq!(bench.add("none", producer, 0), Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING));
    assert_eq!(bench.add_group("pay", other, "billing"), Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING));
    assert_eq!(bench.add("pay", Producer { epoch: 1, ..producer }, 0), Err(ErrorCode::PRODUCER_FENCED));
    bench.add("pay", producer, 0).unwrap();
    let ended = bench.end("pay", producer, false, false).unwrap();
    assert_eq!(bench.add("pay", producer, 0), Err(ErrorCode::CONCURRENT_TRANSACTIONS));
    bench.write(&ended.marker.unwrap());
    assert_eq!(bench.add("pay", producer, 0), Ok(()), "without version 5 of EndTxn the epoch stays");
}

#[test]
fn verification_tells_partitions_and_groups_that_were_not_added() {
    let mut bench = Bench::new(2);
    let producer = bench.producer("pay");
    bench.add("pay", producer, 0).unwrap();
    bench.add_group("pay", producer, "billing").unwrap();
    let partition = |index| bench.coordinator.verify_partition("pay", producer, &orders(index));
    assert_eq!((partition(0), partition(1)), (Ok(()), Err(ErrorCode::TRANSACTION_ABORTABLE)));
    let group = |name| bench.coordinator.verify_group("pay", producer, name);
    assert_eq!((group("billing"), group("other")), (Ok(()), Err(ErrorCode::TRANSACTION_ABORTABLE)));
    let fenced = Producer { epoch: 4, ..producer };
    let result = bench.coordinator.verify_partition("pay", fenced, &orders(0));
    assert_eq!(result, Err(ErrorCode::PRODUCER_FENCED));
}

/// Brings a fresh id to a state, and returns its current producer.
fn in_state(bench: &mut Bench, state: TransactionState, bump_epoch: bool) -> Producer {
    let producer = bench.producer("pay");
    if state == Empty {
        return producer;
    }
    bench.add("pay", producer, 0).unwrap();
    if state == Ongoing {
        return producer;
    }
    let ended = bench.end("pay", producer, matches!(state, PrepareCommit | CompleteCommit), bump_epoch).unwrap();
    if matches!(state, CompleteCommit | CompleteAbort) {
        bench.write(&ended.marker.unwrap());
    }
    ended.producer
}

/// Outcome of an end: a marker, no marker, or an error.
fn outcome(result: Result<Ended, ErrorCode>) -> Result<bool, ErrorCode> {
    result.map(|ended| ended.marker.is_some())
}

#[test]
fn ends_of_producers_that_keep_their_epoch() {
    const ITS: Result<bool, ErrorCode> = Err(ErrorCode::INVALID_TXN_STATE);
    const WAIT: Result<bool, ErrorCode> = Err(ErrorCode::CONCURRENT_TRANSACTIONS);
    // State, result of an abort, result of a commit.
    let table = [
        (Empty, ITS, ITS),
        (Ongoing, Ok(true), Ok(true)),
        (PrepareCommit, ITS, WAIT),
        (PrepareAbort, WAIT, ITS),
        (CompleteCommit, ITS, Ok(false)),
        (CompleteAbort, Ok(false), ITS),
    ];
    for (state, abort, commit) in table {
        for (is_commit, expected) in [(false, abort), (true, commit)] {
            let mut bench = Bench::new(2);
            let producer = in_state(&mut bench, state, false);
            let result = bench.end("pay", producer, is_commit, false);
            assert!(result.as_ref().is_err() || result.as_ref().is_ok_and(|ended| ended.producer == producer));
            assert_eq!(outcome(result), expected, "{state:?}, commit {is_commit}");
        }
    }
}

#[test]
fn ends_of_producers_whose_epoch_each_end_raises() {
    const ITS: Result<bool, ErrorCode> = Err(ErrorCode::INVALID_TXN_STATE);
    const FENCED: Result<bool, ErrorCode> = Err(ErrorCode::PRODUCER_FENCED);
    const WAIT: Result<bool, ErrorCode> = Err(ErrorCode::CONCURRENT_TRANSACTIONS);
    // State; abort with the epoch before and with the current epoch; commit with both.
    let table = [
        (Empty, [FENCED, Ok(true)], [FENCED, ITS]),
        (Ongoing, [FENCED, Ok(true)], [FENCED, Ok(true)]),
        (PrepareCommit, [ITS, FENCED], [WAIT, FENCED]),
        (PrepareAbort, [WAIT, FENCED], [ITS, FENCED]),
        (CompleteCommit, [ITS, Ok(true)], [Ok(false), ITS]),
        (CompleteAbort, [Ok(false), Ok(true)], [ITS, ITS]),
    ];
    for (state, abort, commit) in table {
        for (is_commit, results) in [(false, abort), (true, commit)] {
            for (is_current, expected) in [(false, results[0]), (true, results[1])] {
                let mut bench = Bench::new(2);
                let current = in_state(&mut bench, state, true);
                let epoch = if is_current { current.epoch } else { current.epoch - 1 };
                let result = bench.end("pay", Producer { epoch, ..current }, is_commit, true);
                if let Ok(Ended { producer, marker: None }) = result {
                    assert_eq!(producer, current, "a repeated request gets the current epoch");
                }
                assert_eq!(outcome(result), expected, "{state:?}, commit {is_commit}, current {is_current}");
            }
        }
    }
}

#[test]
fn an_abort_without_a_transaction_raises_the_epoch_and_marks_no_partition() {
    let mut bench = Bench::new(2);
    let producer = bench.producer("pay");
    let Ended { producer: next, marker } = bench.end("pay", producer, false, true).unwrap();
    let marker = marker.unwrap();
    assert_eq!((next.epoch, marker.partitions.len(), marker.groups.len()), (1, 0, 0));
    bench.write(&marker);
    assert_eq!(bench.state("pay"), CompleteAbort);
}

#[test]
fn the_end_after_the_last_epoch_gives_a_new_producer_id() {
    let mut bench = Bench::new(2);
    bench.producer("pay");
    let last = bench.set_epoch("pay", i16::MAX - 1);
    bench.add("pay", last, 0).unwrap();
    let Ended { producer, marker } = bench.end("pay", last, true, true).unwrap();
    let marker = marker.unwrap();
    assert_eq!(producer, Producer { id: 1, epoch: 0 });
    assert_eq!((marker.producer_id, marker.producer_epoch), (0, i16::MAX));
    assert_eq!(bench.end("pay", last, true, true), Err(ErrorCode::CONCURRENT_TRANSACTIONS));
    bench.write(&marker);
    assert_eq!(bench.transaction("pay").producer, producer);
    let repeated = bench.end("pay", last, true, true);
    assert_eq!(repeated, Ok(Ended { producer, marker: None }));
    bench.add("pay", producer, 0).unwrap();
    assert_eq!(bench.add("pay", last, 0), Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING));
}
