//! Tests of changes that metadata responses must and must not cause.

use grete_wire::ErrorCode;

use super::super::test_cluster::{FakeCluster, FakeTopic};
use super::super::*;
use crate::group::TopicMetadataView;
use crate::time::{MILLI, SECOND};

fn tp(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}

fn fake() -> FakeCluster {
    FakeCluster::ready(&[0, 1], &[("orders", 7, &[(0, 3), (1, 4)])])
}

fn refresh(fake: &mut FakeCluster) {
    fake.event(ClusterEvent::RefreshMetadata);
    fake.advance(1300 * MILLI); // longer than the maximum retry backoff
}

#[test]
fn a_new_leader_is_applied_and_reported() {
    let mut fake = fake();
    let version = fake.cluster.metadata_version();
    fake.set_topic("orders", 7, &[(1, 5), (1, 4)]);
    refresh(&mut fake);
    assert_eq!(fake.cluster.leader(&tp(0)), Some((1, 5)));
    assert!(fake.cluster.metadata_version() > version);
    assert!(matches!(fake.actions[..], [ClusterAction::MetadataChanged, ClusterAction::MetadataRefreshed]));
}

#[test]
fn an_answer_that_changes_nothing_says_so() {
    let mut fake = fake();
    let version = fake.cluster.metadata_version();
    refresh(&mut fake);
    assert_eq!(fake.cluster.metadata_version(), version);
    assert!(matches!(fake.actions[..], [ClusterAction::MetadataRefreshed]));
}

/// P8: the same leader in a new epoch is a change; otherwise fetch sessions would never be fenced.
#[test]
fn p8_an_epoch_alone_is_a_change() {
    let mut fake = fake();
    fake.set_topic("orders", 7, &[(0, 4), (1, 4)]);
    refresh(&mut fake);
    assert_eq!(fake.cluster.leader(&tp(0)), Some((0, 4)));
    assert!(matches!(fake.actions[0], ClusterAction::MetadataChanged));
}

#[test]
fn p11_an_older_epoch_is_ignored_an_equal_one_and_none_at_all_are_not() {
    let mut fake = fake();
    fake.set_topic("orders", 7, &[(1, 2), (1, 4)]);
    refresh(&mut fake);
    assert_eq!(fake.cluster.leader(&tp(0)), Some((0, 3)), "a broker that lags behind");
    fake.set_topic("orders", 7, &[(1, 3), (1, 4)]);
    refresh(&mut fake);
    assert_eq!(fake.cluster.leader(&tp(0)), Some((1, 3)), "the same epoch");
    fake.set_topic("orders", 7, &[(0, -1), (1, 4)]);
    refresh(&mut fake);
    assert_eq!(fake.cluster.leader(&tp(0)), Some((0, -1)), "a broker that sends no epochs");
}

#[test]
fn a_missing_leader_replaces_the_known_one_only_with_a_newer_epoch() {
    let mut fake = fake();
    let no_leader = |epoch| (-1, epoch, ErrorCode::LEADER_NOT_AVAILABLE);
    let healthy = (1, 4, ErrorCode::NONE);
    let set = |fake: &mut FakeCluster, first| {
        let topic = FakeTopic { id: 7, error: ErrorCode::NONE, partitions: vec![first, healthy] };
        fake.topics.insert("orders".into(), topic);
    };
    for epoch in [-1, 2, 3] {
        set(&mut fake, no_leader(epoch));
        refresh(&mut fake);
        assert_eq!(fake.cluster.leader(&tp(0)), Some((0, 3)), "epoch {epoch}");
        assert_eq!(fake.cluster.topic("orders").unwrap().partitions[0].error, ErrorCode::LEADER_NOT_AVAILABLE);
    }
    set(&mut fake, no_leader(4));
    refresh(&mut fake);
    assert_eq!(fake.cluster.leader(&tp(0)), None);
    assert_eq!(fake.cluster.leader(&tp(1)), Some((1, 4)));
    // The metadata is requested until there is a leader, with growing delays.
    fake.metadata_requests.clear();
    fake.advance(10 * SECOND);
    assert!((8..=14).contains(&fake.metadata_requests.len()), "{}", fake.metadata_requests.len());
    set(&mut fake, (1, 5, ErrorCode::NONE));
    fake.advance(2 * SECOND);
    assert_eq!(fake.cluster.leader(&tp(0)), Some((1, 5)));
    fake.metadata_requests.clear();
    fake.advance(10 * SECOND);
    assert_eq!(fake.metadata_requests.len(), 0);
}

