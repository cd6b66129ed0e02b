//! Kafka's RangeAssignor without racks: contiguous ranges per topic, with members in order; the first ranges are one
//! longer.

use super::{Assignments, MemberClaim, PartitionCounts, in_java_order};
use crate::ids::TopicPartition;

/// Assigns the partitions of each topic independently.
#[must_use]
pub fn assign(members: &[MemberClaim], counts: &PartitionCounts) -> Assignments {
    let sorted = in_java_order(members);
    let mut assignments: Assignments = members.iter().map(|m| (m.member_id.clone(), Vec::new())).collect();
    for (topic, &count) in counts {
        let subscribers: Vec<_> = sorted.iter().filter(|m| m.topics.contains(topic)).collect();
        let (Ok(count), Ok(n)) = (u32::try_from(count), u32::try_from(subscribers.len())) else { continue };
        let (Some(each), Some(extra)) = (count.checked_div(n), count.checked_rem(n)) else { continue };
        let mut next = 0;
        for (i, member) in (0_u32..).zip(subscribers) {
            let end = next + each + u32::from(i < extra);
            if let Some(assigned) = assignments.get_mut(&member.member_id) {
                let numbers = (next..end).filter_map(|p| i32::try_from(p).ok());
                assigned.extend(numbers.map(|partition| TopicPartition { topic: topic.clone(), partition }));
            }
            next = end;
        }
    }
    assignments
}
