//! Producer ids, epochs, fencing and expiration.

use super::*;

#[test]
fn without_a_transactional_id_each_request_gets_a_producer_id_of_its_own() {
    let mut bench = Bench::new(2);
    for id in 0..3 {
        let initialized = bench.coordinator.init_producer_id(bench.now, None, 0, None, &mut bench.changes);
        assert_eq!(initialized, Initialized { result: Ok(Producer { id, epoch: 0 }), marker: None });
    }
    assert_eq!(bench.producer("pay").id, 3);
    let mut restored = bench.restored();
    assert_eq!(restored.init_producer_id(0, None, 0, None, &mut bench.changes).result.unwrap().id, 4);
}

#[test]
fn each_start_of_a_producer_raises_the_epoch_and_fences_the_one_before() {
    let mut bench = Bench::new(2);
    let old = bench.producer("pay");
    let new = bench.producer("pay");
    assert_eq!((old, new), (Producer { id: 0, epoch: 0 }, Producer { id: 0, epoch: 1 }));
    assert_eq!(bench.add("pay", old, 0), Err(ErrorCode::PRODUCER_FENCED));
    assert_eq!(bench.end("pay", old, true, false), Err(ErrorCode::PRODUCER_FENCED));
    assert_eq!(bench.init("pay", Some(old)).result, Err(ErrorCode::PRODUCER_FENCED));
    assert_eq!(bench.add("pay", new, 0), Ok(()));
}

#[test]
fn a_producer_raises_its_own_epoch_and_may_repeat_the_request() {
    let mut bench = Bench::new(2);
    let first = bench.producer("pay");
    let second = Producer { epoch: 1, ..first };
    assert_eq!(bench.init("pay", Some(first)).result, Ok(second));
    assert_eq!(bench.init("pay", Some(first)).result, Ok(second), "the response was lost");
    assert_eq!(bench.init("pay", Some(Producer { id: 9, epoch: 0 })).result, Err(ErrorCode::PRODUCER_FENCED));
}

#[test]
fn a_new_producer_aborts_the_open_transaction_and_asks_again() {
    for version in [1, 2] {
        let mut bench = Bench::new(version);
        let old = bench.producer("pay");
        bench.add("pay", old, 3).unwrap();
        bench.add_group("pay", old, "billing").unwrap();
        let Initialized { result, marker } = bench.init("pay", None);
        let marker = marker.unwrap();
        assert_eq!(result, Err(ErrorCode::CONCURRENT_TRANSACTIONS));
        assert_eq!((marker.producer_id, marker.producer_epoch, marker.commit), (old.id, old.epoch + 1, false));
        assert_eq!((marker.partitions.clone(), marker.groups.clone()), (vec![orders(3)], vec!["billing".into()]));
        let again = Initialized { result: Err(ErrorCode::CONCURRENT_TRANSACTIONS), marker: None };
        assert_eq!(bench.init("pay", None), again, "the marker is not written");
        assert_eq!(bench.coordinator.prepared(), std::slice::from_ref(&marker));
        bench.write(&marker);
        assert_eq!(bench.coordinator.prepared(), []);
        assert_eq!(bench.init("pay", None).result, Ok(Producer { id: old.id, epoch: old.epoch + 2 }));
    }
}

#[test]
fn used_up_epochs_give_a_new_producer_id() {
    let mut bench = Bench::new(2);
    bench.producer("pay");
    let last = bench.set_epoch("pay", i16::MAX - 1);
    let next = Producer { id: 1, epoch: 0 };
    assert_eq!(bench.init("pay", Some(last)).result, Ok(next));
    assert_eq!(bench.init("pay", Some(last)).result, Ok(next), "a repeated request");
    assert_eq!(bench.init("pay", None).result, Ok(Producer { id: 1, epoch: 1 }));
}

#[test]
fn fencing_the_last_epoch_gives_a_new_producer_id() {
    for version in [1, 2] {
        let mut bench = Bench::new(version);
        bench.producer("pay");
        let last = bench.set_epoch("pay", i16::MAX - 1);
        bench.add("pay", last, 0).unwrap();
        let marker = bench.init("pay", None).marker.unwrap();
        assert_eq!((marker.producer_id, marker.producer_epoch), (0, i16::MAX));
        bench.write(&marker);
        assert_eq!(bench.init("pay", None).result.unwrap().id, 1);
        assert_eq!(bench.add("pay", last, 0), Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING));
    }
}

#[test]
fn bad_ids_and_timeouts_are_refused() {
    let mut bench = Bench::new(2);
    assert_eq!(bench.init("", None).result, Err(ErrorCode::INVALID_REQUEST));
    for timeout_ms in [i32::MIN, 0, 15 * 60 * 1000 + 1] {
        let refused = bench.coordinator.init_producer_id(0, Some("pay"), timeout_ms, None, &mut bench.changes);
        assert_eq!(refused.result, Err(ErrorCode::INVALID_TRANSACTION_TIMEOUT));
    }
    assert_eq!((bench.changes.len(), bench.coordinator.transaction("pay")), (0, None));
}

#[test]
fn an_open_transaction_is_aborted_after_its_timeout() {
    let mut bench = Bench::new(2);
    let started = bench.now;
    let producer = bench.producer("pay");
    bench.add("pay", producer, 0).unwrap();
    bench.now += 10;
    bench.add("pay", producer, 1).unwrap();
    let due = started + Millis::from(TIMEOUT_MS) + 1;
    assert_eq!(bench.coordinator.deadline(), Some(due));
    assert_eq!(bench.tick(due - 1), []);
    let markers = bench.tick(due);
    assert_eq!(markers.len(), 1);
    assert_eq!((markers[0].commit, &markers[0].partitions), (false, &vec![orders(0), orders(1)]));
    assert_eq!((bench.tick(due + 1), bench.coordinator.deadline()), (vec![], None));
    bench.write(&markers[0]);
    assert_eq!(bench.state("pay"), TransactionState::CompleteAbort);
    assert_eq!(bench.add("pay", producer, 0), Err(ErrorCode::PRODUCER_FENCED));
    assert_eq!(bench.end("pay", producer, true, true), Err(ErrorCode::INVALID_TXN_STATE));
    // The producer learns of the abort, and continues with the epoch of the marker.
    let ended = bench.end("pay", producer, false, true).unwrap();
    assert_eq!(ended, Ended { producer: Producer { epoch: producer.epoch + 1, ..producer }, marker: None });
    assert_eq!(bench.add("pay", ended.producer, 0), Ok(()));
}

#[test]
fn an_id_expires_seven_days_after_its_last_change() {
    let mut bench = Bench::new(2);
    let producer = bench.producer("pay");
    let due = bench.now + 7 * 24 * 60 * 60 * 1000;
    assert_eq!(bench.coordinator.deadline(), Some(due));
    assert_eq!(bench.tick(due), []);
    assert_eq!((bench.coordinator.transaction("pay"), bench.coordinator.deadline()), (None, None));
    assert_eq!(bench.restored().transaction("pay"), None);
    assert_eq!(bench.add("pay", producer, 0), Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING));
    let next = bench.init("pay", Some(producer)).result.unwrap();
    assert_eq!(next, Producer { id: 1, epoch: 0 }, "the producer continues with a new id");
}
