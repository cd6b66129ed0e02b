mod racks;

use proptest::prelude::*;

use super::*;

fn tp(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition::new(topic, partition)
}

fn member(id: &str, topics: &[&str], owned: &[(&str, i32)], generation: i32) -> MemberClaim {
    MemberClaim {
        member_id: id.to_owned(),
        instance_id: None,
        topics: topics.iter().map(|t| Arc::from(*t)).collect(),
        owned: owned.iter().map(|(t, p)| tp(t, *p)).collect(),
        generation,
        rack: None,
    }
}

fn range(members: &[MemberClaim], counts: &PartitionCounts) -> Assignments {
    super::range::assign(members, counts, &ReplicaRacks::new())
}

fn cooperative(members: &[MemberClaim], counts: &PartitionCounts) -> Assignments {
    sticky::assign_cooperatively(members, counts, &ReplicaRacks::new())
}

fn eager(members: &[MemberClaim], counts: &PartitionCounts) -> Assignments {
    sticky::assign_eagerly(members, counts, &ReplicaRacks::new())
}

fn counts(topics: &[(&str, i32)]) -> PartitionCounts {
    topics.iter().map(|(t, n)| (Arc::from(*t), *n)).collect()
}

fn shown(assignments: &Assignments) -> Vec<String> {
    // Java's notation, because the vectors are Java's.
    let java = |tp: &TopicPartition| format!("{}-{}", tp.topic, tp.partition);
    let show = |tps: &Vec<TopicPartition>| tps.iter().map(java).collect::<Vec<_>>().join(" ");
    assignments.iter().map(|(id, tps)| format!("{id}: {}", show(tps))).collect()
}

/// Returns the next JoinGroup of every member, after each has revoked the partitions that it was not assigned.
fn obey(members: &[MemberClaim], assignments: &Assignments, generation: i32) -> Vec<MemberClaim> {
    members
        .iter()
        .map(|m| MemberClaim { owned: assignments[&m.member_id].iter().cloned().collect(), generation, ..m.clone() })
        .collect()
}

/// Rebalances until no partition is withheld; returns the number of rounds, too.
fn settle(members: Vec<MemberClaim>, counts: &PartitionCounts) -> (Assignments, usize) {
    settle_in_racks(members, counts, &ReplicaRacks::new())
}

fn settle_in_racks(
    mut members: Vec<MemberClaim>,
    counts: &PartitionCounts,
    racks: &ReplicaRacks,
) -> (Assignments, usize) {
    let mut generation = members.iter().map(|m| m.generation).max().unwrap_or(0);
    for round in 1..=4 {
        generation += 1;
        let assignments = sticky::assign_cooperatively(&members, counts, racks);
        let next = obey(&members, &assignments, generation);
        let revoked = members.iter().zip(&next).any(|(before, after)| !before.owned.is_subset(&after.owned));
        if !revoked {
            return (assignments, round);
        }
        members = next;
    }
    panic!("does not settle: {members:?}");
}

/// Checks vectors from the Javadoc and the tests of Kafka's RangeAssignor.
#[test]
fn range_is_javas() {
    let members = [member("C0", &["t0", "t1"], &[], -1), member("C1", &["t0", "t1"], &[], -1)];
    let assignments = range(&members, &counts(&[("t0", 3), ("t1", 3)]));
    assert_eq!(shown(&assignments), ["C0: t0-0 t0-1 t1-0 t1-1", "C1: t0-2 t1-2"]);

    let members = [
        member("consumer1", &["topic1"], &[], -1),
        member("consumer2", &["topic1", "topic2"], &[], -1),
        member("consumer3", &["topic1"], &[], -1),
    ];
    let assignments = range(&members, &counts(&[("topic1", 3), ("topic2", 2)]));
    assert_eq!(
        shown(&assignments),
        ["consumer1: topic1-0", "consumer2: topic1-1 topic2-0 topic2-1", "consumer3: topic1-2"]
    );

    let members = [member("b", &["t"], &[], -1), member("a", &["t"], &[], -1), member("c", &["t"], &[], -1)];
    assert_eq!(shown(&range(&members, &counts(&[("t", 2)]))), ["a: t-0", "b: t-1", "c: "]);
    assert_eq!(shown(&range(&members, &counts(&[("t", 7)]))), ["a: t-0 t-1 t-2", "b: t-3 t-4", "c: t-5 t-6"]);
    assert_eq!(shown(&range(&members, &counts(&[("t", 0)]))), ["a: ", "b: ", "c: "]);
}

