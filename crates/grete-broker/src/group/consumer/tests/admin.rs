//! Groups of both protocols: lists, descriptions, deletion, and the change from one protocol to the other.

use std::sync::Arc;

use grete_wire::messages::leave_group::MemberIdentity;
use grete_wire::messages::{JoinGroupRequest, JoinGroupRequestProtocol, LeaveGroupRequest};

use super::*;
use crate::message::Response;

impl Harness {
    fn join_classic(&mut self) -> ErrorCode {
        let requester = Requester { request: RequestId(7), version: 3, client_id: "old", client_host: "127.0.0.1" };
        let protocol = JoinGroupRequestProtocol { name: "range".into(), metadata: Cow::Borrowed(&[0, 1]) };
        let request = JoinGroupRequest {
            group_id: GROUP.into(),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 10_000,
            protocol_type: "consumer".into(),
            protocols: vec![protocol],
            ..JoinGroupRequest::default()
        };
        self.coordinator.join(self.now, &requester, &request, &mut self.effects);
        self.collect();
        match self.effects.replies.pop() {
            Some((_, Response::JoinGroup(response))) => ErrorCode(response.error_code),
            other => panic!("JoinGroup is answered at once: {other:?}"),
        }
    }

    fn remove(&mut self, member_id: &str, instance_id: Option<&str>) -> ErrorCode {
        let requester = Requester { request: RequestId(7), version: 5, client_id: "admin", client_host: "127.0.0.1" };
        let group_instance_id = instance_id.map(|id| Cow::Owned(id.to_owned()));
        let members = vec![MemberIdentity { member_id: member_id.into(), group_instance_id, reason: None }];
        let request = LeaveGroupRequest { group_id: GROUP.into(), members, ..LeaveGroupRequest::default() };
        self.coordinator.leave(self.now, &requester, &request, &mut self.effects);
        self.collect();
        match self.effects.replies.pop() {
            Some((_, Response::LeaveGroup(response))) => ErrorCode(response.members[0].error_code),
            other => panic!("LeaveGroup is answered at once: {other:?}"),
        }
    }

    fn listed(&self) -> Vec<(String, String)> {
        let groups = self.coordinator.list(&[], &[]).into_iter();
        groups.map(|group| (group.group_type.into_owned(), group.group_state.into_owned())).collect()
    }
}

#[test]
fn groups_are_listed_with_type_and_state() {
    let mut h = Harness::new();
    Client::join(&mut h, "a", &["orders"]);
    assert_eq!(h.listed(), [("consumer".to_owned(), "Stable".to_owned())]);
    assert_eq!(h.coordinator.list(&[], &[])[0].protocol_type, "consumer");
    Client::join(&mut h, "b", &["orders"]);
    assert_eq!(h.listed()[0].1, "Reconciling");
    assert_eq!(h.coordinator.list(&["reconciling".into()], &["Consumer".into()]).len(), 1);
    assert!(h.coordinator.list(&[], &["classic".into()]).is_empty());
    let described = h.coordinator.describe(6, GROUP);
    assert_eq!(ErrorCode(described.error_code), ErrorCode::GROUP_ID_NOT_FOUND);
    assert_eq!(h.coordinator.describe(5, GROUP).group_state, "Dead");
    let names: Vec<_> = h.coordinator.members(GROUP).into_iter().map(|(id, _)| id.to_string()).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn only_empty_groups_are_deleted() {
    let mut h = Harness::new();
    Client::join(&mut h, "a", &["orders"]);
    assert_eq!(h.coordinator.delete_group(GROUP, &mut h.effects), Err(ErrorCode::NON_EMPTY_GROUP));
    h.send(&beat("a", -1)).unwrap();
    assert_eq!(h.coordinator.delete_group(GROUP, &mut h.effects), Ok(()));
    assert_eq!(h.code(&beat("a", 2)), ErrorCode::GROUP_ID_NOT_FOUND);
}

#[test]
fn groups_with_members_keep_their_protocol() {
    let mut h = Harness::new();
    let mut a = Client::join(&mut h, "a", &["orders"]);
    assert_eq!(h.join_classic(), ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    a.beat(&mut h).unwrap();
    h.send(&beat("a", -1)).unwrap();
    assert_eq!(h.join_classic(), ErrorCode::NONE);
    assert_eq!(h.listed()[0].0, "classic");
    let refusal = h.send(&join("a", &["orders"])).unwrap_err();
    assert_eq!(refusal.code, ErrorCode::GROUP_ID_NOT_FOUND);
    assert!(refusal.message.contains("group.protocol=classic"), "{}", refusal.message);
    assert_eq!(h.code(&beat("a", 2)), ErrorCode::GROUP_ID_NOT_FOUND);
    assert_eq!(h.code(&beat("a", -1)), ErrorCode::GROUP_ID_NOT_FOUND);
    h.pass(400_000);
    assert_eq!(h.coordinator.members(GROUP), Vec::<(Arc<str>, Arc<str>)>::new());
    Client::join(&mut h, "a", &["orders"]);
    assert_eq!(h.listed(), [("consumer".to_owned(), "Stable".to_owned())]);
}

#[test]
fn administrators_remove_members() {
    let mut h = Harness::new();
    Client::join(&mut h, "a", &["orders"]);
    let static_member = ConsumerGroupHeartbeatRequest { instance_id: Some("i".into()), ..join("b", &["orders"]) };
    h.send(&static_member).unwrap();
    assert_eq!(h.remove("unknown", None), ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(h.remove("a", Some("i")), ErrorCode::FENCED_INSTANCE_ID);
    assert_eq!(h.remove("", Some("i")), ErrorCode::NONE);
    assert_eq!(h.remove("a", None), ErrorCode::NONE);
    assert_eq!(h.group().2, "Empty");
}

#[test]
fn tests_start_rebalances_and_end_sessions() {
    let mut h = Harness::new();
    let mut a = Client::join(&mut h, "a", &["orders"]);
    assert!(h.coordinator.force_rebalance(h.now, GROUP, &mut h.effects));
    assert_eq!(h.group(), (3, 2, "Assigning"));
    a.beat(&mut h).unwrap();
    assert_eq!(a.epoch, 3);
    assert!(!h.coordinator.expire_member(h.now, GROUP, "unknown", &mut h.effects));
    assert!(h.coordinator.expire_member(h.now, GROUP, "a", &mut h.effects));
    assert_eq!(a.beat(&mut h).unwrap_err().code, ErrorCode::UNKNOWN_MEMBER_ID);
    assert!(!h.coordinator.force_rebalance(h.now, GROUP, &mut h.effects), "the group has no members");
}
