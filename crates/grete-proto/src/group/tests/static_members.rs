//! Static members (KIP-345): returning, being fenced, and closing without LeaveGroup.

use std::borrow::Cow;

use grete_wire::frame::Frame;
use grete_wire::messages::describe_groups::{DescribedGroup, DescribedGroupMember};
use grete_wire::messages::{DescribeGroupsResponse, JoinGroupResponse, JoinGroupResponseMember};
use grete_wire::{ApiKey, ErrorCode, SegmentedBuf};

use super::harness::*;
use crate::group::consumer_protocol::{encode_assignment, encode_subscription};
use crate::group::{Assignor, GroupAction, GroupConfig, GroupError, GroupEvent, GroupLogEvent};
use crate::request::{Channel, OutboundRequest, Request, RequestError, Response, Target};
use crate::time::{Nanos, SECOND};

const INSTANCE: &str = "host-0";

fn config() -> GroupConfig {
    GroupConfig { instance_id: Some(INSTANCE.into()), ..GroupConfig::new("g") }
}

/// Static member in the group, with these partitions.
fn joined(partitions: &[i32]) -> Harness {
    let mut rig = Harness::with(config());
    rig.start();
    rig.locate(NODE);
    rig.complete_rebalance(partitions);
    rig.load(&[]);
    rig.actions.clear();
    rig
}

fn instance_of(outgoing: &OutboundRequest) -> Option<&str> {
    match &outgoing.request {
        Request::JoinGroup(request) => request.group_instance_id.as_deref(),
        Request::SyncGroup(request) => request.group_instance_id.as_deref(),
        Request::Heartbeat(request) => request.group_instance_id.as_deref(),
        Request::OffsetCommit(request) => request.group_instance_id.as_deref(),
        other => panic!("{other:?}"),
    }
}

/// Answers JoinGroup of a leader that returns into its own generation, with the other members' subscriptions.
fn answer_returning_join(rig: &mut Harness, asked: &OutboundRequest, version: i16, leader: &str, skip: bool) {
    let topics = ["t", "u"].map(Into::into);
    let metadata = encode_subscription(Assignor::CooperativeSticky, &topics, &[], -1, None).unwrap();
    let member = |id: &'static str| JoinGroupResponseMember {
        member_id: Cow::Borrowed(id),
        group_instance_id: None,
        metadata: Cow::Owned(metadata.clone()),
    };
    let answer = JoinGroupResponse {
        generation_id: 5,
        protocol_name: Some(Cow::Borrowed("cooperative-sticky")),
        leader: Cow::Borrowed(leader),
        skip_assignment: skip,
        member_id: Cow::Borrowed(ID),
        members: if skip { vec![member(ID), member("other")] } else { Vec::new() },
        ..JoinGroupResponse::default()
    };
    let mut body = Vec::new();
    answer.encode(version, &mut body).unwrap();
    rig.reply(asked, Ok(Response { api: ApiKey::JoinGroup, version, frame: Frame::from(body), body: 0 }));
}

fn fatal(rig: &Harness) -> Option<&GroupError> {
    rig.actions.iter().find_map(|action| match action {
        GroupAction::Fatal(error) => Some(error),
        _ => None,
    })
}

/// Asserts that the member is fenced for good: its partitions are lost, not revoked, nothing is committed, and the
/// error advises.
#[track_caller]
fn is_fenced(rig: &mut Harness, request: &str, lost: Option<&str>) {
    let error = fatal(rig).expect("the group failed for good").clone();
    assert!(matches!(&error, GroupError::InstanceFenced { instance, .. } if &**instance == INSTANCE), "{error:?}");
    let text = error.to_string();
    for part in ["group g", "group.instance.id=host-0", request, "FENCED_INSTANCE_ID", "stop the other one"] {
        assert!(text.contains(part), "{part:?} is missing: {text}");
    }
    let expected: Vec<String> = lost.map(str::to_owned).into_iter().chain([format!("fatal {error}")]).collect();
    assert_eq!(rig.log_texts(), expected);
    assert_eq!((rig.group.state_name(), rig.group.deadline()), ("failed", None));
    rig.sent.clear();
    rig.advance(100 * SECOND);
    assert!(rig.sent.is_empty(), "{:?}", rig.sent);
}

