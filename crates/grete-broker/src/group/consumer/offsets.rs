//! Checks of members that commit or fetch offsets.

use grete_wire::ErrorCode;

use super::ConsumerGroup;
use crate::group::claim::MemberClaim;
use crate::ids::TopicPartition;

/// First version of OffsetCommit for members of the consumer protocol.
const FIRST_VERSION_FOR_MEMBERS: i16 = 9;

impl ConsumerGroup {
    /// Checks whether a client may commit offsets. `version`: version of OffsetCommit; `None`: a transaction.
    ///
    /// # Errors
    /// `UNKNOWN_MEMBER_ID`, `UNSUPPORTED_VERSION`, or `STALE_MEMBER_EPOCH`: the epoch is not the member's, and the member
    /// has got a partition after it (KIP-1251).
    pub(in crate::group) fn validate_commit<'a>(
        &self,
        claim: &MemberClaim<'_>,
        version: Option<i16>,
        partitions: impl IntoIterator<Item = &'a TopicPartition>,
    ) -> Result<(), ErrorCode> {
        let is_anonymous = claim.generation == -1 && claim.member_id.is_empty() && claim.instance_id.is_none();
        // An administrator, a consumer that assigns its partitions itself, or a transaction of an old version.
        if claim.generation < 0 && self.members.is_empty() || version.is_none() && is_anonymous {
            return Ok(());
        }
        let member = self.members.get(claim.member_id).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        if version.is_some_and(|version| version < FIRST_VERSION_FOR_MEMBERS) {
            return Err(ErrorCode::UNSUPPORTED_VERSION);
        }
        if claim.generation == member.epoch {
            return Ok(());
        }
        let got_at = |tp: &TopicPartition| {
            let (topic, _) = self.topics.get(&tp.topic)?;
            let of = |owned: &super::OwnedPartitions| owned.get(topic)?.get(&tp.partition).copied();
            of(&member.assigned).or_else(|| of(&member.revoking))
        };
        let may = |tp: &TopicPartition| got_at(tp).is_some_and(|epoch| epoch <= claim.generation);
        let is_known = claim.generation < member.epoch && partitions.into_iter().all(may);
        if is_known { Ok(()) } else { Err(ErrorCode::STALE_MEMBER_EPOCH) }
    }

    /// Checks whether a client may fetch offsets. `member_id`: `None` with a negative epoch is no member.
    ///
    /// # Errors
    /// `UNKNOWN_MEMBER_ID` or `STALE_MEMBER_EPOCH`.
    pub(in crate::group) fn validate_fetch(&self, member_id: Option<&str>, epoch: i32) -> Result<(), ErrorCode> {
        if member_id.is_none() && epoch < 0 {
            return Ok(());
        }
        let member = self.members.get(member_id.unwrap_or_default()).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        if member.epoch == epoch { Ok(()) } else { Err(ErrorCode::STALE_MEMBER_EPOCH) }
    }
}
