//! Long polls, sessions and the limits of a Fetch.

use grete_wire::ErrorCode;
use grete_wire::messages::{FetchRequest, FetchResponse, FetchableTopicResponse};

use super::harness::{Fixture, decode, fetch_request, only_partition};
use crate::cluster::{Action, Event, MAX_QUEUED_REQUESTS};

fn fixture() -> (Fixture, crate::ids::ConnId, crate::ids::ConnId) {
    let mut fixture = Fixture::new(1);
    let (reader, writer) = (fixture.connect(1), fixture.connect(1));
    fixture.create_topic(writer, "orders", 2);
    (fixture, reader, writer)
}

fn fetched(fixture: &mut Fixture, conn: crate::ids::ConnId) -> Option<(i16, usize)> {
    let frame = fixture.received(conn).pop()?;
    Some(decode::<FetchRequest<'_>, _>(12, &frame, |response| only_partition(&response)))
}

#[test]
fn a_fetch_waits_for_a_record_or_for_its_time() {
    let (mut fixture, reader, writer) = fixture();
    fixture.send(reader, 12, &fetch_request("orders", 0, 0, 500));
    assert_eq!(fetched(&mut fixture, reader), None);
    // A record of another partition does not end the wait.
    fixture.produce(writer, "orders", 1, &["x"]);
    assert_eq!(fetched(&mut fixture, reader), None);
    fixture.produce(writer, "orders", 0, &["x"]);
    assert!(matches!(fetched(&mut fixture, reader), Some((0, 1..))));
    fixture.send(reader, 12, &fetch_request("orders", 0, 1, 500));
    fixture.advance(499);
    assert_eq!(fetched(&mut fixture, reader), None);
    fixture.advance(1);
    assert_eq!(fetched(&mut fixture, reader), Some((0, 0)));
}

#[test]
fn a_fetch_ends_when_its_topic_is_deleted_or_its_leader_moves() {
    let (mut fixture, reader, writer) = fixture();
    fixture.send(reader, 12, &fetch_request("orders", 0, 0, 60_000));
    fixture.cluster.delete_topic("orders");
    fixture.step(Event::Tick);
    assert_eq!(fetched(&mut fixture, reader), Some((ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0, 0)));
    let _ = writer;
    let mut fixture = Fixture::new(2);
    let reader = fixture.connect(1);
    fixture.create_topic(reader, "orders", 1);
    let leader = fixture.cluster.topics().get("orders").unwrap().partitions[0].leader.unwrap();
    let reader = fixture.connect(leader);
    let mut request = fetch_request("orders", 0, 0, 60_000);
    request.topics[0].partitions[0].current_leader_epoch = 0;
    fixture.send(reader, 12, &request);
    fixture.cluster.move_leader("orders", 0, 3 - leader).unwrap();
    fixture.step(Event::Tick);
    assert_eq!(fetched(&mut fixture, reader), Some((ErrorCode::FENCED_LEADER_EPOCH.0, 0)));
    // The old leader is a follower now, from which consumers may read (KIP-392).
    fixture.send(reader, 12, &fetch_request("orders", 0, 0, 0));
    assert_eq!(fetched(&mut fixture, reader), Some((0, 0)));
}

#[test]
fn an_offset_beyond_the_end_is_out_of_range() {
    let (mut fixture, reader, _) = fixture();
    fixture.send(reader, 12, &fetch_request("orders", 0, 1, 500));
    assert_eq!(fetched(&mut fixture, reader), Some((ErrorCode::OFFSET_OUT_OF_RANGE.0, 0)));
}

#[test]
fn an_incremental_response_has_news_alone() {
    let (mut fixture, reader, writer) = fixture();
    fixture.produce(writer, "orders", 0, &["a"]);
    let mut first = fetch_request("orders", 0, 0, 0);
    first.session_epoch = 0;
    let mut second = first.topics[0].partitions[0].clone();
    second.partition = 1;
    first.topics[0].partitions.push(second);
    let session = fixture.call(reader, 12, &first, |response: FetchResponse<'_>| {
        assert_eq!(response.responses[0].partitions.len(), 2);
        response.session_id
    });
    assert_ne!(session, 0);
    // Partition 0 is sent again while its records are not taken; partition 1 has no news.
    let mut next = fetch_request("orders", 0, 1, 0);
    (next.session_id, next.session_epoch) = (session, 1);
    fixture.call(reader, 12, &next, |response| assert!(response.responses.is_empty(), "{response:?}"));
    fixture.produce(writer, "orders", 1, &["b"]);
    let nothing_new = FetchRequest { session_id: session, session_epoch: 2, ..FetchRequest::default() };
    fixture.call(reader, 12, &nothing_new, |response| {
        let partitions: Vec<i32> = response.responses[0].partitions.iter().map(|data| data.partition_index).collect();
        assert_eq!(partitions, [1]);
    });
    let stale = FetchRequest { session_id: session, session_epoch: 2, ..FetchRequest::default() };
    fixture.call(reader, 12, &stale, |response| {
        assert_eq!(response.error_code, ErrorCode::INVALID_FETCH_SESSION_EPOCH.0);
    });
}

