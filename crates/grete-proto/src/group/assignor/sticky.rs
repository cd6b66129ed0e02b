//! Balanced and sticky assignment, compatible with members that run Kafka's CooperativeStickyAssignor (KIP-429) or
//! StickyAssignor (KIP-54).
//!
//! Three steps, of which the eager assignor needs no third: its members have given up all partitions.
//! 1. *Claims.* If several members claim a partition, the claim of the highest generation counts. Two claims of the
//!    same generation cannot both be true: no cooperative member gets the partition in this round, so that both give it
//!    up. A single claim of an old generation counts, because its member may still process the partition (KAFKA-14639).
//! 2. *Balance.* No partition could go to a member that has at least two fewer, neither directly nor along a chain of
//!    other members' partitions. Claimed partitions move only as far as that requires.
//!    Where racks make a difference (KIP-881) and all members have the same topics, as many partitions as possible go to
//!    a member in the rack of a replica. A partition whose member is in another rack moves only for that. Members with
//!    different topics get partitions in their rack only where several members have equally few.
//! 3. *Two phases.* A partition that another member claims is not assigned. Its owner finds the partition missing,
//!    revokes it and joins again; then the partition is unclaimed and can go to its new owner.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use super::racks::{self, ReplicaRacks};
use super::{Assignments, MemberClaim, PartitionCounts};
use crate::ids::TopicPartition;

/// Index of a member in the sorted list, and of a topic in [`AssignmentPlan::topics`].
type Index = usize;

/// Assigns every partition that has a subscriber, except those that must change owners first. Members claim what they own.
#[must_use]
pub fn assign_cooperatively(members: &[MemberClaim], counts: &PartitionCounts, racks: &ReplicaRacks) -> Assignments {
    assign(members, counts, racks, |claims, tp, member| claims.may_own(tp, member))
}

/// Assigns every partition that has a subscriber. Members claim what they owned before, and own nothing.
#[must_use]
pub fn assign_eagerly(members: &[MemberClaim], counts: &PartitionCounts, racks: &ReplicaRacks) -> Assignments {
    assign(members, counts, racks, |_, _, _| true)
}

fn assign(
    members: &[MemberClaim],
    counts: &PartitionCounts,
    racks: &ReplicaRacks,
    may_own: impl Fn(&OwnershipClaims<'_>, &TopicPartition, Index) -> bool,
) -> Assignments {
    let mut sorted: Vec<&MemberClaim> = members.iter().collect();
    sorted.sort_by(|a, b| a.member_id.cmp(&b.member_id));
    sorted.dedup_by(|a, b| a.member_id == b.member_id);
    let claims = OwnershipClaims::new(&sorted);
    let mut plan = AssignmentPlan::new(&sorted, counts, racks, &claims);
    if plan.is_uniform() {
        plan.fill_to_quota();
    } else {
        plan.give_to_least_loaded();
        plan.balance();
    }
    plan.finish(&sorted, |tp, member| may_own(&claims, tp, member))
}

/// Members that claim to own a partition.
#[derive(Debug, Default)]
struct PartitionOwners {
    generation: i32,
    /// Member with the highest generation; `None` if two members share it.
    winner: Option<Index>,
    all: Vec<Index>,
}

struct OwnershipClaims<'a>(HashMap<&'a TopicPartition, PartitionOwners>);

impl<'a> OwnershipClaims<'a> {
    fn new(members: &[&'a MemberClaim]) -> Self {
        let mut claims: HashMap<&TopicPartition, PartitionOwners> = HashMap::new();
        for (index, member) in members.iter().enumerate() {
            for tp in &member.owned {
                let claimants = claims.entry(tp).or_default();
                if claimants.all.is_empty() || member.generation > claimants.generation {
                    claimants.generation = member.generation;
                    claimants.winner = Some(index);
                } else if member.generation == claimants.generation {
                    claimants.winner = None;
                }
                claimants.all.push(index);
            }
        }
        Self(claims)
    }

    /// Returns whether `member` may own `tp` in this generation: no member claims `tp`, or this member's claim wins.
    fn may_own(&self, tp: &TopicPartition, member: Index) -> bool {
        self.0.get(tp).is_none_or(|claimants| claimants.winner == Some(member))
    }
}

struct Topic<'a> {
    name: &'a Arc<str>,
    /// Subscribed members, in ascending order.
    eligible: Vec<Index>,
    /// Members in the rack of a replica, by partition number; empty where racks make no difference.
    in_rack: Vec<BTreeSet<Index>>,
}

