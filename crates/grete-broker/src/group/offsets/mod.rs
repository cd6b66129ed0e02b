//! Offsets of groups: commit, fetch, deletion and expiry.

mod transactional;

use std::sync::Arc;

use grete_wire::ErrorCode;

use super::GroupCoordinator;
pub use super::claim::MemberClaim;
use super::context::Context;
use super::state::{CONSUMER_PROTOCOL, Group, GroupState};
use crate::effects::group::{CommittedOffset, GroupChange};
use crate::effects::{Change, Effects};
use crate::ids::{Millis, TopicPartition};

/// First version of OffsetCommit that names an unknown group as such (KIP-848).
const FIRST_VERSION_WITH_UNKNOWN_GROUP: i16 = 9;

/// Source of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// OffsetCommit of this version.
    Version(i16),
    /// TxnOffsetCommit, in the transaction of this producer.
    Producer(i64),
}

/// Outcome of a commit: an error code for each partition, in order, or one for all of them.
pub type CommitResult = Result<Vec<ErrorCode>, ErrorCode>;

impl GroupCoordinator {
    /// Commits offsets. The caller has checked that the partitions exist. `version`: version of OffsetCommit.
    ///
    /// # Errors
    /// The claim is wrong: the commit failed for all partitions.
    pub fn commit(
        &mut self,
        now: Millis,
        version: i16,
        claim: &MemberClaim<'_>,
        offsets: Vec<(TopicPartition, CommittedOffset)>,
        effects: &mut Effects,
    ) -> CommitResult {
        let unknown_group = if version >= FIRST_VERSION_WITH_UNKNOWN_GROUP {
            ErrorCode::GROUP_ID_NOT_FOUND
        } else {
            ErrorCode::ILLEGAL_GENERATION
        };
        self.commit_as(now, claim, Source::Version(version), unknown_group, offsets, effects)
    }

    /// Commits offsets, in the transaction of a producer or at once.
    pub(super) fn commit_as(
        &mut self,
        now: Millis,
        claim: &MemberClaim<'_>,
        source: Source,
        unknown_group: ErrorCode,
        offsets: Vec<(TopicPartition, CommittedOffset)>,
        effects: &mut Effects,
    ) -> CommitResult {
        if !self.groups.contains_key(claim.group) {
            if claim.generation >= 0 {
                return Err(unknown_group);
            }
            // A simple group without a protocol type: a consumer assigns its partitions itself, or an administrator sets
            // offsets. The offsets restore the group after a restart.
            self.create(now, claim.group);
        }
        let committed =
            self.with_group(now, claim.group, effects, |group, _, ctx| group.commit(ctx, claim, source, offsets));
        committed.unwrap_or(Err(unknown_group))
    }

    /// Returns the committed offset of a partition. `None`: there is none, or the group does not exist.
    ///
    /// # Errors
    /// `UNSTABLE_OFFSET_COMMIT`: `require_stable`, and an open transaction has an offset for the partition (KIP-447).
    pub fn fetch_offset(
        &self,
        group: &str,
        tp: &TopicPartition,
        require_stable: bool,
    ) -> Result<Option<&CommittedOffset>, ErrorCode> {
        let Some(group) = self.groups.get(group) else { return Ok(None) };
        if require_stable && group.offsets.is_pending(tp) {
            return Err(ErrorCode::UNSTABLE_OFFSET_COMMIT);
        }
        Ok(group.offsets.get(tp))
    }

    /// Checks whether a client may fetch the offsets of a group. Only the consumer protocol has members to check.
    /// `member_id`: `None` with a negative epoch is no member.
    ///
    /// # Errors
    /// `UNKNOWN_MEMBER_ID` or `STALE_MEMBER_EPOCH`.
    pub fn validate_fetch(&self, group: &str, member_id: Option<&str>, epoch: i32) -> Result<(), ErrorCode> {
        let consumer = self.groups.get(group).and_then(|group| group.consumer.as_ref());
        consumer.map_or(Ok(()), |consumer| consumer.validate_fetch(member_id, epoch))
    }

    /// Returns the partitions with a committed offset. None: the group does not exist.
    #[must_use]
    pub fn committed_partitions(&self, group: &str) -> Vec<TopicPartition> {
        let offsets = self.groups.get(group).map(|group| group.offsets.iter().map(|(tp, _)| tp.clone()).collect());
        offsets.unwrap_or_default()
    }

    /// Deletes offsets. Returns an error code for each partition.
    ///
    /// # Errors
    /// `GROUP_ID_NOT_FOUND`, or `NON_EMPTY_GROUP`: the group has members of another protocol type than `consumer`.
    pub fn delete_offsets(
        &mut self,
        group: &str,
        partitions: &[TopicPartition],
        effects: &mut Effects,
    ) -> CommitResult {
        let group = self.groups.get_mut(group).ok_or(ErrorCode::GROUP_ID_NOT_FOUND)?;
        if group.state != GroupState::Empty && group.protocol_type.as_deref() != Some(CONSUMER_PROTOCOL) {
            return Err(ErrorCode::NON_EMPTY_GROUP);
        }
        let code = |tp: &TopicPartition| match group.is_subscribed_to(&tp.topic) {
            true => ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC,
            false => ErrorCode::NONE,
        };
        let codes: Vec<_> = partitions.iter().map(code).collect();
        let deleted = partitions.iter().zip(&codes).filter(|(_, code)| **code == ErrorCode::NONE).map(|(tp, _)| tp);
        let deleted = deleted.filter(|tp| group.offsets.get(tp).is_some() || group.offsets.is_pending(tp));
        let deleted = deleted.cloned().collect();
        if group.forget(deleted, effects) {
            self.records.count(&group.id);
        }
        Ok(codes)
    }