#[test]
fn a_new_session_keeps_its_order_and_then_reads_partitions_with_data_last() {
    let (mut fixture, reader, writer) = fixture();
    fixture.produce(writer, "orders", 0, &["a"]);
    fixture.produce(writer, "orders", 1, &["b"]);
    let mut first = fetch_request("orders", 7, 0, 0);
    first.session_epoch = 0;
    for partition in [0, 1] {
        let mut wanted = first.topics[0].partitions[0].clone();
        wanted.partition = partition;
        first.topics[0].partitions.push(wanted);
    }
    let session = fixture.call(reader, 12, &first, |response: FetchResponse<'_>| {
        let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
        assert_eq!(partitions.map(|data| data.partition_index).collect::<Vec<_>>(), [0, 1, 7], "unknown ones are last");
        response.session_id
    });
    // There is room for one batch. Partition 7 does not exist, and is no more in the way.
    let mut read = Vec::new();
    for session_epoch in 1..5 {
        let next = FetchRequest { session_id: session, session_epoch, max_bytes: 1, ..FetchRequest::default() };
        fixture.call(reader, 12, &next, |response: FetchResponse<'_>| {
            let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
            let with_data = partitions.filter(|data| data.records.as_ref().is_some_and(|records| !records.is_empty()));
            read.extend(with_data.map(|data| data.partition_index));
        });
    }
    assert_eq!(read, [0, 1, 0, 1]);
}

#[test]
fn requests_behind_a_waiting_fetch_wait_and_reading_pauses() {
    let (mut fixture, reader, _) = fixture();
    fixture.send(reader, 12, &fetch_request("orders", 0, 0, 1000));
    for _ in 0..MAX_QUEUED_REQUESTS {
        fixture.send(reader, 12, &fetch_request("orders", 0, 0, 0));
    }
    assert!(fixture.received(reader).is_empty());
    assert!(fixture.actions.contains(&Action::PauseReading(reader)));
    fixture.advance(1000);
    assert_eq!(fixture.received(reader).len(), MAX_QUEUED_REQUESTS + 1);
    assert!(fixture.actions.contains(&Action::ResumeReading(reader)));
}

#[test]
fn a_fetch_of_a_connection_that_ended_is_forgotten() {
    let (mut fixture, reader, writer) = fixture();
    fixture.send(reader, 12, &fetch_request("orders", 0, 0, 1000));
    fixture.step(Event::Closed { conn: reader });
    fixture.produce(writer, "orders", 0, &["a"]);
    fixture.advance(2000);
    assert!(fixture.received(reader).is_empty());
}

