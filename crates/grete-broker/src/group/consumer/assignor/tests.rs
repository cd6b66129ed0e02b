//! Both assignors on members with equal and different subscriptions.

use proptest::prelude::*;

use super::*;

/// Returns partitions from topics and ranges.
fn partitions(topics: &[(TopicId, &[i32])]) -> Partitions {
    topics.iter().map(|(topic, partitions)| (*topic, partitions.iter().copied().collect())).collect()
}

fn shares(assignor: Assignor, members: &[(&[TopicId], &Partitions)], topics: &[(TopicId, i32)]) -> Vec<Partitions> {
    let members: Vec<_> = members
        .iter()
        .map(|(topics, current)| Subscriber { topics: topics.iter().copied().collect(), current })
        .collect();
    assign(assignor, &members, &topics.iter().copied().collect())
}

fn count(assigned: &Partitions) -> usize {
    assigned.values().map(BTreeSet::len).sum()
}

#[test]
fn uniform_moves_no_more_than_the_new_member_needs() {
    let (none, all) = (Partitions::new(), partitions(&[(1, &[0, 1, 2, 3, 4, 5])]));
    let assigned = shares(Assignor::Uniform, &[(&[1], &all), (&[1], &none)], &[(1, 6)]);
    assert_eq!(assigned.iter().map(count).collect::<Vec<_>>(), [3, 3]);
    assert!(assigned[0][&1].is_subset(&all[&1]));
    let [first, second] = [assigned[0].clone(), assigned[1].clone()];
    let assigned = shares(Assignor::Uniform, &[(&[1], &first), (&[1], &second), (&[1], &none)], &[(1, 6)]);
    assert_eq!(assigned.iter().map(count).collect::<Vec<_>>(), [2, 2, 2]);
    assert!(assigned[0][&1].is_subset(&first[&1]) && assigned[1][&1].is_subset(&second[&1]));
}

#[test]
fn uniform_balances_over_a_member_that_shares_topics_with_both() {
    let (a, b) = (partitions(&[(1, &[0, 1, 2, 3])]), partitions(&[(2, &[0, 1])]));
    let none = Partitions::new();
    // The first and the last member share no topic; the one in between passes partitions on.
    let members: [(&[TopicId], &Partitions); 3] = [(&[1], &a), (&[1, 2], &b), (&[2], &none)];
    let assigned = shares(Assignor::Uniform, &members, &[(1, 4), (2, 2)]);
    assert_eq!(assigned.iter().map(count).collect::<Vec<_>>(), [2, 2, 2]);
}

#[test]
fn range_gives_consecutive_partitions_of_each_topic() {
    let none = Partitions::new();
    let members: [(&[TopicId], &Partitions); 3] = [(&[1, 2], &none); 3];
    let assigned = shares(Assignor::Range, &members, &[(1, 7), (2, 7)]);
    let expected = [&[0, 1, 2][..], &[3, 4], &[5, 6]].map(|part| partitions(&[(1, part), (2, part)]));
    assert_eq!(assigned, expected);
    // The second leaves: the others keep what they have.
    let assigned = shares(Assignor::Range, &[(&[1, 2], &assigned[0]), (&[1, 2], &assigned[2])], &[(1, 7), (2, 7)]);
    assert_eq!(assigned[0], partitions(&[(1, &[0, 1, 2, 3]), (2, &[0, 1, 2, 3])]));
    assert_eq!(assigned[1], partitions(&[(1, &[4, 5, 6]), (2, &[4, 5, 6])]));
}

#[test]
fn partitions_without_a_subscriber_or_topic_are_left_out() {
    let stale = partitions(&[(1, &[0, 5]), (3, &[0])]);
    for assignor in Assignor::ALL {
        let assigned = shares(assignor, &[(&[1, 3], &stale)], &[(1, 2), (2, 4)]);
        assert_eq!(assigned, [partitions(&[(1, &[0, 1])])], "{assignor:?}");
        assert!(shares(assignor, &[], &[(1, 2)]).is_empty());
    }
}

proptest! {
    #[test]
    fn each_partition_has_one_subscriber_and_loads_are_balanced(
        subscriptions in prop::collection::vec(prop::collection::btree_set(0u128..4, 0..4), 1..6),
        counts in prop::collection::vec(0i32..8, 4),
        kept in prop::collection::vec((0u128..4, 0i32..8, 0usize..6), 0..20),
    ) {
        let topics: BTreeMap<TopicId, i32> = (0u128..).zip(counts).collect();
        let mut current = vec![Partitions::new(); subscriptions.len()];
        for (topic, partition, member) in kept {
            if current.iter().all(|owned| !owned.get(&topic).is_some_and(|owned| owned.contains(&partition)))
                && let Some(owned) = current.get_mut(member)
            {
                owned.entry(topic).or_default().insert(partition);
            }
        }
        let members: Vec<_> = subscriptions
            .iter()
            .zip(&current)
            .map(|(topics, current)| Subscriber { topics: topics.clone(), current })
            .collect();
        for assignor in Assignor::ALL {
            let assigned = assign(assignor, &members, &topics);
            let mut seen = BTreeSet::new();
            for (member, assigned) in members.iter().zip(&assigned) {
                for (topic, partitions) in assigned {
                    prop_assert!(member.topics.contains(topic));
                    for partition in partitions {
                        prop_assert!((0..topics[topic]).contains(partition));
                        prop_assert!(seen.insert((*topic, *partition)));
                    }
                }
            }
            let wanted = topics.iter().filter(|(topic, _)| members.iter().any(|member| member.topics.contains(topic)));
            prop_assert_eq!(seen.len(), wanted.map(|(_, count)| usize::try_from(*count).unwrap()).sum::<usize>());
            if members.iter().all(|member| member.topics == members[0].topics) && assignor == Assignor::Uniform {
                let loads: Vec<_> = assigned.iter().map(count).collect();
                prop_assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1, "{loads:?}");
            }
            // What is balanced stays as it is.
            let again: Vec<_> = members
                .iter()
                .zip(&assigned)
                .map(|(member, current)| Subscriber { topics: member.topics.clone(), current })
                .collect();
            prop_assert_eq!(assign(assignor, &again, &topics), assigned);
        }
    }
}