#[test]
fn a_missing_replica_is_no_error_of_the_partition() {
    let mut fake = fake();
    let partitions = vec![(1, 5, ErrorCode::REPLICA_NOT_AVAILABLE), (1, 4, ErrorCode::NONE)];
    fake.topics.insert("orders".into(), FakeTopic { id: 7, error: ErrorCode::NONE, partitions });
    refresh(&mut fake);
    assert_eq!(fake.cluster.leader(&tp(0)), Some((1, 5)));
    assert_eq!(fake.cluster.topic("orders").unwrap().partitions[0].error, ErrorCode::NONE);
}

#[test]
fn p11_an_error_of_the_topic_keeps_its_leaders() {
    let mut fake = fake();
    for error in [ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ErrorCode::TOPIC_AUTHORIZATION_FAILED] {
        fake.topics.insert("orders".into(), FakeTopic { id: 0, error, partitions: vec![] });
        fake.log_events.clear();
        refresh(&mut fake);
        assert_eq!(fake.cluster.leader(&tp(0)), Some((0, 3)));
        let topic = fake.cluster.topic("orders").unwrap();
        assert_eq!((topic.error, topic.id), (error, 7));
        fake.advance(3 * SECOND);
        let expected = ClusterLogEvent::TopicError { topic: "orders".into(), error };
        assert_eq!(fake.log_events, [expected], "reported once");
    }
    fake.set_topic("orders", 7, &[(0, 3), (1, 4)]);
    fake.log_events.clear();
    refresh(&mut fake);
    assert_eq!(fake.log_events, [ClusterLogEvent::TopicError { topic: "orders".into(), error: ErrorCode::NONE }]);
}

#[test]
fn p13_a_topic_made_anew_shows_its_new_id_and_its_low_epochs() {
    let mut fake = fake();
    fake.set_topic("orders", 8, &[(1, 0)]);
    refresh(&mut fake);
    let topic = fake.cluster.topic("orders").unwrap();
    assert_eq!((topic.id, topic.partitions.len()), (8, 1));
    assert_eq!(fake.cluster.leader(&tp(0)), Some((1, 0)));
    assert!(fake.cluster.topic_by_id(7).is_none());
    assert_eq!(fake.cluster.topic_by_id(8).map(|topic| &*topic.name), Some("orders"));
    assert!(fake.log_events.contains(&ClusterLogEvent::TopicRecreated { topic: "orders".into(), old: 7, new: 8 }));
}

/// P9: in a cluster with mixed versions, some responses have no ids.
#[test]
fn p9_an_answer_without_ids_takes_none_away() {
    let mut fake = fake();
    fake.set_topic("orders", 0, &[(1, 5), (1, 4)]);
    refresh(&mut fake);
    assert_eq!(fake.cluster.topic("orders").unwrap().id, 7);
    assert_eq!(fake.cluster.leader(&tp(0)), Some((1, 5)));
    assert!(fake.cluster.topic_by_id(0).is_none());
}

#[test]
fn p32_a_question_about_one_topic_ages_out_no_other() {
    let mut fake = fake();
    fake.set_topic("clicks", 9, &[(1, 0)]);
    fake.metadata_requests.clear();
    fake.event(ClusterEvent::SetTopics(vec!["clicks".into(), "orders".into()]));
    fake.advance(200 * MILLI);
    assert_eq!(fake.metadata_requests.len(), 1);
    let names = fake.metadata_requests[0].topics.as_ref().unwrap();
    assert_eq!(names.iter().map(|topic| topic.name.as_deref().unwrap()).collect::<Vec<_>>(), ["clicks"]);
    assert_eq!(fake.cluster.leader(&tp(0)), Some((0, 3)));
    assert_eq!(fake.cluster.leader(&TopicPartition::new("clicks", 0)), Some((1, 0)));
    // Topics that are no longer tracked are removed.
    fake.event(ClusterEvent::SetTopics(vec!["clicks".into()]));
    assert!(fake.cluster.topic("orders").is_none() && fake.cluster.topic_by_id(7).is_none());
}

