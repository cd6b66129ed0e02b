//! Assignment of partitions to the members of a share group.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::effects::consumer_group::{Partitions, SubscribedTopics};
use crate::effects::share_group::ShareMember;

/// Gives each partition of a topic to at least one of its subscribers, and each subscriber at least one partition of the
/// topic. Numbers differ by one at most.
pub(super) fn assign(
    members: &BTreeMap<Arc<str>, ShareMember>,
    topics: &SubscribedTopics,
) -> BTreeMap<Arc<str>, Partitions> {
    let mut assigned: BTreeMap<Arc<str>, Partitions> =
        members.keys().map(|id| (Arc::clone(id), Partitions::new())).collect();
    // Topics begin with different members: many topics of one partition are spread.
    let mut offset = 0;
    for (name, (topic, count)) in topics {
        let subscribed: Vec<&Arc<str>> =
            members.values().filter(|member| member.topics.contains(name)).map(|member| &member.member_id).collect();
        let partitions = usize::try_from(*count).unwrap_or(0);
        if subscribed.is_empty() || partitions == 0 {
            continue;
        }
        for turn in 0..partitions.max(subscribed.len()) {
            let member = subscribed.get((turn + offset) % subscribed.len());
            let (Some(member), Ok(partition)) = (member, i32::try_from(turn % partitions)) else { continue };
            if let Some(own) = assigned.get_mut(*member) {
                own.entry(*topic).or_default().insert(partition);
            }
        }
        offset += partitions;
    }
    assigned
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigned(members: usize, partitions: i32) -> Vec<Vec<i32>> {
        let member = |id: usize| {
            let member_id: Arc<str> = format!("m{id}").into();
            let topics = [Arc::from("orders")].into();
            let member = ShareMember {
                member_id: Arc::clone(&member_id),
                rack_id: None,
                client_id: "".into(),
                client_host: "".into(),
                topics,
                epoch: 0,
                previous_epoch: 0,
                assigned: Partitions::new(),
            };
            (member_id, member)
        };
        let members = (0..members).map(member).collect();
        let topics = [(Arc::from("orders"), (7, partitions))].into();
        let all = assign(&members, &topics).into_values();
        all.map(|own| own.into_values().flatten().collect()).collect()
    }

    #[test]
    fn every_partition_and_every_member_has_its_share() {
        assert_eq!(assigned(2, 3), [vec![0, 2], vec![1]]);
        assert_eq!(assigned(3, 2), [vec![0], vec![1], vec![0]]);
        assert_eq!(assigned(2, 0), [Vec::<i32>::new(), vec![]]);
        assert!(assigned(0, 3).is_empty());
    }
}
