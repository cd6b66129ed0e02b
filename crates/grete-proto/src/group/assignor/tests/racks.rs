//! Assignments by rack (KIP-881).

use super::*;
use crate::group::assignor::racks::Racks;

fn in_rack(claim: MemberClaim, rack: &str) -> MemberClaim {
    MemberClaim { rack: (!rack.is_empty()).then(|| Arc::from(rack)), ..claim }
}

/// Racks of each topic's partitions, in the notation of the vectors: `t=a+b,c`.
fn replica_racks(topics: &[&str]) -> (PartitionCounts, ReplicaRacks) {
    let (mut counts, mut racks) = (PartitionCounts::new(), ReplicaRacks::new());
    for (name, partitions) in topics.iter().filter_map(|topic| topic.split_once('=')) {
        let of_partition = |racks: &str| racks.split('+').filter(|r| !r.is_empty()).map(Arc::from).collect::<Racks>();
        let partitions: Vec<Racks> = partitions.split(',').map(of_partition).collect();
        counts.insert(Arc::from(name), i32::try_from(partitions.len()).unwrap());
        racks.insert(Arc::from(name), partitions);
    }
    (counts, racks)
}

fn near(members: &[MemberClaim], assignments: &Assignments, racks: &ReplicaRacks) -> usize {
    let is_near = |m: &MemberClaim, tp: &TopicPartition| {
        racks.get(&tp.topic).is_some_and(|racks| super::super::racks::is_in_rack(m, racks, tp.partition))
    };
    members.iter().map(|m| assignments[&m.member_id].iter().filter(|tp| is_near(m, tp)).count()).sum()
}

/// Compares with Kafka's own class: `RangeAssignors.java` beside the vectors.
#[test]
fn range_in_racks_is_javas() {
    let mut lines = 0;
    for line in include_str!("../../../../tests/vectors/range_assignors.txt").lines() {
        let mut parts = line.split(" | ").map(|part| part.split(' ').collect::<Vec<_>>());
        let (members, topics, expected) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        let members: Vec<MemberClaim> = members
            .iter()
            .map(|text| {
                let [id, rack, instance, topics] = text.splitn(4, ':').collect::<Vec<_>>().try_into().unwrap();
                let topics: Vec<&str> = topics.split(',').filter(|topic| !topic.is_empty()).collect();
                let instance_id = (!instance.is_empty()).then(|| instance.to_owned());
                MemberClaim { instance_id, ..in_rack(member(id, &topics, &[], -1), rack) }
            })
            .collect();
        let (counts, racks) = replica_racks(&topics);
        let assignments = super::super::range::assign(&members, &counts, &racks);
        let shown: Vec<String> =
            shown(&assignments).iter().map(|text| text.replacen(": ", "=", 1).replace(' ', ",")).collect();
        assert_eq!(shown, expected, "{line}");
        lines += 1;
    }
    assert_eq!(lines, 120);
}

#[test]
fn sticky_members_get_partitions_in_their_rack_and_keep_them() {
    let members: Vec<MemberClaim> =
        ["a", "b", "c"].iter().map(|id| in_rack(member(id, &["t"], &[], -1), &format!("r{id}"))).collect();
    let (counts, racks) = replica_racks(&["t=rc,rb,ra,rc,rb,ra"]);
    let (assignments, rounds) = settle_in_racks(members.clone(), &counts, &racks);
    assert_eq!((shown(&assignments), rounds), (vec!["a: t-2 t-5".into(), "b: t-1 t-4".into(), "c: t-0 t-3".into()], 1));
    assert_eq!(Assignor::Sticky.assign(&members, &counts, &racks), assignments);
    // Unlike range and sticky, roundrobin ignores racks.
    assert_eq!(shown(&Assignor::RoundRobin.assign(&members, &counts, &racks))[0], "a: t-0 t-3");
    // The one in rack c is gone: each keeps what is in its own.
    let left = obey(&members[..2], &assignments, 1);
    let (assignments, _) = settle_in_racks(left, &counts, &racks);
    assert_eq!(shown(&assignments), ["a: t-0 t-2 t-5", "b: t-1 t-3 t-4"]);
    // It comes back: the two partitions in its rack move, and no other.
    let mut back = obey(&members[..2], &assignments, 2);
    back.push(members[2].clone());
    let (assignments, _) = settle_in_racks(back, &counts, &racks);
    assert_eq!(shown(&assignments), ["a: t-2 t-5", "b: t-1 t-4", "c: t-0 t-3"]);
}

/// b takes what c and a could have, too, and must pass it on: each has the rack of two thirds of the partitions.
#[test]
fn members_pass_on_partitions_until_each_is_in_a_rack_of_its_own() {
    let (counts, racks) = replica_racks(&["t=ra+rb,ra+rb,ra+rb,rb+rc,rb+rc,rb+rc,ra,ra,rc"]);
    for order in ["a:0 1 2, b:, c:3 4 5", "c:8 3, b:0 1 2 4 5, a:6 7", "b:6 7 8, a:3 4 5, c:0 1 2"] {
        let members: Vec<MemberClaim> = order
            .split(", ")
            .filter_map(|member| member.split_once(':'))
            .map(|(id, held)| {
                let held: Vec<_> = held.split(' ').filter_map(|p| Some(("t", p.parse().ok()?))).collect();
                in_rack(member(id, &["t"], &held, 1), &format!("r{id}"))
            })
            .collect();
        let (assignments, _) = settle_in_racks(members.clone(), &counts, &racks);
        assert!(assignments.values().all(|tps| tps.len() == 3), "{assignments:?}");
        assert_eq!(near(&members, &assignments, &racks), 9, "{order}: {assignments:?}");
    }
}