impl Topic<'_> {
    fn is_in_rack(&self, partition: i32, member: Index) -> bool {
        self.members_in_rack(partition).is_some_and(|members| members.contains(&member))
    }

    fn members_in_rack(&self, partition: i32) -> Option<&BTreeSet<Index>> {
        self.in_rack.get(usize::try_from(partition).ok()?)
    }
}

#[derive(Default)]
struct MemberLoad {
    /// Partitions by topic.
    held: BTreeMap<Index, BTreeSet<i32>>,
    /// Partitions that the member claimed and may keep.
    claimed: BTreeSet<(Index, i32)>,
    len: usize,
}

impl MemberLoad {
    fn add(&mut self, topic: Index, partition: i32) {
        if self.held.entry(topic).or_default().insert(partition) {
            self.len += 1;
        }
    }

    fn remove(&mut self, topic: Index, partition: i32) {
        if let Some(held) = self.held.get_mut(&topic)
            && held.remove(&partition)
        {
            self.len -= 1;
            if held.is_empty() {
                self.held.remove(&topic);
            }
        }
    }
}

struct AssignmentPlan<'a> {
    topics: Vec<Topic<'a>>,
    loads: Vec<MemberLoad>,
    /// Partitions without an owner, ordered by topic and number.
    unassigned: BTreeSet<(Index, i32)>,
    racks_make_a_difference: bool,
}

impl<'a> AssignmentPlan<'a> {
    fn new(
        members: &[&MemberClaim],
        counts: &'a PartitionCounts,
        racks: &ReplicaRacks,
        claims: &OwnershipClaims<'_>,
    ) -> Self {
        let partitions = counts.iter().flat_map(|(name, &count)| {
            let racks = racks.get(name);
            (0..usize::try_from(count).unwrap_or(0)).map(move |partition| racks?.get(partition))
        });
        let racks_make_a_difference = racks::make_a_difference(members, partitions);
        let mut plan =
            Self { topics: Vec::new(), loads: Vec::new(), unassigned: BTreeSet::new(), racks_make_a_difference };
        plan.loads.resize_with(members.len(), MemberLoad::default);
        for (name, &count) in counts {
            let eligible: Vec<Index> =
                (0..members.len()).filter(|&m| members.get(m).is_some_and(|m| m.topics.contains(name))).collect();
            if eligible.is_empty() {
                continue;
            }
            let topic = plan.topics.len();
            for partition in 0..count {
                let tp = TopicPartition { topic: name.clone(), partition };
                let owner = claims.0.get(&tp).and_then(|c| c.winner).filter(|m| eligible.binary_search(m).is_ok());
                match owner.and_then(|m| plan.loads.get_mut(m)) {
                    Some(load) => {
                        load.add(topic, partition);
                        load.claimed.insert((topic, partition));
                    }
                    None => {
                        plan.unassigned.insert((topic, partition));
                    }
                }
            }
            let mut in_rack = Vec::new();
            if let Some(racks) = racks.get(name).filter(|_| racks_make_a_difference) {
                let near = |partition: i32| {
                    let is_near = |m: &Index| members.get(*m).is_some_and(|m| racks::is_in_rack(m, racks, partition));
                    eligible.iter().copied().filter(is_near).collect()
                };
                in_rack = (0..count).map(near).collect();
            }
            plan.topics.push(Topic { name, eligible, in_rack });
        }
        plan
    }

    /// Returns whether every member may have every partition, so that counting is enough.
    fn is_uniform(&self) -> bool {
        self.topics.iter().all(|topic| topic.eligible.len() == self.loads.len())
    }

