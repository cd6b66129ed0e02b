//! Getting in, staying in, being put out.

use grete_wire::{ApiKey, ErrorCode};

use super::rig::*;
use crate::group::{Assignor, GroupAction, GroupConfig, GroupEvent, GroupNotice, LostReason};
use crate::request::{Channel, Request, RequestError, Target};
use crate::time::{MILLI, SECOND};

#[test]
fn the_way_in_takes_two_joins_and_a_sync() {
    let mut rig = Rig::new();
    assert_eq!(rig.machine.deadline(), None);
    rig.start();
    assert_eq!(rig.sent[0].target, Target::Any);
    rig.locate(NODE);
    assert!(rig.actions.iter().any(|a| matches!(a, GroupAction::LearnNode { node: NODE, port: 9092, .. })));
    let first = rig.take(ApiKey::JoinGroup);
    assert_eq!((first.target, first.channel, first.timeout), (Target::Node(NODE), Channel::Join, 305 * SECOND));
    let request = join_request(&first);
    assert_eq!((request.session_timeout_ms, request.rebalance_timeout_ms), (45_000, 300_000));
    assert_eq!((&*request.member_id, &*request.protocol_type), ("", "consumer"));
    assert_eq!(claim(&first), (vec![], -1));
    let mut rig = Rig::new();
    rig.join(&[0, 2]);
    assert_eq!((rig.machine.state_name(), rig.machine.generation(), rig.machine.member_id()), ("stable", 1, ID));
    assert_eq!(rig.machine.assignment().count(), 2);
}

#[test]
fn heartbeats_go_every_three_seconds_one_at_a_time() {
    let mut rig = Rig::new();
    rig.join(&[0]);
    rig.pass(3 * SECOND - 1);
    rig.sends_no(ApiKey::Heartbeat);
    rig.pass(1);
    let heartbeat = rig.take(ApiKey::Heartbeat);
    assert_eq!((heartbeat.channel, heartbeat.timeout), (Channel::Control, 15 * SECOND));
    rig.pass(9 * SECOND);
    rig.sends_no(ApiKey::Heartbeat);
    let sent_at = rig.now - 9 * SECOND;
    rig.refuse(&heartbeat, ErrorCode::NONE);
    assert_eq!(rig.machine.last_heartbeat_ack(), sent_at);
    rig.take(ApiKey::Heartbeat);
}

/// P19 (KAFKA-9823): what an old generation is told does not concern the new one.
#[test]
fn p19_a_late_answer_of_an_old_generation_changes_nothing() {
    let mut rig = Rig::new();
    rig.join(&[0, 1]);
    rig.pass(3 * SECOND);
    let old = rig.take(ApiKey::Heartbeat);
    rig.commit(5, &[(0, 10)]);
    let commit = rig.take(ApiKey::OffsetCommit);
    rig.answer_commit(&commit, &[(0, ErrorCode::REBALANCE_IN_PROGRESS)]);
    rig.round(&[0, 1]);
    assert_eq!(rig.machine.generation(), 2);
    for code in [ErrorCode::ILLEGAL_GENERATION, ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::REBALANCE_IN_PROGRESS] {
        rig.refuse(&old, code);
        rig.answer_commit(&commit, &[(0, code)]);
    }
    assert_eq!((rig.machine.state_name(), rig.machine.generation()), ("stable", 2));
    assert!(rig.news().is_empty());
}

#[test]
fn p19_a_late_join_answer_of_the_old_coordinator_changes_nothing() {
    let mut rig = Rig::new();
    rig.join(&[0]);
    rig.rebalance();
    let old = rig.take(ApiKey::JoinGroup);
    // The control connection says that the coordinator has moved; JoinGroup still waits on the other one.
    let heartbeat = rig.next_heartbeat();
    rig.refuse(&heartbeat, ErrorCode::NOT_COORDINATOR);
    rig.pass(SECOND);
    rig.sends_no(ApiKey::JoinGroup);
    rig.locate(8);
    let new = rig.take(ApiKey::JoinGroup);
    assert_eq!(new.target, Target::Node(8));
    rig.let_in(&old, Assignor::CooperativeSticky);
    rig.sends_no(ApiKey::SyncGroup);
    rig.let_in(&new, Assignor::CooperativeSticky);
    rig.take(ApiKey::SyncGroup);
    assert_eq!(rig.machine.generation(), 3);
}

#[test]
fn a_join_outlives_a_lost_control_connection_to_the_same_coordinator() {
    let mut rig = Rig::new();
    rig.join(&[0]);
    rig.rebalance();
    let join = rig.take(ApiKey::JoinGroup);
    let heartbeat = rig.next_heartbeat();
    rig.fail(&heartbeat, RequestError::Disconnected);
    rig.pass(SECOND);
    rig.locate(NODE);
    rig.sends_no(ApiKey::JoinGroup);
    rig.let_in(&join, Assignor::CooperativeSticky);
    rig.take(ApiKey::SyncGroup);
}

