//! Joining a group, staying in it, and being removed.

use grete_wire::{ApiKey, ErrorCode};

use super::harness::*;
use crate::group::{Assignor, GroupAction, GroupConfig, GroupEvent, GroupLogEvent, LostReason};
use crate::request::{Channel, Request, RequestError, Target};
use crate::time::{MILLI, SECOND};

#[test]
fn the_way_in_takes_two_joins_and_a_sync() {
    let mut rig = Harness::new();
    assert_eq!(rig.group.deadline(), None);
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
    let mut rig = Harness::new();
    rig.join(&[0, 2]);
    assert_eq!((rig.group.state_name(), rig.group.generation(), rig.group.member_id()), ("stable", 1, ID));
    assert_eq!(rig.group.assignment().count(), 2);
}

#[test]
fn heartbeats_go_every_three_seconds_one_at_a_time() {
    let mut rig = Harness::new();
    rig.join(&[0]);
    rig.advance(3 * SECOND - 1);
    rig.sends_no(ApiKey::Heartbeat);
    rig.advance(1);
    let heartbeat = rig.take(ApiKey::Heartbeat);
    assert_eq!((heartbeat.channel, heartbeat.timeout), (Channel::Control, 15 * SECOND));
    rig.advance(9 * SECOND);
    rig.sends_no(ApiKey::Heartbeat);
    let sent_at = rig.now - 9 * SECOND;
    rig.refuse(&heartbeat, ErrorCode::NONE);
    assert_eq!(rig.group.last_heartbeat_ack(), sent_at);
    rig.take(ApiKey::Heartbeat);
}

/// P19 (KAFKA-9823): a response to an old generation does not affect the new one.
#[test]
fn p19_a_late_answer_of_an_old_generation_changes_nothing() {
    let mut rig = Harness::new();
    rig.join(&[0, 1]);
    rig.advance(3 * SECOND);
    let old = rig.take(ApiKey::Heartbeat);
    rig.commit(5, &[(0, 10)]);
    let commit = rig.take(ApiKey::OffsetCommit);
    rig.answer_commit(&commit, &[(0, ErrorCode::REBALANCE_IN_PROGRESS)]);
    rig.complete_rebalance(&[0, 1]);
    assert_eq!(rig.group.generation(), 2);
    for code in [ErrorCode::ILLEGAL_GENERATION, ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::REBALANCE_IN_PROGRESS] {
        rig.refuse(&old, code);
        rig.answer_commit(&commit, &[(0, code)]);
    }
    assert_eq!((rig.group.state_name(), rig.group.generation()), ("stable", 2));
    assert!(rig.log_texts().is_empty());
}

#[test]
fn p19_a_late_join_answer_of_the_old_coordinator_changes_nothing() {
    let mut rig = Harness::new();
    rig.join(&[0]);
    rig.rebalance();
    let old = rig.take(ApiKey::JoinGroup);
    // The control connection reports that the coordinator has moved; JoinGroup still waits on the other connection.
    let heartbeat = rig.next_heartbeat();
    rig.refuse(&heartbeat, ErrorCode::NOT_COORDINATOR);
    rig.advance(SECOND);
    rig.sends_no(ApiKey::JoinGroup);
    rig.locate(8);
    let new = rig.take(ApiKey::JoinGroup);
    assert_eq!(new.target, Target::Node(8));
    rig.answer_join(&old, Assignor::CooperativeSticky);
    rig.sends_no(ApiKey::SyncGroup);
    rig.answer_join(&new, Assignor::CooperativeSticky);
    rig.take(ApiKey::SyncGroup);
    assert_eq!(rig.group.generation(), 3);
}

