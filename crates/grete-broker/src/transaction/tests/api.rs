//! Requests and responses: versions, error codes, and the forms of the lists.

use grete_wire::messages::add_partitions_to_txn::{AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction};
use grete_wire::messages::txn_offset_commit::{TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic};
use grete_wire::messages::*;

use super::super::api::*;
use super::*;

fn init_request(id: Option<&'static str>, producer: Producer) -> InitProducerIdRequest<'static> {
    InitProducerIdRequest {
        transactional_id: id.map(Into::into),
        transaction_timeout_ms: TIMEOUT_MS,
        producer_id: producer.id,
        producer_epoch: producer.epoch,
    }
}

fn topics(partitions: &[i32]) -> Vec<AddPartitionsToTxnTopic<'static>> {
    vec![AddPartitionsToTxnTopic { name: "orders".into(), partitions: partitions.to_vec() }]
}

/// Calls an API with the coordinator of a bench.
macro_rules! call {
    ($bench:ident, $api:ident($($argument:expr),*)) => {
        $api(&mut $bench.coordinator, $bench.now, $($argument,)* &mut $bench.changes)
    };
}

#[test]
fn init_producer_id_allocates_or_begins_an_epoch() {
    let mut bench = Bench::new(2);
    let (response, marker) = call!(bench, init_producer_id(5, &init_request(None, Producer::NONE)));
    assert_eq!((response.error_code, response.producer_id, response.producer_epoch), (0, 0, 0));
    assert_eq!((marker, bench.coordinator.deadline()), (None, None));
    let (response, _) = call!(bench, init_producer_id(5, &init_request(Some("pay"), Producer::NONE)));
    assert_eq!((response.error_code, response.producer_id, response.producer_epoch), (0, 1, 0));
    let half = Producer { id: 1, epoch: -1 };
    let (response, _) = call!(bench, init_producer_id(5, &init_request(Some("pay"), half)));
    assert_eq!(response.error_code, ErrorCode::INVALID_REQUEST.0);
    assert_eq!((response.producer_id, response.producer_epoch), (-1, -1));
}

#[test]
fn old_versions_do_not_get_producer_fenced() {
    let mut bench = Bench::new(2);
    let old = bench.producer("pay");
    bench.producer("pay");
    let (fenced, epoch) = (ErrorCode::PRODUCER_FENCED.0, ErrorCode::INVALID_PRODUCER_EPOCH.0);
    for (version, expected) in [(3, epoch), (4, fenced)] {
        let (response, _) = call!(bench, init_producer_id(version, &init_request(Some("pay"), old)));
        assert_eq!(response.error_code, expected);
    }
    for (version, expected) in [(1, epoch), (2, fenced)] {
        let (id, producer_id, producer_epoch) = ("pay", old.id, old.epoch);
        let request = EndTxnRequest { transactional_id: id.into(), producer_id, producer_epoch, committed: true };
        assert_eq!(call!(bench, end_txn(version, &request)).0.error_code, expected);
        let group_id = "billing".into();
        let request = AddOffsetsToTxnRequest { transactional_id: id.into(), producer_id, producer_epoch, group_id };
        assert_eq!(call!(bench, add_offsets_to_txn(version, &request)).error_code, expected);
        let request = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: id.into(),
            v3_and_below_producer_id: producer_id,
            v3_and_below_producer_epoch: producer_epoch,
            v3_and_below_topics: topics(&[0]),
            ..Default::default()
        };
        let response = call!(bench, add_partitions_to_txn(version, &request, |_| true));
        assert_eq!(errors(&response.results_by_topic_v3_and_below), [(0, expected)]);
    }
}

