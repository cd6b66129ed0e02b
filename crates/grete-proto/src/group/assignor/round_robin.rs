//! Kafka's RoundRobinAssignor: the partitions of all topics, in order, go to the members in turn.

use super::{Assignments, MemberClaim, PartitionCounts, in_java_order};
use crate::ids::TopicPartition;

/// Gives each partition to the next member that subscribes to its topic.
#[must_use]
pub fn assign(members: &[MemberClaim], counts: &PartitionCounts) -> Assignments {
    let sorted = in_java_order(members);
    let mut assignments: Assignments = members.iter().map(|m| (m.member_id.clone(), Vec::new())).collect();
    let mut turns = sorted.iter().cycle();
    for (topic, &count) in counts {
        if !sorted.iter().any(|member| member.topics.contains(topic)) {
            continue;
        }
        for partition in 0..count {
            let next = turns.find(|member| member.topics.contains(topic));
            if let Some(assigned) = next.and_then(|member| assignments.get_mut(&member.member_id)) {
                assigned.push(TopicPartition { topic: topic.clone(), partition });
            }
        }
    }
    assignments
}
