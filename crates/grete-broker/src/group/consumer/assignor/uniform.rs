//! Assignor `uniform`: balanced first, then sticky.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Subscriber;
use crate::effects::consumer_group::Partitions;
use crate::ids::TopicId;

/// Partition of a topic.
type Partition = (TopicId, i32);

/// Assigns partitions. Each member keeps what it has, free partitions go to the member with the fewest, and then
/// partitions move one by one until no move makes the numbers more equal.
pub(super) fn assign(members: &[Subscriber<'_>], topics: &BTreeMap<TopicId, i32>) -> Vec<Partitions> {
    let mut plan = Plan { members, owned: vec![BTreeSet::new(); members.len()] };
    let mut free = plan.keep_current(topics);
    // Partitions that few members can have come first, so that the others fill up the difference.
    free.sort_by_key(|(topic, partition)| (plan.subscribers(*topic).count(), *topic, *partition));
    for partition in free {
        let fewest = plan.subscribers(partition.0).min_by_key(|member| plan.load(*member));
        if let Some(owned) = fewest.and_then(|member| plan.owned.get_mut(member)) {
            owned.insert(partition);
        }
    }
    while plan.balance_once() {}
    plan.owned.into_iter().map(by_topic).collect()
}

fn by_topic(owned: BTreeSet<Partition>) -> Partitions {
    let mut partitions = Partitions::new();
    for (topic, partition) in owned {
        partitions.entry(topic).or_default().insert(partition);
    }
    partitions
}

/// Assignment in the making.
struct Plan<'a> {
    members: &'a [Subscriber<'a>],
    /// Partitions of each member.
    owned: Vec<BTreeSet<Partition>>,
}

impl Plan<'_> {
    /// Gives the members the partitions that they have and may keep. Returns the partitions without a member.
    fn keep_current(&mut self, topics: &BTreeMap<TopicId, i32>) -> Vec<Partition> {
        let mut free: BTreeSet<Partition> =
            topics.iter().flat_map(|(topic, count)| (0..*count).map(|partition| (*topic, partition))).collect();
        for (member, owned) in self.members.iter().zip(&mut self.owned) {
            for (topic, partitions) in member.current.iter().filter(|(topic, _)| member.topics.contains(topic)) {
                let kept = partitions.iter().map(|partition| (*topic, *partition)).filter(|kept| free.remove(kept));
                owned.extend(kept);
            }
        }
        free.into_iter().collect()
    }

    /// Returns the members that subscribe to a topic.
    fn subscribers(&self, topic: TopicId) -> impl Iterator<Item = usize> {
        let subscribed =
            move |(index, member): (usize, &Subscriber<'_>)| member.topics.contains(&topic).then_some(index);
        self.members.iter().enumerate().filter_map(subscribed)
    }

    fn load(&self, member: usize) -> usize {
        self.owned.get(member).map_or(0, BTreeSet::len)
    }

    /// Moves partitions from a member with many to a member with at least two fewer, over members in between if both
    /// share no topic. Returns whether something moved.
    fn balance_once(&mut self) -> bool {
        let mut by_load: Vec<usize> = (0..self.members.len()).collect();
        by_load.sort_by_key(|member| std::cmp::Reverse(self.load(*member)));
        for from in by_load {
            if let Some(path) = self.path_to_fewer(from) {
                for (from, to) in path.iter().zip(path.iter().skip(1)) {
                    self.move_one(*from, *to);
                }
                return true;
            }
        }
        false
    }

    /// Returns the shortest path from a member to the member with the fewest partitions that can take some of its load.
    /// `None`: no member has at least two fewer.
    fn path_to_fewer(&self, from: usize) -> Option<Vec<usize>> {
        let mut came_from: BTreeMap<usize, usize> = BTreeMap::from([(from, from)]);
        let mut queue = VecDeque::from([from]);
        let mut best: Option<usize> = None;
        while let Some(member) = queue.pop_front() {
            let fewer = self.load(member) + 2 <= self.load(from);
            if fewer && best.is_none_or(|best| self.load(member) < self.load(best)) {
                best = Some(member);
            }
            for next in self.takers(member) {
                if let std::collections::btree_map::Entry::Vacant(entry) = came_from.entry(next) {
                    entry.insert(member);
                    queue.push_back(next);
                }
            }
        }
        let mut path = vec![best?];
        while let Some(last) = path.last().filter(|last| **last != from) {
            path.push(*came_from.get(last)?);
        }
        path.reverse();
        Some(path)
    }

    /// Returns the members that could have one of a member's partitions.
    fn takers(&self, member: usize) -> BTreeSet<usize> {
        let topics: BTreeSet<TopicId> = self.owned.get(member).into_iter().flatten().map(|(topic, _)| *topic).collect();
        topics.into_iter().flat_map(|topic| self.subscribers(topic)).filter(|taker| *taker != member).collect()
    }

    /// Moves a partition, preferably one that its member does not have yet.
    fn move_one(&mut self, from: usize, to: usize) {
        let (Some(giver), Some(taker)) = (self.members.get(from), self.members.get(to)) else { return };
        let has = |(topic, partition): &Partition| {
            giver.current.get(topic).is_some_and(|current| current.contains(partition))
        };
        let Some(owned) = self.owned.get_mut(from) else { return };
        let movable = owned.iter().rev().filter(|(topic, _)| taker.topics.contains(topic));
        let Some(moved) = movable.min_by_key(|partition| has(partition)).copied() else { return };
        owned.remove(&moved);
        if let Some(owned) = self.owned.get_mut(to) {
            owned.insert(moved);
        }
    }
}