#[test]
fn range_puts_static_members_first_in_the_order_of_their_instances() {
    let mut members = vec![member("a", &["t"], &[], -1), member("x", &["t"], &[], -1), member("y", &["t"], &[], -1)];
    members[1].instance_id = Some("2".to_owned());
    members[2].instance_id = Some("1".to_owned());
    assert_eq!(shown(&range(&members, &counts(&[("t", 3)]))), ["a: t-2", "x: t-1", "y: t-0"]);
}

/// Checks vectors from the Javadoc and the tests of Kafka's RoundRobinAssignor.
#[test]
fn round_robin_is_javas() {
    let members = [member("C0", &["t0", "t1"], &[], -1), member("C1", &["t0", "t1"], &[], -1)];
    let assignments = round_robin::assign(&members, &counts(&[("t0", 3), ("t1", 3)]));
    assert_eq!(shown(&assignments), ["C0: t0-0 t0-2 t1-1", "C1: t0-1 t1-0 t1-2"]);

    let members = [
        member("C0", &["t0"], &[], -1),
        member("C1", &["t0", "t1"], &[], -1),
        member("C2", &["t0", "t1", "t2"], &[], -1),
    ];
    let assignments = round_robin::assign(&members, &counts(&[("t0", 1), ("t1", 2), ("t2", 3)]));
    assert_eq!(shown(&assignments), ["C0: t0-0", "C1: t1-0", "C2: t1-1 t2-0 t2-1 t2-2"]);

    let mut members = [member("a", &["t"], &[], -1), member("b", &["t"], &[], -1)];
    assert_eq!(shown(&round_robin::assign(&members, &counts(&[("t", 3), ("u", 9)]))), ["a: t-0 t-2", "b: t-1"]);
    members[1].instance_id = Some("1".to_owned());
    assert_eq!(shown(&round_robin::assign(&members, &counts(&[("t", 3)]))), ["a: t-1", "b: t-0 t-2"]);
    assert_eq!(shown(&round_robin::assign(&[], &counts(&[("t", 3)]))), [""; 0]);
}

/// The members own nothing: a partition goes to its new owner in the first generation, and only that one moves.
#[test]
fn eager_sticky_moves_at_once_and_no_more_than_needed() {
    let before: Vec<_> = (0..6).map(|p| ("t", p)).collect();
    let members =
        [member("a", &["t"], &before[..3], 5), member("b", &["t"], &before[3..], 5), member("c", &["t"], &[], -1)];
    let assignments = eager(&members, &counts(&[("t", 6)]));
    assert_eq!(shown(&assignments), ["a: t-0 t-1", "b: t-3 t-4", "c: t-2 t-5"]);
    // Two claims of one generation: either member may have the partition.
    let members = [member("a", &["t"], &[("t", 0)], 5), member("b", &["t"], &[("t", 0)], 5)];
    let assignments = eager(&members, &counts(&[("t", 1)]));
    assert_eq!(assignments.values().map(Vec::len).sum::<usize>(), 1);
}

#[test]
fn a_list_with_an_eager_assignor_makes_an_eager_member() {
    assert!(is_cooperative(&[Assignor::CooperativeSticky]));
    assert!(!is_cooperative(&[Assignor::CooperativeSticky, Assignor::Range]));
    assert!(!is_cooperative(&[Assignor::Range]));
    assert_eq!(Assignor::by_name("range"), Some(Assignor::Range));
    assert!(!is_cooperative(&[Assignor::Sticky]));
    assert_eq!(Assignor::by_name("uniform"), None);
    assert!(Assignor::ALL.iter().all(|assignor| Assignor::by_name(assignor.name()) == Some(*assignor)));
}

