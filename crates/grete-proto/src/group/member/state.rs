//! State of a member, its identity at the coordinator, and its request in flight.

use crate::group::context::CoordinatorRef;
use crate::time::Nanos;

/// State of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::group) enum State {
    /// Not subscribed.
    Unjoined,
    /// Must join, but revocations or a backoff come first.
    Rebalancing,
    /// JoinGroup is due or in flight.
    Joining,
    /// Leader that waits for the metadata of the members' topics.
    Electing,
    /// SyncGroup is due or in flight.
    Syncing,
    /// Has an assignment.
    Stable,
    /// LeaveGroup is due or in flight.
    Leaving,
    /// Outside the group.
    Left,
    /// Failed for good.
    Fatal,
}

/// Identity of the member at the coordinator; commits carry it from the time they are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::group) struct MemberGeneration {
    pub generation: i32,
    pub member_id: String,
}

/// JoinGroup, SyncGroup or LeaveGroup in flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct InFlight {
    pub token: u32,
    pub located: CoordinatorRef,
    pub sent_at: Nanos,
}

/// Meaning of a commit that was refused for its generation or member id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::group) enum StaleCommitCause {
    /// The group was not joined, and it has members: only members may commit.
    Standalone,
    /// The commit carried the member's current generation, so the member was removed from the group.
    Evicted,
    /// The commit carried the member's current epoch (KIP-848). UNKNOWN_MEMBER_ID means that the member was removed; an
    /// error about the epoch means that the coordinator has counted on, and the next heartbeat brings the new one.
    EpochBehind,
    /// A join is in progress: retry with its generation.
    Rejoining,
}