#[test]
fn a_join_outlives_a_lost_control_connection_to_the_same_coordinator() {
    let mut rig = Harness::new();
    rig.join(&[0]);
    rig.rebalance();
    let join = rig.take(ApiKey::JoinGroup);
    let heartbeat = rig.next_heartbeat();
    rig.fail(&heartbeat, RequestError::Disconnected);
    rig.advance(SECOND);
    rig.locate(NODE);
    rig.sends_no(ApiKey::JoinGroup);
    rig.answer_join(&join, Assignor::CooperativeSticky);
    rig.take(ApiKey::SyncGroup);
}

/// P16: a fenced member sends no heartbeat until it has joined again.
#[test]
fn p16_no_heartbeat_while_fenced() {
    for (code, id) in [(ErrorCode::ILLEGAL_GENERATION, ID), (ErrorCode::UNKNOWN_MEMBER_ID, "")] {
        let mut rig = Harness::new();
        rig.join(&[0, 1]);
        let heartbeat = rig.next_heartbeat();
        rig.refuse(&heartbeat, code);
        assert_eq!(rig.log_texts(), ["lost 0 1"]);
        assert_eq!(rig.group.assignment().count(), 0);
        let join = rig.take(ApiKey::JoinGroup);
        assert_eq!((&*join_request(&join).member_id, claim(&join)), (id, (vec![], -1)));
        rig.advance(60 * SECOND);
        rig.sends_no(ApiKey::Heartbeat);
        rig.answer_join(&join, Assignor::CooperativeSticky);
        rig.advance(3 * SECOND);
        rig.take(ApiKey::Heartbeat);
    }
}

#[test]
fn a_member_that_is_put_out_again_and_again_does_not_spin() {
    let mut rig = Harness::new();
    rig.join(&[]);
    let started = rig.now;
    let heartbeat = rig.next_heartbeat();
    rig.refuse(&heartbeat, ErrorCode::UNKNOWN_MEMBER_ID);
    for _ in 0..10 {
        let join = match rig.try_take(ApiKey::JoinGroup) {
            Some(join) => join,
            None => {
                rig.advance(2 * SECOND);
                rig.take(ApiKey::JoinGroup)
            }
        };
        rig.refuse(&join, ErrorCode::UNKNOWN_MEMBER_ID);
    }
    assert!(rig.now - started > 10 * SECOND);
}

#[test]
fn an_unconfirmed_session_expires() {
    let mut rig = Harness::new();
    rig.join(&[0, 1]);
    rig.pass_with_heartbeats(30 * SECOND);
    let last = rig.group.last_heartbeat_ack();
    rig.advance(45 * SECOND - (rig.now - last) - 1);
    assert!(rig.log_texts().is_empty());
    rig.advance(1);
    let reason = LostReason::SessionExpired;
    assert!(
        rig.actions
            .iter()
            .any(|a| matches!(a, GroupAction::LogEvent(GroupLogEvent::Lost { reason: r, .. }) if *r == reason))
    );
    assert_eq!(rig.log_texts(), ["lost 0 1"]);
}

/// Kafka 4 answers JoinGroup and SyncGroup of such a member, and lets the old session go on: another member may own the
/// partitions a moment later.
#[test]
fn a_return_into_the_same_generation_is_no_acknowledgement() {
    let mut rig = Harness::new();
    rig.join(&[0, 1]);
    let acknowledged = rig.group.last_heartbeat_ack();
    rig.advance(45 * SECOND);
    assert_eq!(rig.log_texts(), ["lost 0 1"]);
    while rig.try_take(ApiKey::Heartbeat).is_some() {}
    rig.generation -= 1;
    rig.complete_rebalance(&[0, 1]);
    assert_eq!(rig.group.last_heartbeat_ack(), acknowledged);
    let heartbeat = rig.take(ApiKey::Heartbeat); // at once
    rig.advance(SECOND);
    assert!(!rig.log_texts().contains(&"lost 0 1".to_owned()), "the answer is awaited for a session");
    rig.refuse(&heartbeat, ErrorCode::NONE);
    assert_eq!(rig.group.last_heartbeat_ack(), rig.now - SECOND);
    // A new generation begins a session.
    rig.rebalance();
    rig.complete_rebalance(&[0]);
    assert_eq!(rig.group.last_heartbeat_ack(), rig.now);
}

