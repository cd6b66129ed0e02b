//! Offsets of members: epochs of commits and fetches.

use std::sync::Arc;

use super::*;
use crate::effects::group::CommittedOffset;
use crate::group::offsets::{CommitResult, MemberClaim};
use crate::ids::TopicPartition;

impl Harness {
    fn commit(&mut self, version: i16, member_id: &str, generation: i32, partition: i32) -> CommitResult {
        let claim = MemberClaim { group: GROUP, generation, member_id, instance_id: None };
        let metadata = Arc::from("");
        let offset = CommittedOffset { offset: 5, leader_epoch: 0, metadata, committed_at: self.now, expires_at: None };
        let offsets = vec![(TopicPartition::new("orders", partition), offset)];
        let result = self.coordinator.commit(self.now, version, &claim, offsets, &mut self.effects);
        self.collect();
        result
    }
}

#[test]
fn members_commit_with_their_epoch() {
    let mut h = Harness::new();
    let mut a = Client::join(&mut h, "a", &["orders"]);
    assert_eq!(h.commit(9, "a", 2, 0), Ok(vec![ErrorCode::NONE]));
    assert_eq!(h.commit(9, "a", 3, 0), Err(ErrorCode::STALE_MEMBER_EPOCH));
    assert_eq!(h.commit(9, "b", 2, 0), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    assert_eq!(h.commit(9, "", -1, 0), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    assert_eq!(h.commit(8, "a", 2, 0), Err(ErrorCode::UNSUPPORTED_VERSION));
    let mut b = Client::join(&mut h, "b", &["orders"]);
    settle(&mut h, &mut [&mut a, &mut b]);
    let (own, foreign) = (a.owned[&ORDERS][0], b.owned[&ORDERS][0]);
    // The member has had the partition since epoch 2 (KIP-1251).
    assert_eq!(h.commit(9, "a", 2, own), Ok(vec![ErrorCode::NONE]));
    assert_eq!(h.commit(9, "a", 0, own), Err(ErrorCode::STALE_MEMBER_EPOCH));
    assert_eq!(h.commit(9, "a", 2, foreign), Err(ErrorCode::STALE_MEMBER_EPOCH));
    assert_eq!(h.commit(9, "b", 2, foreign), Err(ErrorCode::STALE_MEMBER_EPOCH), "it has had it since epoch 3");
}

#[test]
fn an_empty_group_accepts_commits_of_administrators() {
    let mut h = Harness::new();
    Client::join(&mut h, "a", &["orders"]);
    h.send(&beat("a", -1)).unwrap();
    assert_eq!(h.commit(9, "", -1, 0), Ok(vec![ErrorCode::NONE]));
    assert_eq!(h.commit(9, "a", 2, 0), Err(ErrorCode::UNKNOWN_MEMBER_ID));
}

#[test]
fn fetches_of_members_need_their_epoch() {
    let mut h = Harness::new();
    Client::join(&mut h, "a", &["orders"]);
    let check = |h: &Harness, member, epoch| h.coordinator.validate_fetch(GROUP, member, epoch);
    assert_eq!(check(&h, Some("a"), 2), Ok(()));
    assert_eq!(check(&h, None, -1), Ok(()));
    assert_eq!(check(&h, Some("a"), 0), Err(ErrorCode::STALE_MEMBER_EPOCH));
    assert_eq!(check(&h, Some("b"), 1), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    assert_eq!(h.coordinator.validate_fetch("other", Some("b"), 1), Ok(()), "no such group");
}

#[test]
fn transactions_of_members_need_their_epoch() {
    let mut h = Harness::new();
    Client::join(&mut h, "a", &["orders"]);
    let mut commit = |member_id, generation| {
        let claim = MemberClaim { group: GROUP, generation, member_id, instance_id: None };
        h.coordinator.txn_commit(h.now, 7, &claim, Vec::new(), &mut h.effects)
    };
    assert_eq!(commit("a", 2), Ok(Vec::new()));
    assert_eq!(commit("", -1), Ok(Vec::new()), "an old version has no member id");
    assert_eq!(commit("a", 3), Err(ErrorCode::STALE_MEMBER_EPOCH));
    assert_eq!(commit("b", 1), Err(ErrorCode::UNKNOWN_MEMBER_ID));
}

#[test]
fn offsets_of_subscribed_topics_are_neither_deleted_nor_expired() {
    let mut h = Harness::new();
    Client::join(&mut h, "a", &["orders"]);
    h.commit(9, "a", 2, 0).unwrap();
    let place = [TopicPartition::new("orders", 0)];
    let delete = |h: &mut Harness| {
        let codes = h.coordinator.delete_offsets(GROUP, &place, &mut h.effects);
        h.collect();
        codes
    };
    assert_eq!(delete(&mut h), Ok(vec![ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC]));
    let later = h.now + 8 * 24 * 60 * 60 * 1000;
    h.coordinator.expire_offsets(later, &mut h.effects);
    assert_eq!(h.coordinator.committed_partitions(GROUP), place);
    h.send(&beat("a", -1)).unwrap();
    assert_eq!(delete(&mut h), Ok(vec![ErrorCode::NONE]));
    h.coordinator.expire_offsets(later, &mut h.effects);
    assert!(h.coordinator.list(&[], &[]).is_empty(), "a group without members and offsets expires");
}
