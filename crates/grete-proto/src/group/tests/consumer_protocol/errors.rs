//! Each error of ConsumerGroupHeartbeat in each state of a member.

use grete_wire::{ApiKey, ErrorCode};

use super::super::harness::*;
use super::{TOPIC, beat, static_member};
use crate::group::{GroupAction, GroupEvent};
use crate::time::SECOND;

const BEAT: ApiKey = ApiKey::ConsumerGroupHeartbeat;

/// State of the member when its request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Joining,
    /// Joins under its epoch, because its session expired on this side.
    Resuming,
    Stable,
    Revoking,
    Leaving,
}

/// What the member does about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// Sends the same request again, after a wait.
    Retry,
    /// Looks the coordinator up again, and then sends the request again.
    Lookup,
    /// Gives everything up and joins with epoch 0.
    Join,
    /// Gives everything up, and its instance id, and joins with epoch 0.
    Release,
    /// Asks who has its instance id.
    Describe,
    Fail,
    Left,
}

const STATES: [At; 5] = [At::Joining, At::Resuming, At::Stable, At::Revoking, At::Leaving];

/// Error, and the reactions in the order of `STATES`.
const TABLE: &[(ErrorCode, [Then; 5])] = &[
    (ErrorCode::NOT_COORDINATOR, [Then::Lookup; 5]),
    (ErrorCode::COORDINATOR_NOT_AVAILABLE, [Then::Lookup; 5]),
    (ErrorCode::COORDINATOR_LOAD_IN_PROGRESS, [Then::Retry; 5]),
    (ErrorCode::UNKNOWN_MEMBER_ID, [Then::Join, Then::Join, Then::Join, Then::Join, Then::Left]),
    (ErrorCode::FENCED_MEMBER_EPOCH, [Then::Join, Then::Join, Then::Release, Then::Release, Then::Left]),
    (ErrorCode::GROUP_ID_NOT_FOUND, [Then::Fail, Then::Join, Then::Join, Then::Join, Then::Left]),
    (ErrorCode::UNRELEASED_INSTANCE_ID, [Then::Describe, Then::Retry, Then::Fail, Then::Fail, Then::Left]),
    (ErrorCode::FENCED_INSTANCE_ID, [Then::Fail, Then::Fail, Then::Fail, Then::Fail, Then::Left]),
    (ErrorCode::UNSUPPORTED_ASSIGNOR, [Then::Fail, Then::Fail, Then::Fail, Then::Fail, Then::Left]),
    (ErrorCode::UNSUPPORTED_VERSION, [Then::Fail, Then::Fail, Then::Fail, Then::Fail, Then::Left]),
    (ErrorCode::INVALID_REQUEST, [Then::Fail, Then::Fail, Then::Fail, Then::Fail, Then::Left]),
    (ErrorCode::INVALID_GROUP_ID, [Then::Fail, Then::Fail, Then::Fail, Then::Fail, Then::Left]),
    (ErrorCode::INVALID_REGULAR_EXPRESSION, [Then::Fail, Then::Fail, Then::Fail, Then::Fail, Then::Left]),
    (ErrorCode::GROUP_AUTHORIZATION_FAILED, [Then::Fail, Then::Fail, Then::Fail, Then::Fail, Then::Left]),
    (ErrorCode::TOPIC_AUTHORIZATION_FAILED, [Then::Fail, Then::Fail, Then::Fail, Then::Fail, Then::Left]),
    (ErrorCode::GROUP_MAX_SIZE_REACHED, [Then::Retry, Then::Retry, Then::Retry, Then::Retry, Then::Left]),
    (ErrorCode::REQUEST_TIMED_OUT, [Then::Retry, Then::Retry, Then::Retry, Then::Retry, Then::Left]),
    (ErrorCode::UNKNOWN_SERVER_ERROR, [Then::Retry, Then::Retry, Then::Retry, Then::Retry, Then::Left]),
    (ErrorCode(999), [Then::Retry, Then::Retry, Then::Retry, Then::Retry, Then::Left]),
];

/// Returns a static member in the state, with the epoch in its open request, and that request.
fn member_at(at: At) -> (Harness, crate::request::OutboundRequest) {
    let mut rig = static_member();
    if at == At::Joining {
        rig.start();
        rig.locate(NODE);
        let join = rig.take(BEAT);
        return (rig, join);
    }
    rig.join_consumer(&[0, 1]);
    match at {
        At::Joining | At::Stable => {}
        At::Resuming => {
            rig.advance(50 * SECOND);
            rig.try_take(BEAT);
        }
        At::Revoking => {
            let next = rig.beat();
            rig.answer_beat(&next, 1, Some(&[(TOPIC, &[0])]));
        }
        At::Leaving => {
            rig.try_take(BEAT);
            rig.step(GroupEvent::Leave { deadline: rig.now + 20 * SECOND, remain_in_group: true });
            rig.ack();
        }
    }
    let request = rig.beat();
    rig.actions.clear();
    (rig, request)
}