/// P22: a partition that moves first has no owner, and goes to its new owner only in the next generation.
#[test]
fn p22_a_partition_moves_in_two_generations() {
    let all = [("t", 0), ("t", 1), ("t", 2), ("t", 3)];
    let members = [member("a", &["t"], &all, 5), member("b", &["t"], &[], -1)];
    let counts = counts(&[("t", 4)]);
    let first = cooperative(&members, &counts);
    assert_eq!(shown(&first), ["a: t-0 t-1", "b: "]);
    let second = cooperative(&obey(&members, &first, 6), &counts);
    assert_eq!(shown(&second), ["a: t-0 t-1", "b: t-2 t-3"]);
}

/// P22 (KAFKA-14639): a member that missed a generation still processes the partitions that it claims.
#[test]
fn p22_a_lone_claim_of_an_old_generation_is_still_respected() {
    let members = [
        member("a", &["t"], &[("t", 0), ("t", 1)], 4),
        member("b", &["t"], &[("t", 2)], 6),
        member("c", &["t"], &[], 6),
    ];
    let assignments = cooperative(&members, &counts(&[("t", 3)]));
    assert_eq!(shown(&assignments), ["a: t-0", "b: t-2", "c: "]);
}

/// P23 (KAFKA-12984): of two claims the newer one counts.
#[test]
fn p23_a_stale_claim_loses_against_a_newer_one() {
    let members = [member("a", &["t"], &[("t", 0), ("t", 1)], 4), member("b", &["t"], &[("t", 0), ("t", 1)], 6)];
    let counts = counts(&[("t", 2)]);
    let first = cooperative(&members, &counts);
    assert_eq!(shown(&first), ["a: ", "b: t-0"]);
    let second = cooperative(&obey(&members, &first, 7), &counts);
    assert_eq!(shown(&second), ["a: t-1", "b: t-0"]);
}

#[test]
fn p23_two_equal_claims_leave_the_partition_unassigned_for_a_round() {
    let members = [member("a", &["t"], &[("t", 0)], 6), member("b", &["t"], &[("t", 0)], 6)];
    let counts = counts(&[("t", 1)]);
    let first = cooperative(&members, &counts);
    assert_eq!(shown(&first), ["a: ", "b: "]);
    assert_eq!(settle(members.to_vec(), &counts).0.values().map(Vec::len).sum::<usize>(), 1);
}

#[test]
fn p23_claims_of_what_does_not_exist_or_is_not_subscribed_are_harmless() {
    let members = [
        member("a", &["t"], &[("t", 99), ("gone", 0), ("t", i32::MAX)], 6),
        member("b", &["u"], &[("t", 0)], 6),
        member("c", &[], &[], -1),
    ];
    let counts = counts(&[("t", 1), ("u", 1)]);
    assert_eq!(shown(&cooperative(&members, &counts)), ["a: ", "b: u-0", "c: "]);
    assert_eq!(shown(&settle(members.to_vec(), &counts).0), ["a: t-0", "b: u-0", "c: "]);
}

/// P25: a member that comes from an eager protocol claims nothing; its partitions must be assigned at once.
#[test]
fn p25_members_that_come_from_an_eager_protocol_leave_nothing_behind() {
    let members = [member("eager", &["t"], &[], 8), member("new", &["t"], &[], -1)];
    let assignments = cooperative(&members, &counts(&[("t", 4)]));
    assert_eq!(shown(&assignments), ["eager: t-0 t-2", "new: t-1 t-3"]);
}

#[test]
fn what_goes_is_spread_over_topics() {
    let all = [("t", 0), ("t", 1), ("u", 0), ("u", 1)];
    let members = [member("a", &["t", "u"], &all, 5), member("b", &["t", "u"], &[], -1)];
    let (assignments, _) = settle(members.to_vec(), &counts(&[("t", 2), ("u", 2)]));
    assert_eq!(shown(&assignments), ["a: t-0 u-0", "b: t-1 u-1"]);
}