    /// Handles the common case in O(partitions): each member keeps up to its quota, and the rest is dealt out in turn.
    fn fill_to_quota(&mut self) {
        let total = self.unassigned.len() + self.loads.iter().map(|load| load.len).sum::<usize>();
        let members = self.loads.len();
        let (Some(floor), Some(mut longer)) = (total.checked_div(members), total.checked_rem(members)) else { return };
        // The members with the most partitions get the odd ones: every other choice would move one more partition. Of those
        // with equally many, it is the members that can have more in their rack.
        let mut in_rack = vec![0_usize; members];
        for member in self.topics.iter().flat_map(|topic| &topic.in_rack).flatten() {
            if let Some(count) = in_rack.get_mut(*member) {
                *count = (*count + 1).min(floor + 1);
            }
        }
        let mut order: Vec<Index> = (0..members).collect();
        order.sort_by_key(|&m| {
            std::cmp::Reverse((self.loads.get(m).map_or(0, |load| load.len), in_rack.get(m).copied()))
        });
        let mut quotas = vec![floor; members];
        for member in order {
            let (Some(load), Some(quota)) = (self.loads.get_mut(member), quotas.get_mut(member)) else { continue };
            if longer > 0 {
                *quota += 1;
                longer -= 1;
            }
            // Those in the member's rack are kept first; sorted by number before the topic, so that kept and moved
            // partitions are spread over all topics.
            let topics = &self.topics;
            let elsewhere = |topic: Index, p: i32| topics.get(topic).is_some_and(|topic| !topic.is_in_rack(p, member));
            let mut kept: Vec<(bool, i32, Index)> =
                load.claimed.iter().map(|&(topic, p)| (elsewhere(topic, p), p, topic)).collect();
            kept.sort_unstable();
            for (_, partition, topic) in kept.into_iter().skip(*quota) {
                load.remove(topic, partition);
                self.unassigned.insert((topic, partition));
            }
        }
        if self.racks_make_a_difference {
            self.match_racks(&quotas);
        }
        let mut free = std::mem::take(&mut self.unassigned).into_iter();
        // The loop ends: the quotas add up to the total, so a member has room as long as a partition is left. Should
        // that be wrong one day, a round that deals out nothing ends the loop, too.
        loop {
            let mut dealt = false;
            for (load, &quota) in self.loads.iter_mut().zip(&quotas) {
                if load.len >= quota {
                    continue;
                }
                let Some((topic, partition)) = free.next() else { return };
                load.add(topic, partition);
                dealt = true;
            }
            if !dealt {
                return;
            }
        }
    }

    /// Gives partitions to members in the rack of a replica, up to the quotas. A partition that its claimant reads from
    /// another rack stays where it is, if no member in its racks has room and the claimant's place is not taken.
    fn match_racks(&mut self, quotas: &[usize]) {
        let mut claimed: Vec<(Index, Index, i32)> = Vec::new();
        for (member, load) in self.loads.iter().enumerate() {
            let held = load.held.iter().flat_map(|(&topic, held)| held.iter().map(move |&p| (topic, p)));
            let elsewhere =
                held.filter(|&(topic, p)| self.topics.get(topic).is_some_and(|topic| !topic.is_in_rack(p, member)));
            claimed.extend(elsewhere.map(|(topic, p)| (member, topic, p)));
        }
        for &(member, topic, partition) in &claimed {
            if let Some(load) = self.loads.get_mut(member) {
                load.remove(topic, partition);
                self.unassigned.insert((topic, partition));
            }
        }
        // Partitions with the fewest members in their racks come first, because they have the least choice.
        let choice = |&(topic, p): &(Index, i32)| {
            self.topics.get(topic).and_then(|topic| topic.members_in_rack(p)).map_or(0, BTreeSet::len)
        };
        let mut free: Vec<(usize, Index, i32)> =
            self.unassigned.iter().map(|at| (choice(at), at.0, at.1)).filter(|(choice, ..)| *choice > 0).collect();
        free.sort_unstable();
        let room = |loads: &[MemberLoad], member: Index| {
            let quota = quotas.get(member).copied().unwrap_or(0);
            quota.saturating_sub(loads.get(member).map_or(0, |load| load.len))
        };
        for &(_, topic, partition) in &free {
            let near = self.topics.get(topic).and_then(|topic| topic.members_in_rack(partition));
            let widest =
                near.into_iter().flatten().copied().max_by_key(|&m| (room(&self.loads, m), std::cmp::Reverse(m)));
            if let Some(member) = widest.filter(|&m| room(&self.loads, m) > 0)
                && let Some(load) = self.loads.get_mut(member)
            {
                load.add(topic, partition);
                self.unassigned.remove(&(topic, partition));
            }
        }
        let mut excluded = vec![false; self.loads.len()];
        for (_, topic, partition) in free {
            if self.unassigned.contains(&(topic, partition)) {
                self.make_room_in_rack((topic, partition), quotas, &mut excluded);
            }
        }
        for (member, topic, partition) in claimed {
            if room(&self.loads, member) > 0
                && self.unassigned.remove(&(topic, partition))
                && let Some(load) = self.loads.get_mut(member)
            {
                load.add(topic, partition);
            }
        }
    }