#[test]
fn every_error_in_every_state() {
    for &(code, reactions) in TABLE {
        for (at, then) in STATES.into_iter().zip(reactions) {
            let (mut rig, refused) = member_at(at);
            let what = format!("{code} while {at:?}");
            rig.refuse(&refused, code);
            let lost = rig.log_texts().iter().any(|text| text.starts_with("lost"));
            let owns = matches!(at, At::Stable | At::Revoking);
            match then {
                Then::Retry => {
                    assert!(rig.sent.is_empty(), "{what}: {:?} without a wait", rig.sent);
                    rig.advance(2 * SECOND);
                    assert_eq!(beat(&rig.take(BEAT)).member_epoch, beat(&refused).member_epoch, "{what}");
                    assert!(!lost, "{what}");
                }
                Then::Lookup => {
                    rig.advance(SECOND);
                    rig.locate(NODE);
                    let again = rig.beat();
                    assert_eq!(beat(&again).member_epoch, beat(&refused).member_epoch, "{what}");
                    assert!(!lost, "{what}");
                }
                Then::Join => {
                    rig.advance(2 * SECOND);
                    assert_eq!(beat(&rig.take(BEAT)).member_epoch, 0, "{what}");
                    assert_eq!(lost, owns, "{what}");
                }
                Then::Release => {
                    rig.advance(2 * SECOND);
                    let release = rig.take(BEAT);
                    assert_eq!(beat(&release).member_epoch, -2, "{what}");
                    rig.refuse(&release, ErrorCode::UNKNOWN_MEMBER_ID);
                    assert_eq!(beat(&rig.take(BEAT)).member_epoch, 0, "{what}");
                    assert!(lost, "{what}");
                }
                Then::Describe => {
                    rig.take(ApiKey::ConsumerGroupDescribe);
                    rig.sends_no(BEAT);
                }
                Then::Fail => {
                    assert_eq!(rig.group.state_name(), "failed", "{what}");
                    assert_eq!((lost, rig.group.assignment().count()), (owns, 0), "{what}");
                    rig.advance(60 * SECOND);
                    rig.sends_no(BEAT);
                }
                Then::Left => {
                    assert_eq!(rig.group.state_name(), "left", "{what}");
                    assert_eq!(rig.group.deadline(), None, "{what}");
                }
            }
        }
    }
}

/// Checks that a missing ACL ends neither an App's membership nor its session early.
#[test]
fn an_app_waits_for_its_acls() {
    for code in [ErrorCode::GROUP_AUTHORIZATION_FAILED, ErrorCode::TOPIC_AUTHORIZATION_FAILED] {
        let config =
            crate::group::GroupConfig { retry_authorization_failures: true, ..crate::group::GroupConfig::new("g") };
        let mut rig = super::consumer(config);
        rig.join_consumer(&[0]);
        for _ in 0..5 {
            let next = rig.beat();
            rig.refuse(&next, code);
        }
        assert_eq!(rig.group.state_name(), "stable", "{code}");
        let next = rig.beat();
        rig.answer_beat(&next, 1, None);
        assert!(rig.log_texts().is_empty());
    }
}

/// Checks that a topic without an ACL keeps no other topic from being read: the coordinator refuses a request as a whole.
#[test]
fn an_app_leaves_out_the_topics_that_it_may_not_describe() {
    let config =
        crate::group::GroupConfig { retry_authorization_failures: true, ..crate::group::GroupConfig::new("g") };
    let names = |request: &crate::request::OutboundRequest| {
        let names = beat(request).subscribed_topic_names.as_ref()?;
        Some(names.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let mut rig = super::consumer(config);
    rig.step(GroupEvent::Subscribe { topics: vec!["t".into(), "secret".into()] });
    rig.locate(NODE);
    let join = rig.take(BEAT);
    assert_eq!(names(&join), Some(vec!["secret".to_owned(), "t".to_owned()]));
    rig.actions.clear();
    rig.refuse(&join, ErrorCode::TOPIC_AUTHORIZATION_FAILED);
    assert!(rig.actions.iter().any(|action| matches!(action, GroupAction::RefreshMetadata)));
    rig.view.3.insert("secret");
    rig.advance(2 * SECOND);
    let join = rig.take(BEAT);
    assert_eq!((beat(&join).member_epoch, names(&join)), (0, Some(vec!["t".to_owned()])));
    rig.answer_beat(&join, 1, Some(&[(TOPIC, &[0])]));
    rig.load(&[]);
    let next = rig.beat();
    assert_eq!(names(&next), None);
    rig.answer_beat(&next, 1, None);
    // The ACL is there: the next request names the topic, at once.
    rig.view.3.clear();
    rig.step(GroupEvent::MetadataChanged);
    assert_eq!(names(&rig.take(BEAT)), Some(vec!["secret".to_owned(), "t".to_owned()]));
}

/// P35: a refused join does not spin.
#[test]
fn a_join_that_is_refused_again_and_again_does_not_spin() {
    for code in [ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::GROUP_MAX_SIZE_REACHED] {
        let (mut rig, mut join) = member_at(At::Joining);
        let started = rig.now;
        for _ in 0..10 {
            rig.refuse(&join, code);
            while rig.sent.is_empty() {
                rig.advance(SECOND / 10);
            }
            join = rig.take(BEAT);
        }
        assert!(rig.now - started > 4 * SECOND, "{code}: {} ns", rig.now - started);
    }
}
