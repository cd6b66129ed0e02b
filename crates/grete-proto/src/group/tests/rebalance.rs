//! From one generation to the next.

use std::borrow::Cow;
use std::sync::Arc;

use grete_wire::messages::{JoinGroupResponse, JoinGroupResponseMember};
use grete_wire::{ApiKey, ErrorCode};

use super::harness::*;
use crate::group::assignor::racks::Racks;
use crate::group::consumer_protocol::{decode_assignment, encode_subscription};
use crate::group::{Assignor, GroupAction, GroupConfig, GroupEvent, GroupLogEvent};
use crate::ids::TopicPartition;
use crate::request::{OutboundRequest, Request, RequestError};
use crate::time::SECOND;

#[test]
fn a_cooperative_member_keeps_what_it_has_and_claims_it() {
    let mut rig = Harness::new();
    rig.join(&[0, 1]);
    rig.rebalance();
    assert!(rig.log_texts().is_empty());
    let join = rig.take(ApiKey::JoinGroup);
    assert_eq!(claim(&join), (vec![0, 1], 1));
    rig.answer_join(&join, Assignor::CooperativeSticky);
    let epochs = [rig.epoch(0), rig.epoch(1)];
    let sync = rig.take(ApiKey::SyncGroup);
    rig.assign(&sync, &[0, 1, 2]);
    assert_eq!(rig.log_texts(), ["assign 2"]);
    assert_eq!([rig.epoch(0), rig.epoch(1)], epochs);
    assert!(rig.epoch(2) > rig.epoch(1));
}

/// P22: a partition that moves is revoked first; once it is released, another join announces that to the other members.
#[test]
fn p22_a_partition_that_moves_is_given_up_and_then_announced() {
    let mut rig = Harness::new();
    rig.join(&[0, 1, 2]);
    rig.rebalance();
    rig.complete_rebalance(&[0, 3]);
    let (_, deadline) = rig.revocation();
    assert_eq!(deadline, rig.now + 297 * SECOND);
    let new =
        rig.actions.iter().any(|a| matches!(a, GroupAction::Assign { tps, .. } if *tps == super::harness::tps(&[3])));
    assert!(new, "a new partition had no owner and need not wait");
    assert_eq!(rig.group.state_name(), "stable");
    rig.pass_with_heartbeats(100 * SECOND);
    rig.sends_no(ApiKey::JoinGroup);
    rig.ack();
    let join = rig.take(ApiKey::JoinGroup);
    assert_eq!(claim(&join), (vec![0, 3], 2));
    assert_eq!(join_request(&join).reason.as_deref(), Some("partitions were revoked"));
}

/// P25: with the default of librdkafka and Java, a list with an eager assignor, the member is eager.
#[test]
fn p25_a_member_with_an_eager_assignor_gives_everything_up_before_it_joins() {
    let mut rig = Harness::eager();
    rig.join(&[0, 1]);
    rig.rebalance();
    assert_eq!(rig.group.state_name(), "revoking");
    rig.sends_no(ApiKey::JoinGroup);
    // Heartbeats continue for as long as the application needs.
    for _ in 0..40 {
        let heartbeat = rig.next_heartbeat();
        rig.refuse(&heartbeat, ErrorCode::REBALANCE_IN_PROGRESS);
    }
    rig.sends_no(ApiKey::JoinGroup);
    rig.ack();
    assert_eq!(rig.log_texts(), ["revoke 0 1"]);
    let join = rig.take(ApiKey::JoinGroup);
    assert_eq!(claim(&join), (vec![], 1));
    rig.answer_join(&join, Assignor::Range);
    let sync = rig.take(ApiKey::SyncGroup);
    rig.assign(&sync, &[0, 1]);
    assert_eq!(rig.log_texts(), ["assign 0 1"]);
}

/// P20: neither a failing commit nor a hanging application delays the join beyond the deadline.
#[test]
fn p20_a_commit_that_fails_in_revocation_does_not_block_the_rejoin() {
    let mut rig = Harness::eager();
    rig.join(&[0, 1]);
    rig.rebalance();
    let (_, deadline) = rig.revocation();
    assert_eq!(deadline, rig.now + 297 * SECOND);
    rig.commit(3, &[(0, 10), (1, 11)]);
    while rig.now < deadline {
        rig.advance(SECOND);
        while let Some(commit) = rig.try_take(ApiKey::OffsetCommit) {
            rig.answer_commit(
                &commit,
                &[(0, ErrorCode::NOT_ENOUGH_REPLICAS), (1, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS)],
            );
        }
        if let Some(heartbeat) = rig.try_take(ApiKey::Heartbeat) {
            rig.refuse(&heartbeat, ErrorCode::REBALANCE_IN_PROGRESS);
        }
        if rig.sent.iter().any(|outgoing| outgoing.request.api() == ApiKey::FindCoordinator) {
            rig.locate(NODE);
        }
    }
    assert!(rig.is_done(3), "the caller gets the failed commit");
    rig.take(ApiKey::JoinGroup);
    assert_eq!(rig.log_texts(), ["revoke 0 1", "expired 0 1"]);
    assert_eq!(rig.group.assignment().count(), 0);
    // A late acknowledgement of the application is ignored.
    rig.step(GroupEvent::RevocationAcked { epoch: 2 });
    assert_eq!(rig.group.state_name(), "joining");
}

