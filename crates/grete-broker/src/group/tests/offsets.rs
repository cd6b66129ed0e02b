//! Commits, fetches, expiry and transactions.

use std::sync::Arc;

use grete_wire::ErrorCode;

use super::{GROUP, GroupChange, Harness, Join, MemberClaim, offset, tp};
use crate::effects::group::CommittedOffset;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

#[test]
fn members_commit_in_their_generation() {
    let mut h = Harness::new();
    assert_eq!(h.commit("m", 1, 5), Err(ErrorCode::GROUP_ID_NOT_FOUND));
    let (ids, generation) = h.stable(2);
    assert_eq!(h.commit(&ids[0], generation, 5), Ok(vec![ErrorCode::NONE]));
    assert_eq!(h.committed(), Some(5));
    assert_eq!(h.commit(&ids[0], generation - 1, 6), Err(ErrorCode::ILLEGAL_GENERATION));
    assert_eq!(h.commit("m", generation, 6), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    assert_eq!(h.commit("", -1, 6), Err(ErrorCode::UNKNOWN_MEMBER_ID), "the group has members");
    h.rejoin(&ids[0]);
    assert_eq!(h.commit(&ids[1], generation, 7), Ok(vec![ErrorCode::NONE]), "members commit before they rejoin");
    let joined = h.rejoin(&ids[1]);
    let generation = h.joined(joined).unwrap().generation_id;
    assert_eq!(h.commit(&ids[0], generation, 8), Err(ErrorCode::REBALANCE_IN_PROGRESS));
    assert_eq!(h.committed(), Some(7));
}

#[test]
fn an_old_client_learns_of_an_unknown_group_as_an_illegal_generation() {
    let mut h = Harness::new();
    let claim = MemberClaim { group: GROUP, generation: 1, member_id: "m", instance_id: None };
    let result = h.coordinator.commit(h.now, 8, &claim, vec![(tp("orders", 0), offset(1, 0))], &mut h.effects);
    assert_eq!(result, Err(ErrorCode::ILLEGAL_GENERATION));
}

#[test]
fn consumers_without_membership_commit_to_groups_without_members() {
    let mut h = Harness::new();
    assert_eq!(h.commit("", -1, 5), Ok(vec![ErrorCode::NONE]));
    assert_eq!((h.committed(), h.state().as_str()), (Some(5), "Empty"));
    let (ids, _) = h.stable(1);
    assert_eq!(h.committed(), Some(5), "the members continue with the offsets");
    h.leave(&ids[0]);
    assert_eq!(h.commit("", -1, 6), Ok(vec![ErrorCode::NONE]));
}

#[test]
fn a_commit_keeps_the_session() {
    let mut h = Harness::new();
    let (ids, generation) = h.stable(1);
    for value in 0..5 {
        h.pass(9_000);
        assert_eq!(h.commit(&ids[0], generation, value), Ok(vec![ErrorCode::NONE]));
    }
}

#[test]
fn long_metadata_is_refused_for_its_partition_only() {
    let mut h = Harness::new();
    let claim = MemberClaim { group: GROUP, generation: -1, member_id: "", instance_id: None };
    let long = CommittedOffset { metadata: Arc::from("x".repeat(4097)), ..offset(1, 0) };
    let fits = CommittedOffset { metadata: Arc::from("x".repeat(4096)), ..offset(2, 0) };
    let offsets = vec![(tp("orders", 0), long), (tp("orders", 1), fits.clone())];
    let result = h.coordinator.commit(h.now, 9, &claim, offsets, &mut h.effects);
    assert_eq!(result, Ok(vec![ErrorCode::OFFSET_METADATA_TOO_LARGE, ErrorCode::NONE]));
    assert_eq!(h.committed(), None);
    assert_eq!(h.coordinator.fetch_offset(GROUP, &tp("orders", 1), true), Ok(Some(&fits)));
}

#[test]
fn offsets_of_a_transaction_are_valid_after_its_commit() {
    let mut h = Harness::new();
    h.commit("", -1, 1).unwrap();
    assert_eq!(h.txn_commit(7, 2), Ok(vec![ErrorCode::NONE]));
    assert_eq!(h.committed(), Some(1));
    let partition = tp("orders", 0);
    let stable = h.coordinator.fetch_offset(GROUP, &partition, true);
    assert_eq!(stable, Err(ErrorCode::UNSTABLE_OFFSET_COMMIT));
    h.coordinator.complete_transaction(8, true, &[], &mut h.effects);
    assert!(h.effects.changes.is_empty(), "the transaction of another producer changes nothing");
    h.coordinator.complete_transaction(7, true, &[], &mut h.effects);
    h.collect();
    assert_eq!(h.committed(), Some(2));
    h.txn_commit(7, 3).unwrap();
    h.coordinator.complete_transaction(7, false, &[], &mut h.effects);
    h.collect();
    assert_eq!(h.committed(), Some(2), "the transaction was aborted");
    assert!(h.coordinator.fetch_offset(GROUP, &partition, true).is_ok());
}

#[test]
fn a_later_commit_wins_over_an_earlier_transaction() {
    let mut h = Harness::new();
    h.txn_commit(7, 2).unwrap();
    h.commit("", -1, 9).unwrap();
    h.coordinator.complete_transaction(7, true, &[], &mut h.effects);
    assert_eq!(h.committed(), Some(9));
}

#[test]
fn transactions_check_the_membership_that_they_claim() {
    let mut h = Harness::new();
    let (ids, generation) = h.stable(1);
    let mut commit = |member_id: &str, generation| {
        let claim = MemberClaim { group: GROUP, generation, member_id, instance_id: None };
        h.coordinator.txn_commit(h.now, 7, &claim, vec![(tp("orders", 0), offset(1, 0))], &mut h.effects)
    };
    assert_eq!(commit(&ids[0], generation), Ok(vec![ErrorCode::NONE]));
    assert_eq!(commit(&ids[0], generation - 1), Err(ErrorCode::ILLEGAL_GENERATION));
    assert_eq!(commit("m", generation), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    assert_eq!(commit("", -1), Ok(vec![ErrorCode::NONE]), "old clients claim no membership");
    let claim = MemberClaim { group: "other", generation: 1, member_id: "m", instance_id: None };
    let result = h.coordinator.txn_commit(h.now, 7, &claim, Vec::new(), &mut h.effects);
    assert_eq!(result, Err(ErrorCode::ILLEGAL_GENERATION));
}

#[test]
fn a_simple_group_expires_with_its_last_commit() {
    let mut h = Harness::new();
    h.commit("", -1, 5).unwrap();
    h.pass(6 * DAY_MS);
    h.commit("", -1, 6).unwrap();
    h.pass(7 * DAY_MS - 1);
    assert_eq!(h.committed(), Some(6));
    h.pass(600_000);
    assert_eq!((h.committed(), h.state().as_str()), (None, "Dead"));
    assert_eq!(h.changes.last(), Some(&GroupChange::Deleted { group: Arc::from(GROUP) }));
    assert_eq!(h.coordinator.deadline(), None, "no group, no timer");
}

#[test]
fn offsets_of_subscribed_topics_do_not_expire() {
    let mut h = Harness::new();
    let (ids, generation) = h.stable(1);
    let claim = MemberClaim { group: GROUP, generation, member_id: &ids[0], instance_id: None };
    let offsets = [tp("orders", 0), tp("payments", 0)].map(|tp| (tp, offset(1, h.now)));
    h.coordinator.commit(h.now, 9, &claim, offsets.into(), &mut h.effects).unwrap();
    h.coordinator.expire_offsets(h.now + 8 * DAY_MS, &mut h.effects);
    assert_eq!(h.coordinator.committed_partitions(GROUP), [tp("orders", 0)]);
}

#[test]
fn offsets_of_an_empty_group_expire_after_the_departure() {
    let mut h = Harness::new();
    let (ids, generation) = h.stable(1);
    h.commit(&ids[0], generation, 5).unwrap();
    h.pass(9_000);
    h.leave(&ids[0]);
    h.pass(7 * DAY_MS - 1);
    assert_eq!(h.committed(), Some(5));
    h.pass(600_000);
    assert_eq!(h.state(), "Dead");
}

#[test]
fn an_open_transaction_keeps_the_offset_and_the_group() {
    let mut h = Harness::new();
    h.commit("", -1, 5).unwrap();
    h.txn_commit(7, 6).unwrap();
    h.pass(8 * DAY_MS);
    assert_eq!(h.committed(), Some(5));
}

#[test]
fn a_retention_time_in_the_request_is_in_force() {
    let mut h = Harness::new();
    let claim = MemberClaim { group: GROUP, generation: -1, member_id: "", instance_id: None };
    let short = CommittedOffset { expires_at: Some(h.now + 1_000), ..offset(1, h.now) };
    h.coordinator.commit(h.now, 4, &claim, vec![(tp("orders", 0), short)], &mut h.effects).unwrap();
    h.coordinator.expire_offsets(h.now + 999, &mut h.effects);
    assert_eq!(h.committed(), Some(1));
    h.coordinator.expire_offsets(h.now + 1_000, &mut h.effects);
    assert_eq!(h.committed(), None);
}

#[test]
fn offsets_are_deleted_with_their_topic() {
    let mut h = Harness::new();
    h.commit("", -1, 5).unwrap();
    h.txn_commit(7, 6).unwrap();
    h.coordinator.on_topic_deleted("payments", &mut h.effects);
    h.coordinator.on_topic_deleted("orders", &mut h.effects);
    h.collect();
    h.coordinator.complete_transaction(7, true, &[], &mut h.effects);
    assert_eq!(h.committed(), None);
}

#[test]
fn offsets_of_subscribed_topics_cannot_be_deleted() {
    let mut h = Harness::new();
    let partitions = [tp("orders", 0), tp("payments", 0)];
    let unknown = h.coordinator.delete_offsets(GROUP, &partitions, &mut h.effects);
    assert_eq!(unknown, Err(ErrorCode::GROUP_ID_NOT_FOUND));
    let (ids, generation) = h.stable(1);
    let claim = MemberClaim { group: GROUP, generation, member_id: &ids[0], instance_id: None };
    let offsets = partitions.iter().map(|tp| (tp.clone(), offset(1, h.now))).collect();
    h.coordinator.commit(h.now, 9, &claim, offsets, &mut h.effects).unwrap();
    let codes = h.coordinator.delete_offsets(GROUP, &partitions, &mut h.effects);
    assert_eq!(codes, Ok(vec![ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode::NONE]));
    assert_eq!(h.coordinator.committed_partitions(GROUP), [tp("orders", 0)]);
}

#[test]
fn offsets_of_another_protocol_type_are_deleted_without_members_only() {
    let mut h = Harness::new();
    let connect = Join { protocol_type: "connect", version: 3, ..Join::default() };
    let request = h.send_join(&connect);
    let id = h.joined(request).unwrap().member_id.to_string();
    let result = h.coordinator.delete_offsets(GROUP, &[tp("orders", 0)], &mut h.effects);
    assert_eq!(result, Err(ErrorCode::NON_EMPTY_GROUP));
    h.leave(&id);
    let result = h.coordinator.delete_offsets(GROUP, &[tp("orders", 0)], &mut h.effects);
    assert_eq!(result, Ok(vec![ErrorCode::NONE]));
}
