//! Who gets which partition: pure functions that the leader of a classic group runs.
//!
//! # Eager or cooperative
//!
//! With an *eager* discipline a member gives up everything before it joins; with a *cooperative* one (KIP-429) it keeps
//! its partitions, claims them in JoinGroup, and the assignor must not hand a claimed partition to somebody else in the
//! same generation. `range` knows nothing of claims. So what if a member lists both, keeps its partitions because the
//! last elected protocol was cooperative-sticky, and the group then elects `range` (a range-only member has joined)? The
//! range leader gives some of the kept partitions away, and until the SyncGroup answer reaches the old owner, two members
//! own them in one generation. The election is known only *after* the claim was made, so that nothing a member could do
//! at that point helps. Hence KIP-429's rule, which Java follows, too: a member is cooperative only if **every** assignor
//! in its list is; otherwise it is eager. A list of both is the bridge of a rolling upgrade (first `both`, everywhere,
//! then `cooperative-sticky` alone), and the way to share a group with range-only members (librdkafka's default is
//! `range,roundrobin`, Java's is `range,cooperative-sticky`, and both are eager).
//!
//! So the default is `cooperative-sticky` alone.

pub mod cooperative_sticky;
pub mod range;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::ids::TopicPartition;

/// What one member wants and says it has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemberClaim {
    /// The id that the coordinator gave it.
    pub member_id: String,
    /// `group.instance.id` of a static member (KIP-345).
    pub instance_id: Option<String>,
    /// Topics that it subscribes to.
    pub topics: BTreeSet<Arc<str>>,
    /// Partitions that it owned when it joined; eager members claim none.
    pub owned: BTreeSet<TopicPartition>,
    /// The generation in which it owned them; -1 when it does not say.
    pub generation: i32,
}

/// Partitions per topic, of all topics that the group subscribes to. A topic that does not exist has none.
pub type PartitionCounts = BTreeMap<Arc<str>, i32>;

/// Partitions by member id; every member has an entry.
pub type Assignments = BTreeMap<String, Vec<TopicPartition>>;

/// An assignor by its protocol name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Assignor {
    /// Balanced, keeps what members have, moves a partition in two phases (KIP-429).
    CooperativeSticky,
    /// Contiguous ranges per topic; the same partition numbers of equal topics meet in one member.
    Range,
}

impl Assignor {
    /// The name in JoinGroup and in `partition.assignment.strategy`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CooperativeSticky => "cooperative-sticky",
            Self::Range => "range",
        }
    }

    /// Finds an assignor by its protocol name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        [Self::CooperativeSticky, Self::Range].into_iter().find(|assignor| assignor.name() == name)
    }

    /// Whether members may keep partitions across a rebalance that elects it.
    #[must_use]
    pub const fn is_cooperative(self) -> bool {
        matches!(self, Self::CooperativeSticky)
    }

    /// Assigns every partition of `counts` that a member may have.
    #[must_use]
    pub fn assign(self, members: &[MemberClaim], counts: &PartitionCounts) -> Assignments {
        match self {
            Self::CooperativeSticky => cooperative_sticky::assign(members, counts),
            Self::Range => range::assign(members, counts),
        }
    }
}

impl fmt::Display for Assignor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether a member with this list keeps its partitions across rebalances: only if all its assignors allow it.
#[must_use]
pub fn is_cooperative(assignors: &[Assignor]) -> bool {
    assignors.iter().all(|assignor| assignor.is_cooperative())
}

#[cfg(test)]
mod tests;