    /// Gives a partition to a member in its rack that has no room, if the member can pass on another partition to a member
    /// in that one's rack, and so on, until a member has room: an augmenting path, so that the number of partitions that
    /// are read in their rack is the largest possible with these quotas. `excluded`: members from which no path leads on,
    /// as an earlier search has found; they are skipped, so that all searches together visit each partition once.
    fn make_room_in_rack(&mut self, at: (Index, i32), quotas: &[usize], excluded: &mut [bool]) {
        let members_in_rack = |(topic, p): (Index, i32)| {
            self.topics.get(topic).and_then(|topic| topic.members_in_rack(p)).into_iter().flatten()
        };
        // By member: who passes on which partition to the member; `None`: the member gets `at`.
        let mut sources: HashMap<Index, (Option<Index>, (Index, i32))> = HashMap::new();
        let mut queue = VecDeque::new();
        let mut offer = |from: Option<Index>, passed: (Index, i32), queue: &mut VecDeque<Index>| {
            for &member in members_in_rack(passed) {
                if !excluded.get(member).is_none_or(|excluded| *excluded) && !sources.contains_key(&member) {
                    sources.insert(member, (from, passed));
                    queue.push_back(member);
                }
            }
        };
        offer(None, at, &mut queue);
        let mut end = None;
        while let Some(member) = queue.pop_front() {
            let Some(load) = self.loads.get(member) else { continue };
            if quotas.get(member).is_some_and(|quota| load.len < *quota) {
                end = Some(member);
                break;
            }
            for passed in load.held.iter().flat_map(|(&topic, held)| held.iter().map(move |&p| (topic, p))) {
                offer(Some(member), passed, &mut queue);
            }
        }
        let Some(mut member) = end else {
            for member in sources.into_keys() {
                if let Some(excluded) = excluded.get_mut(member) {
                    *excluded = true;
                }
            }
            return;
        };
        self.unassigned.remove(&at);
        while let Some(&(from, (topic, partition))) = sources.get(&member) {
            if let Some(giver) = from.and_then(|from| self.loads.get_mut(from)) {
                giver.remove(topic, partition);
            }
            if let Some(taker) = self.loads.get_mut(member) {
                taker.add(topic, partition);
            }
            let Some(giver) = from else { return };
            member = giver;
        }
    }

    /// Gives each unowned partition to the least loaded subscriber. Topics with the fewest subscribers come first,
    /// because they have the least choice.
    fn give_to_least_loaded(&mut self) {
        let mut free: Vec<(usize, Index, i32)> = std::mem::take(&mut self.unassigned)
            .into_iter()
            .map(|(topic, partition)| (self.topics.get(topic).map_or(0, |t| t.eligible.len()), topic, partition))
            .collect();
        free.sort_unstable();
        for (_, topic, partition) in free {
            let Some(at) = self.topics.get(topic) else { continue };
            let load = |m: Index| self.loads.get(m).map_or(usize::MAX, |load| load.len);
            let least = at.eligible.iter().copied().min_by_key(|&m| (load(m), !at.is_in_rack(partition, m)));
            if let Some(load) = least.and_then(|m| self.loads.get_mut(m)) {
                load.add(topic, partition);
            }
        }
    }

