//! List, describe and delete groups, and faults.

use std::borrow::Cow;

use grete_wire::ErrorCode;

use super::{GROUP, Harness, Join, MemberClaim, offset, subscription, tp};
use crate::coordinator_partition::coordinator_partition;
use crate::effects::group::CommittedOffset;

fn names(h: &Harness, states: &[&str], types: &[&str]) -> Vec<String> {
    let filter = |names: &[&str]| names.iter().map(|name| Cow::Owned((*name).to_owned())).collect::<Vec<Cow<str>>>();
    let groups = h.coordinator.list(&filter(states), &filter(types));
    groups.into_iter().map(|group| format!("{} {} {}", group.group_id, group.group_state, group.group_type)).collect()
}

#[test]
fn groups_are_listed_by_state_and_type() {
    let mut h = Harness::new();
    assert!(names(&h, &[], &[]).is_empty());
    h.stable(1);
    let listed = ["orders Stable classic"];
    assert_eq!(names(&h, &[], &[]), listed);
    assert_eq!(names(&h, &["Empty", " stable "], &["Classic"]), listed);
    assert!(names(&h, &["Empty"], &[]).is_empty());
    assert!(names(&h, &[], &["consumer"]).is_empty());
}

#[test]
fn only_stable_groups_show_the_metadata_of_members() {
    let mut h = Harness::new();
    let (ids, _) = h.stable(1);
    let stable = h.coordinator.describe(5, GROUP);
    let member = &stable.members[0];
    assert_eq!((stable.group_state.as_ref(), stable.protocol_type.as_ref()), ("Stable", "consumer"));
    assert_eq!((stable.protocol_data.as_ref(), member.member_id.as_ref()), ("range", ids[0].as_str()));
    assert_eq!((member.client_id.as_ref(), member.client_host.as_ref()), ("app", "/127.0.0.1"));
    assert_eq!(member.member_metadata.as_ref(), subscription("orders"));
    assert_eq!(member.member_assignment.as_ref(), ids[0].as_bytes());
    h.rejoin(&ids[0]);
    let completing = h.coordinator.describe(5, GROUP);
    assert_eq!((completing.group_state.as_ref(), completing.protocol_data.as_ref()), ("CompletingRebalance", ""));
    assert!(completing.members[0].member_metadata.is_empty());
}

#[test]
fn an_unknown_group_is_dead() {
    let h = Harness::new();
    let old = h.coordinator.describe(5, "none");
    assert_eq!((old.error_code, old.group_state.as_ref()), (0, "Dead"));
    let new = h.coordinator.describe(6, "none");
    assert_eq!((ErrorCode(new.error_code), new.group_state.as_ref()), (ErrorCode::GROUP_ID_NOT_FOUND, "Dead"));
    assert_eq!(new.error_message.as_deref(), Some("Group none not found."));
}

#[test]
fn a_group_whose_only_commit_was_refused_is_found_and_not_listed() {
    let mut h = Harness::new();
    refused_commit(&mut h, GROUP);
    assert_eq!(names(&h, &[], &[]), Vec::<String>::new());
    assert_eq!(h.coordinator.describe(5, GROUP).group_state, "Dead");
    // A member that only gets its id changes nothing about that.
    h.ask_member_id();
    assert_eq!(h.coordinator.describe(5, GROUP).group_state, "Dead");
    assert_eq!(h.coordinator.delete_offsets(GROUP, &[tp("orders", 0)], &mut h.effects), Ok(vec![ErrorCode::NONE]));
    assert_eq!(h.coordinator.delete_group(GROUP, &mut h.effects), Ok(()));
    assert_eq!(h.coordinator.delete_group(GROUP, &mut h.effects), Err(ErrorCode::GROUP_ID_NOT_FOUND));
    // A group that had offsets stays listed without them.
    assert_eq!(h.commit("", -1, 5), Ok(vec![ErrorCode::NONE]));
    assert_eq!(h.coordinator.delete_offsets(GROUP, &[tp("orders", 0)], &mut h.effects), Ok(vec![ErrorCode::NONE]));
    assert_eq!(names(&h, &[], &[]), ["orders Empty classic"]);
}

/// Refuses the first commit of a group.
fn refused_commit(h: &mut Harness, group: &str) {
    let claim = MemberClaim { group, generation: -1, member_id: "", instance_id: None };
    let long = CommittedOffset { metadata: "m".repeat(4097).into(), ..offset(1, 0) };
    let refused = h.coordinator.commit(h.now, 8, &claim, vec![(tp("orders", 0), long)], &mut h.effects);
    assert_eq!(refused, Ok(vec![ErrorCode::OFFSET_METADATA_TOO_LARGE]));
}