#[test]
fn the_way_in_takes_one_join_and_every_request_names_the_instance() {
    let mut rig = Harness::with(config());
    rig.start();
    rig.locate(NODE);
    let join = rig.take(ApiKey::JoinGroup);
    assert_eq!((&*join_request(&join).member_id, instance_of(&join)), ("", Some(INSTANCE)));
    rig.answer_join(&join, Assignor::CooperativeSticky);
    let sync = rig.take(ApiKey::SyncGroup);
    assert_eq!(instance_of(&sync), Some(INSTANCE));
    rig.assign(&sync, &[0, 1]);
    assert!(rig.group.is_ready());
    rig.commit(1, &[(0, 5)]);
    let commit = rig.take(ApiKey::OffsetCommit);
    assert_eq!(instance_of(&commit), Some(INSTANCE));
    let heartbeat = rig.next_heartbeat();
    assert_eq!(instance_of(&heartbeat), Some(INSTANCE));
    let mut rig = Harness::new();
    rig.join(&[0]);
    let heartbeat = rig.next_heartbeat();
    assert_eq!(instance_of(&heartbeat), None);
}

/// A standalone committer is not a member, whatever its settings.
#[test]
fn a_standalone_commit_names_no_instance() {
    let mut rig = Harness::with(config());
    rig.step(GroupEvent::Assigned { tps: tps(&[0]), epoch: 1, fetch_offsets: false });
    assert!(rig.group.is_ready());
    rig.commit(1, &[(0, 5)]);
    rig.locate(NODE);
    let commit = rig.take(ApiKey::OffsetCommit);
    assert_eq!((instance_of(&commit), committed(&commit).0), (None, -1));
}

/// Back in the same generation: the member applies the returned assignment, and no member joins again for it.
#[test]
fn who_comes_back_takes_its_assignment_without_another_round() {
    let mut rig = Harness::with(config());
    rig.generation = 8; // the generation continues as 9
    rig.start();
    rig.locate(NODE);
    rig.complete_rebalance(&[0, 1, 2]);
    assert_eq!((rig.group.generation(), rig.group.is_ready()), (9, true));
    assert_eq!(rig.log_texts(), ["assign 0 1 2"]);
    rig.load(&[]);
    rig.pass_with_heartbeats(400 * SECOND);
    rig.sends_no(ApiKey::JoinGroup);
}

/// KIP-814: the leader does not assign, but watches the group's topics like every leader.
#[test]
fn a_leader_that_comes_back_assigns_nothing_and_watches() {
    for (version, leader, skip) in [(9, ID, true), (8, "host-0-6f1e0f3c-7d0c-4bb1-b1f5-0a0d5a5f3f11", false)] {
        let mut rig = Harness::with(config());
        rig.view.0.insert("u".to_owned(), 2);
        rig.start();
        rig.locate(NODE);
        let join = rig.take(ApiKey::JoinGroup);
        answer_returning_join(&mut rig, &join, version, leader, skip);
        let watched = rig.actions.iter().rev().find_map(|action| match action {
            GroupAction::WatchTopics { topics } => Some(topics.iter().map(|t| t.to_string()).collect::<Vec<_>>()),
            _ => None,
        });
        assert_eq!(watched.unwrap(), if skip { vec!["t", "u"] } else { vec!["t"] });
        let sync = rig.take(ApiKey::SyncGroup);
        let Request::SyncGroup(request) = &sync.request else { unreachable!() };
        assert_eq!((request.assignments.len(), request.generation_id), (0, 5));
        rig.assign(&sync, &[0, 1]);
        assert!(rig.group.is_leader() && rig.group.is_ready());
        rig.load(&[]);
        rig.pass_with_heartbeats(20 * SECOND);
        rig.sends_no(ApiKey::JoinGroup);
        rig.view.0.insert(if skip { "u" } else { "t" }.to_owned(), 7);
        rig.step(GroupEvent::MetadataChanged);
        let again = rig.take(ApiKey::JoinGroup);
        assert_eq!((&*join_request(&again).member_id, claim(&again)), (ID, (vec![0, 1], 5)));
    }
}

