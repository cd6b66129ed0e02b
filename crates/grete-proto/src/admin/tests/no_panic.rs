//! Property test with random broker behavior: one timely reply per operation, no panic, no deadline that stays in the
//! past.

use proptest::prelude::*;

use grete_wire::{ErrorCode, Frame};

use super::super::*;
use super::Harness;
use crate::connection::CloseReason;
use crate::ids::TopicPartition;
use crate::time::{MILLI, SECOND};

#[derive(Debug, Clone)]
enum Step {
    Ask { kind: u8, seconds: u64 },
    Forget(u32),
    Pass(u64),
    Answer(usize, Vec<u8>),
    HangUp(usize),
    Kill(i32),
    Revive,
    Lead(i32),
    Hide(i32),
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..26_u8, 1..40_u64).prop_map(|(kind, seconds)| Step::Ask { kind, seconds }),
        1 => (1..20_u32).prop_map(Step::Forget),
        6 => (1..5_000_u64).prop_map(Step::Pass),
        8 => (0..5_usize, prop::collection::vec(prop_oneof![3 => Just(0_u8), 1 => any::<u8>()], 0..60))
            .prop_map(|(index, bytes)| Step::Answer(index, bytes)),
        2 => (0..9_usize).prop_map(Step::HangUp),
        1 => (0..3_i32).prop_map(Step::Kill),
        2 => Just(Step::Revive),
        1 => (-1..3_i32).prop_map(Step::Lead),
        1 => (0..3_i32).prop_map(Step::Hide),
    ]
}

fn operation(kind: u8) -> Operation {
    let tp = |partition| TopicPartition::new("t", partition);
    let topic =
        NewTopic { name: "n".into(), partitions: 1, replication_factor: 1, assignment: Vec::new(), config: Vec::new() };
    match kind {
        0 => Operation::CreateTopics { topics: vec![topic], validate_only: false },
        1 => Operation::DeleteTopics { names: vec!["t".into(), "u".into()] },
        2 => Operation::CreatePartitions { totals: vec![("t".into(), 9)], validate_only: false },
        3 => Operation::AwaitPropagation {
            nodes: vec![0, 1, 2, 7],
            expected: vec![("t".into(), ExpectedTopicState::Partitions(2))],
        },
        4 => Operation::DescribeTopics { names: Some(vec!["t".into(), "none".into()]) },
        5 => Operation::DescribeCluster,
        6 => Operation::DescribeConfigs { resources: vec![ConfigResource::Broker(1), ConfigResource::AllBrokers] },
        7 => Operation::AlterConfigs {
            alterations: vec![ConfigAlteration {
                resource: ConfigResource::Broker(2),
                set: Vec::new(),
                delete: vec!["a".into()],
            }],
            validate_only: false,
        },
        8 => Operation::ListGroups { nodes: vec![0, 1, 2], states: Vec::new() },
        9 => Operation::DescribeGroups { groups: vec!["g".into(), "h".into()], protocol: GroupProtocol::Classic },
        10 => Operation::DescribeGroups { groups: vec!["g".into()], protocol: GroupProtocol::Consumer },
        11 => Operation::DeleteGroups { groups: vec!["g".into()] },
        12 => Operation::FetchOffsets { group: "g".into(), partitions: Some(vec![tp(0)]), stable: true },
        13 => Operation::CommitOffsets { group: "g".into(), offsets: vec![(tp(0), 1)] },
        14 => Operation::DeleteOffsets { group: "g".into(), partitions: vec![tp(0)] },
        15 => Operation::RemoveMembers { group: "g".into(), instances: vec!["i".into(), "j".into()] },
        16 => Operation::ListTransactions { nodes: vec![0, 1, 2], filter: TransactionFilter::default() },
        17 => Operation::DescribeTransactions { ids: vec!["g".into(), "h".into()] },
        18 => Operation::DescribeProducers { partitions: vec![tp(0), tp(1)] },
        19 => Operation::FenceProducers { ids: vec!["g".into(), "h".into()] },
        20 => Operation::AbortTransaction {
            partition: tp(0),
            marker: AbortMarker { producer_id: 1, producer_epoch: 0, coordinator_epoch: 0 },
        },
        21 => Operation::DescribeGroups { groups: vec!["g".into()], protocol: GroupProtocol::Share },
        22 => Operation::FetchShareOffsets { group: "g".into() },
        23 => Operation::AlterShareOffsets { group: "g".into(), offsets: vec![(tp(0), 1)] },
        24 => Operation::DeleteShareOffsets { group: "g".into(), partitions: vec![tp(0), tp(1)] },
        _ => Operation::ListOffsets {
            specs: vec![
                (tp(0), OffsetSpec::Timestamp(5)),
                (tp(0), OffsetSpec::Latest),
                (tp(1), OffsetSpec::Earliest),
                (tp(8), OffsetSpec::Latest),
            ],
            read_committed: true,
        },
    }
}