/// Group in the same partition of `__consumer_offsets` as another, or not.
fn neighbour(of: &str, is_near: bool) -> String {
    let names = (0..).map(|number| format!("other-{number}"));
    let is_wanted = |name: &String| (coordinator_partition(name) == coordinator_partition(of)) == is_near;
    names.into_iter().find(is_wanted).unwrap()
}

#[test]
fn a_group_in_memory_only_is_listed_from_the_next_record_of_its_partition_on() {
    let mut h = Harness::new();
    refused_commit(&mut h, GROUP);
    let commit = |h: &mut Harness, group: &str| {
        let claim = MemberClaim { group, generation: -1, member_id: "", instance_id: None };
        h.coordinator.commit(h.now, 8, &claim, vec![(tp("orders", 0), offset(1, 0))], &mut h.effects).unwrap();
    };
    let (far, near) = (neighbour(GROUP, false), neighbour(GROUP, true));
    commit(&mut h, &far);
    assert_eq!(h.coordinator.describe(5, GROUP).group_state, "Dead", "another partition has a record");
    commit(&mut h, &near);
    assert_eq!(h.coordinator.describe(5, GROUP).group_state, "Empty");
    assert_eq!(names(&h, &[], &[]).len(), 3);
    // A group that is created again is in memory only again.
    h.coordinator.delete_group(GROUP, &mut h.effects).unwrap();
    refused_commit(&mut h, GROUP);
    assert_eq!(h.coordinator.describe(5, GROUP).group_state, "Dead");
    h.coordinator.delete_group(&near, &mut h.effects).unwrap();
    assert_eq!(h.coordinator.describe(5, GROUP).group_state, "Empty", "a deletion is a record");
}

#[test]
fn the_marker_of_a_transaction_is_a_record() {
    let mut h = Harness::new();
    refused_commit(&mut h, GROUP);
    h.coordinator.complete_transaction(7, true, &[neighbour(GROUP, false).into()], &mut h.effects);
    assert_eq!(h.coordinator.describe(5, GROUP).group_state, "Dead");
    h.coordinator.complete_transaction(7, true, &[GROUP.into()], &mut h.effects);
    assert_eq!(h.coordinator.describe(5, GROUP).group_state, "Empty");
}

#[test]
fn only_groups_without_members_are_deleted() {
    let mut h = Harness::new();
    assert_eq!(h.coordinator.delete_group(GROUP, &mut h.effects), Err(ErrorCode::GROUP_ID_NOT_FOUND));
    let (ids, _) = h.stable(1);
    assert_eq!(h.coordinator.delete_group(GROUP, &mut h.effects), Err(ErrorCode::NON_EMPTY_GROUP));
    h.leave(&ids[0]);
    let pending = h.ask_member_id();
    assert_eq!(h.coordinator.delete_group(GROUP, &mut h.effects), Ok(()));
    h.collect();
    assert_eq!(h.state(), "Dead");
    h.pass(1_000_000);
    let request = h.rejoin(&pending);
    assert_eq!(h.join_code(request), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn a_rebalance_can_be_forced() {
    let mut h = Harness::new();
    assert!(!h.coordinator.force_rebalance(h.now, GROUP, &mut h.effects));
    let (ids, generation) = h.stable(1);
    assert!(h.coordinator.force_rebalance(h.now, GROUP, &mut h.effects));
    assert_eq!(h.heartbeat(&ids[0], generation), ErrorCode::REBALANCE_IN_PROGRESS);
    let request = h.rejoin(&ids[0]);
    assert_eq!(h.joined(request).unwrap().generation_id, generation + 1);
}

#[test]
fn a_member_can_be_expired() {
    let mut h = Harness::new();
    let (ids, generation) = h.stable(2);
    let waiting = h.rejoin(&ids[0]);
    assert!(h.coordinator.expire_member(h.now, GROUP, &ids[0], &mut h.effects));
    assert!(!h.coordinator.expire_member(h.now, GROUP, &ids[0], &mut h.effects));
    h.collect();
    assert_eq!(h.join_code(waiting), ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(h.heartbeat(&ids[1], generation), ErrorCode::REBALANCE_IN_PROGRESS);
    let request = h.send_join(&Join { instance_id: Some("i"), ..Join::default() });
    assert!(h.coordinator.expire_member(h.now, GROUP, "i", &mut h.effects), "static members have a name");
    h.collect();
    assert_eq!(h.join_code(request), ErrorCode::UNKNOWN_MEMBER_ID);
}
