//! Offsets that are committed in a producer's transaction (KIP-98, KIP-447).

use std::sync::Arc;

use grete_wire::ErrorCode;

use super::{CommitResult, MemberClaim, Source};
use crate::effects::group::{CommittedOffset, GroupChange};
use crate::effects::{Change, Effects};
use crate::group::GroupCoordinator;
use crate::ids::{Millis, TopicPartition};

impl GroupCoordinator {
    /// Adds offsets to a producer's transaction. They become valid when the transaction is committed. The caller has
    /// checked the producer and its transaction.
    ///
    /// # Errors
    /// The claim is wrong: the commit failed for all partitions.
    pub fn txn_commit(
        &mut self,
        now: Millis,
        producer_id: i64,
        claim: &MemberClaim<'_>,
        offsets: Vec<(TopicPartition, CommittedOffset)>,
        effects: &mut Effects,
    ) -> CommitResult {
        if claim.group.is_empty() {
            return Err(ErrorCode::INVALID_GROUP_ID);
        }
        self.commit_as(now, claim, Source::Producer(producer_id), ErrorCode::ILLEGAL_GENERATION, offsets, effects)
    }

    /// Returns whether a group has offsets in the open transaction of a producer.
    #[must_use]
    pub fn has_transaction(&self, group: &str, producer_id: i64) -> bool {
        self.groups.get(group).is_some_and(|group| group.offsets.has_transaction(producer_id))
    }

    /// Ends the transaction of a producer in its groups, whose partitions get a marker.
    pub fn complete_transaction(&mut self, producer_id: i64, commit: bool, groups: &[Arc<str>], effects: &mut Effects) {
        groups.iter().for_each(|group| self.records.count(group));
        if self.end_transaction(producer_id, commit) {
            effects.change(Change::Group(GroupChange::TransactionEnded { producer_id, commit }));
        }
    }

    /// Ends the transaction of a producer. Returns whether a group had offsets in the transaction.
    pub(in crate::group) fn end_transaction(&mut self, producer_id: i64, commit: bool) -> bool {
        let mut found = false;
        for group in self.groups.values_mut().filter(|group| group.offsets.has_transaction(producer_id)) {
            group.offsets.end_transaction(producer_id, commit);
            found = true;
        }
        found
    }
}