fn errors(topics: &[AddPartitionsToTxnTopicResult<'_>]) -> Vec<(i32, i16)> {
    let partitions = topics.iter().flat_map(|topic| &topic.results_by_partition);
    partitions.map(|result| (result.partition_index, result.partition_error_code)).collect()
}

#[test]
fn one_unknown_partition_fails_all_of_its_transaction() {
    let mut bench = Bench::new(2);
    let producer = bench.producer("pay");
    let mut request = AddPartitionsToTxnRequest {
        v3_and_below_transactional_id: "pay".into(),
        v3_and_below_producer_id: producer.id,
        v3_and_below_producer_epoch: producer.epoch,
        v3_and_below_topics: topics(&[0, 9]),
        ..Default::default()
    };
    let exists = |partition: &TopicPartition| partition.partition < 8;
    let response = call!(bench, add_partitions_to_txn(3, &request, exists));
    let (unknown, skipped) = (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0, ErrorCode::OPERATION_NOT_ATTEMPTED.0);
    assert_eq!(errors(&response.results_by_topic_v3_and_below), [(0, skipped), (9, unknown)]);
    assert_eq!(bench.state("pay"), TransactionState::Empty);
    request.v3_and_below_topics = topics(&[0, 7]);
    let response = call!(bench, add_partitions_to_txn(3, &request, exists));
    assert_eq!(errors(&response.results_by_topic_v3_and_below), [(0, 0), (7, 0)]);
    assert_eq!(bench.transaction("pay").partitions.len(), 2);
}

#[test]
fn a_batch_of_transactions_is_added_or_verified() {
    let mut bench = Bench::new(2);
    let (pay, ship) = (bench.producer("pay"), bench.producer("ship"));
    bench.add("ship", ship, 0).unwrap();
    let transaction =
        |id: &'static str, producer: Producer, verify_only, partitions: &[i32]| AddPartitionsToTxnTransaction {
            transactional_id: id.into(),
            producer_id: producer.id,
            producer_epoch: producer.epoch,
            verify_only,
            topics: topics(partitions),
        };
    let transactions = vec![transaction("pay", pay, false, &[1, 2]), transaction("ship", ship, true, &[0, 1])];
    let request = AddPartitionsToTxnRequest { transactions, ..Default::default() };
    let response = call!(bench, add_partitions_to_txn(4, &request, |_| true));
    let results: Vec<_> = (response.results_by_transaction.iter())
        .map(|result| (result.transactional_id.as_ref(), errors(&result.topic_results)))
        .collect();
    let abortable = ErrorCode::TRANSACTION_ABORTABLE.0;
    assert_eq!(results, [("pay", vec![(1, 0), (2, 0)]), ("ship", vec![(0, 0), (1, abortable)])]);
    assert_eq!(bench.transaction("ship").partitions.len(), 1, "a verification adds nothing");
}

#[test]
fn end_txn_answers_the_next_epoch_from_version_5_on() {
    for (version, epoch) in [(4, 0), (5, 1)] {
        let mut bench = Bench::new(2);
        let Producer { id: producer_id, epoch: producer_epoch } = bench.producer("pay");
        bench.add("pay", Producer { id: producer_id, epoch: producer_epoch }, 0).unwrap();
        let transactional_id = "pay".into();
        let request = EndTxnRequest { transactional_id, producer_id, producer_epoch, committed: true };
        let (response, marker) = call!(bench, end_txn(version, &request));
        assert_eq!((response.error_code, response.producer_epoch, marker.unwrap().producer_epoch), (0, epoch, epoch));
        response.encode(version, &mut Vec::new()).unwrap();
    }
}

#[test]
fn batches_of_new_producers_add_their_partition_and_those_of_old_ones_are_verified() {
    let mut bench = Bench::new(2);
    let producer = bench.producer("pay");
    let partition = orders(0);
    for (version, expected) in [(10, ErrorCode::INVALID_TXN_STATE), (11, ErrorCode::TRANSACTION_ABORTABLE)] {
        assert_eq!(call!(bench, before_append(version, "pay", producer, &partition)), Err(expected));
    }
    assert_eq!(call!(bench, before_append(12, "pay", producer, &partition)), Ok(()));
    assert_eq!(call!(bench, before_append(9, "pay", producer, &partition)), Ok(()));
    let fenced = Producer { epoch: 9, ..producer };
    let result = call!(bench, before_append(12, "pay", fenced, &partition));
    assert_eq!(result, Err(ErrorCode::INVALID_PRODUCER_EPOCH));
    let _unwritten = bench.end("pay", producer, true, false).unwrap();
    for (version, expected) in [(11, ErrorCode::NOT_ENOUGH_REPLICAS), (12, ErrorCode::CONCURRENT_TRANSACTIONS)] {
        assert_eq!(call!(bench, before_append(version, "pay", producer, &partition)), Err(expected));
    }
}

