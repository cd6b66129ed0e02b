//! A member of the consumer protocol that knows that the process before is dead, and its member id.

use grete_wire::{ApiKey, ErrorCode};

use super::super::harness::*;
use super::{beat, consumer};
use crate::group::config::GroupProtocol;
use crate::group::{GroupConfig, GroupEvent, MemberIds};
use crate::request::RequestError;
use crate::time::SECOND;

const BEAT: ApiKey = ApiKey::ConsumerGroupHeartbeat;

fn successor(instance: Option<&str>) -> Harness {
    let member_ids = Some(MemberIds { member_id: "new".into(), predecessor: Some("dead".into()) });
    consumer(GroupConfig { instance_id: instance.map(Into::into), member_ids, ..GroupConfig::new("g") })
}

fn started(instance: Option<&str>) -> Harness {
    let mut rig = successor(instance);
    rig.start();
    rig.locate(NODE);
    rig
}

/// Returns member id, epoch and instance id of the heartbeat that is sent.
fn sent(rig: &mut Harness) -> (crate::request::OutboundRequest, (String, i32, Option<String>)) {
    let request = rig.take(BEAT);
    let asked = beat(&request);
    let what = (asked.member_id.to_string(), asked.member_epoch, asked.instance_id.as_deref().map(str::to_owned));
    (request, what)
}

/// Whatever the coordinator says of the dead member: the join follows at once, and finds out.
#[test]
fn the_place_of_the_dead_is_given_up_in_its_name_before_the_join() {
    for (instance, epoch) in [(Some("i"), -2), (None, -1)] {
        for refusal in [None, Some(ErrorCode::UNKNOWN_MEMBER_ID), Some(ErrorCode::GROUP_ID_NOT_FOUND)] {
            let mut rig = started(instance);
            let (release, what) = sent(&mut rig);
            assert_eq!(what, ("dead".to_owned(), epoch, instance.map(str::to_owned)));
            assert_eq!(beat(&release).subscribed_topic_names, None);
            match refusal {
                None => rig.answer_beat(&release, epoch, None),
                Some(code) => rig.refuse(&release, code),
            }
            let (join, what) = sent(&mut rig);
            assert_eq!(what, ("new".to_owned(), 0, instance.map(str::to_owned)));
            rig.answer_beat(&join, 5, Some(&[(super::TOPIC, &[0])]));
            assert_eq!((rig.group.state_name(), rig.group.generation()), ("stable", 5));
        }
    }
}

/// An answer that is lost leaves open whether the place is free: the request has the same effect twice.
#[test]
fn a_lost_answer_is_asked_for_again() {
    let mut rig = started(Some("i"));
    let (release, _) = sent(&mut rig);
    rig.fail(&release, RequestError::TimedOut);
    rig.advance(SECOND);
    rig.locate(NODE);
    let (again, what) = sent(&mut rig);
    assert_eq!((what.0.as_str(), what.1), ("dead", -2));
    rig.refuse(&again, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
    rig.advance(SECOND);
    let (again, what) = sent(&mut rig);
    assert_eq!((what.0.as_str(), what.1), ("dead", -2));
    rig.answer_beat(&again, -2, None);
    assert_eq!(sent(&mut rig).1.0, "new");
}

/// The place is given up once: a member that is fenced later joins again under its own id.
#[test]
fn a_fenced_member_does_not_ask_for_the_dead_again() {
    let mut rig = started(Some("i"));
    let (release, _) = sent(&mut rig);
    rig.answer_beat(&release, -2, None);
    let (join, _) = sent(&mut rig);
    rig.answer_beat(&join, 5, Some(&[]));
    let next = rig.beat();
    rig.refuse(&next, ErrorCode::FENCED_MEMBER_EPOCH);
    let (own, what) = sent(&mut rig);
    assert_eq!(what, ("new".to_owned(), -2, Some("i".to_owned())));
    rig.answer_beat(&own, -2, None);
    assert_eq!(sent(&mut rig).1, ("new".to_owned(), 0, Some("i".to_owned())));
}

#[test]
fn a_member_that_leaves_before_its_join_sends_nothing_in_its_own_name() {
    let mut rig = started(Some("i"));
    sent(&mut rig);
    rig.step(GroupEvent::Leave { deadline: rig.now + 10 * SECOND, remain_in_group: true });
    rig.sends_no(BEAT);
    assert_eq!(rig.group.state_name(), "left");
}

#[test]
fn the_classic_protocol_needs_no_ids() {
    let member_ids = Some(MemberIds { member_id: "new".into(), predecessor: Some("dead".into()) });
    let mut rig = consumer(GroupConfig { protocol: GroupProtocol::Auto, member_ids, ..GroupConfig::new("g") });
    rig.view.2 = None;
    rig.start();
    rig.locate(NODE);
    rig.advance(1);
    rig.take(ApiKey::JoinGroup);
    rig.sends_no(BEAT);
}
