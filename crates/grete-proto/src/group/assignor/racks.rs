//! Racks of members and of replicas (KIP-881): a member reads a partition from a broker in its own rack where a replica
//! of the partition is there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::MemberClaim;

/// Racks of the replicas of one partition; empty: unknown.
pub type Racks = BTreeSet<Arc<str>>;

/// Racks of the replicas by partition number, for each topic. A missing topic or partition has unknown racks.
pub type ReplicaRacks = BTreeMap<Arc<str>, Vec<Racks>>;

/// Returns whether a replica of `partition` is in the member's rack.
pub(super) fn is_in_rack(member: &MemberClaim, racks: &[Racks], partition: i32) -> bool {
    let replicas = usize::try_from(partition).ok().and_then(|index| racks.get(index));
    member.rack.as_ref().is_some_and(|rack| replicas.is_some_and(|racks| racks.contains(rack)))
}

/// Returns whether racks make a difference between the members: a member and a replica share a rack, and not every
/// partition has replicas in all racks. `partitions` yields the racks of each partition, unknown ones included.
pub(super) fn make_a_difference<'a>(
    members: &[&MemberClaim],
    partitions: impl Iterator<Item = Option<&'a Racks>> + Clone,
) -> bool {
    let all: BTreeSet<&Arc<str>> = partitions.clone().flatten().flatten().collect();
    members.iter().any(|member| member.rack.as_ref().is_some_and(|rack| all.contains(rack)))
        && !partitions.clone().all(|racks| racks.is_some_and(|racks| racks.len() == all.len()))
}