/// P16: whom the coordinator has put out sends no heartbeat until it is in again.
#[test]
fn p16_no_heartbeat_while_fenced() {
    for (code, id) in [(ErrorCode::ILLEGAL_GENERATION, ID), (ErrorCode::UNKNOWN_MEMBER_ID, "")] {
        let mut rig = Rig::new();
        rig.join(&[0, 1]);
        let heartbeat = rig.next_heartbeat();
        rig.refuse(&heartbeat, code);
        assert_eq!(rig.news(), ["lost 0 1"]);
        assert_eq!(rig.machine.assignment().count(), 0);
        let join = rig.take(ApiKey::JoinGroup);
        assert_eq!((&*join_request(&join).member_id, claim(&join)), (id, (vec![], -1)));
        rig.pass(60 * SECOND);
        rig.sends_no(ApiKey::Heartbeat);
        rig.let_in(&join, Assignor::CooperativeSticky);
        rig.pass(3 * SECOND);
        rig.take(ApiKey::Heartbeat);
    }
}

#[test]
fn a_member_that_is_put_out_again_and_again_does_not_spin() {
    let mut rig = Rig::new();
    rig.join(&[]);
    let started = rig.now;
    let heartbeat = rig.next_heartbeat();
    rig.refuse(&heartbeat, ErrorCode::UNKNOWN_MEMBER_ID);
    for _ in 0..10 {
        let join = match rig.try_take(ApiKey::JoinGroup) {
            Some(join) => join,
            None => {
                rig.pass(2 * SECOND);
                rig.take(ApiKey::JoinGroup)
            }
        };
        rig.refuse(&join, ErrorCode::UNKNOWN_MEMBER_ID);
    }
    assert!(rig.now - started > 10 * SECOND);
}

#[test]
fn a_session_that_nobody_confirms_is_over() {
    let mut rig = Rig::new();
    rig.join(&[0, 1]);
    rig.pass_with_heartbeats(30 * SECOND);
    let last = rig.machine.last_heartbeat_ack();
    rig.pass(45 * SECOND - (rig.now - last) - 1);
    assert!(rig.news().is_empty());
    rig.pass(1);
    let reason = LostReason::SessionExpired;
    assert!(
        rig.actions
            .iter()
            .any(|a| matches!(a, GroupAction::Notice(GroupNotice::Lost { reason: r, .. }) if *r == reason))
    );
    assert_eq!(rig.news(), ["lost 0 1"]);
}

/// A process that was stopped for longer than its session: the first thing it learns is that everything is lost, whatever
/// answer is at the head of the line.
#[test]
fn a_sleeper_loses_everything_before_it_hears_anything() {
    let mut rig = Rig::new();
    rig.join(&[0, 1]);
    let heartbeat = rig.next_heartbeat();
    rig.now += 60 * SECOND;
    rig.refuse(&heartbeat, ErrorCode::NONE);
    assert_eq!(rig.news(), ["lost 0 1"]);
    let join = rig.take(ApiKey::JoinGroup);
    assert_eq!((&*join_request(&join).member_id, claim(&join)), (ID, (vec![], -1)));
}

/// While others take their time to join, answers to heartbeats prove that we are still in.
#[test]
fn a_long_join_does_not_cost_the_session() {
    let mut rig = Rig::new();
    rig.join(&[0, 1]);
    rig.rebalance();
    let join = rig.take(ApiKey::JoinGroup);
    for _ in 0..80 {
        let heartbeat = rig.next_heartbeat();
        rig.refuse(&heartbeat, ErrorCode::REBALANCE_IN_PROGRESS);
    }
    assert!(rig.news().is_empty());
    // The join is complete and its answer on the way: no reason to be afraid.
    let heartbeat = rig.next_heartbeat();
    rig.refuse(&heartbeat, ErrorCode::ILLEGAL_GENERATION);
    assert!(rig.news().is_empty());
    rig.let_in(&join, Assignor::CooperativeSticky);
    let sync = rig.take(ApiKey::SyncGroup);
    rig.assign(&sync, &[0, 1]);
    assert!(rig.news().is_empty());
}

