//! A static member whose instance id another member holds: killed as a rule, alive at times.

use std::borrow::Cow;

use grete_wire::messages::ConsumerGroupDescribeResponse;
use grete_wire::messages::consumer_group_describe::{DescribedGroup, Member};
use grete_wire::{ApiKey, ErrorCode};

use super::super::harness::*;
use super::{TOPIC, beat, static_member};
use crate::group::{GroupAction, GroupLogEvent};
use crate::request::RequestError;
use crate::time::SECOND;

const BEAT: ApiKey = ApiKey::ConsumerGroupHeartbeat;

/// Answers the question who has the instance id, with members as (member id, instance id).
#[track_caller]
fn describe(rig: &mut Harness, code: ErrorCode, members: &[(&str, Option<&str>)]) {
    let asked = rig.take(ApiKey::ConsumerGroupDescribe);
    let member = |&(id, instance): &(&str, Option<&str>)| Member {
        member_id: Cow::Owned(id.to_owned()),
        instance_id: instance.map(|instance| Cow::Owned(instance.to_owned())),
        ..Member::default()
    };
    let group = DescribedGroup {
        error_code: code.0,
        group_id: Cow::Borrowed("g"),
        members: members.iter().map(member).collect(),
        ..DescribedGroup::default()
    };
    let answer = ConsumerGroupDescribeResponse { groups: vec![group], ..ConsumerGroupDescribeResponse::default() };
    rig.answer(&asked, |version, out| answer.encode(version, out));
}

/// Returns a member whose first join was refused, and its member id.
fn refused() -> (Harness, String) {
    let mut rig = static_member();
    rig.start();
    rig.locate(NODE);
    let join = rig.take(BEAT);
    let id = beat(&join).member_id.to_string();
    rig.refuse(&join, ErrorCode::UNRELEASED_INSTANCE_ID);
    rig.sends_no(BEAT);
    (rig, id)
}

/// The place of a process that was killed is there at once, as in the classic protocol.
#[test]
fn the_member_with_the_instance_id_gives_its_place_up() {
    let (mut rig, id) = refused();
    describe(&mut rig, ErrorCode::NONE, &[("another", None), ("third", Some("j")), ("dead", Some("i"))]);
    let release = rig.take(BEAT);
    assert_eq!((beat(&release).member_epoch, beat(&release).member_id.as_ref()), (-2, "dead"));
    assert_eq!(beat(&release).instance_id.as_deref(), Some("i"));
    rig.answer_beat(&release, -2, None);
    let said = |action: &GroupAction| match action {
        GroupAction::LogEvent(GroupLogEvent::PredecessorReleased { member_id, is_dead }) => {
            member_id.as_ref() == "dead" && !is_dead
        }
        _ => false,
    };
    assert!(rig.actions.iter().any(said));
    let join = rig.take(BEAT);
    assert_eq!((beat(&join).member_epoch, beat(&join).member_id.to_string()), (0, id));
    rig.answer_beat(&join, 1, Some(&[(TOPIC, &[0])]));
    assert_eq!(rig.log_texts(), ["assign 0"]);
}

/// Answer of a coordinator; takes the id of the member that asks.
type Answer = Box<dyn Fn(&mut Harness, &str)>;

/// Whatever the coordinator says, the join follows, and is retried.
#[test]
fn a_question_without_a_useful_answer_is_asked_once() {
    let mut answers: Vec<Answer> = vec![
        Box::new(|rig, _| describe(rig, ErrorCode::NONE, &[])),
        Box::new(|rig, id| describe(rig, ErrorCode::NONE, &[(id, Some("i"))])),
        Box::new(|rig, _| describe(rig, ErrorCode::TOPIC_AUTHORIZATION_FAILED, &[("dead", Some("i"))])),
    ];
    answers.push(Box::new(|rig, _| {
        let asked = rig.take(ApiKey::ConsumerGroupDescribe);
        rig.fail(&asked, RequestError::TimedOut);
        rig.advance(SECOND);
        if rig.sent.iter().any(|sent| sent.request.api() == ApiKey::FindCoordinator) {
            rig.sends_no(BEAT);
            rig.locate(NODE);
        }
    }));
    for answer in answers {
        let (mut rig, id) = refused();
        answer(&mut rig, &id);
        for _ in 0..3 {
            let join = rig.beat();
            assert_eq!((beat(&join).member_epoch, beat(&join).member_id.to_string()), (0, id.clone()));
            rig.refuse(&join, ErrorCode::UNRELEASED_INSTANCE_ID);
            rig.sends_no(ApiKey::ConsumerGroupDescribe);
        }
        assert_eq!(rig.group.state_name(), "joining");
    }
}

/// Of two living processes with one id the later one has it, and they do not take it from each other again and again.
#[test]
fn a_member_that_was_in_the_group_takes_no_place_over() {
    let mut rig = static_member();
    rig.join_consumer(&[0]);
    let next = rig.beat();
    rig.refuse(&next, ErrorCode::UNKNOWN_MEMBER_ID);
    let join = rig.take(BEAT);
    rig.refuse(&join, ErrorCode::UNRELEASED_INSTANCE_ID);
    rig.advance(2 * SECOND);
    rig.sends_no(ApiKey::ConsumerGroupDescribe);
    assert_eq!(beat(&rig.take(BEAT)).member_epoch, 0);
    // The coordinator names the other one.
    let mut rig = static_member();
    rig.join_consumer(&[0]);
    let next = rig.beat();
    rig.refuse(&next, ErrorCode::FENCED_INSTANCE_ID);
    assert_eq!(rig.group.state_name(), "failed");
}

/// Without the description, the place of a process that was killed ends with its session.
#[test]
fn a_static_member_waits_for_the_place_of_its_predecessor() {
    let (mut rig, _) = refused();
    describe(&mut rig, ErrorCode::GROUP_AUTHORIZATION_FAILED, &[]);
    let started = rig.now;
    let mut refused = 0;
    while rig.now < started + 44 * SECOND {
        if let Some(join) = rig.try_take(BEAT) {
            assert_eq!((beat(&join).member_epoch, beat(&join).instance_id.as_deref()), (0, Some("i")));
            rig.refuse(&join, ErrorCode::UNRELEASED_INSTANCE_ID);
            refused += 1;
        }
        rig.advance(SECOND);
    }
    assert!((25..60).contains(&refused), "{refused}");
    assert!(rig.log_texts().is_empty());
    let join = rig.beat();
    rig.answer_beat(&join, 3, Some(&[(TOPIC, &[0])]));
    assert_eq!(rig.log_texts(), ["assign 0"]);
}

#[test]
fn an_instance_id_that_is_refused_for_two_sessions_belongs_to_a_living_process() {
    let (mut rig, _) = refused();
    describe(&mut rig, ErrorCode::GROUP_AUTHORIZATION_FAILED, &[]);
    let started = rig.now;
    while rig.group.state_name() != "failed" {
        assert!(rig.now < started + 100 * SECOND);
        if let Some(join) = rig.try_take(BEAT) {
            rig.refuse(&join, ErrorCode::UNRELEASED_INSTANCE_ID);
        }
        rig.advance(SECOND);
    }
    assert!(rig.now > started + 89 * SECOND);
    assert!(rig.log_texts().last().is_some_and(|text| text.contains("group.instance.id=i")));
}
