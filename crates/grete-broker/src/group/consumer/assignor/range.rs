//! Assignor `range`: each topic by itself, consecutive partitions for each member.

use std::collections::{BTreeMap, BTreeSet};

use super::Subscriber;
use crate::effects::consumer_group::Partitions;
use crate::ids::TopicId;

/// Assigns partitions. Of each topic, a member keeps the lowest partitions that it has, up to its share; the free ones go
/// to the members that have too few, in order. Topics with equal members and equal numbers of partitions are therefore
/// divided in the same way.
pub(super) fn assign(members: &[Subscriber<'_>], topics: &BTreeMap<TopicId, i32>) -> Vec<Partitions> {
    let mut assigned = vec![Partitions::new(); members.len()];
    for (topic, count) in topics {
        let subscribers: Vec<usize> = members
            .iter()
            .enumerate()
            .filter_map(|(index, member)| member.topics.contains(topic).then_some(index))
            .collect();
        let current = |index: usize| members.get(index).and_then(|member| member.current.get(topic));
        let shares = divide(*count, &subscribers.iter().map(|index| current(*index)).collect::<Vec<_>>());
        for (index, share) in subscribers.into_iter().zip(shares) {
            if let Some(partitions) = assigned.get_mut(index).filter(|_| !share.is_empty()) {
                partitions.insert(*topic, share);
            }
        }
    }
    assigned
}

/// Divides the partitions of a topic. `current`: what each subscriber has.
fn divide(count: i32, current: &[Option<&BTreeSet<i32>>]) -> Vec<BTreeSet<i32>> {
    let Some(share) = usize::try_from(count).ok().and_then(|count| count.checked_div(current.len())) else {
        return Vec::new();
    };
    let mut extra = usize::try_from(count).unwrap_or(0) % current.len();
    let mut free: BTreeSet<i32> = (0..count).collect();
    // Members with more than the share keep one partition more while some are left over.
    let mut shares: Vec<(BTreeSet<i32>, usize)> = Vec::with_capacity(current.len());
    for current in current {
        let owned = || current.iter().copied().flatten().copied();
        let keeps_extra = extra > 0 && owned().filter(|partition| free.contains(partition)).count() > share;
        let quota = share + usize::from(keeps_extra);
        extra -= usize::from(keeps_extra);
        let kept: BTreeSet<i32> = owned().filter(|partition| free.contains(partition)).take(quota).collect();
        free.retain(|partition| !kept.contains(partition));
        shares.push((kept, quota));
    }
    for (kept, quota) in &mut shares {
        if extra > 0 && *quota == share {
            *quota += 1;
            extra -= 1;
        }
        while kept.len() < *quota {
            let Some(next) = free.pop_first() else { break };
            kept.insert(next);
        }
    }
    shares.into_iter().map(|(kept, _)| kept).collect()
}