/// Returns a restarted leader that has received the assignments (`ours`, `theirs`) and the claims.
fn after_orphan_check(ours: &[i32], theirs: &[i32], claimed: &[i32], state: &'static str) -> Harness {
    let mut rig = Harness::with(config());
    rig.view.0.insert("u".to_owned(), 0);
    rig.start();
    rig.locate(NODE);
    let join = rig.take(ApiKey::JoinGroup);
    answer_returning_join(&mut rig, &join, 9, ID, true);
    let sync = rig.take(ApiKey::SyncGroup);
    rig.assign(&sync, ours);
    rig.load(&[]);
    let look = rig.take(ApiKey::DescribeGroups);
    assert_eq!((look.target, look.channel), (Target::Node(NODE), Channel::Control));
    let member = |id: &'static str, partitions: &[i32], claimed: &[i32]| DescribedGroupMember {
        member_id: Cow::Borrowed(id),
        member_assignment: Cow::Owned(encode_assignment(&tps(partitions)).unwrap()),
        member_metadata: Cow::Owned(
            encode_subscription(Assignor::CooperativeSticky, &["t".into()], &tps(claimed), 4, None).unwrap(),
        ),
        ..DescribedGroupMember::default()
    };
    let group = DescribedGroup {
        group_id: Cow::Borrowed("g"),
        group_state: Cow::Borrowed(state),
        members: vec![member(ID, ours, &[]), member("other", theirs, claimed)],
        ..DescribedGroup::default()
    };
    let answer = DescribeGroupsResponse { groups: vec![group], ..DescribeGroupsResponse::default() };
    rig.answer(&look, |version, out| answer.encode(version, out));
    rig
}

#[test]
fn a_returned_leader_checks_that_every_partition_is_owned() {
    let mut rig = after_orphan_check(&[0, 1], &[2, 3], &[2], "Stable");
    rig.pass_with_heartbeats(400 * SECOND);
    rig.sends_no(ApiKey::DescribeGroups);
    rig.sends_no(ApiKey::JoinGroup);

    // One partition has no owner.
    let mut rig = after_orphan_check(&[0, 1], &[2], &[2], "Stable");
    let join = rig.take(ApiKey::JoinGroup);
    assert_eq!(join_request(&join).reason.as_deref(), Some("partitions have no owner"));
    assert_eq!(claim(&join), (vec![0, 1], 5));
}

/// A partition that is still claimed is being given up, which may take until the deadline, but no longer.
#[test]
fn a_leader_rechecks_until_orphans_are_unclaimed() {
    let mut rig = after_orphan_check(&[0, 1], &[2], &[2, 3], "Stable");
    rig.pass_with_heartbeats(14 * SECOND);
    rig.sends_no(ApiKey::DescribeGroups);
    rig.pass_with_heartbeats(SECOND);
    let look = rig.take(ApiKey::DescribeGroups);
    rig.fail(&look, RequestError::TimedOut);
    rig.advance(SECOND);
    rig.locate(NODE);
    rig.pass_with_heartbeats(282 * SECOND);
    rig.sends_no(ApiKey::JoinGroup);
    rig.pass_with_heartbeats(2 * SECOND);
    rig.take(ApiKey::JoinGroup);

    // Only stable groups report metadata and assignments.
    let rig = after_orphan_check(&[0, 1], &[], &[], "PreparingRebalance");
    rig.sends_no(ApiKey::JoinGroup);
}

