//! Assignors: pure functions that the leader of a classic group runs to distribute the partitions.
//!
//! # Eager or cooperative
//!
//! In *eager* rebalancing a member gives up all partitions before it joins. In *cooperative* rebalancing (KIP-429) the
//! member keeps its partitions and claims them in JoinGroup, and the assignor must not assign a claimed partition to
//! another member in the same generation. `range` does not know claims.
//!
//! Suppose that a member lists both, and keeps its partitions because cooperative-sticky was elected last. Now the
//! group elects `range`, because a range-only member has joined. The range leader assigns some of the kept partitions
//! to other members. Until the SyncGroup response reaches the old owner, two members own those partitions in one
//! generation. The election is known only *after* the claim was made, so nothing that a member could do at that point
//! helps.
//!
//! Hence KIP-429's rule, which Java follows, too: a member is cooperative only if **every** assignor in its list is
//! cooperative; otherwise it is eager. A list of both is the bridge of a rolling upgrade (first `both` everywhere, then
//! `cooperative-sticky` alone). It is also the way to share a group with range-only members: librdkafka's default is
//! `range,roundrobin`, Java's is `range,cooperative-sticky`, and both are eager.
//!
//! The default is therefore `cooperative-sticky` alone.

pub mod racks;
pub mod range;
pub mod round_robin;
pub mod sticky;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use racks::ReplicaRacks;

use crate::ids::TopicPartition;

/// Subscription and claim of one member.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemberClaim {
    /// Member id from the coordinator.
    pub member_id: String,
    /// `group.instance.id` of a static member (KIP-345).
    pub instance_id: Option<String>,
    /// `client.rack` (KIP-881); `None`: not set.
    pub rack: Option<Arc<str>>,
    /// Topics of the subscription.
    pub topics: BTreeSet<Arc<str>>,
    /// Partitions that the member owned when it joined; eager members claim none, or with `sticky` those of their last
    /// assignment.
    pub owned: BTreeSet<TopicPartition>,
    /// Generation in which the member owned them; -1: unknown.
    pub generation: i32,
}

/// Partitions per topic, for all topics that the group subscribes to. A topic that does not exist has 0.
pub type PartitionCounts = BTreeMap<Arc<str>, i32>;

/// Partitions by member id; every member has an entry.
pub type Assignments = BTreeMap<String, Vec<TopicPartition>>;

/// Assignor, identified by its protocol name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Assignor {
    /// Balanced and sticky; moves a partition in two phases (KIP-429).
    CooperativeSticky,
    /// Contiguous ranges per topic; equal partition numbers of different topics go to the same member.
    Range,
    /// The partitions of all topics in turn.
    RoundRobin,
    /// Balanced and sticky, and eager (KIP-54).
    Sticky,
}

impl Assignor {
    /// All assignors.
    pub const ALL: [Self; 4] = [Self::CooperativeSticky, Self::Range, Self::RoundRobin, Self::Sticky];

    /// Returns the name in JoinGroup and in `partition.assignment.strategy`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CooperativeSticky => "cooperative-sticky",
            Self::Range => "range",
            Self::RoundRobin => "roundrobin",
            Self::Sticky => "sticky",
        }
    }

    /// Returns the assignor with this protocol name; `None` if the name is unknown.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|assignor| assignor.name() == name)
    }

    /// Returns whether members may keep partitions across a rebalance that elects this assignor.
    #[must_use]
    pub const fn is_cooperative(self) -> bool {
        matches!(self, Self::CooperativeSticky)
    }

    /// Assigns every partition of `counts` that a member may have. All but `roundrobin` prefer members in the rack of a
    /// replica, as long as the assignment is balanced.
    #[must_use]
    pub fn assign(self, members: &[MemberClaim], counts: &PartitionCounts, racks: &ReplicaRacks) -> Assignments {
        match self {
            Self::CooperativeSticky => sticky::assign_cooperatively(members, counts, racks),
            Self::Range => range::assign(members, counts, racks),
            Self::RoundRobin => round_robin::assign(members, counts),
            Self::Sticky => sticky::assign_eagerly(members, counts, racks),
        }
    }
}

impl fmt::Display for Assignor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns whether a member with this list keeps its partitions across rebalances: only if all its assignors allow it.
#[must_use]
pub fn is_cooperative(assignors: &[Assignor]) -> bool {
    assignors.iter().all(|assignor| assignor.is_cooperative())
}

/// Returns the members in Java's order: static members first, by instance id; then dynamic members by member id. A leader
/// with another order would move partitions on each change of leadership.
fn in_java_order(members: &[MemberClaim]) -> Vec<&MemberClaim> {
    let mut sorted: Vec<&MemberClaim> = members.iter().collect();
    sorted.sort_by(|a, b| match (&a.instance_id, &b.instance_id) {
        (Some(x), Some(y)) => x.cmp(y),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.member_id.cmp(&b.member_id),
    });
    sorted.dedup_by(|a, b| a.member_id == b.member_id);
    sorted
}

#[cfg(test)]
mod tests;
