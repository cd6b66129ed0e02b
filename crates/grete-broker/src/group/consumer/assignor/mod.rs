//! Assignors of the coordinator: they divide the partitions of topics among the members that subscribe to the topics.

mod range;
mod uniform;

use std::collections::{BTreeMap, BTreeSet};

use crate::effects::consumer_group::Partitions;
use crate::group::config::Assignor;
use crate::ids::TopicId;

/// Computes the partitions of each member, in the order of the members. `topics`: number of partitions of each topic that
/// exists.
pub(super) fn assign(
    assignor: Assignor,
    members: &[Subscriber<'_>],
    topics: &BTreeMap<TopicId, i32>,
) -> Vec<Partitions> {
    match assignor {
        Assignor::Uniform => uniform::assign(members, topics),
        Assignor::Range => range::assign(members, topics),
    }
}

/// Member that gets partitions.
#[derive(Debug, Clone)]
pub(super) struct Subscriber<'a> {
    /// Subscribed topics that exist.
    pub(super) topics: BTreeSet<TopicId>,
    /// Partitions of the last target assignment.
    pub(super) current: &'a Partitions,
}

#[cfg(test)]
mod tests;