fn size(reply: &AdminReply) -> usize {
    match reply {
        AdminReply::Done(each) => each.len(),
        AdminReply::Topics(each) => each.len(),
        AdminReply::Cluster(each) => each.len(),
        AdminReply::Configs(each) => each.len(),
        AdminReply::GroupListings(each) => each.len(),
        AdminReply::GroupDescriptions(each) => each.len(),
        AdminReply::TransactionListings(each) => each.len(),
        AdminReply::TransactionDescriptions(each) => each.len(),
        AdminReply::Producers(each) => each.len(),
        AdminReply::Committed(each) => each.len(),
        AdminReply::ShareOffsets(each) => each.len(),
        AdminReply::Partitions(each) => each.len(),
        AdminReply::Offsets(each) => each.len(),
        AdminReply::LowWatermarks(each) => each.len(),
        AdminReply::Acls(each) => each.len(),
        AdminReply::CreatedAcls(each) => each.len(),
        AdminReply::DeletedAcls(each) => each.len(),
    }
}

fn act(rig: &mut Harness, step: Step, asked: &mut Vec<(u32, Nanos)>) {
    match step {
        Step::Ask { kind, seconds } => {
            let end = rig.fake.now + seconds * SECOND;
            let id = rig.submit_with_timeout(operation(kind), seconds * SECOND);
            asked.push((id, end));
        }
        Step::Forget(id) => {
            if asked.iter().any(|(known, _)| *known == id) && !rig.replies.contains_key(&id) {
                rig.step(OperationsEvent::Cancel(id));
                asked.retain(|(known, _)| *known != id);
            }
        }
        Step::Pass(ms) => rig.advance(ms * MILLI),
        Step::Answer(index, bytes) => {
            if rig.fake.requests.is_empty() {
                return;
            }
            let index = index % rig.fake.requests.len();
            let question = rig.fake.requests.remove(index).unwrap();
            let mut frame = question.correlation.to_be_bytes().to_vec();
            frame.extend(bytes);
            rig.fake.event(ClusterEvent::Frame(question.conn, Frame::from(frame)));
        }
        Step::HangUp(index) => {
            let conns: Vec<_> = rig.fake.open.keys().copied().collect();
            if !conns.is_empty() {
                rig.fake.hang_up(conns[index % conns.len()], CloseReason::Eof);
            }
        }
        Step::Kill(node) => rig.fake.kill(&format!("b{node}"), 9092),
        Step::Revive => rig.fake.down.clear(),
        Step::Lead(node) => rig.fake.set_topic("t", 1, &[(node, 1), (0, 1)]),
        Step::Hide(node) => {
            rig.fake.topics.get_mut("t").unwrap().error =
                if node == 0 { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION } else { ErrorCode::NONE };
        }
    }
    rig.settle();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn every_question_is_answered_once_and_in_time(steps in prop::collection::vec(steps(), 1..60)) {
        let mut rig = Harness::new(&[0, 1, 2], &[("t", 1, &[(0, 0), (1, 0)])]);
        let mut asked = Vec::new();
        for step in steps {
            act(&mut rig, step, &mut asked);
            for (id, end) in &asked {
                prop_assert!(rig.fake.now < *end || rig.replies.contains_key(id), "{id} is late");
            }
        }
        rig.advance(41 * SECOND);
        prop_assert_eq!(rig.operations.deadline(), None);
        prop_assert!(rig.operations.topics().is_empty());
        for (id, _) in &asked {
            let reply = rig.replies.remove(id);
            prop_assert!(reply.is_some_and(|reply| size(&reply) > 0), "{} has no answer", id);
        }
        prop_assert!(rig.replies.is_empty(), "an answer that no caller waits for");
    }
}