#[test]
fn commits_of_new_producers_add_their_group_and_those_of_old_ones_are_verified() {
    let mut bench = Bench::new(2);
    let producer = bench.producer("pay");
    let partition = TxnOffsetCommitRequestPartition { partition_index: 3, ..Default::default() };
    let request = TxnOffsetCommitRequest {
        transactional_id: "pay".into(),
        group_id: "billing".into(),
        producer_id: producer.id,
        producer_epoch: producer.epoch,
        topics: vec![TxnOffsetCommitRequestTopic { name: "orders".into(), partitions: vec![partition] }],
        ..Default::default()
    };
    for (version, expected) in [(3, ErrorCode::INVALID_TXN_STATE), (4, ErrorCode::TRANSACTION_ABORTABLE)] {
        assert_eq!(call!(bench, before_txn_offset_commit(version, &request)), Err(expected));
    }
    assert_eq!(call!(bench, before_txn_offset_commit(5, &request)), Ok(()));
    assert_eq!(call!(bench, before_txn_offset_commit(3, &request)), Ok(()));
    let response = txn_offset_commit_response(&request, |topic, partition| {
        assert_eq!((topic, partition), ("orders", 3));
        ErrorCode::ILLEGAL_GENERATION
    });
    let result = &response.topics[0].partitions[0];
    assert_eq!((result.partition_index, result.error_code), (3, ErrorCode::ILLEGAL_GENERATION.0));
}

#[test]
fn transactions_are_listed_by_state_producer_and_duration() {
    let mut bench = Bench::new(2);
    let pay = bench.producer("pay");
    bench.producer("ship");
    bench.add("pay", pay, 0).unwrap();
    bench.now += 100;
    let list = |request: ListTransactionsRequest<'static>| {
        let response = list_transactions(&bench.coordinator, bench.now, &request, |_| true);
        let ids: Vec<String> =
            response.transaction_states.iter().map(|state| state.transactional_id.to_string()).collect();
        (ids.join(" "), response)
    };
    let all = ListTransactionsRequest::default();
    assert_eq!(list(all.clone()).0, "pay ship");
    assert_eq!(list(ListTransactionsRequest { producer_id_filters: vec![1], ..all.clone() }).0, "ship");
    assert_eq!(list(ListTransactionsRequest { duration_filter: 100, ..all.clone() }).0, "ship");
    assert_eq!(list(ListTransactionsRequest { duration_filter: 99, ..all.clone() }).0, "pay ship");
    let filters = vec!["Ongoing".into(), "Nonsense".into()];
    let (ids, response) = list(ListTransactionsRequest { state_filters: filters, ..all.clone() });
    assert_eq!((ids.as_str(), response.unknown_state_filters), ("pay", vec!["Nonsense".into()]));
    assert_eq!(response.transaction_states[0].transaction_state, "Ongoing");
    assert_eq!(list(ListTransactionsRequest { state_filters: vec!["Nonsense".into()], ..all.clone() }).0, "");
    let (_, response) = list(ListTransactionsRequest { transactional_id_pattern: Some("p.*".into()), ..all });
    assert_eq!(response.error_code, ErrorCode::UNSUPPORTED_VERSION.0);
}

#[test]
fn transactions_are_described_with_their_partitions() {
    let mut bench = Bench::new(2);
    let producer = bench.producer("pay");
    for partition in [2, 0] {
        bench.add("pay", producer, partition).unwrap();
    }
    let transactional_ids = vec!["pay".into(), "none".into(), "".into()];
    let response =
        describe_transactions(&bench.coordinator, &DescribeTransactionsRequest { transactional_ids }, |_| true);
    let [pay, none, empty] = &response.transaction_states[..] else { panic!("{response:?}") };
    assert_eq!((none.error_code, none.transactional_id.as_ref()), (ErrorCode::TRANSACTIONAL_ID_NOT_FOUND.0, "none"));
    assert_eq!(empty.error_code, ErrorCode::INVALID_REQUEST.0);
    assert_eq!(
        (pay.error_code, pay.transaction_state.as_ref(), pay.transaction_timeout_ms),
        (0, "Ongoing", TIMEOUT_MS)
    );
    assert_eq!((pay.producer_id, pay.producer_epoch, pay.transaction_start_time_ms), (0, 0, bench.now));
    assert_eq!((pay.topics.len(), &pay.topics[0].partitions), (1, &vec![0, 2]));
}