/// The coordinator may begin a rebalance right after the last heartbeat that it answered, and waits for the rebalance
/// timeout from then on.
#[test]
fn a_rebalance_that_began_while_heartbeats_failed_leaves_less_time() {
    let mut rig = Harness::eager();
    rig.join(&[0, 1]);
    let joined = rig.now;
    while rig.now < joined + 20 * SECOND {
        let heartbeat = rig.next_heartbeat();
        rig.refuse(&heartbeat, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
    }
    rig.rebalance();
    assert!(rig.now > joined + 20 * SECOND);
    let (_, deadline) = rig.revocation();
    assert_eq!(deadline, joined + 300 * SECOND);
}

/// P21 (librdkafka#4059): a commit that crosses the end of a generation is not lost.
#[test]
fn p21_a_commit_that_crosses_a_generation_is_retried_under_the_new_one() {
    let mut rig = Harness::new();
    rig.join(&[0, 1]);
    rig.rebalance();
    let join = rig.take(ApiKey::JoinGroup);
    // Brokers accept commits while other members are still joining.
    rig.commit(9, &[(0, 42)]);
    let crossing = rig.take(ApiKey::OffsetCommit);
    assert_eq!(committed(&crossing), (1, vec![(0, 42)]));
    rig.answer_commit(&crossing, &[(0, ErrorCode::ILLEGAL_GENERATION)]);
    assert!(rig.log_texts().is_empty());
    rig.answer_join(&join, Assignor::CooperativeSticky);
    rig.advance(SECOND);
    rig.sends_no(ApiKey::OffsetCommit); // between JoinGroup and SyncGroup the broker accepts no commit
    let sync = rig.take(ApiKey::SyncGroup);
    rig.assign(&sync, &[0, 1]);
    let again = rig.take(ApiKey::OffsetCommit);
    assert_eq!(committed(&again), (2, vec![(0, 42)]));
    rig.answer_commit(&again, &[(0, ErrorCode::NONE)]);
    assert_eq!(rig.result(9), [(0, 42, Ok(()))]);
    assert!(rig.log_texts().is_empty());
}

/// P30: assigning the same partition again gives a new epoch and a new lookup; late responses are ignored.
#[test]
fn p30_a_partition_that_comes_back_starts_from_its_commit() {
    let mut rig = Harness::new();
    rig.join(&[0]);
    rig.rebalance();
    rig.complete_rebalance(&[0, 1]);
    let late = rig.take(ApiKey::OffsetFetch);
    let first = rig.epoch(1);
    rig.rebalance();
    rig.complete_rebalance(&[0]);
    rig.ack();
    rig.complete_rebalance(&[0, 1]);
    assert!(rig.epoch(1) > first);
    rig.actions.clear();
    rig.answer_offsets(&late, ErrorCode::NONE, &[(1, 5, ErrorCode::NONE)]);
    assert!(!rig.actions.iter().any(|a| matches!(a, GroupAction::Position { .. })), "the old response may be outdated");
    rig.load(&[(1, 77)]);
    let position = rig.actions.iter().find_map(|action| match action {
        GroupAction::Position { tp, epoch, start, .. } => Some((tp.partition, *epoch, *start)),
        _ => None,
    });
    assert_eq!(position, Some((1, rig.epoch(1).unwrap(), Some(77))));
}

/// A member that missed its SyncGroup response keeps its partitions and claims them with the generation that it joined.
#[test]
fn a_missed_sync_does_not_cost_the_assignment() {
    for error in [None, Some(RequestError::Disconnected)] {
        let mut rig = Harness::new();
        rig.join(&[0, 1]);
        rig.rebalance();
        let join = rig.take(ApiKey::JoinGroup);
        rig.answer_join(&join, Assignor::CooperativeSticky);
        let sync = rig.take(ApiKey::SyncGroup);
        match error {
            None => rig.refuse(&sync, ErrorCode::REBALANCE_IN_PROGRESS),
            Some(error) => {
                rig.fail(&sync, error);
                rig.advance(SECOND);
                rig.locate(NODE);
                rig.advance(SECOND);
            }
        }
        assert!(rig.log_texts().is_empty());
        assert_eq!(claim(&rig.take(ApiKey::JoinGroup)), (vec![0, 1], 2));
    }
}

/// The claim of a JoinGroup may be lost before the response. The leader withholds the partitions that it wants to move,
/// and only another join of this member frees them.
#[test]
fn what_was_claimed_and_lost_is_set_free_by_another_join() {
    let mut rig = Harness::new();
    rig.join(&[0, 1]);
    rig.rebalance();
    let join = rig.take(ApiKey::JoinGroup);
    rig.advance(60 * SECOND);
    assert_eq!(rig.log_texts(), ["lost 0 1"]);
    rig.answer_join(&join, Assignor::CooperativeSticky);
    let sync = rig.take(ApiKey::SyncGroup);
    rig.assign(&sync, &[0]);
    assert_eq!(rig.log_texts(), ["assign 0"]);
    assert_eq!(claim(&rig.take(ApiKey::JoinGroup)), (vec![0], 2));
}

#[test]
fn a_refused_sync_means_being_out() {
    let mut rig = Harness::new();
    rig.join(&[0, 1]);
    rig.rebalance();
    let join = rig.take(ApiKey::JoinGroup);
    rig.answer_join(&join, Assignor::CooperativeSticky);
    let sync = rig.take(ApiKey::SyncGroup);
    rig.refuse(&sync, ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(rig.log_texts(), ["lost 0 1"]);
}

#[test]
fn an_assignment_that_is_none_is_no_reason_to_give_up() {
    let mut rig = Harness::new();
    rig.join(&[0, 1]);
    rig.rebalance();
    let join = rig.take(ApiKey::JoinGroup);
    rig.answer_join(&join, Assignor::CooperativeSticky);
    let sync = rig.take(ApiKey::SyncGroup);
    let garbage =
        grete_wire::messages::SyncGroupResponse { assignment: Cow::Borrowed(&[0, 0, 9]), ..Default::default() };
    rig.answer(&sync, |version, out| garbage.encode(version, out));
    assert!(rig.log_texts().is_empty());
    rig.advance(SECOND);
    assert_eq!(claim(&rig.take(ApiKey::JoinGroup)), (vec![0, 1], 2));
}

/// Answers JoinGroup: this member leads, and these are the members with their topics.
fn elect(rig: &mut Harness, join: &OutboundRequest, members: &[(&str, &[&str])]) {
    let encode = |topics: &[&str]| {
        let topics: Vec<_> = topics.iter().map(|topic| (*topic).into()).collect();
        encode_subscription(Assignor::CooperativeSticky, &topics, [], -1, None).unwrap()
    };
    let members: Vec<(&str, Vec<u8>)> = members.iter().map(|(id, topics)| (*id, encode(topics))).collect();
    elect_with(rig, join, &members);
}

/// As `elect`, with the metadata of each member.
fn elect_with(rig: &mut Harness, join: &OutboundRequest, members: &[(&str, Vec<u8>)]) {
    rig.generation += 1;
    let members = members.iter().map(|(id, metadata)| JoinGroupResponseMember {
        member_id: Cow::Owned((*id).to_owned()),
        metadata: Cow::Borrowed(metadata),
        ..JoinGroupResponseMember::default()
    });
    let answer = JoinGroupResponse {
        generation_id: rig.generation,
        protocol_name: Some(Cow::Borrowed("cooperative-sticky")),
        leader: Cow::Borrowed(ID),
        member_id: Cow::Borrowed(ID),
        members: members.collect(),
        ..JoinGroupResponse::default()
    };
    rig.answer(join, |version, out| answer.encode(version, out));
}

fn assigned(sync: &OutboundRequest) -> Vec<(String, Vec<TopicPartition>)> {
    let Request::SyncGroup(request) = &sync.request else { panic!() };
    let of = request.assignments.iter();
    of.map(|a| (a.member_id.to_string(), decode_assignment(&a.assignment).unwrap().into_iter().collect())).collect()
}

#[test]
fn the_leader_assigns_and_rejoins_when_a_topic_grows() {
    let mut rig = Harness::new();
    rig.start();
    rig.locate(NODE);
    let join = rig.take(ApiKey::JoinGroup);
    elect(&mut rig, &join, &[(ID, &["t"]), ("x", &["t"])]);
    let sync = rig.take(ApiKey::SyncGroup);
    assert_eq!(assigned(&sync), [(ID.to_owned(), tps(&[0, 2])), ("x".to_owned(), tps(&[1, 3]))]);
    rig.assign(&sync, &[0, 2]);
    assert!(rig.group.is_leader());
    // P32: a topic that is missing from the metadata has not changed.
    rig.view.0.remove("t");
    rig.step(GroupEvent::MetadataChanged);
    rig.sends_no(ApiKey::JoinGroup);
    rig.view.0.insert("t".to_owned(), 5);
    rig.step(GroupEvent::MetadataChanged);
    let join = rig.take(ApiKey::JoinGroup);
    assert_eq!(join_request(&join).reason.as_deref(), Some("the partitions of t changed"));
    assert_eq!(claim(&join), (vec![0, 2], 1));
}

/// KIP-881.
#[test]
fn the_leader_assigns_by_the_racks_of_members_and_replicas() {
    let mut rig = Harness::with(GroupConfig { rack: Some("b".into()), ..GroupConfig::new("g") });
    let of_partition = |rack: &str| Racks::from([Arc::from(rack)]);
    rig.view.4.insert("t".into(), ["a", "a", "b", "b"].map(of_partition).to_vec());
    rig.start();
    rig.locate(NODE);
    let join = rig.take(ApiKey::JoinGroup);
    let ours = join_request(&join).protocols[0].metadata.to_vec();
    let theirs = encode_subscription(Assignor::CooperativeSticky, &["t".into()], [], -1, Some("a")).unwrap();
    elect_with(&mut rig, &join, &[(ID, ours), ("x", theirs)]);
    let sync = rig.take(ApiKey::SyncGroup);
    assert_eq!(assigned(&sync), [(ID.to_owned(), tps(&[2, 3])), ("x".to_owned(), tps(&[0, 1]))]);
}

/// The SyncGroup response and the metadata of a grown topic arrive in one step: the assignment is applied first.
#[test]
fn a_leader_that_must_rejoin_at_once_claims_what_it_has_just_been_given() {
    let mut rig = Harness::new();
    rig.start();
    rig.locate(NODE);
    let join = rig.take(ApiKey::JoinGroup);
    elect(&mut rig, &join, &[(ID, &["t"])]);
    let sync = rig.take(ApiKey::SyncGroup);
    rig.view.0.insert("t".to_owned(), 9);
    rig.assign(&sync, &[0, 1]);
    assert_eq!(claim(&rig.take(ApiKey::JoinGroup)), (vec![0, 1], 1));
}

#[test]
fn the_leader_waits_for_metadata_of_what_only_others_want() {
    let mut rig = Harness::new();
    rig.start();
    rig.locate(NODE);
    let join = rig.take(ApiKey::JoinGroup);
    elect(&mut rig, &join, &[(ID, &["t"]), ("x", &["u"])]);
    let watched = rig.actions.iter().rev().find_map(|action| match action {
        GroupAction::WatchTopics { topics } => Some(topics.join(",")),
        _ => None,
    });
    assert_eq!(watched.as_deref(), Some("t,u"));
    rig.sends_no(ApiKey::SyncGroup);
    rig.view.0.insert("u".to_owned(), 1);
    rig.step(GroupEvent::MetadataChanged);
    let sync = rig.take(ApiKey::SyncGroup);
    assert_eq!(
        assigned(&sync),
        [(ID.to_owned(), tps(&[0, 1, 2, 3])), ("x".to_owned(), vec![TopicPartition::new("u", 0)])]
    );
}

#[test]
fn the_leader_does_not_wait_for_ever_and_comes_back_to_it() {
    let mut rig = Harness::new();
    rig.start();
    rig.locate(NODE);
    let join = rig.take(ApiKey::JoinGroup);
    elect(&mut rig, &join, &[(ID, &["t", "u"])]);
    rig.advance(5 * SECOND);
    let sync = rig.take(ApiKey::SyncGroup);
    assert_eq!(assigned(&sync)[0].1, tps(&[0, 1, 2, 3]));
    let unknown = |a: &GroupAction| matches!(a, GroupAction::LogEvent(GroupLogEvent::UnknownTopic { topic, .. }) if **topic == *"u");
    assert!(rig.actions.iter().any(unknown));
    rig.assign(&sync, &[0, 1, 2, 3]);
    rig.view.0.insert("u".to_owned(), 1);
    rig.step(GroupEvent::MetadataChanged);
    rig.take(ApiKey::JoinGroup);
}

#[test]
fn another_subscription_gives_up_what_it_does_not_name_and_joins_again() {
    let mut rig = Harness::new();
    rig.join(&[0, 1]);
    rig.step(GroupEvent::Subscribe { topics: vec!["u".into()] });
    rig.sends_no(ApiKey::JoinGroup);
    rig.ack();
    let join = rig.take(ApiKey::JoinGroup);
    assert_eq!(claim(&join), (vec![], 1));
    // The subscription changes again during the join: that join completes first.
    rig.step(GroupEvent::Subscribe { topics: vec!["t".into(), "u".into()] });
    rig.answer_join(&join, Assignor::CooperativeSticky);
    let sync = rig.take(ApiKey::SyncGroup);
    rig.assign(&sync, &[]);
    let join = rig.take(ApiKey::JoinGroup);
    assert_eq!(join_request(&join).reason.as_deref(), Some("the subscription changed"));
}