/// The member that asks again may be in the generation already: the session began with the answer that was lost.
#[test]
fn a_generation_after_a_lost_answer_is_no_acknowledgement() {
    for lost in [ApiKey::JoinGroup, ApiKey::SyncGroup] {
        let mut rig = Harness::new();
        rig.join(&[0]);
        rig.rebalance();
        let join = rig.take(ApiKey::JoinGroup);
        let began = rig.now;
        if lost == ApiKey::JoinGroup {
            rig.fail(&join, RequestError::Disconnected);
        } else {
            rig.answer_join(&join, Assignor::CooperativeSticky);
            let sync = rig.take(ApiKey::SyncGroup);
            rig.fail(&sync, RequestError::Disconnected);
            rig.generation -= 1;
        }
        while rig.try_take(ApiKey::Heartbeat).is_some() {}
        rig.advance(2 * SECOND);
        rig.locate(NODE);
        rig.complete_rebalance(&[0]);
        assert!(rig.group.last_heartbeat_ack() <= began, "{lost:?}");
        let heartbeat = rig.take(ApiKey::Heartbeat); // at once
        rig.refuse(&heartbeat, ErrorCode::NONE);
        assert_eq!(rig.group.last_heartbeat_ack(), rig.now);
    }
}

/// A process was suspended for longer than its session: it loses everything first, before it handles any response.
#[test]
fn a_sleeper_loses_everything_before_it_hears_anything() {
    let mut rig = Harness::new();
    rig.join(&[0, 1]);
    let heartbeat = rig.next_heartbeat();
    rig.now += 60 * SECOND;
    rig.refuse(&heartbeat, ErrorCode::NONE);
    assert_eq!(rig.log_texts(), ["lost 0 1"]);
    let join = rig.take(ApiKey::JoinGroup);
    assert_eq!((&*join_request(&join).member_id, claim(&join)), (ID, (vec![], -1)));
}

/// While other members are slow to join, heartbeat responses prove that this member is still in the group.
#[test]
fn a_long_join_does_not_cost_the_session() {
    let mut rig = Harness::new();
    rig.join(&[0, 1]);
    rig.rebalance();
    let join = rig.take(ApiKey::JoinGroup);
    for _ in 0..80 {
        let heartbeat = rig.next_heartbeat();
        rig.refuse(&heartbeat, ErrorCode::REBALANCE_IN_PROGRESS);
    }
    assert!(rig.log_texts().is_empty());
    // The join is complete and its response on the way: no reason to fence.
    let heartbeat = rig.next_heartbeat();
    rig.refuse(&heartbeat, ErrorCode::ILLEGAL_GENERATION);
    assert!(rig.log_texts().is_empty());
    rig.answer_join(&join, Assignor::CooperativeSticky);
    let sync = rig.take(ApiKey::SyncGroup);
    rig.assign(&sync, &[0, 1]);
    assert!(rig.log_texts().is_empty());
}

#[test]
fn refusals_that_no_retry_cures_are_fatal_and_say_what_helps() {
    for (code, advice) in [
        (ErrorCode::INCONSISTENT_GROUP_PROTOCOL, "partition.assignment.strategy"),
        (ErrorCode::INCONSISTENT_GROUP_PROTOCOL, "set group.protocol=consumer"),
        (ErrorCode::INVALID_SESSION_TIMEOUT, "group.min.session.timeout.ms"),
        (
            ErrorCode::GROUP_AUTHORIZATION_FAILED,
            "grete acls create --allow-principal User:NAME --operation Read --group g",
        ),
        (ErrorCode::FENCED_INSTANCE_ID, "FENCED_INSTANCE_ID"),
    ] {
        let mut rig = Harness::new();
        rig.start();
        rig.locate(NODE);
        let join = rig.take(ApiKey::JoinGroup);
        rig.refuse(&join, code);
        let news = rig.log_texts();
        assert!(news.len() == 1 && news[0].starts_with("fatal") && news[0].contains(advice), "{news:?}");
        rig.advance(100 * SECOND);
        assert!(rig.sent.is_empty() && rig.group.deadline().is_none());
    }
}