/// Balance that needs a chain: a can relieve itself only to b, and b only to c.
#[test]
fn loads_even_out_along_chains() {
    let members = [
        member("a", &["t"], &[("t", 0), ("t", 1)], 3),
        member("b", &["t", "u"], &[("u", 0), ("u", 1)], 3),
        member("c", &["u"], &[], 3),
    ];
    let (assignments, _) = settle(members.to_vec(), &counts(&[("t", 2), ("u", 1)]));
    assert_eq!(assignments.values().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1]);
    let members = [
        member("a", &["t"], &[("t", 0), ("t", 1), ("t", 2)], 3),
        member("b", &["t", "u"], &[("u", 0), ("u", 1)], 3),
        member("c", &["u"], &[("u", 2)], 3),
    ];
    let (assignments, _) = settle(members.to_vec(), &counts(&[("t", 3), ("u", 3)]));
    assert_eq!(assignments.values().map(Vec::len).collect::<Vec<_>>(), [2, 2, 2]);
}

/// P24: a group so large that an exhaustive assignor would never end.
#[test]
fn p24_a_large_group_with_mixed_subscriptions_is_assigned_at_once() {
    let names: Vec<String> = (0..50).map(|t| format!("t{t:02}")).collect();
    let counts: PartitionCounts = names.iter().map(|t| (Arc::from(t.as_str()), 40)).collect();
    let members: Vec<MemberClaim> = (0..200)
        .map(|m| {
            let topics = names.iter().enumerate().filter(|(t, _)| (t + m) % 3 != 0).map(|(_, t)| Arc::from(t.as_str()));
            MemberClaim { member_id: format!("m{m:03}"), topics: topics.collect(), ..MemberClaim::default() }
        })
        .collect();
    let assignments = cooperative(&members, &counts);
    assert_eq!(assignments.values().map(Vec::len).collect::<BTreeSet<_>>(), [10].into());
}

#[derive(Debug, Clone)]
struct Group {
    members: Vec<MemberClaim>,
    counts: PartitionCounts,
}

/// Up to 7 members and 5 topics; arbitrary claims (overlapping, stale, of unknown partitions), equal or mixed
/// subscriptions.
fn groups() -> impl Strategy<Value = Group> {
    let topics = proptest::collection::vec(0..9_i32, 1..5);
    let member = (any::<u8>(), proptest::collection::vec((0..6_usize, -1..10_i32), 0..14), -1..4_i32);
    (topics, proptest::collection::vec(member, 1..8), any::<bool>()).prop_map(|(topics, members, uniform)| {
        let name = |t: usize| -> Arc<str> { Arc::from(format!("t{t}")) };
        let counts: PartitionCounts = topics.iter().enumerate().map(|(t, n)| (name(t), *n)).collect();
        let members = members
            .into_iter()
            .enumerate()
            .map(|(m, (mask, owned, generation))| MemberClaim {
                member_id: format!("m{m}"),
                instance_id: None,
                topics: (0..counts.len()).filter(|t| uniform || mask >> t & 1 == 1).map(name).collect(),
                owned: owned.into_iter().map(|(t, p)| TopicPartition { topic: name(t), partition: p }).collect(),
                generation,
                rack: None,
            })
            .collect();
        Group { members, counts }
    })
}

fn assert_total_and_exclusive(group: &Group, assignments: &Assignments, total: bool) {
    let mut owners: BTreeMap<&TopicPartition, &str> = BTreeMap::new();
    for (id, tps) in assignments {
        let member = group.members.iter().find(|m| m.member_id == *id).expect("only members are assigned to");
        for tp in tps {
            assert!(member.topics.contains(&tp.topic), "{id} does not subscribe to {tp}");
            assert!((0..group.counts[&tp.topic]).contains(&tp.partition), "{tp} does not exist");
            assert_eq!(owners.insert(tp, id), None, "{tp} has two owners");
        }
    }
    assert_eq!(assignments.len(), group.members.len());
    if total {
        for (topic, &count) in &group.counts {
            let expected = if group.members.iter().any(|m| m.topics.contains(topic)) { count.max(0) } else { 0 };
            assert_eq!(owners.keys().filter(|tp| tp.topic == *topic).count(), expected as usize, "{topic}");
        }
    }
}