    /// Deletes the offsets of a topic that was deleted.
    pub fn on_topic_deleted(&mut self, topic: &str, effects: &mut Effects) {
        for group in self.groups.values_mut() {
            let deleted = group.offsets.partitions(|tp| &*tp.topic == topic);
            if group.forget(deleted, effects) {
                self.records.count(&group.id);
            }
        }
    }

    /// Deletes the offsets whose retention has passed, and groups that have neither members nor offsets. Kafka does
    /// that every 10 minutes, and so does [`GroupCoordinator::tick`].
    pub fn expire_offsets(&mut self, now: Millis, effects: &mut Effects) {
        let retention_ms = self.config.offsets_retention_ms;
        let mut unused = Vec::new();
        for group in self.groups.values_mut() {
            let expired = group.expired_offsets(now, retention_ms);
            if group.forget(expired, effects) {
                self.records.count(&group.id);
            }
            if group.has_no_members() && group.offsets.is_empty() {
                unused.push(Arc::clone(&group.id));
            }
        }
        for group in unused {
            self.remove_group(&group, effects);
        }
    }
}

impl Group {
    fn commit(
        &mut self,
        ctx: &mut Context<'_>,
        claim: &MemberClaim<'_>,
        source: Source,
        offsets: Vec<(TopicPartition, CommittedOffset)>,
    ) -> CommitResult {
        let (version, producer_id) = match source {
            Source::Version(version) => (Some(version), None),
            Source::Producer(producer_id) => (None, Some(producer_id)),
        };
        match &self.consumer {
            Some(consumer) => consumer.validate_commit(claim, version, offsets.iter().map(|(tp, _)| tp))?,
            None => self.validate_commit(claim, producer_id.is_some())?,
        }
        if producer_id.is_none() && matches!(self.state, GroupState::Stable | GroupState::PreparingRebalance) {
            self.extend_session(ctx.now, claim.member_id);
        }
        let limit = ctx.config.offset_metadata_max_bytes;
        let mut codes = Vec::with_capacity(offsets.len());
        let mut valid = Vec::with_capacity(offsets.len());
        for (tp, offset) in offsets {
            if offset.metadata.encode_utf16().count() > limit {
                codes.push(ErrorCode::OFFSET_METADATA_TOO_LARGE);
                continue;
            }
            codes.push(ErrorCode::NONE);
            self.offsets.put(producer_id, tp.clone(), offset.clone());
            valid.push((tp, offset));
        }
        if !valid.is_empty() {
            self.has_records = true;
            ctx.change(GroupChange::Offsets { group: Arc::clone(&self.id), producer_id, offsets: valid });
        }
        Ok(codes)
    }

    /// Checks whether a client may commit.
    fn validate_commit(&self, claim: &MemberClaim<'_>, transactional: bool) -> Result<(), ErrorCode> {
        if claim.generation < 0 && self.state == GroupState::Empty {
            // An administrator, or a consumer that assigns its partitions itself.
            return Ok(());
        }
        if claim.generation >= 0 || !claim.member_id.is_empty() || claim.instance_id.is_some() {
            self.validate_member(claim.member_id, claim.instance_id)?;
            if claim.generation != self.generation {
                return Err(ErrorCode::ILLEGAL_GENERATION);
            }
        } else if !transactional && self.state != GroupState::Empty {
            // Old versions of TxnOffsetCommit have no member id, so they are accepted in every state.
            return Err(ErrorCode::UNKNOWN_MEMBER_ID);
        }
        if !transactional && self.state == GroupState::CompletingRebalance {
            // The member knows the generation from JoinGroup, but it has no assignment yet.
            return Err(ErrorCode::REBALANCE_IN_PROGRESS);
        }
        Ok(())
    }

    /// Deletes offsets, if there are any, and stores the deletion. Returns whether something was stored.
    fn forget(&mut self, partitions: Vec<TopicPartition>, effects: &mut Effects) -> bool {
        if partitions.is_empty() {
            return false;
        }
        for tp in &partitions {
            self.offsets.remove(tp);
        }
        effects.change(Change::Group(GroupChange::OffsetsDeleted { group: Arc::clone(&self.id), partitions }));
        true
    }

    /// Returns the partitions whose offsets have passed their retention (KIP-211).
    fn expired_offsets(&self, now: Millis, retention_ms: i64) -> Vec<TopicPartition> {
        // The retention of a group with members begins again with each commit, unless the topic is subscribed. It
        // begins with the departure of the last member otherwise.
        let since_empty = match (&self.protocol_type, self.state) {
            // Also groups of the consumer protocol.
            (None, _) => None,
            (Some(_), GroupState::Empty) => Some(self.state_since),
            (Some(name), GroupState::Stable) if &**name == CONSUMER_PROTOCOL && self.subscribed.is_some() => None,
            _ => return Vec::new(),
        };
        let expired = self.offsets.iter().filter(|(tp, offset)| {
            let passed = match offset.expires_at {
                Some(at) => now >= at,
                None => now - since_empty.unwrap_or(offset.committed_at) >= retention_ms,
            };
            passed && !self.is_subscribed_to(&tp.topic) && !self.offsets.is_pending(tp)
        });
        expired.map(|(tp, _)| tp.clone()).collect()
    }
}
