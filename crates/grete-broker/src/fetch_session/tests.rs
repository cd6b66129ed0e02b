use std::borrow::Cow;

use grete_wire::messages::{FetchPartition, FetchTopic, ForgottenTopic, PartitionData};

use super::*;

fn request(session_id: i32, session_epoch: i32, partitions: &[i32]) -> FetchRequest<'static> {
    let partition = |&partition: &i32| FetchPartition { partition, ..FetchPartition::default() };
    FetchRequest {
        session_id,
        session_epoch,
        topics: vec![FetchTopic {
            topic: Cow::Borrowed("orders"),
            topic_id: 0,
            partitions: partitions.iter().map(partition).collect(),
        }],
        ..FetchRequest::default()
    }
}

fn begin(
    sessions: &mut FetchSessions,
    version: i16,
    request: &FetchRequest<'_>,
) -> Result<(SessionUse, Arc<WantedPartitions>), ErrorCode> {
    sessions.begin(version, request, |_| None)
}

fn indexes(wanted: &WantedPartitions) -> Vec<i32> {
    wanted.iter().map(|(_, partition)| partition.fetch.partition).collect()
}

fn partitions(request: &FetchRequest<'_>) -> WantedPartitions {
    listed(request).into_iter().collect()
}

fn data(partition_index: i32, high_watermark: i64, records: &[u8]) -> FetchedPartition {
    let data = PartitionData { partition_index, high_watermark, ..PartitionData::default() };
    let batches = if records.is_empty() { Vec::new() } else { vec![Arc::new(records.to_vec())] };
    FetchedPartition { data, batches }
}

#[test]
fn a_session_remembers_its_partitions() {
    let mut sessions = FetchSessions::new(1);
    let (session, wanted) = begin(&mut sessions, 12, &request(0, 0, &[0, 1])).unwrap();
    assert_eq!((session, indexes(&wanted)), (SessionUse::New, vec![0, 1]));
    let id = sessions.open(12, Arc::unwrap_or_clone(wanted));
    let mut next = request(id, 1, &[2]);
    next.forgotten_topics_data =
        vec![ForgottenTopic { topic: Cow::Borrowed("orders"), topic_id: 0, partitions: vec![0] }];
    let (session, wanted) = begin(&mut sessions, 12, &next).unwrap();
    assert_eq!((session, indexes(&wanted)), (SessionUse::Incremental(id), vec![1, 2]));
    // A repeated epoch is refused, and so is another way to name topics.
    assert_eq!(begin(&mut sessions, 12, &next).unwrap_err(), ErrorCode::INVALID_FETCH_SESSION_EPOCH);
    assert_eq!(begin(&mut sessions, 13, &request(id, 2, &[])).unwrap_err(), ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR);
}

#[test]
fn partitions_with_data_are_read_last_and_those_without_news_are_left_out() {
    let mut sessions = FetchSessions::new(1);
    let (session, wanted) = begin(&mut sessions, 12, &request(0, 0, &[0, 1, 2])).unwrap();
    let full = (0..3).map(|slot| (slot, data(i32::try_from(slot).unwrap(), 7, b""))).collect();
    let (id, sent) = sessions.respond(12, session, wanted, full);
    assert_eq!(sent.len(), 3);
    let (session, wanted) = begin(&mut sessions, 12, &request(id, 1, &[])).unwrap();
    // The third has no news, and the second, which was not read, keeps its place.
    let (_, sent) = sessions.respond(12, session, wanted, vec![(0, data(0, 7, b"records")), (2, data(2, 7, b""))]);
    assert_eq!(sent.iter().map(|(_, fetched)| fetched.data.partition_index).collect::<Vec<_>>(), [0]);
    let (_, wanted) = begin(&mut sessions, 12, &request(id, 2, &[])).unwrap();
    assert_eq!(indexes(&wanted), [1, 2, 0]);
}

#[test]
fn a_response_teaches_nothing_to_a_session_that_changed_meanwhile() {
    let mut sessions = FetchSessions::new(1);
    let id = sessions.open(12, partitions(&request(0, 0, &[0, 1])));
    let (session, waiting) = begin(&mut sessions, 12, &request(id, 1, &[])).unwrap();
    let mut next = request(id, 2, &[]);
    next.forgotten_topics_data =
        vec![ForgottenTopic { topic: Cow::Borrowed("orders"), topic_id: 0, partitions: vec![0] }];
    let (_, wanted) = begin(&mut sessions, 12, &next).unwrap();
    assert_eq!((indexes(&wanted), indexes(&waiting)), (vec![1], vec![0, 1]));
    // Slot 0 is another partition now.
    sessions.respond(12, session, waiting, vec![(0, data(0, 7, b"records"))]);
    let (_, wanted) = begin(&mut sessions, 12, &request(id, 3, &[0])).unwrap();
    assert_eq!(indexes(&wanted), [1, 0]);
    assert!(wanted.iter().all(|(_, wanted)| wanted.last_high_watermark == -1));
}

#[test]
fn full_requests_end_the_session_they_name() {
    let mut sessions = FetchSessions::new(1);
    let id = sessions.open(12, WantedPartitions::default());
    assert_eq!(begin(&mut sessions, 12, &request(id, -1, &[0])).unwrap().0, SessionUse::None);
    assert!(sessions.is_empty());
    assert_eq!(begin(&mut sessions, 12, &request(id, 1, &[])).unwrap_err(), ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
}

#[test]
fn a_session_that_forgets_all_partitions_ends_and_reads_those_of_the_request() {
    let mut sessions = FetchSessions::new(1);
    let id = sessions.open(12, partitions(&request(0, 0, &[0])));
    let mut last = request(id, 1, &[1]);
    last.forgotten_topics_data =
        vec![ForgottenTopic { topic: Cow::Borrowed("orders"), topic_id: 0, partitions: vec![0, 1] }];
    let (session, wanted) = begin(&mut sessions, 12, &last).unwrap();
    assert_eq!((session, indexes(&wanted), sessions.len()), (SessionUse::None, vec![1], 0));
}

#[test]
fn the_session_unused_for_longest_is_dropped() {
    let mut sessions = FetchSessions::new(1);
    let ids: Vec<i32> = (0..MAX_SESSIONS).map(|_| sessions.open(12, partitions(&request(0, 0, &[0])))).collect();
    begin(&mut sessions, 12, &request(ids[0], 1, &[])).unwrap();
    sessions.open(12, WantedPartitions::default());
    assert_eq!(sessions.len(), MAX_SESSIONS);
    assert!(begin(&mut sessions, 12, &request(ids[0], 2, &[])).is_ok());
    assert_eq!(begin(&mut sessions, 12, &request(ids[1], 1, &[])).unwrap_err(), ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
}