/// One of two members gets two of three partitions: the one in whose rack two are, whatever the member is called.
#[test]
fn the_odd_partition_goes_to_the_member_that_has_it_in_its_rack() {
    let (counts, racks) = replica_racks(&["t=rc,,rc"]);
    for (id, other) in [("a", "b"), ("b", "a")] {
        let members =
            [in_rack(member(id, &["t"], &[], -1), "rc"), in_rack(member(other, &["t"], &[], -1), "elsewhere")];
        let assignments = Assignor::CooperativeSticky.assign(&members, &counts, &racks);
        assert_eq!(assignments[id], [tp("t", 0), tp("t", 2)]);
    }
}

#[test]
fn racks_make_no_difference_where_every_rack_has_all_or_no_member_is_near() {
    let members = |rack: &str| -> Vec<MemberClaim> {
        ["a", "b"].iter().map(|id| in_rack(member(id, &["t"], &[], -1), rack)).collect()
    };
    for topic in ["t=r+q,q+r,r+q", "t=q,q,s", "t=,,"] {
        let (counts, racks) = replica_racks(&[topic]);
        for assignor in Assignor::ALL {
            let with = assignor.assign(&members("r"), &counts, &racks);
            assert_eq!(with, assignor.assign(&members(""), &counts, &ReplicaRacks::new()), "{assignor} {topic}");
        }
    }
}

#[test]
fn members_with_different_topics_get_those_in_their_rack_among_equals() {
    let members = [
        in_rack(member("a", &["t", "u"], &[], -1), "ra"),
        in_rack(member("b", &["t", "u"], &[], -1), "rb"),
        in_rack(member("c", &["u"], &[], -1), "rc"),
    ];
    let (counts, racks) = replica_racks(&["t=rb,ra", "u=rc"]);
    let (assignments, _) = settle_in_racks(members.to_vec(), &counts, &racks);
    assert_eq!(shown(&assignments), ["a: t-1", "b: t-0", "c: u-0"]);
}

proptest! {
    /// Racks change neither the balance nor the rules of ownership, and a group with racks settles.
    #[test]
    fn any_group_in_racks_is_balanced_and_comes_to_rest(
        member_racks in proptest::collection::vec(0..4_usize, 1..7),
        topics in proptest::collection::vec(proptest::collection::vec(0..16_u8, 0..12), 1..4),
        before in proptest::collection::vec((0..7_usize, 0..4_usize, 0..12_i32), 0..20),
    ) {
        let names = ["", "r0", "r1", "r2"];
        let all: Vec<String> = (0..topics.len()).map(|t| format!("t{t}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let mut members: Vec<MemberClaim> = member_racks
            .iter()
            .enumerate()
            .map(|(m, &rack)| in_rack(member(&format!("m{m}"), &all, &[], 1), names[rack]))
            .collect();
        let (mut counts, mut racks) = (PartitionCounts::new(), ReplicaRacks::new());
        for (name, partitions) in all.iter().zip(&topics) {
            let of_mask = |mask: &u8| -> Racks { (1..4).filter(|r| mask >> r & 1 == 1).map(|r| Arc::from(names[r])).collect() };
            counts.insert(Arc::from(*name), i32::try_from(partitions.len()).unwrap());
            racks.insert(Arc::from(*name), partitions.iter().map(of_mask).collect());
        }
        let mut owned = BTreeSet::new();
        for (m, topic, partition) in before {
            let Some(name) = all.get(topic).filter(|name| partition < counts[**name]) else { continue };
            let at = m % members.len();
            if owned.insert((topic, partition)) {
                members[at].owned.insert(tp(name, partition));
            }
        }
        let total: i32 = counts.values().sum();
        let (settled, _) = settle_in_racks(members.clone(), &counts, &racks);
        let loads: Vec<usize> = settled.values().map(Vec::len).collect();
        prop_assert_eq!(loads.iter().sum::<usize>(), usize::try_from(total).unwrap());
        prop_assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1, "{:?}", loads);
        // No exchange between two members brings more partitions into the rack of their member.
        let is_near = |m: usize, tp: &TopicPartition| super::super::racks::is_in_rack(&members[m], &racks[&tp.topic], tp.partition);
        for (m, of_m) in members.iter().map(|m| &settled[&m.member_id]).enumerate() {
            for (n, of_n) in members.iter().map(|m| &settled[&m.member_id]).enumerate().filter(|(n, _)| *n != m) {
                for p in of_m.iter().filter(|p| !is_near(m, p) && is_near(n, p)) {
                    let worth = |q: &&TopicPartition| is_near(m, q) || !is_near(n, q);
                    prop_assert_eq!(of_n.iter().find(worth), None, "{} for {}: {:?}", p, m, settled);
                }
            }
        }
        // At rest: another rebalance, also with other leaders, moves nothing.
        let again = obey(&members, &settled, 9);
        prop_assert_eq!(&sticky::assign_cooperatively(&again, &counts, &racks), &settled);
    }
}