#[test]
fn an_older_version_in_a_session_that_has_diverged_is_unsupported() {
    let (mut fixture, reader, _) = fixture();
    let mut first = fetch_request("orders", 0, 8, 0);
    first.session_epoch = 0;
    first.topics[0].partitions[0].last_fetched_epoch = 0;
    let session = fixture.call(reader, 12, &first, |response: FetchResponse<'_>| {
        assert_eq!(response.responses[0].partitions[0].diverging_epoch.epoch, 0);
        response.session_id
    });
    let next = FetchRequest { session_id: session, session_epoch: 1, ..FetchRequest::default() };
    fixture.call(reader, 7, &next, |response| {
        assert_eq!((response.error_code, response.session_id), (ErrorCode::UNSUPPORTED_VERSION.0, session));
        assert!(response.responses.is_empty());
    });
    // Partitions of the request get the error, too, and the session goes on.
    let mut next = fetch_request("orders", 1, 0, 0);
    (next.session_id, next.session_epoch) = (session, 2);
    fixture.call(reader, 7, &next, |response| {
        assert_eq!(response.error_code, ErrorCode::UNSUPPORTED_VERSION.0);
        assert_eq!(only_partition(&response), (ErrorCode::UNSUPPORTED_VERSION.0, 0));
    });
    let next = FetchRequest { session_id: session, session_epoch: 3, ..FetchRequest::default() };
    fixture.call(reader, 12, &next, |response| assert_eq!(response.error_code, 0));
}

#[test]
fn missing_partitions_are_the_last_ones_of_a_response() {
    let (mut fixture, reader, _) = fixture();
    let id = fixture.cluster.topics().get("orders").unwrap().id;
    let mut request = fetch_request("", 7, 0, 0);
    request.topics[0].topic_id = id;
    let mut second = request.topics[0].partitions[0].clone();
    second.partition = 0;
    request.topics[0].partitions.push(second);
    let mut other = request.topics[0].clone();
    other.topic_id = 57_005;
    other.partitions.truncate(1);
    request.topics.push(other);
    fixture.call(reader, 13, &request, |response: FetchResponse<'_>| {
        let place = |topic: &FetchableTopicResponse<'_>| (topic.topic_id, topic.partitions[0].partition_index);
        let places: Vec<_> = response.responses.iter().map(place).collect();
        assert_eq!(places, [(id, 0), (57_005, 7), (id, 7)]);
    });
}

#[test]
fn a_session_that_names_topics_by_id_knows_the_names_of_topics_that_were_there() {
    let (mut fixture, reader, writer) = fixture();
    let id = fixture.cluster.topics().get("orders").unwrap().id;
    let mut first = fetch_request("", 0, 0, 0);
    first.session_epoch = 0;
    first.topics[0].topic_id = id;
    let mut other = first.topics[0].clone();
    other.topic_id = 57_005;
    first.topics.push(other);
    let session = fixture.call(reader, 13, &first, |response: FetchResponse<'_>| response.session_id);
    let errors = |fixture: &mut Fixture, session_epoch| {
        let next = FetchRequest { session_id: session, session_epoch, ..FetchRequest::default() };
        fixture.call(reader, 13, &next, |response: FetchResponse<'_>| {
            let mut errors: Vec<_> =
                response.responses.iter().map(|topic| (topic.topic_id, topic.partitions[0].error_code)).collect();
            errors.sort_unstable();
            errors
        })
    };
    let unknown = (57_005, ErrorCode::UNKNOWN_TOPIC_ID.0);
    assert_eq!(errors(&mut fixture, 1), [unknown]);
    fixture.cluster.delete_topic("orders");
    assert_eq!(errors(&mut fixture, 2), [unknown, (id, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0)]);
    fixture.create_topic(writer, "orders", 1);
    assert_eq!(errors(&mut fixture, 3), [unknown, (id, ErrorCode::INCONSISTENT_TOPIC_ID.0)]);
}

#[test]
fn a_partition_that_is_deleted_during_the_wait_has_no_list_of_aborted_transactions() {
    let (mut fixture, reader, _) = fixture();
    let mut request = fetch_request("orders", 0, 0, 60_000);
    request.isolation_level = 1;
    fixture.send(reader, 10, &request);
    fixture.cluster.delete_topic("orders");
    fixture.step(Event::Tick);
    let has_list = |response: FetchResponse<'_>| {
        let partition = &response.responses[0].partitions[0];
        assert_eq!(partition.error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0);
        partition.aborted_transactions.is_some()
    };
    let frame = fixture.received(reader).pop().unwrap();
    assert!(!decode::<FetchRequest<'_>, _>(10, &frame, has_list));
    assert!(fixture.call(reader, 10, &request, has_list), "the partition is gone before the request");
}