/// An App's group. The ACL is missing at each request, and comes back.
#[test]
fn an_app_waits_for_the_acl_on_its_group() {
    const MISSING: ErrorCode = ErrorCode::GROUP_AUTHORIZATION_FAILED;
    let mut rig =
        Harness::with(GroupConfig { retry_authorization_failures: true, ..Harness::new().group.config().clone() });
    let notices = |rig: &mut Harness| -> Vec<String> {
        let notice = |action: &GroupAction| match action {
            GroupAction::LogEvent(GroupLogEvent::NotAuthorized { again, .. }) => {
                Some(format!("missing, again: {again}"))
            }
            GroupAction::LogEvent(GroupLogEvent::Authorized) => Some("back".to_owned()),
            GroupAction::Fatal(error) => Some(error.to_string()),
            _ => None,
        };
        let found = rig.actions.iter().filter_map(notice).collect();
        rig.actions.clear();
        found
    };
    rig.start();
    rig.locate(NODE);
    for again in [false, true] {
        let join = rig.take(ApiKey::JoinGroup);
        rig.refuse(&join, MISSING);
        assert_eq!(notices(&mut rig), [format!("missing, again: {again}")]);
        rig.sends_no(ApiKey::JoinGroup);
        rig.advance(2 * SECOND);
    }
    let join = rig.take(ApiKey::JoinGroup);
    rig.answer_join(&join, Assignor::CooperativeSticky);
    let sync = rig.take(ApiKey::SyncGroup);
    rig.assign(&sync, &[0, 1]);
    assert_eq!(notices(&mut rig), ["back"]);
    rig.load(&[(0, 1), (1, 1)]);

    // Shorter than the session: the place is kept, and the commit is tried again.
    let heartbeat = rig.next_heartbeat();
    rig.refuse(&heartbeat, MISSING);
    rig.commit(1, &[(0, 5)]);
    let commit = rig.take(ApiKey::OffsetCommit);
    rig.answer_commit(&commit, &[(0, MISSING)]);
    assert_eq!(notices(&mut rig), ["missing, again: false", "missing, again: true"]);
    assert!(rig.group.is_ready() && !rig.is_done(1));
    rig.advance(2 * SECOND);
    let commit = rig.take(ApiKey::OffsetCommit);
    rig.answer_commit(&commit, &[(0, ErrorCode::NONE)]);
    assert_eq!(notices(&mut rig).first().map(String::as_str), Some("back"));

    // Longer: the partitions are lost when the session ends, and the member joins again.
    for _ in 0..200 {
        rig.advance(SECOND);
        if let Some(heartbeat) = rig.try_take(ApiKey::Heartbeat) {
            rig.refuse(&heartbeat, MISSING);
        }
        if !rig.group.is_ready() {
            break;
        }
    }
    let join = rig.take(ApiKey::JoinGroup);
    rig.refuse(&join, MISSING);
    assert!(notices(&mut rig).iter().all(|notice| notice.starts_with("missing")));
    assert_eq!(rig.group.assignment().count(), 0);
    rig.advance(2 * SECOND);
    let join = rig.take(ApiKey::JoinGroup);
    rig.answer_join(&join, Assignor::CooperativeSticky);
    assert_eq!(notices(&mut rig), ["back"]);
}