/// Another member with an old broker leads: its id contains its own instance id.
#[test]
fn a_follower_that_comes_back_to_an_old_broker_follows() {
    for leader in ["host-0", "host-0-short", "host-1-6f1e0f3c-7d0c-4bb1-b1f5-0a0d5a5f3f11"] {
        let mut rig = Harness::with(config());
        rig.start();
        rig.locate(NODE);
        let join = rig.take(ApiKey::JoinGroup);
        answer_returning_join(&mut rig, &join, 8, leader, false);
        let sync = rig.take(ApiKey::SyncGroup);
        rig.assign(&sync, &[0]);
        assert!(!rig.group.is_leader(), "{leader}");
    }
}

#[test]
fn another_process_with_our_id_ends_us_at_a_heartbeat() {
    let mut rig = joined(&[0, 1]);
    rig.commit(1, &[(0, 5)]);
    let heartbeat = rig.next_heartbeat();
    rig.refuse(&heartbeat, ErrorCode::FENCED_INSTANCE_ID);
    assert_eq!(rig.result(1).len(), 1);
    is_fenced(&mut rig, "Heartbeat", Some("lost 0 1"));
}

#[test]
fn another_process_with_our_id_ends_us_at_a_commit() {
    let mut rig = joined(&[0, 1]);
    rig.commit(1, &[(0, 5), (1, 6)]);
    let commit = rig.take(ApiKey::OffsetCommit);
    rig.answer_commit(&commit, &[(0, ErrorCode::FENCED_INSTANCE_ID), (1, ErrorCode::FENCED_INSTANCE_ID)]);
    assert!(rig.result(1).iter().all(|(_, _, result)| result.is_err()));
    is_fenced(&mut rig, "OffsetCommit", Some("lost 0 1"));
}

#[test]
fn another_process_with_our_id_ends_us_while_we_join() {
    let mut rig = joined(&[0]);
    rig.rebalance();
    let join = rig.take(ApiKey::JoinGroup);
    rig.refuse(&join, ErrorCode::FENCED_INSTANCE_ID);
    is_fenced(&mut rig, "JoinGroup", Some("lost 0"));

    let mut rig = joined(&[0]);
    rig.rebalance();
    let join = rig.take(ApiKey::JoinGroup);
    rig.answer_join(&join, Assignor::CooperativeSticky);
    let sync = rig.take(ApiKey::SyncGroup);
    rig.refuse(&sync, ErrorCode::FENCED_INSTANCE_ID);
    is_fenced(&mut rig, "SyncGroup", Some("lost 0"));

    let mut rig = Harness::with(config());
    rig.start();
    rig.locate(NODE);
    let join = rig.take(ApiKey::JoinGroup);
    rig.refuse(&join, ErrorCode::FENCED_INSTANCE_ID);
    is_fenced(&mut rig, "JoinGroup", None);
}

#[test]
fn an_id_that_is_not_released_is_named() {
    let mut rig = Harness::with(config());
    rig.start();
    rig.locate(NODE);
    let join = rig.take(ApiKey::JoinGroup);
    rig.refuse(&join, ErrorCode::UNRELEASED_INSTANCE_ID);
    let text = fatal(&rig).unwrap().to_string();
    assert!(text.contains("group.instance.id=host-0") && text.contains("UNRELEASED_INSTANCE_ID"), "{text}");
}