    /// Evens out the loads along chains of moves. The loop ends: each chain takes one partition from a member and gives
    /// one to a member that had at least two fewer, so the sum of the squared loads falls every time.
    fn balance(&mut self) {
        loop {
            let mut order: Vec<Index> = (0..self.loads.len()).collect();
            order.sort_by_key(|&m| std::cmp::Reverse(self.loads.get(m).map_or(0, |load| load.len)));
            let mut moved = false;
            for member in order {
                while let Some(chain) = self.chain_from(member) {
                    self.shift(&chain);
                    moved = true;
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// Returns the shortest chain of (from, topic, to) from `start` to the least loaded member that `start` could
    /// relieve itself to.
    fn chain_from(&self, start: Index) -> Option<Vec<(Index, Index, Index)>> {
        let limit = self.loads.get(start)?.len.checked_sub(2)?;
        let mut came_from: HashMap<Index, (Index, Index)> = HashMap::new();
        let mut seen_topics = vec![false; self.topics.len()];
        let mut queue = VecDeque::from([start]);
        let mut best: Option<(usize, Index)> = None;
        while let Some(member) = queue.pop_front() {
            for &topic in self.loads.get(member)?.held.keys() {
                // A topic needs one visit: the first member that reaches it is the nearest that could pass on a
                // partition.
                if std::mem::replace(seen_topics.get_mut(topic)?, true) {
                    continue;
                }
                for &next in &self.topics.get(topic)?.eligible {
                    if next == start || came_from.contains_key(&next) {
                        continue;
                    }
                    came_from.insert(next, (member, topic));
                    queue.push_back(next);
                    let len = self.loads.get(next)?.len;
                    if len <= limit && best.is_none_or(|(least, _)| len < least) {
                        best = Some((len, next));
                    }
                }
            }
        }
        let (_, mut at) = best?;
        let mut chain = Vec::new();
        while at != start {
            let &(from, topic) = came_from.get(&at)?;
            chain.push((from, topic, at));
            at = from;
        }
        Some(chain)
    }

    /// Moves one partition along each step of the chain, starting at the far end, so that no member passes on a
    /// partition that it has just received.
    fn shift(&mut self, chain: &[(Index, Index, Index)]) {
        for &(from, topic, to) in chain {
            let (Some(giver), Some(taker)) = (self.loads.get(from), self.loads.get(to)) else { return };
            // Prefer a partition that the taker claimed, then one that the giver did not claim.
            let cost = |partition: i32| match (
                taker.claimed.contains(&(topic, partition)),
                giver.claimed.contains(&(topic, partition)),
            ) {
                (true, _) => 0,
                (false, false) => 1,
                (false, true) => 2,
            };
            let Some(held) = giver.held.get(&topic) else { return };
            let Some(partition) = held.iter().rev().copied().min_by_key(|&p| cost(p)) else { return };
            if let Some(giver) = self.loads.get_mut(from) {
                giver.remove(topic, partition);
            }
            if let Some(taker) = self.loads.get_mut(to) {
                taker.add(topic, partition);
            }
        }
    }

    /// Returns the assignments by member id, without the partitions that a member may not own yet.
    fn finish(self, members: &[&MemberClaim], may_own: impl Fn(&TopicPartition, Index) -> bool) -> Assignments {
        let mut assignments = Assignments::new();
        for (index, (member, load)) in members.iter().zip(&self.loads).enumerate() {
            let partitions = load.held.iter().flat_map(|(&topic, held)| held.iter().map(move |&p| (topic, p)));
            let named = partitions.filter_map(|(topic, partition)| {
                let name = self.topics.get(topic)?.name.clone();
                Some(TopicPartition { topic: name, partition })
            });
            assignments.insert(member.member_id.clone(), named.filter(|tp| may_own(tp, index)).collect());
        }
        assignments
    }
}