#[test]
fn a_full_group_is_tried_again() {
    let mut rig = Harness::new();
    rig.start();
    rig.locate(NODE);
    for _ in 0..3 {
        let join = rig.take(ApiKey::JoinGroup);
        rig.refuse(&join, ErrorCode::GROUP_MAX_SIZE_REACHED);
        rig.sends_no(ApiKey::JoinGroup);
        rig.advance(2 * SECOND);
    }
    let is_retry_log = |a: &GroupAction| matches!(a, GroupAction::LogEvent(GroupLogEvent::JoinRetried { reason }) if reason.contains("GROUP_MAX_SIZE_REACHED"));
    assert_eq!(rig.actions.iter().filter(|a| is_retry_log(a)).count(), 3);
}

#[test]
fn a_foreign_protocol_is_refused() {
    let mut rig = Harness::new();
    rig.start();
    rig.locate(NODE);
    let join = rig.take(ApiKey::JoinGroup);
    rig.answer_join(&join, Assignor::Range);
    assert!(rig.log_texts()[0].contains("range"));
}

/// P35: an unreachable coordinator is looked up again, with growing backoff, and no error reaches the application.
#[test]
fn p35_a_dead_coordinator_is_neither_kept_nor_hammered() {
    let mut rig = Harness::new();
    rig.start();
    let started = rig.now;
    for _ in 0..8 {
        if rig.sent.is_empty() {
            rig.advance(1300 * MILLI);
        }
        rig.locate(NODE);
        let join = rig.take(ApiKey::JoinGroup);
        rig.fail(&join, RequestError::NoConnection);
        rig.sends_no(ApiKey::FindCoordinator);
    }
    assert!(rig.now - started > 8 * SECOND);
    assert!(rig.log_texts().is_empty());
    rig.advance(2 * SECOND);
    rig.locate(9);
    assert_eq!(rig.take(ApiKey::JoinGroup).target, Target::Node(9));
}

#[test]
fn p35_a_failure_of_the_past_does_not_discredit_the_coordinator_found_since() {
    let mut rig = Harness::new();
    rig.join(&[0]);
    rig.commit(1, &[(0, 5)]);
    let commit = rig.take(ApiKey::OffsetCommit);
    let heartbeat = rig.next_heartbeat();
    rig.fail(&heartbeat, RequestError::Disconnected);
    rig.advance(SECOND);
    rig.locate(8);
    rig.fail(&commit, RequestError::Disconnected);
    rig.advance(2 * SECOND);
    rig.sends_no(ApiKey::FindCoordinator);
    assert_eq!(rig.take(ApiKey::OffsetCommit).target, Target::Node(8));
}

#[test]
fn a_lookup_that_fails_is_repeated() {
    let mut rig = Harness::new();
    rig.start();
    let asked = rig.take(ApiKey::FindCoordinator);
    let Request::FindCoordinator(request) = &asked.request else { panic!() };
    assert_eq!((request.coordinator_keys.as_slice(), request.key_type), (&["g".into()][..], 0));
    rig.fail(&asked, RequestError::TimedOut);
    rig.sends_no(ApiKey::FindCoordinator);
    rig.advance(SECOND);
    rig.locate(NODE);
    rig.take(ApiKey::JoinGroup);
}

#[test]
fn a_broker_that_does_not_speak_our_versions_is_fatal() {
    let mut rig = Harness::with(GroupConfig::new("g"));
    rig.start();
    let asked = rig.take(ApiKey::FindCoordinator);
    rig.fail(&asked, RequestError::Unsupported { api: ApiKey::FindCoordinator, broker: Some((0, 2)), ours: (4, 5) });
    assert!(rig.log_texts()[0].contains("versions 0 to 2"), "an error that names both sides");
}

#[test]
fn garbage_from_the_coordinator_is_an_answer_that_never_came() {
    let mut rig = Harness::new();
    rig.join(&[0]);
    let heartbeat = rig.next_heartbeat();
    rig.answer(&heartbeat, |_, out| {
        out.push(1);
        Ok(())
    });
    rig.advance(SECOND);
    rig.locate(NODE);
    let join_again = rig.group.state_name();
    assert_eq!(join_again, "stable");
    rig.step(GroupEvent::Tick);
    rig.take(ApiKey::Heartbeat);
}
