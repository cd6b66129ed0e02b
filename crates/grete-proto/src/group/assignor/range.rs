//! Kafka's RangeAssignor: contiguous ranges per topic, with members in order; the first ranges are one longer.
//!
//! Where racks make a difference (KIP-881), each member first gets partitions with a replica in its rack, as many as its
//! range is long, and the ranges are filled up from the others. Topics with the same subscribers and the same number of
//! partitions stay together: equal partition numbers go to the same member if it has the rack of all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::racks::{self, Racks, ReplicaRacks};
use super::{Assignments, MemberClaim, PartitionCounts, in_java_order};
use crate::ids::TopicPartition;

/// Assigns the partitions of each topic independently, but for topics that stay together.
#[must_use]
pub fn assign(members: &[MemberClaim], counts: &PartitionCounts, racks: &ReplicaRacks) -> Assignments {
    let sorted = in_java_order(members);
    let mut topics: Vec<TopicRanges<'_>> = counts
        .iter()
        .filter_map(|(name, &count)| {
            TopicRanges::new(name, count, &sorted, racks.get(name).map_or(&[][..], Vec::as_slice))
        })
        .collect();
    if topics.iter().any(|topic| topic.racks_make_a_difference) {
        match_racks(&mut topics);
    }
    let mut assignments: Assignments = members.iter().map(|m| (m.member_id.clone(), Vec::new())).collect();
    for topic in &mut topics {
        topic.deal_out(|_, _, _| true);
        for (member, held) in topic.subscribers.iter().zip(&topic.held) {
            if let Some(assigned) = assignments.get_mut(&member.member_id) {
                let named = held.iter().map(|&partition| TopicPartition { topic: topic.name.clone(), partition });
                assigned.extend(named);
            }
        }
    }
    assignments
}

/// Gives members partitions with a replica in their rack.
fn match_racks(topics: &mut [TopicRanges<'_>]) {
    let mut together: BTreeMap<(Vec<&str>, usize), Vec<&mut TopicRanges<'_>>> = BTreeMap::new();
    for topic in topics {
        let subscribers = topic.subscribers.iter().map(|member| member.member_id.as_str()).collect();
        together.entry((subscribers, topic.unassigned.len())).or_default().push(topic);
    }
    for mut topics in together.into_values() {
        match topics.as_mut_slice() {
            [topic] if topic.racks_make_a_difference => topic.deal_out(TopicRanges::may_read_in_rack),
            [_] => {}
            topics => match_racks_together(topics),
        }
    }
}

/// Gives equal partition numbers of all `topics`, which have the same subscribers, to a member with the rack of all.
fn match_racks_together(topics: &mut [&mut TopicRanges<'_>]) {
    let Some((members, partitions)) = topics.first().map(|t| (t.subscribers.len(), t.unassigned.clone())) else {
        return;
    };
    for partition in partitions {
        let fits = |topic: &&mut TopicRanges<'_>, member| {
            let member = topic.subscribers.get(member).zip(Some(topic.room(member)));
            member.is_some_and(|(member, room)| room > 0 && topic.may_read_in_rack(member, partition))
        };
        if let Some(member) = (0..members).find(|&member| topics.iter().all(|topic| fits(topic, member))) {
            for topic in topics.iter_mut() {
                topic.give(member, &[partition]);
            }
        }
    }
}

/// Ranges of one topic that has subscribers.
struct TopicRanges<'a> {
    name: &'a Arc<str>,
    subscribers: Vec<&'a MemberClaim>,
    /// Partitions by index of the subscriber.
    held: Vec<BTreeSet<i32>>,
    unassigned: BTreeSet<i32>,
    /// Length of a range.
    len: usize,
    /// Number of ranges that are still one longer.
    longer: usize,
    racks: &'a [Racks],
    racks_make_a_difference: bool,
}

impl<'a> TopicRanges<'a> {
    fn new(name: &'a Arc<str>, count: i32, members: &[&'a MemberClaim], racks: &'a [Racks]) -> Option<Self> {
        let subscribers: Vec<_> = members.iter().copied().filter(|m| m.topics.contains(name)).collect();
        let partitions = usize::try_from(count).ok()?;
        let (len, longer) = (partitions.checked_div(subscribers.len())?, partitions.checked_rem(subscribers.len())?);
        let racks_make_a_difference =
            racks::make_a_difference(&subscribers, (0..partitions).map(|partition| racks.get(partition)));
        let held = vec![BTreeSet::new(); subscribers.len()];
        let unassigned = (0..count).collect();
        Some(Self { name, subscribers, held, unassigned, len, longer, racks, racks_make_a_difference })
    }

    /// Returns whether a replica is in the member's rack; a member without a rack reads all partitions alike.
    fn may_read_in_rack(&self, member: &MemberClaim, partition: i32) -> bool {
        member.rack.is_none() || racks::is_in_rack(member, self.racks, partition)
    }

    /// Returns the number of partitions that the subscriber may still get.
    fn room(&self, member: usize) -> usize {
        let held = self.held.get(member).map_or(0, BTreeSet::len);
        (self.len + usize::from(self.longer > 0)).saturating_sub(held)
    }

    fn give(&mut self, member: usize, partitions: &[i32]) {
        let Some(held) = self.held.get_mut(member) else { return };
        held.extend(partitions);
        if held.len() > self.len && !partitions.is_empty() {
            self.longer = self.longer.saturating_sub(1);
        }
        for partition in partitions {
            self.unassigned.remove(partition);
        }
    }

    /// Gives each subscriber, in order, the first partitions that it may have, as many as there is room for.
    fn deal_out(&mut self, may_have: impl Fn(&Self, &MemberClaim, i32) -> bool) {
        for (index, member) in self.subscribers.clone().into_iter().enumerate() {
            let fitting = self.unassigned.iter().copied().filter(|&partition| may_have(self, member, partition));
            let chosen: Vec<i32> = fitting.take(self.room(index)).collect();
            self.give(index, &chosen);
        }
    }
}