/// P29 (KAFKA-20985): the coordinator processes an abandoned JoinGroup after the one that replaced it.
#[test]
fn p29_a_join_of_our_own_that_comes_late_does_not_end_us() {
    let mut rig = Harness::with(config());
    rig.start();
    rig.locate(NODE);
    let lost = rig.take(ApiKey::JoinGroup);
    rig.fail(&lost, RequestError::Disconnected);
    rig.advance(SECOND);
    rig.locate(NODE);
    let second = rig.take(ApiKey::JoinGroup);
    rig.refuse(&second, ErrorCode::FENCED_INSTANCE_ID);
    assert_eq!(fatal(&rig), None);
    rig.advance(SECOND);
    let third = rig.take(ApiKey::JoinGroup);
    assert_eq!((&*join_request(&third).member_id, instance_of(&third)), ("", Some(INSTANCE)));
    // It is excused once: after that the other member is another process.
    rig.refuse(&third, ErrorCode::FENCED_INSTANCE_ID);
    is_fenced(&mut rig, "JoinGroup", None);
}

/// P29: the same, but the late JoinGroup arrives when the second join is complete.
#[test]
fn p29_a_late_join_is_expected_for_a_session_and_no_longer() {
    for (wait, ends) in [(10, false), (50, true)] {
        let mut rig = Harness::with(config());
        rig.start();
        rig.locate(NODE);
        let lost = rig.take(ApiKey::JoinGroup);
        rig.fail(&lost, RequestError::TimedOut);
        rig.advance(SECOND);
        rig.locate(NODE);
        rig.complete_rebalance(&[0]);
        rig.actions.clear();
        rig.pass_with_heartbeats(wait * SECOND);
        let heartbeat = rig.next_heartbeat();
        rig.refuse(&heartbeat, ErrorCode::FENCED_INSTANCE_ID);
        if ends {
            is_fenced(&mut rig, "Heartbeat", Some("lost 0"));
        } else {
            assert_eq!(rig.log_texts(), ["lost 0"]);
            let join = rig.take(ApiKey::JoinGroup);
            assert_eq!((&*join_request(&join).member_id, claim(&join)), ("", (vec![], -1)));
        }
    }
}

/// P29: the coordinator that gave the member its id has failed, and its successor's log has the previous id. If the
/// group has moved twice meanwhile, the successor is the same node, and no response reported either move.
#[test]
fn p29_an_id_that_died_with_its_coordinator_does_not_end_us() {
    for moved in [true, false] {
        let mut rig = Harness::with(config());
        rig.start();
        rig.locate(NODE);
        let join = rig.take(ApiKey::JoinGroup);
        rig.answer_join(&join, Assignor::CooperativeSticky);
        let sync = rig.take(ApiKey::SyncGroup);
        if moved {
            rig.refuse(&sync, ErrorCode::NOT_COORDINATOR);
            rig.advance(SECOND);
            rig.locate(8);
            let again = rig.take(ApiKey::JoinGroup);
            assert_eq!(join_request(&again).member_id, ID);
            rig.refuse(&again, ErrorCode::FENCED_INSTANCE_ID);
        } else {
            rig.refuse(&sync, ErrorCode::FENCED_INSTANCE_ID);
        }
        rig.advance(SECOND);
        let anew = rig.take(ApiKey::JoinGroup);
        assert_eq!(join_request(&anew).member_id, "");
        // It is excused once: two processes with one id must not fence each other endlessly.
        rig.answer_join(&anew, Assignor::CooperativeSticky);
        let sync = rig.take(ApiKey::SyncGroup);
        rig.refuse(&sync, ErrorCode::FENCED_INSTANCE_ID);
        is_fenced(&mut rig, "SyncGroup", None);
    }
}

/// The first complete generation with a new id makes that id known to every coordinator.
#[test]
fn an_id_that_is_in_the_groups_log_does_not_die_with_a_coordinator() {
    let mut rig = joined(&[0]);
    rig.rebalance();
    let join = rig.take(ApiKey::JoinGroup);
    rig.refuse(&join, ErrorCode::NOT_COORDINATOR);
    rig.advance(SECOND);
    rig.locate(8);
    let again = rig.take(ApiKey::JoinGroup);
    assert_eq!(join_request(&again).member_id, ID);
    rig.refuse(&again, ErrorCode::FENCED_INSTANCE_ID);
    is_fenced(&mut rig, "JoinGroup", Some("lost 0"));
}