#[test]
fn refusals_that_no_retry_cures_are_fatal_and_say_what_helps() {
    for (code, advice) in [
        (ErrorCode::INCONSISTENT_GROUP_PROTOCOL, "partition.assignment.strategy"),
        (ErrorCode::INVALID_SESSION_TIMEOUT, "group.min.session.timeout.ms"),
        (ErrorCode::GROUP_AUTHORIZATION_FAILED, "READ on the group"),
        (ErrorCode::FENCED_INSTANCE_ID, "FENCED_INSTANCE_ID"),
    ] {
        let mut rig = Rig::new();
        rig.start();
        rig.locate(NODE);
        let join = rig.take(ApiKey::JoinGroup);
        rig.refuse(&join, code);
        let news = rig.news();
        assert!(news.len() == 1 && news[0].starts_with("fatal") && news[0].contains(advice), "{news:?}");
        rig.pass(100 * SECOND);
        assert!(rig.sent.is_empty() && rig.machine.deadline().is_none());
    }
}

#[test]
fn a_full_group_is_tried_again() {
    let mut rig = Rig::new();
    rig.start();
    rig.locate(NODE);
    for _ in 0..3 {
        let join = rig.take(ApiKey::JoinGroup);
        rig.refuse(&join, ErrorCode::GROUP_MAX_SIZE_REACHED);
        rig.sends_no(ApiKey::JoinGroup);
        rig.pass(2 * SECOND);
    }
    let told = |a: &GroupAction| matches!(a, GroupAction::Notice(GroupNotice::JoinRetried { reason }) if reason.contains("GROUP_MAX_SIZE_REACHED"));
    assert_eq!(rig.actions.iter().filter(|a| told(a)).count(), 3);
}

#[test]
fn a_foreign_protocol_is_refused() {
    let mut rig = Rig::new();
    rig.start();
    rig.locate(NODE);
    let join = rig.take(ApiKey::JoinGroup);
    rig.let_in(&join, Assignor::Range);
    assert!(rig.news()[0].contains("range"));
}

/// P35: a coordinator that cannot be reached is looked for again, with growing waits; nobody is bothered.
#[test]
fn p35_a_dead_coordinator_is_neither_kept_nor_hammered() {
    let mut rig = Rig::new();
    rig.start();
    let started = rig.now;
    for _ in 0..8 {
        if rig.sent.is_empty() {
            rig.pass(1300 * MILLI);
        }
        rig.locate(NODE);
        let join = rig.take(ApiKey::JoinGroup);
        rig.fail(&join, RequestError::NoConnection);
        rig.sends_no(ApiKey::FindCoordinator);
    }
    assert!(rig.now - started > 8 * SECOND);
    assert!(rig.news().is_empty());
    rig.pass(2 * SECOND);
    rig.locate(9);
    assert_eq!(rig.take(ApiKey::JoinGroup).target, Target::Node(9));
}

#[test]
fn p35_a_failure_of_the_past_does_not_discredit_the_coordinator_found_since() {
    let mut rig = Rig::new();
    rig.join(&[0]);
    rig.commit(1, &[(0, 5)]);
    let commit = rig.take(ApiKey::OffsetCommit);
    let heartbeat = rig.next_heartbeat();
    rig.fail(&heartbeat, RequestError::Disconnected);
    rig.pass(SECOND);
    rig.locate(8);
    rig.fail(&commit, RequestError::Disconnected);
    rig.pass(2 * SECOND);
    rig.sends_no(ApiKey::FindCoordinator);
    assert_eq!(rig.take(ApiKey::OffsetCommit).target, Target::Node(8));
}

#[test]
fn a_lookup_that_fails_is_repeated() {
    let mut rig = Rig::new();
    rig.start();
    let asked = rig.take(ApiKey::FindCoordinator);
    let Request::FindCoordinator(request) = &asked.request else { panic!() };
    assert_eq!((request.coordinator_keys.as_slice(), request.key_type), (&["g".into()][..], 0));
    rig.fail(&asked, RequestError::TimedOut);
    rig.sends_no(ApiKey::FindCoordinator);
    rig.pass(SECOND);
    rig.locate(NODE);
    rig.take(ApiKey::JoinGroup);
}

#[test]
fn a_broker_that_does_not_speak_our_versions_is_fatal() {
    let mut rig = Rig::with(GroupConfig::new("g"));
    rig.start();
    let asked = rig.take(ApiKey::FindCoordinator);
    rig.fail(&asked, RequestError::Unsupported { api: ApiKey::FindCoordinator, broker: Some((0, 2)), ours: (4, 5) });
    assert!(rig.news()[0].contains("versions 0 to 2"), "an error that names both sides");
}

#[test]
fn garbage_from_the_coordinator_is_an_answer_that_never_came() {
    let mut rig = Rig::new();
    rig.join(&[0]);
    let heartbeat = rig.next_heartbeat();
    rig.answer(&heartbeat, |_, out| {
        out.push(1);
        Ok(())
    });
    rig.pass(SECOND);
    rig.locate(NODE);
    let join_again = rig.machine.state_name();
    assert_eq!(join_again, "stable");
    rig.step(GroupEvent::Tick);
    rig.take(ApiKey::Heartbeat);
}