fn assert_balanced(group: &Group, assignments: &Assignments) {
    for from in &group.members {
        for to in &group.members {
            let (have, has) = (&assignments[&from.member_id], assignments[&to.member_id].len());
            if have.len() >= has + 2 {
                let movable = have.iter().find(|tp| to.topics.contains(&tp.topic));
                assert_eq!(movable, None, "{} could go from {} to {}", movable.unwrap(), from.member_id, to.member_id);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn range_is_total_and_exclusive(group in groups()) {
        let assignments = range(&group.members, &group.counts);
        assert_total_and_exclusive(&group, &assignments, true);
        // Java's formula in the other direction: partition -> index of the member.
        for (topic, &count) in &group.counts {
            let ids: Vec<_> =
                group.members.iter().filter(|m| m.topics.contains(topic)).map(|m| &m.member_id).collect();
            for partition in 0..if ids.is_empty() { 0 } else { count } {
                let (each, extra) = (count / ids.len() as i32, count % ids.len() as i32);
                let long = extra * (each + 1);
                let index = if partition < long { partition / (each + 1) } else { extra + (partition - long) / each };
                let owner = &assignments[ids[index as usize]];
                prop_assert!(owner.contains(&tp(topic, partition)), "{}-{}", topic, partition);
            }
        }
    }

    /// P22, P23, P24: whatever the members claim, the assignor terminates. No partition has two owners, or moves
    /// between members within one generation. Within three rounds everything is owned and balanced.
    #[test]
    fn sticky_is_exclusive_two_phased_total_and_balanced(group in groups()) {
        let first = cooperative(&group.members, &group.counts);
        assert_total_and_exclusive(&group, &first, false);
        for (id, tps) in &first {
            for tp in tps {
                let mut claims: Vec<_> = group.members.iter().filter(|m| m.owned.contains(tp)).collect();
                claims.sort_by_key(|m| m.generation);
                if let Some(newest) = claims.pop() {
                    prop_assert_eq!(&newest.member_id, id, "{} moved in one generation", tp);
                    prop_assert!(claims.iter().all(|m| m.generation < newest.generation), "{} is contested", tp);
                }
            }
        }
        let (settled, rounds) = settle(group.members.clone(), &group.counts);
        prop_assert!(rounds <= 3);
        assert_total_and_exclusive(&group, &settled, true);
        assert_balanced(&group, &settled);
        // Sticky: without a change nothing moves, even if the members come in another order.
        let mut again = obey(&group.members, &settled, 99);
        again.reverse();
        prop_assert_eq!(&cooperative(&again, &group.counts), &settled);
        // Sticky: remaining members keep everything when another member leaves and loads only grow.
        let gone = again.remove(0);
        let after = cooperative(&again, &group.counts);
        let uniform = again.iter().all(|m| m.topics == gone.topics);
        if uniform {
            for member in &again {
                prop_assert!(member.owned.iter().all(|tp| after[&member.member_id].contains(tp)));
            }
        }
    }

    /// Sticky: a new member causes exactly as many moves as it gets partitions.
    #[test]
    fn a_newcomer_takes_no_more_than_its_share(count in 1..60_i32, n in 1..9_usize) {
        let counts = counts(&[("t", count)]);
        let members: Vec<_> = (0..n).map(|m| member(&format!("m{m}"), &["t"], &[], 1)).collect();
        let before = cooperative(&members, &counts);
        let mut members = obey(&members, &before, 2);
        members.insert(0, member("a", &["t"], &[], -1));
        let (after, _) = settle(members, &counts);
        let moved: usize = before.iter().map(|(id, tps)| tps.iter().filter(|tp| !after[id].contains(tp)).count()).sum();
        prop_assert_eq!(moved, count as usize / (n + 1));
    }
}