#[test]
fn a_late_answer_about_a_topic_of_the_past_is_not_taken_in() {
    let mut fake = fake();
    fake.event(ClusterEvent::RefreshMetadata);
    fake.now = fake.cluster.deadline().unwrap_or(fake.now).max(fake.now + SECOND);
    fake.event(ClusterEvent::Tick);
    let asked = fake.next_request(ApiKey::Metadata).expect("on its way");
    fake.event(ClusterEvent::SetTopics(vec![]));
    fake.auto_respond(&asked);
    assert_eq!(fake.cluster.topics().count(), 0);
}

#[test]
fn a_topic_that_does_not_exist_yet_is_looked_for_until_it_does() {
    let mut fake = fake();
    fake.event(ClusterEvent::SetTopics(vec!["orders".into(), "later".into()]));
    fake.metadata_requests.clear();
    fake.advance(20 * SECOND);
    assert!((15..=28).contains(&fake.metadata_requests.len()), "{}", fake.metadata_requests.len());
    assert_eq!(fake.cluster.topic("later").unwrap().error, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    fake.set_topic("later", 11, &[(0, 0)]);
    fake.advance(1300 * MILLI);
    assert_eq!(fake.cluster.topic_by_id(11).map(|topic| topic.error), Some(ErrorCode::NONE));
}

#[test]
fn each_answer_says_anew_whether_the_topic_is_missing() {
    let mut fake = fake();
    fake.event(ClusterEvent::SetTopics(vec!["orders".into(), "later".into()]));
    let missing_at = |fake: &FakeCluster, topic: &str| fake.cluster.topic(topic).unwrap().missing_at;
    fake.advance(SECOND);
    let first = missing_at(&fake, "later").expect("the broker does not know the topic");
    fake.advance(2 * SECOND);
    assert!(missing_at(&fake, "later").unwrap() > first, "nothing else has changed");
    assert_eq!(missing_at(&fake, "orders"), None);
    fake.set_topic("later", 11, &[(0, 0)]);
    fake.advance(1300 * MILLI);
    assert_eq!(missing_at(&fake, "later"), None);
}

#[test]
fn partitions_are_added_and_never_taken_away() {
    let mut fake = fake();
    fake.set_topic("orders", 7, &[(0, 3), (1, 4), (1, 0)]);
    refresh(&mut fake);
    assert_eq!(fake.cluster.topic("orders").unwrap().partitions.len(), 3);
    fake.set_topic("orders", 7, &[(0, 3)]);
    refresh(&mut fake);
    assert_eq!(fake.cluster.leader(&tp(2)), Some((1, 0)));
}

#[test]
fn metadata_is_refreshed_at_its_age() {
    let mut fake = fake();
    fake.metadata_requests.clear();
    fake.advance(299 * SECOND);
    assert_eq!(fake.metadata_requests.len(), 0);
    fake.advance(2 * SECOND);
    assert_eq!(fake.metadata_requests.len(), 1);
    fake.advance(3000 * SECOND);
    assert_eq!(fake.metadata_requests.len(), 11);
}

#[test]
fn one_question_at_a_time_and_no_storm() {
    let mut fake = fake();
    fake.metadata_requests.clear();
    for _ in 0..1000 {
        fake.event(ClusterEvent::RefreshMetadata);
        fake.advance(10 * MILLI);
    }
    assert!((8..=25).contains(&fake.metadata_requests.len()), "{} in ten seconds", fake.metadata_requests.len());
}

/// KIP-951: leaders reported in other responses.
#[test]
fn a_leader_named_on_the_way_needs_a_newer_epoch_and_a_known_node() {
    let mut fake = fake();
    let version = fake.cluster.metadata_version();
    assert!(!fake.cluster.update_leader(&tp(0), 1, 3));
    assert!(!fake.cluster.update_leader(&tp(0), 9, 5), "no address is known");
    assert!(!fake.cluster.update_leader(&tp(5), 1, 5));
    assert!(!fake.cluster.update_leader(&tp(-1), 1, 5));
    assert_eq!(fake.cluster.metadata_version(), version);
    assert!(fake.cluster.learn_node(9, "b9", 9092));
    assert!(fake.cluster.update_leader(&tp(0), 9, 5));
    assert_eq!(fake.cluster.leader(&tp(0)), Some((9, 5)));
    assert!(fake.cluster.metadata_version() > version);
    refresh(&mut fake);
    assert_eq!(fake.cluster.leader(&tp(0)), Some((9, 5)), "an answer that lags behind does not undo it");
}

#[test]
fn a_leader_hint_carries_the_address_and_is_reported_when_it_is_new() {
    let mut fake = fake();
    let hint = |leader, epoch, endpoint: Option<&str>| ClusterEvent::LeaderHint {
        tp: tp(0),
        leader,
        epoch,
        endpoint: endpoint.map(|host| (host.to_owned(), 9092)),
    };
    fake.event(hint(9, 3, Some("b9")));
    assert!(fake.cluster.address(9).is_none(), "an old hint");
    fake.event(hint(9, 5, None));
    assert!(fake.actions.is_empty(), "no address is known");
    fake.event(hint(9, 5, Some("b9")));
    assert!(matches!(fake.actions[..], [ClusterAction::MetadataChanged]));
    assert_eq!(fake.cluster.leader(&tp(0)), Some((9, 5)));
    assert_eq!(fake.cluster.address(9).as_deref(), Some("b9:9092"));
}

#[test]
fn partitions_are_returned_until_a_fatal_topic_error() {
    let mut fake = fake();
    assert!(fake.cluster.partitions("payments").is_none());
    let leaders = |fake: &FakeCluster| {
        fake.cluster.partitions("orders").unwrap().map(|all| all.iter().map(|p| p.leader).collect())
    };
    assert_eq!(leaders(&fake), Ok(vec![0, 1]));
    fake.topics.get_mut("orders").unwrap().error = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    refresh(&mut fake);
    assert_eq!(leaders(&fake), Ok(vec![0, 1]), "the broker that answered may lag behind");
    fake.topics.get_mut("orders").unwrap().error = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
    refresh(&mut fake);
    assert_eq!(leaders(&fake), Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED));
    fake.event(ClusterEvent::SetTopics(vec!["orders".into(), "new".into()]));
    refresh(&mut fake);
    assert_eq!(fake.cluster.partitions("new"), Some(Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)));
}