/// Removed by an administrator, or the session expired: the member joins under the same instance id, with a new member
/// id.
#[test]
fn a_member_that_was_removed_joins_again_under_its_instance_id() {
    let mut rig = joined(&[0, 1]);
    let heartbeat = rig.next_heartbeat();
    rig.refuse(&heartbeat, ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(rig.log_texts(), ["lost 0 1"]);
    let join = rig.take(ApiKey::JoinGroup);
    assert_eq!((&*join_request(&join).member_id, instance_of(&join)), ("", Some(INSTANCE)));
}

/// A heartbeat or commit with an abandoned member id says nothing about the current member.
#[test]
fn a_fenced_response_for_an_old_member_id_is_not_fatal() {
    let mut rig = joined(&[0]);
    let old = rig.next_heartbeat();
    rig.commit(1, &[(0, 5)]);
    let commit = rig.take(ApiKey::OffsetCommit);
    rig.commit(2, &[(0, 6)]);
    rig.answer_commit(&commit, &[(0, ErrorCode::UNKNOWN_MEMBER_ID)]);
    let join = rig.take(ApiKey::JoinGroup);
    rig.refuse(&old, ErrorCode::FENCED_INSTANCE_ID);
    rig.answer_join(&join, Assignor::CooperativeSticky);
    rig.answer_commit(&commit, &[(0, ErrorCode::FENCED_INSTANCE_ID)]);
    assert_eq!(fatal(&rig), None);
    rig.take(ApiKey::SyncGroup);
}

/// KIP-345: the last commit is sent, LeaveGroup is not.
#[test]
fn closing_commits_and_does_not_leave() {
    let mut rig = joined(&[0, 1]);
    let deadline: Nanos = rig.now + 30 * SECOND;
    rig.step(GroupEvent::Leave { deadline, remain_in_group: true });
    assert!(!rig.group.is_ready());
    rig.commit(1, &[(0, 5)]);
    rig.ack();
    let commit = rig.take(ApiKey::OffsetCommit);
    assert_eq!(rig.group.state_name(), "stable");
    rig.answer_commit(&commit, &[(0, ErrorCode::NONE)]);
    assert_eq!(rig.result(1), [(0, 5, Ok(()))]);
    rig.sends_no(ApiKey::LeaveGroup);
    let kept = |action: &GroupAction| {
        matches!(action, GroupAction::LogEvent(GroupLogEvent::RemainedInGroup { session_ms: 45_000, .. }))
    };
    assert!(rig.actions.iter().any(kept));
    assert_eq!(rig.log_texts(), ["revoke 0 1", "left"]);
    assert_eq!(rig.group.deadline(), None);
}

/// A member that closes for good gives up its place under its instance id: other members get its partitions at once.
#[test]
fn closing_for_good_leaves_after_the_last_commit() {
    let mut rig = joined(&[0, 1]);
    rig.step(GroupEvent::Leave { deadline: rig.now + 30 * SECOND, remain_in_group: false });
    rig.commit(1, &[(0, 5)]);
    rig.ack();
    let commit = rig.take(ApiKey::OffsetCommit);
    rig.sends_no(ApiKey::LeaveGroup);
    rig.answer_commit(&commit, &[(0, ErrorCode::NONE)]);
    assert_eq!(rig.result(1), [(0, 5, Ok(()))]);
    let goodbye = rig.take(ApiKey::LeaveGroup);
    let Request::LeaveGroup(request) = &goodbye.request else { unreachable!() };
    let [member] = &*request.members else { panic!("{request:?}") };
    assert_eq!((&*member.member_id, member.group_instance_id.as_deref()), (ID, Some(INSTANCE)));
    rig.refuse(&goodbye, ErrorCode::NONE);
    assert!(
        !rig.actions
            .iter()
            .any(|action| matches!(action, GroupAction::LogEvent(GroupLogEvent::RemainedInGroup { .. })))
    );
    assert_eq!(rig.log_texts(), ["revoke 0 1", "left"]);
    // The place no longer exists, nor does its member id.
    rig.actions.clear();
    rig.start();
    let join = rig.take(ApiKey::JoinGroup);
    assert_eq!((&*join_request(&join).member_id, instance_of(&join)), ("", Some(INSTANCE)));
}

/// The coordinator counts a static member in when it receives JoinGroup, not when it responds.
#[test]
fn closing_for_good_while_joining_leaves_by_the_instance_id() {
    for keep_place in [false, true] {
        let mut rig = Harness::with(config());
        rig.start();
        rig.locate(NODE);
        rig.take(ApiKey::JoinGroup);
        rig.step(GroupEvent::Leave { deadline: rig.now + 30 * SECOND, remain_in_group: keep_place });
        if keep_place {
            rig.sends_no(ApiKey::LeaveGroup);
        } else {
            let goodbye = rig.take(ApiKey::LeaveGroup);
            let Request::LeaveGroup(request) = &goodbye.request else { unreachable!() };
            let [member] = &*request.members else { panic!("{request:?}") };
            assert_eq!((&*member.member_id, member.group_instance_id.as_deref()), ("", Some(INSTANCE)));
            rig.refuse(&goodbye, ErrorCode::NONE);
        }
        assert_eq!((rig.log_texts(), rig.group.state_name()), (vec!["left".to_owned()], "left"));
    }
    // A member that has not contacted a coordinator is in no group, and ends at once, also while no broker responds.
    let mut rig = Harness::with(config());
    rig.start();
    rig.step(GroupEvent::Leave { deadline: rig.now + 30 * SECOND, remain_in_group: false });
    assert_eq!((rig.log_texts(), rig.group.state_name()), (vec!["left".to_owned()], "left"));
}

/// P29 (KAFKA-20985): without the id the coordinator would take the member for another process that claims the place.
#[test]
fn p29_who_went_without_a_word_comes_back_under_its_member_id() {
    let mut rig = joined(&[0]);
    rig.step(GroupEvent::Leave { deadline: rig.now + SECOND, remain_in_group: true });
    rig.ack();
    assert_eq!(rig.group.state_name(), "left");
    rig.actions.clear();
    rig.start();
    let join = rig.take(ApiKey::JoinGroup);
    assert_eq!((&*join_request(&join).member_id, claim(&join)), (ID, (vec![], -1)));
    // A process that has taken the place meanwhile keeps it.
    rig.refuse(&join, ErrorCode::FENCED_INSTANCE_ID);
    is_fenced(&mut rig, "JoinGroup", None);
}

/// Brokers that are too old for static membership are too old for every member: no version in use drops the instance id
/// silently.
#[test]
fn every_version_that_we_speak_carries_the_instance_id() {
    let mut rig = joined(&[0]);
    rig.commit(1, &[(0, 5)]);
    let mut asked = vec![rig.take(ApiKey::OffsetCommit), rig.next_heartbeat()];
    rig.refuse(&asked[1], ErrorCode::REBALANCE_IN_PROGRESS);
    asked.push(rig.take(ApiKey::JoinGroup));
    rig.answer_join(asked.last().unwrap(), Assignor::CooperativeSticky);
    asked.push(rig.take(ApiKey::SyncGroup));
    for outgoing in &asked {
        let api = outgoing.request.api();
        for version in api.ours() {
            let encoded = outgoing.request.encode_body(version, &mut SegmentedBuf::default());
            // Version 7 of OffsetCommit came with version 5 of JoinGroup, so no member uses version 6.
            assert_eq!(encoded.is_ok(), (api, version) != (ApiKey::OffsetCommit, 6), "{api} {version}");
        }
    }
}
