//! Transactional Produce and TxnOffsetCommit: the coordinator is asked about the first write of a transaction.

use grete_wire::ErrorCode;
use grete_wire::messages::txn_offset_commit::{TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic};
use grete_wire::messages::{InitProducerIdRequest, ProduceRequest, ProduceResponse, TxnOffsetCommitRequest};
use grete_wire::records::test_encoder::{BatchOptions, TestRecord, build_batch};

use super::harness::{Fixture, produce_request};
use crate::ids::ConnId;

fn producer(fixture: &mut Fixture, conn: ConnId, transactional_id: &str) -> i64 {
    let request = InitProducerIdRequest {
        transactional_id: Some(transactional_id.into()),
        transaction_timeout_ms: 1000,
        ..InitProducerIdRequest::default()
    };
    fixture.call(conn, 4, &request, |response| response.producer_id)
}

/// Produces a transactional batch of one record. Returns the error code.
fn produce(fixture: &mut Fixture, conn: ConnId, version: i16, id: &str, producer_id: i64, base_sequence: i32) -> i16 {
    let options =
        BatchOptions { transactional: true, producer_id, producer_epoch: 0, base_sequence, ..BatchOptions::default() };
    let records = build_batch(0, &[TestRecord::value(1_000_000, "x")], &options);
    let request = ProduceRequest { transactional_id: Some(id.into()), ..produce_request("orders", 0, &records) };
    fixture.call(conn, version, &request, |response: ProduceResponse<'_>| {
        response.responses[0].partition_responses[0].error_code
    })
}

fn commit(fixture: &mut Fixture, conn: ConnId, version: i16, id: &str, group: &str, producer_id: i64) -> i16 {
    let partition = TxnOffsetCommitRequestPartition { committed_offset: 5, ..Default::default() };
    let request = TxnOffsetCommitRequest {
        transactional_id: id.into(),
        group_id: group.into(),
        producer_id,
        generation_id: -1,
        topics: vec![TxnOffsetCommitRequestTopic { name: "orders".into(), partitions: vec![partition] }],
        ..Default::default()
    };
    fixture.call(conn, version, &request, |response| response.topics[0].partitions[0].error_code)
}

#[test]
fn a_commit_behind_the_first_one_of_its_group_is_not_verified_again() {
    let mut fixture = Fixture::new(1);
    let conn = fixture.connect(1);
    fixture.create_topic(conn, "orders", 1);
    let pay = producer(&mut fixture, conn, "pay");
    let mapping = ErrorCode::INVALID_PRODUCER_ID_MAPPING.0;
    assert_eq!(commit(&mut fixture, conn, 4, "other", "billing", pay), mapping);
    assert_eq!(commit(&mut fixture, conn, 5, "pay", "billing", pay), 0);
    assert_eq!(commit(&mut fixture, conn, 4, "other", "billing", pay), 0);
    assert_eq!(commit(&mut fixture, conn, 4, "other", "shipping", pay), mapping, "another group");
    fixture.advance(2000);
    assert_eq!(commit(&mut fixture, conn, 4, "other", "billing", pay), mapping, "the transaction was aborted");
}

#[test]
fn a_batch_behind_the_first_one_of_its_partition_is_not_verified_again() {
    let mut fixture = Fixture::new(1);
    let conn = fixture.connect(1);
    fixture.create_topic(conn, "orders", 1);
    let pay = producer(&mut fixture, conn, "pay");
    assert_eq!(produce(&mut fixture, conn, 12, "pay", pay, 0), 0);
    assert_eq!(produce(&mut fixture, conn, 11, "other", pay, 1), 0);
    fixture.advance(2000);
    assert_ne!(produce(&mut fixture, conn, 11, "other", pay, 2), 0, "the transaction was aborted");
}

#[test]
fn a_batch_behind_one_whose_transaction_was_not_verified_is_out_of_order() {
    let mut fixture = Fixture::new(1);
    let conn = fixture.connect(1);
    fixture.create_topic(conn, "orders", 1);
    let pay = producer(&mut fixture, conn, "pay");
    assert_eq!(produce(&mut fixture, conn, 9, "pay", pay, 0), ErrorCode::INVALID_TXN_STATE.0);
    // This version adds the partition to the transaction, but the batch before it is missing.
    let out_of_order = ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER.0;
    assert_eq!(produce(&mut fixture, conn, 12, "pay", pay, 1), out_of_order);
    assert_eq!(produce(&mut fixture, conn, 9, "pay", pay, 1), out_of_order);
    assert_eq!(produce(&mut fixture, conn, 9, "pay", pay, 0), 0);
    assert_eq!(produce(&mut fixture, conn, 9, "pay", pay, 1), 0);
}

#[test]
fn a_refused_transactional_batch_has_a_text() {
    let mut fixture = Fixture::new(1);
    let conn = fixture.connect(1);
    fixture.create_topic(conn, "orders", 2);
    let pay = producer(&mut fixture, conn, "pay");
    let batch = |producer_id| {
        let options = BatchOptions {
            transactional: true,
            producer_id,
            producer_epoch: 0,
            base_sequence: 0,
            ..BatchOptions::default()
        };
        build_batch(0, &[TestRecord::value(1_000_000, "x")], &options)
    };
    let (own, others) = (batch(pay), batch(pay + 1));
    let mut request = ProduceRequest { transactional_id: Some("pay".into()), ..produce_request("orders", 0, &own) };
    let mut refused = |request: &ProduceRequest<'_>| {
        fixture.call(conn, 9, request, |response: ProduceResponse<'_>| {
            let partitions = response.responses.iter().flat_map(|topic| &topic.partition_responses);
            partitions.map(|data| (data.error_code, data.error_message.is_some())).collect::<Vec<_>>()
        })
    };
    assert_eq!(refused(&request), [(ErrorCode::INVALID_TXN_STATE.0, true)]);
    let mut second = request.topic_data[0].partition_data[0].clone();
    (second.index, second.records) = (1, Some(others.as_slice().into()));
    request.topic_data[0].partition_data.push(second);
    assert_eq!(refused(&request), [(ErrorCode::INVALID_PRODUCER_ID_MAPPING.0, true); 2]);
}