#[test]
fn brokers_are_listed_with_their_addresses() {
    let fake = fake();
    let listed: Vec<_> =
        fake.cluster.brokers().map(|broker| (broker.id, broker.host, broker.port, broker.rack)).collect();
    assert_eq!(listed, [(0, "b0", 9092, None), (1, "b1", 9092, None)]);
}

/// The leader of a group assigns by racks (KIP-881): a broker that restarts must not change them.
#[test]
fn racks_of_replicas_outlast_their_brokers_as_long_as_replicas_are_there() {
    let racks = |fake: &FakeCluster| -> Vec<String> {
        let racks = TopicMetadataView::replica_racks(&fake.cluster, "orders");
        racks.iter().map(|racks| racks.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join("+")).collect()
    };
    let mut fake = fake();
    assert_eq!(racks(&fake), ["", ""]);
    fake.racks = [(0, "a"), (1, "b")].into();
    refresh(&mut fake);
    assert_eq!(racks(&fake), ["a", "b"]);
    let gone = fake.brokers.remove(&1).unwrap();
    fake.set_topic("orders", 7, &[(0, 3), (-1, 5)]);
    refresh(&mut fake);
    assert_eq!(racks(&fake), ["a", "b"], "the broker is down, and its replica is still there");
    fake.set_topic("orders", 7, &[(0, 3), (0, 6)]);
    refresh(&mut fake);
    assert_eq!((racks(&fake), fake.cluster.rack(1)), (vec!["a".to_owned(), "a".to_owned()], None), "it has moved away");
    fake.brokers.insert(1, gone);
    fake.racks = [(0, ""), (1, "c")].into();
    fake.set_topic("orders", 7, &[(0, 3), (1, 7)]);
    refresh(&mut fake);
    assert_eq!(racks(&fake), ["", "c"], "a rack can be renamed, and an empty name is none");
}
